from collections.abc import Callable

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris

from fedkin.studies.compare.better_than_chance import ChanceTest, chance_test

SAMPLES = 150
SIZES = [50, 40, 60]


def outcome(x: np.ndarray, labels: np.ndarray | None = None) -> ChanceTest:
    """The test of the clusters, or of those of k-means, of samples at three clients."""
    x = (x - x.mean(0)) / x.std(0)
    found = [KMeans(k, n_init=2, random_state=0).fit_predict(x) for k in (2, 3, 4)] if labels is None else [labels]
    blocks = [(str(i), i, i + 1) for i in range(x.shape[1])]
    return chance_test(x, blocks, SIZES, [[each.astype(np.int64)] for each in found])


def four_corners(rng: np.random.Generator) -> np.ndarray:
    """Clusters at the corners of a square: each column shows them by itself, and shuffled columns show them again."""
    return rng.choice([-4.0, 4.0], (SAMPLES, 2)) + rng.standard_normal((SAMPLES, 2))


@pytest.mark.parametrize(
    "draw", [four_corners, lambda rng: load_iris().data[rng.permutation(SAMPLES)]], ids=["corners", "iris"]
)
def test_clusters_that_each_column_shows_are_better_than_chance(draw: Callable[..., np.ndarray]) -> None:
    found = outcome(draw(np.random.default_rng(0)))
    assert (found.passed, found.as_good, found.p) == (True, 0, 0.05)
    assert found.reached > found.by_chance


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: rng.standard_normal((SAMPLES, 4)) @ rng.standard_normal((4, 4)),
        lambda rng: rng.uniform(size=(SAMPLES, 2)),
        lambda rng: np.exp(rng.standard_normal((SAMPLES, 3))),
        lambda rng: (rng.standard_normal((SAMPLES, 5)) > 0) * 1.0,
        lambda rng: rng.poisson(2.0, (SAMPLES, 3)) * 1.0,
        lambda rng: np.stack([rng.standard_t(1.5, SAMPLES), rng.standard_normal(SAMPLES)], 1),
    ],
    ids=["correlated", "uniform", "skewed", "yes-no", "counts", "heavy-tail"],
)
def test_clusters_of_samples_with_one_peak_are_not(draw: Callable[[np.random.Generator], np.ndarray]) -> None:
    found = outcome(draw(np.random.default_rng(3)))
    assert not found.passed
    assert found.as_good > 0


def test_one_cluster_of_all_is_not() -> None:
    x = four_corners(np.random.default_rng(0))
    assert not outcome(x, np.zeros(SAMPLES, dtype=np.int64)).passed
