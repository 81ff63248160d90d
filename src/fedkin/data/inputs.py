"""Clients' data as users pass them: the one place where they come in.

What a single value is says `form_of` alone; `client_data` reads it, once, as a data set. `load_clients` does so for
several, whose class indices mean the same, and `ClientFiles` makes them a population.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import pandas as pd
import torch
from scipy.sparse import issparse
from torch import Tensor
from torch.utils.data import DataLoader, RandomSampler, SequentialSampler, Subset, default_collate
from torch.utils.data import Dataset as TorchDataset

from fedkin.core.client import Samples, Table
from fedkin.core.client_array import ClientArray
from fedkin.core.errors import FedkinError, in_short, listing, option, refuse, setting
from fedkin.core.method import Fraction
from fedkin.core.payload import check_same_shape
from fedkin.core.seeds import derive_generator
from fedkin.data.checks import check_cells, check_labels
from fedkin.data.names import KINDS, ending_of, expanded, files_in, files_of_clients
from fedkin.data.options import NO_LABELS, NO_OPTIONS, TableOptions
from fedkin.data.population import Population, hold_out
from fedkin.data.samples import SUGGESTED, folder_dataset, pixels_of, with_embeddings
from fedkin.data.sources import load, rows_to_dataset
from fedkin.data.tables import (
    LABEL_NAMES,
    LARGEST,
    Dataset,
    as_frame,
    as_tensor,
    encode_labels,
    frame_to_dataset,
    in_order,
    notes_on_outcomes,
)

_T = TypeVar("_T")

FORMS = (
    "an array, a tensor, a DataFrame, a file, a pair (x, y), a torch Dataset or DataLoader, or a Hugging Face Dataset"
)
"""What one client's data may be, for sentences."""
COLLECTIONS = (
    "clients in a list, in a dict by name, in a folder with one file each, or as a FederatedDataset with a partitioner"
)
"""What several clients may be in, for sentences."""
_ROWS = "The rows of all clients"
SAMPLE_KEYS = ("x", "image", "img", "images", "pixel_values", "data", "features", "inputs", "input")
"""Keys of an item's dict that are taken for samples, the first that exists."""

Form = Literal["path", "samples", "table", "items", "pair", "array", "row", "other"]
"""What a value is as one client's data; a row, and what is none of these, are no client's."""


def form_of(value: Any) -> Form:
    """Return what a value is as one client's data; this is the one place where that is decided."""
    if isinstance(value, str | Path):
        return "path"
    if isinstance(value, Samples) or listed_samples(value) is not None:
        return "samples"
    if as_frame(value) is not None:
        return "table"
    if isinstance(value, DataLoader | TorchDataset) or _is_hub(value):
        return "items"
    if issparse(value):  # some are dicts; `as_tensor` has the sentence
        return "array"
    # A pair comes before an array: of [x, y] with as many columns as rows numpy would make one, too.
    if isinstance(value, list | tuple) and value and (first := form_of(value[0])) not in ("row", "other"):
        if len(value) == 2 and _are_labels(value[1], value[0], isinstance(value, tuple)):
            return "pair"
        if first != "array" or (isinstance(value, tuple) and len(value) > 2):
            return "other"  # several clients
    if isinstance(value, list | tuple | float | int | np.generic) or hasattr(value, "__array__"):
        return "array" if dimensions(value) > 1 else "row"
    return "other"


def _are_labels(y: Any, x: Any, is_tuple: bool) -> bool:
    """Return whether `y` has one dimension, or is ``(n, 1)`` beside samples `x` ``(n, ...)`` of another shape."""
    form = "row" if y is None else form_of(y)
    if form == "row":
        return is_tuple if y is None else dimensions(y) == 1
    if form == "samples":
        return is_tuple or form_of(x) != "samples"  # a list of two lists of texts is two clients
    shapes = [tuple(getattr(array, "shape", ())) for array in (x, y)]
    return form == "array" and shapes[1] == (*shapes[0][:1], 1) != shapes[0]


def dimensions(value: Any) -> int:
    """Return the number of dimensions of an array, or of a nested list by its first items; 0 if it is neither."""
    if isinstance(value, list | tuple):
        return 1 + (dimensions(value[0]) if value else 0)  # numpy would copy all, such as a list of clients
    ndim = getattr(value, "ndim", None)
    return ndim if isinstance(ndim, int) else int(hasattr(value, "__array__"))


def _is_hub(value: Any) -> bool:
    """Return whether a value is a ``datasets.Dataset``, without importing the library."""
    return isinstance(value, getattr(sys.modules.get("datasets"), "Dataset", ()))


def listed_samples(value: Any) -> Samples | None:
    """Return a list of texts, pictures, paths of samples or series of different lengths; ``None`` for anything else.

    Texts are also an array or a Series of objects.
    """
    is_column = getattr(value, "ndim", 0) == 1 and getattr(getattr(value, "dtype", None), "kind", "O") in "OUT"
    if not (isinstance(value, list | tuple) or is_column) or not len(value):
        return None
    items = list(value)
    if all(isinstance(item, str | Path) for item in items):
        kinds = {KINDS.get(ending_of(item)) for item in items}
        if not all(map(_is_path, items)):  # words, some of which may end like files
            return Samples("texts", items)
        if len(kinds) > 1 or None in kinds or all(ending_of(item) == ".csv" for item in items):
            return None  # files or folders of clients
        return Samples(kinds.pop() or "texts", [Path(item).expanduser() for item in items])
    if all(hasattr(item, "getbands") for item in items):
        return Samples("images", items)
    shapes = [getattr(item, "shape", ()) for item in items]
    return Samples("series", items) if {len(shape) for shape in shapes} == {1} and len(set(shapes)) > 1 else None


def _is_path(item: str | Path) -> bool:
    text = str(item)
    if len(text) >= 4096 or "\n" in text:  # the system refuses to look up longer ones
        return False
    return bool(ending_of(text) and " " not in text.strip()) or Path(text).exists()


# Data of one client.


def client_data(value: Any, origin: str, label: str | None = None, options: TableOptions = NO_OPTIONS) -> Dataset:
    """Read one client's data in any supported form, see `FORMS`; samples that are to be encoded are embeddings.

    `origin` names the client, at the beginning of error messages. `label` is the column, field or key of labels, or
    "none"; without it a table's column of a usual name is taken. Raises FedkinError if it is of another form, cannot be
    read or used, or has no `label`.
    """
    y = None
    match form_of(value):
        case "path":
            path = expanded(str(value))
            samples = folder_dataset(path, label) if path.is_dir() else None
            data = load(str(path), label, options=options, must_have=False) if samples is None else samples
        case "samples":
            listed = value if isinstance(value, Samples) else listed_samples(value)
            data = Dataset(origin, torch.zeros(len(value), 0), samples=listed)
        case "table":
            data = frame_to_dataset(as_frame(value), origin, origin, label, options=options)
        case "items":
            items = _items_of(value, origin)
            if _is_hub(items) and items.format["type"] != "custom":  # a user's transform makes other items
                data = rows_to_dataset(items, origin, origin, label, options=options, names_classes=False)
            else:
                x, y = _read_items(items, origin, label)
                data = Dataset(origin, as_tensor(x, origin))
        case "pair":
            x, y = value
            data = client_data(x, origin, label if y is None else NO_LABELS, options)
        case "array" | "row" if label in (None, NO_LABELS):
            data = Dataset(origin, as_tensor(value, origin))
        case "array" | "row":
            raise FedkinError(f"{origin} is an array and has no column '{label}'; give y as one array for each client.")
        case _:
            raise FedkinError(f"{origin} is of type {type(value).__name__}; a client's data are {FORMS}.")
    data = data if y is None else with_labels(data, y, origin)
    return with_embeddings(data, options, origin) if data.has_samples or options.encoder else data


def with_labels(data: Dataset, y: Any, origin: str) -> Dataset:
    """Return a client's data with labels beside them; raise FedkinError if there is not one for each sample."""
    y = y.detach().cpu() if isinstance(y, Tensor) else y
    y = y[:, 0] if getattr(y, "shape", ())[1:] == (1,) else y  # a column, as scikit-learn takes it
    codes, classes = encode_labels(y, origin)
    if len(codes) != len(data):
        raise FedkinError(f"{origin} has {len(codes)} labels for {len(data)} samples; each sample needs one.")
    return replace(data, y=codes, classes=classes, are_texts=isinstance(next(iter(y)), str))


def _items_of(data: Any, origin: str) -> Any:
    """Return the data set of a loader, whose order and batches are for training, and any other as it is.

    Of a loader whose sampler chooses some items these are read.
    """
    if not isinstance(data, DataLoader):
        return data
    if data.collate_fn is not default_collate and data.batch_size is not None:
        raise FedkinError(f"{origin} is a DataLoader with a collate_fn of its own; give its data set.")
    sampler, items = data.sampler, data.dataset
    if hasattr(items, "__len__") and not isinstance(sampler, RandomSampler | SequentialSampler):
        return Subset(items, [int(i) for i in getattr(sampler, "indices", sampler)])
    return items


def _read_items(data: Any, origin: str, label: str | None) -> tuple[Tensor, Any]:
    """Return the samples and labels of a data set's items."""
    try:
        items = map(data.__getitem__, range(len(data))) if hasattr(data, "__len__") else data
        pairs = [_sample_and_label(item, None if label == NO_LABELS else label) for item in items]
        labels = [y for _, y in pairs if y is not None]
        if len(labels) not in (0, len(pairs)):
            raise ValueError("only some have labels")
        y = np.asarray(labels) if labels and label != NO_LABELS else None
        return torch.stack([x for x, _ in pairs]), y
    except Exception as error:  # whatever a user's own data set raises, and torch over samples of other shapes or none
        form = "each is x, a pair (x, y), or a dict with x or image and label, and all x are numbers of one shape"
        raise FedkinError(f"The items of {origin} cannot be used ({in_short(error)}); {form}.") from error


def _sample_and_label(item: Any, label: str | None) -> tuple[Tensor, Any]:
    """Return an item's sample as a tensor, and its label or ``None``; raise any error if it has no such form."""
    if isinstance(item, Mapping):
        label = label or next((name for name in LABEL_NAMES if name in item), None)
        rest = [key for key in item if key != label]
        key = next((key for key in SAMPLE_KEYS if key in rest), rest[0] if len(rest) == 1 else None)
        item = (item[key], item[label]) if label else (item[key],)
    first, *more = item if isinstance(item, list | tuple) else [item]
    if len(more) > 1:
        raise ValueError(f"{1 + len(more)} parts")
    y = more[0].tolist() if more and isinstance(more[0], Tensor | np.ndarray | np.generic) else (more or [None])[0]
    x = torch.tensor(pixels_of(first)) / 255 if hasattr(first, "convert") else first
    x = x.detach().cpu() if isinstance(x, Tensor) else torch.from_numpy(np.array(x))
    return x.float() if x.is_floating_point() else x, y


# Data of several clients.


def load_clients(
    source: Any, y: Any = None, options: TableOptions = NO_OPTIONS, entrance: str = "fit"
) -> list[Dataset]:
    """Load one data set per client, with class indices that mean the same at all of them.

    `source` are clients as in `COLLECTIONS`, each as in `FORMS`; those without a name are called ``Client 0`` and so
    on. `y` is the column, field or key that holds the labels of every client, "none" if no column does, or one array of
    labels per client, in order or by name; without it a table's column of a usual name is taken. Columns of tables may
    differ from client to client; arrays are all of one shape. `entrance` names the function that was called, for error
    messages. Raises FedkinError if there is no client, or any cannot be used, with a line for each problem; if arrays
    differ in shape, or some clients have tables and others arrays; or if no client has a column that `options` name.
    """
    clients = clients_of(source, entrance)
    names, label = _names_of(clients), y if y is None or isinstance(y, str) else NO_LABELS
    beside = [None] * len(clients) if label is y else _labels_beside(y, clients)
    origins: dict[str, str] = {}
    sites: list[Dataset] = []
    problems: list[str] = []
    for name, (key, value), labels in zip(names, clients.items(), beside, strict=True):
        origins[name] = f"'{value}'" if isinstance(value, str | Path) else f"Client '{name}'" if name == key else name
        try:
            site = client_data(value, origins[name], label, options)
            if labels is not None and site.y is not None:
                raise FedkinError(f"{origins[name]} has labels of its own, and labels are in y, too; leave one out.")
            sites.append(replace(site if labels is None else with_labels(site, labels, origins[name]), name=name))
        except FedkinError as error:
            problems += str(error).splitlines()
    refuse(problems)
    arrays = {origins[site.name]: tuple(site.x.shape[1:]) for site in sites if site.table is None}
    if 0 < len(arrays) < len(sites):
        table = next(site.name for site in sites if site.table is not None)
        raise FedkinError(f"{origins[table]} is a table and {next(iter(arrays))} an array; all clients need the same.")
    columns = {name for site in sites for name in (*site.features, *site.left_out, site.label) if name is not None}
    check_same_shape(arrays)
    refuse(options.unknown(columns))
    classes = in_order(name for site in sites for name in site.classes)
    return [site.with_classes(classes) for site in sites]


def _names_of(clients: Mapping[Any, Any]) -> list[str]:
    """Return clients' names; in a list files are called by their name, or by their path if several have the same."""
    files = {i: Path(data) for i, data in clients.items() if isinstance(data, str | Path)}
    are_distinct = len({path.name for path in files.values()}) == len(files)
    of_files = {i: path.name if are_distinct else str(path) for i, path in files.items()}
    return [key if isinstance(key, str) else of_files.get(key, f"Client {key}") for key in clients]


def clients_of(value: Any, entrance: str) -> dict[Any, Any]:
    """Return the data of several clients by name or, where they have none, by position.

    Raises FedkinError if they are those of a single client, or of none.
    """
    if isinstance(value, str | Path):
        return {path.name: path for path in files_in(str(value))}
    clients = split_clients(value, "test" if entrance == "eval" else "train")
    if clients is None and form_of(value) == "array" and dimensions(value) > 2:
        clients = dict(enumerate(value))
    if not clients:
        how = "; table.groupby('hospital') divides it by a column" if form_of(value) == "table" else ""
        raise FedkinError(f"{entrance} takes {COLLECTIONS}; got a single or empty {type(value).__name__}{how}.")
    return clients


def split_clients(value: Any, split: str = "train") -> dict[Any, Any] | None:
    """Return the data of several clients by name or position, or ``None`` if they are those of one.

    `split` is that of a ``FederatedDataset``.
    """
    pairs: Iterable[tuple[Any, Any]]
    if isinstance(value, ClientArray):
        return dict(zip(value.names, value.rows.split(value.sizes.tolist()), strict=True))
    if type(value).__name__ == "DataFrameGroupBy":
        if lost := len(value.obj) - int(value.size().sum()):
            raise FedkinError(f"{lost:,} rows have no value by which the table is divided, so they are no client's.")
        keys = [key for key in np.atleast_1d(value.keys).tolist() if isinstance(key, str)]
        pairs = [(name, group.drop(columns=keys, errors="ignore")) for name, group in value]
    elif isinstance(value, Mapping) and not issparse(value):
        pairs = value.items()
    elif hasattr(type(value), "load_partition"):
        return dict(enumerate(_partitions(value, split)))
    elif isinstance(value, list | tuple) and value and form_of(value) not in ("pair", "samples"):
        return None if form_of(value[0]) == "row" else dict(enumerate(value))
    else:
        return None
    named = {", ".join(map(str, name if isinstance(name, tuple) else (name,))): data for name, data in pairs}
    if len(named) < len(pairs):
        raise FedkinError("Two clients have the same name, such as once as a number and once as text.")
    return named


def _partitions(federated: Any, split: str) -> list[Any]:
    """Return the partitions of a ``flwr_datasets`` data set, of one split, or partitioner."""
    if not hasattr(type(federated), "partitioners"):
        return [federated.load_partition(i) for i in range(federated.num_partitions)]
    try:
        first = federated.load_partition(0, split)  # with which it loads its data
        count = federated.partitioners[split].num_partitions
    except (KeyError, ValueError) as error:
        raise FedkinError(f"The FederatedDataset has no partitioner of '{split}' ({in_short(error)}).") from error
    return [first, *(federated.load_partition(i, split) for i in range(1, count))]


def _labels_beside(y: Any, clients: Mapping[Any, Any]) -> list[Any]:
    """Return the labels `y` in the order of the clients; raise FedkinError if they do not belong together."""
    by_name = isinstance(y, Mapping)
    labels = {str(name): values for name, values in y.items()} if by_name else {}
    if labels.keys() == {*clients} and by_name:
        return [labels[name] for name in clients]
    if isinstance(y, list | tuple | np.ndarray) and len(y) == len(clients) and all(map(dimensions, y)):
        return list(y)
    how = "a column, or one array of labels for each client, in a list or, where these have names, by name"
    raise FedkinError(f"y is a {type(y).__name__} of labels of {len(clients)} clients; it takes {how}.")


def client_array(rows: Any, offsets: Any = None, *, groups: Any = None, min_members: int = 0) -> ClientArray:
    """Return very many clients as one array, for `fit` and `predict` of estimators that cluster samples.

    Parameters
    ----------
    rows : array-like
        The rows of all clients: ``(rows, features)`` or images ``(rows, channels, height, width)``. An array or tensor
        of float32 is not copied, and may be mapped into memory by numpy. No number may be missing.
    offsets : sequence of int, optional
        ``(clients + 1,)``: client i has ``rows[offsets[i]:offsets[i + 1]]``.
    groups : array-like, optional
        Instead, the name of each row's client ``(rows,)``. Rows of a client that are not side by side are copied so.
    min_members : int
        Rows below which a client reports no group of its rows.

    Raises
    ------
    FedkinError
        If a row is not finite, or rows are not divided among clients.
    """
    x: Any = rows
    if not (isinstance(x, np.ndarray) and x.dtype == np.float32):
        is_ready = isinstance(x, Tensor) and x.dtype == torch.float32
        x = (x.detach().cpu() if is_ready else as_tensor(x, _ROWS)).numpy()
    step = 1 << 16  # 16 MB of 64 columns
    if x.ndim not in (2, 4) or not all(np.abs(x[i : i + step]).max() <= LARGEST for i in range(0, len(x), step)):
        raise FedkinError(
            f"{_ROWS} have shape {x.shape}; clients of one array need two or four dimensions, and finite numbers."
        )
    if (offsets is None) == (groups is None):
        raise FedkinError("Clients of one array are divided by either offsets or groups.")
    if groups is None:
        bounds = np.asarray(offsets)
        if bounds.ndim != 1 or bounds.dtype.kind not in "iu":
            raise FedkinError(f"Offsets are {bounds.dtype} {bounds.shape}; they are whole numbers in a row.")
        return ClientArray(torch.from_numpy(x), torch.from_numpy(bounds.astype(np.int64)), min_members)
    codes, names = pd.factorize(np.asarray(groups))
    if len(codes) != len(x) or (codes < 0).any():
        raise FedkinError(f"There are {len(x)} rows and {len(codes)} groups; each row needs one.")
    if (np.diff(codes) < 0).any():
        x = x[codes.argsort(kind="stable")]
    bounds = np.cumsum([0, *np.bincount(codes)])
    return ClientArray(torch.from_numpy(x), torch.from_numpy(bounds), min_members, list(map(str, names)))


# The population of data that are split already.


@dataclass(frozen=True)
class ClientFiles:
    """Data that are split already: one file, table or array per client, used as they are.

    Attributes
    ----------
    data : str, Path, sequence or mapping
        A folder with one file per client, or the data of each client in any form that `load_clients` takes.
    label : str or None
        The column or array of labels of every client, or "none" if there are no labels. If all have labels, they are
        the clients' and the truth.
    test_fraction : float
        Fraction of every client's samples that is held out for tests, in [0, 1]; needs labels if it is above 0.
    table : TableOptions
        Options for reading the tables' columns.
    column : str or None
        If all clients' rows are in one file, its column with the name of each row's client.
    """

    data: Any
    label: str | None = None
    test_fraction: Fraction = 0.0
    table: TableOptions = NO_OPTIONS
    column: str | None = None

    def build(self, seed: int = 0) -> Population:
        """Build the clients, in order of file name or as listed; only the held-out samples are drawn at random.

        Raises FedkinError if there is no client, or any client's data cannot be used, with a line for each problem; if
        arrays differ in shape, or tests are wanted of data without labels.
        """
        if self.column is None:
            sites = load_clients(self.data, self.label, self.table)
        else:
            if not isinstance(self.data, str | Path) or files_of_clients(str(self.data)):
                raise FedkinError(f"'simulation.column' is '{self.column}', which is for one file of all clients.")
            rows = load(str(self.data), self.label, cluster=self.column, options=self.table)
            assert rows.clusters is not None
            index, names = rows.clusters
            sites = [replace(rows.rows(index == i), name=name, clusters=None) for i, name in enumerate(names)]
        return population_of(sites, self.label is not None, self.test_fraction, seed)


def population_of(sites: Sequence[Dataset], is_named: bool, test_fraction: float = 0.0, seed: int = 0) -> Population:
    """Return clients as they are, with notes on labels; `is_named` says whether the user has named their column.

    If all have labels, they are the clients' and the truth. Raises FedkinError if tests are wanted of others.
    """
    labels = [site.y for site in sites if site.y is not None]
    labelled = len(labels) == len(sites)
    if test_fraction > 0 and not labelled:
        raise FedkinError(f"test_fraction is {test_fraction}, but not every client has labels to test against.")
    clients, tests = [site.client(i, site.y if labelled else None) for i, site in enumerate(sites)], []
    for i, (site, y) in enumerate(zip(sites, labels, strict=True) if test_fraction > 0 else ()):
        rest, out = hold_out(torch.arange(len(site)), test_fraction, derive_generator(seed, "test", i))
        clients[i] = clients[i].rows(rest)
        tests.append((site.x[out], y[out]))
    guesses = notes_on_outcomes(site.features for site in sites)
    guesses += [] if is_named else _label_notes(sites, labelled)
    pairs = zip(sites, labels, strict=True) if labelled else ()
    spelt, apart = check_labels({site.name: [site.classes[i] for i in y.unique().tolist()] for site, y in pairs})
    cells = check_cells({site.name: site.table for site in sites if site.table is not None})
    questions = (*spelt, *cells, *note_on_texts([site.table for site in sites]))
    return Population(
        clients,
        [client.y for client in clients if client.y is not None] if labelled else None,
        sites[0].classes if labelled else [],
        list(dict.fromkeys(name for site in sites for name in site.features)),
        [site.name for site in sites],
        tests,
        # That clients share no labels is what clusters of clients are often found for: a note, and no question.
        notes=(*guesses, *apart, *questions),
        questions=questions,
        guesses=tuple(guesses),
    )


def note_on_texts(tables: Sequence[Table | None]) -> list[str]:
    """Return a sentence on each column of texts, images or series that is left out, since there is no encoder."""
    columns = [item for table in tables if table for item in table.texts.items()]
    kinds = {name: column.texts.kind for name, column in columns if column.rows is None}
    return [
        f"Column '{name}' holds {'free text' if kind == 'texts' else kind} and is left out; "
        f"{setting('encode', SUGGESTED[kind])} to compare what it {'says' if kind == 'texts' else 'shows'}, or name it "
        f"in {option('drop')} or {option('categorical')}."
        for name, kind in kinds.items()
    ]


def _label_notes(sites: Sequence[Dataset], labelled: bool) -> list[str]:
    """Return a sentence on each column that was taken for labels though the user has not named it."""
    use = "" if labelled else " and not used, for others have none"
    holders: dict[str, list[str]] = {}
    for site in sites:
        if site.label is not None:
            holders.setdefault(site.label, []).append(site.name)
    return [
        f"Column '{name}' is taken for labels of {listing(names, 5)}{use}, so it is no feature; if it is one, name the "
        f"labels with {option('label')}, or {setting('label', 'none')}."
        for name, names in holders.items()
    ]
