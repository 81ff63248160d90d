"""Values of rounds as one tidy table, a row for every value: of a fit, and of a run's folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedkin.clustering.metrics import adjusted_rand, normalized_mutual_information
from fedkin.core import FedkinError
from fedkin.core.files import read_json
from fedkin.data.population import client_name
from fedkin.experiment.run_folder import CONFIG, RECORDS, RESULT, no_run, read_lines, read_timing

TYPES = {
    "round": "int64", "client": "object", "cluster": "Int64", "split": "object", "metric": "object", "value": "float64",
}  # fmt: skip
"""Columns of the table, and their types."""

Row = tuple[int, str | None, int | None, str | None, str, float]
"""A row: round, client, cluster, split, metric and value."""

_SHORT = {"personal_accuracy": "accuracy", "personal_f1": "f1"}
"""Means over clients of what clients have rows of their own for."""
_ON_TESTS = ("client_", "personal_", "global_", "learning_gap")
"""How metrics begin that are measured on held-out samples."""


def tidy(rows: Iterable[Row]) -> pd.DataFrame:
    """Convert rows to a DataFrame; client or cluster is missing for values over all of them."""
    frame: pd.DataFrame = pd.DataFrame(list(rows), columns=list(TYPES)).astype(TYPES)
    return frame


def history_rows(history: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Iterator[Row]:
    """Yield the values in the records of rounds: overall, by cluster, and by client in its cluster.

    `history` has the records' values, with ``step``; `names` are the clients, in order of id.
    """
    for entry in history:
        step, labels = int(entry["step"]), entry.get("labels")
        for name, value in entry.items():
            if name != "step" and isinstance(value, int | float | np.number) and not isinstance(value, bool):
                yield step, None, None, "train" if "loss" in name else None, name, float(value)
        if not isinstance(labels, list) or len(labels) != len(names) or not all(isinstance(k, int) for k in labels):
            continue  # of samples, which have no label by client
        for cluster, size in enumerate(entry.get("sizes", ())):
            yield step, None, cluster, None, "clients", float(size)
        losses = entry.get("losses", {})
        for client, label in enumerate(labels):
            place = names[client], label if label >= 0 else None
            yield step, *place, None, "member", float(label >= 0)
            if (loss := losses.get(str(client))) is not None:
                yield step, *place, "train", "loss", float(loss)


def judged_rows(judged: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Iterator[Row]:
    """Yield the scores of models on held-out samples: by client, by cluster, and overall.

    `judged` has ``round``, ``split``, ``labels`` of clients, and ``scores`` as
    `fedkin.experiment.evaluation.evaluate_clusters` gives them; `names` are the clients, in order of id.
    """
    for judgement in judged:
        step, split, labels, scores = (judgement[key] for key in ("round", "split", "labels", "scores"))
        by_cluster: dict[int, list[float]] = {}
        for client, value in enumerate(scores.get("client_accuracy", [])):
            if value is not None:
                yield step, names[client], labels[client], split, "accuracy", float(value)
                by_cluster.setdefault(labels[client], []).append(value)
        for cluster, members in sorted(by_cluster.items()):
            yield step, None, cluster, split, "accuracy", float(np.mean(members))
        for name, value in scores.items():
            if isinstance(value, int | float):
                yield step, None, None, split, _SHORT.get(name, name), float(value)


def sizes_of(step: int, names: Sequence[str], labels: Sequence[NDArray[np.int64]]) -> Iterator[Row]:
    """Yield the number of samples in each cluster, of every client and of all clients."""
    for name, clusters in [*zip(names, labels, strict=True), (None, np.concatenate(labels))]:
        for cluster, count in zip(*np.unique(clusters, return_counts=True), strict=True):
            yield step, name, int(cluster), "train", "samples", float(count)


def agreement_rows(
    step: int, split: str, labelled: Sequence[tuple[str | None, NDArray[np.int64], NDArray[Any]]]
) -> Iterator[Row]:
    """Yield the agreement of clusters with labels, within each named client and over all samples."""
    _, every_cluster, every_label = zip(*labelled, strict=True)
    together = (None, np.concatenate(every_cluster), np.concatenate(every_label))
    for name, clusters, labels in [*(client for client in labelled if client[0] is not None), together]:
        codes = np.unique(labels, return_inverse=True)[1]
        yield step, name, None, split, "ari", adjusted_rand(codes, clusters)
        yield step, name, None, split, "nmi", normalized_mutual_information(codes, clusters)


def load_history(folder: str | Path) -> pd.DataFrame:
    """Load the records of a run's folder as a tidy DataFrame, a row for every number of every round.

    Parameters
    ----------
    folder : str or Path
        The folder that ``fedkin run`` wrote, or is still writing.

    Returns
    -------
    DataFrame
        The columns of `metrics_` of estimators: ``round``, ``client``, ``cluster``, ``split``, ``metric`` and
        ``value``. Client and cluster are missing for values over all of them; ``split`` is ``"train"``, ``"test"`` or
        missing. ``seconds`` and ``client_seconds`` are those of the round. Clients have their names once the run has
        ended, and before that their numbers.

    Raises
    ------
    FedkinError
        If the folder holds no run that has made a step, or its records are damaged.

    Examples
    --------
    >>> import fedkin
    >>> history = fedkin.load_history("runs/ocfl")  # doctest: +SKIP
    >>> accuracy = history[history["metric"] == "accuracy"]  # doctest: +SKIP
    >>> accuracy.pivot_table(index="round", columns="client", values="value").plot()  # doctest: +SKIP
    """
    path = Path(folder).expanduser()
    lines = read_lines(path / RECORDS)
    if not lines and (path / CONFIG).is_file():
        raise FedkinError(f"The run in {path} has made no step yet.")
    if not lines:
        raise no_run(path)
    result = read_json(path / RESULT, dict[str, Any]) if (path / RESULT).is_file() else {}
    listed = list(result.get("clients", []))
    count = max(len(listed), *(len(_labels(line)) for line in lines))
    return tidy(_rows(lines, [client_name(i, listed) for i in range(count)], path))


def _rows(lines: list[dict[str, Any]], names: list[str], folder: Path) -> Iterator[Row]:
    timing = {line["step"]: line for line in read_timing(folder)}
    for line in lines:
        step, values, metrics = line["step"], line["values"], line["metrics"]
        tested = {name: value for name, value in metrics.items() if name.startswith(_ON_TESTS)}
        untested = {name: value for name, value in metrics.items() if name not in tested}
        seconds = {name: value for name, value in timing.get(step, {}).items() if name.endswith("seconds")}
        shown = values if _labels(line) else {name: value for name, value in values.items() if name != "labels"}
        traffic = {name: line[name] for name in ("sent", "received")}
        yield from history_rows([{**untested, **shown, "step": step, **traffic, **seconds}], names)
        labels = [None if label < 0 else label for label in _labels(line)]
        yield from judged_rows([{"round": step, "split": "test", "labels": labels, "scores": tested}], names)


def _labels(line: Mapping[str, Any]) -> list[int]:
    """Return the cluster of each client in a round of a method that clusters clients; empty for all others."""
    values = line["values"]
    return list(values["labels"]) if {"labels", "losses", "sizes"} <= set(values) else []
