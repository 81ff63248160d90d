"""Recognition of rows that are no samples: totals and means, and lines of text below a table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fedkin.core.errors import FedkinError, mid_sentence
from fedkin.data.reading.values.text_values import NUMBER

if TYPE_CHECKING:
    import pandas as pd

_TOTAL = (
    r"(?:(?:grand |sub ?)?(?:totals?|sums?)|total (?:général|general)|(?:zwischen|gesamt)?summe|gesamt|insgesamt|somme|"
    r"suma|totale)"
)
_MEAN = (
    r"(?:(?:grand )?(?:means?|averages?)|avg\.?|mittel(?:wert)?|mw|(?:gesamt)?durchschnitt|ø|moyenne|promedio|media)"
)
_CALLED = {
    "totals": (re.compile(_TOTAL), re.compile(rf"{_TOTAL}:? \S.*|\S.* (?:{_TOTAL}|ergebnis|result)")),
    "means": (re.compile(_MEAN), re.compile(rf"{_MEAN}:? \S.*|\S.* {_MEAN}")),
}
"""How totals and means of all rows are called, and those of a part, as *Subtotal M1* and *M1 Total*, in lower case."""
_OTHERS = re.compile(
    r"min(?:\.|imum)?|max(?:\.|imum)?|median|mediane?|std\.?(?: ?dev\.?)?|stdabw\.?|standardabweichung|"
    r"standard deviation|sd|var(?:iance|ianz)?|count|anzahl|n|range|spannweite|cv|rsd"
)
"""What stands beside totals and means below a table, or above it."""
_BESIDE = 10
"""Most of them above a mean."""
_SURELY = 2
"""Numbers of one row that are right by chance hardly ever, where it may hold any category; of several, one more."""
_ROWS, _LAST = 4, 3
"""Rows of a table in which some may be no samples, and last rows among which one of totals or means is likely."""
_ROUNDED = 1e-4
"""Relative difference from a sum that rounding of many numbers makes."""
_COARSE, _COARSE_WITHIN = 0.25, 0.01
"""Half of the last decimal of a mean, in standard deviations of the column, beyond which being near it is by chance;
the latter in rows that are not among the last, where such a word may be any category."""
_BELOW = re.compile(
    r"(?:export|generat|creat|print|download|source|note|report|legend|page\b|end of|erstell|gedruckt|quelle|stand\b|"
    r"hinweis|seite\b|ende\b|généré|créé|imprimé|©|\*|https?:)|"
    r"\(?\d+ (?:rows?|records?|lines?|zeilen|datensätze|lignes)\b",
    re.IGNORECASE,
)
"""How lines below a table begin."""
_LINES = 5

Rows = npt.NDArray[np.bool_]


def check_no_totals(frame: pd.DataFrame, where: str) -> None:
    """Refuse rows that are called a total or mean, and are that of half of the columns of numbers or more.

    They are those of all other rows, wherever they stand, or of those above since the last such row, as subtotals are.
    A word that stands also in rows that are none, as *average* beside *generous*, is a category.
    """
    from pandas.api import types

    if len(frame) < _ROWS:
        return
    kinds = [types.is_integer_dtype(kind) or types.is_float_dtype(kind) for kind in frame.dtypes]
    for at in np.flatnonzero(~np.array(kinds, dtype=bool)).tolist():
        words = {word: _plain(word) for word in {cell for cell in frame.iloc[:, at] if isinstance(cell, str)}}
        groups = [(what, called) for what in _CALLED for called in _called(what, set(words.values()))]
        if not groups:
            continue
        texts = [cell if isinstance(cell, str) else "" for cell in frame.iloc[:, at].astype(object)]
        cells = np.array([words.get(text, "") for text in texts], dtype=object)
        none = np.isin(
            cells, [*set().union(*(called for _, called in groups)), *filter(_OTHERS.fullmatch, words.values())]
        )
        values = frame.iloc[:, kinds].to_numpy(dtype=np.float64, na_value=np.nan)
        for what, called in groups:
            rows = np.flatnonzero(np.isin(cells, list(called)))
            right = [_right_numbers(what, values, row, none, len(rows) > 1) for row in rows.tolist()]
            is_last = len(rows) == 1 and rows[0] >= len(frame) - _LAST
            if all(right) and sum(right) >= (1 if is_last else _SURELY + (len(rows) > 1)):
                raise FedkinError(_refused(rows, what, frame.iloc[rows[0], at].strip(), none, where))


def _called(what: str, words: set[str]) -> Iterator[set[str]]:
    """Yield each of the words that totals or means are called by, and together those that also name a part."""
    whole, part = _CALLED[what]
    yield from ({word} for word in sorted(words) if whole.fullmatch(word))
    if parts := {word for word in words if part.fullmatch(word) and not whole.fullmatch(word)}:
        yield parts


def _right_numbers(what: str, values: npt.NDArray[np.float64], row: int, none: Rows, is_one_of_many: bool) -> int:
    """Return how many totals or means a row holds: of the rows above since one is `none`, of all above, or of all.

    Of two rows a third may be the sum by chance, unless it `is_one_of_many` of which this is true.
    """
    at, since = np.arange(len(none)), np.flatnonzero(none[:row])
    above = at < row
    coarse = _COARSE if row >= len(none) - _LAST else _COARSE_WITHIN
    least = 1 if is_one_of_many else _ROWS - 1
    blocks = (above & (at > (since[-1] if len(since) else -1)), above, ~none)
    return max(_count_of(what, values[own], values[row], coarse) if own.sum() >= least else 0 for own in blocks)


def _refused(rows: npt.NDArray[np.intp], what: str, called: str, none: Rows, where: str) -> str:
    """Return the sentence on rows of totals or means, the first of them `called` so, beside rows that are `none`."""
    first, below = int(rows[0]), len(none) - 1 - int(rows[0])
    row = f"Row {first + 1}" if below else "The last row"
    many = f", and there are {len(rows)} such rows" if len(rows) > 1 else ""
    them = "them" if many else "it" if not 0 < below < _LAST else "it and the rows below"
    before = int(np.argmin(np.append(none[:first][::-1], False)))
    if not many and 0 < before <= _BESIDE:
        after = int(np.argmin(np.append(none[first:], False))) - 1
        them = f"rows {first - before + 1} to {first + (after if below >= _LAST else below) + 1}"
    return f"{row} of {mid_sentence(where)} is one of {what} ('{called}'){many}; delete {them}."


def _plain(word: str) -> str:
    return word.strip().rstrip(":").casefold()


def _count_of(what: str, values: npt.NDArray[np.float64], known: npt.NDArray[np.float64], too_coarse: float) -> int:
    """Return how many numbers in a row are totals or means of others, if half of those that are not 0 are; else 0.

    Means that are written too coarsely to be distinguished from other values do not count.
    """
    coarse = np.zeros(len(known), dtype=bool)
    with np.errstate(over="ignore", invalid="ignore"):  # of numbers too large for a sum, which have an error of theirs
        found, rounding = np.nansum(values, axis=0), np.zeros(len(known))
        if what == "means":
            filled = np.maximum((~np.isnan(values)).sum(0), 1)
            found = found / filled
            rounding = np.array([_half_a_digit(number) for number in known.tolist()])
            away = np.sqrt(np.nansum(np.square(values - found), axis=0) / filled)
            coarse = (rounding > too_coarse * away) & (np.abs(found - known) <= rounding)
        counted = ~np.isnan(known) & (known != 0) & ~coarse
        right = np.isclose(found[counted], known[counted], rtol=_ROUNDED, atol=rounding[counted])
    return int(right.sum()) if 2 * right.sum() >= counted.sum() else 0


def _half_a_digit(number: float) -> float:
    """Return half of the last decimal of a number as it is written."""
    decimals = f"{number:.15g}".partition("e")[0].partition(".")[2]
    return 0.5000001 * 10.0 ** -len(decimals)


def check_no_lines_below(frame: pd.DataFrame, where: str) -> None:
    """Refuse last rows with a single text in the first column, as of ``Exported on 2024-05-01``, below full rows.

    The column holds numbers above it, or no text with a blank, or the text begins as such lines do.
    """
    filled = frame.iloc[-_LINES - 1 :].notna().to_numpy()
    lines = next((at for at, row in enumerate(filled[::-1]) if row.sum() != 1 or not row[0]), 0)
    if not 0 < lines <= _LINES or len(frame) < lines + _ROWS or bool((frame[:-lines].notna().sum(axis=1) < 2).any()):
        return
    *above, line = [str(cell).strip() for cell in frame.iloc[: len(frame) - lines + 1, 0].dropna()]
    if NUMBER.fullmatch(line) or not isinstance(frame.iloc[-lines, 0], str) or line in above:
        return
    are_numbers = all(NUMBER.fullmatch(cell.replace(",", ".", 1)) for cell in above)
    is_first_with_blanks = " " in line and not any(" " in cell for cell in above)
    if are_numbers or is_first_with_blanks or _BELOW.match(line):
        rows = "The last row" if lines == 1 else f"Row {len(frame) - lines + 1}"
        them = "it" if lines == 1 else "it and the rows below"
        raise FedkinError(
            f"{rows} of {mid_sentence(where)} holds '{line}' alone, as a line below a table does; delete {them}."
        )
