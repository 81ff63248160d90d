"""Recognition of last rows that are no samples: totals and means, and lines of text below a table."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fedkin.core.errors import FedkinError, mid_sentence
from fedkin.data.reading.values.text_values import NUMBER

if TYPE_CHECKING:
    import pandas as pd

_TOTAL = re.compile(
    r"(?:grand |sub ?)?(?:totals?|sums?)|total (?:général|general)|(?:gesamt)?summe|gesamt|insgesamt|somme|suma|totale",
    re.IGNORECASE,
)
_MEAN = re.compile(
    r"(?:grand )?(?:means?|averages?)|avg\.?|mittel(?:wert)?|mw|(?:gesamt)?durchschnitt|ø|moyenne|promedio|media",
    re.IGNORECASE,
)
_ROWS, _LAST = 4, 3
"""Rows of a table in which the last may be none, and last rows among which one of totals or means is."""
_ROUNDED = 1e-4
"""Relative difference from a sum that rounding of many numbers makes."""
_COARSE = 0.25
"""Half of the last decimal of a mean, in standard deviations of the column, beyond which being near it is by chance."""
_BELOW = re.compile(
    r"(?:export|generat|creat|print|download|source|note|report|legend|page\b|end of|erstell|gedruckt|quelle|stand\b|"
    r"hinweis|seite\b|ende\b|généré|créé|imprimé|©|\*|https?:)|"
    r"\(?\d+ (?:rows?|records?|lines?|zeilen|datensätze|lignes)\b",
    re.IGNORECASE,
)
"""How lines below a table begin."""
_LINES = 5


def check_no_totals(frame: pd.DataFrame, where: str) -> None:
    """Refuse a last row that is called a total or mean, and is that of half of the columns of numbers or more.

    It may be the last but one or two, with deviations or medians below it. A word that other rows have in the same
    column, as *average* beside *generous*, is a category.
    """
    from pandas.api import types

    kinds = [types.is_integer_dtype(kind) or types.is_float_dtype(kind) for kind in frame.dtypes]
    for below in range(min(_LAST, len(frame) - _ROWS + 1)):
        cells = frame.iloc[-1 - below].tolist()
        texts = {at: cell.strip() for at, cell in enumerate(cells) if isinstance(cell, str)}
        for form, what in ((_TOTAL, "totals"), (_MEAN, "means")):
            at, called = next(((at, text) for at, text in texts.items() if form.fullmatch(text.rstrip(":"))), (0, ""))
            if not called or _rows_with(called, frame.iloc[:, at]) > 1:
                continue
            values = frame.iloc[: len(frame) - below, kinds].to_numpy(dtype=np.float64, na_value=np.nan)
            if _are_of(what, values[:-1], values[-1]):
                row = f"Row {len(frame) - below}" if below else "The last row"
                them = "it and the rows below" if below else "it"
                raise FedkinError(f"{row} of {mid_sentence(where)} is one of {what} ('{called}'); delete {them}.")


def _rows_with(word: str, cells: pd.Series) -> int:
    """Return in how many cells a word stands, in any case and with a colon or without."""
    return sum(isinstance(cell, str) and _plain(cell) == _plain(word) for cell in cells)


def _plain(word: str) -> str:
    return word.strip().rstrip(":").casefold()


def _are_of(what: str, values: npt.NDArray[np.float64], known: npt.NDArray[np.float64]) -> bool:
    """Return whether half of the numbers in a row, of those that are not 0, are totals or means of those above.

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
            coarse = (rounding > _COARSE * away) & (np.abs(found - known) <= rounding)
        counted = ~np.isnan(known) & (known != 0) & ~coarse
        right = np.isclose(found[counted], known[counted], rtol=_ROUNDED, atol=rounding[counted])
    return bool(right.any() and 2 * right.sum() >= counted.sum())


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
