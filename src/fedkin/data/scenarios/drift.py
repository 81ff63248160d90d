"""Scenarios that change during a run: clients that move to another cluster, and clients that join late."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from fedkin.core.errors import FedkinError
from fedkin.core.method import Count, Fraction
from fedkin.core.seeds import derive_generator
from fedkin.data.population import Drift, Population
from fedkin.data.scenarios.partition_scenario import Labelled, SampleTransform
from fedkin.data.scenarios.planted import InTurns, LabelFlip, Rotation


@dataclass(frozen=True)
class _Changing(InTurns):
    """Base of scenarios with hidden clusters that change at one step.

    Attributes
    ----------
    kind : {"rotation", "label-flip"}
        Scenario whose clusters are used; client i is in cluster i mod their number.
    angles : list of int
        For "rotation": per cluster, degrees counter-clockwise, multiples of 90.
    n_clusters : int
        For "label-flip": number of clusters.
    step : int
        The first step that sees the change; steps count from 1.
    changed_fraction : float
        Fraction of the clients that change, in [0, 1].
    """

    kind: Literal["rotation", "label-flip"] = "rotation"
    angles: list[int] = field(default_factory=lambda: [0, 90, 180, 270])
    n_clusters: Count = 4
    step: Count = 20
    changed_fraction: Fraction = 0.3

    def before(self, data: Labelled, seed: int) -> tuple[Population, Tensor, int]:
        """Return the population without the change, the hidden cluster of each client, and the number of clusters."""
        common = (self.data, self.label, self.test_fraction, self.samples_per_client, self.clients, self.alpha)
        planted = Rotation(*common, self.angles) if self.kind == "rotation" else LabelFlip(*common, self.n_clusters)
        count = len(self.angles) if self.kind == "rotation" else self.n_clusters
        population = planted.partition(data, seed)
        return population, torch.arange(len(population.clients)) % count, count


@dataclass(frozen=True)
class DriftSwap(_Changing):
    """Concept drift: a fraction of every cluster moves to another cluster during a run, training and test data alike.

    Where `changed_fraction` is above 0, at least one client of every cluster moves and one stays; a cluster of one
    client does not change.

    Attributes
    ----------
    to : {"next", "new"}
        "next": clients move to the next cluster, from the last one to the first. "new": all move to one new cluster,
        whose images are rotated by an unused multiple of 90 degrees, or mirrored if there is none, or whose labels are
        shifted by `n_clusters`.
    """

    to: Literal["next", "new"] = "next"

    def partition(self, data: Labelled, seed: int) -> Population:
        population, clusters, count = self.before(data, seed)
        chosen = _of_every_cluster(clusters, count, self.changed_fraction, seed)
        if self.changed_fraction > 0 and len(chosen) == 0:
            raise FedkinError(
                f"clients is {len(clusters)}; allowed: {count + 1} or more, so that some of a cluster can drift."
            )
        if self.to == "next" and count < 2:
            raise FedkinError("to is 'next', but there is only one cluster; allowed: 'new', or two clusters or more.")
        after = clusters.clone()
        after[chosen] = count if self.to == "new" else (clusters[chosen] + 1) % count
        classes = len(data.classes)
        if self.kind == "rotation":
            change = _turned([angle // 90 % 4 for angle in self.angles], clusters.tolist(), after.tolist())
        elif self.to == "new" and count >= classes:
            raise FedkinError(
                f"n_clusters is {count}; allowed: less than the {classes} classes, to have a shift to spare."
            )
        else:
            change = _relabelled(classes, clusters.tolist(), after.tolist())
        drift = Drift(self.step, chosen, change, after)
        _check_classes(population, {i: change(i, *population.samples(i))[1] for i in chosen.tolist()}, "drifts")
        return dataclasses.replace(population, drift=drift)


@dataclass(frozen=True)
class Arrivals(_Changing):
    """Late arrivals: the last clients, in order of id, join in the middle of a run.

    Where `changed_fraction` is above 0, at least one client of every cluster joins then, and one takes part from the
    start.
    """

    def partition(self, data: Labelled, seed: int) -> Population:
        population, clusters, count = self.before(data, seed)
        n = len(clusters)
        if self.changed_fraction == 0:
            return population
        if n < 2 * count:
            raise FedkinError(
                f"clients is {n}; allowed: {2 * count} or more, so that some of each cluster can join later."
            )
        late = min(n - count, max(count, round(self.changed_fraction * n)))
        arrivals = torch.zeros(n, dtype=torch.int64)
        arrivals[n - late :] = self.step
        _check_classes(population, {i: population.samples(i)[1] for i in range(n - late, n)}, "joins")
        return dataclasses.replace(population, arrivals=arrivals)


def _of_every_cluster(clusters: Tensor, count: int, fraction: float, seed: int) -> Tensor:
    """Draw the same fraction of each cluster's clients from the seed; int64, in order of id."""
    chosen = [torch.zeros(0, dtype=torch.int64)]
    for cluster in range(count):
        members = (clusters == cluster).nonzero()[:, 0]
        n = len(members)
        going = min(n - 1, max(1, round(fraction * n))) if fraction > 0 else 0
        chosen.append(members[torch.randperm(n, generator=derive_generator(seed, "drift", cluster))[:going]])
    return torch.cat(chosen).sort().values


def _turned(turns: list[int], before: list[int], after: list[int]) -> SampleTransform:
    """Return the transform that rotates images from one cluster's angle to another's, or to that of a new cluster."""
    free = [turn for turn in range(4) if turn not in turns]
    worlds = [*turns, free[0] if free else 0]

    def change(client: int, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        x = torch.rot90(x, worlds[after[client]] - worlds[before[client]], (2, 3))
        mirrored = after[client] == len(turns) and not free
        return (x.flip(3) if mirrored else x).contiguous(), y

    return change


def _relabelled(classes: int, before: list[int], after: list[int]) -> SampleTransform:
    """Return the transform from one cluster's labels to another's; in cluster s, class c is called c - s."""

    def change(client: int, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return x, (y - (after[client] - before[client])) % classes

    return change


def _check_classes(population: Population, later: dict[int, Tensor], what: str) -> None:
    """Check that clients that drift or join have no new classes, for which models would lack outputs."""
    early = [client.y for client in population.clients if client.id not in later or what == "drifts"]
    known = max(int(y.max()) for y in early if y is not None)
    for client, y in later.items():
        if int(y.max()) > known:
            raise FedkinError(
                f"Client {client} {what} with the class '{population.classes[int(y.max())]}', which no client had "
                "before; use fewer clients or a larger alpha, so that all classes exist from the start."
            )
