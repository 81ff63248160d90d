"""New numbers of clusters are matched with old ones."""

from itertools import permutations

import torch

from fedkin.clustering.matching import cheapest_matching, matched_labels


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
