import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.shell_completion import ShellComplete

import forked
from fedkin import __version__
from fedkin.cli import app, main
from fedkin.cli.app import FAILED, INTERRUPTED

HEAVY = ("torch", "sklearn", "scipy", "pandas", "datasets", "plotly", "networkx", "pydantic", "numpy", "rich")


def fedkin(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    return int(end.value.code or 0)


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, toy: None) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("argument", ["--help", "--version", "list"])
def test_light_commands_import_nothing_heavy(argument: str) -> None:
    code = f"""
import sys
from fedkin.cli import app, main
from fedkin.cli.app import FAILED, INTERRUPTED
try:
    main([{argument!r}])
except SystemExit as end:
    print(end.code, [name for name in {HEAVY} if name in sys.modules], file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "0 []\n"
    assert {"--help": "predict", "--version": __version__, "list": "fedcref"}[argument] in done.stdout


def test_the_version_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert fedkin("--version") == 0
    assert capsys.readouterr().out == f"fedkin {__version__}\n"


@pytest.mark.parametrize(
    "command",
    ["federation init", "federation key", *(name for name in app.commands if name not in ("federation", "help"))],
)
def test_every_argument_and_option_is_described(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert fedkin(*command.split(), "--help") == 0
    shown = capsys.readouterr().out
    assert "\\" not in shown
    assert shown.count("Arguments:") <= 1
    assert "Positional" not in shown
    assert max(map(len, shown.splitlines())) <= 100
    found: Any = app
    for word in command.split():
        found = found.commands[word]
    assert all(each.help for each in found.params), command


def test_help_is_asked_for_in_three_ways(capsys: pytest.CaptureFixture[str]) -> None:
    shown = []
    for words in ("run --help", "run -h", "help run"):
        assert fedkin(*words.split()) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1] == shown[2]
    assert fedkin() == 2
    alone = capsys.readouterr().err
    assert fedkin("help") == 0
    assert capsys.readouterr().out == alone


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("rnu", "No such command 'rnu'; did you mean 'run'? See `fedkin --help`."),
        ("xyz", "No such command 'xyz'. See `fedkin --help`."),
        ("help rnu", "No such command 'rnu'; did you mean 'run'? See `fedkin --help`."),
        ("federation inti", "No such command 'inti'; did you mean 'init'? See `fedkin federation --help`."),
        ("run kfed --sede 1", "No such option '--sede'; did you mean '--seed'? See `fedkin run --help`."),
        ("run kfed --rounds 1", "No such option '--rounds'. Any key of the experiment is set by --set KEY=VALUE. See "
                                "`fedkin run --help`."),
        ("costs", "Missing argument 'RUN...'. See `fedkin costs --help`."),
        ("run kfed --seed x", "Invalid value for '--seed': 'x' is not a valid integer. See `fedkin run --help`."),
        ("run kfed more", "Got unexpected extra argument (more). See `fedkin run --help`."),
        ("compare digits --by luck", "Invalid value for '--by': 'luck' is not one of 'score', 'truth'. See "
                                     "`fedkin compare --help`."),
    ],
)  # fmt: skip
def test_wrong_usage_is_one_sentence_with_one_suggestion(
    words: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fedkin(*words.split()) == 2
    assert capsys.readouterr() == ("", f"fedkin: {sentence}\n")


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("fedkin rep", ["report", "reproduce"]),
        ("fedkin run kf", ["kfed"]),
        ("fedkin run kfed --scenario dri", ["drift-swap"]),
        ("fedkin run kfed --engine l", ["local"]),
        ("fedkin predict run wi", ["wine"]),
        ("fedkin list aut", ["autoencoders"]),
        ("fedkin run kfed --dry", ["--dry-run"]),
    ],
)
def test_a_shell_completes_commands_options_and_names(words: str, completed: list[str]) -> None:
    _, *before, last = words.split()
    made = ShellComplete(app, {}, "fedkin", "_FEDKIN_COMPLETE")
    assert [item.value for item in made.get_completions(before, last)] == completed


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_is_printed(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert fedkin("completion", shell) == 0
    script = capsys.readouterr().out
    assert f"_FEDKIN_COMPLETE={shell}_complete" in script
    assert "%(" not in script


def test_output_that_nobody_reads_to_its_end_is_no_error() -> None:
    code = "import os, sys; os.close(1); os.dup2(int(sys.argv[1]), 1); from fedkin.cli import main; main(['list'])"
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([sys.executable, "-c", code, str(writer)], pass_fds=[writer], capture_output=True, text=True)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


def test_lists_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert fedkin("list", "--json") == 0
    assert list(json.loads(capsys.readouterr().out)) == ["methods", "data", "scenarios", "models", "autoencoders"]
    assert fedkin("list", "kfed", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["kind"], found["clusters"], found["finds_k"]) == ("method", "samples", False)
    assert found["options"][0] == {
        "name": "n_clusters", "default": 10, "allowed": "int >= 1", "meaning": "Clusters to find."
    }  # fmt: skip
    assert fedkin("list", "wine") == 0
    assert capsys.readouterr().out.startswith("wine: chemistry of 178 wines")


def test_a_run_for_programs_and_a_quiet_one(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    start = ["run", "toy", "--scenario", "toy", "--clients", "2", "--out"]
    assert fedkin(*start, "a", "--json") == 0
    shown = capsys.readouterr()
    found = json.loads(shown.out)
    assert {key: found[key] for key in ("run", "method", "seed", "step", "missing", "report")} == {
        "run": "a", "method": "toy", "seed": 0, "step": 4, "missing": {}, "report": "a/report.html"
    }  # fmt: skip
    assert found["values"]["first"] is not None
    assert found["seconds"] >= 0
    assert fedkin(*start, "b", "--quiet") == 0
    assert fedkin("resume", "b", "-q") == 0
    assert capsys.readouterr() == ("", "")
    assert (tmp_path / "b" / "report.html").is_file()


def test_a_dry_run_checks_all_and_writes_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from fedkin.experiment.config import load_config

    assert fedkin("run", "kfed", "--clusters", "7", "--dry-run") == 0
    shown = capsys.readouterr().out
    assert shown == load_config("kfed", ["method.n_clusters=7"]).to_toml()
    for words, sentence in (
        ("--data nowhere.csv", "'nowhere.csv' does not exist"),
        ("--set engine.device=cuda:99", "'engine.device'"),
        ("--clusters 0", "'method.n_clusters' is 0 on the command line"),
        ("--out .", ". is not an empty folder"),
    ):
        (tmp_path / "notes.txt").touch()
        assert fedkin("run", "kfed", "--dry-run", *words.split()) == 2
        assert capsys.readouterr().err.startswith(f"fedkin: {sentence}"), words
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_help_cuts_no_command_short(capsys: pytest.CaptureFixture[str]) -> None:
    assert fedkin("--help") == 0
    commands = capsys.readouterr().out.partition("Runs:")[2]
    assert "reproduce" in commands
    assert "..." not in commands


def test_list_has_one_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert fedkin("list") == 0
    lines = capsys.readouterr().out.splitlines()
    assert {line for line in lines if not line.startswith("  ")} == {
        "Methods", "Data", "Scenarios", "Models", "Autoencoders"
    }  # fmt: skip
    assert [line.split()[0] for line in lines[:2]] == ["Methods", "kfed"]
    assert max(map(len, lines)) <= 120


def test_one_section_of_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert fedkin("list") == 0
    everything = capsys.readouterr().out
    parts = []
    for section in ("methods", "data", "scenarios", "models", "autoencoders"):
        assert fedkin("list", section) == 0
        parts.append(capsys.readouterr().out)
    assert "".join(parts) == everything
    assert [part.splitlines()[0] for part in parts] == ["Methods", "Data", "Scenarios", "Models", "Autoencoders"]
    assert [line.split()[0] for line in parts[-1].splitlines()[1:]] == ["dense-autoencoder", "conv-autoencoder"]


def test_list_shows_the_options_of_one_method(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    assert fedkin("list", "kfed") == 0
    first, second, *lines = capsys.readouterr().out.splitlines()
    assert first == "kfed: k-means at every client, and again over the clients' centroids; one round."
    assert second == "Clusters samples; their number is given; samples stay at the clients."
    at = lines.index("  n_clusters = 10          int >= 1")
    assert lines[at + 1] == "      Clusters to find."
    assert '  server = "until-stable"  "until-stable" or "one-round"' in lines
    names = [line.split()[0] for line in lines if re.match(r"  \w", line)]
    assert names == ["n_clusters", "features", "local_clusters", "start", "server", "assign"]
    assert max(map(len, lines)) <= 100


def test_list_shows_the_options_of_one_scenario(capsys: pytest.CaptureFixture[str]) -> None:
    assert fedkin("list", "iid") == 0
    shown = capsys.readouterr().out
    names = [line.split()[0] for line in shown.splitlines() if re.match(r"  \w", line)]
    assert names == ["test_fraction", "samples_per_client", "clients"]
    assert "--set scenario.NAME=VALUE" in shown


def test_list_offers_the_nearest_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert fedkin("list", "kinfed") == 2
    assert capsys.readouterr().err == "fedkin: Unknown name 'kinfed'; did you mean 'kfed'?\n"


def test_preview_shows_who_holds_what(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from fedkin.experiment import registry

    monkeypatch.delitem(registry.SCENARIOS, "toy")
    assert fedkin("list", "scenarios", "--preview", "--data", "iris") == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    lines = shown.out.splitlines()
    names = [line.split()[0] for line in lines if line.startswith("  ") and line[2] != " "]
    assert names == list(registry.SCENARIOS)
    after = lines.index(next(line for line in lines if line.startswith("  iid ")))
    assert lines[after + 1] == "    10 clients; 120 samples to train on; 30 to test; 6 shown"
    assert lines[after + 2].split() == ["client", "train", "test", "setosa", "versicol", "virginic"]


def test_run_resume_report_predict(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert fedkin("run", "toy", "--scenario", "toy", "--clients", "2", "--seed", "4", "--data", "a b/c=d") == 0
    folder = "runs/toy-c-d-seed4"
    shown = capsys.readouterr()
    assert shown.err == ""
    assert ["Steps", "4"] in [line.split() for line in shown.out.splitlines()]
    assert shown.out.splitlines()[-1] == f"Report: {folder}/report.html"
    assert 'source = "a b/c=d"' in (tmp_path / folder / "config.toml").read_text()
    assert fedkin("run", f"{folder}/config.toml") == 0
    assert (tmp_path / f"{folder}-2" / "result.json").read_bytes() == (tmp_path / folder / "result.json").read_bytes()
    assert fedkin("resume", folder) == 0
    assert fedkin("report", folder) == 0
    capsys.readouterr()
    np.savez(tmp_path / "new.npz", x=np.array([[-9.0, 0.0], [9.0, 0.0]], dtype=np.float32))
    assert fedkin("predict", folder, "new.npz") == 0
    assert capsys.readouterr().out == "row,cluster\n0,0\n1,1\n"
    assert fedkin("predict", folder, "new.npz", "--out", "new.csv") == 0
    assert (tmp_path / "new.csv").read_text() == "row,cluster\n0,0\n1,1\n"
    (tmp_path / "both").mkdir()
    for name in ("south", "north"):
        shutil.copy(tmp_path / "new.npz", tmp_path / "both" / f"{name}.npz")
    assert fedkin("predict", folder, "both") == 0
    assert capsys.readouterr().out == "client,row,cluster\nnorth,0,0\nnorth,1,1\nsouth,0,0\nsouth,1,1\n"


def test_clients_are_clustered_and_served(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    quick = ["--clients", "3", "--out", "run", "--set", "method.module=perceptron", "--set", "method.rounds=2"]
    assert fedkin("run", "local", *quick) == 0
    assert capsys.readouterr().err == ""
    assert (tmp_path / "run" / "clients.csv").read_text() == "client,cluster\n0,0\n1,1\n2,2\n"
    assert fedkin("predict", "run", "digits", "--client", "1") == 0
    printed = capsys.readouterr().out
    assert printed.startswith("row,class\n0,")
    assert {line.split(",")[1] for line in printed.splitlines()[1:]} <= set("456")
    assert fedkin("predict", "run", "digits", "--client", "1", "--out", "new.csv") == 0
    assert (tmp_path / "new.csv").read_text() == printed
    rows = np.random.default_rng(0).random((5, 1, 8, 8), dtype=np.float32)
    np.savez(tmp_path / "new.npz", x=rows, y=np.array(["4", "5", "6", "5", "4"]))
    np.savez(tmp_path / "plain.npz", x=rows)
    capsys.readouterr()
    assert fedkin("assign", "run", "new.npz") == 0
    assert capsys.readouterr() == ("1\n", "")
    for arguments, sentence in (
        ("predict run digits", "run has a model per cluster of clients and no --client was given; allowed: 0 to 2."),
        ("predict run digits --client 3", "run has a model per cluster of clients and client 3 does not exist; "),
        ("assign run wine", "'wine' has the class 'class_0', which the run does not know."),
        ("assign run plain.npz", "'plain.npz' has no labels, which a client needs to find its cluster; "),
        ("assign nowhere digits", "'nowhere' does not exist; give the folder of a finished run."),
    ):
        assert fedkin(*arguments.split()) == 2, arguments
        shown = capsys.readouterr()
        assert shown.out == ""
        assert shown.err.startswith(f"fedkin: {sentence}")
        assert shown.err.count("\n") == 1


def test_an_encoder_is_trained_and_goes_on(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from fedkin.nn.encoder import Pretrained

    out = tmp_path / "encoders" / "digits.safetensors"
    command = "pretrain digits --out encoders/digits.safetensors --samples 200 --seed 3 --epochs"
    assert fedkin(*command.split(), "2") == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    made = Pretrained.load(out)
    error = made.about["error"]
    assert shown.out == f"Encoder: encoders/digits.safetensors, mean squared error {error:.4f} after 2 epochs\n"
    assert made.spec == {"name": "dense-autoencoder", "shape": [1, 8, 8], "output": "sigmoid"}
    assert {key: made.about[key] for key in ("data", "samples", "seed", "epochs")} == {
        "data": "digits", "samples": 200, "seed": 3, "epochs": 2
    }  # fmt: skip
    assert fedkin(*command.split(), "3") == 0
    assert capsys.readouterr().out.endswith(" after 3 epochs\n")
    assert fedkin("pretrain", "digits", "--out", "conv", "--model", "conv-autoencoder", "--epochs", "1") == 0
    assert Pretrained.load(tmp_path / "conv").spec["name"] == "conv-autoencoder"
    capsys.readouterr()
    kept = out.read_bytes()
    assert fedkin(*command.replace("--seed 3", "--seed 4").split(), "3") == 2
    assert capsys.readouterr() == (
        "",
        "fedkin: 'encoders/digits.safetensors' holds an encoder that was trained otherwise; give another --out.\n",
    )
    assert out.read_bytes() == kept
    assert {file.name for file in tmp_path.rglob("*") if file.is_file()} == {"digits.safetensors", "conv"}


def test_an_interrupted_encoder_says_how_to_go_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import torch

    from fedkin.nn.encoder import Pretrained
    from fedkin.studies import pretrain

    command = ["pretrain", "digits", "--samples", "100", "--epochs", "2", "--out"]
    assert fedkin(*command, "whole") == 0
    original, calls = pretrain.descend, iter([False, True])

    def interrupt(*arguments: Any) -> Any:
        if next(calls):
            raise KeyboardInterrupt
        return original(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(pretrain, "descend", interrupt)
        capsys.readouterr()
        assert fedkin(*command, "encoder") == 130
    printed = capsys.readouterr()
    assert printed == ("", "fedkin: Interrupted; the same command resumes from the last epoch in encoder.\n")
    assert Pretrained.load(tmp_path / "encoder").about["epochs"] == 1
    assert fedkin(*command, "encoder") == 0
    assert torch.equal(Pretrained.load(tmp_path / "encoder").vector, Pretrained.load(tmp_path / "whole").vector)
    assert {file.name for file in tmp_path.iterdir()} == {"encoder", "whole"}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("run nothing", "Unknown method 'nothing'; "),
        ("run wine.csv", "Unknown method 'wine.csv'; "),
        ("run toy --clients -3 --scenario toy", "'scenario.clients' is -3 on the command line; "),
        ("run toy --scenario files --clients 3", "Unknown key on the command line: 'scenario.clients'; "),
        ("run mine.toml", "Cannot read mine.toml: No such file or directory."),
        ("run toy --scenario toy --out .", ". is not an empty folder; "),
        ("run toy --scenario toy --out notes.txt/run", "Cannot write notes.txt/run/.fedkin.lock: Not a directory."),
        ("run toy --data nowhere.csv", "'nowhere.csv' does not exist"),
        ("resume nowhere", "nowhere holds no run: config.toml is absent."),
        ("report nowhere", "nowhere holds no run: config.toml is absent."),
        ("list everything", "Unknown name 'everything'; "),
        ("list methods --preview", "--preview is for `fedkin list scenarios`, and --data for --preview."),
        ("list scenarios --data wine", "--preview is for `fedkin list scenarios`, and --data for --preview."),
        ("predict nowhere wine", "'nowhere' does not exist; give the folder of a finished run."),
        ("pretrain nowhere.csv --out encoder", "'nowhere.csv' does not exist; "),
        ("pretrain digits --out encoder --epochs 0", "epochs is 0; allowed: 1 or more."),
        ("pretrain digits --out encoder --model lenet5", "Unknown autoencoder 'lenet5'; "),
        ("pretrain wine --out encoder --model conv-autoencoder", "The autoencoder 'conv-autoencoder' was asked for "),
        ("pretrain digits --out notes.txt", "'notes.txt' holds no encoder ("),
        ("pretrain digits --out notes.txt/encoder", "Cannot write notes.txt/encoder: "),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: str, sentence: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert fedkin(*arguments.split()) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith(f"fedkin: {sentence}")
    assert shown.err.count("\n") == 1
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]


def test_a_method_that_cannot_predict_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from toy import Toy

    assert fedkin("run", "toy", "--scenario", "toy", "--out", "run") == 0
    monkeypatch.delattr(Toy, "predict")
    capsys.readouterr()
    assert fedkin("predict", "run", "wine") == 2
    assert capsys.readouterr().err == "fedkin: Method 'toy' of run does not assign new samples to clusters.\n"


def test_an_operating_system_error_is_one_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied", "data.bin")

    monkeypatch.setattr("toy.Blobs.build", refuse)
    assert fedkin("run", "toy", "--scenario", "toy") == 2
    assert capsys.readouterr().err == "fedkin: Permission denied (data.bin).\n"


def test_an_interrupted_command_ends_with_130(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fedkin.experiment.run.report", interrupt)
    assert fedkin("report", "run") == INTERRUPTED
    assert capsys.readouterr().err.strip() == "fedkin: Interrupted."


def test_a_fault_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python ends with a traceback and `FAILED`."""

    def fail(_: object) -> None:
        raise RuntimeError("a fault")

    monkeypatch.setattr("fedkin.experiment.run.report", fail)
    with pytest.raises(RuntimeError, match="a fault"):
        main(["report", "run"])
    assert FAILED == 1


def test_wrong_usage_ends_with_2() -> None:
    assert fedkin("run", "toy", "--seed", "x") == 2
    assert fedkin("walk") == 2
    assert fedkin("pretrain", "digits") == 2


def test_an_interrupted_run_says_how_to_go_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    start = ["run", "toy", "--scenario", "toy", "--out"]
    assert fedkin(*start, "whole") == 0
    monkeypatch.setenv("TOY_INTERRUPT", "2")
    capsys.readouterr()
    assert fedkin(*start, "run") == 130
    assert capsys.readouterr().err == "fedkin: Interrupted; resume with `fedkin resume run`.\n"
    assert len((tmp_path / "run" / "records.jsonl").read_text().splitlines()) == 2
    monkeypatch.delenv("TOY_INTERRUPT")
    assert fedkin("resume", "run") == 0
    for name in ("records.jsonl", "result.json", "models.safetensors", "checkpoint.safetensors", "report.html"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name


def test_interrupted_while_reading_nothing_is_written(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("toy.Blobs.build", interrupt)
    assert fedkin("run", "toy", "--scenario", "toy") == 130
    assert capsys.readouterr().err == "fedkin: Interrupted before anything was written.\n"
    assert list(tmp_path.iterdir()) == []


def test_control_c_reaches_a_run(tmp_path: Path) -> None:
    arguments = shlex.split("run toy --scenario toy --out run --set method.rounds=1000 --set method.pause=0.05")
    program = forked.Program(tmp_path, tmp_path / "log", forked.fedkin, arguments, None, True)
    deadline = time.monotonic() + 300
    while not (tmp_path / "run" / "records.jsonl").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(program.process.pid or 0, signal.SIGINT)
    code, _, complaint = program.ended()
    assert code == 130
    assert complaint == "fedkin: Interrupted; resume with `fedkin resume run`.\n"
    assert not list((tmp_path / "run").rglob("*.partial"))


def test_a_run_is_cut_again_into_a_folder_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--set", "scenario.fraction=0.1", "--set", "evaluation.map=pca", "--out", "run"]
    assert fedkin("run", "kin-graph", *small) == 0
    assert fedkin("cut", "run", "--clusters", "4") == 0
    assert "Clusters found" in capsys.readouterr().out
    assert Path("run-4-clusters/report.html").is_file()
    assert fedkin("cut", "run", "--resolution", "1.5", "--out", "fine") == 0
    assert Path("fine/labels").is_dir()
    capsys.readouterr()
    for arguments, sentence in (
        (["run"], "Give either a number of clusters or a resolution."),
        (["run", "--clusters", "4"], "run-4-clusters is not an empty folder; give another --out."),
        (["run", "--clusters", "0"], "'method.n_clusters' is 0 on the command line"),
        (["nowhere", "--clusters", "2"], "nowhere holds no run"),
    ):
        assert fedkin("cut", *arguments) == 2
        assert capsys.readouterr().err.startswith(f"fedkin: {sentence}")
    assert sorted(path.name for path in Path().iterdir()) == ["fine", "run", "run-4-clusters"]


def test_a_client_is_forgotten_into_a_folder_beside_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--set", "scenario.fraction=0.1", "--set", "evaluation.map=none", "--out", "run", "--quiet"]
    assert fedkin("run", "kfed", *small) == 0
    assert fedkin("forget", "run", "--client", "3", "--dry-run") == 0
    said = "Client 3 will be left out of what the other 9 clients have sent: clusters are formed again"
    assert capsys.readouterr().out.startswith(said)
    assert [path.name for path in Path().iterdir()] == ["run"]
    assert fedkin("forget", "run", "--client", "3") == 0
    printed = capsys.readouterr()
    assert printed.err.startswith(said)
    assert "Report: run-without-3/report.html" in printed.out
    assert fedkin("forget", "run", "--client", "3", "--client", "5", "--retrain", "--in-place", "--quiet") == 0
    assert capsys.readouterr() == ("", "")
    assert json.loads(Path("run/forgotten.json").read_text())[0]["way"] == "retrained"
    for arguments, sentence in (
        (["run"], "Missing option '--client'"),
        (["run", "--client", "3"], "Client 3 of run is forgotten already."),
        (["run", "--client", "north"], "run has no client north; allowed: 0 to 9."),
        (["run", "--client", "1", "--in-place", "-o", "other"], "--in-place and --out were both given"),
        (["nowhere", "--client", "2"], "nowhere holds no run"),
    ):
        assert fedkin("forget", *arguments) == 2
        assert capsys.readouterr().err.startswith(f"fedkin: {sentence}")
    assert sorted(path.name for path in Path().iterdir()) == ["run", "run-without-3"]
