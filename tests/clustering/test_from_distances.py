"""Clusterers on distances with planted clusters."""

from itertools import permutations

import numpy as np
import pytest
import torch
from scipy.linalg import subspace_angles
from sklearn.metrics import adjusted_rand_score
from torch import Tensor

from fedkin.clustering import from_distances
from fedkin.clustering.matching import cheapest_matching, matched_labels
from fedkin.methods.clients.pacfl import angles_between

TRUTH = [2, 0, 1, 1, 0, 2, 2, 0, 1, 0, 1, 2, 0, 2, 1]


SEARCHES = {
    "meanshift": from_distances.meanshift,
    "hdbscan": from_distances.hdbscan,
    "affinity": lambda distances: from_distances.affinity(distances, "corrected", torch.Generator().manual_seed(0)),
    "linkage": from_distances.average_linkage,
}


def planted_distances(truth: list[int], inside: float = 0.3, between: float = 1.1, noise: float = 0.05) -> Tensor:
    """Symmetric, zero diagonal: small inside of clusters, great between them."""
    labels = torch.tensor(truth)
    distances = torch.where(labels[:, None] == labels, inside, between).double()
    shake = noise * torch.rand(distances.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return (distances + (shake + shake.T) / 2).fill_diagonal_(0.0)


@pytest.mark.parametrize("name", list(SEARCHES))
def test_planted_clusters_are_found(name):
    labels = SEARCHES[name](planted_distances(TRUTH))
    assert adjusted_rand_score(TRUTH, labels) == 1.0
    assert labels.min() == 0


def test_noise_becomes_a_cluster_of_its_own():
    distances = planted_distances([*TRUTH, 9])
    distances[-1, :-1] = distances[:-1, -1] = 1.7
    assert adjusted_rand_score([*TRUTH, 3], from_distances.hdbscan(distances)) == 1.0


@pytest.mark.parametrize("count", [1, 2, 3, 5, 17, 18, 40])
def test_linkage_cuts_into_the_number_given(count: int) -> None:
    distances = planted_distances(list(range(3)) * 6)
    found = from_distances.average_linkage(distances, count)
    assert len(np.unique(found)) == min(count, 18)
    if count == 3:
        assert adjusted_rand_score(list(range(3)) * 6, found) == 1.0
    assert from_distances.average_linkage(distances[:1, :1], count) == [0]
    assert len(np.unique(from_distances.average_linkage(torch.zeros(4, 4, dtype=torch.float64), count))) == min(
        count, 4
    )


def sets(*seeds: int, count: int = 3, features: int = 8) -> torch.Tensor:
    drawn = [torch.randn(count, features, generator=torch.Generator().manual_seed(seed)) for seed in seeds]
    return torch.stack(drawn)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_smallest_angle_is_scipys(count):
    three = sets(0, 1, 2, count=count)
    found = angles_between(three, "smallest")
    for one in range(3):
        for other in range(one):
            expected = np.degrees(subspace_angles(three[one].T.numpy(), three[other].T.numpy()).min())
            assert float(found[one, other]) == pytest.approx(expected, abs=1e-4)
    assert torch.equal(found, found.T)


def test_the_mean_angle_is_of_vectors_that_both_have_whatever_their_sign():
    one = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    other = torch.tensor([[-1.0, 0.0], [1.0, 1.0], [1.0, 0.0]])
    nothing = torch.zeros(3, 2)
    found = angles_between(torch.stack([one, other, nothing]), "mean")
    assert float(found[0, 1]) == pytest.approx((0 + 45) / 2, abs=1e-5)
    assert found[0, 2] == found[1, 2] == 90.0
    assert found.diagonal().tolist() == [0.0, 0.0, 0.0]


def test_the_matching_is_the_cheapest_of_all():
    costs = torch.rand(4, 5, generator=torch.Generator().manual_seed(3))
    found = cheapest_matching(costs)
    rows = range(4)
    best = min(permutations(range(5), 4), key=lambda order: sum(float(costs[row, order[row]]) for row in rows))
    assert found == list(best)


def test_as_many_points_as_possible_keep_their_number():
    before = torch.tensor([2, 2, 2, 0, 0, 1, -1])
    labels = torch.tensor([0, 0, 0, 1, 1, 2, 2])
    assert matched_labels(labels, before, 3).tolist() == [2, 2, 2, 0, 0, 1, 1]
    assert matched_labels(torch.tensor([0, 1, 1]), torch.tensor([1, 1, 1]), 2).tolist() == [0, 1, 1]
