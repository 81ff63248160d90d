"""Data of one client as users pass them: array, table, file, pair, dict or data set, with labels if there are any.

Nothing is scaled or checked here beyond the form; that is done where data are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set, ValuesView
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import issparse
from torch import Tensor
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

from fedkin.core.errors import FedkinError, no_column
from fedkin.core.files import ending_of
from fedkin.data.inputs.dataset_items import SAMPLE_KEYS, read_items
from fedkin.data.inputs.torch_datasets import read_loader, read_torch_dataset, reads_all
from fedkin.data.reading.dataset import LABEL_NAMES
from fedkin.data.reading.huggingface import IMAGES, decode_images, is_hub_dataset, is_transformed, read_rows
from fedkin.data.reading.label_columns import label_of
from fedkin.data.reading.tables import as_frame

FORMS = (
    "an array, a tensor, a DataFrame, a file, a pair (x, y), a dict of x and y, a torch Dataset or DataLoader, or a "
    "Hugging Face Dataset"
)
"""What one client's data may be, for sentences."""


@dataclass(frozen=True)
class ClientInput:
    """Data and labels of one client, in a form that `fedkin.data.reading` reads.

    `x` is a path, a DataFrame, or samples as `fedkin.data.reading.arrays.as_tensor` takes them. `y` has one label per
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
    if is_hub_dataset(value) and not is_transformed(value):
        x, y, column = read_rows(value, where, label)
        return ClientInput(x, y, column)
    if isinstance(value, DataLoader):
        loaded = value.dataset
        if is_hub_dataset(loaded) and not is_transformed(loaded) and reads_all(value):
            return client_input(loaded, where, label, seek_labels)
        return ClientInput(*read_loader(value, where, label))
    if isinstance(value, TorchDataset):
        return ClientInput(*read_torch_dataset(value, where, label))
    if is_hub_dataset(value):
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
        or is_hub_dataset(value)
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
