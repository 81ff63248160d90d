"""Small clusters and few categories by one command, on one table of each."""

import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest


def test_it_appends_skips_and_shows(
    benchmark: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    few = {"FORMS": ("round",), "COLUMNS": (7,), "CLUSTERS": (20,), "ROWS_EACH": (20,)}
    few |= {"BESIDE": ((4,), (3,), (1,), (0.7,), (900,))}
    few |= {"CLASSES": (3,), "CATEGORIES": (5,), "NUMBERS": (1,), "PURITY": (0.9,), "CATEGORY_ROWS": (450,)}
    for name, value in few.items():
        monkeypatch.setattr(benchmark, name, value)
    out = tmp_path / "out.jsonl"
    monkeypatch.setattr("sys.argv", ["it", str(out), "--groups", "clouds", "categories", "beside", "--seeds", "0"])
    used = benchmark.node_clusters.small_clusters
    for _ in range(2):
        benchmark.main()
    assert benchmark.node_clusters.small_clusters is used
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["table"] for line in lines] == ["round, 7, 20, 20", "3, 5, 1, 0.9, 450", "beside, 4, 3, 1, 0.7, 900"]
    for line in lines:
        found = dict(zip(benchmark.METHODS, line["found"], strict=True))
        assert line["group"] != "clouds" or found["with, found"][0] > found["without, found"][0] + 0.1
        assert found["with, found"][0] > found["without, found"][0] - 0.05
        assert found["with, given"][0] >= found["without, given"][0]
    printed = capsys.readouterr().out.splitlines()
    assert printed[:5] == printed[5:]
    assert printed[2].startswith("| 20 clouds of 20 rows | 1 | ")
    assert printed[3].startswith("| 5 categories, 1 number | 1 | ")
    assert printed[4].startswith("| 1 number beside 3 categories | 1 | ")


def test_every_table_is_drawn_as_it_says(benchmark: ModuleType) -> None:
    for name, draw in benchmark.tables("clouds"):
        _, width, number, each = name.split(", ")
        x, truth = draw(3)
        assert x.shape == (int(number) * int(each), int(width))
        assert len(np.unique(truth)) <= int(number)
    for name, draw in benchmark.tables("categories"):
        classes, categories, numbers, _, rows = name.split(", ")
        frame, truth = draw(3)
        assert frame.shape == (int(rows), int(categories) + int(numbers))
        assert len(np.unique(truth)) == int(classes)
    for name, draw in benchmark.tables("beside"):
        _, clusters, categories, numbers, _, rows = name.split(", ")
        frame, truth = draw(3)
        assert frame.shape == (int(rows), int(categories) + int(numbers))
        assert len(np.unique(truth)) == int(clusters)
    for name, draw in benchmark.tables("none"):
        x, truth = draw(3)
        assert x.shape == tuple(map(int, name.split(", ")[:0:-1]))
        assert not truth.any()
