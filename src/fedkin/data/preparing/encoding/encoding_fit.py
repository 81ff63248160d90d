"""Fitting of a table encoding to sums over clients: fill values of empty cells, means and scales."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fedkin.core import Federation
from fedkin.core.errors import listing
from fedkin.core.table import MAX_CATEGORIES, MEASURED
from fedkin.data.preparing.encoding.column_scales import constant, in_unit, note_on_unit, scale_of
from fedkin.data.preparing.encoding.encoding import OTHER, Mode, TableEncoding
from fedkin.data.preparing.encoding.outliers import NO_LIMITS, Limits, find_limits, note_on_outliers
from fedkin.data.preparing.encoding.statistics import ColumnSums, histograms_of, medians
from fedkin.data.preparing.preparing_options import Imputation, PreparingOptions
from fedkin.data.preparing.schema.schema import Schema, SchemaColumn, are_numbers
from fedkin.data.preparing.schema.schema_notes import note_on_marks

_IMPUTED: dict[Imputation, str] = {
    "neighbours": "each takes the mean of similar rows of its client, or in new rows that of the nearest cluster",
    "median": "they take the column's median or most frequent value",
}
"""What empty cells take, for a note."""
_NAMED = 8
"""Columns that a note names."""


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
        notes.append(
            f"Categories of {listing(pooled, _NAMED)} with too few samples at every client to be named "
            f"(data.min_members){f', and all but the {MAX_CATEGORIES} most frequent of a column,' if most else ''} are "
            f"pooled as '{OTHER}'."
        )
    return notes


def _notes_on_single_values(columns: Sequence[SchemaColumn], sums: ColumnSums) -> list[str]:
    """Return a note on columns with a single value, and one on categories among them with empty cells, such as x."""
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
    marked = [
        column.name
        for column, own, filled in zip(columns, same, sums.filled.tolist(), strict=True)
        if own and column.kind == "category" and 0 < filled < sums.samples
    ]
    return [*notes, *note_on_marks(marked)]
