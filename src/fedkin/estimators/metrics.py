"""Values of rounds as one tidy table, a row for every value: of a fit, and of a run's folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedkin.core import FedkinError
from fedkin.core.files import read_json
from fedkin.data.population import client_name
from fedkin.experiment.run_folder import CONFIG, RECORDS, RESULT, no_run, read_lines, read_timing

TYPES = {
    "round": "int64", "client": "object", "cluster": "Int64", "split": "object", "metric": "object", "value": "float64",
}  # fmt: skip
"""Columns of the table, and their types."""

Row = tuple[int, str | None, int | None, str | None, str, float]

_SHORT = {"personal_accuracy": "accuracy", "personal_f1": "f1"}
"""Means over clients of what clients have rows of their own for."""
_ON_TESTS = ("client_", "personal_", "global_", "learning_gap")
"""How metrics begin that are measured on held-out samples."""


def tidy(rows: Iterable[Row]) -> pd.DataFrame:
    """Convert rows to a DataFrame; client or cluster is missing for values over all of them."""
    frame: pd.DataFrame = pd.DataFrame(list(rows), columns=list(TYPES)).astype(TYPES)
    return frame


def record_rows(step: int, values: Mapping[str, Any], names: Sequence[str]) -> Iterator[Row]:
    """Yield the numbers in a record: overall, and by client in its cluster, where clients have one."""
    for name, value in values.items():
        if isinstance(value, int | float | np.number) and not isinstance(value, bool):
            yield step, None, None, "train" if "loss" in name else None, name, float(value)
    labels = values.get("labels")
    if not isinstance(labels, list) or len(labels) != len(names) or not all(isinstance(k, int) for k in labels):
        return  # of samples, which have no label by client
    for client, (name, label) in enumerate(zip(names, labels, strict=True)):
        cluster = label if label >= 0 else None
        yield step, name, cluster, None, "member", float(label >= 0)
        if (loss := values.get("losses", {}).get(str(client))) is not None:
            yield step, name, cluster, "train", "loss", float(loss)


def score_rows(
    step: int, split: str, labels: Sequence[int], scores: Mapping[str, Any], names: Sequence[str]
) -> Iterator[Row]:
    """Yield scores of models on held-out samples, see `fedkin.experiment.evaluation.evaluate_clusters`."""
    for name, label, value in zip(names, labels, scores.get("client_accuracy", []), strict=False):
        if value is not None:
            yield step, name, label if label >= 0 else None, split, "accuracy", float(value)
    for name, value in scores.items():
        if isinstance(value, int | float):
            yield step, None, None, split, _SHORT.get(name, name), float(value)


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
    labels = [_labels(line["values"]) for line in lines]
    names = [client_name(i, listed) for i in range(max(len(listed), *map(len, labels)))]
    timing = {entry["step"]: entry for entry in read_timing(path)}
    rows: list[Row] = []
    for line, clusters in zip(lines, labels, strict=True):
        step, scores = line["step"], line["metrics"]
        tested = {name: value for name, value in scores.items() if name.startswith(_ON_TESTS)}
        values = {name: value for name, value in scores.items() if name not in tested} | line["values"]
        values |= {"labels": clusters, "sent": line["sent"], "received": line["received"]}
        values |= {name: value for name, value in timing.get(step, {}).items() if name.endswith("seconds")}
        rows += [*record_rows(step, values, names), *score_rows(step, "test", clusters, tested, names)]
    return tidy(rows)


def _labels(values: Mapping[str, Any]) -> list[int]:
    """Return the cluster of each client in a record of a method that clusters clients; empty for all others."""
    return list(values["labels"]) if {"labels", "losses", "sizes"} <= values.keys() else []
