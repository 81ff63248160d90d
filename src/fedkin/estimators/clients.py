"""Clients of a fit: their data and labels as users give them, held-out samples, and clients by name and position."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, SupportsIndex

import numpy as np
import torch
from numpy.typing import NDArray
from pandas.api.types import infer_dtype
from torch import Tensor

from fedkin.core.errors import PYTHON, FedkinError, at_door, unknown_name
from fedkin.data import inputs as forms
from fedkin.data.dataset import Dataset, are_whole, check_are_classes, fractions, notes_on_outcomes
from fedkin.data.inputs import ClientInput
from fedkin.data.names import expanded, holds_clients
from fedkin.data.options import NO_LABELS, TableOptions
from fedkin.data.population import Population
from fedkin.data.preparation import Preparation
from fedkin.data.scenarios.partitions import ClientFiles, client_of, notes_on_sites
from fedkin.data.sources import read_file
from fedkin.data.tables import as_frame

ClassLabels = NDArray[Any]


@dataclass(frozen=True)
class Inputs:
    """Clients of a fit: their population, the column of tables that holds labels, or "none", and all labels, sorted.

    Of the population's notes, `guesses` are on columns that are labels, or are none, by their name alone. A client's
    ``y`` are positions in `classes`.
    """

    population: Population
    label: str | None
    classes: ClassLabels = field(default_factory=lambda: np.zeros(0, dtype=np.int64))


@at_door(PYTHON)
def read_clients(data: Any, y: Any, table: TableOptions) -> Inputs:
    """Read clients whose samples are clustered; labels are left out."""
    read = forms.federation_input(data, y)
    population = ClientFiles(read.source, read.column, table=table).build()
    return Inputs(replace(population, guesses=()) if read.label == NO_LABELS else population, read.label)


@at_door(PYTHON)
def read_labelled_clients(data: Any, y: Any, table: TableOptions, labels_needed: bool = True) -> Inputs:
    """Read clients that are clustered and have labels; unless these are needed, all may lack them."""
    read = forms.federation_input(data, y, seek_labels=True)
    sites = forms.load_clients(read.source, read.column, table)
    names = [site.name for site in sites]
    labels = [
        _labels_in(site) if array is None else _read_labels(array, len(site), site.name)
        for array, site in zip(read.labels or [None] * len(sites), sites, strict=True)
    ]
    arrays = [array for array in labels if array is not None]
    if len(arrays) < len(sites) and (labels_needed or arrays):
        name = next(name for name, array in zip(names, labels, strict=True) if array is None)
        raise FedkinError(
            f"{name} has no labels; give clients as pairs (x, y), arrays of labels as y, or the name of the column of "
            "labels as y."
        )
    classes: ClassLabels = np.array([], dtype=np.int64)
    if arrays:
        for array, name in zip(arrays, names, strict=True):
            _check_kind(array, arrays[0], name, names[0])
        classes = np.unique(np.concatenate(arrays))
        if len(classes) < 2:
            raise FedkinError(f"All labels of all clients are {classes[0]!s}; there must be two classes or more.")
        texts = [str(label) for label in classes.tolist()]
        check_are_classes(texts, sum(map(len, sites)), read.label)
        codes = [torch.from_numpy(np.searchsorted(classes, array).astype(np.int64)) for array in arrays]
        sites = [replace(site, y=y, classes=texts) for site, y in zip(sites, codes, strict=True)]
    clients = [client_of(i, site) for i, site in enumerate(sites)]
    for client, site in zip(clients, sites, strict=True):
        client.y = site.y
    # That clients share no labels with others is what clusters of clients are often found for: a note, no question.
    apart, looks_wrong = notes_on_sites(sites, comparable=bool(arrays))
    questions = (*notes_on_outcomes(site.features for site in sites), *looks_wrong)
    population = Population(clients, None, [], names=names, notes=(*questions, *apart), questions=questions)
    return Inputs(population, read.label, classes)


# Samples with labels that come after a fit, of one client or of several.


@at_door(PYTHON)
def labelled_data(x: Any, y: Any, subject: str, label: str | None) -> ClientInput:
    """Read one client's samples and labels, which are in `y`, in a column of `x`, in its file, or in a pair.

    `y` are labels or the name of their column; `label` is the column in the tables of ``fit``. Labels are ``None``
    where there are none. `subject` names the samples, at the beginning of error messages. Raises FedkinError if they
    cannot be used.
    """
    if y is not None and not isinstance(y, str):
        return ClientInput(forms.client_input(x, subject).x, y)
    column = y or label
    if isinstance(x, str | Path):
        return ClientInput(x, _labels_in(read_file(expanded(str(x)), column)))
    frame = as_frame(x)
    if y is None and frame is not None and column not in list(map(str, frame.columns)):
        column = None
    return forms.client_input(x, subject, column if forms.form_of(x) in ("table", "items") else None, seek_labels=True)


def labelled_clients(x: Any, label: str | None, entrance: str) -> dict[Any, ClientInput]:
    """Read several clients' samples and labels, by name or position; see `labelled_data`."""
    return {
        key: labelled_data(data, None, f"Client {key}", label) for key, data in forms.named_data(x, entrance).items()
    }


def coded_labels(data: ClientInput, classes: ClassLabels, subject: str, samples: int) -> Tensor:
    """Return the labels of so many samples as positions in the sorted `classes` of ``fit``: int64 ``(n,)``.

    Raises FedkinError if there are none, they cannot be used, or one is not among the classes.
    """
    if data.y is None:
        raise FedkinError(f"{subject} has no labels, which are needed; give them as y, or samples as a pair (x, y).")
    labels = _read_labels(data.y, samples, subject)
    _check_kind(labels, classes, subject, "fit")
    strange = labels[~np.isin(labels, classes)]
    if len(strange):
        fitted = ", ".join(map(str, classes))
        raise FedkinError(f"{subject} has the label {strange[0]!s}, which no client had in fit; they had {fitted}.")
    return torch.from_numpy(np.searchsorted(classes, labels).astype(np.int64))


def _labels_in(data: Dataset) -> ClassLabels | None:
    """Return the labels of a file: integers where all its classes are integers, else texts; ``None`` if it has none."""
    if data.y is None:
        return None
    names = np.array(data.classes)
    labels: ClassLabels = (names.astype(np.int64) if are_whole(data.classes) else names)[data.y.numpy()]
    return labels


def _read_labels(y: Any, samples: int, subject: str) -> ClassLabels:
    """Return labels as an array ``(samples,)`` of integers, booleans, whole floats or strings without blanks around.

    They may be a column ``(samples, 1)``. `subject` names their owner, at the beginning of error messages. Raises
    FedkinError if a label is missing, a fraction or of another type, or there is not one for each sample.
    """
    try:
        array = np.asarray(y.detach().cpu() if isinstance(y, Tensor) else y)
    except ValueError:  # ragged
        array = np.empty(0)
    array = array[:, 0] if array.shape == (samples, 1) else array
    kind = infer_dtype(array.ravel(), skipna=False)
    types = {"integer": np.int64, "boolean": np.bool_, "floating": np.float64, "string": np.str_}
    if array.shape != (samples,) or kind not in types or np.ma.is_masked(y):
        raise FedkinError(
            f"{subject} has labels of type {kind} and shape {array.shape} for {samples} samples; each sample needs a "
            "whole number, a truth value or a string."
        )
    array = array.astype(types[kind]) if array.dtype.kind == "O" else array
    if kind == "floating" and not (whole := np.isfinite(array) & (array == np.floor(array))).all():
        raise fractions(subject, array[~whole][0])
    return np.char.strip(array) if kind == "string" else array


def _check_kind(labels: ClassLabels, reference: ClassLabels, subject: str, owner: str) -> None:
    """Check that labels are of the same kind as those of another owner, numbers or strings."""
    kind, expected = ("strings" if array.dtype.kind == "U" else "numbers" for array in (labels, reference))
    if kind != expected:
        raise FedkinError(f"{subject} has {kind} for labels where {owner} has {expected}; give all the same type.")


@at_door(PYTHON)
def prepared(preparation: Preparation, data: ClientInput, subject: str, label: str | None) -> Tensor:
    """Prepare a client's samples as methods need them; the column `label` of a table is left out."""
    dataset, subject = preparation.read_again(data, subject, [] if label is None else [label])
    return preparation.prepared(dataset.x, dataset.table, subject)


def held_out_population(data: Any, entrance: str, inputs: Inputs, preparation: Preparation) -> Population:
    """Return the clients with the labelled samples that a user holds out, given as in ``fit``, as their tests.

    `entrance` is the name of the argument of ``fit``. Raises FedkinError if clients are unknown or their number
    differs, samples do not fit those of the clients, or have no labels or others.
    """
    if isinstance(data, str | Path):
        data = {name: expanded(str(data)) / name for name in holds_clients(str(data))}
    clients, names = inputs.population.clients, inputs.population.names
    held_out = by_client(labelled_clients(data, inputs.label, entrance), names, entrance)
    tests = [(torch.zeros(0, *clients[0].x.shape[1:]), torch.zeros(0, dtype=torch.int64))] * len(names)
    for position, samples in held_out.items():
        subject = f"{names[position]} in {entrance}"
        try:
            x = prepared(preparation, samples, subject, inputs.label)
        except FedkinError as error:
            raise FedkinError(f"{subject} does not fit: {error}") from error
        tests[position] = x, coded_labels(samples, inputs.classes, subject, len(x))
    return Population(clients, None, [], tests=tests)


# Clients by position and by name.


def map_clients(data: Any, function: Callable[[Any, str], Any], subject: str) -> Any:
    """Apply `function` to the samples of one client, called `subject` in error messages, or of several, and names."""
    if not forms.holds_several(data):
        return function(data, subject)
    name = "Client '{}'" if forms.is_named(data) else "Client {}"
    return forms.as_given(
        {key: function(x, name.format(key)) for key, x in forms.named_data(data, "predict").items()}, data
    )


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


class ByClient(list[Any]):
    """List with one item per client, also found by the clients' names; a number is a position."""

    def __init__(self, values: Iterable[Any] = (), names: Iterable[str] = ()) -> None:
        super().__init__(values)
        self.names = list(names)

    def __getitem__(self, key: SupportsIndex | slice | str) -> Any:
        return super().__getitem__(fitted_position(key, self.names) if isinstance(key, str) else key)

    def keys(self) -> list[str]:
        """Return the clients' names."""
        return list(self.names)

    def items(self) -> Iterable[tuple[str, Any]]:
        """Return pairs of name and item."""
        return zip(self.names, self, strict=True)

    def __reduce__(self) -> tuple[Any, ...]:
        return ByClient, (list(self), self.names)
