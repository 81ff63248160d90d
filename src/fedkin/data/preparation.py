"""How the preparation of a federation's data is repeated on new samples and when a run resumes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from fedkin.core import Client, FedkinError
from fedkin.core.payload import from_bytes, owned, to_bytes
from fedkin.core.replies import MAX_NUMBER
from fedkin.core.table import Column, Table
from fedkin.data.arrays import as_dataset, plain_numbers
from fedkin.data.checks import check_new_arrays, check_new_rows
from fedkin.data.dataset import Dataset
from fedkin.data.encoding import TableEncoding
from fedkin.data.inputs import ClientInput, client_input
from fedkin.data.options import NO_OPTIONS, TableOptions
from fedkin.data.samples import with_embeddings
from fedkin.data.scaling import Scaling, restore_scaling
from fedkin.data.schema import quoted

STATE = "preparation"
"""Key of the encoding of its table in a client's state, uint8."""


@dataclass(frozen=True)
class Preparation:
    """Preparation that turns samples as read into samples as methods see them.

    Arrays have a `scaling`, and tables an `encoding`. `notes` say in sentences what was done, for the user; `questions`
    are those on what looks wrong in the data and is used as it is. `files` are options of `TableOptions` by which the
    clients' files were read and those of new samples are, such as ``decimal``. `reach`, float64 ``(2, columns)``, or
    ``(2, channels)`` of images, has the ends of all clients' values, rounded outwards, if these are known; `centres`
    are those of clusters of tables, float64 ``(k, width)``, from which empty cells of new rows are imputed. Neither is
    sent to any client. `encoder` is the fingerprint of what has made embeddings of the clients' samples; empty where
    data are numbers.
    """

    scaling: Scaling | None = None
    encoding: TableEncoding | None = None
    notes: list[str] = field(default_factory=list)
    questions: tuple[str, ...] = ()
    files: Mapping[str, Any] = field(default_factory=dict)
    reach: Tensor | None = None
    centres: Tensor | None = None
    encoder: str = ""

    def for_clients(self) -> Self:
        """Return the preparation without what is known of other clients: notes, ends of values and clusters."""
        return replace(self, notes=[], questions=(), reach=None, centres=None)

    def noted(self, notes: Sequence[str], questions: Sequence[str] = ()) -> Self:
        """Return the preparation with these notes on how data were read before its own."""
        return replace(self, notes=[*notes, *self.notes], questions=(*questions, *self.questions))

    @property
    def has_limits(self) -> bool:
        """Whether values beyond the limits of some column count as these."""
        if self.encoding is not None:
            return bool((self.encoding.high < MAX_NUMBER).any())
        return self.scaling is not None and bool(self.scaling.limits)

    @property
    def mode(self) -> str:
        """Mode of scaling, ``"standard"``, ``"common"``, ``"unit"`` or ``"none"``: see `Scaling`, `TableEncoding`."""
        means = self.scaling if self.encoding is None else self.encoding
        assert means is not None
        return means.mode

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a sample as methods see it."""
        return (len(self.encoding.mean),) if self.encoding is not None else self.scaling.shape if self.scaling else ()

    @property
    def id(self) -> str | None:
        """Name of the tables' column that identifies rows, if there is one."""
        return None if self.encoding is None else self.encoding.schema.id

    @property
    def columns(self) -> list[str]:
        """Names of the columns of prepared tables; empty for arrays."""
        return [] if self.encoding is None else self.encoding.names

    @property
    def reading(self) -> TableOptions:
        """Options by which a new table is read with columns of the same kinds."""
        return replace(NO_OPTIONS if self.encoding is None else self.encoding.schema.reading, **self.files)

    def apply(self, x: Any, where: str = "The data given") -> Tensor:
        """Prepare new samples as in training: the float32 tensor ``(n, *shape)`` that models take.

        Parameters
        ----------
        x : array-like
            One client's samples in any form that ``fit`` takes: a DataFrame, an array, a tensor, a file and so on, not
            prepared yet. Labels in them are ignored, and so are columns that the clients' tables did not have. `x`
            itself is not changed.
        where : str
            What to call the samples, at the beginning of error messages.

        Returns
        -------
        Tensor
            float32 ``(n, *shape)``. Empty cells have the value of the cluster that is nearest by the others, or
            where no samples are clustered the median or most frequent value of all clients.

        Raises
        ------
        FedkinError
            If `x` is in no such form, is of another shape than in training, lacks a column or holds something else in
            it, or is a table with names where the clients had arrays and cannot be one of numbers.
        """
        data, where = self.read_again(client_input(x, where), where)
        return self.prepared(data.x, None if data.table is None else data.table.columns, where)

    def read_again(self, samples: ClientInput, origin: str, labels: Sequence[str] = ()) -> tuple[Dataset, str]:
        """Read one client's new samples with columns of the same kinds, and say what to call them.

        They are called `origin`, or by their file; `labels` are columns of a table to leave out. Raises FedkinError if
        they cannot be used.
        """
        left_out = [*labels, *([] if samples.label is None else [samples.label])]
        reading = replace(self.reading, drop=[*self.reading.drop, *left_out])
        if isinstance(samples.x, str | Path):
            from fedkin.data.sources import load

            origin = f"'{samples.x}'"
            read = load(str(samples.x), options=reading, must_have=False)
        else:
            read = with_embeddings(as_dataset(samples.x, origin, origin, options=reading), reading, origin)
        self.check_encoder(read, origin)
        return read, origin

    def check_encoder(self, data: Dataset, origin: str) -> None:
        """Raise FedkinError if new samples were encoded otherwise than the clients'; numbers may be embeddings."""
        if data.samples is not None and data.samples.encoder != self.encoder:
            raise FedkinError(
                f"{origin} was encoded by {data.samples.encoder}, and the clients' samples by "
                f"{self.encoder or 'nothing'}; it needs the same file and options."
            )

    def prepared(
        self,
        x: Tensor,
        columns: Sequence[Column] | None = None,
        origin: str = "The table",
        donors: Table | None = None,
    ) -> Tensor:
        """Prepare samples that were read, float32 ``(n, *shape)``; `x` itself is not changed.

        `x` is as it was read: an array, or the values of a table, see `fedkin.core.table.Table`, with its `columns`;
        without these, it must be numbers in the order of the original table's columns. `origin` names the source, at
        the beginning of error messages; `donors` are rows of the same client that empty cells are imputed from. Raises
        FedkinError if samples are of another shape, the table lacks a column, or a table is passed for arrays.
        """
        if self.encoding is None:
            assert self.scaling is not None
            return self.scaling.apply(
                x if columns is None else plain_numbers(Table(tuple(columns), x.double()), origin)
            )
        schema = self.encoding.schema
        if columns is None:
            numbers = x.ndim == 2 and x.shape[1] == len(schema.columns)
            if not numbers or any(column.kind == "category" for column in schema.columns):
                raise FedkinError(
                    f"The samples have shape {tuple(x.shape)} and no names of columns, but the model was made for the "
                    f"columns {quoted(schema.names)}; give a DataFrame or a file with these."
                )
            columns = [Column(column.name, column.kind, column.categories) for column in schema.columns]
        return self.encoding.apply(Table(tuple(columns), x.double()), origin, donors, self.centres)

    def of(self, client: Client) -> Tensor:
        """Return a client's data prepared; they must not have been prepared yet."""
        origin = f"Client {client.id}"
        if client.table is None or self.encoding is None:
            return self.prepared(client.x, None if client.table is None else client.table.columns, origin)
        return self.encoding.apply(client.table, origin, client.table)

    def notes_on(self, data: Dataset, origin: str) -> list[str]:
        """Return what checks find of new samples that are unlike the clients': rows, or arrays far beyond or within."""
        if self.encoding is not None:
            return [] if data.table is None else [*check_new_rows(data.table, self.encoding, origin, self.reach)]
        return [] if self.reach is None or data.table is not None else [*check_new_arrays(data.x, self.reach, origin)]

    def read(self, source: str) -> Tensor:
        """Read samples by name or path, see `fedkin.data.sources.load`, and prepare them.

        Raises FedkinError if there are none, they do not fit, or `source` is no text.
        """
        if not isinstance(source, str):
            raise FedkinError(
                f"read takes a name or a path, not a {type(source).__name__}; apply(x) takes DataFrames and arrays."
            )
        from fedkin.data.sources import load

        data = load(source, options=self.reading, must_have=False)
        return self.prepared(data.x, None if data.table is None else data.table.columns, f"'{source}'")

    def tree(self) -> dict[str, Any]:
        """Return the fields, ready for `fedkin.core.payload.pack`."""
        more: dict[str, Any] = {} if self.reach is None else {"reach": self.reach}
        more |= {"questions": list(self.questions)} if self.questions else {}
        if self.encoding is not None:
            return {"table": self.encoding.tree(), "notes": self.notes, **more}
        more |= {"encoder": self.encoder} if self.encoder else {}
        assert self.scaling is not None
        return {"scaling": self.scaling.tree(), "notes": self.notes, **more}

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> Self:
        """Return the preparation that `tree` was made of."""
        scaling = Scaling.from_tree(tree["scaling"]) if "scaling" in tree else None
        encoding = TableEncoding.from_tree(tree["table"]) if scaling is None else None
        questions = tuple(tree.get("questions", ()))
        return cls(
            scaling, encoding, list(tree["notes"]), questions, reach=tree.get("reach"), encoder=tree.get("encoder", "")
        )


def remembered(tables: Iterable[Table | None]) -> dict[str, Any]:
    """Return the option by which new rows are read as clients' tables, if all that show a decimal sign show one."""
    signs = {table.decimal for table in tables if table is not None} - {""}
    return {"decimal": signs.pop()} if len(signs) == 1 else {}


def remember(client: Client, encoding: TableEncoding) -> None:
    """Encode a client's table, and keep the encoding in its state."""
    content = to_bytes(owned(encoding.tree()))
    client.state[STATE] = torch.frombuffer(bytearray(content), dtype=torch.uint8)
    restore_preparation(client)


def encoding_of(state: Mapping[str, Tensor]) -> TableEncoding | None:
    """Return the encoding of a client's table from its state; ``None`` if there is none."""
    return TableEncoding.from_tree(from_bytes(state[STATE].numpy().tobytes())) if STATE in state else None


def id_of(state: Mapping[str, Tensor]) -> str | None:
    """Return the column that names a client's rows, from the encoding in its state; ``None`` if there is none."""
    encoding = encoding_of(state)
    return None if encoding is None else encoding.schema.id


def restore_preparation(client: Client) -> None:
    """Prepare a client's freshly loaded data by the encoding or scaling in its state, if any; for resuming."""
    encoding = encoding_of(client.state)
    if encoding is not None and client.table is not None:
        client.x = encoding.apply(client.table, "The client's table", client.table)  # a site does not know its id
    else:
        restore_scaling(client)
