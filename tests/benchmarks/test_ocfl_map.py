"""The map of OCFL goes on where it stopped, and its table has the mean over seeds."""

import json
from pathlib import Path
from types import ModuleType

import pytest


def call(benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch, what: str, file: Path) -> None:
    options = ["--data", "digits", "--samples", "30", "--clients", "8", "--participation", "1", "--seeds", "0", "1"]
    monkeypatch.setattr("sys.argv", ["ocfl_map.py", what, str(file), *options])
    benchmark.main()


def test_a_map_goes_on_where_it_stopped(
    benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "map.jsonl"
    known = {
        "data": "digits", "scenario": "label-flip", "samples": 30, "clients": 8, "participation": 1.0,
        "clusterer": "hdbscan", "seed": 0,
    }  # fmt: skip
    file.write_text(json.dumps(known | {"ari": 0.25, "found": 2, "round": 2}) + "\n")
    call(benchmark, monkeypatch, "run", file)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(line["seed"], line["clusterer"]) for line in lines] == [
        (0, "hdbscan"), (0, "linkage"), (1, "hdbscan"), (1, "linkage")
    ]  # fmt: skip
    assert lines[0]["ari"] == 0.25
    assert all(2 <= line["round"] <= benchmark.ROUNDS and 1 <= line["found"] <= 8 for line in lines[1:])
    call(benchmark, monkeypatch, "run", file)
    assert len(file.read_text().splitlines()) == 4
    call(benchmark, monkeypatch, "show", file)
    mean = (0.25 + lines[2]["ari"]) / 2
    assert f"| label-flip | 30 | 8 | {mean:.2f} ± " in capsys.readouterr().out
