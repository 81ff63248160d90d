"""Values of a fit's rounds as one tidy table, a row for every value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedkin.clustering.metrics import adjusted_rand, normalized_mutual_information
from fedkin.core import FedkinError
from fedkin.core.errors import require
from fedkin.core.files import read_json
from fedkin.data.population import client_name
from fedkin.experiment.run_folder import CONFIG, RECORDS, RESULT, no_run, read_lines, read_timing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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
    `fedkin.experiment.evaluation.evaluate_clusters` gives them, and ``own`` metrics as
    `fedkin.estimators.fitting.OwnMetrics` does; `names` are the clients, in order of id.
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


# Records of a run's folder as the tidy table that estimators have as `metrics_`.


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


# Matplotlib figures of a fit, drawn from its tidy metrics.


_NAMED = 30
"""Clients that are written beside a figure; more have no names there."""
_WIDE = 80
"""Letters that fit below a figure."""
_COLOURED = 20
"""Clusters with a colour of their own."""
_MIN_ROUNDS = 3
"""Rounds that make a curve."""

Panel = tuple[str, Callable[["Axes"], None]]
"""Title, and what draws it."""


def figure_of(panels: Sequence[Panel], title: str) -> Figure:
    """Draw panels one below the other in a figure.

    Raises FedkinError if Matplotlib is not installed.
    """
    require("plot", "matplotlib", "plot")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.2 * len(panels)), layout="constrained")
    figure.suptitle(title)
    for axes, (name, draw) in zip(figure.subplots(len(panels), squeeze=False)[:, 0], panels, strict=True):
        axes.set_title(name, loc="left", fontsize="medium")
        draw(axes)
    return figure


def client_panels(metrics: pd.DataFrame, names: Sequence[str]) -> list[Panel]:
    """Return panels of accuracy, clusters of clients, sizes, temperature and loss by round, as far as measured."""
    panels: list[Panel] = []
    for split in ("test", "validation"):
        found = metrics[(metrics["split"] == split) & (metrics["metric"] == "accuracy")]
        if len(found):
            panels.append((f"Accuracy on own {split} samples", lambda axes, own=found: _accuracy(axes, own)))  # type: ignore[misc]
        elif len(common := _of(metrics, "global_accuracy", split)):
            panels.append((f"Accuracy on common {split} samples", lambda axes, own=common: _line(axes, own)))  # type: ignore[misc]
    members = metrics[metrics["metric"] == "member"]
    if len(members):
        panels.append(("Cluster of each client", lambda axes: _members(axes, members, names)))
        panels.append(("Clients in each cluster", lambda axes: _sizes(axes, metrics[metrics["metric"] == "clients"])))
    for name in ("temperature", "loss"):
        own = _of(metrics, name)
        if own["round"].nunique() >= _MIN_ROUNDS:
            panels.append((name.capitalize(), lambda axes, own=own: _line(axes, own)))  # type: ignore[misc]
    return panels


def sample_panels(metrics: pd.DataFrame, names: Sequence[str]) -> list[Panel]:
    """Return panels of the samples of each client in each cluster, and of agreement with labels if known."""
    samples = metrics[(metrics["metric"] == "samples") & metrics["client"].notna()]
    panels: list[Panel] = [("Samples in each cluster, by client", lambda axes: _stacked(axes, samples, names))]
    rand = metrics[(metrics["metric"] == "ari") & metrics["client"].notna()]
    if len(rand):
        panels.append(("Adjusted Rand index within each client", lambda axes: _bars(axes, rand, names)))
    return panels


def _of(metrics: pd.DataFrame, name: str, split: str | None = None) -> pd.DataFrame:
    """Return a metric over all clients, by round."""
    whole = metrics["client"].isna() & metrics["cluster"].isna() & (metrics["metric"] == name)
    return metrics[whole if split is None else whole & (metrics["split"] == split)]


def _accuracy(axes: Axes, found: pd.DataFrame) -> None:
    for client, own in found[found["client"].notna()].groupby("client"):
        clusters = own["cluster"].to_numpy()
        axes.plot(own["round"], own["value"], color=_colour(clusters[-1]), alpha=0.35, linewidth=0.8, gid=str(client))
    by_cluster = found[found["client"].isna() & found["cluster"].notna()]
    for cluster, own in by_cluster.groupby("cluster"):
        axes.plot(own["round"], own["value"], color=_colour(cluster), marker=".", label=f"cluster {cluster}")
    whole = found[found["client"].isna() & found["cluster"].isna()]
    axes.plot(whole["round"], whole["value"], color="black", linestyle="--", label="mean of clients")
    axes.set(xlabel="round", ylabel="accuracy", ylim=(0, 1))
    axes.legend(fontsize="small", ncols=2)


def _members(axes: Axes, members: pd.DataFrame, names: Sequence[str]) -> None:
    from matplotlib.colors import ListedColormap

    rounds = sorted(members["round"].unique())
    grid = np.full((len(names), len(rounds)), np.nan)
    at = {name: row for row, name in enumerate(names)}
    columns = {one: column for column, one in enumerate(rounds)}
    for name, when, cluster in members[["client", "round", "cluster"]].dropna().itertuples(index=False):
        grid[at[name], columns[when]] = cluster % _COLOURED
    colours = ListedColormap([_colour(cluster) for cluster in range(_COLOURED)])
    extent = (rounds[0] - 0.5, rounds[-1] + 0.5, len(names) - 0.5, -0.5)
    axes.imshow(grid, aspect="auto", cmap=colours, vmin=-0.5, vmax=_COLOURED - 0.5, interpolation="none", extent=extent)
    axes.set(xlabel="round")
    _measure_names(axes.set_yticks, names)


def _sizes(axes: Axes, found: pd.DataFrame) -> None:
    wide = found.pivot_table(index="round", columns="cluster", values="value", fill_value=0.0)
    colours = [_colour(cluster) for cluster in wide.columns]
    axes.stackplot(wide.index, wide.to_numpy().T, colors=colours, step="mid", labels=[f"{c}" for c in wide.columns])
    axes.set(xlabel="round", ylabel="clients")


def _line(axes: Axes, found: pd.DataFrame) -> None:
    axes.plot(found["round"], found["value"], color="black", marker=".")
    axes.set(xlabel="round")


def _stacked(axes: Axes, samples: pd.DataFrame, names: Sequence[str]) -> None:
    wide = samples.pivot_table(index="client", columns="cluster", values="value", fill_value=0.0).reindex(names)
    below = np.zeros(len(names))
    for cluster in wide.columns:
        axes.bar(range(len(names)), wide[cluster], bottom=below, color=_colour(cluster), label=f"{cluster}")
        below += wide[cluster].to_numpy()
    axes.set(ylabel="samples")
    _measure_names(axes.set_xticks, names)
    if len(wide.columns) <= _COLOURED:
        axes.legend(title="cluster", fontsize="small", ncols=2)


def _bars(axes: Axes, rand: pd.DataFrame, names: Sequence[str]) -> None:
    splits = sorted(rand["split"].unique(), reverse=True)
    for at, split in enumerate(splits):
        own = rand[rand["split"] == split].set_index("client")["value"].reindex(names)
        axes.bar(np.arange(len(names)) + 0.4 * (at - 0.5 * (len(splits) - 1)), own, width=0.4, label=split)
    axes.set(ylim=(min(0.0, float(rand["value"].min())), 1))
    _measure_names(axes.set_xticks, names)
    axes.legend(fontsize="small")


def _measure_names(set_ticks: Callable[..., Any], names: Sequence[str]) -> None:
    if len(names) <= _NAMED:
        fit = len(max(names, key=len)) * len(names) < _WIDE or set_ticks.__name__ == "set_yticks"
        set_ticks(range(len(names)), labels=list(names), fontsize="small", **({} if fit else {"rotation": 90}))


def _colour(cluster: Any) -> Any:
    from matplotlib import colormaps

    if cluster is None or cluster != cluster:  # a client whose cluster is not known
        return "lightgrey"
    colours = colormaps["tab20"].colors  # type: ignore[attr-defined]
    at = int(cluster) % _COLOURED
    return colours[(2 * at) % _COLOURED + (2 * at) // _COLOURED]  # the strong colours first
