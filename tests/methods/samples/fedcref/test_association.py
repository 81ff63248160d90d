import numpy as np
import torch

from fedkin.methods.samples.fedcref.association import (
    by_class,
    by_held_out_rule,
    by_threshold,
    percentile_difference,
)

NODES = [[0, 0], [0, 1], [1, 0], [2, 0], [2, 1]]


def test_the_papers_rule_needs_both_directions_and_joins_components():
    statistics = torch.ones(5, 5)
    for a, b in ((0, 2), (2, 0), (2, 3), (3, 2), (1, 4)):
        statistics[a, b] = 0.2
    graph = by_threshold(NODES, statistics, 0.2)
    assert graph.edges == [[0, 2], [2, 3]]
    assert graph.communities == [[0, 2, 3]]
    assert graph.unmatched == [1, 4]
    assert graph.clusters() == {0: [0, 1], 1: [0], 2: [0, 2]}


def test_the_upper_bound_links_equal_classes_of_different_clients():
    graph = by_class(NODES, [7, 7, 7, 8, 8])
    assert graph.edges == [[0, 2], [1, 2]]
    assert graph.communities == [[0, 1, 2]]


def test_kinship_counts_every_pair_of_a_cluster():
    shares = torch.full((5, 5), 0.95)
    for a in (0, 2, 4):
        for b in (0, 2, 4):
            shares[a, b] = 0.5
    graph = by_held_out_rule(NODES, shares, None)
    assert graph.communities == [[0, 2, 4]]
    assert graph.edges == [[0, 2], [0, 4], [2, 4]]
    assert 0.5 < graph.cut < 0.95
    assert by_held_out_rule(NODES, shares, 0.4).communities == []


def test_the_papers_statistic_is_the_percentile_of_each_pairs_own_scale():
    generator = np.random.default_rng(0)
    own, foreign = generator.random(40), generator.random((3, 40))
    expected = [np.percentile((d - d.min()) / (d.max() - d.min()), 75) for d in np.abs(own - foreign)]
    ours = percentile_difference(torch.from_numpy(own), torch.from_numpy(foreign), 75.0)
    np.testing.assert_allclose(ours.numpy(), expected)
