"""The help: everything described, nothing cut short."""

from typing import Any

import pytest

from fedkin.cli import app
from shell import fedkin


@pytest.mark.parametrize(
    "command",
    ["federation init", "federation key", "federation sites", *app.commands],
)
def test_every_argument_and_option_is_described_in_lines_of_a_terminal(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert fedkin(*command.split(), "--help") == 0
    shown = capsys.readouterr().out
    assert "\\" not in shown
    assert shown.count("Arguments:") <= 1
    assert "Positional" not in shown
    assert max(map(len, shown.splitlines())) <= 80
    found: Any = app
    for word in command.split():
        found = found.commands[word]
    assert all(each.help for each in found.params), command


def test_help_is_asked_for_in_three_ways(capsys: pytest.CaptureFixture[str]) -> None:
    shown = []
    for words in ("run --help", "run -h", "help run", "federation init --help", "help federation init"):
        assert fedkin(*words.split()) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1] == shown[2]
    assert shown[3] == shown[4]
    assert fedkin() == 2
    alone = capsys.readouterr().err
    assert fedkin("help") == 0
    assert capsys.readouterr().out == alone


@pytest.mark.parametrize(
    ("words", "title", "last"), [("--help", "Runs:", "list"), ("help federation", "Commands:", "sites")]
)
def test_help_cuts_no_command_short(words: str, title: str, last: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert fedkin(*words.split()) == 0
    commands = capsys.readouterr().out.partition(title)[2]
    assert commands.splitlines()[-1].split()[0] == last
    assert "..." not in commands
