"""Lists of names, and options of one method or scenario."""

import json

import pytest

from shell import fedkin


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
