"""One client of a federation, as a task sees it, and its samples before they are numbers: items, or a table.

Where only names are wanted, such as those of files, nobody waits for torch.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, Self

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from fedkin.core.seeds import Noise

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
    """What turns samples into embeddings, as options for reading data carry it.

    `name` is that of sentences: the spec that named it, or that of a function. `folder` is where embeddings are kept;
    ``None`` to keep them beside the folder of samples.
    """

    @property
    def name(self) -> str: ...

    @property
    def folder(self) -> str | None: ...

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
    `categories`: the client's own values of a boolean, ordinal or category column, in order; empty for others.
    """

    name: str
    kind: Kind = "number"
    categories: tuple[str, ...] = ()

    @property
    def is_coded(self) -> bool:
        """Whether values are indices into `categories`."""
        return self.kind in ("boolean", "ordinal", "category")


@dataclass(frozen=True)
class TextColumn:
    """A column of free text, or one that names files: its samples `texts`, and their embeddings `rows` ``(n, width)``.

    Rows of empty cells are NaN. Without an encoder there are no `rows`.
    """

    texts: Samples
    rows: Tensor | None = None


@dataclass(frozen=True)
class Table:
    """Table of a client: named columns of numbers, dates and categories.

    `values` are float64 ``(n, columns)``, see `Column`; NaN where a cell is empty. `id` is the name of the column that
    identifies rows, as who holds the table says; "auto" where it is to be recognised, and "none" where no column does.
    `texts` are columns of free text and of files by name, which `columns` does not have.
    """

    columns: tuple[Column, ...]
    values: Tensor
    id: str = "auto"
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
        """Return the values of a column, float64 ``(n,)``; raises `ValueError` if there is none of this name."""
        return self.values[:, self.names.index(name)]


# The client.


LASTING = "lasting_"
"""Prefix of names in a client's state that stay even when a run resumes from an earlier step."""


def _generator() -> torch.Generator:
    import torch

    return torch.Generator()


def _secret() -> Noise:
    from fedkin.core.seeds import Secret

    return Secret()


@dataclass
class Client:
    """A client's data and its private memory.

    Attributes
    ----------
    id : int
        Stable number of the client, ``0..n-1``; never a transport's node id.
    x : Tensor
        float32, ``(n, features)`` or ``(n, channels, height, width)``. Of a table, what its columns are encoded as;
        until it is prepared, `Table.values`.
    y : Tensor or None
        int64 ``(n,)`` labels the client itself holds and may use; ``None`` where data are unlabelled.
    state : dict of str to Tensor
        What tasks remember between exchanges; it never leaves the client. A run that resumes from an earlier step
        restores it, except names that begin with ``lasting_``, such as privacy accounts.
    rng : torch.Generator
        Derived by the engine for every exchange from (run seed, client id, exchange number).
    noise : Secret or torch.Generator
        Noise that stays secret from the server, which knows the seed; see `fedkin.core.seeds`. The local engine uses
        `rng`, since nothing is secret inside one process and runs must be reproducible.
    secret : callable
        Returns so many bytes that nobody else can guess; the local engine derives them from the seed.
    reserve : callable
        Called with mu of Gaussian differential privacy: whether a run may spend it over all exchanges with the client.
        A client with a budget records what it allows; a client without one allows everything.
    table : Table or None
        The client's table as it was read, in original units; ``None`` where data are no table with named columns.
    min_members : int
        Samples below which it reports no category, cell of a cluster or micro-cluster of its data, where the server
        asks for less; 0 if it leaves that to the server.
    extremes : bool
        Whether it tells the exact minimum and maximum of a column; else it reports quantiles in their place.
    identity : SiteIdentity or None
        Signing identity of a client in a real federation, see `fedkin.secure_aggregation.client_tasks`.
    samples : Samples or None
        The images, texts or series that `x` are embeddings of; ``None`` where data are numbers.
    """

    id: int
    x: Tensor
    y: Tensor | None = None
    state: dict[str, Tensor] = field(default_factory=dict)
    rng: torch.Generator = field(default_factory=_generator, repr=False)
    noise: Noise = field(default_factory=_secret, repr=False)
    secret: Callable[[int], bytes] = field(default=os.urandom, repr=False)
    reserve: Callable[[float], bool] = field(default=lambda mu: True, repr=False)
    table: Table | None = field(default=None, repr=False)
    identity: Any = field(default=None, repr=False)
    min_members: int = 0
    extremes: bool = True
    samples: Samples | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.x)

    def rows(self, index: Tensor) -> Client:
        """Return the same client with only the samples at int64 `index`."""
        y, table = None if self.y is None else self.y[index], None if self.table is None else self.table.rows(index)
        samples = None if self.samples is None else self.samples.rows(index)
        return replace(self, x=self.x[index], y=y, table=table, samples=samples)

    @classmethod
    def unseen(cls, x: Tensor, y: Tensor | None, rng: torch.Generator) -> Client:
        """Return a client outside of any federation; `rng` draws its noise, too, so that it is reproducible."""
        return cls(0, x, y, rng=rng, noise=rng)
