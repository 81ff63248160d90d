"""Matplotlib figures of a fit, drawn from its tidy metrics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedkin.core.extras import require

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
    _names(axes.set_yticks, names)


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
    _names(axes.set_xticks, names)
    if len(wide.columns) <= _COLOURED:
        axes.legend(title="cluster", fontsize="small", ncols=2)


def _bars(axes: Axes, rand: pd.DataFrame, names: Sequence[str]) -> None:
    splits = sorted(rand["split"].unique(), reverse=True)
    for at, split in enumerate(splits):
        own = rand[rand["split"] == split].set_index("client")["value"].reindex(names)
        axes.bar(np.arange(len(names)) + 0.4 * (at - 0.5 * (len(splits) - 1)), own, width=0.4, label=split)
    axes.set(ylim=(min(0.0, float(rand["value"].min())), 1))
    _names(axes.set_xticks, names)
    axes.legend(fontsize="small")


def _names(set_ticks: Callable[..., Any], names: Sequence[str]) -> None:
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
