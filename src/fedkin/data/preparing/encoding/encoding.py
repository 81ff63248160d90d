"""Encoding of tables as numbers, in which each original column has the same weight.

A number, date, boolean or ordinal column becomes one column of mean 0 and variance 1. A category column becomes an
indicator for each category, centred, and the block is divided by the root of its total variance, as in multiple factor
analysis (Escofier and Pages 1994), so that it weighs no more than a number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Literal, Self

import torch
from torch import Tensor

from fedkin.core.errors import FedkinError, listing, mid_sentence, refuse
from fedkin.core.table import IN_WORDS, Column, Table
from fedkin.data.preparing.encoding.outliers import unlimited
from fedkin.data.preparing.notes.column_notes import spelt_as
from fedkin.data.preparing.preparing_options import Imputation
from fedkin.data.preparing.schema.column_spellings import with_names
from fedkin.data.preparing.schema.schema import Schema, SchemaColumn, columns_of, plain
from fedkin.data.reading.cells import as_known
from fedkin.data.reading.columns import ALONE

OTHER = "other"
"""What a category that the schema does not name is called."""

Mode = Literal["standard", "common", "unit", "none"]
_NEIGHBOURS = 5
"""Number of similar rows whose mean an empty cell takes."""
_MAX_DONORS = 1_000
"""Maximum number of rows among which similar ones are sought, evenly spaced in the table."""
_TENSORS = ("low", "high", "fill", "mean", "scale", "other", "indicated")


@dataclass(frozen=True)
class TableEncoding:
    """Encoding of tables with one schema: how their columns become numbers.

    By `mode` each column has variance 1 ("standard"), all together have, as columns of one unit ("common"), or values
    stay as they are: since they lie in [0, 1] ("unit"), or because nothing else was wanted ("none"). `low` and `high`,
    float64 ``(columns,)``, are limits, which values beyond count as; `fill`, alike, takes the place of an empty cell,
    as a value or an index into the categories. `mean` is subtracted from the encoded columns and `scale` divides them,
    both float64 ``(width,)``. Of bool ``(columns,)``, `other` says which category columns have an indicator for
    *other*, and `indicated` which columns are followed by an indicator of empty cells. If it `imputes`, a table may
    lack a column, which counts as empty then. By `imputation` empty cells take the mean of similar rows, where such are
    given, or `fill`.
    """

    schema: Schema
    mode: Mode
    low: Tensor
    high: Tensor
    fill: Tensor
    mean: Tensor
    scale: Tensor
    other: Tensor
    indicated: Tensor
    imputes: bool = False
    imputation: Imputation = "median"

    def apply(
        self,
        table: Table,
        where: str = "The table",
        donors: Table | None = None,
        centres: Tensor | None = None,
    ) -> Tensor:
        """Encode a table as float32 ``(n, width)``; its columns may be in any order, and unknown ones are ignored.

        `where` names the table, at the beginning of error messages. `donors` are rows that empty cells are imputed
        from, the table itself at a client. Without donors such cells take the value of the nearest of the `centres` of
        clusters, as `from_centres` has them, or without these `fill`. Raises FedkinError if a table lacks a column, or
        one is of another kind.
        """
        x, empty = self._encoded(table, where)
        if self.imputation == "median" or not bool(empty.any()):
            return x
        if donors is None:
            return x if centres is None else from_centres(x, self._over_blocks(empty), centres)
        others, lacking = (x, empty) if donors is table else self._encoded(donors, where)
        return from_neighbours(x, self._over_blocks(empty), others, self._over_blocks(lacking))

    def _encoded(self, table: Table, where: str) -> tuple[Tensor, Tensor]:
        """Return encoded rows ``(n, width)``, and which cells of the table are empty, bool ``(n, columns)``."""
        values = aligned(table, self.schema.columns, where, self.imputes).clamp(self.low, self.high)
        x = self.scaled(expanded(values, self.schema.columns, self.fill, self.other, self.indicated))
        return x, values.isnan()

    def _over_blocks(self, empty: Tensor) -> Tensor:
        """Repeat which cells are empty for the encoded columns of each, ``(n, width)``; their indicators never are."""
        widths = torch.tensor([end - start for _, start, end in self.blocks])
        over = empty.repeat_interleave(widths, dim=1)
        over[:, (widths.cumsum(0) - 1)[self.indicated]] = False
        return over

    def scaled(self, x: Tensor) -> Tensor:
        """Centre and scale encoded columns ``(n, width)``, which are NaN where a category is unknown."""
        if self.mode == "none":
            return x.nan_to_num(0.0).float()
        return ((x - self.mean) / self.scale).nan_to_num(0.0).float()

    @property
    def blocks(self) -> list[tuple[str, int, int]]:
        """Name, begin and end of each column's block of encoded columns."""
        ends = pairwise(accumulate(map(len, self._names_by_column()), initial=0))
        return [(column.name, *own) for column, own in zip(self.schema.columns, ends, strict=True)]

    @property
    def names(self) -> list[str]:
        """Names of the encoded columns, such as ``town = Ulm`` for the indicator of a category."""
        return [name for own in self._names_by_column() for name in own]

    def _names_by_column(self) -> list[list[str]]:
        found, extra = [], zip(self.other.tolist(), self.indicated.tolist(), strict=True)
        for column, (other, indicated) in zip(self.schema.columns, extra, strict=True):
            levels = [*column.categories, *([OTHER] if other else [])]
            own = [f"{column.name} = {level}" for level in levels] if column.kind == "category" else [column.name]
            found.append([*own, *([f"{column.name} is empty"] if indicated else [])])
        return found

    def tree(self) -> dict[str, Any]:
        """Return the fields, ready for `fedkin.core.payload.pack`."""
        names = {"id": self.schema.id, "notes": self.schema.notes, "mode": self.mode, "imputes": self.imputes}
        tensors = {name: getattr(self, name) for name in _TENSORS}
        return {"columns": plain(self.schema.columns), **names, "imputation": self.imputation, **tensors}

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> Self:
        """Return the encoding that `tree` was made of; one made before has neither limits nor similar rows."""
        schema = Schema(columns_of(tree), tree["id"], list(tree["notes"]))
        low, high = unlimited(len(schema.columns))
        known = {"imputation": "median", "low": low, "high": high, **tree}
        return cls(schema, **{name: known[name] for name in ("mode", "imputes", "imputation", *_TENSORS)})


def aligned(table: Table, columns: Sequence[SchemaColumn], where: str, imputes: bool) -> Tensor:
    """Return a table's values in the order and categories of a schema's columns, float64 ``(n, columns)``.

    Names may differ in spelling, see `with_names`. Categories are indices into the schema's, and their number where a
    category is none of these, as of `as_known`; an unknown level of an ordinal column counts as empty. Raises
    FedkinError if the table lacks columns and nothing `imputes` them, or they are of another kind; a line for each,
    whose public part names columns and kinds alone.
    """
    table = with_names(table, [(one.name, one.kind) for one in columns])
    at = {name: position for position, name in enumerate(table.names)}
    lacking = [] if imputes else [column.name for column in columns if column.name not in at]
    problems = _lacking(lacking, table.names, where)
    padded = torch.cat([table.values, torch.full((len(table), 1), torch.nan, dtype=torch.float64)], 1)
    values = padded[:, [at.get(column.name, -1) for column in columns]]
    for position, column in enumerate(columns):
        if column.name not in at:
            continue
        own = table.columns[at[column.name]]
        same_values = own.kind not in ("ordinal", "category") or own.categories == column.categories
        if (own.kind == column.kind and same_values) or bool((empty := values[:, position].isnan()).all()):
            continue
        if own.categories == ALONE and ALONE[0] not in column.categories:
            values[:, position] = torch.nan
            continue
        if {own.kind, column.kind} == {"boolean", "number"}:
            problems += _no_truths(values[:, position], column, where)
            continue
        if not own.is_coded or column.kind not in ("category", "ordinal"):
            wanted = f"{IN_WORDS[column.kind]}"
            problems.append(_other_kind(column, where, IN_WORDS[own.kind], _such_as(own, column), wanted))
            continue
        index = {name: float(code) for code, name in enumerate(column.categories)}
        unknown = float(len(index)) if column.kind == "category" else torch.nan
        meant = [as_known(name, index) for name in own.categories]
        codes = torch.tensor([unknown if name is None else index[name] for name in meant], dtype=torch.float64)
        known = values[:, position].nan_to_num(0.0).long()
        values[:, position] = torch.where(empty, torch.nan, codes[known])
    refuse(problems)
    return values


def _lacking(names: Sequence[str], has: Sequence[str], where: str) -> list[FedkinError]:
    """Return a sentence on columns that a table lacks, and one for each that it has in another spelling."""
    meant = {name: spelt_as(name, has) for name in names}
    problems = [
        f"{where} has no column '{name}', which the clients' tables have; rename its column '{own}' if that is meant."
        for name, own in meant.items()
        if own
    ]
    rest = [f"'{name}'" for name, own in meant.items() if not own]
    if rest:
        columns = "columns" if len(rest) > 1 else "column"
        problems.append(f"{where} has no {columns} {listing(rest)}, which the clients' tables have.")
    return [FedkinError(problem, public=True) for problem in problems]


def _other_kind(column: SchemaColumn, where: str, kind: str, values: str, wanted: str) -> FedkinError:
    """Return an error on a column that is of another kind; the `values` in its sentence are not public."""

    def sentence(kind: str) -> str:
        return (
            f"Column '{column.name}' of {mid_sentence(where)} holds {kind}; in the clients' tables it holds {wanted}."
        )

    return FedkinError(sentence(kind + values), sentence(kind))


def _no_truths(values: Tensor, column: SchemaColumn, where: str) -> list[FedkinError]:
    """Return a sentence if the values of a column of truth values are numbers other than 0 to 1."""
    known = values[~values.isnan()]
    if column.kind == "number" or bool(((known >= 0) & (known <= 1)).all()):
        return []
    ends = f" from {float(known.min()):.15g} to {float(known.max()):.15g}"
    return [_other_kind(column, where, "numbers", ends, "truth values")]


def _such_as(own: Column, column: SchemaColumn) -> str:
    """Return an example of a category that is no value of the schema's column."""
    known = {level.casefold() for level in column.categories}
    example = next(
        (level for level in own.categories if own.kind == "category" and level.casefold() not in known), None
    )
    return "" if example is None else f" such as '{example}'"


def expanded(values: Tensor, columns: Sequence[SchemaColumn], fill: Tensor, other: Tensor, indicated: Tensor) -> Tensor:
    """Replace categories by indicators (one-hot) and empty cells by `fill` in aligned values, float64 ``(n, width)``.

    A row whose category is unknown, where the column has no *other*, is NaN in the block.
    """
    empty = values.isnan()
    values = torch.where(empty, fill, values)
    if not bool(indicated.any()) and all(column.kind != "category" for column in columns):
        return values
    parts = []
    for at, column in enumerate(columns):
        own = values[:, at]
        if column.kind != "category":
            parts.append(own[:, None])
        else:
            count = len(column.categories)
            indicators = torch.nn.functional.one_hot(own.long().clamp(0, count), count + 1).double()
            if not bool(other[at]):
                indicators = torch.where(indicators[:, -1:] > 0, torch.nan, indicators[:, :-1])
            parts.append(indicators)
        if bool(indicated[at]):
            parts.append(empty[:, at : at + 1].double())
    return torch.cat(parts, 1)


def from_neighbours(x: Tensor, empty: Tensor, donors: Tensor, donors_empty: Tensor) -> Tensor:
    """Replace empty cells by the mean of the five most similar donors that are not empty there.

    Rows are compared in the cells that both have, as in Troyanskaya et al. (2001), with at most 1,000 donors. `x`,
    float32 ``(n, width)``, are encoded rows with fill values in `empty` cells, bool ``(n, width)``. `donors` ``(m,
    width)`` are encoded in the same way, with `donors_empty`; rows of `x` may be among them. Return float32 ``(n,
    width)``. Fill values stay in columns that are empty in all donors, and in rows that have no cell in any other
    column.
    """
    some = torch.linspace(0, len(donors) - 1, min(len(donors), _MAX_DONORS)).long()
    columns = (~donors_empty[some]).any(0).nonzero()[:, 0]
    rows = (empty[:, columns].any(1) & ~empty[:, columns].all(1)).nonzero()[:, 0]
    if not len(rows):
        return x
    from sklearn.impute import KNNImputer

    imputer = KNNImputer(n_neighbors=_NEIGHBOURS).fit(_with_nan(donors, donors_empty)[some][:, columns].numpy())
    found = torch.from_numpy(imputer.transform(_with_nan(x, empty)[rows][:, columns].numpy()))
    x = x.clone()
    x[rows[:, None], columns] = found.float()
    return x


def from_centres(x: Tensor, empty: Tensor, centres: Tensor) -> Tensor:
    """Replace empty cells by those of the centre that is nearest in the cells that are not empty.

    `x`, float32 ``(n, width)``, are encoded rows with fill values in `empty` cells, bool ``(n, width)``; `centres`,
    float64 ``(k, width)``, have NaN where they are not known. Return float32 ``(n, width)``. Each row is imputed on its
    own, so that it does not matter which others are given. Fill values stay where the centre is not known, and in rows
    without any cell.
    """
    rows = (empty.any(1) & ~empty.all(1)).nonzero()[:, 0]
    if not len(rows) or not len(centres):
        return x
    own, gaps, known = x[rows].double(), empty[rows], ~centres.isnan()
    distances = [
        torch.where(gaps | ~there, torch.nan, (own - centre).square()).nanmean(1)
        for centre, there in zip(centres, known, strict=True)
    ]
    nearest = centres[torch.stack(distances).nan_to_num(torch.inf).argmin(0)]
    x = x.clone()
    x[rows] = torch.where(gaps & ~nearest.isnan(), nearest, own).float()
    return x


def _with_nan(x: Tensor, empty: Tensor) -> Tensor:
    return x.double().masked_fill(empty, torch.nan)
