"""Result of a strategy: Flower's own, extended by clusters and a model for each, and the page of its run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flwr.app import ArrayRecord, MetricRecord
from flwr.serverapp.strategy import Result
from safetensors.numpy import save

from fedkin.core.files import write_atomically
from fedkin.core.runner import RecordLine
from fedkin.flower.grid_federation import Name
from fedkin.report.figures import Figure
from fedkin.report.page import write_page
from fedkin.report.run_page import page_of_rounds


@dataclass(repr=False)
class ClusterResult(Result):
    """Clusters of nodes and their models; where one model is expected, it is that of the largest cluster.

    Attributes
    ----------
    arrays : ArrayRecord
        The largest cluster's model.
    arrays_by_cluster : list of ArrayRecord
        One for each cluster.
    clusters : dict of Name to int
        Cluster of each node; a node whose cluster is not known, because it never replied, is absent. Nodes are called
        by their node ids here and below; with ``names=True`` by their names, which in a simulation are partitions.
    nodes : list of Name
        Nodes in the order in which `records` number them.
    records : list of dict
        One for each step: ``round``, 0 before training; ``answered`` and ``missing``, and why; ``sent`` and
        ``received``, bytes of arrays and numbers so far; and what the method reports. Clients are numbers in `nodes`.
    evaluate_metrics_by_node : dict of int to dict of Name to MetricRecord
        By round and node: metrics of its own cluster's model, of the nodes that evaluated.
    train_metrics_by_node : dict of Name to MetricRecord
        The last training metrics of each node.
    method : str
        The method's name.
    figures : function
        Describes from records what else a page shows, see `fedkin.core.Method.figures`.
    """

    arrays_by_cluster: list[ArrayRecord] = field(default_factory=list)
    clusters: dict[Name, int] = field(default_factory=dict)
    nodes: list[Name] = field(default_factory=list)
    records: list[dict[str, Any]] = field(default_factory=list)
    evaluate_metrics_by_node: dict[int, dict[Name, MetricRecord]] = field(default_factory=dict)
    train_metrics_by_node: dict[Name, MetricRecord] = field(default_factory=dict)
    method: str = ""
    figures: Callable[[Sequence[RecordLine]], Sequence[Figure]] = lambda records: ()

    def members(self, cluster: int) -> list[Name]:
        """Return the nodes in `cluster`, in order."""
        nodes = (node for node, its in self.clusters.items() if its == cluster)
        return sorted(nodes, key=lambda node: (isinstance(node, str), node))

    def arrays_of(self, node: Name) -> ArrayRecord:
        """Return the model for `node`: its cluster's, or the largest cluster's if that is unknown."""
        return self.arrays_by_cluster[self.clusters[node]] if node in self.clusters else self.arrays

    def save(self, folder: str | Path) -> None:
        """Write models as ``cluster-<k>.safetensors``, and the nodes of each in ``clusters.json``.

        Files of clusters from an earlier `save` that no longer exist are removed.

        Raises
        ------
        FedkinError
            If the folder cannot be written.
        """
        folder = Path(folder)
        clusters = {f"cluster-{k}.safetensors": arrays for k, arrays in enumerate(self.arrays_by_cluster)}
        for name, arrays in clusters.items():
            write_atomically(folder / name, save({key: array.numpy() for key, array in arrays.items()}))
        index = {"clusters": [{"model": name, "nodes": self.members(k)} for k, name in enumerate(clusters)]}
        write_atomically(folder / "clusters.json", json.dumps(index, indent=2) + "\n")
        for path in set(folder.glob("cluster-*.safetensors")) - {folder / name for name in clusters}:
            path.unlink()

    def report(self, path: str | Path, accuracy_key: str = "eval_acc") -> None:
        """Write an HTML page of the run: clusters of nodes over rounds, their accuracy, and missing nodes.

        Parameters
        ----------
        path : str or Path
            The HTML file.
        accuracy_key : str
            Name of the accuracy, in [0, 1], among the client app's evaluation metrics; shown by client and by cluster.

        Raises
        ------
        FedkinError
            If it cannot be written.
        """
        records = [self._line(step, entry, accuracy_key) for step, entry in enumerate(self.records, 1)]
        names = [f"node {name}" for name in self.nodes]
        write_page(Path(path), page_of_rounds(f"{self.method} on Flower", self.figures(records), records, names))

    def _line(self, step: int, entry: Mapping[str, Any], accuracy_key: str) -> RecordLine:
        """Convert an entry of `records` to the form of a run's records."""
        by_node = self.evaluate_metrics_by_node.get(entry["round"], {})
        accuracies = [by_node[node].get(accuracy_key) if node in by_node else None for node in self.nodes]
        sound = [value if isinstance(value, int | float) and 0 <= value <= 1 else None for value in accuracies]
        shared = {name: entry[name] for name in ("answered", "sent", "received")}
        values = {name: value for name, value in entry.items() if name not in ("round", "missing", *shared)}
        values["labels"] = [*values["labels"], *[-1] * (len(self.nodes) - len(values["labels"]))]  # of those later
        metrics = {"client_accuracy": sound} if any(value is not None for value in sound) else {}
        missing = {str(client): reason for client, reason in entry["missing"].items()}
        return {"step": step, "missing": missing, "values": values, "metrics": metrics, **shared}

    def __repr__(self) -> str:
        """Return the clusters, followed by Flower's own representation of a result."""
        lines = [f"\tCluster {k}: {len(self.members(k))} nodes" for k in range(len(self.arrays_by_cluster))]
        return "\n".join(["Clusters:", *lines, "", super().__repr__()])
