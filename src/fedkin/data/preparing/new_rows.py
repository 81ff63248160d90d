"""Notes on new rows that are unlike those an encoding was made from: other categories, other units."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from fedkin.core.errors import listing, mid_sentence
from fedkin.core.table import MEASURED, Column, Kind, Table
from fedkin.data.preparing.column_reports import MIN_MEMBERS
from fedkin.data.preparing.encoding.encoding import OTHER, TableEncoding, aligned
from fedkin.data.preparing.notes.column_notes import as_written, spelt_as
from fedkin.data.preparing.schema.column_spellings import with_names
from fedkin.data.preparing.schema.schema import SchemaColumn
from fedkin.data.reading.cells import as_known

_ROWS, _FAR, _VERY_FAR = 3, 4.0, 20.0
"""Standard deviations from the mean of the clients' rows: all of at least so many rows are farther than the first, or
some farther than the second."""
_FEWEST, _TIMES, _SOME, _ERRORS = 5, 5.0, 1.5, 5.0
"""Rows from which on their mean says something, its ratio to the clients' mean that another unit makes, that where all
rows are beyond the clients', and standard errors that it is away where the range of the clients' values does not help.
"""
_NAMED = 3
"""Categories that a note names."""
_RARE, _DIGITS = 1e-4, 2
"""Probability of as many rare categories, below which they are too many, and digits of ends that are kept."""
_EXACT = 1e-6
"""Relative difference that rounding makes in the spread of truth values."""


def ends_outward(low: Tensor | None, high: Tensor | None) -> Tensor | None:
    """Return minima and maxima of columns, rounded outwards to two digits: float64 ``(2, columns)``.

    ``None`` if they are not known.
    """
    if low is None or high is None:
        return None
    return torch.stack([-_upwards(-low), _upwards(high)])


def _upwards(values: Tensor) -> Tensor:
    """Round numbers up to two digits; one at the end of floats stays as it is."""
    size = values.abs().clamp_min(torch.finfo(torch.float64).tiny)
    step = torch.pow(10.0, size.log10().floor() - (_DIGITS - 1))
    up = (values / step).ceil() * step
    return torch.where(up.isfinite() & (up >= values), up, values)


def notes_on_new_rows(table: Table, encoding: TableEncoding, where: str, reach: Tensor | None = None) -> list[str]:
    """Return notes on categories that the schema does not name, and on numbers far from those of the clients.

    The table has the schema's columns; `where` names it, within a sentence. `reach`, float64 ``(2, columns)``, are the
    columns' ends as of `ends_outward`: on rows within them, as those of training are, there is no note. Categories that
    are as rare as those which were pooled as *other* have none, either.
    """
    columns = encoding.schema.columns
    table = with_names(table, encoding.schema.wanted)
    values = aligned(table, columns, where, encoding.imputes)
    starts = {name: start for name, start, _ in encoding.blocks}
    own = {column.name: (column, table.of(column.name)) for column in table.columns}
    notes = []
    for at, column in enumerate(columns):
        here = f"Column '{column.name}' of {mid_sentence(where)}"
        if column.kind == "category" and column.name in own:
            rare = None
            if bool(encoding.other[at]):
                rare = float(encoding.mean[starts[column.name] + len(column.categories)])
            notes += _on_categories(here, *own[column.name], column, rare)
        elif column.kind in MEASURED and encoding.mode in ("standard", "common"):
            mean, scale = (float(part[starts[column.name]]) for part in (encoding.mean, encoding.scale))
            if bool(encoding.indicated[at]):
                scale /= 2**0.5  # the column shares its weight with an indicator
            ends = None if reach is None else (float(reach[0, at]), float(reach[1, at]))
            notes += _on_numbers(here, values[:, at], _Known(mean, scale, ends), column.kind)
    return notes


def _on_categories(here: str, own: Column, values: Tensor, column: SchemaColumn, rare: float | None) -> list[str]:
    """Return a note on categories that the schema does not name.

    If the encoding has *other* for rare ones, `rare` is their part of the clients' rows, or 0 where it is not known.
    """
    if not own.is_coded:
        return []
    known = set(column.categories)
    counts = values[~values.isnan()].long().bincount(minlength=len(own.categories)).tolist()
    rows_of = dict(zip(own.categories, counts, strict=True))
    unknown = [name for name, count in rows_of.items() if count and as_known(name, known) is None]
    if not unknown:
        return []
    rows, filled = sum(rows_of[name] for name in unknown), sum(counts)
    if rare is not None:
        often = 2 * rows >= filled or max(rows_of[name] for name in unknown) >= MIN_MEMBERS
        if not often or _at_least(rows, filled, rare) >= _RARE:
            return []
    alike = {name: spelt_as(name, column.categories) for name in unknown}
    listed = listing([f"'{name}'" + (f" (is it '{like}'?)" if like else "") for name, like in alike.items()], _NAMED)
    if rare is not None:
        counted = "it counts" if len(unknown) == 1 else "they count"
        said = f"{counted} as '{OTHER}', as rare categories did in training"
    else:
        said = f"no client has named {'such a category' if len(unknown) == 1 else 'such categories'}"
    return [f"{here} holds {listed} in {rows} of {len(values)} rows; {said}."]


def _at_least(found: int, rows: int, part: float) -> float:
    """Return the probability of `found` or more rows of some kind among `rows`, of which there are a `part`."""
    if not 0 < part < 1:
        return float(part >= 1)
    logs = (
        math.lgamma(rows + 1) - math.lgamma(k + 1) - math.lgamma(rows - k + 1)
        + k * math.log(part) + (rows - k) * math.log1p(-part)
        for k in range(found, rows + 1)
    )  # fmt: skip
    return sum(map(math.exp, logs))


class _Known(NamedTuple):
    """What is known of a column's numbers at the clients: mean, standard deviation, and perhaps ends."""

    mean: float
    scale: float
    ends: tuple[float, float] | None

    def outside(self, values: Tensor, by: float = 0.0) -> Tensor:
        """Return which values none of the clients has, `by` so many of their ranges or more, bool ``(n,)``.

        Where their ends are not known, these are all but truth values in a column of such.
        """
        if self.ends is not None:
            low, high = self.ends
            return (values < low - by * (high - low)) | (values > high + by * (high - low))
        variance = self.mean * (1 - self.mean)
        if abs(self.scale**2 - variance) <= _EXACT * abs(variance):  # only 0 and 1 have so large a variance
            return (values != 0) & (values != 1)
        return torch.ones(len(values), dtype=torch.bool)

    def times(self, values: Tensor) -> float | None:
        """Return by what the mean of the clients' values is larger than that of others; ``None`` if not by far.

        All `values` are positive then, and on one side of the clients' mean. All are beyond the clients' ends, or at
        least half where the ratio is large; or the mean is far away by its standard error, where ends are not known or
        the lower one is 0.
        """
        low, high = self.ends or (0.0, math.inf)
        least, most, mean = float(values.min()), float(values.max()), float(values.mean())
        if len(values) < _FEWEST or not 0 < least < most or self.mean <= 0 or low < 0:
            return None
        if not (most < self.mean or least > self.mean):
            return None
        ratio, beyond = self.mean / mean, int(((values < low) | (values > high)).sum())
        if max(ratio, 1 / ratio) < (_SOME if beyond == len(values) else _TIMES):
            return None
        if ratio > 1 and low == 0:
            is_away = (self.mean - mean) / self.scale * len(values) ** 0.5 >= _ERRORS
        else:
            is_away = 2 * beyond >= len(values)
        return ratio if is_away else None


def _on_numbers(here: str, values: Tensor, clients: _Known, kind: Kind) -> list[str]:
    known = values[~values.isnan()]
    if not len(known) or clients.scale == 1.0:  # a constant, which has no spread
        return []
    far, outside = (known - clients.mean).abs() / clients.scale, clients.outside(known)
    all_values = f"All values of {here[:1].lower()}{here[1:]} are"
    if len(known) >= _ROWS and bool(((far > _FAR) & outside).all()):
        return [f"{all_values} far from those of the clients; are they in another unit?"]
    if kind == "number" and (ratio := clients.times(known)) is not None:
        how, size = ("below", "smaller") if ratio > 1 else ("above", "as large")
        times = max(ratio, 1 / ratio)
        digits = 0 if times >= _TIMES else 1
        return [
            f"{all_values} {how} the mean of the clients, about {times:,.{digits}f} times {size} in the mean; are they "
            "in another unit?"
        ]
    far = torch.where(clients.outside(known, by=1.0), far, 0.0)
    if very := int((far > _VERY_FAR).sum()):
        rows = f"{very} row{'s' if very > 1 else ''}"
        most = as_written(float(known[far.argmax()]), kind)
        return [
            f"{here} holds {most}, far from the clients' values, in {rows}; is it in another unit, or does it "
            "stand for a missing value?"
        ]
    return []
