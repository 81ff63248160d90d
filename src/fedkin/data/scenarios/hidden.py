"""Scenarios of hidden clusters: samples are turned, relabelled, of another domain or class; and clients drift."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from fedkin.core.errors import FedkinError, unknown_name
from fedkin.core.method import Count, Fraction, Positive
from fedkin.core.seeds import derive_generator, draw_seed
from fedkin.data.names import EMBEDDED
from fedkin.data.population import Drift, Population
from fedkin.data.scenarios.partition_scenario import (
    DataSetScenario,
    Labelled,
    PartitionScenario,
    SampleTransform,
    clients_or_default,
    labels_of,
    populate,
)
from fedkin.data.scenarios.split import allocate, apportion, capped_dirichlet
from fedkin.data.sources import load

_DOMAINS = ("photo", "art_painting", "cartoon", "sketch")
_PAPER_CLIENTS = 100
_LEAST = 10
"""Tests of a client at least, unless the average is less than twice as many; `capped_dirichlet` has the same number."""


@dataclass(frozen=True)
class InTurns(PartitionScenario):
    """Base of scenarios in which client i is in cluster i mod the number of clusters.

    Attributes
    ----------
    clients : int or None
        Number of clients, at least one per cluster. By default 100 with 10,000 training samples or more, else 20.
        Each has at least ten training samples, and at least ten tests, or half of the average if that is less.
    alpha : float
        Concentration of the Dirichlet distribution, above 0.
    """

    clients: Count | None = None
    alpha: Positive = 10.0

    def in_turns(self, data: Labelled, seed: int, n_clusters: int, change: SampleTransform) -> Population:
        """Populate clients of all clusters in turns, with samples changed as their cluster's are."""
        n = clients_or_default(self.clients, len(data), _PAPER_CLIENTS)
        if n < n_clusters:
            raise FedkinError(f"clients is {n}; allowed: {n_clusters} or more, one for each cluster.")
        tests = None
        if data.test is not None:
            y = data.test[1]
            # A thousand clients have ten tests each of MNIST on average, so half of the average must do.
            least = max(1, min(_LEAST, len(y) // (2 * n)))
            tests = capped_dirichlet(y, n, self.alpha, derive_generator(seed, "test"), least)
        parts = capped_dirichlet(data.y, n, self.alpha, derive_generator(seed, "partition"))
        clusters = torch.arange(n) % n_clusters
        return self.populated(data, parts, seed, tests=tests, clusters=clusters, change=change)


@dataclass(frozen=True)
class Rotation(InTurns):
    """Clusters whose images are rotated by different angles (Prigent et al.).

    Client i is in cluster i mod the number of clusters. Sizes and class proportions come from
    `fedkin.data.scenarios.split.capped_dirichlet`, of the training and the test split independently, as in the authors'
    code. Data must be square images.

    Attributes
    ----------
    angles : list of int
        Per cluster, degrees counter-clockwise, multiples of 90.
    """

    angles: list[int] = field(default_factory=lambda: [0, 90, 180, 270])

    def partition(self, data: Labelled, seed: int) -> Population:
        shape = tuple(data.x.shape[1:])
        if len(shape) != 3 or shape[1] != shape[2]:
            what = "a table" if len(shape) != 3 else f"images of {shape[1]} x {shape[2]}"
            raise FedkinError(f"'{data.name}' is {what}, but the scenario 'rotation' turns square images.")
        if not self.angles or any(angle % 90 for angle in self.angles):
            raise FedkinError(f"angles is {self.angles}; allowed: one or more multiples of 90.")
        turns = [angle // 90 % 4 for angle in self.angles]

        def turned(client: int, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
            return torch.rot90(x, turns[client % len(turns)], (2, 3)).contiguous(), y

        return self.in_turns(data, seed, len(turns), turned)


@dataclass(frozen=True)
class LabelFlip(InTurns):
    """Clusters that number the same classes differently: in cluster s, class c is called c - s (Prigent et al.).

    Client i is in cluster i mod `n_clusters`; sizes are those of `Rotation`.

    Attributes
    ----------
    n_clusters : int
        At most the number of classes, beyond which labels would repeat.
    """

    n_clusters: Count = 4

    def partition(self, data: Labelled, seed: int) -> Population:
        classes = len(data.classes)
        if not 1 <= self.n_clusters <= classes:
            raise FedkinError(
                f"n_clusters is {self.n_clusters}; allowed: 1 to {classes}, the classes of '{data.name}'."
            )

        def flipped(client: int, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
            return x, (y - client % self.n_clusters) % classes

        return self.in_turns(data, seed, self.n_clusters, flipped)


@dataclass(frozen=True)
class Domain(DataSetScenario):
    """Clusters whose samples are from different domains, such as the photos and sketches of PACS (Prigent et al.).

    Attributes
    ----------
    test_fraction : float
        Fraction of every client's samples that is held out, in [0, 1].
    samples_per_client : int or None
        Maximum number of training samples at each client, chosen at random; all by default.
    column : str
        The data's column or array that names each sample's domain.
    clients_per_domain : int
        Clients are ordered by domain: photo, art_painting, cartoon, sketch, then others by name.
    alpha : float
        Concentration of the Dirichlet distribution by which a domain is allocated to its clients, above 0; see
        `fedkin.data.scenarios.split.capped_dirichlet`.
    shrink : int
        Images are made smaller: squares of so many pixels on a side become one, their mean. 1 leaves them as they are.
    """

    data: str = "pacs"
    test_fraction: Fraction = 0.2
    samples_per_client: Count | None = None
    column: str = "domain"
    clients_per_domain: Count = 10
    alpha: Positive = 10.0
    shrink: Count = 1

    def build(self, seed: int) -> Population:
        """Build the clients, with labels, tests and their domains as hidden clusters; see `DataSetScenario.build`."""
        if self.data in EMBEDDED:
            raise FedkinError(
                f"'{self.data}' has no column '{self.column}'; the scenario 'domain' needs data from several domains, "
                "such as PACS."
            )
        train = load(self.data, self.label, cluster=self.column, options=self.table)
        assert train.clusters is not None
        x = train.x if self.shrink == 1 else shrunken(train.x, self.shrink, self.data)
        (of_sample, names), y = train.clusters, labels_of(train)
        parts: list[Tensor] = []
        domains = [name for name in _DOMAINS if name in names]
        for name in [*domains, *sorted(set(names) - set(domains))]:
            rows = (of_sample == names.index(name)).nonzero()[:, 0]
            rng = derive_generator(seed, "partition", name)
            parts += [rows[part] for part in capped_dirichlet(y[rows], self.clients_per_domain, self.alpha, rng)]
        return populate(
            Labelled(train.name, x, y, train.classes, train.table),
            parts,
            seed,
            test_fraction=self.test_fraction,
            samples_per_client=self.samples_per_client,
            clusters=torch.arange(len(names)).repeat_interleave(self.clients_per_domain),
        )


def shrunken(x: Tensor, side: int, source: str) -> Tensor:
    """Downsample images ``(n, C, H, W)`` by averaging squares of `side` pixels: ``(n, C, H // side, W // side)``.

    Raises FedkinError if they are no images, or smaller than that.
    """
    if x.dim() != 4 or min(x.shape[2:]) < side:
        raise FedkinError(
            f"simulation.shrink is {side}, but a sample of '{source}' has the shape {tuple(x.shape[1:])}; it is for "
            "images at least that large."
        )
    return avg_pool2d(x, side)


# Clients that see different classes: the scenarios of OCFL and of gradient-loss clustering.


_DISJOINT = (range(4), range(4, 7), range(7, 10))
_OVERLAPPING = ((0, 1, 2, 3, 8, 9), range(4, 10), range(6))
_IMBALANCED = {15: [3, 7, 5], 30: [7, 14, 9]}
_DRAWINGS = ("disjoint", "replacement")

_MISSING = {
    "mnist": [[7, 9], [5, 8], [3, 8], [8, 9]],
    "fashion": [[5, 7], [3, 9], [5, 9], [7, 8]],
    "cifar": [[5, 8], [4, 6], [7, 9], [6, 8]],
}
_EMNIST_CLASSES, _EMNIST_CLUSTERS, _EMNIST_MISSING = 47, 8, 7


@dataclass(frozen=True)
class LabelClusters(PartitionScenario):
    """Three clusters of clients with classes of their own (OCFL, its authors' data library); needs ten classes.

    The clusters hold the classes 0-3, 4-6 and 7-9, or, overlapping, 0-3 with 8-9, 4-9 and 0-5. The data's test split is
    left to all clients in common.

    Attributes
    ----------
    test_fraction : float
        Fraction of every client's samples that is held out; here in any case.
    clients : int
        At least 3, ordered by cluster. Balanced clusters are of equal size. Imbalanced ones have 3, 7 and 5 of 15
        clients and 7, 14 and 9 of 30; other numbers are allocated in the proportions 3 : 7 : 5.
    overlap : bool
        Whether clusters have classes in common: they hold classes 0-3 with 8-9, 4-9, and 0-5.
    balanced : bool
        Whether classes are as frequent as in the data, or weighted by one draw per cluster from Dirichlet(1).
    drawing : {"disjoint", "replacement"}
        The authors' draw, by ``"replacement"``: every client draws its fraction of all samples, and keeps
        the distinct ones, so clients of a cluster have some in common. ``"disjoint"`` gives them the same expected
        mixture of classes and no sample to two clients, and fewer samples where there are not enough.
    """

    clients: Count = 15
    overlap: bool = False
    balanced: bool = True
    drawing: Literal["disjoint", "replacement"] = "disjoint"
    test_fraction: Fraction = 0.3

    def partition(self, data: Labelled, seed: int) -> Population:
        if self.drawing not in _DRAWINGS:
            raise unknown_name("value for drawing", self.drawing, _DRAWINGS)
        if len(data.classes) != 10:
            raise FedkinError(
                f"'{data.name}' has {len(data.classes)} classes, but the clusters of 'label-clusters' are made of "
                "exactly 10."
            )
        clusters = self.hidden_clusters()
        weights = self._weights(seed)
        if not (weights @ torch.bincount(data.y, minlength=10).double()).all():
            raise FedkinError(f"'{data.name}' has no sample of any class of one of the clusters of 'label-clusters'.")
        draw = _disjoint if self.drawing == "disjoint" else _with_replacement
        parts = draw(data.y, weights[clusters], seed)
        return self.populated(data, parts, seed, clusters=clusters)

    def hidden_clusters(self) -> Tensor:
        """Return the hidden cluster of each client, int64 ``(clients,)``; it does not depend on data.

        Raises FedkinError if there are fewer than 3 clients.
        """
        return torch.arange(3).repeat_interleave(torch.tensor(self._sizes()))

    def _sizes(self) -> list[int]:
        if self.clients < 3:
            raise FedkinError(f"clients is {self.clients}; allowed: 3 or more, one for each cluster.")
        if self.balanced:
            return apportion(self.clients, [1, 1, 1])
        return _IMBALANCED.get(self.clients) or apportion(self.clients, [3, 7, 5])

    def _weights(self, seed: int) -> Tensor:
        """Return the weight of a sample by cluster and class, float64 ``(3, 10)``."""
        weights = torch.zeros(3, 10, dtype=torch.float64)
        for cluster, classes in enumerate(_OVERLAPPING if self.overlap else _DISJOINT):
            draws = np.random.default_rng(draw_seed(derive_generator(seed, "weights", cluster)))
            shares = np.ones(len(classes)) if self.balanced else draws.dirichlet(np.ones(len(classes)))
            weights[cluster, list(classes)] = torch.from_numpy(shares)
        return weights


@dataclass(frozen=True)
class MissingClasses(PartitionScenario):
    """Clusters of clients that each lack a few classes (gradient-loss clustering, Fig. 2).

    Every class is split equally among the clusters that have it, and a cluster's samples at random and equally among
    its clients; the data's test split alike.

    Attributes
    ----------
    clients : int or None
        At least one per cluster, ordered by cluster. By default, with 10,000 training samples or more, 80, or 200 for
        47 classes; with fewer samples 20.
    missing : list of list of int or None
        Per cluster, the indices of the classes it lacks. By default, for ten classes, the four clusters of the
        paper: those for Fashion-MNIST or CIFAR-10 if the data have such a name, else those for MNIST. For 47 classes,
        as in EMNIST, eight clusters that lack seven each, drawn from the seed.
    reindex : bool
        Whether each cluster numbers its classes ``0, 1, ...`` anew, as the paper's eight outputs for ten classes imply.
    """

    clients: Count | None = None
    missing: list[list[int]] | None = None
    reindex: bool = False

    def partition(self, data: Labelled, seed: int) -> Population:
        missing = _missing_of_paper(data, seed) if self.missing is None else self.missing
        held = _held(missing, len(data.classes))
        paper = 200 if len(data.classes) == _EMNIST_CLASSES else 80
        clients = clients_or_default(self.clients, len(data), paper)
        if clients < len(held):
            raise FedkinError(f"clients is {clients}; allowed: {len(held)} or more, one for each cluster.")
        sizes = apportion(clients, [1] * len(held))
        tests = None
        if data.test is not None:
            tests = _equal_shares(data.test[1], held, sizes, derive_generator(seed, "test"))
        clusters = torch.arange(len(held)).repeat_interleave(torch.tensor(sizes))
        parts = _equal_shares(data.y, held, sizes, derive_generator(seed, "partition"))
        if not self.reindex:
            return self.populated(data, parts, seed, tests=tests, clusters=clusters)
        data = replace(data, classes=[str(i) for i in range(int(held.sum(1).max()))])
        renumbered = _renumbering(held[clusters])
        return self.populated(data, parts, seed, tests=tests, clusters=clusters, change=renumbered)


def _disjoint(y: Tensor, weights: Tensor, seed: int) -> list[Tensor]:
    """Partition samples by each client's mixture of classes in `weights`; clients get fewer where a class is short."""
    sizes = torch.bincount(y, minlength=weights.shape[1])
    mixture = weights * sizes
    targets = len(y) // len(weights) * mixture / mixture.sum(1, keepdim=True)
    available = torch.where(targets > 0, sizes / targets.sum(0), torch.inf)
    scale = available.amin(1, keepdim=True).clamp(max=1)
    counts = (targets * scale + 1e-9).floor().long()  # what rounding took from a whole number is given back
    return allocate(y, counts.T, derive_generator(seed, "partition"))


def _with_replacement(y: Tensor, weights: Tensor, seed: int) -> list[Tensor]:
    size, rngs = len(y) // len(weights), [derive_generator(seed, "partition", i) for i in range(len(weights))]
    return [
        torch.multinomial(shares[y], size, replacement=True, generator=rng).unique()
        for shares, rng in zip(weights, rngs, strict=True)
    ]


def _missing_of_paper(data: Labelled, seed: int) -> list[list[int]]:
    classes, name = len(data.classes), data.name.lower()
    if classes == _EMNIST_CLASSES:
        rng = derive_generator(seed, "missing")
        draws = [torch.randperm(classes, generator=rng)[:_EMNIST_MISSING] for _ in range(_EMNIST_CLUSTERS)]
        return [sorted(draw.tolist()) for draw in draws]
    if classes != 10:
        raise FedkinError(
            f"'{data.name}' has {classes} classes, but 'missing-classes' knows clusters for 10 and for 47; give others "
            "with 'simulation.missing'."
        )
    return next((table for key, table in _MISSING.items() if key != "mnist" and key in name), _MISSING["mnist"])


def _held(missing: Sequence[Sequence[int]], classes: int) -> Tensor:
    """Return which cluster has which class, bool ``(clusters, classes)``."""
    if not missing:
        raise FedkinError("missing names no cluster; give at least one list of classes, which may be empty.")
    held = torch.ones(len(missing), classes, dtype=torch.bool)
    for cluster, lacking in enumerate(missing):
        wrong = [c for c in lacking if not 0 <= c < classes]
        if wrong:
            raise FedkinError(f"missing names class {wrong[0]} for cluster {cluster}; allowed: 0 to {classes - 1}.")
        held[cluster, list(lacking)] = False
        if not held[cluster].any():
            raise FedkinError(f"missing names all {classes} classes for cluster {cluster}; it must keep at least one.")
    return held


def _equal_shares(y: Tensor, held: Tensor, sizes: Sequence[int], rng: torch.Generator) -> list[Tensor]:
    share = torch.bincount(y, minlength=held.shape[1]) // held.sum(0).clamp(min=1)
    pools = allocate(y, (held * share).T, rng)
    return [part for pool, size in zip(pools, sizes, strict=True) for part in pool.tensor_split(size)]


def _renumbering(held: Tensor) -> SampleTransform:
    """Return the transform that renumbers each client's classes, given in `held`, bool ``(clients, classes)``."""
    new = held.cumsum(1) - 1
    return lambda client, x, y: (x, new[client][y])


# Clients that move to another cluster, or join late.


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
    highest = max(int(y.max()) for y in early if y is not None)
    for client, y in later.items():
        if int(y.max()) > highest:
            raise FedkinError(
                f"Client {client} {what} with the class '{population.classes[int(y.max())]}', which no client had "
                "before; use fewer clients or a larger alpha, so that all classes exist from the start."
            )
