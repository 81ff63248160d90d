"""Lists of names, and options of one method or scenario."""

import json
import re

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
