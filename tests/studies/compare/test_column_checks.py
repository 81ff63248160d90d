import numpy as np
import pandas as pd

from fedkin.studies.compare.column_checks import explaining_column

RNG = np.random.default_rng(0)
SAMPLES = 150
CLOUD = np.repeat(np.arange(3), SAMPLES // 3)


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
