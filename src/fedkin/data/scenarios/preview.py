"""Preview of a scenario: a table of each client's samples, as text."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fedkin.core.errors import FedkinError
from fedkin.data.population import Population
from fedkin.data.scenarios.partition_scenario import Labelled, PartitionScenario, load_labelled

_WIDTH = 96  # and an indentation of four
_NAME = 8
_SEED = 0


def preview(population: Population, clients: int = 6) -> str:
    """Return a table of training samples per client and class, at most 96 columns wide, without a final line break.

    Clusters and classes, where there are any, are shown; and the cluster that a client drifts to, and the step at which
    it joins. At least so many `clients` are shown, where there are so many; in any case one of every cluster, and one
    of every cluster that drifts or joins late.
    """
    shown = _chosen(_kinds(population), len(population.clients), clients)
    columns = _columns(population, shown)
    widths = [max(map(len, column)) for column in columns]
    lines = [
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in zip(*columns, strict=True)
    ]
    return "\n".join([_headline(population, len(shown)), *_events(population), *lines])


def previews(scenarios: dict[str, type], data: str) -> dict[str, str]:
    """Return, by name of scenario, its preview on `data` with default options, or the reason why there is none.

    Data that several scenarios partition are loaded once. Raises FedkinError if there is a reason against every one of
    them; the last one's.
    """
    loaded = _loaded(data)
    texts, refusals = {}, []
    for name, made in scenarios.items():
        try:
            texts[name] = preview(_population(made(data=data), loaded))
        except FedkinError as error:
            texts[name] = str(error)
            refusals.append(error)
    if refusals and len(refusals) == len(scenarios):
        raise refusals[-1]
    return texts


def _loaded(data: str) -> Labelled | FedkinError:
    try:
        return load_labelled(data)
    except FedkinError as error:
        return error


def _population(scenario: Any, loaded: Labelled | FedkinError) -> Population:
    if not isinstance(scenario, PartitionScenario):
        made: Population = scenario.build(_SEED)
        return made
    if isinstance(loaded, FedkinError):
        raise loaded
    return scenario.partition(loaded, _SEED)


def _kinds(population: Population) -> Tensor | None:
    """Number the clients by cluster, drift and step of joining, equal ones alike; ``None`` without clusters."""
    if population.clusters is None:
        return None
    rows = [population.clusters]
    rows += [] if population.drift is None else [population.drift.clusters]
    rows += [] if population.arrivals is None else [population.arrivals]
    kinds: Tensor = torch.stack(rows).unique(dim=1, return_inverse=True)[1]
    return kinds


def _chosen(clusters: Tensor | None, n: int, wanted: int) -> list[int]:
    """Choose the first clients of all clusters in turns; in order of id."""
    if clusters is None:
        return list(range(min(n, wanted)))
    turn = torch.zeros(n, dtype=torch.int64)
    for cluster in clusters.unique():
        members = clusters == cluster
        turn[members] = torch.arange(int(members.sum()))
    enough = max(wanted, len(clusters.unique()))
    return sorted(turn.argsort(stable=True)[:enough].tolist())


def _headline(population: Population, shown: int) -> str:
    n = len(population.clients)
    parts = [f"{n} clients"]
    if population.clusters is not None:
        sizes = torch.bincount(population.clusters).tolist()
        parts[0] += f" in {len(sizes)} clusters ({', '.join(map(str, sizes))})"
    parts.append(f"{sum(len(client) for client in population.clients):,} samples to train on")
    if population.tests:
        parts.append(f"{sum(len(y) for _, y in population.tests):,} to test")
    if shown < n:
        parts.append(f"{shown} shown")
    return "; ".join(parts)


def _events(population: Population) -> list[str]:
    """Return what happens in the middle of a run, one line each."""
    lines = []
    if population.drift is not None:
        lines.append(f"{len(population.drift.clients)} drift at step {population.drift.step}")
    if population.arrivals is not None:
        late = population.arrivals[population.arrivals > 0]
        lines.append(f"{len(late)} join at step {', '.join(map(str, late.unique().tolist()))}")
    return lines


def _columns(population: Population, shown: list[int]) -> list[list[str]]:
    """Return the table's columns: client, cluster, train and test, and as many classes as fit."""
    columns = [["client", *map(str, shown)]]
    if population.clusters is not None:
        columns.append(["cluster", *(str(int(population.clusters[i])) for i in shown)])
    if population.drift is not None:
        drifting, after = set(population.drift.clients.tolist()), population.drift.clusters.tolist()
        columns.append(["then", *(str(after[i]) if i in drifting else "." for i in shown)])
    if population.arrivals is not None:
        columns.append(["joins", *(str(step) if step else "." for step in population.arrivals[shown].tolist())])
    columns.append(["train", *(str(len(population.clients[i])) for i in shown)])
    if population.tests:
        columns.append(["test", *(str(len(population.tests[i][1])) for i in shown)])
    if population.truth is None or not population.classes:
        return columns
    counts = [torch.bincount(population.truth[i], minlength=len(population.classes)).tolist() for i in shown]
    width = sum(max(map(len, column)) + 2 for column in columns) - 2
    more = ["...", *("" for _ in shown)]
    cell_width = max(len(str(count)) for row in counts for count in row)
    for c, name in enumerate(population.classes):
        column = [name[:_NAME].rjust(cell_width), *(str(row[c]) if row[c] else "." for row in counts)]
        last = c == len(population.classes) - 1
        width += max(map(len, column)) + 2
        if width + (0 if last else len(more[0]) + 2) > _WIDTH:
            return [*columns, more]
        columns.append(column)
    return columns
