"""Values of a fit's rounds as one tidy table, a row for every value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedkin.clustering.metrics import adjusted_rand, normalized_mutual_information

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("round", "client", "cluster", "split", "metric", "value")
"""Columns of the table."""

Row = tuple[int, str | None, int | None, str | None, str, float]
"""A row: round, client, cluster, split, metric and value."""

_SHORT = {"personal_accuracy": "accuracy", "personal_f1": "f1"}
"""Means over clients of what clients have rows of their own for."""


def tidy(rows: Iterable[Row]) -> pd.DataFrame:
    """Convert rows to a DataFrame; client or cluster is missing for values over all of them."""
    from pandas import DataFrame

    frame = DataFrame(list(rows), columns=list(COLUMNS))
    types = {"round": "int64", "client": "object", "cluster": "Int64", "split": "object", "metric": "object"}
    made: pd.DataFrame = frame.astype({**types, "value": "float64"})
    return made


def history_rows(history: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Iterator[Row]:
    """Yield the values in the records of rounds: overall, by cluster, and by client in its cluster.

    `history` has the records' values, with ``step``; `names` are the clients, in order of id.
    """
    for entry in history:
        at, labels = int(entry["step"]), entry.get("labels")
        for name, value in entry.items():
            if name == "step" or isinstance(value, bool | str) or value is None:
                continue
            if isinstance(value, int | float | np.number):
                yield at, None, None, "train" if "loss" in name else None, name, float(value)
        if labels is None or not _is_clustering(labels, names):
            continue
        for cluster, size in enumerate(entry.get("sizes", ())):
            yield at, None, cluster, None, "clients", float(size)
        losses = entry.get("losses", {})
        for client, cluster in enumerate(labels):
            yield at, names[client], _known(cluster), None, "member", float(cluster >= 0)
            if losses.get(str(client)) is not None:
                yield at, names[client], _known(cluster), "train", "loss", float(losses[str(client)])


def judged_rows(judged: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Iterator[Row]:
    """Yield the scores of models on held-out samples: by client, by cluster, and overall.

    `judged` has ``round``, ``split``, ``labels`` of clients, ``scores`` as
    `fedkin.experiment.evaluation.client_scores.evaluate_clusters` gives them, and ``own`` metrics as
    `fedkin.estimators.own_metrics.OwnMetrics` does; `names` are the clients, in order of id.
    """
    for one in judged:
        at, split, labels = one["round"], one["split"], one["labels"]
        for metric, own in {"accuracy": one["scores"].get("client_accuracy", []), **one["own"]}.items():
            by_cluster: dict[int, list[float]] = {}
            for client, value in enumerate(own):
                if value is not None:
                    yield at, names[client], labels[client], split, metric, float(value)
                    by_cluster.setdefault(labels[client], []).append(value)
            for cluster, values in sorted(by_cluster.items()):
                yield at, None, cluster, split, metric, float(np.mean(values))
        for name, value in (one["scores"] | {name: mean_of(own) for name, own in one["own"].items()}).items():
            if isinstance(value, int | float):
                yield at, None, None, split, _SHORT.get(name, name), float(value)


def mean_of(values: Sequence[float | None]) -> float | None:
    """Return the mean over clients that have a value; ``None`` if none has."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def sizes_of(step: int, names: Sequence[str], labels: Sequence[NDArray[np.int64]]) -> Iterator[Row]:
    """Yield the number of samples in each cluster, of every client and of all clients."""
    total: dict[int, int] = {}
    for name, own in zip(names, labels, strict=True):
        for cluster, count in zip(*np.unique(own, return_counts=True), strict=True):
            yield step, name, int(cluster), "train", "samples", float(count)
            total[int(cluster)] = total.get(int(cluster), 0) + int(count)
    for cluster, count in sorted(total.items()):
        yield step, None, cluster, "train", "samples", float(count)


def agreement_rows(
    step: int, split: str, known: Sequence[tuple[str | None, NDArray[np.int64], NDArray[Any]]]
) -> Iterator[Row]:
    """Yield the agreement of clusters with labels, within each named client and over all samples."""
    _, every_cluster, every_label = zip(*known, strict=True)
    whole = (None, np.concatenate(every_cluster), np.concatenate(every_label))
    for name, clusters, labels in [*(one for one in known if one[0] is not None), whole]:
        codes = np.unique(labels, return_inverse=True)[1]
        yield step, name, None, split, "ari", adjusted_rand(codes, clusters)
        yield step, name, None, split, "nmi", normalized_mutual_information(codes, clusters)


def _is_clustering(labels: Any, names: Sequence[str]) -> bool:
    """Return whether `labels` holds one cluster for each client."""
    return isinstance(labels, list) and len(labels) == len(names) and all(isinstance(one, int) for one in labels)


def _known(cluster: int) -> int | None:
    return cluster if cluster >= 0 else None
