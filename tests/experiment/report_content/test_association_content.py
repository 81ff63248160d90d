"""Graphs of local clusters on a run's page."""

import torch

from fedkin.experiment.config import Config
from pages import record, scaling, view


def graph(nodes: list, communities: list, **lineage: object) -> dict:
    return {"nodes": nodes, "edges": [[0, 1]], "communities": communities, **lineage}


def test_communities_have_the_number_of_the_cluster_they_became(config: Config) -> None:
    nodes = [[client, cluster, 10] for client in range(4) for cluster in range(2)]  # position is 2 * client + cluster
    first = graph(
        nodes, [[0, 2], [1, 3], [4, 6], [5, 7]],
        clusters=[0, 1, 2, None],
        next={"0": [1, 0], "1": [1, 0], "2": [2], "3": [2, 0]},
    )  # fmt: skip
    middle = graph(
        [[0, 0, 10], [0, 1, 10], [1, 0, 10], [1, 1, 3], [2, 0, 20], [3, 0, 10], [3, 1, 10]],
        [[4, 5], [1, 3, 6], [0, 2]],
        clusters=[0, 1, 2],
        next={"0": [1, 2], "1": [1, 2], "2": [0], "3": [0, 1]},
    )
    nodes = [[0, 0, 1], [0, 1, 1], [1, 0, 1], [1, 1, 1], [2, 0, 1], [3, 0, 1], [3, 1, 1]]
    last = graph(nodes, [[0, 2, 6], [4, 5], [1, 3]], clusters=[0, 1, 2], next={})
    records = [record(i, values={"graph": g}) for i, g in ((1, first), (2, middle), (3, last))]
    shown = view(config, torch.zeros(4, 3), scaling("none", (3,)), *records)
    assert [node.cluster for node in shown.graphs[1].nodes] == [0, 2, 0, 2, 1, 1, 0]
    # Cluster 0 of the first went into the middle's second community, whose cluster 1 went into the last one's first.
    assert [node.cluster for node in shown.graphs[0].nodes] == [0, 2, 0, 2, 1, 6, 1, 6]
    assert "the number of the cluster it became" in shown.graphs[0].caption
