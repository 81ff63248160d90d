"""Conversion of clients with labels of any plain type to clients whose labels are numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from numbers import Number
from pathlib import Path
from typing import Any, SupportsIndex, cast

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from fedkin.core import Client
from fedkin.core.doors import PYTHON, at_door
from fedkin.core.errors import FedkinError, mid_sentence, raised_by, refuse, unknown_name
from fedkin.data.checks import check_cells, check_labels
from fedkin.data.dataset import (
    Dataset,
    are_whole,
    check_are_classes,
    fractions,
    note_on_many_classes,
    notes_on_outcomes,
)
from fedkin.data.files import read_file
from fedkin.data.inputs import (
    ClientInput,
    FederationInput,
    as_given,
    client_input,
    holds_several,
    is_form,
    is_named,
    load_clients,
    named_data,
    said_once,
)
from fedkin.data.names import expanded
from fedkin.data.options import TableOptions
from fedkin.data.scenarios.partition_scenario import client_of
from fedkin.data.tables import as_frame

ClassLabels = NDArray[Any]


@at_door(PYTHON)
def clients_of(
    given: FederationInput, options: TableOptions, labels_needed: bool = True
) -> tuple[list[Client], ClassLabels, list[str], list[str]]:
    """Build clients whose `y` are positions in the sorted labels of all; return them, labels, names and notes.

    Unless labels are needed, all clients may lack them, and there are no classes then. Raises FedkinError if a client's
    samples or labels cannot be used, or clients differ in the shape of a sample.
    """
    read = load_clients(given.source, given.column, options)
    beside = given.labels or [None] * len(read)
    labels = [labels_in(data) if y is None else y for y, data in zip(beside, read, strict=True)]
    called = [data.name for data in read]
    clients = [client_of(i, data) for i, data in enumerate(read)]
    if not labels_needed and all(y is None for y in labels):
        return clients, np.array([], dtype=np.int64), called, []
    _check_all_labelled(labels, called, labels_needed)
    map_clients = [(y, len(data), data.name) for y, data in zip(labels, read, strict=True)]
    refuse(said_once([(own[2], line) for own in map_clients for line in raised_by(read_labels, *own)]))
    arrays = [read_labels(*own) for own in map_clients]
    classes = classes_of(arrays, called)
    check_are_classes([str(name) for name in classes.tolist()], sum(map(len, read)), given.label)
    for client, own, name in zip(clients, arrays, called, strict=True):
        client.y = encoded(own, classes, name)
    return clients, classes, called, []


@at_door(PYTHON)
def notes_on_clients(
    clients: Sequence[Client], classes: ClassLabels, names: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return notes on labels and cells of clients, by name, and those of them that question the data.

    That clients share no labels with others is what clusters of clients are often found for.
    """
    called = list(zip(names, clients, strict=True))
    own = {name: [str(classes[at]) for at in one.y.unique()] for name, one in called if one.y is not None}
    tables = {name: one.table for name, one in called if one.table is not None}
    labels = {name: one.y.tolist() for name, one in called if one.y is not None and one.table is not None}
    spelt, apart = check_labels(own)
    many = note_on_many_classes([str(one) for one in classes], sum(len(one.x) for one in clients))
    asked = [*many, *notes_on_outcomes(table.names for table in tables.values())]
    questions = [*asked, *spelt, *check_cells(tables, labels)]
    return [*apart, *questions], questions


@at_door(PYTHON)
def labelled_data(value: Any, where: str, label: str | None) -> ClientInput:
    """Read one client's data with its labels, which may be in a file or in the column `label` of a table.

    Labels are ``None`` where there are none. Raises FedkinError if data are of another form, or a file cannot be read.
    """
    if isinstance(value, str | Path):
        return ClientInput(value, labels_in(read_file(expanded(str(value)), label)))
    frame = as_frame(value)
    if frame is not None and label is not None and label not in [str(name) for name in frame.columns]:
        label = None
    return client_input(value, where, label if is_form(value) else None, seek_labels=True)


def data_and_labels(x: Any, y: Any, where: str, label: str | None, needed: bool = True) -> ClientInput:
    """Return one client's samples and its labels, which are in `y`, in a column of `x`, or in pairs in `x`.

    `x` is in any form that ``fit`` takes; `y` are the labels, or the name of their column. `where` names the samples,
    at the beginning of error messages; `label` is the column of labels in the tables of ``fit``; `needed` says whether
    labels must be there. Raises FedkinError if the data cannot be used, or have no labels where they are needed.
    """
    if y is not None and not isinstance(y, str):
        return ClientInput(client_input(x, where).x, y)
    data = labelled_data(x, where, y or label)
    if needed and data.y is None:
        raise FedkinError(f"{where} has no labels to compare with; give them as y, or samples as a pair (x, y).")
    return without_labels(data)


def without_labels(data: ClientInput) -> ClientInput:
    """Return the same data without the label column of a table."""
    if data.label is None:
        return data
    return ClientInput(data.x.drop(columns=[name for name in data.x.columns if str(name) == data.label]), data.y)


def labels_in(data: Dataset) -> ClassLabels | None:
    """Return the labels of a file: integers where all its classes are integers, else texts; ``None`` if it has none."""
    if data.y is None:
        return None
    names = np.array(data.classes)
    labels: ClassLabels = (names.astype(np.int64) if are_whole(data.classes) else names)[data.y.numpy()]
    return labels


def _check_all_labelled(labels: Sequence[Any], names: Sequence[str], needed: bool) -> None:
    without = [name for name, own in zip(names, labels, strict=True) if own is None]
    if without and (needed or len(without) < len(labels)):
        others = "" if len(without) == len(labels) else f", unlike {next(n for n in names if n not in without)}"
        raise FedkinError(
            f"{without[0]} has no labels{others}; give clients as pairs (x, y), arrays of labels as y, or the name of "
            "the column of labels as y."
        )


def read_labels(y: Any, samples: int, where: str) -> ClassLabels:
    """Return labels as an array ``(samples,)`` of integers, booleans, whole floats or strings without blanks around.

    They may be a column ``(samples, 1)``. `where` names their owner, at the beginning of error messages. Raises
    FedkinError if a label is missing, a fraction or of another type, or there is not one for each sample.
    """
    if isinstance(y, np.ma.MaskedArray) and np.ma.getmaskarray(y).any():
        raise FedkinError(f"{where} has masked labels; it needs one for each of its samples.")
    try:
        array = np.asarray(y.detach().cpu() if isinstance(y, Tensor) else y)
    except ValueError as error:
        raise FedkinError(
            f"{where} has labels that do not form an array; it needs one for each of its samples."
        ) from error
    if array.shape == (samples, 1):  # a column, as scikit-learn takes it
        array = array[:, 0]
    if array.ndim == 2 and len(array) == samples:
        raise FedkinError(
            f"{where} has labels of shape (n, {array.shape[1]}); each sample needs one class, as y.argmax(1) has of "
            "one-hot labels."
        )
    if array.shape != (samples,):
        raise FedkinError(f"{where} has labels of shape {array.shape} for {samples} samples; it needs one for each.")
    if array.dtype.kind == "O":
        array = _plain(array, where)
    if array.dtype.kind == "U":
        array = np.char.strip(array)
    if array.dtype.kind not in "biufU":
        raise FedkinError(f"{where} has labels of type {array.dtype}; they should be integers, booleans or strings.")
    if array.dtype.kind == "f":
        strange = array[~(np.isfinite(array) & (array == np.floor(array)))]
        if len(strange):
            if np.isfinite(strange[0]):
                raise fractions(where, strange[0])
            raise FedkinError(
                f"{where} has the label {strange[0]}; they should be integers, booleans or strings, none missing."
            )
    return array


def classes_of(labels: Sequence[ClassLabels], called: Sequence[str]) -> ClassLabels:
    """Return the distinct labels of all clients, sorted; `called` are the clients at the beginning of a sentence.

    Raises FedkinError if there is only one, or some clients have numbers and others strings.
    """
    worded = [_is_worded(own) for own in labels]
    if len(set(worded)) > 1:
        odd = worded.index(not worded[0])
        raise FedkinError(
            f"{called[odd]} has {_kind(labels[odd])} for labels where {mid_sentence(called[0])} has "
            f"{_kind(labels[0])}; give all the same type."
        )
    classes: ClassLabels = np.unique(np.concatenate(labels))
    if len(classes) < 2:
        raise FedkinError(f"All labels of all clients are {classes[0]!s}; there must be two classes or more.")
    return classes


def encoded(labels: ClassLabels, classes: ClassLabels, where: str) -> Tensor:
    """Encode `labels` as positions in the sorted `classes`: int64 ``(n,)``.

    Raises FedkinError if a label is not among them.
    """
    check_kind(labels, classes, where)
    strange = labels[~np.isin(labels, classes)]
    if len(strange):
        raise FedkinError(
            f"{where} has the label {strange[0]!s}, which no client had in fit; known: {', '.join(map(str, classes))}."
        )
    return torch.from_numpy(np.searchsorted(classes, labels).astype(np.int64))


def check_kind(labels: ClassLabels, classes: ClassLabels, where: str) -> None:
    """Check that labels are of the same kind as in `fit`, numbers or strings."""
    if _is_worded(labels) != _is_worded(classes):
        raise FedkinError(f"{where} has {_kind(labels)} for labels where fit had {_kind(classes)}; give the same type.")


def _plain(array: ClassLabels, where: str) -> ClassLabels:
    """Convert an array of objects to one of strings or numbers, if all of them are."""
    values = array.tolist()
    if all(isinstance(value, str) for value in values):
        return np.array(values, dtype=str)
    for value in values:
        if not isinstance(value, bool | int | float | np.number):
            raise FedkinError(
                f"{where} has the label {value!r}; they should be all numbers or all strings, none missing."
            )
    return np.array(values)


def _is_worded(labels: ClassLabels) -> bool:
    return labels.dtype.kind == "U"


def _kind(labels: ClassLabels) -> str:
    return "strings" if _is_worded(labels) else "numbers"


# Containers with one item per client, found by position and by name.


def map_clients(given: Any, function: Callable[[Any, str], Any], where: str) -> Any:
    """Apply `function` to one client's samples, or to those of several clients in a list or dict.

    It takes a client's samples, and their name in error messages, which is `where` for those of a single client.
    """
    if isinstance(given, Mapping) and (numbers := [key for key, one in given.items() if isinstance(one, Number)]):
        raise FedkinError(
            f"{where} is a dict with a number for '{numbers[0]}', as a single row has, and not with clients by name; "
            "give the row as a DataFrame, pandas.DataFrame([row])."
        )
    if not holds_several(given):
        return function(given, where)
    called = "Client '{}'" if is_named(given) else "Client {}"
    found = {name: function(own, called.format(name)) for name, own in named_data(given, "predict").items()}
    return as_given(found, given)


def fitted_position(client: Any, names: Sequence[str]) -> int:
    """Return the position of a client among those of `fit`, by its name or from its position.

    Raises FedkinError if there is no such client; for a name, the message suggests the nearest one.
    """
    if isinstance(client, str):
        if client not in names:
            raise unknown_name("client", client, names)
        return names.index(client)
    if not is_position(client, len(names)):
        raise FedkinError(no_client(client, names))
    return int(client)


def is_position(value: Any, count: int) -> bool:
    """Return whether a value is a whole number from 0 to below `count`; truth values are none."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and 0 <= int(value) < count


def no_client(at: object, names: Sequence[str]) -> str:
    """Return the sentence on a number that is the position of no client, for there may be one of this name."""
    at = at.item() if isinstance(at, np.generic) else at
    called = f"; '{at}', in quotation marks, is the client of this name" if str(at) in names else ""
    return f"client is {at!r}; numbers are positions, 0 to {len(names) - 1}, in the order of fit{called}."


class ByClient(list[Any]):
    """List with one item per client, also found by the clients' names; a number is a position.

    Examples
    --------
    >>> found = ByClient([3, 4], ["north", "south"])
    >>> found[1], found["south"], dict(found)
    (4, 4, {'north': 3, 'south': 4})
    """

    def __init__(self, values: Iterable[Any] = (), names: Iterable[str] = ()) -> None:
        super().__init__(values)
        self.names = list(names)

    def __getitem__(self, at: SupportsIndex | slice | str) -> Any:
        try:
            return super().__getitem__(fitted_position(at, self.names) if isinstance(at, str) else at)
        except IndexError:
            raise IndexError(no_client(at, self.names)) from None

    def __contains__(self, item: object) -> bool:
        """Return whether a text is a client's name, or the list has something else, which may be an array."""
        if isinstance(item, str):
            return item in self.names
        return any(one is item or bool(np.array_equal(one, cast(Any, item))) for one in self)

    def keys(self) -> list[str]:
        """Return the clients' names."""
        return list(self.names)

    def items(self) -> Iterator[tuple[str, Any]]:
        """Return pairs of name and item."""
        return iter(zip(self.names, self, strict=True))

    def __reduce__(self) -> tuple[Any, ...]:
        return ByClient, (list(self), self.names)


class NumbersByClient(np.ndarray):
    """Array with one number per client, also found by the clients' names; a number is a position.

    Results computed from it, and slices of it, are arrays without names.

    Examples
    --------
    >>> found = NumbersByClient([0, 1], ["north", "south"])
    >>> int(found["south"]), found
    (1, array([0, 1]))
    """

    names: list[str]

    def __new__(cls, values: ArrayLike, names: Iterable[str]) -> NumbersByClient:
        made = np.array(values).view(cls)
        made.names = list(names)
        return made

    def __array_finalize__(self, other: Any) -> None:
        self.names = []

    def __getitem__(self, at: Any) -> Any:
        try:
            return super().__getitem__(fitted_position(at, self.names) if isinstance(at, str) else at)
        except IndexError:
            if self.names and isinstance(at, int | np.integer):
                raise IndexError(no_client(at, self.names)) from None
            raise

    def __repr__(self) -> str:
        return repr(self._plain())

    def __reduce__(self) -> tuple[Any, ...]:
        return NumbersByClient, (self._plain(), self.names)

    def __deepcopy__(self, memo: Any) -> NumbersByClient:
        return NumbersByClient(self._plain(), self.names)

    def _plain(self) -> NDArray[Any]:
        return np.asarray(self).view(np.ndarray)
