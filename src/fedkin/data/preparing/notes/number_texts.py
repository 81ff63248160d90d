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
_STATE = re.compile(
    r"(^|[_\W])(status|state|zustand|mode|modus|betriebsart"
    r"|(status|alarm|fault|error|fehler|event)[_\W]?(code|nr|no|number|nummer|id))s?([_\W]?\d)?$|[a-z](?-i:Status|State|Mode)$",
    re.IGNORECASE,
)
"""Names of columns of codes of states and events."""
_STATES, _OFTEN, _SPREAD = (3, 20), 5, 2
"""Different whole numbers that may be such codes, rows to each of them, and how much wider than their number they
spread: answers from 1 to 5 and counts are close together."""

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
                    own = [one for one in tables.values() if column.name in one.names]
                    of = f" of {client}" if any(_month_in(one.of(column.name).numpy()) is None for one in own) else ""
                    notes[column.name] = (
                        f"Column '{column.name}'{of} holds numbers such as {month}, which seem to be months; "
                        f"write them as {month // 100}-{month % 100:02} to compare them as such."
                    )
                elif _STATE.search(column.name) and _are_states(table.values[:, at].numpy(), column.name):
                    notes[column.name] = (
                        f"Column '{column.name}' is called like a code, but holds numbers, so that near ones are "
                        "alike; name it in categorical or drop."
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


def _are_states(values: npt.NDArray[np.float64], name: str) -> bool:
    """Return whether a column holds a few whole numbers far apart, as 0, 16, 64 and 192, each of them often.

    Of equally many digits in a column called code, as 200, 301 and 404, the clients' reports show it.
    """
    different, counts = np.unique(values[~np.isnan(values)], return_counts=True)
    fewest, most = _STATES
    if not fewest <= len(different) <= most or (different % 1).any() or counts.sum() < _OFTEN * len(different):
        return False
    digits = {len(str(int(number))) for number in different}
    if name.lower().rstrip("s").endswith("code") and len(digits) == 1 and different[0] > 0 and digits.pop() >= _FEW:
        return False
    return bool(different[-1] - different[0] + 1 > _SPREAD * len(different))
