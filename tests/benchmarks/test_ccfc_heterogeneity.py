"""The ablation of CCFC by heterogeneity: variants differ in what they are named after, and the table has their ends."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
import torch


@pytest.mark.parametrize(
    ("variant", "changed"),
    [
        ("plain", {}),
        ("decorrelated-0.1", {"method.decorrelation": 0.1}),
        ("guided", {"method.guide": "kin-graph"}),
        ("guided-2", {"method.guide": "kin-graph", "method.decorrelation": 2.0}),
    ],
)
def test_variants_change_what_they_say(benchmark: ModuleType, variant: str, changed: dict[str, object]) -> None:
    plain, own = (benchmark.settings(name, 0.5, 1, [2, 1]) for name in ("plain", variant))
    assert {key: value for key, value in own.items() if plain.get(key) != value} == changed


def test_other_variants_are_refused(benchmark: ModuleType) -> None:
    with pytest.raises(SystemExit, match="'entangled' is no variant"):
        benchmark.settings("entangled", 0.5, 1, [2, 1])


def test_dimensions_are_those_that_vary(benchmark: ModuleType) -> None:
    points = torch.randn(4000, 5, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0, 1, 1, 0, 0])
    assert benchmark.dimensions(points) == pytest.approx(3, abs=0.01)


def test_the_table_has_a_row_for_each_variant(benchmark: ModuleType, tmp_path: Path) -> None:
    given = {"data.source": "digits", "method.latent": 8, "method.restarts": 1, "scenario.fraction": 0.1}
    cell = benchmark.settings("plain", 0.5, 0, [1, 1]) | given
    benchmark.run(benchmark.folder_of(tmp_path, "plain", 0.5, 0), "ccfc", cell)
    lines = benchmark.table(tmp_path)
    assert len(lines) == 3
    assert lines[2].startswith("| 0.5 | plain | 1 | 0.")
    last = benchmark.records(tmp_path / "plain-p0.5-s0")[-1]["metrics"]
    assert f"| {last['nmi']:.3f} | {last['kappa']:.3f} |" in lines[2]
