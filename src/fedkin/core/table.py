"""Samples as a client holds them before they are numbers: images, texts or series, and tables with missing values.

Where only names are wanted, such as those of files, nobody waits for torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, Self

if TYPE_CHECKING:
    from torch import Tensor

SampleKind = Literal["images", "texts", "series"]
"""What samples are that an encoder turns into numbers."""


@dataclass(frozen=True)
class Samples:
    """A client's samples as they were given; they stay at the client.

    Attributes
    ----------
    kind : {"images", "texts", "series"}
    items : sequence
        A path, a Pillow image, a text or an array for each sample: images ``(channels, height, width)`` in [0, 1],
        series ``(steps,)`` or ``(channels, steps)``. Empty in another process, which only computes with embeddings.
    encoder : str
        Fingerprint of the encoder that has made embeddings of them; empty before.
    """

    kind: SampleKind
    items: Sequence[Any]
    encoder: str = ""

    def __len__(self) -> int:
        return len(self.items)

    def rows(self, index: Tensor) -> Self:
        """Return the samples at int64 or bool `index` ``(n,)``; of those that are kept elsewhere there are none."""
        if not len(self.items):
            return self
        rows = index.nonzero()[:, 0] if index.dtype.itemsize == 1 else index  # bool has a byte
        return replace(self, items=[self.items[row] for row in rows.tolist()])


class SampleEncoder(Protocol):
    """What turns samples into embeddings, as options for reading data carry it."""

    @property
    def name(self) -> str:
        """Name for sentences: the spec that named it, or that of a function."""

    @property
    def folder(self) -> str | None:
        """Folder where embeddings are kept; ``None`` to keep them beside the folder of samples."""

    def takes(self, kind: SampleKind) -> bool:
        """Return whether it encodes samples of this kind."""

    def fingerprint(self) -> str:
        """Return a text that is the same where embeddings are: what it is, a hash of weights, and preprocessing.

        Empty for a function of the user's, of which nobody knows whether it has changed.
        """

    def encode(self, kind: SampleKind, contents: Iterable[Any]) -> Tensor:
        """Return embeddings of read samples, float32 ``(n, width)``, rows of length 1.

        Images are RGB images of Pillow's or arrays, texts are str, series float32 arrays ``(channels, steps)``.
        """


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
            name: TextColumn(column.texts.rows(index), None if column.rows is None else column.rows[index])
            for name, column in self.texts.items()
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
        return cls(tuple(Column(name) for name in names), x.double())
