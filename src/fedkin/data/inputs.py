"""Clients' data as users pass them, and as they are read: the one place where they come in.

One client's data are an array, a table, a file, a pair, a dict or a data set, with labels if there are any; those of
several are in a list, a dict, a grouped table, a federated data set or a folder. Here they become arrays, DataFrames
and paths (`federation_input`), and then data sets whose class indices mean the same at all clients (`load_clients`).
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set, Sized, ValuesView
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import issparse
from torch import Tensor
from torch.utils.data import (
    DataLoader,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    TensorDataset,
    default_collate,
)
from torch.utils.data import Dataset as TorchDataset

from fedkin.core.errors import FedkinError, in_short, listing, no_column, raised_by, refuse, unknown_name
from fedkin.core.files import ending_of
from fedkin.core.replies import check_same_shape
from fedkin.data.arrays import as_dataset, new_store
from fedkin.data.dataset import LABEL_NAMES, Dataset, in_order, not_labels
from fedkin.data.names import IMAGES, expanded, files_in, images_in
from fedkin.data.options import NO_LABELS, NO_OPTIONS, TableOptions
from fedkin.data.sources import decode_images, read_rows
from fedkin.data.tables import as_frame, label_of

FORMS = (
    "an array, a tensor, a DataFrame, a file, a pair (x, y), a dict of x and y, a torch Dataset or DataLoader, or a "
    "Hugging Face Dataset"
)
"""What one client's data may be, for sentences."""
COLLECTIONS = (
    "clients in a list, in a dict by name, in a folder with one file each, or as a FederatedDataset with a partitioner"
)
"""What clients may be given as, for sentences."""
_NAMED = 8
"""Clients that a sentence names."""
SAMPLE_KEYS = ("x", "image", "img", "images", "pixel_values", "data", "features", "inputs", "input")
"""Keys of a dict that are taken for samples, the first that exists."""


Items = tuple[Tensor, NDArray[Any] | None]
"""Samples ``(n, *shape)``, and labels ``(n,)`` if items have any. Floats are float32, bytes of images fractions, where
their number is known, and other types as they were. Many samples lie on disk, see `fedkin.data.arrays.new_store`."""


@dataclass(frozen=True)
class FederationInput:
    """Data and labels of several clients, as `load_clients` takes them.

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

    `clients` are as in `COLLECTIONS`, each as in `FORMS`. `y` is the column, field or
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
    data: list[ClientInput] = []
    problems: list[tuple[str, str]] = []
    for key in keys:
        where = f"Client '{key}'" if isinstance(listed, Mapping) else f"Client {key}"
        try:
            data.append(_with_labels(listed[key], None if beside is None else beside[key], where, column, seek_labels))
        except FedkinError as error:
            problems += [(where, line) for line in str(error).splitlines()]
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
        return _checked_names(clients)
    if isinstance(clients, list) and clients and all(map(_is_group, clients)):
        return _checked_names(dict(clients))
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


def _checked_names(clients: Mapping[Any, Any]) -> dict[str, Any]:
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


# One client's data.


@dataclass(frozen=True)
class ClientInput:
    """Data and labels of one client, in a form that `load_clients` reads.

    `x` is a path, a DataFrame, or samples as `fedkin.data.arrays.as_tensor` takes them. `y` has one label per
    sample, of any plain type; ``None`` where there are none, or they are still in a file. `label` is the column of the
    DataFrame `x` that holds `y`.
    """

    x: Any
    y: Any = None
    label: str | None = None


def client_input(value: Any, where: str, label: str | None = None, seek_labels: bool = False) -> ClientInput:
    """Convert one client's data from any supported form, see `FORMS`.

    `where` names the client, at the beginning of error messages; `label` is the column, field or key of labels. With
    `seek_labels` a DataFrame's column of a usual name, see `label_of`, is taken for labels. Raises FedkinError if it
    is of another form; if items of a data set cannot be read, or differ in shape; if there is no `label`.
    """
    if isinstance(value, str | Path):
        return ClientInput(value)
    if (frame := as_frame(value)) is not None:
        return _of_frame(frame, where, label, seek_labels)
    if _is_hub_dataset(value) and not _is_transformed(value):
        x, y, column = read_rows(value, where, label)
        return ClientInput(x, y, column)
    if isinstance(value, DataLoader):
        loaded = value.dataset
        if _is_hub_dataset(loaded) and not _is_transformed(loaded) and reads_all(value):
            return client_input(loaded, where, label, seek_labels)
        return ClientInput(*read_loader(value, where, label))
    if isinstance(value, TorchDataset):
        return ClientInput(*read_torch_dataset(value, where, label))
    if _is_hub_dataset(value):
        return ClientInput(*read_items((value[i] for i in range(len(value))), len(value), where, label))
    if isinstance(value, list | tuple) and len(value) == 2 and all(map(_has_columns_or_items, value)):
        raise FedkinError(
            f"{where} is a pair of data sets; if they are for training and for testing, give those for training, and "
            "the others as eval: fit([train for train, _ in clients], eval=[test for _, test in clients])."
        )
    if is_pair(value, seek_labels):
        inner = client_input(value[0], where)
        return inner if value[1] is None else ClientInput(inner.x, value[1])
    if is_record(value):
        own, labels = (next(key for key in keys if key in value) for keys in (SAMPLE_KEYS, LABEL_NAMES))
        return ClientInput(client_input(value[own], where).x, value[labels])
    if are_files_or_pictures(value):
        if not isinstance(value[0], str | Path):
            return ClientInput(*read_items(value, len(value), where))
        if not all(ending_of(path) in IMAGES for path in value):
            raise FedkinError(
                f"{where} is a list of texts; give numbers made of them, as by an encoder, or paths of images "
                f"({', '.join(IMAGES)})."
            )
        return ClientInput(decode_images([{"bytes": None, "path": str(path)} for path in value], where))
    if _are_items(value):
        raise FedkinError(
            f"{where} holds pairs (x, y), one for each sample; give a torch Dataset of them, or one pair of all "
            "samples and all labels."
        )
    _check_array(value, where, label)
    return ClientInput(value)


def are_files_or_pictures(value: Any) -> bool:
    """Return whether a value is a list of pictures of Pillow's, or of texts, such as paths of images."""
    if not isinstance(value, list | tuple) or not value:
        return False
    return isinstance(value[0], str | Path) or hasattr(value[0], "getbands")


def is_pair(value: Any, any_labels: bool = False) -> bool:
    """Return whether a value is a pair of samples and their labels; `any_labels` accepts anything as the labels."""
    if not isinstance(value, list | tuple) or len(value) != 2:
        return False
    first, second = value
    if not (is_form(first) or dimensions(first) > 1):
        return False
    return any_labels or second is None or dimensions(second) == 1 or _is_column_beside(first, second)


def is_record(value: Any) -> bool:
    """Return whether a value is a dict with samples and labels of one client, such as ``{"x": x, "y": y}``."""
    if not isinstance(value, Mapping) or len(value) != 2:
        return False
    known = [key for key in SAMPLE_KEYS if key in value], [key for key in LABEL_NAMES if key in value]
    if not all(known):
        return False
    own, labels = (value[one[0]] for one in known)
    return dimensions(labels) == 1 or _is_column_beside(own, labels)


def is_form(value: Any) -> bool:
    """Return whether a value is one client's data in another form than an array or list."""
    return (
        isinstance(value, str | Path | DataLoader | TorchDataset)
        or _is_hub_dataset(value)
        or as_frame(value) is not None
    )


def _is_column_beside(x: Any, labels: Any) -> bool:
    """Return whether labels are an array ``(n, 1)``, and the samples beside it ``(n, ...)`` have another shape."""
    shapes = [tuple(getattr(one, "shape", ())) for one in (x, labels)]
    return (
        dimensions(labels) == 2 and shapes[1][1:] == (1,) and shapes[0][:1] == shapes[1][:1] and shapes[0] != shapes[1]
    )


def dimensions(value: Any) -> int:
    """Return the number of dimensions of an array or nested list: 2 if it is ragged, 0 if it is neither."""
    if isinstance(value, Tensor):
        return value.ndim
    if is_form(value) or isinstance(value, Mapping | Iterator | Set | ValuesView):
        return 0
    try:
        return np.ndim(value)
    except ValueError:  # ragged; `as_tensor` has the sentence for it
        return 2


def _of_frame(frame: Any, where: str, label: str | None, seek_labels: bool) -> ClientInput:
    names = [str(name) for name in frame.columns]
    if label is None and seek_labels:
        label = label_of(frame, None)
    if label is None:
        return ClientInput(frame)
    if label not in names:
        raise no_column(where, label, names)
    return ClientInput(frame, frame.iloc[:, names.index(label)].to_numpy(), label)


def _has_columns_or_items(value: Any) -> bool:
    """Return whether a value is a data set, or a table with more columns than one of labels."""
    if (frame := as_frame(value)) is not None:
        return len(frame.columns) > 1
    return is_form(value) and not isinstance(value, str | Path)


def _are_items(value: Any) -> bool:
    """Return whether a value is a list of samples with a label each, as items of a data set are."""
    if not isinstance(value, list | tuple) or not value or not isinstance(value[0], tuple) or len(value[0]) != 2:
        return False
    return dimensions(value[0][0]) > 0 and dimensions(value[0][1]) == 0


def _check_array(value: Any, where: str, label: str | None) -> None:
    """Check that a value is an array or a list of rows."""
    several = isinstance(value, list | tuple) or hasattr(value, "__array__") or issparse(value)
    if not several or (isinstance(value, tuple) and len(value) > 2 and any(dimensions(one) > 1 for one in value)):
        got = f"a tuple of {len(value)}" if isinstance(value, tuple) else f"of type {type(value).__name__}"
        raise FedkinError(f"{where} is {got}; a client's data are {FORMS}.")
    if label is not None:
        raise FedkinError(
            f"{where} is of type {type(value).__name__} and has no column '{label}'; give y as one array of labels for "
            "each client, or clients as pairs (x, y)."
        )


def is_partitioned(value: Any) -> bool:
    """Return whether a value has the interface of a ``flwr_datasets`` data set or partitioner."""
    kind = type(value)  # for the object's own properties may load data, or fail before it has any
    return hasattr(kind, "load_partition") and (hasattr(kind, "partitioners") or hasattr(kind, "num_partitions"))


# Items of a data set, one after another.


def _is_hub_dataset(value: Any) -> bool:
    """Return whether a value is a ``datasets.Dataset``, without importing the library."""
    library = sys.modules.get("datasets")
    return library is not None and isinstance(value, getattr(library, "Dataset", ()))


def _is_transformed(rows: Any) -> bool:
    """Return whether a data set has a transform of the user's, by ``with_transform`` or ``set_transform``."""
    return bool(rows.format["type"] == "custom")


def read_items(items: Iterable[Any], count: int | None, where: str, label: str | None = None) -> Items:
    """Read items ``(x, y)``, ``{"x": x, "y": y}`` or ``x``, in order, into arrays.

    Each `x` is a tensor, an array or a picture of Pillow's, all of one shape. With a `count` the samples are written in
    place instead of collected. `where` names the source, at the beginning of error messages; `label` is the key of
    labels, where items are dicts. Raises FedkinError if there are none, one cannot be read, or they differ in form or
    shape.
    """
    store: Tensor | None = None
    samples: list[Tensor] = []
    labels: list[Any] = []
    read = 0
    for at, item in _guarded(items, where):
        x, y, labelled = _parts(item, f"Item {at} of {where}", label)
        if store is None:
            is_image = x.dtype == torch.uint8 and x.ndim == 3  # whose bytes are read as fractions in the end
            store = new_store(count or 0, tuple(x.shape), torch.float32 if is_image else x.dtype, where)
        if x.shape != store.shape[1:]:
            raise FedkinError(
                f"Item {at} of {where} has the shape {tuple(x.shape)} where the first has {tuple(store.shape[1:])}; "
                "all need the same, as a resizing transform gives them."
            )
        if count is None:
            samples.append(x)
        else:
            store[at] = x / 255 if x.dtype == torch.uint8 and store.dtype == torch.float32 else x
        if labelled:
            labels.append(y)
        read += 1
        if len(labels) not in (0, read):
            raise FedkinError(f"Item {at} of {where} has {'a label' if labelled else 'no label'}, unlike the first.")
    if store is None:
        raise FedkinError(f"{where} is empty; every client needs at least one sample.")
    made = torch.stack(samples) if count is None else store[:read]
    return made, np.asarray(labels) if labels else None


def _guarded(items: Iterable[Any], where: str) -> Iterable[tuple[int, Any]]:
    """Yield items with their numbers; an exception from a user's own data set becomes an error that names the item."""
    at = -1
    try:
        for at, item in enumerate(items):
            yield at, item
    except FedkinError:
        raise
    except Exception as error:
        raise FedkinError(f"Item {at + 1} of {where} cannot be read: {in_short(error)}.") from error


def _parts(item: Any, where: str, label: str | None) -> tuple[Tensor, Any, bool]:
    """Return the sample and the label of an item, and whether it has a label."""
    if isinstance(item, Mapping):
        key = label or next((name for name in LABEL_NAMES if name in item), None)
        if key is not None and key not in item:
            raise FedkinError(f"{where} has no '{key}'; it has {listing([str(name) for name in item])}.")
        x = item[_sample_key(item, key, where)]
        return _sample(x, where), None if key is None else _plain(item[key]), key is not None
    if isinstance(item, list | tuple):
        if len(item) not in (1, 2):
            raise FedkinError(f"{where} has {len(item)} parts; an item is x, a pair (x, y), or a dict of these.")
        return _sample(item[0], where), _plain(item[1]) if len(item) == 2 else None, len(item) == 2
    return _sample(item, where), None, False


def _sample_key(item: Mapping[str, Any], label: str | None, where: str) -> str:
    known = [key for key in SAMPLE_KEYS if key in item and key != label]
    others = [key for key in item if key != label]
    if not known and len(others) != 1:
        names = listing([str(name) for name in item])
        raise FedkinError(f"{where} has {names}, and none of these is called x, image or features, as samples are.")
    return known[0] if known else others[0]


def _sample(x: Any, where: str) -> Tensor:
    if isinstance(x, Tensor):
        tensor = x.detach().cpu()
    else:
        try:
            tensor = torch.from_numpy(_pixels(x) if hasattr(x, "convert") else np.array(x))
        except (TypeError, ValueError, RuntimeError) as error:
            raise FedkinError(f"{where} is of type {type(x).__name__}, which is no array of numbers.") from error
    return tensor.float() if tensor.is_floating_point() else tensor


def _pixels(picture: Any) -> np.ndarray[Any, Any]:
    """Return a Pillow image as uint8 ``(channels, height, width)``, with one channel if it is grey."""
    grey = picture.mode in ("1", "L", "LA")
    pixels = np.array(picture.convert("L" if grey else "RGB"))
    return pixels[None] if grey else np.ascontiguousarray(pixels.transpose(2, 0, 1))


def _plain(label: Any) -> Any:
    return label.tolist() if isinstance(label, Tensor | np.ndarray | np.generic) else label


def read_torch_dataset(data: TorchDataset[Any], where: str, label: str | None = None) -> Items:
    """Read all items of a data set: ``(x, y)``, ``{"x": x, "y": y}`` or ``x``.

    Transforms are applied once; see an estimator's `augmentation` for those that should differ from epoch to epoch.
    Raises FedkinError, see `read_items`.
    """
    whole, rows = _resolved(data)
    if isinstance(whole, TensorDataset):
        return _of_tensors(whole, rows, where)
    if isinstance(whole, IterableDataset) or not isinstance(whole, Sized):
        return read_items(iter(whole), None, where, label)
    chosen = range(len(whole)) if rows is None else rows
    return read_items((whole[i] for i in chosen), len(chosen), where, label)


def read_loader(loader: DataLoader[Any], where: str, label: str | None = None) -> Items:
    """Read all samples of a loader, none dropped, as its ``collate_fn`` makes them.

    They come in the order of the data set, whether it shuffles or not, or in that of its sampler if this chooses some.
    Its batch size is the number of items that its ``collate_fn`` gets; training has the estimator's own. Raises
    FedkinError, see `read_items`.
    """
    data = loader.dataset
    if isinstance(data, IterableDataset):
        return read_items(_items_of(loader), None, where, label)
    data = data if (rows := _rows_of(loader)) is None else Subset(data, rows)
    if loader.collate_fn is default_collate or loader.batch_size is None:
        return read_torch_dataset(data, where, label)
    unshuffled = DataLoader(data, loader.batch_size, collate_fn=loader.collate_fn)
    return read_items(_items_of(unshuffled), None, where, label)


def reads_all(loader: DataLoader[Any]) -> bool:
    """Return whether a loader gives all items of its data set, unchanged."""
    return loader.collate_fn is default_collate and _rows_of(loader) is None


def _rows_of(loader: DataLoader[Any]) -> list[int] | None:
    """Return the rows that a loader reads; ``None`` for all, in order."""
    sampler = loader.sampler
    every = isinstance(sampler, RandomSampler) and not sampler.replacement and len(sampler) == len(loader.dataset)  # type: ignore[arg-type]
    if every or isinstance(sampler, SequentialSampler):
        return None
    indices = getattr(sampler, "indices", None)  # of torch's SubsetRandomSampler, in the order they were given
    return [int(i) for i in (sampler if indices is None else indices)]


def _resolved(data: TorchDataset[Any]) -> tuple[TorchDataset[Any], Sequence[int] | None]:
    """Return the data set under nested subsets, and the rows of it that they take; ``None`` for all."""
    rows: Sequence[int] | None = None
    while type(data) is Subset:
        rows = [int(data.indices[i]) for i in (range(len(data.indices)) if rows is None else rows)]
        data = data.dataset
    return data, rows


def _of_tensors(data: TensorDataset, rows: Sequence[int] | None, where: str) -> Items:
    tensors = (
        data.tensors if rows is None else tuple(one[torch.tensor(rows, dtype=torch.int64)] for one in data.tensors)
    )
    if len(tensors) not in (1, 2):
        raise FedkinError(f"{where} is a TensorDataset of {len(tensors)} tensors; it should be x alone, or x and y.")
    return tensors[0].detach().cpu(), tensors[1].detach().cpu().numpy() if len(tensors) == 2 else None


def _items_of(batches: Iterable[Any]) -> Iterator[Any]:
    """Yield the items of collated batches."""
    for batch in batches:
        if isinstance(batch, dict):
            yield from (dict(zip(batch, values, strict=True)) for values in zip(*batch.values(), strict=True))
        elif isinstance(batch, Tensor):
            yield from batch
        else:
            yield from zip(*batch, strict=True)


# Data sets of all clients.


def load_clients(
    source: str | Path | Sequence[Any] | Mapping[str, Any],
    label: str | None = None,
    options: TableOptions = NO_OPTIONS,
) -> list[Dataset]:
    """Load one data set per client, with class indices that mean the same at all of them.

    Columns of tables may differ from client to client, in their order, too; arrays are all of one shape.

    Parameters
    ----------
    source : str, Path, sequence or mapping
        A folder with ``.npz``, ``.csv``, ``.tsv`` and ``.parquet`` files, those of text perhaps compressed, as
        ``.csv.gz``, and workbooks such as ``.xlsx``, taken in order of file name; others are ignored; or the data of
        each client, in order or by the client's name: the path of a file, a DataFrame, or an array as
        `fedkin.data.arrays.as_tensor` takes it.
    label : str, optional
        The column or array of labels of every client, or "none". Without it, a column of a usual name that can
        hold labels is taken for them, see `fedkin.data.tables.label_of`.
    options : TableOptions, optional
        Options for reading the columns of all clients.

    Raises
    ------
    FedkinError
        If there is no client, or any cannot be used, with a line for each problem; if arrays differ in shape, or some
        clients have tables and others arrays; or if no client has a column that `options` name.
    """
    source = list(source) if isinstance(source, Iterator) else source  # which can be read only once
    clients: list[Dataset] = []
    problems: list[tuple[str, str]] = []
    for name, where, given in _with_places(source):
        try:
            if isinstance(given, str | Path):
                clients.append(_read_path(expanded(str(given)), name, label, options))
            else:
                clients.append(as_dataset(given, name, where, label, options))
        except FedkinError as error:
            problems += [(where, line) for line in str(error).splitlines()]
    refuse(said_once(problems))
    arrays = {_called(one.name): tuple(one.x.shape[1:]) for one in clients if one.table is None}
    if 0 < len(arrays) < len(clients):
        table = next(_called(one.name) for one in clients if one.table is not None)
        raise FedkinError(
            f"{table} is a table and {next(iter(arrays))} is an array without names of columns; all clients need "
            "tables, or all arrays."
        )
    if label is None and (features := not_labels(clients)):
        return load_clients(source, None, replace(options, features=[*options.features, *features]))
    columns = {name for one in clients for name in (*one.features, *one.left_out, one.label) if name is not None}
    refuse([*raised_by(check_same_shape, arrays), *options.unknown(columns)])
    classes = in_order(name for client in clients for name in client.classes)
    return [client.with_classes(classes) for client in clients]


def _read_path(path: Path, name: str, label: str | None, options: TableOptions) -> Dataset:
    """Read a client's file, or its folder of images, which have no labels."""
    from fedkin.data.files import read_file  # arrays and frames have no files

    if path.is_dir() and (names := images_in(path)):
        files = [{"bytes": None, "path": str(path / image)} for image in names]
        return Dataset(path.name, decode_images(files, f"'{path}'"))
    return replace(read_file(path, label, None, options), name=name)


def said_once(problems: Sequence[tuple[str, str]]) -> list[str]:
    """Return problems of clients, each a client and a sentence that names it, those that are alike in one sentence."""
    alike: dict[str, list[tuple[str, str]]] = {}
    for where, sentence in problems:
        alike.setdefault(sentence.replace(where, "\0"), []).append((where, sentence))
    return [
        sentences[0][1]
        if len(sentences) == 1
        else f"{sentences[0][1]} So it is with {listing([where for where, _ in sentences[1:]], _NAMED)}."
        for sentences in alike.values()
    ]


def _with_places(source: str | Path | Sequence[Any] | Mapping[str, Any]) -> list[tuple[str, str, Any]]:
    """Return the name, the name for error messages, and the data or path of each client."""
    if isinstance(source, str | Path):
        return [(path.name, f"'{path}'", path) for path in files_in(str(source))]
    if isinstance(source, Mapping):
        listed = [(str(name), f"Client '{name}'", given) for name, given in source.items()]
    else:
        files = Counter(Path(given).name for given in source if isinstance(given, str | Path))
        listed = [_with_place(at, given, files) for at, given in enumerate(source)]
    if not listed:
        raise FedkinError("The list of clients is empty; at least one is needed.")
    return listed


def _with_place(at: int, given: Any, files: Counter[str]) -> tuple[str, str, Any]:
    """Return a client in a list under a name: of a file its file name, or its path if others have the same."""
    if not isinstance(given, str | Path):
        return f"Client {at}", f"Client {at}", given
    name = Path(given).name
    return name if files[name] == 1 else str(given), f"'{given}'", given


def _called(client: str) -> str:
    return client if client.startswith("Client ") else f"'{client}'"
