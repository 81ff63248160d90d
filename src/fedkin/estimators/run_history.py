"""Records of a run's folder as the tidy table that estimators have as `metrics_`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedkin.core import FedkinError
from fedkin.core.files import read_json
from fedkin.data.population import client_name
from fedkin.estimators.metrics_frame import Row, history_rows, judged_rows, tidy
from fedkin.experiment.outputs import RESULT
from fedkin.experiment.run_folder import CONFIG, RECORDS, no_run, read_lines, read_timing

if TYPE_CHECKING:
    import pandas as pd

_ON_TESTS = ("client_", "personal_", "global_", "learning_gap")
"""How metrics begin that are measured on held-out samples."""


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
    return tidy(_rows(lines, _names(path, lines), path))


def _rows(lines: list[dict[str, Any]], names: list[str], folder: Path) -> Iterator[Row]:
    seconds = {line["step"]: line for line in read_timing(folder)}
    for line in lines:
        step, values, metrics = line["step"], line["values"], line["metrics"]
        tested = {name: value for name, value in metrics.items() if name.startswith(_ON_TESTS)}
        others = {name: value for name, value in metrics.items() if name not in tested}
        moved = {name: line[name] for name in ("sent", "received")}
        took = {name: value for name, value in seconds.get(step, {}).items() if name.endswith("seconds")}
        shown = values if _labels(line) else {name: value for name, value in values.items() if name != "labels"}
        yield from history_rows([{**others, **shown, "step": step, **moved, **took}], names)
        labels = [None if label < 0 else label for label in _labels(line)]
        yield from judged_rows([{"round": step, "split": "test", "labels": labels, "scores": tested, "own": {}}], names)


def _labels(line: Mapping[str, Any]) -> list[int]:
    """Return the cluster of each client in a round of a method that clusters clients; empty for all others."""
    values = line["values"]
    return list(values["labels"]) if {"labels", "losses", "sizes"} <= set(values) else []


def _names(folder: Path, lines: list[dict[str, Any]]) -> list[str]:
    """Return the clients' names, or numbers where they have none or the run has not ended."""
    known: Mapping[str, Any] = read_json(folder / RESULT, dict[str, Any]) if (folder / RESULT).is_file() else {}
    given = list(known.get("clients", []))
    count = max(len(given), *(len(_labels(line)) for line in lines))
    return [client_name(at, given) for at in range(count)]
