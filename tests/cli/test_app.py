"""How commands end: exit codes, one sentence for what a user can cause, a traceback for a fault."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fedkin.cli import main
from fedkin.cli.app import FAILED
from shell import fedkin

HEAVY = ("torch", "sklearn", "scipy", "pandas", "datasets", "plotly", "networkx", "pydantic", "numpy", "rich")


REFUSED = [
    *(f"{command} nowhere" for command in ("resume", "cut", "cluster")),
    *("predict . nowhere.csv", "run nosuch", "run kfed nowhere.csv", "run kfed --scenario nosuch", "run nowhere.toml"),
    *("run --seed x", "compare nosuch", "pretrain nowhere.csv --out encoder", "list nosuch", "resume"),
    *("compare digits --methods kfed,nosuch", "run kfed --rounds 3"),
]
"""Commands whose arguments, names and paths alone are wrong."""


@pytest.mark.parametrize(("words", "code"), [(words, 0) for words in ("--help", "--version", "list")]
                         + [(words, 2) for words in REFUSED])  # fmt: skip
def test_nothing_heavy_is_imported_to_show_help_or_to_refuse(words: str, code: int, tmp_path: Path) -> None:
    """Half a second, instead of the five that torch and the rest take."""
    program = f"""
import sys
from fedkin.cli import app, main
from fedkin.cli.app import FAILED, INTERRUPTED
try:
    main({words.split()!r})
except SystemExit as end:
    print(end.code, [name for name in {HEAVY} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.splitlines()[-1] == f"{code} []"
    assert not code or done.stderr.count("\n") == 1 or words == "resume"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("rnu", "No such command 'rnu'"),
        ("run kfed --local-clusters 1", "No such option '--local-clusters'."),
        ("run kfed --seed x", "Invalid value for '--seed': 'x' is not a valid integer. See `fedkin run --help`."),
        ("run kfed wine --data wine", "Data are one file or folder; put the files of several clients into a folder."),
        ("cluster wine iris", "Data are one file or folder; put the files of several clients into a folder."),
        ("run .", "'.' is no method; name one first, such as kin-graph"),
        ("run toy --scenario files --clients 3", "Unknown key in the settings: 'simulation.clients'"),
        ("run toy --scenario toy --out .", ". is not an empty folder; "),
        ("pretrain wine --out encoder --model conv-autoencoder", "The autoencoder 'conv-autoencoder' was asked for "),
        ("pretrain digits --out notes.txt/encoder", "Cannot write notes.txt/encoder: "),
    ],
)
def test_bad_input_is_one_sentence(
    words: str, sentence: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert fedkin(*words.split()) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith(f"fedkin: {sentence}")
    assert shown.err.count("\n") == 1
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]


def test_a_fault_is_not_hidden(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Python ends with a traceback and `FAILED`."""

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("a fault")

    monkeypatch.setattr("fedkin.experiment.run.resume", fail)
    with pytest.raises(RuntimeError, match="a fault"):
        main(["resume", str(tmp_path)])
    assert FAILED == 1


def test_output_that_nobody_reads_to_its_end_is_no_error() -> None:
    code = "import os, sys; os.close(1); os.dup2(int(sys.argv[1]), 1); from fedkin.cli import main; main(['list'])"
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([sys.executable, "-c", code, str(writer)], pass_fds=[writer], capture_output=True, text=True)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_no_name_steers_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with pytest.raises(SystemExit):
        main(["resume", "a\x1b]0;title\x07\u202eb"])
    assert screen.getvalue().endswith("\n")
    assert not {"\x1b", "\x07", "\u202e"} & set(screen.getvalue())
    assert sys.stderr is screen
