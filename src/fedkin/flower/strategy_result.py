"""A strategy's result: Flower's own, with a model for each cluster."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flwr.app import ArrayRecord, MetricRecord
from flwr.serverapp.strategy import Result
from safetensors.numpy import save

from fedkin.core.files import write_atomically


@dataclass(repr=False)
class ClusterResult(Result):
    """Clusters of nodes and their models; where one model is expected, that of the cluster with most nodes.

    Attributes
    ----------
    arrays : ArrayRecord
        The largest cluster's model.
    arrays_by_cluster : list of ArrayRecord
        One for each cluster.
    clusters : dict of int to int
        Cluster of each node, by node id; a node whose cluster is not known, because it never replied, is absent.
    own_arrays : dict of int to ArrayRecord
        Models of nodes for which another than their cluster's is better; only Sattler has these.
    nodes : list of int
        Node ids in the order in which `records` number them.
    records : list of dict
        One for each step: ``round``, 0 before training; ``answered`` and ``missing``, and why; ``sent`` and
        ``received``, bytes of arrays and numbers so far; and what the method reports. Clients are numbers in `nodes`.
    evaluate_metrics_by_cluster : dict of int to dict of int to MetricRecord
        By round and cluster, as `evaluate_metrics_clientapp` has them over all nodes.
    train_metrics_by_node : dict of int to MetricRecord
        The last training metrics of each node, by node id. An app that reports its ``partition-id`` is identified by
        it.
    """

    arrays_by_cluster: list[ArrayRecord] = field(default_factory=list)
    clusters: dict[int, int] = field(default_factory=dict)
    own_arrays: dict[int, ArrayRecord] = field(default_factory=dict)
    nodes: list[int] = field(default_factory=list)
    records: list[dict[str, Any]] = field(default_factory=list)
    evaluate_metrics_by_cluster: dict[int, dict[int, MetricRecord]] = field(default_factory=dict)
    train_metrics_by_node: dict[int, MetricRecord] = field(default_factory=dict)

    def members(self, cluster: int) -> list[int]:
        """Return the ids of the nodes in `cluster`, in order."""
        return sorted(node for node, its in self.clusters.items() if its == cluster)

    def arrays_of(self, node: int) -> ArrayRecord:
        """Return the model for `node`: its own choice, its cluster's, or the largest cluster's if that is unknown."""
        if node in self.own_arrays:
            return self.own_arrays[node]
        return self.arrays_by_cluster[self.clusters[node]] if node in self.clusters else self.arrays

    def save(self, folder: str | Path) -> None:
        """Write models as ``cluster-<k>.safetensors``, and the nodes of each in ``clusters.json``.

        Raises
        ------
        FedkinError
            If the folder cannot be written.
        """
        folder = Path(folder)
        clusters = {f"cluster-{k}.safetensors": arrays for k, arrays in enumerate(self.arrays_by_cluster)}
        own = {f"node-{node}.safetensors": arrays for node, arrays in self.own_arrays.items()}
        for name, arrays in {**clusters, **own}.items():
            write_atomically(folder / name, save({key: array.numpy() for key, array in arrays.items()}))
        index = {
            "clusters": [{"model": name, "nodes": self.members(k)} for k, name in enumerate(clusters)],
            "own models": {str(node): f"node-{node}.safetensors" for node in self.own_arrays},
        }
        write_atomically(folder / "clusters.json", json.dumps(index, indent=2) + "\n")

    def __repr__(self) -> str:
        """Clusters first, then as Flower shows a result."""
        lines = [f"\tCluster {k}: {len(self.members(k))} nodes" for k in range(len(self.arrays_by_cluster))]
        return "\n".join(["Clusters:", *lines, "", super().__repr__()])
