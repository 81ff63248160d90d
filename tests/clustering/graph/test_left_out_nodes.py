"""Clusters that are found again without a fifth of the nodes are stable."""

import numpy as np

from fedkin.clustering.graph.left_out_nodes import stability_without_some


def orders(seed=0, nodes=50):
    numbers = np.random.default_rng(seed)
    return (numbers.permutation(nodes) for _ in range(100))


def test_the_same_clusters_of_every_resample_are_stable_and_random_ones_are_not():
    labels, numbers = np.repeat(np.arange(5), 10), np.random.default_rng(1)
    assert stability_without_some(labels, orders(), lambda kept: labels[kept] + 7) == 1.0
    assert abs(stability_without_some(labels, orders(), lambda kept: numbers.integers(5, size=len(kept)))) < 0.1


def test_twenty_resamples_have_four_fifths_of_the_nodes_in_order():
    labels, seen = np.repeat(np.arange(5), 10), []

    def again(kept):
        seen.append(kept)
        return labels[kept]

    stability_without_some(labels, orders(), again)
    assert len(seen) == 20
    assert all(len(kept) == 40 and (np.diff(kept) > 0).all() for kept in seen)
