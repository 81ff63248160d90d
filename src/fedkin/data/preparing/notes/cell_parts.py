"""Notes on texts of several parts, which are of little use as categories: lists of answers, and durations."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from fedkin.core.table import Column
from fedkin.data.preparing.column_reports import is_called_id

_SEPARATORS = ";|,/"
_CELLS, _PART = 10, 0.2
"""Cells with several answers, and the part of all cells, from which on they are noted."""
_TEXTS, _ANSWERS = 5, (3, 40)
"""Different lists that a column has at least, and how many different answers are in them."""
_REUSED, _MOVED = 0.9, 0.5
"""Answers that are in more than one list, and those that do not always have the same place in it, as towns before
countries have."""
_UNIT = (
    r"(?:y|yr|yrs|years?|J|Jahre?n?|ans?|mo|mon|mths?|m|months?|Monate?n?|mois|w|wks?|weeks?|Wochen?|d|days?|Tage?n?|jours?"
    r"|h|hrs?|hours?|Std\.?|Stunden?|heures?|min|mins|minutes?|Minuten?|s|secs?|seconds?|Sekunden?)"
)
_SPAN = re.compile(rf"\d+(?:[.,]\d+)? ?{_UNIT}(?:(?:,| and| und| et)? ?\d+(?:[.,]\d+)? ?{_UNIT})*", re.ASCII)
_ISO_SPAN = re.compile(r"P(?:\d+Y)?(?:\d+M)?(?:\d+W)?(?:\d+D)?(?:T.+)?", re.ASCII)
_PARTS = re.compile(r"\d+(?:[.,]\d+)? ?[^\W\d]", re.ASCII)
_MOSTLY, _DISTINCT = 0.9, 10
"""Cells of a column that are durations, and different ones beyond which they are noted."""

Codes = npt.NDArray[np.int64]


def notes_on_parts(columns: Iterable[tuple[Column, Codes]]) -> list[str]:
    """Return a note on each column of categories, with the codes of its filled cells, that holds lists or durations."""
    notes: dict[str, str] = {}
    for column, codes in columns:
        if column.name in notes or column.asked or is_called_id(column.name):
            continue
        if (example := _list_in(column.categories, codes)) is not None:
            notes[column.name] = (
                f"Column '{column.name}' holds several answers in a cell, such as '{example}', and each combination "
                "counts as a category; write a column of yes and no for each answer to compare samples by them."
            )
        elif (example := _span_in(column.categories, codes)) is not None:
            notes[column.name] = (
                f"Column '{column.name}' holds durations such as '{example}', which count as text; write them as "
                "numbers in one unit to compare samples by them."
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


def _span_in(texts: tuple[str, ...], codes: Codes) -> str | None:
    """Return the first duration of several parts if nearly all of a column's texts are durations; else ``None``."""
    if len(texts) <= _DISTINCT:
        return None
    fitting = np.array([(_SPAN.fullmatch(text) or _ISO_SPAN.fullmatch(text)) is not None for text in texts], dtype=bool)
    if fitting[codes].sum() < _MOSTLY * len(codes):
        return None
    spans = (text for text, fits in zip(texts, fitting, strict=True) if fits)
    return next((text for text in spans if len(_PARTS.findall(text)) > 1), None)
