"""The benchmark on tables: rows go where they should, and cells are computed once."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st


@given(st.integers(2, 6), st.integers(2, 12), st.sampled_from(["random", "skew"]), st.integers(0, 99))
def test_every_row_is_at_one_client_and_every_client_lacks_classes(
    benchmark: ModuleType, classes: int, clients: int, how: str, seed: int
) -> None:
    labels = np.repeat(np.arange(-1, classes), 40)
    parts = benchmark.partition(labels, clients, how, benchmark.generator(seed))
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(len(labels)))
    held = [set(labels[part]) - {-1} for part in parts]
    if how == "skew":
        assert all(0 < len(some) < classes for some in held)


def test_columns_are_added_and_cells_emptied(benchmark: ModuleType) -> None:
    frame, labels = benchmark.table("iris", "plain", 0)
    assert (len(labels), set(labels)) == (150, {0, 1, 2})
    for variant, distinct in (("number-4", 150), ("binary-1", 2), ("category-8", 4)):
        more = benchmark.table("iris", variant, 0)[0]
        pd.testing.assert_frame_equal(more[frame.columns], frame)
        added = more.drop(columns=frame.columns)
        assert added.shape[1] == int(variant.split("-")[1])
        assert set(added.nunique()) == {distinct}
    missing = benchmark.table("iris", "missing", 0)[0]
    assert missing.isna().to_numpy().mean() == pytest.approx(0.1, abs=0.04)
    pd.testing.assert_frame_equal(missing, benchmark.table("iris", "missing", 0)[0])
    assert not missing.equals(benchmark.table("iris", "missing", 1)[0])


def test_cells_are_appended_once_and_failures_are_lines(benchmark: ModuleType, tmp_path: Path) -> None:
    out = tmp_path / "cells.csv"
    few = ["--tables", "iris", "--variants", "plain", "--clients", "3", "--seeds", "0", "--partitions", "random"]
    benchmark.main(["run", str(out), *few, "--methods", "kin-graph", "Ward"])
    first = out.read_text()
    assert len(first.splitlines()) == 1 + 3
    benchmark.main(["run", str(out), *few, "--methods", "kin-graph", "Ward", "k-means"])
    assert out.read_text().startswith(first)
    lines = pd.read_csv(out)
    assert lines.method.tolist() == ["Ward", "kin-graph", "kin-graph", "k-means"]
    assert lines.ari.between(0.3, 1).all()
    for markdown in (False, True):
        assert "0.62" in benchmark.summary(lines, markdown)

    def fails() -> None:
        raise ValueError("It cannot\nbe done.")

    cell = benchmark.scored(benchmark.Cell("iris", "plain", 0, 3, "random", "Ward", True), fails, np.zeros(9))
    assert (cell.failure, cell.clusters) == ("It cannot be done.", 0)
    assert np.isnan(cell.ari)


def test_gaps_are_to_the_best_that_is_given_as_much(benchmark: ModuleType) -> None:
    columns = ["table", "variant", "seed", "place", "method", "k", "ari"]
    lines = pd.DataFrame(
        [
            ["a", "plain", 0, "3 skew", "kin-graph", "found", 0.5],
            ["a", "plain", 1, "3 skew", "kin-graph", "found", 0.7],
            ["a", "plain", 0, "together", "HDBSCAN", "found", 0.8],
            ["a", "plain", 0, "together", "Gaussian mixture, BIC", "found", 0.4],
            ["a", "plain", 0, "together", "Ward", "given", 1.0],
        ],
        columns=columns,
    )
    gaps = benchmark.gap_table(lines)
    assert gaps[["kin-graph", "best", "its ARI"]].to_numpy().tolist() == [[0.6, "HDBSCAN", 0.8]]
    assert gaps.gap.item() == pytest.approx(0.2)


def test_rivals_cluster_the_same_rows_and_a_page_shows_them_by_table(benchmark: ModuleType, tmp_path: Path) -> None:
    out = tmp_path / "cells.csv"
    few = ["--tables", "digit-images", "--clients", "3", "--seeds", "0", "--partitions", "random"]
    methods = ["--methods", "MUFC", "AFCL", "FedDP-KMeans, epsilon 10", "without server's rows, epsilon 1"]
    benchmark.main(["run", str(out), "--rivals", *few, *methods])
    lines = pd.read_csv(out)
    assert lines.failure.isna().all()
    scores = dict(zip(lines.method, lines.ari, strict=True))
    assert set(scores) == set(methods[1:])
    assert scores["FedDP-KMeans, epsilon 10"] > 0.4 > scores["without server's rows, epsilon 1"]
    assert "| digit-images |" in benchmark.by_table(lines, markdown=True)
    assert "AFCL, found: clusters" in benchmark.by_table(lines)
