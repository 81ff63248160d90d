"""A note on columns of positive numbers that are skewed, so that they may be better compared by ratios."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from fedkin.core.errors import listing
from fedkin.data.preparing.encoding.outliers import Limits
from fedkin.data.preparing.encoding.statistics import ColumnSums
from fedkin.data.preparing.notes.data_notes import DataNote, NotedValue
from fedkin.data.preparing.schema.schema import SchemaColumn

_FEWEST = 20
"""Values of a column from which on it may be called skewed."""
_NAMED = 8
"""Columns that the note names."""


class SkewNote(DataNote):
    """A note that names skewed columns; those whose large values may be codes are left out of it."""

    columns: tuple[str, ...]

    @classmethod
    def on(cls, columns: Sequence[str]) -> list[Self]:
        """Return the note on these columns, or none if there are none."""
        if not columns:
            return []
        listed, some = listing([f"'{name}'" for name in columns], _NAMED), len(columns) > 1
        are, them = (f"Columns {listed} are", "them") if some else (f"Column {listed} is", "it")
        note = cls(
            f"{are} skewed: most values are small, and a few are very large; name {them} in log if ratios matter more "
            "than differences."
        )
        note.columns = tuple(columns)
        return [note]

    def beside(self, known: frozenset[NotedValue]) -> list[str]:
        coded = {one.column for one in known if one.above}
        left = [name for name in self.columns if name not in coded]
        return [self] if len(left) == len(self.columns) else [*self.on(left)]


def note_on_skewed(columns: Sequence[SchemaColumn], sums: ColumnSums, limits: Limits) -> list[SkewNote]:
    """Return a note on columns of numbers above 0 whose standard deviation, within the limits, is not below the mean.

    There is none where minima are not known.
    """
    if sums.low is None:
        return []
    mean, spread = limits.within(sums.mean, sums.spread)
    skewed = ((sums.filled >= _FEWEST) & (sums.low > 0) & (spread >= mean)).tolist()
    return SkewNote.on([one.name for one, own in zip(columns, skewed, strict=True) if own and one.kind == "number"])
