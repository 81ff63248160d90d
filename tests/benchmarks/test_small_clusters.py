"""Many clusters of few samples by one command, on one table."""

import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest


def test_it_appends_skips_and_shows(
    benchmark: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {"FORMS": ("round",), "COLUMNS": (7,), "CLUSTERS": (20,), "ROWS_EACH": (20,)}.items():
        monkeypatch.setattr(benchmark, name, value)
    out = tmp_path / "out.jsonl"
    monkeypatch.setattr("sys.argv", ["it", str(out), "--groups", "clouds", "--seeds", "0"])
    used = benchmark.node_clusters.small_clusters
    for _ in range(2):
        benchmark.main()
    assert benchmark.node_clusters.small_clusters is used
    (line,) = [json.loads(line) for line in out.read_text().splitlines()]
    found = dict(zip(benchmark.METHODS, line["found"], strict=True))
    assert found["with, found"][0] > found["without, found"][0] + 0.1
    assert found["with, given"][0] > found["without, given"][0]
    printed = capsys.readouterr().out.splitlines()
    assert printed[:3] == printed[3:]
    assert printed[2].startswith("| 20 clouds of 20 rows | 1 | ")


def test_every_table_is_drawn_as_it_says(benchmark: ModuleType) -> None:
    for name, draw in benchmark.tables("clouds"):
        _, width, number, each = name.split(", ")
        x, truth = draw(3)
        assert x.shape == (int(number) * int(each), int(width))
        assert len(np.unique(truth)) <= int(number)
    for name, draw in benchmark.tables("none"):
        x, truth = draw(3)
        assert x.shape == tuple(map(int, name.split(", ")[:0:-1]))
        assert not truth.any()
