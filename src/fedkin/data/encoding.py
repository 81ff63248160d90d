"""Encoding of tables as numbers, in which each original column has the same weight, fitted to sums over clients.

A number, date, boolean or ordinal column becomes one column of mean 0 and variance 1. A category column becomes an
indicator for each category, centred, and the block is divided by the root of its total variance, as in multiple factor
analysis (Escofier and Pages 1994), so that it weighs no more than a number. Empty cells are imputed by scikit-learn's
``KNNImputer`` among a client's own rows, by the nearest cluster in new ones, or by the median of all clients, which no
imputer of one table knows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any, Literal, Self, get_args

import numpy as np
import torch
from torch import Tensor

from fedkin.core import Federation
from fedkin.core.doors import has_option, option
from fedkin.core.errors import FedkinError, listing, unknown_name
from fedkin.core.table import MAX_CATEGORIES, MEASURED, Table
from fedkin.data.options import AUTO
from fedkin.data.scaling import (
    NO_LIMITS,
    Limits,
    constant,
    find_limits,
    in_unit,
    note_on_outliers,
    note_on_unit,
    scale_of,
    unlimited,
)
from fedkin.data.schema import MIN_MEMBERS, Schema, SchemaColumn, aligned, are_numbers, columns_of, plain
from fedkin.data.statistics import ColumnSums, histograms_of, medians

OTHER = "other"
"""What a category that the schema does not name is called."""

Imputation = Literal["neighbours", "median"]
_Scaling = Literal["auto", "standard", "none"]
_Lacking = Literal["drop", "impute"]
_CHOICES = {
    name: sorted(get_args(of))
    for name, of in (("scaling", _Scaling), ("lacking", _Lacking), ("imputation", Imputation))
}
Mode = Literal["standard", "common", "unit", "none"]
_NEIGHBOURS = 5
"""Number of similar rows whose mean an empty cell takes."""
_MAX_DONORS = 1_000
"""Maximum number of rows among which similar ones are sought, evenly spaced in the table."""
_TENSORS = ("low", "high", "fill", "mean", "scale", "other", "indicated")
_NAMED = 8
"""Columns that a note names."""


_IMPUTED: dict[Imputation, str] = {
    "neighbours": "each takes the mean of similar rows of its client, or in new rows that of the nearest cluster",
    "median": "they take the column's median or most frequent value",
}
"""What empty cells take, for a note."""


@dataclass(frozen=True)
class PreparingOptions:
    """Options of the preparation of data.

    By `scaling` "auto" data that all lie in [0, 1] are left alone, columns that share one unit, such as pixels, are
    divided by one scale, and each column of others is standardised, where a few values far from all others count as a
    limit; not with secure sums, for it needs minimum and maximum. "standard" always standardises, without limits, and
    "none" leaves numbers as they are. `id` is the column of tables that names rows: its name, "auto" to recognise it,
    or "none". `lacking` is what happens to a column that a client lacks, or of which all its cells are empty, or more
    than half of all clients' cells.

    By `imputation` "neighbours" empty cells take the mean of the five most similar rows of the same client, and in new
    rows that of the nearest cluster; by "median" the median or most frequent value of all clients. A row affects others
    by "neighbours", so methods with differential privacy take "median". With `indicator` a column with empty cells gets
    an indicator of these, which shares the column's weight. `min_members`, at least 5, are samples of one client that a
    category needs for its name to leave the client; others are pooled. `private` is whether the method is
    differentially private, which what clients send here is not.
    """

    scaling: _Scaling = "auto"
    id: str = AUTO
    lacking: _Lacking = "drop"
    imputation: Imputation = "neighbours"
    indicator: bool = False
    min_members: int = MIN_MEMBERS
    private: bool = False

    def __post_init__(self) -> None:
        """Check the options. Raises FedkinError if one has another type or is unknown."""
        for name, choices in _CHOICES.items():
            given = getattr(self, name)
            if not isinstance(given, str):
                raise FedkinError(f"{name} is {given!r}; allowed: {listing(choices)}.")
            if given not in choices:
                raise unknown_name(name, given, choices)
        if not isinstance(self.indicator, bool | np.bool_):
            raise FedkinError(f"indicator is {self.indicator!r}; it should be true or false.")
        object.__setattr__(self, "indicator", bool(self.indicator))

    def of(self, *, private: bool) -> Self:
        """Return the options for a method that is differentially private for one sample, or is not."""
        return replace(self, imputation="median", private=True) if private else self


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


def fitted_encoding(
    fed: Federation, schema: Schema, sums: ColumnSums, options: PreparingOptions
) -> tuple[TableEncoding, list[str]]:
    """Fit the encoding of tables with a schema; return it, and notes for the user.

    Clients are asked for histograms if numbers are missing. `sums` are those of the schema's columns.
    """
    columns, missing, scaling = schema.columns, sums.filled < sums.samples, options.scaling
    is_number = are_numbers(columns)
    other = torch.tensor([len(counts) > 0 and float(counts[-1]) > 0 for counts in sums.counts])
    indicated = missing & options.indicator
    fill = _fill(fed, columns, sums, missing)
    mode, spread, shared = _mode(columns, scaling, sums)
    limits, outliers = NO_LIMITS, list[str]()
    if scaling == "auto" and mode in ("standard", "common"):
        limits, outliers = _limits(fed, columns, sums, ~shared)
    center, spread = limits.within(sums.mean, spread)
    means, scales = [], []
    for at in range(len(columns)):
        if not is_number[at]:
            counts = sums.counts[at] if other[at] else sums.counts[at][:-1]
            shares = counts / counts.sum().clamp_min(1)
            total = 1 - shares.square().sum()
            mean, scale = shares, torch.full_like(shares, float(total.sqrt()) if total > 1e-12 else 1.0)
        else:
            mean, scale = center[at : at + 1], spread[at : at + 1]
        if indicated[at]:
            empty = 1 - sums.filled[at] / sums.samples
            deviation = (empty * (1 - empty)).sqrt().clamp_min(1e-6)
            mean, scale = torch.cat([mean, empty[None]]), torch.cat([scale, deviation[None]]) * 2**0.5
        means.append(mean)
        scales.append(scale)
    mean, scale = torch.cat(means), torch.cat(scales)
    if mode in ("unit", "none"):
        mean, scale = torch.zeros_like(mean), torch.ones_like(scale)
    low, high = limits.ends(len(columns))
    imputes = options.lacking == "impute"
    encoding = TableEncoding(schema, mode, low, high, fill, mean, scale, other, indicated, imputes, options.imputation)
    in_one_unit = note_on_unit([f"'{column.name}'" for column in columns], shared, ~constant(sums.mean, sums.spread))
    return encoding, [*_notes(columns, sums, encoding), *in_one_unit, *outliers]


def _limits(
    fed: Federation, columns: Sequence[SchemaColumn], sums: ColumnSums, among: Tensor
) -> tuple[Limits, list[str]]:
    """Return limits of measured columns with outliers, where minimum and maximum are known, and a note."""
    if sums.low is None or sums.high is None:
        return NO_LIMITS, []
    names = [f"'{column.name}'" for column in columns]
    measured = torch.tensor([column.kind in MEASURED for column in columns]) & (sums.filled > 0)
    limits = find_limits(histograms_of(fed, columns), sums.mean, sums.spread, sums.low, sums.high, among & measured)
    kinds = [column.kind for column in columns]
    return limits, note_on_outliers(names, limits, sums.low, sums.high, sums.spread, kinds)


def _fill(fed: Federation, columns: Sequence[SchemaColumn], sums: ColumnSums, missing: Tensor) -> Tensor:
    """Return the fill value of each column's empty cells: the median, or the most frequent boolean or category."""
    fill = sums.mean.clone()
    wanted = []
    for at, column in enumerate(columns):
        if column.kind == "category":
            fill[at] = float(sums.counts[at][:-1].argmax())
        elif column.kind == "boolean":
            fill[at] = (sums.mean[at] > 0.5).double()
        elif missing[at]:
            wanted.append(at)
    if wanted:
        fill[wanted] = medians(fed, columns, sums, wanted)
    ordinal = torch.tensor([column.kind == "ordinal" for column in columns])
    return torch.where(ordinal, fill.round(), fill)


def _mode(columns: Sequence[SchemaColumn], scaling: str, sums: ColumnSums) -> tuple[Mode, Tensor, Tensor]:
    """Return the mode of scaling, the scale of each column that is no category, and which columns have a common one."""
    shared = torch.zeros(len(columns), dtype=torch.bool)
    if scaling == "none":
        return "none", torch.ones_like(sums.spread), shared
    if sums.low is None or sums.high is None:
        return "standard", torch.where(constant(sums.mean, sums.spread), 1.0, sums.spread), shared
    numbers = all(column.kind == "number" for column in columns)
    if scaling == "auto" and numbers and in_unit(sums.low, sums.high):
        return "unit", sums.spread, shared
    scale, shared = scale_of(scaling if numbers else "standard", sums.low, sums.high, sums.spread)
    mode: Mode = "common" if shared.any() else "standard"
    return mode, torch.where(sums.low == sums.high, 1.0, scale), shared


def _notes(columns: Sequence[SchemaColumn], sums: ColumnSums, encoding: TableEncoding) -> list[str]:
    notes = []
    missing = (sums.samples - sums.filled).tolist()
    empty = [(column.name, int(count)) for column, count in zip(columns, missing, strict=True) if count > 0]
    if empty:
        worst = sorted(empty, key=lambda pair: -pair[1])
        listed = listing([f"'{name}' {count:,}" for name, count in worst], _NAMED)
        more = " column" * (len(worst) > _NAMED) + "s" * (len(worst) > _NAMED + 1)
        notes.append(
            f"{sum(count for _, count in empty):,} of {sums.samples * len(columns):,} cells are empty "
            f"({listed}{more}); {_IMPUTED[encoding.imputation]}."
        )
    notes += _notes_on_single_values(columns, sums)
    rare = [column for column, has in zip(columns, encoding.other.tolist(), strict=True) if has]
    if rare:
        pooled = [f"'{column.name}'" for column in rare]
        most = any(len(column.categories) == MAX_CATEGORIES for column in rare)
        how = f" ({option('min_members')})" if has_option("min_members") else ""
        notes.append(
            f"Categories of {listing(pooled, _NAMED)} with too few samples at every client to be named{how}"
            f"{f', and all but the {MAX_CATEGORIES} most frequent of a column,' if most else ''} are pooled as "
            f"'{OTHER}'."
        )
    return notes


def _notes_on_single_values(columns: Sequence[SchemaColumn], sums: ColumnSums) -> list[str]:
    """Return a note on columns with a single value, or none."""
    same = constant(sums.mean, sums.spread).tolist()
    same = [
        bool((counts > 0).sum() <= 1) if column.kind == "category" else own
        for column, counts, own in zip(columns, sums.counts, same, strict=True)
    ]
    one = [f"'{column.name}'" for column, own in zip(columns, same, strict=True) if own]
    if not one:
        return []
    has = "Column {} has" if len(one) == 1 else "Columns {} have"
    notes = [
        f"{has.format(listing(one, _NAMED))} a single value at all clients, so samples do not differ in "
        f"{'it' if len(one) == 1 else 'them'}."
    ]
    return notes
