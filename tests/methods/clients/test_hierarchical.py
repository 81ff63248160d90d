"""Briggs's method: one cut of a tree, at a given round."""

import math

import pytest
import torch

import planted
from fedkin.clustering.from_distances import cut_tree
from fedkin.engines.local import LocalFederation
from fedkin.methods.clients.hierarchical import HierarchicalMethod, distances_between
from fedkin.methods.clients.update_splits import SplitState, Updates

CLUSTERS = [1, 0, 0, 1, 0, 1, 1, 0]
SETTINGS = planted.LEARNING | {"rounds": 8, "clustering_round": 4}
UPDATES = torch.tensor([[3.0, 4.0], [-4.0, 3.0], [6.0, 8.0]])


def make_clients() -> list[planted.Client]:
    return planted.clients(CLUSTERS, planted.OPPOSITE)


@pytest.mark.parametrize(
    ("distance", "first_row"),
    [
        ("cosine", [0.0, 1.0, 0.0]),
        ("euclidean", [0.0, math.sqrt(50), 5.0]),
        ("manhattan", [0.0, 8.0, 7.0]),
        ("similarity", [0.0, 0.0, 1.0]),
    ],
)
def test_distances_are_those_of_their_names(distance, first_row):
    matrix = distances_between(UPDATES, distance)
    assert matrix.dtype == torch.float64
    assert torch.allclose(matrix[0], torch.tensor(first_row, dtype=torch.float64), atol=1e-7)
    assert torch.equal(matrix, matrix.T)


def test_the_tree_is_cut_at_the_given_height():
    line = torch.tensor([0.0, 1.0, 10.0, 12.0, 40.0])
    distances = (line[:, None] - line).abs().double()
    clusters = {height: 1 + int(cut_tree(distances, "single", height).max()) for height in (0.5, 1.0, 2.0, 9.0, 28.0)}
    assert clusters == {0.5: 5, 1.0: 4, 2.0: 3, 9.0: 2, 28.0: 1}
    assert int(cut_tree(distances, "complete", 9.0).max()) == 2  # the two pairs are 12 apart at most, 9 at least
    assert cut_tree(distances[:1, :1], "average", 1.0).tolist() == [0]


@pytest.mark.parametrize(("threshold", "parts"), [(0.3, [0, 0, 1]), (0.5, [0, 0, 0])])
def test_similarities_are_cut_at_a_similarity(threshold, parts):
    """The first two, of cosine -0.6, merge first; the third's cosines with them are 0.6 and 0.28, on average 0.44."""
    updates = torch.tensor([[1.0, 0.0], [-0.6, 0.8], [0.6, 0.8]])
    method = HierarchicalMethod(distance="similarity", threshold=threshold)
    part = Updates(0, [0, 1, 2], updates, updates, [1.0] * 3)
    division = method.split(LocalFederation(make_clients()), SplitState(), part)
    assert planted.same_partition(division.parts, parts)
