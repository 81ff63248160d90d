"""Clusters of clients, from records whose values hold ``labels``, the cluster of each client in order of id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedkin.data.population import Population
from fedkin.experiment.words import many
from fedkin.report import ClientClusters, Curve

RecordLine = dict[str, Any]

_LISTED_SIZES = 8
_SPREAD = {"10th percentile": 10, "median": 50, "90th percentile": 90}


def tells_clusters(records: Sequence[RecordLine]) -> bool:
    """Whether records tell of clusters of clients."""
    return any("labels" in record["values"] for record in records)


def client_clusters(records: Sequence[RecordLine], population: Population, unit: str) -> ClientClusters | None:
    """The cluster of each client at every step, a step being called `unit`; ``None`` where records tell of none."""
    told = [record for record in records if "labels" in record["values"]]
    if not told:
        return None
    labels = np.array([record["values"]["labels"] for record in told]).T
    hidden = [] if population.clusters is None else [_letter(cluster) for cluster in population.clusters.tolist()]
    return ClientClusters(
        population.names or [str(client.id) for client in population.clients],
        [record["step"] for record in told],
        labels,
        hidden,
        _scores(labels[:, -1].tolist(), told[-1]["metrics"].get("client_accuracy", [])),
        _caption(f"{unit} {told[-1]['step']}", labels[:, -1].tolist(), bool(hidden), _drifted(population)),
        x_label=unit,
    )


def client_spread(records: Sequence[RecordLine], unit: str) -> list[Curve]:
    """How the accuracy differs between clients, step by step; nothing where records do not tell."""
    told = [record for record in records if "client_accuracy" in record["metrics"]]
    known = [[score for score in record["metrics"]["client_accuracy"] if score is not None] for record in told]
    if len(told) < 2:
        return []
    series = {
        name: [float(np.percentile(scores, share)) if scores else None for scores in known]
        for name, share in _SPREAD.items()
    }
    caption = "On each client's own test: the median, and what a tenth of the clients stay below or above."
    steps = [record["step"] for record in told]
    return [Curve("Accuracy across clients", caption, steps, series, "share", unit)]


def _drifted(population: Population) -> bool:
    return population.drift is not None and population.drift.happened


def _caption(when: str, labels: Sequence[int], hidden: bool, drifted: bool) -> str:
    sizes = [labels.count(cluster) for cluster in sorted(set(labels)) if cluster >= 0]
    found = f"After {when}: {many(len(sizes), 'cluster')}{_sizes(sizes)}"
    unknown = labels.count(-1)
    found += f", {many(unknown, 'client')} not known yet" if unknown else ""
    if not hidden:
        return f"{found}."
    since = ", as they are since some clients' data changed" if drifted else ""
    return f"{found}. Letters name the hidden clusters, which no method sees{since}."


def _sizes(sizes: Sequence[int]) -> str:
    """Numbers of clients, each one, or from which to which where that would be long."""
    if not sizes:
        return ""
    if len(set(sizes)) == 1:
        return f" of {many(sizes[0], 'client')}{' each' if len(sizes) > 1 else ''}"
    if len(sizes) > _LISTED_SIZES:
        return f" of {min(sizes)} to {max(sizes)} clients"
    *others, last = map(str, sizes)
    return f" of {', '.join(others)} and {last} clients"


def _scores(labels: Sequence[int], accuracy: Sequence[float | None]) -> dict[int, float]:
    """Mean accuracy of the clients of each cluster, where any of them has one."""
    scores: dict[int, list[float]] = {}
    for cluster, score in zip(labels, accuracy, strict=False):
        if score is not None and cluster >= 0:
            scores.setdefault(cluster, []).append(score)
    return {cluster: float(np.mean(own)) for cluster, own in sorted(scores.items())}


def _letter(cluster: int) -> str:
    """A to Z, then AA to ZZ, so that hidden clusters are not taken for the ones found."""
    return chr(ord("A") + cluster % 26) * (cluster // 26 + 1)
