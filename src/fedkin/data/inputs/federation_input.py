"""Data of several clients as users pass them: in a list, dict, grouped table or federated data set, with labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, ValuesView
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from fedkin.core.errors import FedkinError, listing, refuse, unknown_name
from fedkin.data.inputs.client_input import (
    ClientInput,
    are_files_or_pictures,
    client_input,
    dimensions,
    is_form,
    is_pair,
    is_partitioned,
    is_record,
)
from fedkin.data.reading.alike_clients import said_once
from fedkin.data.reading.dataset import NO_LABELS
from fedkin.data.reading.tables import as_frame

COLLECTIONS = (
    "clients in a list, in a dict by name, in a folder with one file each, or as a FederatedDataset with a partitioner"
)
"""What clients may be given as, for sentences."""


@dataclass(frozen=True)
class FederationInput:
    """Data and labels of several clients, as `fedkin.data.reading.client_files.load_clients` takes them.

    `source` is a folder; or the data of each client, in order or by name. `labels` has one array of labels, of any
    plain type, per client; ``None`` where there are none, or they are in a file; it is empty for a folder. `label` is
    the column of tables and files that holds labels, or "none". `notes` are on rows that belong to no client.
    """

    source: Any
    labels: list[Any]
    label: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def column(self) -> str | None:
        """The column to read as labels: `label`, or "none" where labels are beside the samples."""
        return NO_LABELS if self.label is None and any(y is not None for y in self.labels) else self.label


def federation_input(
    clients: Any, y: Any = None, *, entrance: str = "fit", seek_labels: bool = False
) -> FederationInput:
    """Convert clients and labels in any supported form to the one in which they are read.

    `clients` are as in `COLLECTIONS`, each as in `fedkin.data.inputs.client_input.FORMS`. `y` is the column, field or
    key that holds the labels of every client, "none" if no column does, or one array of labels per client, in order or
    by name. `entrance` names the function that was called, for error messages. With `seek_labels` a column of a usual
    name is taken for labels where none is named, and a pair is never two samples. Raises FedkinError if clients or
    labels are of another form, or there is not one array of labels for each client; a line for each client whose data
    cannot be used.
    """
    if isinstance(clients, str | Path):
        if y is not None and not isinstance(y, str):
            raise FedkinError(f"{entrance} got a folder, '{clients}', and arrays of labels; name their column with y.")
        return FederationInput(clients, [], y)
    if seek_labels and y is None and isinstance(clients, np.ndarray):
        raise FedkinError(f"{entrance} takes {COLLECTIONS}; got a single array and no labels.")
    listed = _listed(clients, entrance)
    keys: list[Any] = list(listed) if isinstance(listed, Mapping) else list(range(len(listed)))
    named = y if isinstance(y, str) else None
    if named == NO_LABELS:
        y, seek_labels = None, False
    column = y if isinstance(y, str) else None
    beside = None if y is None or column is not None else labels_beside(y, keys, isinstance(listed, Mapping))
    data, problems = [], []
    for key in keys:
        where = f"Client '{key}'" if isinstance(listed, Mapping) else f"Client {key}"
        try:
            data.append(_with_labels(listed[key], None if beside is None else beside[key], where, column, seek_labels))
        except FedkinError as error:
            problems += str(error).splitlines()
    refuse(said_once(problems))
    sources = [one.x for one in data]
    source = dict(zip(keys, sources, strict=True)) if isinstance(listed, Mapping) else sources
    label = named or next((one.label for one in data if one.label is not None), None)
    return FederationInput(source, [one.y for one in data], label, tuple(_on_rows_of_nobody(clients)))


def holds_several(value: Any) -> bool:
    """Return whether a value is the data of several clients, by name or in a list, rather than of one."""
    if isinstance(value, Mapping):
        return not is_record(value)
    if is_partitioned(value) or is_grouped(value) or isinstance(value, Iterator | ValuesView):
        return True
    if not isinstance(value, list | tuple) or not value or is_pair(value):
        return False
    return is_form(value[0]) or is_pair(value[0]) or is_record(value[0]) or dimensions(value[0]) > 1


def named_data(value: Any, entrance: str) -> dict[Any, Any]:
    """Return the data of several clients, see `holds_several`, by name or, where they have none, by position."""
    listed = _listed(value, entrance)
    return dict(listed) if isinstance(listed, Mapping) else dict(enumerate(listed))


def as_given(found: Mapping[Any, Any], given: Any) -> dict[Any, Any] | list[Any]:
    """Return what was found for the clients of `named_data`: under their names as `given`, or in a list without any."""
    if not is_named(given):
        return list(found.values())
    return dict(zip(given if isinstance(given, Mapping) else found, found.values(), strict=True))


def _with_labels(value: Any, y: Any, where: str, column: str | None, seek_labels: bool) -> ClientInput:
    if y is None:
        return client_input(value, where, column, seek_labels)
    if (is_pair(value) and value[1] is not None) or is_record(value):
        raise FedkinError(f"{where} is a pair (x, y), and labels are given as y, too; leave one out.")
    return ClientInput(client_input(value, where).x, y)


def _listed(clients: Any, entrance: str) -> Sequence[Any] | Mapping[str, Any]:
    """Return clients as a list or a mapping by name; the data of a single client are refused."""
    if is_partitioned(clients):
        return _partitions(clients, "test" if entrance == "eval" else "train")
    if isinstance(clients, Iterator | ValuesView):
        clients = list(clients)
    if is_grouped(clients):
        clients = _by_group(clients)
    if isinstance(clients, Mapping) and not is_record(clients):
        return _named(clients)
    if isinstance(clients, list) and clients and all(map(_is_group, clients)):
        return _named(dict(clients))
    if isinstance(clients, np.ndarray) and clients.dtype == object and clients.ndim == 1:
        clients = list(clients)
    takes = f"{entrance} takes {COLLECTIONS}"
    if is_record(clients) or is_form(clients):
        how = "; table.groupby('hospital') divides it by a column" if as_frame(clients) is not None else ""
        raise FedkinError(f"{takes}; got a single {type(clients).__name__}{how}.")
    if not isinstance(clients, list | tuple) and dimensions(clients) == 0:
        raise FedkinError(f"{takes}; got {type(clients).__name__}.")
    if not isinstance(clients, list | tuple) and dimensions(clients) <= 2:
        raise FedkinError(f"{takes}; got a single table.")
    if len(clients) == 0:
        raise FedkinError("The list of clients is empty; at least one is needed.")
    if any(_is_row(one) for one in clients):
        rows = dimensions(clients[0]) == 1 and not isinstance(clients[0], list | tuple)
        also = ", or clients of one dimension, which x.reshape(-1, 1) makes (n, 1)" if rows else ""
        raise FedkinError(f"{takes}; got a single table{also}.")
    return list(clients)


def _is_group(value: Any) -> bool:
    """Return whether a value is a pair of a name and a table, as ``list(table.groupby(...))`` has them."""
    return isinstance(value, tuple) and [as_frame(part) is None for part in value] == [True, False]


def is_grouped(value: Any) -> bool:
    """Return whether a value is a pandas table divided by ``groupby``."""
    return type(value).__name__ == "DataFrameGroupBy" and type(value).__module__.startswith("pandas.")


def is_named(value: Any) -> bool:
    """Return whether the data of several clients are given by name."""
    return isinstance(value, Mapping) or is_grouped(value)


def _by_group(groups: Any) -> dict[str, Any]:
    """Return the groups of a table as clients by name, without the columns that it was divided by."""
    keys = groups.keys if isinstance(groups.keys, list) else [groups.keys]
    columns = [key for key in keys if isinstance(key, str)]
    rows = [(client_name(name), group.drop(columns=columns, errors="ignore")) for name, group in groups]
    if len(named := dict(rows)) < len(rows):
        raise FedkinError("Two groups of the table have the same name; divide it by a column of other names.")
    return named


def _on_rows_of_nobody(clients: Any) -> list[str]:
    """Return a note on the rows of a table divided by ``groupby`` that are in no group, since they have no key."""
    if not is_grouped(clients) or not (lost := len(clients.obj) - int(clients.size().sum())):
        return []
    keys = clients.keys if isinstance(clients.keys, list) else [clients.keys]
    of = listing([f"'{key}'" for key in keys if isinstance(key, str)]) or "the key"
    have, them = ("has", "it") if lost == 1 else ("have", "them")
    return [
        f"{lost:,} of {len(clients.obj):,} rows {have} no value of {of}, by which the table is divided, so no client "
        f"has {them}; groupby(..., dropna=False) makes {them} one."
    ]


def client_name(key: Any) -> str:
    """Return a client's name: a text or whole number as it is, or the text of a truth value, number, period and so on.

    Of several, as ``groupby`` has them for several columns, they are joined. Raises FedkinError if a key is nothing of
    that kind.
    """
    if isinstance(key, tuple):
        return ", ".join(map(client_name, key))
    if isinstance(key, float | np.floating):
        return f"{float(key):.15g}"
    is_of_pandas = type(key).__module__.partition(".")[0] == "pandas"  # as periods and intervals are
    if not isinstance(key, str | int | np.integer | np.bool_ | date) and not is_of_pandas:
        raise FedkinError(f"A client is called {key!r}; names are texts, numbers, dates or truth values.")
    return str(key).removesuffix(" 00:00:00")


def _named(clients: Mapping[Any, Any]) -> dict[str, Any]:
    """Return clients by name, after checking the names, as of `client_name`."""
    if not clients:
        raise FedkinError("The dict of clients is empty; at least one is needed.")
    named = {client_name(name): data for name, data in clients.items()}
    if len(named) < len(clients):
        raise FedkinError("Two clients have the same name, once as a number and once as text.")
    return named


def _is_row(value: Any) -> bool:
    """Return whether a value is a number or a list of numbers, rather than a client's data."""
    array_like = isinstance(value, list | tuple | float | int | np.generic) or hasattr(value, "__array__")
    another = is_form(value) or is_pair(value) or are_files_or_pictures(value)
    return array_like and not another and dimensions(value) < 2


def _partitions(given: Any, wanted: str) -> list[Any]:
    """Return the partitions of a ``flwr_datasets`` data set or partitioner, in order of their ids."""
    if not hasattr(type(given), "partitioners"):
        return [given.load_partition(i) for i in range(given.num_partitions)]
    split = _split_of(given, wanted)
    return [given.load_partition(i, split) for i in range(given.partitioners[split].num_partitions)]


def _split_of(given: Any, wanted: str) -> str:
    """Return the name of the split that is partitioned: the one wanted, or for training the only one."""
    try:
        partitioners = given.partitioners
    except ValueError:  # it loads its data with the first partition
        given.load_partition(0, wanted)
        partitioners = given.partitioners
    if wanted in partitioners:
        return wanted
    if wanted == "train" and len(partitioners) == 1:
        return str(next(iter(partitioners)))
    raise FedkinError(
        f"The FederatedDataset has partitioners of {listing(sorted(partitioners))} and none of '{wanted}'; give the "
        "partitions as a list, [federated.load_partition(i, split) for i in ...], or for eval a whole split."
    )


def labels_beside(y: Any, keys: Sequence[Any], named: bool) -> Mapping[Any, Any]:
    """Return the labels that were given as `y`, by client, after checking that each client has some."""
    if isinstance(y, Iterator | ValuesView):
        y = list(y)
    if isinstance(y, Mapping):
        if not named:
            raise FedkinError("y has labels by name, but clients have no names; give both in lists, or both in dicts.")
        by_name = {client_name(name): labels for name, labels in y.items()}
        for name in by_name:
            if name not in keys:
                raise unknown_name("client in y", name, keys)
        for key in keys:
            if key not in by_name:
                raise FedkinError(f"y has no labels of client '{key}'; give one array for each client.")
        return by_name
    if not isinstance(y, list | tuple | np.ndarray) or (len(y) and dimensions(y[0]) == 0):
        inside = f" of {type(y[0]).__name__}" if isinstance(y, list | tuple | np.ndarray) and len(y) else ""
        raise FedkinError(
            f"y is a {type(y).__name__}{inside}; it takes the name of the column of labels, or one array of labels for "
            "each client, in a list or by name."
        )
    if len(y) != len(keys):
        raise FedkinError(f"y has {len(y)} arrays of labels for {len(keys)} clients; give one for each.")
    return dict(zip(keys, y, strict=True))
