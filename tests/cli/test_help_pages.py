"""The help: everything described, nothing cut short."""

import json
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
