"""Tables as a client holds them before preparation: columns of several kinds, with missing values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, Self

import torch
from torch import Tensor

from fedkin.core.samples import Samples

Kind = Literal["number", "boolean", "ordinal", "category", "date"]
"""What a column holds."""

MEASURED: Final = ("number", "date")
"""Kinds of columns with a mean and a standard deviation."""
IN_WORDS: dict[Kind, str] = {
    "number": "numbers",
    "boolean": "truth values",
    "ordinal": "levels",
    "category": "categories",
    "date": "dates",
}
"""What columns of each kind hold, for sentences."""

MAX_CATEGORIES = 50
"""Named categories of a column; others are pooled."""


@dataclass(frozen=True)
class Column:
    """One column of a client's table.

    Numbers are held as they are, dates as days since 1970-01-01 with fractions, all others as indices into
    `categories`: the client's own values of a boolean, ordinal or category column, in order; empty for others. `asked`
    is whether the user has said that the column is one of categories.
    """

    name: str
    kind: Kind = "number"
    categories: tuple[str, ...] = ()
    asked: bool = False

    @property
    def is_coded(self) -> bool:
        """Whether values are indices into `categories`."""
        return self.kind in ("boolean", "ordinal", "category")


@dataclass(frozen=True)
class TextColumn:
    """A column of free text: the `texts`, and their embeddings `rows`, float32 ``(n, width)``.

    Rows of empty cells are NaN. Without an encoder there are no `rows`.
    """

    texts: Samples
    rows: Tensor | None = None


@dataclass(frozen=True)
class Table:
    """Table of a client: named columns of numbers, dates and categories.

    `values` are float64 ``(n, columns)``, see `Column`; NaN where a cell is empty. `id` is the name of the column that
    identifies rows, as who holds the table says; "auto" where it is to be recognised, and "none" where no column does.
    `decimal` is what stands before decimals in the texts that the table was read from, empty where none show it.
    `texts` are columns of free text by name, which `columns` does not have.
    """

    columns: tuple[Column, ...]
    values: Tensor
    id: str = "auto"
    decimal: str = ""
    texts: Mapping[str, TextColumn] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def names(self) -> list[str]:
        """Names of the columns, in order."""
        return [column.name for column in self.columns]

    def rows(self, index: Tensor) -> Self:
        """Return the rows at int64 or bool `index`."""
        texts = {
            name: TextColumn(one.texts.rows(index), None if one.rows is None else one.rows[index])
            for name, one in self.texts.items()
        }
        return replace(self, values=self.values[index], texts=texts)

    def of(self, name: str) -> Tensor:
        """Return the values of a column, float64 ``(n,)``; raises `KeyError` if there is none of this name."""
        for index, column in enumerate(self.columns):
            if column.name == name:
                return self.values[:, index]
        raise KeyError(name)

    @classmethod
    def of_numbers(cls, x: Tensor, names: Sequence[str]) -> Self:
        """Make a table of numbers from an array ``(n, columns)``."""
        return cls(tuple(Column(name) for name in names), x.to(torch.float64))
