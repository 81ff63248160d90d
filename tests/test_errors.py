"""Bad input at the command line, with the real method and real files: one sentence, the right exit code, no debris."""

import errno
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import forked
from fedkin.cli import main
from fedkin.data.reading.client_files import READERS
from fedkin.methods.samples.fedcref import association

QUICK = "--data wine --clients 3 --set method.initial=kmeans --set method.n_clusters=2 --set method.local_epochs=1"
QUICK += " --set method.rounds=1 --set method.min_steps=0 --set method.max_iterations=2 --set method.stability=1"
QUICK += " --set evaluation.map=pca"
START = f"run fedcref {QUICK} --out run"
READ = ", ".join(READERS)


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def fedkin(command: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(command.split())
    return int(end.value.code or 0)


def files(folder: Path) -> dict[str, bytes]:
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return {name: content for name, content in found.items() if not name.endswith("timing.jsonl")}


def write_inputs(folder: Path) -> None:
    """Every kind of file a user may hand over by mistake."""
    rows = "1,2\n" * 9
    texts = {
        "infinite.csv": "a,label\n1,x\ninf,x\n",
        "unlabelled.csv": f"a,b\n{rows}",
        "headless.csv": f"3,4\n{rows}",
        "empty.csv": "",
        "fake.parquet": "this is text",
        "fake.npz": "this is text",
        "notes.txt": "this is text",
        "mine.toml": '[method]\nname = "fedcref"\nlocal_epoch = 3\n',
        "twice.toml": "seed = 1\nseed = 2\n",
        "clients/a.csv": f"a,b\n{rows}",
        "clients/b.csv": "a,b\n",
        "nothing/readme.txt": "",
    }
    for name, text in texts.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    np.savez(folder / "nan.npz", x=np.array([[1.0, np.nan]]), y=np.array([0]))
    np.savez(folder / "few.npz", x=np.zeros((4, 2)), y=np.array([0, 0, 1, 1]))
    (folder / "folder.toml").mkdir()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        # unknown keys and names
        (
            "--set method.local_epoch=3",
            "Unknown key on the command line: 'method.local_epoch'; did you mean 'method.local_epochs'?",
        ),
        ("--set metod.rounds=3", "Unknown key on the command line: 'metod'; "),
        (
            "--set scenario.class=3",
            "Unknown key on the command line: 'scenario.class'; did you mean 'scenario.n_classes'?",
        ),
        (
            "--set engine.name=flowers",
            "'engine.name' is 'flowers' on the command line; it should be 'local' or 'flower'.",
        ),
        # wrong types
        ("--set method.rounds=2.5", "'method.rounds' is 2.5 on the command line; it should be a valid integer."),
        ("--set method.hidden=16", "'method.hidden' is 16 on the command line; it should be a valid list."),
        (
            "--set method.n_clusters=some",
            "'method.n_clusters' is 'some' on the command line; it should be a valid integer or 'auto' or 'given'.",
        ),
        ("--set method.initial=k-means", "'method.initial' is 'k-means' on the command line; it should be 'auto', "),
        (
            "--set method.learning_rate=nan",
            "'method.learning_rate' is nan on the command line; it should be a finite number.",
        ),
        # numbers out of range
        ("--clients 0", "clients is 0; "),
        ("--clients -3", "clients is -3; "),
        (
            "--set method.rounds=-1",
            "'method.rounds' is -1 on the command line; it should be greater than or equal to 1.",
        ),
        (
            "--set method.hidden=[8,0]",
            "'method.hidden' is [8, 0] on the command line; it should be greater than or equal to 1.",
        ),
        (
            "--set method.stability=1.5",
            "'method.stability' is 1.5 on the command line; it should be less than or equal to 1.",
        ),
        ("--set scenario.samples_per_class=0", "samples_per_class is 0; "),
        ("--set scenario.samples_per_class=-5", "samples_per_class is -5; "),
        ("--set scenario.overlap=2", "overlap is 2"),
        ("--set scenario.dirtiness=-0.5 --set scenario.initial=dirty", "dirtiness is -0.5; "),
        ("--set engine.chunk=0", "'engine.chunk' is 0 on the command line; it should be greater than 0 or 'auto'."),
        # devices
        (
            "--set method.name=kfed --set engine.device=cuda",
            "'engine.device' is 'cuda', and method 'kfed' computes on the processor only; leave it out.",
        ),
        (
            "--set method.name=ccfc --set engine.device=abacus",
            "'engine.device' is 'abacus'; it should be auto or a device of this machine: cpu",
        ),
        (
            "--set method.name=kin-graph --set engine.device=abacus",
            "'engine.device' is 'abacus'; it should be auto or a device of this machine: cpu",
        ),
        # more than there is
        ("--set scenario.n_classes=11", "n_classes is 11; allowed: 1 to 10, the number of classes in 'digits'."),
        ("--data wine --set scenario.n_classes=4", "n_classes is 4; allowed: 1 to 3, the number of classes in 'wine'."),
        ("--set scenario.max_classes=11", "A client would have up to 11 classes, but the data have only 10."),
        (
            "--set scenario.min_classes=5 --set scenario.max_classes=3",
            "Classes per client are 5 to 3; allowed: ",
        ),
        (
            "--data few.npz --set scenario.samples_per_class=3",
            "samples_per_class is 3, but the smallest class has only 2 samples.",
        ),
        (
            "--set scenario.samples_per_class=5000",
            "samples_per_class is 5000, but the smallest class has only 174 samples.",
        ),
        # data that cannot be used
        (
            "--data infinite.csv",
            "Column 'a' of 'infinite.csv' has 1 infinite values in 2 rows; empty these cells, or give --set "
            '\'data.na_values={a=["inf","-inf"]}\'.',
        ),
        ("--data nan.npz", "'nan.npz' has missing or infinite values in 1 of 1 samples; all must be finite float32."),
        (
            "--data unlabelled.csv",
            "'unlabelled.csv' has no labels to partition its samples by; name their column with 'data.label', "
            "or use the scenario 'files' if it holds one file per client.",
        ),
        (
            "--data headless.csv",
            "The first line of 'headless.csv' holds numbers; it must name the columns, or give --set data.header=false",
        ),
        ("--scenario files --data clients", "'clients/b.csv' is empty (0 rows, 2 columns of features)."),
        (
            "--scenario files --data nothing",
            f"'nothing' has no {READ} files; one per client is needed, and it holds",
        ),
        (
            "--scenario files --data absent",
            f"'absent' is not a folder; give one with a file ({READ}) per client.",
        ),
        # files that cannot be read
        ("--data empty.csv", "'empty.csv' cannot be read as .csv (the file is empty)."),
        ("--data fake.parquet", "'fake.parquet' cannot be read as .parquet ("),
        ("--data fake.npz", "'fake.npz' cannot be read as .npz; it must hold plain"),
        (
            "--data notes.txt",
            f"'notes.txt' is a .txt file; allowed: {READ}, or a directory; call it .csv, if it is text.",
        ),
        (
            "--data no-such-data-set",
            "'no-such-data-set' is neither embedded (digits, wine, iris, breast-cancer, blobs) nor a path nor below ",
        ),
        ("twice.toml", "twice.toml is not a TOML file: "),
        ("mine.toml", "Unknown key in mine.toml: 'method.local_epoch'; did you mean 'method.local_epochs'?"),
        ("folder.toml", "Cannot read folder.toml: it is no regular file, but a directory."),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: str, sentence: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    write_inputs(tmp_path)
    before = files(tmp_path)
    experiment = "" if arguments.endswith(".toml") else "fedcref "
    code = fedkin(f"run {experiment}{arguments} --out run")
    shown = capsys.readouterr()
    assert code == 2
    assert shown.out == ""
    assert shown.err.startswith(f"fedkin: {sentence}")
    assert shown.err.count("\n") == 1
    assert "Traceback" not in shown.err
    assert files(tmp_path) == before
    assert not (tmp_path / "run").exists()


def test_data_to_predict_that_do_not_fit_are_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert fedkin(START) == 0
    write_inputs(tmp_path)
    before = files(tmp_path)
    capsys.readouterr()
    for command, sentence in (
        ("predict run few.npz", "The samples have shape (4, 2) and no names of columns, but the model was made for "),
        (
            "predict run nan.npz",
            "'nan.npz' has missing or infinite values in 1 of 1 samples; all must be finite float32.",
        ),
        ("predict run absent.csv", "'absent.csv' does not exist; "),
        ("predict run wine --client 0", "Method 'fedcref' of run clusters samples, not clients; leave --client out."),
        ("assign run wine", "Method 'fedcref' of run clusters samples, not clients; use `fedkin predict`."),
        (
            "predict nothing wine",
            "nothing holds no result to predict with; give a finished run's, or one with its result.json and ",
        ),
        ("predict run wine --out notes.txt/out.csv", "Cannot write notes.txt/out.csv: "),
    ):
        assert fedkin(command) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        assert printed.err.startswith(f"fedkin: {sentence}")
        assert printed.err.count("\n") == 1
        assert files(tmp_path) == before


@pytest.mark.parametrize("moves", [0, 1, 2, 4, 8, 12])
def test_a_full_disk_is_one_sentence_and_the_run_goes_on_later(
    moves: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    room, real = moves, os.fsync

    def sync(handle: int) -> None:
        nonlocal room
        room -= 1
        if room < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", sync)
        assert fedkin(START) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("fedkin: Cannot write run/")
    assert printed.err.endswith(": No space left on device; nothing half-written was left there.\n")
    assert printed.err.count("\n") == 1
    assert not list(tmp_path.rglob("*.partial"))
    whole = START.replace("--out run", "--out whole")
    assert fedkin("resume run" if (tmp_path / "run" / "config.toml").exists() else START) == 0
    assert fedkin(whole) == 0
    assert files(tmp_path / "run") == files(tmp_path / "whole")


def test_a_full_disk_while_the_report_is_written_leaves_the_old_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert fedkin(START) == 0
    before = files(tmp_path)
    capsys.readouterr()

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", refuse)
    assert fedkin("report run") == 2
    sentence = "Cannot write run/report.html: No space left on device; nothing half-written was left there."
    assert capsys.readouterr().err == f"fedkin: {sentence}\n"
    assert files(tmp_path) == before


@pytest.mark.skipif(not hasattr(signal, "SIGXFSZ"), reason="needs a limit on the size of files")
def test_the_operating_system_may_refuse_a_large_file(tmp_path: Path) -> None:
    """No simulation: files of this process may have 4 kB, which the checkpoint exceeds."""
    program = forked.Program(tmp_path, tmp_path / "log", forked.fedkin, START.split(), 4096)
    code, printed, errors = program.ended()
    assert code == 2
    assert printed == ""
    sentence = "Cannot write run/checkpoint.safetensors: File too large; nothing half-written was left there."
    assert errors == f"fedkin: {sentence}\n"
    assert files(tmp_path / "run") == {}


def test_a_closed_output_is_one_sentence() -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "fedkin", "list"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "fedkin: No space left on device.\n")


@pytest.mark.parametrize("exchanges", [1, 4])
def test_control_c_in_the_middle_of_a_step(
    exchanges: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The signal comes while worker threads compute; the run then goes on to the same files."""
    real, calls = association.held_out_rows, 0

    def judges(*arguments: object) -> object:
        nonlocal calls
        calls += 1
        if calls == exchanges:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        return real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(association, "held_out_rows", judges)
        assert fedkin(START) == 130
    assert capsys.readouterr() == ("", "fedkin: Interrupted; resume with `fedkin resume run`.\n")
    assert not list(tmp_path.rglob("*.partial"))
    assert fedkin("resume run") == 0
    assert fedkin(START.replace("--out run", "--out whole")) == 0
    assert files(tmp_path / "run") == files(tmp_path / "whole")
