"""Pairs of samples and labels of any plain type as clients, whose labels are numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedkin.core import Client, FedkinError
from fedkin.core.errors import all_problems, raised_by
from fedkin.data.preparing.agreeing_clients import load_agreeing_clients
from fedkin.data.reading.client_files import collected
from fedkin.data.reading.table_options import TableOptions
from fedkin.data.scenarios.partition_scenario import client_of

ClassLabels = NDArray[Any]


def pairs_of(clients: Any) -> list[tuple[Any, Any]]:
    """What was given to ``fit`` as a list of pairs.

    Raises
    ------
    FedkinError
        If it is something else, or a client has no labels.
    """
    wanted, clients = "fit takes a list with one pair (x, y) per client", collected(clients)
    _check_listed(clients, wanted)
    for i, pair in enumerate(clients):
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            got = f"{len(pair)} things" if isinstance(pair, list | tuple) else type(pair).__name__
            raise FedkinError(f"{wanted}; client {i} is {got}.")
        if pair[1] is None:
            raise FedkinError(f"Client {i} has no labels; every client needs one for each of its samples.")
    return [(x, y) for x, y in clients]


def perhaps_labelled(clients: Any) -> list[tuple[Any, Any]]:
    """What was given to ``fit`` where labels may be left out: pairs, or samples alone; then all labels are ``None``.

    Raises
    ------
    FedkinError
        If it is something else, or some clients have labels and others none.
    """
    wanted, clients = "fit takes a list with samples x or a pair (x, y) per client", collected(clients)
    _check_listed(clients, wanted)
    pairs = []
    for i, given in enumerate(clients):
        if isinstance(given, list | tuple) and len(given) != 2:
            raise FedkinError(f"{wanted}; client {i} is {len(given)} things.")
        pairs.append((given[0], given[1]) if isinstance(given, list | tuple) else (given, None))
    labelled = [y is not None for _, y in pairs]
    if len(set(labelled)) > 1:
        odd = labelled.index(not labelled[0])
        raise FedkinError(
            f"Client {odd} has {'labels' if labelled[odd] else 'no labels'}, unlike client 0; give them for all "
            "clients or for none."
        )
    return pairs


def _check_listed(clients: Any, wanted: str) -> None:
    if not isinstance(clients, list | tuple):
        raise FedkinError(f"{wanted}; got {type(clients).__name__}.")
    if not clients:
        raise FedkinError(f"{wanted}; the list is empty.")


def clients_of(
    pairs: Sequence[tuple[Any, Any]], options: TableOptions, names: Sequence[str] = ()
) -> tuple[list[Client], ClassLabels, list[str]]:
    """Clients whose `y` are positions in the sorted labels of all, these labels, and the clients' names.

    There are no labels where every `y` is ``None``.

    Raises
    ------
    FedkinError
        If a client's samples or labels cannot be used, or clients differ in the shape of a sample.
    """
    samples = [x for x, _ in pairs]
    read = load_agreeing_clients(dict(zip(names, samples, strict=True)) if names else samples, options=options)
    called = [data.name for data in read]
    clients = [client_of(i, data) for i, data in enumerate(read)]
    if all(y is None for _, y in pairs):
        return clients, np.array([], dtype=np.int64), called
    given = [(y, len(data), data.name) for (_, y), data in zip(pairs, read, strict=True)]
    problems = [line for own in given for line in raised_by(read_labels, *own)]
    if problems:
        raise all_problems(problems)
    labels = [read_labels(*own) for own in given]
    classes = classes_of(labels)
    for client, own, data in zip(clients, labels, read, strict=True):
        client.y = encoded(own, classes, data.name)
    return clients, classes, called


def read_labels(y: Any, samples: int, where: str) -> ClassLabels:
    """Labels as an array ``(samples,)`` of integers, booleans, whole floats or strings.

    Parameters
    ----------
    y : array-like
        One label per sample.
    samples : int
        How many samples there are.
    where : str
        Whose labels they are, as the beginning of an error's sentence.

    Raises
    ------
    FedkinError
        If a label is missing, a fraction or of another type, or there is not one for each sample.
    """
    if isinstance(y, np.ma.MaskedArray) and np.ma.getmaskarray(y).any():
        raise FedkinError(f"{where} has masked labels; it needs one for each of its samples.")
    try:
        array = np.asarray(y.detach().cpu() if isinstance(y, Tensor) else y)
    except ValueError as error:
        raise FedkinError(f"{where} has labels that are no array; it needs one for each of its samples.") from error
    if array.shape != (samples,):
        raise FedkinError(f"{where} has labels of shape {array.shape} for {samples} samples; it needs one for each.")
    if array.dtype.kind == "O":
        array = _plain(array, where)
    if array.dtype.kind not in "biufU":
        raise FedkinError(f"{where} has labels of type {array.dtype}; they should be integers, booleans or strings.")
    if array.dtype.kind == "f":
        strange = array[~(np.isfinite(array) & (array == np.floor(array)))]
        if len(strange):
            raise FedkinError(
                f"{where} has the label {strange[0]}; they should be integers, booleans or strings, none missing."
            )
    return array


def classes_of(labels: Sequence[ClassLabels]) -> ClassLabels:
    """The distinct labels of all clients, sorted.

    Raises
    ------
    FedkinError
        If there is only one, or some clients have numbers and others strings.
    """
    worded = [_is_worded(own) for own in labels]
    if len(set(worded)) > 1:
        odd = worded.index(not worded[0])
        raise FedkinError(
            f"Client {odd} has {_kind(labels[odd])} for labels where client 0 has {_kind(labels[0])}; "
            "give all the same type."
        )
    classes: ClassLabels = np.unique(np.concatenate(labels))
    if len(classes) < 2:
        raise FedkinError(f"All labels of all clients are {classes[0]!s}; there must be two classes or more.")
    return classes


def encoded(labels: ClassLabels, classes: ClassLabels, where: str) -> Tensor:
    """`labels` as positions in the sorted `classes`: int64 ``(n,)``.

    Raises
    ------
    FedkinError
        If one is not among them.
    """
    check_kind(labels, classes, where)
    strange = labels[~np.isin(labels, classes)]
    if len(strange):
        raise FedkinError(
            f"{where} has the label {strange[0]!s}, which no client had in fit; known: {', '.join(map(str, classes))}."
        )
    return torch.from_numpy(np.searchsorted(classes, labels).astype(np.int64))


def check_kind(labels: ClassLabels, classes: ClassLabels, where: str) -> None:
    """Refuse strings where `fit` had numbers, and the other way round."""
    if _is_worded(labels) != _is_worded(classes):
        raise FedkinError(f"{where} has {_kind(labels)} for labels where fit had {_kind(classes)}; give the same type.")


def _plain(array: ClassLabels, where: str) -> ClassLabels:
    """An array of objects as one of strings or numbers, if that is what all of them are."""
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
