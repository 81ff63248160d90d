"""Clusters of clients, from records whose values hold ``labels``, the cluster of each client in order of id."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedkin.core.progress import RecordLine
from fedkin.data.population import Population, short_names
from fedkin.experiment.measure_titles import join_words
from fedkin.report import ClientClusters, Curve
from fedkin.report.numbers import pluralize

_LISTED_SIZES = 8
_SPREAD = {"10th percentile": 10, "median": 50, "90th percentile": 90}


def has_client_clusters(records: Sequence[RecordLine]) -> bool:
    """Return whether any record holds clusters of clients."""
    return any("labels" in record["values"] for record in records)


def client_clusters(records: Sequence[RecordLine], population: Population, unit: str) -> ClientClusters | None:
    """Build the chart of the cluster of each client at every step, called `unit`; ``None`` without such records."""
    own = [record for record in records if "labels" in record["values"]]
    if not own:
        return None
    labels = np.array([record["values"]["labels"] for record in own]).T
    drifted = population.drift is not None and population.drift.happened
    hidden = [] if population.clusters is None else [_letter(cluster) for cluster in population.clusters.tolist()]
    return ClientClusters(
        short_names(population.names) or [str(client.id) for client in population.clients],
        [record["step"] for record in own],
        labels,
        hidden,
        _scores(labels[:, -1].tolist(), own[-1]["metrics"].get("client_accuracy", [])),
        _caption(f"{unit} {own[-1]['step']}", labels[:, -1].tolist(), bool(hidden), drifted),
        x_label=unit,
    )


def client_spread(records: Sequence[RecordLine], unit: str) -> list[Curve]:
    """Build the curve of the spread of accuracy over clients; empty if fewer than two records hold it."""
    own = [record for record in records if "client_accuracy" in record["metrics"]]
    known = [[score for score in record["metrics"]["client_accuracy"] if score is not None] for record in own]
    if len(own) < 2:
        return []
    series = {
        name: [float(np.percentile(scores, percentile)) if scores else None for scores in known]
        for name, percentile in _SPREAD.items()
    }
    caption = "On each client's own test set: median, and 10th and 90th percentile over clients."
    steps = [record["step"] for record in own]
    return [Curve("Accuracy across clients", caption, steps, series, "share", unit)]


def _caption(when: str, labels: Sequence[int], hidden: bool, drifted: bool) -> str:
    sizes = [labels.count(cluster) for cluster in sorted(set(labels)) if cluster >= 0]
    found = f"After {when}: {pluralize(len(sizes), 'cluster')}{_sizes(sizes)}"
    unknown = labels.count(-1)
    found += f", {pluralize(unknown, 'client')} without a cluster yet" if unknown else ""
    if not hidden:
        return f"{found}."
    since = ", after the drift of some clients' data" if drifted else ""
    return f"{found}. Letters name the true clusters, which no method sees{since}."


def _sizes(sizes: Sequence[int]) -> str:
    """List numbers of clients or, where the list is long, their range."""
    if not sizes:
        return ""
    if len(set(sizes)) == 1:
        return f" of {pluralize(sizes[0], 'client')}{' each' if len(sizes) > 1 else ''}"
    if len(sizes) > _LISTED_SIZES:
        return f" of {min(sizes)} to {max(sizes)} clients"
    return f" of {join_words([*map(str, sizes)])} clients"


def _scores(labels: Sequence[int], accuracy: Sequence[float | None]) -> dict[int, float]:
    """Return the mean accuracy of each cluster's clients, without clusters where none is known."""
    scores: dict[int, list[float]] = {}
    for cluster, score in zip(labels, accuracy, strict=False):
        if score is not None and cluster >= 0:
            scores.setdefault(cluster, []).append(score)
    return {cluster: float(np.mean(own)) for cluster, own in sorted(scores.items())}


def _letter(cluster: int) -> str:
    """Return A to Z, then AA to ZZ, for a hidden cluster, to distinguish it from numbered clusters."""
    return chr(ord("A") + cluster % 26) * (cluster // 26 + 1)
