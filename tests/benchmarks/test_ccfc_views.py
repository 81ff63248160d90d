"""The benchmark on CCFC's views: cells differ in what they are named after, and the table has what the runs found."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
import torch


def test_cells_differ_in_views_and_starts_alone(benchmark: ModuleType) -> None:
    one = benchmark.settings(0, "affine", "own", 0.5, [4, 2], 8)
    other = benchmark.settings(0, "pillow", "common", 0.5, [4, 2], 8)
    assert {key for key in one if one[key] != other[key]} == {"method.views", "method.start"}


def test_the_table_has_the_last_figures_of_either_phase(benchmark: ModuleType, tmp_path: Path) -> None:
    given = benchmark.settings(1, "pillow", "own", 0.1, [2, 1], 16)
    given |= {"data.source": "digits", "method.latent": 8, "method.restarts": 1}
    folder = tmp_path / "pillow-own-p0-s1"
    benchmark.run(folder, "ccfc", given)
    views, clusters = (line["metrics"] for line in benchmark.records(folder)[-2:])
    figures = [f"{metrics[name]:.3f}" for metrics in (views, clusters) for name in ("nmi", "kappa")]
    best = figures[2]
    assert benchmark.table(tmp_path)[2:] == [f"| pillow | own | 0 | 1 | {' | '.join([*figures, best])} |"]
    assert benchmark.ends(tmp_path) == {"pillow-own-p0-s1": clusters["nmi"]}
    kept = (folder / "records.jsonl").read_text().splitlines(keepends=True)[:-1]
    (folder / "SHA256SUMS").unlink()
    (folder / "records.jsonl").write_text("".join(kept))
    assert benchmark.table(tmp_path)[2:] == [f"| pillow | own | 0 | 1 | {' | '.join(figures[:2])} | – | – | – |"]


def test_views_of_an_image_without_edges_have_none(benchmark: ModuleType) -> None:
    lines = benchmark.measured(torch.zeros(50, 1, 28, 28))
    assert [line.split("|")[3].strip() for line in lines[2:]] == ["0.0000", "0.0000"]
    areas = [float(line.split("|")[4]) for line in lines[2:]]
    assert areas == [pytest.approx(0.69, abs=0.05)] * 2
