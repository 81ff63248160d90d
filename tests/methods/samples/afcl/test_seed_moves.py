"""How AFCL's server moves its seeds: who wins, who moves along, and how far."""

import numpy as np
import pytest
import torch

from fedkin.methods.samples.afcl.seed_moves import feature_weights, pull, spread_of

RATES = np.full(2, 0.1)


def moved(seeds: list[list[float]], means: list[list[float]], counts: list[int]) -> np.ndarray:
    after = np.array(seeds)
    pull(after, np.array(means), np.array(counts), RATES)
    return after


def test_the_winner_moves_and_with_it_seeds_nearer_to_it_than_the_mean_is():
    after = moved([[0.0, 0.0], [0.1, 0.0], [5.0, 5.0]], [[-1.0, 0.0]], [1])
    assert after == pytest.approx(np.array([[-0.1, 0.0], [-0.01, 0.0], [5.0, 5.0]]))


def test_a_mean_of_several_samples_moves_seeds_as_each_of_them_would():
    once = moved([[0.0, 0.0]], [[1.0, 2.0]], [3])
    assert once == pytest.approx(moved([[0.0, 0.0]], [[1.0, 2.0]] * 3, [1, 1, 1]))
    assert moved([[0.0, 0.0]], [[1.0, 2.0]], [2**53]) == pytest.approx(np.array([[1.0, 2.0]]))


def test_who_has_won_often_lets_others_win():
    seeds = [[0.0, 0.0], [2.0, 0.0]]
    assert moved(seeds, [[0.5, 0.0], [0.5, 0.0]], [1, 1])[1] == pytest.approx([2.0, 0.0])
    assert moved(seeds, [[-0.5, 0.0], [0.5, 0.0]], [30, 1])[1] == pytest.approx([1.85, 0.0])


def test_features_in_which_samples_differ_less_have_more_weight():
    even = torch.full((3,), 1 / 3, dtype=torch.float64)
    gaps = torch.tensor([[1.0, 0.1, 0.0], [-1.0, 0.1, 0.0]], dtype=torch.float64)
    weights = feature_weights(gaps, even)
    assert float(weights.sum()) == pytest.approx(1)
    assert float(weights[1] / weights[0]) == pytest.approx(10 ** (1 / 7))
    assert float(weights[2]) == 0
    assert feature_weights(torch.zeros_like(gaps), weights).equal(even)


def test_one_cluster_has_no_spread():
    means = torch.tensor([[0.0], [1.0], [9.0], [10.0]])
    assert spread_of(means, torch.tensor([[0.5], [9.5]])) == pytest.approx(1 / 9)
    assert spread_of(means, torch.tensor([[5.0]])) == 0
