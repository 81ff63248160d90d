"""Scenarios of FedCRef: unlabelled clients that see a few classes each, and data that are split already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fedkin.core.errors import FedkinError, unknown_name
from fedkin.core.method import Fraction
from fedkin.core.seeds import derive_generator
from fedkin.data.population import Population
from fedkin.data.preparing.agreeing_clients import load_agreeing_clients
from fedkin.data.reading.client_files import ignored_in
from fedkin.data.reading.dataset import Dataset
from fedkin.data.reading.sources import load
from fedkin.data.reading.table_options import TableOptions
from fedkin.data.scenarios.partition import class_range, dirty, fitting_samples_per_class, label_skew
from fedkin.data.scenarios.partition_scenario import DataSetScenario, client_of, hold_out

_INITIAL = ("method", "true", "dirty")


@dataclass(frozen=True)
class LabelSkew(DataSetScenario):
    """One labelled data set partitioned so that each client sees only some of its classes (FedCRef, section 5.2).

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
        """The clients; their state holds ``n_clusters`` and, with simulated starting labels, those as ``given``.

        Both are int64: ``n_clusters`` a scalar, the number of classes at the client; ``given`` of shape ``(n,)``, in
        ``0..n_clusters-1`` by order of class. The partition depends on `seed` and not on `initial` or `dirtiness`.

        Raises
        ------
        FedkinError
            If the data cannot be loaded or have no labels, or an option is out of its range.
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


_SURELY_LABELS = ("label", "labels")
"""Columns of such names are hardly features."""


@dataclass(frozen=True)
class ClientFiles:
    """Data that are split already, taken as they are.

    Attributes
    ----------
    data : str, Path, sequence or mapping
        A folder with one file per client, or the file, DataFrame or array of each client, in order or by the client's
        name; see `fedkin.data.reading.client_files.load_clients`.
    label : str or None
        The column or array of labels of every client. If all have labels, they are the clients' and the truth.
    test_fraction : float
        Fraction of every client's samples that is held out for tests, in [0, 1]; needs labels if it is above 0.
    table : TableOptions or None
        How the tables' columns are read.
    """

    data: str | Path | Sequence[Any] | Mapping[str, Any]
    label: str | None = None
    test_fraction: Fraction = 0.0
    table: TableOptions | None = None

    def build(self, seed: int = 0) -> Population:
        """The clients, in order of file name or as listed; only what is held out is random.

        Raises
        ------
        FedkinError
            If there is no client, or any client's data cannot be used, with a line for each problem; if arrays differ
            in shape, or tests are wanted of data without labels.
        """
        sites = load_agreeing_clients(self.data, self.label, self.table)
        labelled = all(site.y is not None for site in sites)
        if self.test_fraction > 0 and not labelled:
            raise FedkinError(
                f"test_fraction is {self.test_fraction}, but not every client has labels to test against."
            )
        clients, tests = [], []
        for i, site in enumerate(sites):
            rows = torch.arange(len(site))
            kept, out = hold_out(rows, self.test_fraction, derive_generator(seed, "test", i))
            client = client_of(i, site, kept if len(out) else None)
            clients.append(replace(client, y=site.y[kept] if labelled and site.y is not None else None))
            if self.test_fraction > 0 and site.y is not None:
                tests.append((site.x[out], site.y[out]))
        return Population(
            clients,
            [client.y for client in clients if client.y is not None] if labelled else None,
            sites[0].classes if labelled else [],
            list(dict.fromkeys(name for site in sites for name in site.features)),
            [site.name for site in sites],
            tests,
            notes=(*_ignored(self.data), *_label_notes(sites, self.label, labelled)),
        )


def _ignored(data: object) -> list[str]:
    """A sentence on files that nobody reads though they could hold a client's data."""
    found = ignored_in(data)
    if not found:
        return []
    are = "is no file" if len(found) == 1 else "are no files"
    return [f"{_few(found)} {are} that fedkin reads, and no client's; save tables as .csv or .parquet."]


def _label_notes(sites: Sequence[Dataset], label: str | None, labelled: bool) -> list[str]:
    """Sentences on columns that were taken for labels though nobody has named them."""
    if label is not None:
        return []
    columns: dict[str, list[str]] = {}
    for site in sites:
        if site.label is not None:
            columns.setdefault(site.label, []).append(site.name)
    if labelled:
        return [
            f"Column '{name}' is taken for labels{_of_some(own, sites)}, so it is no feature; if it is one, rename it, "
            "or name the labels with data.label."
            for name, own in columns.items()
            if name not in _SURELY_LABELS
        ]
    without = _few([site.name for site in sites if site.y is None])
    return [
        f"Column '{name}'{_of_some(own, sites)} is called like labels, but none are in {without}, so it is left "
        "out and nothing is compared with labels; if it is a feature, rename it."
        for name, own in columns.items()
    ]


def _of_some(own: Sequence[str], sites: Sequence[Dataset]) -> str:
    return "" if len(own) == len(sites) else f" of {_few(own)}"


def _few(names: Sequence[str], most: int = 5) -> str:
    """Some names, of which the first are listed."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


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
