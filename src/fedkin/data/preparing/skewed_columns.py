"""A note on columns of positive numbers that are skewed, so that they may be better compared by ratios."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from fedkin.core.errors import listing
from fedkin.data.preparing.outliers import Limits
from fedkin.data.preparing.schema import SchemaColumn
from fedkin.data.preparing.statistics import ColumnSums

_FEWEST = 20
"""Values of a column from which on it may be called skewed."""
_NAMED = 8
"""Columns that the note names."""
_SKEWED = re.compile(r"Columns? (?P<names>('[^']*', )*'[^']*') (is|are) skewed: ")
_CODED = re.compile(r"Columns? (?P<names>('[^']*', )*'[^']*') holds? [^ ]+, far above all other values, ")
_NAME = re.compile(r"'([^']*)'")


def note_on_skewed(columns: Sequence[SchemaColumn], sums: ColumnSums, limits: Limits) -> list[str]:
    """Return a note on columns of numbers above 0 whose standard deviation, within the limits, is not below the mean.

    There is none where minima are not known.
    """
    if sums.low is None:
        return []
    mean, spread = limits.within(sums.mean, sums.spread)
    skewed = ((sums.filled >= _FEWEST) & (sums.low > 0) & (spread >= mean)).tolist()
    return _note([one.name for one, own in zip(columns, skewed, strict=True) if own and one.kind == "number"])


def without_coded(notes: Iterable[str], on_cells: Iterable[str]) -> list[str]:
    """Return `notes` without columns as skewed of which one on cells says that the large values may be codes.

    `on_cells` are the notes of `fedkin.data.preparing.cell_notes`, where they are known.
    """
    coded = {name for note in on_cells if (found := _CODED.match(note)) for name in _NAME.findall(found["names"])}
    kept = []
    for note in notes:
        names = _NAME.findall(found["names"]) if (found := _SKEWED.match(note)) else []
        kept += _note([name for name in names if name not in coded]) if coded.intersection(names) else [note]
    return kept


def _note(names: Sequence[str]) -> list[str]:
    if not names:
        return []
    listed, some = listing([f"'{name}'" for name in names], _NAMED), len(names) > 1
    are, them = (f"Columns {listed} are", "them") if some else (f"Column {listed} is", "it")
    return [
        f"{are} skewed: most values are small, and a few are very large; name {them} in log if ratios matter more than "
        "differences."
    ]
