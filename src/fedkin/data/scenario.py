"""Scenarios: the clients of a federation, and the truth that only the evaluator gets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from fedkin.core.client import Client
from fedkin.core.errors import FedkinError, unknown_name
from fedkin.core.seeds import derive_generator
from fedkin.data.arrays import as_tensor, check_same_shape
from fedkin.data.dataset import Dataset
from fedkin.data.load import load, load_sites
from fedkin.data.partition import class_range, dirty, fitting_samples_per_class, label_skew

_INITIAL = ("method", "true", "dirty")


@dataclass(frozen=True)
class Population:
    """Clients, and what is known about them apart from their data.

    Attributes
    ----------
    clients : list of Client
        Ids are ``0..n-1``; `y` is ``None``, for the samples are unlabelled to every method.
    truth : list of Tensor or None
        Per client, the int64 class of each sample; for the evaluator alone.
    classes : list of str
        Names of the true classes; empty if there are none.
    features : list of str
        Column names of a table; empty where there are none.
    names : list of str
        What the sites call themselves, such as their file's name; empty where ids are all there is.
    """

    clients: list[Client]
    truth: list[Tensor] | None
    classes: list[str]
    features: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """``"image"`` or ``"table"``."""
        return "table" if self.image_shape is None else "image"

    @property
    def image_shape(self) -> tuple[int, int, int] | None:
        """Channels, height and width of images; ``None`` for tables."""
        x = self.clients[0].x
        return (x.shape[1], x.shape[2], x.shape[3]) if x.ndim == 4 else None


@dataclass(frozen=True)
class LabelSkew:
    """One labelled data set dealt out so that each site sees only some of its classes (FedCRef, section 5.2).

    Attributes
    ----------
    data : str
        Name or path, see `fedkin.data.load.load`.
    label : str or None
        Its column of labels, where the usual names do not tell.
    n_classes : int or None
        Keep only so many classes, the most frequent ones.
    clients : int
        Number of sites, at least 1.
    min_classes, max_classes : int or None
        Range of the number of classes per site; by default 2 to half of all.
    samples_per_class : int or None
        Of each class a site holds; by default as many as the data allow, at most 500.
    overlap : float
        Share of a site's samples of a class that all its holders have, in [0, 1].
    initial : {"method", "true", "dirty"}
        Starting labels of each site's samples: whatever the method makes of them; the true classes; or those with a
        share of `dirtiness` moved at random.
    dirtiness : float
        In [0, 1].
    """

    data: str = "digits"
    label: str | None = None
    n_classes: int | None = None
    clients: int = 10
    min_classes: int | None = None
    max_classes: int | None = None
    samples_per_class: int | None = None
    overlap: float = 0.0
    initial: str = "method"
    dirtiness: float = 0.3

    def build(self, seed: int) -> Population:
        """The clients; their state holds ``n_groups`` and, with simulated starting labels, those as ``given``.

        Both are int64: ``n_groups`` a scalar, the number of classes at the site; ``given`` of shape ``(n,)``, in
        ``0..n_groups-1`` by order of class. The partition depends on `seed` and not on `initial` or `dirtiness`.

        Raises
        ------
        FedkinError
            If the data cannot be loaded or have no labels, or an option is out of its range.
        """
        if self.initial not in _INITIAL:
            raise unknown_name("value for initial", self.initial, _INITIAL)
        x, y, classes, features = self._labelled_data()
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
        clients = [Client(i, x[part], state=self._state(y[part], seed, i)) for i, part in enumerate(parts)]
        return Population(clients, [y[part] for part in parts], classes, features)

    def _labelled_data(self) -> tuple[Tensor, Tensor, list[str], list[str]]:
        dataset = load(self.data, self.label)
        if dataset.y is None:
            raise FedkinError(
                f"'{self.data}' has no labels to deal its samples out by; name their column with 'data.label', "
                "or use the scenario 'sites' if it holds one file per site."
            )
        if self.n_classes is None:
            return dataset.x, dataset.y, dataset.classes, dataset.features
        return *_most_frequent(dataset, dataset.y, self.n_classes), dataset.features

    def _state(self, truth: Tensor, seed: int, client: int) -> dict[str, Tensor]:
        held, given = torch.unique(truth, return_inverse=True)
        state = {"n_groups": torch.tensor(len(held))}
        if self.initial == "true":
            state["given"] = given
        if self.initial == "dirty":
            state["given"] = dirty(given, self.dirtiness, derive_generator(seed, "dirty", client))
        return state


@dataclass(frozen=True)
class Sites:
    """Data that are split already, taken as they are.

    Attributes
    ----------
    data : str or sequence of array-like
        A folder with one file per site, see `fedkin.data.load.load_sites`; or one array per site, see
        `fedkin.data.arrays.as_tensor`.
    label : str or None
        The column or array of labels in every file. Labels become the truth and nothing else, if every file has them.
    """

    data: str | Sequence[Any]
    label: str | None = None

    def build(self, seed: int = 0) -> Population:
        """The clients, in order of file name or as listed; nothing here is random.

        Raises
        ------
        FedkinError
            If there is no site, or one's data cannot be used or differ in shape from the others'.
        """
        if isinstance(self.data, str):
            sites = load_sites(self.data, self.label)
        else:
            sites = [Dataset(f"Site {i}", as_tensor(x, f"Site {i}")) for i, x in enumerate(self.data)]
            check_same_shape({site.name: tuple(site.x.shape[1:]) for site in sites})
        if not sites:
            raise FedkinError("The list of sites is empty; at least one is needed.")
        labels = [site.y for site in sites if site.y is not None]
        truth = labels if len(labels) == len(sites) else None
        clients = [Client(i, site.x) for i, site in enumerate(sites)]
        classes = sites[0].classes if truth else []
        return Population(clients, truth, classes, sites[0].features, [site.name for site in sites])


def _most_frequent(dataset: Dataset, y: Tensor, n_classes: int) -> tuple[Tensor, Tensor, list[str]]:
    available = len(torch.unique(y))
    if not 1 <= n_classes <= available:
        raise FedkinError(
            f"n_classes is {n_classes}; allowed: 1 to {available}, the number of classes in '{dataset.name}'."
        )
    sizes = torch.bincount(y, minlength=len(dataset.classes))
    kept = sizes.argsort(descending=True, stable=True)[:n_classes].sort().values
    rows = torch.isin(y, kept)
    return dataset.x[rows], torch.searchsorted(kept, y[rows]), [dataset.classes[int(c)] for c in kept]
