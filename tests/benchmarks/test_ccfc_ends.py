"""The authors' code to its end: a line for every round, and a table beside runs of fedkin."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest


def test_every_round_has_a_line_and_every_tenth_is_shown(
    benchmark: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchmark, "VIEW_ROUNDS", 20)
    truth, lines = np.array([0, 0, 1, 1]), tmp_path / "lines.jsonl"
    found = [truth] * 20 + [1 - truth] + [np.array([0, 0, 1, 0])] * 10
    cluster = benchmark.scored(lambda *_: (found.pop(0), "more"), lines)
    while found:
        assert cluster(None, None, None, truth, "cpu")[1] == "more"
    kept = [json.loads(line) for line in lines.read_text().splitlines()]
    assert [(line["phase"], line["round"]) for line in kept[19:22]] == [("views", 20), ("clusters", 0), ("clusters", 1)]
    run = tmp_path / "runs" / "pillow-own-p0-s0"
    run.mkdir(parents=True)
    records = [{"step": step, "values": {"phase": "views"}, "metrics": {}} for step in range(1, 20)]
    records.append({"step": 20, "values": {"phase": "views"}, "metrics": {"nmi": 0.5, "kappa": 0.25}})
    records.append({"step": 30, "values": {"phase": "clusters"}, "metrics": {"nmi": 0.75, "kappa": 0.5}})
    (run / "records.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    assert benchmark.table(lines, tmp_path / "runs") == [
        "| round | authors' code | pillow-own-p0-s0 |",
        "|---|---|---|",
        "| views, 10 | 1.000 / 1.000 | – |",
        "| views, 20 | 1.000 / 1.000 | 0.500 / 0.250 |",
        "| clusters, 10 | 0.344 / 0.500 | 0.750 / 0.500 |",
        "| clusters, 20 | – | – |",
        "| clusters, 30 | – | – |",
    ]


def test_with_few_k_means_every_tenth_round_by_views_and_all_later_ones_are_scored(
    benchmark: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchmark, "VIEW_ROUNDS", 20)
    truth, lines = np.array([0, 0, 1, 1]), tmp_path / "lines.jsonl"
    centre = benchmark.now_and_then(lambda *_: "centroids")
    cluster = benchmark.scored(lambda loader, common, centroids, *_: (truth, centroids), lines)
    for _ in range(23):
        cluster(None, None, centre(None), truth, "cpu")
    kept = [json.loads(line) for line in lines.read_text().splitlines()]
    assert [(line["phase"], line["round"]) for line in kept] == [
        ("views", 10), ("views", 20), ("clusters", 0), ("clusters", 1), ("clusters", 2)
    ]  # fmt: skip
