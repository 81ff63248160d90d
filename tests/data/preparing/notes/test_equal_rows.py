"""Rows that are equal by chance are no copies."""

import numpy as np
import pandas as pd
import pytest

from fedkin.data.preparing.notes.equal_rows import are_copies
from fedkin.data.reading.tables import frame_to_dataset


def visits(decimals: int, rows: int = 350, seed: int = 0) -> pd.DataFrame:
    """Return categories and a rounded number, both of which depend on a group."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 3, rows)
    codes = {f"c{at}": np.where(rng.random(rows) < 0.9, group, rng.integers(0, 3, rows)) for at in range(4)}
    words = {name: np.array(["x", "y", "z"])[code] for name, code in codes.items()}
    return pd.DataFrame({**words, "usage": rng.normal(np.array([20, 35, 60])[group], 9).round(decimals)})


def copied(frame: pd.DataFrame) -> bool:
    return are_copies(frame_to_dataset(frame, "a", "a").table)


@pytest.mark.parametrize("seed", range(5))
def test_rounded_numbers_beside_categories_are_equal_by_chance(seed):
    frame = visits(1, seed=seed)
    assert frame.duplicated().sum() > 5
    assert not copied(frame)
    assert copied(pd.concat([frame, frame[:70]]))
    assert not copied(frame.assign(usage=frame["usage"] * 5))  # in other steps
    assert not copied(frame.assign(usage=frame["usage"].where(frame.index % 9 > 0)))


def test_numbers_that_are_not_rounded_are_never_equal_by_chance():
    frame = visits(15)
    assert copied(pd.concat([frame, frame[:3]]))
    assert copied(pd.concat([frame.assign(usage=frame["usage"] * 1e15), frame[:3].assign(usage=1e18)] * 2))


def test_columns_without_a_cell_have_no_steps():
    frame = visits(1)
    assert copied(pd.concat([frame.assign(usage=np.nan)] * 2))
