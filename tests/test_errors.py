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
from fedkin.methods.samples.fedcref import association

QUICK = "--data wine --clients 3 --set method.initial=kmeans --set method.n_clusters=2 --set method.local_epochs=1"
QUICK += " --set method.rounds=1 --set method.min_steps=0 --set method.max_iterations=2 --set method.stability=1"
QUICK += " --set evaluation.map=pca"
START = f"run fedcref {QUICK} --out run"


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
    """Kinds of files that a user may hand over by mistake."""
    texts = {
        "infinite.csv": "a,label\n1,x\n1e300,x\n", "empty.csv": "", "notes.txt": "this is text",
        "mine.toml": '[method]\nname = "fedcref"\nlocal_epoch = 3\n', "twice.toml": "seed = 1\nseed = 2\n",
        "clients/a.csv": "a,b\n" + "1,2\n" * 9, "clients/b.csv": "a,b\n", "nothing/readme.txt": "",
    }  # fmt: skip
    for name, text in texts.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    np.savez(folder / "nan.npz", x=np.array([[1.0, np.nan]]), y=np.array([0]))
    np.savez(folder / "few.npz", x=np.zeros((4, 2)), y=np.array([0, 0, 1, 1]))
    (folder / "folder.toml").mkdir()


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ("--set method.local_epoch=3", "did you mean 'method.local_epochs'?"),
        ("--set method.rounds=2.5", "'method.rounds' is 2.5"),
        ("--set method.hidden=[8,0]", "'method.hidden' is [8, 0]"),
        ("--clients -3", "'simulation.clients' is -3"),
        ("--set method.name=ccfc --set device.name=abacus", "'device.name' is 'abacus'"),
        ("--set simulation.n_classes=11", "n_classes is 11"),
        ("--data few.npz --set simulation.samples_per_class=3", "samples_per_class is 3"),
        ("--data infinite.csv", "Column 'a' of 'infinite.csv'"),
        ("--data nan.npz", "'nan.npz' has missing or infinite values"),
        ("--scenario files --data clients", "'clients/b.csv' is empty"),
        ("--scenario files --data nothing", "'nothing' has no "),
        ("--data empty.csv", "'empty.csv' cannot be read"),
        ("--data notes.txt", "'notes.txt' is a .txt file"),
        ("twice.toml", "twice.toml is not a TOML file"),
        ("mine.toml", "did you mean 'method.local_epochs'?"),
        ("folder.toml", "Cannot read folder.toml"),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: str, word: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    write_inputs(tmp_path)
    before = files(tmp_path)
    experiment = "" if arguments.endswith(".toml") else "fedcref "
    code = fedkin(f"run {experiment}{arguments} --out run")
    shown = capsys.readouterr()
    assert code == 2
    assert shown.out == ""
    assert shown.err.startswith("fedkin: ")
    assert word in shown.err
    assert shown.err.count("\n") == 1
    assert "Traceback" not in shown.err
    assert files(tmp_path) == before
    assert not (tmp_path / "run").exists()


def test_data_to_predict_that_do_not_fit_are_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert fedkin(START) == 0
    write_inputs(tmp_path)
    before = files(tmp_path)
    capsys.readouterr()
    for command, word in (
        ("predict run few.npz", "shape (4, 2)"),
        ("predict run nan.npz", "'nan.npz'"),
        ("predict run absent.csv", "'absent.csv'"),
        ("predict run wine --client 0", "--client"),
        ("assign run wine", "`fedkin predict`"),
        ("predict nothing wine", "no result"),
        ("predict run wine --out notes.txt/out.csv", "notes.txt/out.csv"),
    ):
        assert fedkin(command) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        assert printed.err.startswith("fedkin: ")
        assert word in printed.err
        assert printed.err.count("\n") == 1
        assert files(tmp_path) == before


def test_a_full_disk_while_the_report_is_written_leaves_the_old_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert fedkin(START) == 0
    before = files(tmp_path)
    capsys.readouterr()

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", refuse)
    assert fedkin("resume run") == 2
    assert "No space left on device; nothing half-written was left there." in capsys.readouterr().err
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
