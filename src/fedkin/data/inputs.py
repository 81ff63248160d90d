"""Clients' data as users pass them: the one place where they come in.

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
from fedkin.core.files import check_room
from fedkin.core.replies import check_same_shape
from fedkin.core.table import Samples
from fedkin.data.arrays import as_dataset
from fedkin.data.dataset import LABEL_NAMES, Dataset, in_order, not_labels
from fedkin.data.names import expanded, files_in
from fedkin.data.options import NO_LABELS, NO_OPTIONS, TableOptions
from fedkin.data.samples import folder_dataset, listed_samples, with_embeddings
from fedkin.data.sources import read_rows
from fedkin.data.tables import as_frame, label_of

FORMS = (
    "an array, a tensor, a DataFrame, a file, a pair (x, y), a dict of x and y, a torch Dataset or DataLoader, or a "
    "Hugging Face Dataset"
)
"""What one client's data may be, for sentences."""
COLLECTIONS = (
    "clients in a list, in a dict by name, in a folder with one file each, or as a FederatedDataset with a partitioner"
)
"""What several clients may be in, for sentences."""
SAMPLE_KEYS = ("x", "image", "img", "images", "pixel_values", "data", "features", "inputs", "input")
"""Keys of a dict that are taken for samples, the first that exists."""

Items = tuple[Tensor, NDArray[Any] | None]
"""Samples ``(n, *shape)``, and labels ``(n,)`` if items have any. Floats are float32, bytes of images fractions, where
their number is known, and other types as they were."""


# Data of several clients.


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

    `clients` are as in `COLLECTIONS`, each as in `FORMS`. `y` is the column, field or key that holds the labels of
    every client, "none" if no column does, or one array of labels per client, in order or by name. `entrance` names the
    function that was called, for error messages. With `seek_labels` a column of a usual name is taken for labels if `y`
    is absent, and a pair is never two samples. Raises FedkinError if clients or labels are of another form, or
    their numbers differ; a line for each client whose data cannot be used.
    """
    if isinstance(clients, str | Path):
        if y is not None and not isinstance(y, str):
            raise FedkinError(f"{entrance} got a folder, '{clients}', and arrays of labels; name their column with y.")
        return FederationInput(clients, [], y)
    if seek_labels and y is None and isinstance(clients, np.ndarray):
        raise FedkinError(f"{entrance} takes {COLLECTIONS}; got a single array and no labels.")
    notes = _notes_on_rows_of_nobody(clients)
    by_name, data = is_named(clients), named_data(clients, entrance)
    column = y if isinstance(y, str) and y != NO_LABELS else None
    arrays = None if y is None or isinstance(y, str) else labels_beside(y, list(data), by_name)
    inputs: dict[Any, ClientInput] = {}
    problems: list[tuple[str, str]] = []
    for key, value in data.items():
        client = f"Client '{key}'" if by_name else f"Client {key}"
        try:
            if arrays is None:
                inputs[key] = client_input(value, client, column, seek_labels and y != NO_LABELS)
            elif (is_pair(value) and value[1] is not None) or is_record(value):
                raise FedkinError(f"{client} is a pair (x, y), and labels are in y, too; leave one out.")
            else:
                inputs[key] = ClientInput(client_input(value, client).x, arrays[key])
        except FedkinError as error:
            problems += [(client, line) for line in str(error).splitlines()]
    refuse(said_once(problems))
    sources = {key: client.x for key, client in inputs.items()}
    label = y if isinstance(y, str) else next((one.label for one in inputs.values() if one.label is not None), None)
    labels = [client.y for client in inputs.values()]
    return FederationInput(sources if by_name else list(sources.values()), labels, label, notes)


def holds_several(value: Any) -> bool:
    """Return whether a value is the data of several clients, by name or in a list, rather than of one."""
    if isinstance(value, Mapping):
        return not is_record(value)
    if _is_partitioned(value) or _is_grouped(value) or isinstance(value, Iterator | ValuesView):
        return True
    if not isinstance(value, list | tuple) or not value or is_pair(value) or listed_samples(value) is not None:
        return False
    return is_form(value[0]) or is_pair(value[0]) or is_record(value[0]) or dimensions(value[0]) > 1


def is_named(value: Any) -> bool:
    """Return whether the data of several clients are by name: in a dict, or grouped."""
    return (isinstance(value, Mapping) and not is_record(value)) or _is_grouped(value)


def named_data(value: Any, entrance: str) -> dict[Any, Any]:
    """Return the data of several clients, see `holds_several`, by name or, where they have none, by position.

    Raises FedkinError if they are those of a single client, or of none.
    """
    if _is_partitioned(value):
        value = _partitions(value, "test" if entrance == "eval" else "train")
    if isinstance(value, Iterator | ValuesView):
        value = list(value)
    if is_named(value):
        return _by_name(value)
    if isinstance(value, np.ndarray) and value.dtype == object and value.ndim == 1:
        value = list(value)
    takes = f"{entrance} takes {COLLECTIONS}"
    if is_record(value) or is_form(value):
        how = "; table.groupby('hospital') divides it by a column" if as_frame(value) is not None else ""
        raise FedkinError(f"{takes}; got a single {type(value).__name__}{how}.")
    if not isinstance(value, list | tuple):
        if (ndim := dimensions(value)) <= 2:
            raise FedkinError(f"{takes}; got {'a single table' if ndim else type(value).__name__}.")
    elif not value:
        raise FedkinError("The list of clients is empty; at least one is needed.")
    if (samples := listed_samples(value)) is not None:
        raise FedkinError(f"{takes}; got a single list of {samples.kind}.")
    if any(_is_row(client) for client in value):
        flat = dimensions(value[0]) == 1 and not isinstance(value[0], list | tuple)
        also = ", or clients of one dimension, which x.reshape(-1, 1) makes (n, 1)" if flat else ""
        raise FedkinError(f"{takes}; got a single table{also}.")
    return dict(enumerate(value))


def as_given(results: Mapping[Any, Any], clients: Any) -> dict[Any, Any] | list[Any]:
    """Return results for the clients of `named_data`: under the names that `clients` have, or in a list without any."""
    if not is_named(clients):
        return list(results.values())
    return dict(zip(clients if isinstance(clients, Mapping) else results, results.values(), strict=True))


def labels_beside(y: Any, keys: Sequence[Any], by_name: bool) -> Mapping[Any, Any]:
    """Return the labels `y` by client, after checking that each of the clients `keys` has some.

    Labels in a mapping need clients `by_name`. Raises FedkinError if they do not belong together.
    """
    if isinstance(y, Iterator | ValuesView):
        y = list(y)
    if isinstance(y, Mapping):
        if not by_name:
            raise FedkinError("y has labels by name, but clients have no names; give both in lists, or both in dicts.")
        labels = {_client_name(name): values for name, values in y.items()}
        if unknown := next((name for name in labels if name not in keys), None):
            raise unknown_name("client in y", unknown, keys)
        if missing := next((key for key in keys if key not in labels), None):
            raise FedkinError(f"y has no labels of client '{missing}'; give one array for each client.")
        return labels
    if not isinstance(y, list | tuple | np.ndarray) or (len(y) and dimensions(y[0]) == 0):
        inside = f" of {type(y[0]).__name__}" if isinstance(y, list | tuple | np.ndarray) and len(y) else ""
        raise FedkinError(
            f"y is a {type(y).__name__}{inside}; it takes the name of the column of labels, or one array of labels for "
            "each client, in a list or by name."
        )
    if len(y) != len(keys):
        raise FedkinError(f"y has {len(y)} arrays of labels for {len(keys)} clients; give one for each.")
    return dict(zip(keys, y, strict=True))


def _is_grouped(value: Any) -> bool:
    return type(value).__name__ == "DataFrameGroupBy" and type(value).__module__.startswith("pandas.")


def _by_name(clients: Any) -> dict[str, Any]:
    """Return the data of clients in a mapping or groups by name; groups without the columns they go by."""
    if isinstance(clients, Mapping):
        pairs = list(clients.items())
    else:
        pairs = [(name, group.drop(columns=_keys_of(clients), errors="ignore")) for name, group in clients]
    if not pairs:
        raise FedkinError("The dict of clients is empty; at least one is needed.")
    named = {_client_name(name): data for name, data in pairs}
    if len(named) < len(pairs):
        raise FedkinError("Two clients have the same name, such as once as a number and once as text.")
    return named


def _keys_of(groups: Any) -> list[str]:
    keys = groups.keys if isinstance(groups.keys, list) else [groups.keys]
    return [key for key in keys if isinstance(key, str)]


def _notes_on_rows_of_nobody(clients: Any) -> tuple[str, ...]:
    """Return a note on the rows of a grouped table that are in no group, since they have no key."""
    if not _is_grouped(clients) or not (lost := len(clients.obj) - int(clients.size().sum())):
        return ()
    keys = listing([f"'{key}'" for key in _keys_of(clients)]) or "the key"
    return (
        f"{lost:,} of {len(clients.obj):,} rows have no value of {keys}, by which the table is divided, so they are no "
        "client's; groupby(..., dropna=False) makes a client of them.",
    )


def _client_name(key: Any) -> str:
    """Return a client's name: a text or number as text, and of several, as ``groupby`` by several columns has, all."""
    if isinstance(key, tuple):
        return ", ".join(map(_client_name, key))
    if isinstance(key, float | np.floating):
        return f"{float(key):.15g}"
    of_pandas = type(key).__module__.partition(".")[0] == "pandas"  # periods and intervals
    if not isinstance(key, str | int | np.integer | np.bool_ | date) and not of_pandas:
        raise FedkinError(f"A client is called {key!r}; names are texts, numbers, dates or truth values.")
    return str(key).removesuffix(" 00:00:00")


def _is_row(value: Any) -> bool:
    """Return whether a value is a number or a list of numbers, rather than a client's data."""
    array_like = isinstance(value, list | tuple | float | int | np.generic) or hasattr(value, "__array__")
    another = is_form(value) or is_pair(value) or listed_samples(value) is not None
    return array_like and dimensions(value) < 2 and not another


def _is_partitioned(value: Any) -> bool:
    """Return whether a value has the interface of a ``flwr_datasets`` data set or partitioner."""
    kind = type(value)  # for the object's own properties may load data, or fail before it has any
    return hasattr(kind, "load_partition") and (hasattr(kind, "partitioners") or hasattr(kind, "num_partitions"))


def _partitions(federated: Any, split: str) -> list[Any]:
    """Return the partitions of a ``flwr_datasets`` data set or partitioner: of the split, or for training the only."""
    if not hasattr(type(federated), "partitioners"):
        return [federated.load_partition(i) for i in range(federated.num_partitions)]
    try:
        partitioners = federated.partitioners
    except ValueError:  # it loads its data with the first partition
        federated.load_partition(0, split)
        partitioners = federated.partitioners
    if split == "train" and len(partitioners) == 1:
        split = str(next(iter(partitioners)))
    if split not in partitioners:
        raise FedkinError(
            f"The FederatedDataset has partitioners of {listing(sorted(partitioners))} and none of '{split}'; give the "
            "partitions as a list, [federated.load_partition(i, split) for i in ...], or for eval a whole split."
        )
    return [federated.load_partition(i, split) for i in range(partitioners[split].num_partitions)]


# Data of one client.


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


def client_input(value: Any, origin: str, label: str | None = None, seek_labels: bool = False) -> ClientInput:
    """Convert one client's data from any supported form, see `FORMS`.

    `origin` names the client, at the beginning of error messages; `label` is the column, field or key of labels. With
    `seek_labels` a DataFrame's column of a usual name, see `label_of`, is taken for labels. Raises FedkinError if it
    is of another form; if items of a data set cannot be read, or differ in shape; if there is no `label`.
    """
    if isinstance(value, str | Path | Samples):
        return ClientInput(value)
    if (samples := listed_samples(value)) is not None:
        return ClientInput(samples)
    if (frame := as_frame(value)) is not None:
        return _input_of_frame(frame, origin, label, seek_labels)
    if isinstance(value, DataLoader) and _is_plain_hub(value.dataset) and _reads_all(value):
        value = value.dataset
    if _is_plain_hub(value):
        return ClientInput(*read_rows(value, origin, label))
    if isinstance(value, DataLoader):
        return ClientInput(*_read_loader(value, origin, label))
    if isinstance(value, TorchDataset):
        return ClientInput(*_read_torch_dataset(value, origin, label))
    if _is_hub(value):
        return ClientInput(*read_items((value[i] for i in range(len(value))), len(value), origin, label))
    if isinstance(value, list | tuple) and len(value) == 2 and all(map(_has_columns_or_items, value)):
        raise FedkinError(
            f"{origin} is a pair of data sets; if they are for training and for testing, give those for training, and "
            "the others as eval: fit([train for train, _ in clients], eval=[test for _, test in clients])."
        )
    if is_pair(value, seek_labels):
        first = client_input(value[0], origin)
        return first if value[1] is None else ClientInput(first.x, value[1])
    if is_record(value):
        x, y = (next(value[key] for key in keys if key in value) for keys in (SAMPLE_KEYS, LABEL_NAMES))
        return ClientInput(client_input(x, origin).x, y)
    _check_array(value, origin, label)
    return ClientInput(value)


def is_pair(value: Any, any_labels: bool = False) -> bool:
    """Return whether a value is a pair of samples and their labels; `any_labels` accepts anything as the labels."""
    if not isinstance(value, list | tuple) or len(value) != 2 or listed_samples(value) is not None:
        return False
    x, y = value
    if not (is_form(x) or dimensions(x) > 1 or listed_samples(x) is not None):
        return False
    return any_labels or y is None or _are_labels(y, x)


def is_record(value: Any) -> bool:
    """Return whether a value is a dict with samples and labels of one client, such as ``{"x": x, "y": y}``."""
    if not isinstance(value, Mapping) or len(value) != 2:
        return False
    x, y = (next((value[key] for key in keys if key in value), None) for keys in (SAMPLE_KEYS, LABEL_NAMES))
    return x is not None and y is not None and _are_labels(y, x)


def is_form(value: Any) -> bool:
    """Return whether a value is one client's data in another form than an array or list."""
    return isinstance(value, str | Path | DataLoader | TorchDataset) or _is_hub(value) or as_frame(value) is not None


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


def _are_labels(y: Any, x: Any) -> bool:
    """Return whether `y` has one dimension, or is ``(n, 1)`` beside samples ``(n, ...)`` of another shape."""
    shapes = [tuple(getattr(array, "shape", ())) for array in (x, y)]
    column = shapes[1][1:] == (1,) and shapes[0][:1] == shapes[1][:1] and shapes[0] != shapes[1]
    return dimensions(y) == 1 or (column and dimensions(y) == 2)


def _input_of_frame(frame: Any, origin: str, label: str | None, seek_labels: bool) -> ClientInput:
    names = [str(name) for name in frame.columns]
    if label is None and seek_labels:
        label = label_of(frame, None)
    if label is None:
        return ClientInput(frame)
    if label not in names:
        raise no_column(origin, label, names)
    return ClientInput(frame, frame.iloc[:, names.index(label)].to_numpy(), label)


def _has_columns_or_items(value: Any) -> bool:
    """Return whether a value is a data set, or a table with more columns than one of labels."""
    if (frame := as_frame(value)) is not None:
        return len(frame.columns) > 1
    return is_form(value) and not isinstance(value, str | Path)


def _check_array(value: Any, origin: str, label: str | None) -> None:
    """Check that a value is an array or a list of rows."""
    array_like = isinstance(value, list | tuple) or hasattr(value, "__array__") or issparse(value)
    if not array_like or (isinstance(value, tuple) and len(value) > 2 and any(dimensions(row) > 1 for row in value)):
        what = f"a tuple of {len(value)}" if isinstance(value, tuple) else f"of type {type(value).__name__}"
        raise FedkinError(f"{origin} is {what}; a client's data are {FORMS}.")
    if label is not None:
        raise FedkinError(
            f"{origin} is of type {type(value).__name__} and has no column '{label}'; give y as one array of labels "
            "for each client, or clients as pairs (x, y)."
        )


def _is_hub(value: Any) -> bool:
    """Return whether a value is a ``datasets.Dataset``, without importing the library."""
    library = sys.modules.get("datasets")
    return library is not None and isinstance(value, getattr(library, "Dataset", ()))


def _is_plain_hub(value: Any) -> bool:
    """Return whether a value is a ``datasets.Dataset`` without a transform of the user's, by ``with_transform``."""
    return _is_hub(value) and value.format["type"] != "custom"


# Items of a data set, one after another.


def read_items(items: Iterable[Any], count: int | None, origin: str, label: str | None = None) -> Items:
    """Read items ``(x, y)``, ``{"x": x, "y": y}`` or ``x``, in order, into arrays.

    Each `x` is a tensor, an array or a picture of Pillow's, all of one shape. With a `count` the samples are written in
    place instead of collected. `origin` names the data in error messages; `label` is the key of labels, where items are
    dicts. Raises FedkinError if there are none, one cannot be read, or they differ in form or shape.
    """
    store: Tensor | None = None
    samples: list[Tensor] = []
    labels: list[Any] = []
    for i, item in _guarded(items, origin):
        x, *y = _sample_and_label(item, f"Item {i} of {origin}", label)
        if store is None:
            is_image = x.dtype == torch.uint8 and x.ndim == 3  # whose bytes are read as fractions in the end
            store = torch.empty(0, *x.shape, dtype=torch.float32 if is_image else x.dtype)
            check_room(origin, (count or 0) * x.numel() * store.itemsize)
            store = store.new_empty(count or 0, *x.shape)
        if x.shape != store.shape[1:]:
            raise FedkinError(
                f"Item {i} of {origin} has the shape {tuple(x.shape)} where the first has {tuple(store.shape[1:])}; "
                "all need the same, as a resizing transform gives them."
            )
        if count is None:
            samples.append(x)
        else:
            store[i] = x / 255 if x.dtype == torch.uint8 and store.dtype == torch.float32 else x
        labels += y
        if len(labels) not in (0, i + 1):
            raise FedkinError(f"Item {i} of {origin} has {'a label' if y else 'no label'}, unlike the first.")
    if store is None:
        raise FedkinError(f"{origin} is empty; every client needs at least one sample.")
    x = torch.stack(samples) if count is None else store[: i + 1]
    return x, np.asarray(labels) if labels else None


def _guarded(items: Iterable[Any], origin: str) -> Iterator[tuple[int, Any]]:
    """Yield items with their numbers; an exception from a user's own data set becomes an error that names the item."""
    i = -1
    try:
        for i, item in enumerate(items):
            yield i, item
    except FedkinError:
        raise
    except Exception as error:
        raise FedkinError(f"Item {i + 1} of {origin} cannot be read: {in_short(error)}.") from error


def _sample_and_label(item: Any, origin: str, label: str | None) -> list[Any]:
    """Return an item's sample as a tensor, and its label if it has one."""
    if isinstance(item, Mapping):
        if (label := label or next((name for name in LABEL_NAMES if name in item), None)) and label not in item:
            raise FedkinError(f"{origin} has no '{label}'; it has {listing([str(name) for name in item])}.")
        rest = [key for key in item if key != label]
        key = next((key for key in SAMPLE_KEYS if key in rest), rest[0] if len(rest) == 1 else None)
        if key is None:
            names = listing([str(name) for name in item])
            raise FedkinError(
                f"{origin} has {names}, and none of these is called x, image or features, as samples are."
            )
        item = [item[key], *([item[label]] if label else [])]
    elif not isinstance(item, list | tuple):
        item = [item]
    if len(item) not in (1, 2):
        raise FedkinError(f"{origin} has {len(item)} parts; an item is x, a pair (x, y), or a dict of these.")
    plain = [part.tolist() if isinstance(part, Tensor | np.ndarray | np.generic) else part for part in item[1:]]
    return [_sample(item[0], origin), *plain]


def _sample(x: Any, origin: str) -> Tensor:
    """Return a tensor, array or picture of Pillow's as a tensor; of a picture uint8 ``(channels, height, width)``."""
    if isinstance(x, Tensor):
        tensor = x.detach().cpu()
    else:
        try:
            if hasattr(x, "convert"):
                pixels = np.array(x.convert("L" if x.mode in ("1", "L", "LA") else "RGB"))
                x = pixels[None] if pixels.ndim == 2 else np.ascontiguousarray(pixels.transpose(2, 0, 1))
            tensor = torch.from_numpy(np.array(x))
        except (TypeError, ValueError, RuntimeError) as error:
            raise FedkinError(f"{origin} is of type {type(x).__name__}, which is no array of numbers.") from error
    return tensor.float() if tensor.is_floating_point() else tensor


def _read_torch_dataset(data: TorchDataset[Any], origin: str, label: str | None = None) -> Items:
    """Read all items of a data set; transforms are applied once.

    An estimator's `augmentation` is for those that should differ from epoch to epoch.
    """
    rows: list[int] | None = None
    while type(data) is Subset:
        rows = [int(data.indices[i]) for i in (range(len(data.indices)) if rows is None else rows)]
        data = data.dataset
    if isinstance(data, TensorDataset):
        tensors = [tensor if rows is None else tensor[torch.tensor(rows).long()] for tensor in data.tensors]
        if len(tensors) not in (1, 2):
            raise FedkinError(
                f"{origin} is a TensorDataset of {len(tensors)} tensors; it should be x alone, or x and y."
            )
        x, *y = (tensor.detach().cpu() for tensor in tensors)
        return x, y[0].numpy() if y else None
    if isinstance(data, IterableDataset) or not isinstance(data, Sized):
        return read_items(iter(data), None, origin, label)
    indices = range(len(data)) if rows is None else rows
    return read_items((data[i] for i in indices), len(indices), origin, label)


def _read_loader(loader: DataLoader[Any], origin: str, label: str | None = None) -> Items:
    """Read all samples of a loader, none dropped, as its ``collate_fn`` makes them.

    They come in the order of the data set, whether it shuffles or not, or in that of its sampler if this chooses some.
    Its batch size is the number of items that its ``collate_fn`` gets; training has the estimator's own.
    """
    data = loader.dataset
    if not isinstance(data, IterableDataset):
        data = data if (rows := _rows_of(loader)) is None else Subset(data, rows)
        if loader.collate_fn is default_collate or loader.batch_size is None:
            return _read_torch_dataset(data, origin, label)
        loader = DataLoader(data, loader.batch_size, collate_fn=loader.collate_fn)
    return read_items(_items_of(loader), None, origin, label)


def _reads_all(loader: DataLoader[Any]) -> bool:
    """Return whether a loader gives all items of its data set, unchanged."""
    return loader.collate_fn is default_collate and _rows_of(loader) is None


def _rows_of(loader: DataLoader[Any]) -> list[int] | None:
    """Return the rows that a loader reads; ``None`` for all, in order."""
    sampler = loader.sampler
    every = isinstance(sampler, RandomSampler) and not sampler.replacement and len(sampler) == len(loader.dataset)  # type: ignore[arg-type]
    if every or isinstance(sampler, SequentialSampler):
        return None
    return [int(i) for i in getattr(sampler, "indices", sampler)]  # of SubsetRandomSampler as they were passed


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
    for name, origin, data in _clients_in(source):
        try:
            if isinstance(data, str | Path):
                read = _read_path(expanded(str(data)), name, label, options)
            else:
                read = as_dataset(data, name, origin, label, options)
            clients.append(with_embeddings(read, options, origin))
        except FedkinError as error:
            problems += [(origin, line) for line in str(error).splitlines()]
    refuse(said_once(problems))
    called = [client.name if client.name.startswith("Client ") else f"'{client.name}'" for client in clients]
    arrays = {
        name: tuple(client.x.shape[1:]) for name, client in zip(called, clients, strict=True) if client.table is None
    }
    if 0 < len(arrays) < len(clients):
        table = next(name for name in called if name not in arrays)
        raise FedkinError(
            f"{table} is a table and {next(iter(arrays))} is an array without names of columns; all clients need "
            "tables, or all arrays."
        )
    if label is None and (features := not_labels(clients)):
        return load_clients(source, None, replace(options, features=[*options.features, *features]))
    columns = {
        name for client in clients for name in (*client.features, *client.left_out, client.label) if name is not None
    }
    refuse([*raised_by(check_same_shape, arrays), *options.unknown(columns)])
    classes = in_order(name for client in clients for name in client.classes)
    return [client.with_classes(classes) for client in clients]


def _clients_in(source: str | Path | Sequence[Any] | Mapping[str, Any]) -> list[tuple[str, str, Any]]:
    """Return each client's name, its name in error messages, and its data or path.

    In a list files are called by their name, or by their path if several have the same.
    """
    if isinstance(source, str | Path):
        return [(path.name, f"'{path}'", path) for path in files_in(str(source))]
    if isinstance(source, Mapping):
        clients = [(str(name), f"Client '{name}'", data) for name, data in source.items()]
    else:
        times = Counter(Path(data).name for data in source if isinstance(data, str | Path))
        clients = [
            (Path(data).name if times[Path(data).name] == 1 else str(data), f"'{data}'", data)
            if isinstance(data, str | Path)
            else (f"Client {i}", f"Client {i}", data)
            for i, data in enumerate(source)
        ]
    if not clients:
        raise FedkinError("The list of clients is empty; at least one is needed.")
    return clients


def _read_path(path: Path, name: str, label: str | None, options: TableOptions) -> Dataset:
    """Read a client's file, or list its folder of samples."""
    from fedkin.data.files import read_file  # arrays and frames have no files

    if path.is_dir() and (found := folder_dataset(path, label)) is not None:
        return replace(found, name=name)
    return replace(read_file(path, label, None, options), name=name)


def said_once(problems: Sequence[tuple[str, str]]) -> list[str]:
    """Return problems of clients, each a client and a sentence that names it, those that are alike in one sentence."""
    alike: dict[str, list[tuple[str, str]]] = {}
    for client, sentence in problems:
        alike.setdefault(sentence.replace(client, "\0"), []).append((client, sentence))
    return [
        f"{pairs[0][1]} So it is with {listing([client for client, _ in pairs[1:]], 8)}."
        if len(pairs) > 1
        else pairs[0][1]
        for pairs in alike.values()
    ]
