"""Scenarios of hidden clusters whose samples are rotated, relabelled, or from another domain."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from fedkin.core.errors import FedkinError
from fedkin.core.method import Count, Fraction, Positive
from fedkin.core.seeds import derive_generator
from fedkin.data.names import EMBEDDED
from fedkin.data.population import Population
from fedkin.data.scenarios.partition_scenario import (
    DataSetScenario,
    Labelled,
    PartitionScenario,
    SampleTransform,
    clients_or_default,
    labels_of,
    populate,
)
from fedkin.data.scenarios.split import capped_dirichlet
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
        known = [name for name in _DOMAINS if name in names]
        for name in [*known, *sorted(set(names) - set(known))]:
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
            f"scenario.shrink is {side}, but a sample of '{source}' has the shape {tuple(x.shape[1:])}; it is for "
            "images at least that large."
        )
    return avg_pool2d(x, side)
