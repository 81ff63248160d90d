"""A note on columns that say the same, such as a date and the number of days up to it, and so count twice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from fedkin.core.errors import listing
from fedkin.core.table import Table

_ROWS, _COLUMNS = 20, 1_000
"""Rows of all clients from which on columns are compared, and columns of a table beyond which they are not."""
_ROUNDED = 1e-9
"""What rounding may take from a correlation of 1."""
_SHOWN, _NAMED = 3, 8
"""Groups of columns that have a sentence, and columns that it names."""
_KINDS = ("number", "date")
_DISTINCT = 10
"""Different values that a column has at least."""


def notes_on_alike_columns(tables: Mapping[str, Table]) -> list[str]:
    """Return notes on columns of numbers or dates that differ by a constant or a factor alone, at every client.

    A client that lacks such a column, or where one has hardly any different values, has no say; copies of discrete
    columns count once.
    """
    if sum(map(len, tables.values())) < _ROWS:
        return []
    found = [_alike(table) for table in tables.values() if len(table.columns) <= _COLUMNS]
    pairs = {
        pair: None
        for _, alike in found
        for pair in alike
        if all(pair in others or not varying.issuperset(pair) for varying, others in found)
    }
    groups = [[f"'{name}'" for name in group] for group in _groups(pairs)]
    notes = [
        f"Columns {listing(group, _NAMED)} say the same: they differ by a constant or a "
        "factor alone. Name all but one of them in drop, or what they say counts several times."
        for group in groups[:_SHOWN]
    ]
    more = len(groups) - _SHOWN
    return notes if more <= 0 else [*notes, f"So do columns in {more} other group{'s' * (more > 1)}."]


def _alike(table: Table) -> tuple[set[str], dict[tuple[str, str], None]]:
    """Return the names of columns that vary, and the pairs of them that are alike and have the same cells empty."""
    values = table.values.numpy()
    at = [place for place, column in enumerate(table.columns) if column.kind in _KINDS and _varies(values[:, place])]
    names = [table.columns[place].name for place in at]
    if len(at) < 2:
        return {*names}, {}
    own = values[:, at]
    empty = np.isnan(own)
    unit = np.where(empty, 0.0, own - np.nanmean(own, axis=0))
    unit /= np.abs(unit).max(axis=0)  # first, so that squares of large numbers are finite
    unit /= np.linalg.norm(unit, axis=0)
    masks = np.unique(empty, axis=1, return_inverse=True)[1].ravel()
    alike = (np.abs(unit.T @ unit) >= 1 - _ROUNDED) & (masks[:, None] == masks)
    pairs = zip(*np.nonzero(np.triu(alike, 1)), strict=True)
    return {*names}, {(names[one], names[other]): None for one, other in pairs}


def _varies(values: npt.NDArray[np.float64]) -> bool:
    """Return whether a column has many different values."""
    return len(np.unique(values[~np.isnan(values)])) >= _DISTINCT


def _groups(pairs: Iterable[tuple[str, str]]) -> list[list[str]]:
    """Return the sets of names that pairs connect, in the order in which they come."""
    groups: list[list[str]] = []
    for pair in pairs:
        own = [group for group in groups if not {*pair}.isdisjoint(group)]
        rest = [group for group in groups if group not in own]
        groups = [*rest, [*dict.fromkeys([*(name for group in own for name in group), *pair])]]
    return groups
