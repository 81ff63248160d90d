"""The benchmark on tables: rows go where they should, and cells are computed once."""

from __future__ import annotations

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
