"""Clients of a fit: their data and labels as users give them, held-out samples, and clients by name and position."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedkin.core.client_array import ClientArray
from fedkin.core.errors import PYTHON, FedkinError, at_door, unknown_name
from fedkin.data import inputs as forms
from fedkin.data.options import NO_LABELS, TableOptions
from fedkin.data.population import Population
from fedkin.data.preparation import Preparation
from fedkin.data.tables import Dataset, are_whole, as_frame

ClassLabels = NDArray[Any]


@dataclass(frozen=True)
class Inputs:
    """Clients of a fit: their population, the column of tables that holds labels, or "none", and all labels, sorted.

    Of the population's notes, `guesses` are on columns that are labels, or are none, by their name alone. A client's
    ``y`` are positions in `classes`. Clients that are one `array` are not in the population.
    """

    population: Population
    label: str | None
    classes: ClassLabels = field(default_factory=partial(np.zeros, 0, np.int64))
    array: ClientArray | None = None


@at_door(PYTHON)
def read_labelled_clients(data: Any, y: Any, table: TableOptions) -> Inputs:
    """Read clients that are clustered and have labels."""
    sites = forms.load_clients(data, y, table)
    if without := [site.name for site in sites if site.y is None]:
        raise FedkinError(
            f"{without[0]} has no labels; give clients as pairs (x, y), arrays of labels as y, or the name of the "
            "column of labels as y."
        )
    texts = sites[0].classes
    if len(texts) < 2:
        raise FedkinError(f"All labels of all clients are {texts[0]}; there must be two classes or more.")
    label = y if isinstance(y, str) else next((site.label for site in sites if site.label is not None), None)
    classes = _classes(texts, any(site.are_texts for site in sites))
    return Inputs(forms.population_of(sites, is_named=True), label, classes)


# Samples with labels that come after a fit, of one client or of several.


@at_door(PYTHON)
def labelled_data(preparation: Preparation, x: Any, y: Any, subject: str, label: str | None) -> tuple[Tensor, Dataset]:
    """Read one client's samples, as methods need them, and labels, which are in `y`, a column or file, or a pair.

    `y` are labels or the name of their column; `label` is the column in the tables of ``fit``. The data set has no
    labels where there are none. `subject` names the samples, at the beginning of error messages. Raises FedkinError if
    they cannot be used.
    """
    is_beside = y is not None and not isinstance(y, str)
    column, frame = NO_LABELS if is_beside else y, as_frame(x)
    if column is None and forms.form_of(x) in ("path", "table", "items"):
        column = label if frame is None or label in list(map(str, frame.columns)) else None
    data, subject = preparation.read_again(x, subject, label=column)
    data = forms.with_labels(data, y, subject) if is_beside else data
    return preparation.prepared(data.x, data.table, subject), data


def coded_labels(data: Dataset, classes: ClassLabels, subject: str) -> Tensor:
    """Return the labels as positions in the sorted `classes` of ``fit``: int64 ``(n,)``.

    Raises FedkinError if there are none, or one is not among the classes.
    """
    if data.y is None:
        raise FedkinError(f"{subject} has no labels, which are needed; give them as y, or samples as a pair (x, y).")
    places = {str(label): place for place, label in enumerate(classes.tolist())}
    if strange := [name for name in data.classes if name not in places]:
        fitted = ", ".join(places)
        raise FedkinError(f"{subject} has the label {strange[0]}, which no client had in fit; they had {fitted}.")
    return torch.tensor([places[name] for name in data.classes], dtype=torch.int64)[data.y]


def _classes(names: Sequence[str], are_texts: bool) -> ClassLabels:
    """Return names of classes as labels: whole numbers or truth values if all are, unless they were given as texts."""
    if are_texts or not (are_whole(names) or {*names} <= {"False", "True"}):
        return np.array(names)
    return np.array(names, np.int64) if are_whole(names) else np.array(names) == "True"


def held_out_population(data: Any, entrance: str, inputs: Inputs, preparation: Preparation) -> Population:
    """Return the clients with the labelled samples that a user holds out, given as in ``fit``, as their tests.

    `entrance` is the name of the argument of ``fit``. Raises FedkinError if clients are unknown or their number
    differs, samples do not fit those of the clients, or have no labels or others.
    """
    clients, names = inputs.population.clients, inputs.population.names
    held_out = by_client(forms.clients_of(data, entrance), names, entrance)
    tests = [(torch.zeros(0, *clients[0].x.shape[1:]), torch.zeros(0, dtype=torch.int64))] * len(names)
    for position, samples in held_out.items():
        subject = f"{names[position]} in {entrance}"
        try:
            x, read = labelled_data(preparation, samples, None, subject, inputs.label)
        except FedkinError as error:
            raise FedkinError(f"{subject} does not fit: {error}") from error
        tests[position] = x, coded_labels(read, inputs.classes, subject)
    return Population(clients, None, [], tests=tests)


# Clients by position and by name.


def map_clients(data: Any, function: Callable[[Any, str], Any], subject: str) -> Any:
    """Apply `function` to the samples of one client, called `subject` in error messages, or of several, and names."""
    clients = forms.split_clients(data)
    if clients is None:
        return function(data, subject)
    results = [function(x, f"Client {key!r}") for key, x in clients.items()]
    if not all(isinstance(key, str) for key in clients):
        return results
    return dict(zip(data if isinstance(data, Mapping) else clients, results, strict=True))


def by_client(items: Mapping[Any, Any], names: Sequence[str], entrance: str) -> dict[int, Any]:
    """Convert items given by name or in a list of all to a dict by position of the clients of ``fit``."""
    if not all(isinstance(key, int) for key in items):
        for key in items:
            if key not in names:
                raise unknown_name(f"client in {entrance}", str(key), names)
        return {names.index(key): item for key, item in items.items()}
    if len(items) != len(names):
        raise FedkinError(
            f"{entrance} lists {len(items)} clients where fit has {len(names)}; give as many, or a dict by name."
        )
    return dict(items)


def fitted_position(client: Any, names: Sequence[str]) -> int:
    """Return the position of a client among those of ``fit``, by its name or from its position."""
    if isinstance(client, str):
        if client not in names:
            raise unknown_name("client", client, names)
        return names.index(client)
    if not is_position(client, len(names)):
        raise FedkinError(
            f"client is {client!s}; numbers are positions, 0 to {len(names) - 1}, in the order of fit, and names are "
            "texts, in quotation marks."
        )
    return int(client)


def is_position(value: Any, count: int) -> bool:
    """Return whether a value is a whole number from 0 to below `count`; truth values are none."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and 0 <= int(value) < count
