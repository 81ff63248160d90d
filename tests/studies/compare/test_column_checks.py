import numpy as np
import pandas as pd
import pytest
import torch

from fedkin.studies.compare.column_checks import chance_cohesion, explaining_column
from fedkin.studies.compare.criteria import cohesion
from fedkin.studies.compare.spaces import points_of, space_of_points

RNG = np.random.default_rng(0)
SAMPLES = 150
CLOUD = np.repeat(np.arange(3), SAMPLES // 3)
SIZES = [50, 50, 50]


def one_hot(values: np.ndarray) -> np.ndarray:
    found = pd.get_dummies(pd.Series(values)).to_numpy(dtype=float)
    found = found - found.mean(0)
    return found / np.sqrt((found**2).mean(0).sum())


def test_a_column_explains_clusters_along_itself_alone() -> None:
    kind = RNG.choice(4, SAMPLES)
    x = np.hstack([RNG.normal(size=(SAMPLES, 3)), one_hot(kind)])
    blocks = [("a", 0, 1), ("b", 1, 2), ("c", 2, 3), ("kind", 3, 7)]
    assert explaining_column(x, blocks, kind) == "kind"
    assert explaining_column(x, blocks, np.where(RNG.random(SAMPLES) < 0.02, -1, kind)) == "kind"
    assert explaining_column(x, blocks, RNG.choice(4, SAMPLES)) is None  # none predicts them
    assert explaining_column(x[:, 3:], blocks[:1], kind) is None  # of a single column there are no others


def test_a_column_on_which_others_agree_explains_nothing_alone() -> None:
    x = np.stack([9.0 * CLOUD, 9.0 * CLOUD, np.zeros(SAMPLES)], 1) + RNG.normal(size=(SAMPLES, 3))
    assert explaining_column(x, [("a", 0, 1), ("b", 1, 2), ("c", 2, 3)], CLOUD) is None


def test_clusters_that_columns_show_together_are_better_than_chance() -> None:
    centres = np.array([[0, 0, 0, 0], [6, 6, 0, 6], [0, 6, 6, 0]])
    x = centres[CLOUD] + RNG.normal(size=(SAMPLES, 4))
    rows = RNG.permutation(SAMPLES)
    x, truth = x[rows], CLOUD[rows]
    blocks = [(str(i), i, i + 1) for i in range(4)]
    found = cohesion(space_of_points(np.arange(SAMPLES), points_of(torch.from_numpy(x)), SIZES), truth)
    assert found > chance_cohesion(x, blocks, SIZES)


@pytest.mark.parametrize("kind", ["normal", "boolean"])
def test_clusters_of_independent_columns_are_not(kind: str) -> None:
    x = RNG.normal(size=(SAMPLES, 5))
    if kind == "boolean":
        x = (x > 0) * 2.0 - 1
    space = space_of_points(np.arange(SAMPLES), points_of(torch.from_numpy(x)), SIZES)
    by_sign = (x[:, 0] > 0).astype(int) + 2 * (x[:, 1] > 0)
    blocks = [(str(i), i, i + 1) for i in range(5)]
    assert cohesion(space, by_sign) < chance_cohesion(x, blocks, SIZES)
