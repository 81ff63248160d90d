"""Data sets in memory, and the encoding of labels of any type as class indices."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from fedkin.core.errors import FedkinError
from fedkin.core.table import Table
from fedkin.data.reading.cells import composed

LABEL_NAMES = ("label", "labels", "fine_label", "class", "target", "y")
"""Columns and arrays that are taken for labels when none is named, the first that exists."""


def usual_label(columns: Iterable[str]) -> str | None:
    """Return the column that is taken for labels where none is named: of `LABEL_NAMES`, or of such a word in capitals.

    A column ``Y`` is none, for it may be a coordinate.
    """
    names = list(columns)
    spelt = {name.lower(): name for name in reversed(names) if len(name) > 1} | {name: name for name in names}
    return next((spelt[name] for name in LABEL_NAMES if name in spelt), None)


_NO_CLASSES = "; labels must be classes, for regression is not supported."
"""End of a sentence on labels that are quantities."""

NO_LABELS = "none"
"""Name of a column of labels that says that there are none, whatever columns are called."""


class SplitError(FedkinError):
    """Error of a data set that has no split of the requested name."""


@dataclass(frozen=True)
class Dataset:
    """Data set in memory: samples and, where there are any, their classes.

    Attributes
    ----------
    name : str
        Name that the user gave, or that of its file.
    x : Tensor
        For a table its float64 values; else float32, images ``(n, channels, height, width)`` in [0, 1] or numbers
        ``(n, features)`` as they are.
    y : Tensor or None
        int64 ``(n,)``, indices into `classes`.
    classes : list of str
        Names of the classes; empty where there are no labels.
    table : Table or None
        The samples' columns, where they have names.
    clusters : (Tensor, list of str) or None
        Each sample's cluster, as an index into their names, if a column of these was asked for; it is no feature.
    left_out : tuple of str
        Columns of the source that were dropped by name.
    label : str or None
        The column of a table that was taken for its labels.
    na_values : frozenset of (str, str or float)
        Values named for empty cells that some cell held, each with its column, or "" if it was named for all.
    """

    name: str
    x: Tensor
    y: Tensor | None = None
    classes: list[str] = field(default_factory=list)
    table: Table | None = None
    clusters: tuple[Tensor, list[str]] | None = None
    left_out: tuple[str, ...] = ()
    label: str | None = None
    na_values: frozenset[tuple[str, str | float]] = frozenset()

    def __len__(self) -> int:
        return len(self.x)

    def rows(self, index: Tensor) -> Self:
        """Return the samples at int64 or bool `index`, with their labels and clusters."""
        table = None if self.table is None else self.table.rows(index)
        return replace(
            self,
            x=self.x[index] if table is None else table.values,
            y=None if self.y is None else self.y[index],
            table=table,
            clusters=None if self.clusters is None else (self.clusters[0][index], self.clusters[1]),
        )

    def with_classes(self, classes: list[str]) -> Self:
        """Return the data set with its labels as indices into `classes`, among which are its own."""
        index = {name: i for i, name in enumerate(classes)}
        own = torch.tensor([index[name] for name in self.classes], dtype=torch.int64)
        return replace(self, y=None if self.y is None else own[self.y], classes=classes)

    @property
    def features(self) -> list[str]:
        """Column names of a table; empty where there are none."""
        return self.table.names if self.table is not None else []


class LackingLabelsError(FedkinError):
    """Error of labels of which some are missing; `if_found` is what to say of a column that nobody named as labels."""

    def __init__(self, sentence: str, if_found: str = "") -> None:
        super().__init__(sentence)
        self.if_found = if_found or sentence


_CONTAINERS = (list, tuple, dict, set, frozenset, np.ndarray)
"""Types of cells that hold several values."""


def encode_labels(values: Iterable[Any], where: str) -> tuple[Tensor, list[str]]:
    """Encode labels of any plain type as int64 indices ``(n,)`` into their sorted names; return both.

    `values` are one integer, boolean, string or whole float per sample; blanks around a string do not count. `where`
    names the source, at the beginning of error messages. Raises FedkinError if a label is missing or a fraction.
    """
    array = np.asarray(values)
    labels = (values if isinstance(values, np.ma.MaskedArray) else array).tolist()  # masked ones are None
    if array.ndim != 1:
        raise FedkinError(f"{where} has shape {array.shape}; labels need one value per sample.")
    if (kind := next((type(label) for label in labels if isinstance(label, _CONTAINERS)), None)) is not None:
        raise FedkinError(f"{where} holds values of type {kind.__name__}; labels need one value per sample.")
    missing = sum(map(_is_missing, labels))
    if missing:
        raise lacking_labels(where, missing, len(labels))
    if array.dtype.kind == "f":
        if (strange := next((label for label in labels if not label.is_integer()), None)) is not None:
            raise fractions(where, strange)
        labels = [int(label) for label in labels]
    names = [composed(label).strip() for label in labels]
    classes = in_order(names)
    index = {name: i for i, name in enumerate(classes)}
    return torch.tensor([index[name] for name in names], dtype=torch.int64), classes


def are_whole(classes: Iterable[str]) -> bool:
    """Return whether all names of classes are whole numbers, so that labels are integers."""
    return all(name.removeprefix("-").isdecimal() for name in classes)


def lacking_labels(where: str, missing: int, rows: int) -> LackingLabelsError:
    """Return the error on labels some of which are missing, or all."""
    if missing == rows:
        return LackingLabelsError(
            f"{where} lacks all labels; leave out this client, or the labels of all.",
            f"{where} is called like labels, but all of its cells are empty; leave out this client, or set "
            "label = 'none' to use no labels.",
        )
    return LackingLabelsError(
        f"{where} lacks {missing} of {rows} labels; leave out the rows without one, or the labels altogether.",
        f"{where} is called like labels, but {missing} of {rows} cells are empty; leave out these rows, or set "
        "label = 'none' if it holds no labels.",
    )


def fractions(where: str, example: object) -> FedkinError:
    """Return the error on labels that are fractions, such as `example`."""
    return FedkinError(f"{where} has labels that are fractions, such as {example}{_NO_CLASSES}")


def _is_missing(label: Any) -> bool:
    try:
        return label is None or bool(label != label)
    except TypeError:  # of pandas' NA one cannot even say whether it differs from itself
        return True


def in_order(names: Iterable[str]) -> list[str]:
    """Return the distinct names, sorted numerically if all are numbers and alphabetically otherwise."""
    distinct = sorted(set(names))
    try:
        return sorted(distinct, key=float)
    except ValueError:
        return distinct
