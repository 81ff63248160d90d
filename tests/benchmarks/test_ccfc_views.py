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
    for seed in (0, 1):
        given = benchmark.settings(seed, "pillow", "own", 0.1, [2, 1], 16)
        given |= {"data.source": "digits", "method.latent": 8, "method.restarts": 1}
        benchmark.run(tmp_path / f"pillow-own-s{seed}", "ccfc", given)
    lines = benchmark.table(tmp_path)
    assert len(lines) == 3
    cells = [cell.strip() for cell in lines[2].strip("|").split("|")]
    assert cells[:3] == ["pillow", "own", "2"]
    last = [benchmark.records(tmp_path / f"pillow-own-s{seed}")[-1]["metrics"]["nmi"] for seed in (0, 1)]
    assert cells[5].startswith(f"{sum(last) / 2:.3f} ± ")
    assert cells[3] != cells[5]


def test_views_of_an_image_without_edges_have_none(benchmark: ModuleType) -> None:
    lines = benchmark.measured(torch.zeros(50, 1, 28, 28))
    assert [line.split("|")[3].strip() for line in lines[2:]] == ["0.0000", "0.0000"]
    areas = [float(line.split("|")[4]) for line in lines[2:]]
    assert areas == [pytest.approx(0.69, abs=0.05)] * 2
