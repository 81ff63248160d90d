"""Data sets in memory, and labels of any type as class indices."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from fedkin.core.client import Samples, Table
from fedkin.core.errors import FedkinError, option, setting

LABEL_NAMES = ("label", "labels", "fine_label", "class", "target", "y")
"""Columns and arrays that are taken for labels when none is named, the first that exists."""


class SplitError(FedkinError):
    """Error of a data set that has no split of the requested name."""


@dataclass(frozen=True)
class Dataset:
    """Data set in memory: samples and, if there are any, their classes.

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
        Names of the classes; empty without labels.
    table : Table or None
        The samples' columns, if they have names.
    clusters : (Tensor, list of str) or None
        Each sample's cluster, as an index into their names, if a column of these was asked for; it is no feature.
    left_out : tuple of str
        Columns of the source that were dropped by name, or hold free text.
    label : str or None
        The column of a table that was taken for its labels.
    samples : Samples or None
        Images, texts or series that `x` are embeddings of, or will be.
    """

    name: str
    x: Tensor
    y: Tensor | None = None
    classes: list[str] = field(default_factory=list)
    table: Table | None = None
    clusters: tuple[Tensor, list[str]] | None = None
    left_out: tuple[str, ...] = ()
    label: str | None = None
    samples: Samples | None = None

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
            samples=None if self.samples is None else self.samples.rows(index),
            clusters=None if self.clusters is None else (self.clusters[0][index], self.clusters[1]),
        )

    def with_classes(self, classes: list[str]) -> Self:
        """Return the data set with its labels as indices into `classes`, among which are its own."""
        index = {name: i for i, name in enumerate(classes)}
        codes = torch.tensor([index[name] for name in self.classes], dtype=torch.int64)
        return replace(self, y=None if self.y is None else codes[self.y], classes=classes)

    @property
    def features(self) -> list[str]:
        """Column names of a table; empty for an array."""
        return self.table.names if self.table is not None else []


# Names.


def composed(value: Any) -> str:
    """Return a value as text whose accents and umlauts are composed (NFC), so that what looks alike is alike."""
    return unicodedata.normalize("NFC", str(value))


def usual_label(columns: Iterable[str]) -> str | None:
    """Return the column that is taken for labels if none is named: of `LABEL_NAMES`, or of such a word in capitals.

    A column ``Y`` is none, for it may be a coordinate.
    """
    names = list(columns)
    spelt = {name.lower(): name for name in reversed(names) if len(name) > 1} | {name: name for name in names}
    return next((spelt[name] for name in LABEL_NAMES if name in spelt), None)


def in_order(names: Iterable[str]) -> list[str]:
    """Return the distinct names, sorted numerically if all are numbers and alphabetically otherwise."""
    distinct = sorted(set(names))
    with suppress(ValueError):
        distinct.sort(key=float)
    return distinct


# Labels.


def encode_labels(values: Iterable[Any], origin: str) -> tuple[Tensor, list[str]]:
    """Encode labels of any plain type as int64 indices ``(n,)`` into their sorted names; return both.

    `values` are one integer, boolean, string or whole float per sample; blanks around a string do not count. `origin`
    names the source, at the beginning of error messages. Raises FedkinError if a label is missing or a fraction.
    """
    from pandas import isna

    array = np.asarray(values)
    labels = (values if isinstance(values, np.ma.MaskedArray) else array).tolist()  # masked ones are None
    if array.ndim != 1 or any(isinstance(label, Collection) and not isinstance(label, str | bytes) for label in labels):
        raise FedkinError(f"{origin} has shape {array.shape}; labels need one value per sample.")
    if missing := int(np.sum(isna(np.array(labels, dtype=object)))):
        raise FedkinError(
            f"{origin} lacks {missing} of {len(labels)} labels; leave these rows out, or {setting('label', 'none')} to "
            "use none."
        )
    if array.dtype.kind == "f":
        if (fraction := next((label for label in labels if not label.is_integer()), None)) is not None:
            raise fractions(origin, fraction)
        labels = [int(label) for label in labels]
    names = [composed(label).strip() for label in labels]
    classes = in_order(names)
    index = {name: i for i, name in enumerate(classes)}
    return torch.tensor([index[name] for name in names], dtype=torch.int64), classes


def are_whole(classes: Iterable[str]) -> bool:
    """Return whether all names of classes are whole numbers, so that labels are integers."""
    return all(name.removeprefix("-").isdecimal() for name in classes)


def fractions(origin: str, example: object) -> FedkinError:
    """Return the error on labels that are fractions, such as `example`."""
    return FedkinError(
        f"{origin} has labels that are fractions, such as {example}; labels must be classes, for regression is not "
        "supported."
    )


def too_many_labels(classes: int, rows: int) -> bool:
    """Return whether so many different values are more than classes of so many rows can be, as free texts are.

    Twenty never are; else they are more than half of the rows, or more than a hundred and a tenth of the rows.
    """
    return classes > max(20, rows / 2) or classes > max(100, rows / 10)


def not_labels(clients: Sequence[Dataset]) -> list[str]:
    """Return columns that were taken for labels of a client and are features, since they cannot be those of another.

    Or since all clients together have too many different ones, see `too_many_labels`.
    """
    features = []
    for name in dict.fromkeys(client.label for client in clients if client.label is not None):
        labelled = [client for client in clients if client.label == name]
        classes = {label for client in labelled for label in client.classes}
        is_feature = any(name in client.features for client in clients)
        features += [name] if is_feature or too_many_labels(len(classes), sum(map(len, labelled))) else []
    return features


def notes_on_outcomes(clients: Iterable[Sequence[str]]) -> list[str]:
    """Return a note on each column that is called like labels and is a feature, from the names of clients' columns."""
    names = [(name, columns) for columns in clients for name in columns if usual_label([name])]
    return [
        f"Column '{name}' is called like labels and is a feature; if it is an outcome, which clusters should not "
        f"depend on, name it in {option('drop')}, or, if it holds labels, with {option('label')}."
        for name in dict.fromkeys(name for name, columns in names if name != "y" or "x" not in columns)  # a coordinate
    ]
