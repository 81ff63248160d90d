from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkin.clustering.graph.scales import largest_first, scales_of

NODES = 12
LABELS = st.lists(st.integers(0, 4), min_size=NODES, max_size=NODES).map(
    lambda labels: np.unique(labels, return_inverse=True)[1]
)
SIZES = st.lists(st.integers(1, 9), min_size=NODES, max_size=NODES).map(lambda size: np.array(size, dtype=float))


@settings(max_examples=60)
@given(st.lists(LABELS, min_size=1, max_size=5), SIZES, LABELS)
def test_scales_are_different_partitions_of_all_samples_in_order(partitions, size, chosen):
    tried = [(0.1 * (at + 1), labels, 0.9) for at, labels in enumerate(partitions)]
    scales = scales_of(tried, size, chosen)
    assert [scale["n_clusters"] for scale in scales] == sorted(scale["n_clusters"] for scale in scales)
    assert sum(scale["chosen"] for scale in scales) == 1
    for scale in scales:
        assert len(scale["samples"]) == scale["n_clusters"]
        assert sum(scale["samples"]) == size.sum()
        assert scale["samples"] == sorted(scale["samples"], reverse=True)
        assert (scale["resolutions"] is None) == (scale["stability"] is None)
    assert scales[0]["parents"] == []
    for coarse, fine in pairwise(scales):
        assert len(fine["parents"]) == fine["n_clusters"]
        assert set(fine["parents"]) <= set(range(coarse["n_clusters"]))
    named = {tuple(sorted(map(tuple, _members(labels)))) for labels in [*partitions, chosen]}
    assert len(scales) == len(named)


def test_a_cluster_is_part_of_the_one_with_most_of_its_samples():
    coarse, fine = np.array([0, 0, 0, 1, 1, 1]), np.array([0, 0, 2, 2, 1, 1])
    size = np.array([1.0, 1.0, 5.0, 1.0, 2.0, 2.0])
    first, second = scales_of([(0.1, coarse, 0.9), (0.5, fine, 0.7), (0.6, fine, 0.8)], size, fine)
    assert first.pop("labels").tolist() == coarse.tolist()
    assert first == {
        "n_clusters": 2,
        "resolutions": [0.1, 0.1],
        "stability": 0.9,
        "samples": [7, 5],
        "parents": [],
        "chosen": False,
    }
    assert second["resolutions"] == [0.5, 0.6]
    assert second["stability"] == 0.75
    assert second["samples"] == [6, 4, 2]
    assert second["parents"] == [0, 1, 0]
    assert second["chosen"]


@given(LABELS, SIZES)
def test_the_largest_is_named_first_and_nothing_else_changes(labels, size):
    named = largest_first(labels, size)
    assert _members(named) == sorted(_members(labels), key=lambda part: named[part[0]])
    sizes = np.bincount(named, weights=size)
    assert (np.diff(sizes) <= 0).all()


def _members(labels):
    return [np.flatnonzero(labels == cluster).tolist() for cluster in range(labels.max() + 1)]
