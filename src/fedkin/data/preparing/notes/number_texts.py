"""Notes on texts that are nearly numbers, and on numbers that may be codes or months."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from fedkin.core.table import Column, Table
from fedkin.data.reading.values.text_values import LEADING_ZERO, NUMBER

_MANY = 20
"""Different numbers from which on a column of text is one of numbers with wrong cells."""
_FEW, _WORDS = 3, 2
"""Fewer numbers, and the different other texts beside which they are no codes."""
_AT_LEAST = re.compile(r"(?:[>\u2265] ?=? ?)?(\d+)(?: ?\+| (?:or|and) (?:more|over|older|above)| (?:und|oder) mehr)?")
_EXPONENT = re.compile(r"\d+[eE]\d+", re.ASCII)
_FIRST_MONTH, _LAST_MONTH, _MONTHS = 190001, 210012, 6
"""Numbers that may be months, and how many different ones have to be."""

Codes = npt.NDArray[np.int64]


def columns_of_texts(tables: Mapping[str, Table]) -> Iterator[tuple[str, Column, Codes]]:
    """Yield the columns of categories, each with its client and the codes of its cells that are not empty."""
    for client, table in tables.items():
        for column, values in zip(table.columns, table.values.numpy().T, strict=True):
            if column.kind == "category":
                yield client, column, values[~np.isnan(values)].astype(np.int64)


def notes_on_number_texts(tables: Mapping[str, Table]) -> list[str]:
    """Return a note for each column whose texts are mostly numbers, or whose numbers may be something else."""
    notes: dict[str, str] = {}
    for client, column, codes in columns_of_texts(tables):
        if column.name not in notes and not column.asked and (note := _on_text(client, column, codes)):
            notes[column.name] = note
    for client, table in tables.items():
        for at, column in enumerate(table.columns):
            if column.kind == "number" and column.name not in notes:
                if _EXPONENT.fullmatch(column.written):
                    notes[column.name] = (
                        f"Column '{column.name}' of {client} holds numbers such as '{column.written}', which is "
                        f"{float(column.written):,.15g}; name it in categorical if they are codes."
                    )
                elif (month := _month_in(table.values[:, at].numpy())) is not None:
                    notes[column.name] = (
                        f"Column '{column.name}' of {client} holds numbers such as {month}, which seem to be months; "
                        f"write them as {month // 100}-{month % 100:02} to compare them as such."
                    )
    return [*notes.values()]


def _on_text(client: str, column: Column, codes: Codes) -> str | None:
    """Return the note on a column of text of which half of the cells or more are numbers; ``None`` of another.

    There are twenty different numbers, or three beside one or two other texts, as in 0, 1, 2 and 3+.
    """
    numeric = np.array([NUMBER.fullmatch(name) is not None for name in column.categories], dtype=bool)
    wrong = codes[~numeric[codes]]
    if numeric.sum() < _FEW or not len(wrong) or 2 * len(wrong) > len(codes):
        return None
    example = column.categories[int(wrong[0])]
    note = (
        f"Column '{column.name}' of {client} is taken for text, since {len(wrong)} of {len(codes)} cells "
        f"{'is no number' if len(wrong) == 1 else 'are no numbers'}, such as '{example}'"
    )
    if numeric.sum() >= _MANY:
        return f"{note}."
    if (~numeric).sum() > _WORDS or any(map(LEADING_ZERO.match, column.categories)):
        return None
    if limit := _AT_LEAST.fullmatch(example):
        return f"{note}; write such cells as numbers, such as {limit[1]}, if their order matters."
    return f"{note}; name it in na_values if it stands for a missing one."


def _month_in(values: npt.NDArray[np.float64]) -> int | None:
    """Return the first of a column's numbers if all are months such as 202401, in two years or more; else ``None``."""
    filled = values[~np.isnan(values)]
    if not len(filled) or not ((filled >= _FIRST_MONTH) & (filled <= _LAST_MONTH)).all() or (filled % 1).any():
        return None
    different = np.unique(filled).astype(np.int64)
    month = different % 100
    if len(different) < _MONTHS or month.min() < 1 or month.max() > 12 or different[0] // 100 == different[-1] // 100:
        return None
    return int(filled[0])
