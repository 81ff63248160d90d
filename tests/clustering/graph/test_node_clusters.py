"""Clusters of nodes, and what the record says of them."""

import numpy as np
import torch
from sklearn.datasets import make_blobs

from fedkin import KinGraph
from fedkin.clustering.graph.node_clusters import largest_client_share


def test_how_much_of_its_cluster_the_largest_client_holds():
    clusters, sites = torch.tensor([0, 0, 0, 1, 1]), torch.tensor([0, 1, 1, 2, 0])
    counts = torch.tensor([5, 2, 4, 8, 1])
    assert largest_client_share(clusters, sites, counts) == (6 + 8) / 20
    assert largest_client_share(clusters, clusters, counts) == 1.0
    assert largest_client_share(clusters, sites * 0, counts) == 1.0


def test_clusters_that_change_from_resample_to_resample_are_said_to_be_unclear():
    """Clusters that overlap much."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(1_200, 6)) + 2.5 * np.eye(6)[rng.integers(5, size=1_200)]
    model = KinGraph(random_state=0).fit(np.array_split(x, 3))
    record = model.records_[-1]
    assert 1 < model.n_clusters_ < 12
    assert record["stability"] < 0.8
    assert record["note"].startswith(
        f"No clusters are clear: those of resamples agree with these to {record['stability']:.2f}"
    )
    assert "note" not in model.cut(2).records_[-1]
    clear = KinGraph(random_state=0).fit(np.array_split(make_blobs(600, 6, random_state=0)[0], 3))
    assert "note" not in clear.records_[-1]
