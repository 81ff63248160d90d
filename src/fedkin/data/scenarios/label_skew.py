"""Scenario of FedCRef: unlabelled clients that have samples of a few classes each."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedkin.core.errors import FedkinError, unknown_name
from fedkin.core.seeds import derive_generator
from fedkin.data.population import Population
from fedkin.data.reading.dataset import Dataset
from fedkin.data.reading.sources import load
from fedkin.data.scenarios.partition import class_range, dirty, fitting_samples_per_class, label_skew
from fedkin.data.scenarios.partition_scenario import DataSetScenario, client_of

_INITIAL = ("method", "true", "dirty")


@dataclass(frozen=True)
class LabelSkew(DataSetScenario):
    """Label skew: each client has samples of a few classes of one labelled data set (FedCRef, section 5.2).

    Attributes
    ----------
    n_classes : int or None
        Keep only so many classes, the most frequent ones.
    clients : int
        Number of clients, at least 1.
    min_classes, max_classes : int or None
        Range of the number of classes per client; by default 2 to half of all.
    samples_per_class : int or None
        Samples of each class a client holds; by default as many as the data allow, at most 500.
    overlap : float
        Fraction of a client's samples of a class that all its holders have, in [0, 1].
    initial : {"method", "true", "dirty"}
        Starting labels of each client's samples: whatever the method makes of them; the true classes; or those with a
        fraction of `dirtiness` moved at random.
    dirtiness : float
        In [0, 1].
    """

    n_classes: int | None = None
    clients: int = 10
    min_classes: int | None = None
    max_classes: int | None = None
    samples_per_class: int | None = None
    overlap: float = 0.0
    initial: str = "method"
    dirtiness: float = 0.3

    def build(self, seed: int) -> Population:
        """Build the clients; their state holds ``n_clusters`` and, with simulated starting labels, those as ``given``.

        Both are int64: ``n_clusters`` a scalar, the number of classes at the client; ``given`` of shape ``(n,)``, in
        ``0..n_clusters-1`` by order of class. The partition depends on `seed` and not on `initial` or `dirtiness`.
        Raises FedkinError if the data cannot be loaded or have no labels, or an option is out of its range.
        """
        if self.initial not in _INITIAL:
            raise unknown_name("value for initial", self.initial, _INITIAL)
        dataset, y = self._labelled_data()
        bounds = class_range(len(torch.unique(y)), self.min_classes, self.max_classes)
        samples = self.samples_per_class
        if samples is None:
            samples = fitting_samples_per_class(y, self.clients, bounds)
        parts = label_skew(
            y,
            self.clients,
            classes_per_client=bounds,
            samples_per_class=samples,
            overlap=self.overlap,
            rng=derive_generator(seed, "partition"),
        )
        clients = [
            replace(client_of(i, dataset, part), state=self._state(y[part], seed, i)) for i, part in enumerate(parts)
        ]
        return Population(clients, [y[part] for part in parts], dataset.classes, dataset.features)

    def _labelled_data(self) -> tuple[Dataset, Tensor]:
        dataset = load(self.data, self.label, options=self.table)
        if dataset.y is None:
            raise FedkinError(
                f"'{self.data}' has no labels to partition its samples by; name their column with 'data.label', "
                "or use the scenario 'files' if it holds one file per client."
            )
        if self.n_classes is None:
            return dataset, dataset.y
        return _most_frequent(dataset, dataset.y, self.n_classes)

    def _state(self, truth: Tensor, seed: int, client: int) -> dict[str, Tensor]:
        held, given = torch.unique(truth, return_inverse=True)
        state = {"n_clusters": torch.tensor(len(held))}
        if self.initial == "true":
            state["given"] = given
        if self.initial == "dirty":
            state["given"] = dirty(given, self.dirtiness, derive_generator(seed, "dirty", client))
        return state


def _most_frequent(dataset: Dataset, y: Tensor, n_classes: int) -> tuple[Dataset, Tensor]:
    available = len(torch.unique(y))
    if not 1 <= n_classes <= available:
        raise FedkinError(
            f"n_classes is {n_classes}; allowed: 1 to {available}, the number of classes in '{dataset.name}'."
        )
    sizes = torch.bincount(y, minlength=len(dataset.classes))
    kept = sizes.argsort(descending=True, stable=True)[:n_classes].sort().values
    rows = torch.isin(y, kept)
    chosen = dataset.rows(rows)
    return replace(chosen, classes=[dataset.classes[int(c)] for c in kept]), torch.searchsorted(kept, y[rows])
