"""The benchmark on tables: rows go where they should."""

from __future__ import annotations

from types import ModuleType

import numpy as np
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
