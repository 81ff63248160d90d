"""The help: everything described, nothing cut short."""

from typing import Any

import pytest

from fedkin.cli import app
from shell import fedkin


@pytest.mark.parametrize(
    "command",
    ["federation init", "federation key", *app.commands],
)
def test_every_argument_and_option_is_described_in_lines_of_a_terminal(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert fedkin(*command.split(), "--help") == 0
    shown = capsys.readouterr().out
    assert "\\" not in shown
    assert max(map(len, shown.splitlines())) <= 80
    found: Any = app
    for word in command.split():
        found = found.commands[word]
    assert all(each.help for each in found.params), command
