"""Scores of memberships: those of hard clusters are known, and doubt lowers them."""

import numpy as np
import pytest

from fedkin.clustering.metrics import adjusted_rand
from fedkin.clustering.soft_metrics import partition_coefficient, soft_rand
from fedkin.core.errors import FedkinError


def test_soft_scores_of_hard_clusters_are_those_of_the_clusters():
    rng = np.random.default_rng(0)
    truth, found = rng.integers(0, 4, 60), rng.integers(0, 3, 60)
    found[:30] = truth[:30] % 3
    hard = np.eye(3)[found]
    assert soft_rand(truth, hard) == pytest.approx(adjusted_rand(truth, found))
    assert partition_coefficient(hard) == 1.0
    assert soft_rand(truth, np.eye(4)[truth]) == pytest.approx(1.0)


def test_soft_scores_fall_with_doubt():
    truth = np.repeat([0, 1], 50)
    sure, unsure = np.eye(2)[truth], 0.7 * np.eye(2)[truth] + 0.15
    assert 1.0 == soft_rand(truth, sure) > soft_rand(truth, unsure) > 0.2
    assert soft_rand(truth, np.full((100, 2), 0.5)) == pytest.approx(0.0)
    assert soft_rand([0, 1, 0, 1], np.full((4, 3), 1 / 3)) == pytest.approx(0.0)
    assert partition_coefficient(np.full((100, 4), 0.25)) == pytest.approx(0.25)
    assert partition_coefficient(unsure) == pytest.approx(0.85**2 + 0.15**2)
    assert soft_rand([0], [[1.0]]) == 1.0


@pytest.mark.parametrize("bad", [[[0.5, 0.4]], [[1.2, -0.2]], [1.0], np.zeros((0, 2)), [[np.nan, 1.0]]])
def test_what_are_no_memberships_is_refused(bad):
    with pytest.raises(FedkinError, match="a row for each sample that sums to 1"):
        partition_coefficient(bad)


def test_memberships_of_other_samples_are_refused():
    with pytest.raises(FedkinError, match="2 true classes and memberships of 1 samples"):
        soft_rand([0, 1], [[1.0]])
