from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkin.clustering.graph.cut import scales_of

NODES = 12
LABELS = st.lists(st.integers(0, 4), min_size=NODES, max_size=NODES).map(
    lambda labels: np.unique(labels, return_inverse=True)[1]
)
SIZES = st.lists(st.integers(1, 9), min_size=NODES, max_size=NODES).map(lambda size: np.array(size, dtype=float))


def members(labels):
    return sorted(np.flatnonzero(labels == cluster).tolist() for cluster in range(labels.max() + 1))


@settings(max_examples=60)
@given(st.lists(LABELS, min_size=1, max_size=5), SIZES, LABELS)
def test_scales_are_different_divisions_of_all_samples_in_order(divisions, size, chosen):
    scales = scales_of([(labels, 0.9) for labels in divisions], size, (chosen, None))
    assert [scale["n_clusters"] for scale in scales] == sorted(scale["n_clusters"] for scale in scales)
    (found,) = [scale for scale in scales if scale["chosen"]]
    assert found["stability"] is None
    assert members(found["labels"]) == members(chosen)
    for scale in scales:
        assert scale["samples"] == np.bincount(scale["labels"], weights=size).tolist()
        assert scale["samples"] == sorted(scale["samples"], reverse=True)
    assert scales[0]["parents"] == []
    for coarse, fine in pairwise(scales):
        assert len(fine["parents"]) == fine["n_clusters"]
        assert set(fine["parents"]) <= set(range(coarse["n_clusters"]))
    assert len(scales) == len({str(members(labels)) for labels in [*divisions, chosen]})


def test_a_cluster_is_part_of_the_one_with_most_of_its_samples():
    coarse, fine = np.array([0, 0, 0, 1, 1, 1]), np.array([0, 0, 2, 2, 1, 1])
    size = np.array([1.0, 1.0, 5.0, 1.0, 2.0, 2.0])
    first, second = scales_of([(coarse, 0.9)], size, (fine, 0.75))
    assert first.pop("labels").tolist() == coarse.tolist()
    assert first == {"n_clusters": 2, "stability": 0.9, "samples": [7, 5], "parents": [], "chosen": False}
    assert second["stability"] == 0.75
    assert second["samples"] == [6, 4, 2]
    assert second["parents"] == [0, 1, 0]
