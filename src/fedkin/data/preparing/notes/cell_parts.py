"""Notes on texts that are lists of answers, which are of little use as categories."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from fedkin.core.table import Column
from fedkin.data.reading.id_columns import is_called_id

_SEPARATORS = ";|,/"
_CELLS, _PART = 10, 0.2
"""Cells with several answers, and the part of all cells, from which on they are noted."""
_TEXTS, _ANSWERS = 5, (3, 40)
"""Different lists that a column has at least, and how many different answers are in them."""
_REUSED, _MOVED = 0.9, 0.5
"""Answers that are in more than one list, and those that do not always have the same place in it, as towns before
countries have."""
Codes = npt.NDArray[np.int64]


def notes_on_parts(columns: Iterable[tuple[Column, Codes]]) -> list[str]:
    """Return a note on each column of categories, with the codes of its filled cells, that holds lists."""
    notes: dict[str, str] = {}
    for column, codes in columns:
        if column.name in notes or column.asked or is_called_id(column.name):
            continue
        if (example := _list_in(column.categories, codes)) is not None:
            notes[column.name] = (
                f"Column '{column.name}' holds several answers in a cell, such as '{example}', and each combination "
                "counts as a category; write a column of yes and no for each answer to compare samples by them."
            )
    return [*notes.values()]


def _list_in(texts: tuple[str, ...], codes: Codes) -> str | None:
    """Return the longest of a column's texts if many are lists of a few answers in any combination; else ``None``."""
    for separator in _SEPARATORS:
        if sum(separator in text for text in texts) < _TEXTS:
            continue
        parts = [text.strip("[](){}").split(separator) for text in texts]
        lists = [[bare for part in own if (bare := part.strip(" '\""))] for own in parts]
        several = np.array([len(own) > 1 for own in lists], dtype=bool)
        cells = int(several[codes].sum())
        if several.sum() < _TEXTS or cells < max(_CELLS, _PART * len(codes)):
            continue
        places: dict[str, list[int]] = {}
        for own in lists:
            for place, answer in enumerate(own):
                places.setdefault(answer, []).append(place)
        reused = sum(len(own) > 1 for own in places.values())
        moved = sum(len(set(own)) > 1 for own in places.values())
        again = reused >= _REUSED * len(places) and moved >= _MOVED * len(places)
        few = _ANSWERS[0] <= len(places) <= min(_ANSWERS[1], len(texts))
        once = all(len(set(own)) == len(own) for own in lists)
        is_list = all(text[0] in "[(" for text in texts)
        if again and few and once and (is_list or len({*map(len, lists)}) > 1):
            return texts[max(range(len(texts)), key=lambda at: len(lists[at]))]
    return None
