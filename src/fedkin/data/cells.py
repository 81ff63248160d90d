"""What the cells of a column are: empty, numbers, truth values or dates, else categories.

pandas has typed what it can; here are texts and Python objects. Nothing is guessed: what can be read in two ways is
refused, and so is a column in which a few cells are unlike the others. Sentences say what kind of cell is wrong and in
which row, and never quote it.
"""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np
import numpy.typing as npt

from fedkin.core.doors import option, setting
from fedkin.core.errors import FedkinError, mid_sentence
from fedkin.core.table import Column
from fedkin.data.dataset import composed, in_order
from fedkin.data.options import AUTO, TableOptions

if TYPE_CHECKING:
    import pandas as pd

Words = npt.NDArray[np.object_]
Values = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]
"""Index of each cell's distinct value; -1 where the cell is empty."""

MISSING = frozenset({"", "?", ".", "-", "–", "—", "na", "n/a", "nan", "null", "<na>", "nat", "#n/a", "#na", "#null!"})
MISSING |= {"#div/0!", "#num!", "\\n", "-nan", "1.#ind", "-1.#ind", "1.#qnan", "-1.#qnan"}
"""Words of an empty cell, in lower case: those of pandas, of spreadsheets' errors and of databases' exports."""
NONE = "None"
"""Word of an empty cell among numbers and dates, and of a level beside others, as in None, Mild, Severe."""
TRUTHS = (("false", "true"), ("no", "yes"), ("f", "t"), ("n", "y"))
"""Opposites that are truth values, in lower case, the false one first; one alone is enough if it is a word."""
NUMBER = re.compile(r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|inf(?:inity)?)", re.IGNORECASE | re.ASCII)
LEADING_ZERO = re.compile(r"[+-]?0\d")
EXACT = 2**53
"""Whole numbers beyond which float64 no longer distinguishes neighbours."""
POINT, COMMA = ".", ","

_TYPOGRAPHIC = str.maketrans("\u2212\u2013\u2019\u00a0\u202f\u2009", "--'   ")
"""Minus signs, apostrophes and blanks between thousands as typographers set them."""
_NAMES = (str, int, float, bool, np.generic, UUID)
_NAMED_BY = ("isoformat", "closed_left")
"""Attributes of dates, times and intervals, which have a text of their own."""
_DAY = 86_400_000_000
"""Microseconds."""


def _form(decimal: str, thousands: str) -> re.Pattern[str]:
    """Return what numbers look like; thousands may also be apart by blanks or apostrophes."""
    whole = rf"[1-9]\d{{0,2}}(?:[ '\{thousands}]\d{{3}})+(?:\{decimal}\d*)?|\d+(?:\{decimal}\d*)?|\{decimal}\d+"
    return re.compile(rf"[+-]?(?:(?:{whole})(?:[eE][+-]?\d+)?|inf(?:inity)?)", re.ASCII | re.IGNORECASE)


_FORMS = {POINT: _form(POINT, COMMA), COMMA: _form(COMMA, POINT)}
"""Numbers by what stands before their decimals; the other sign may separate their thousands."""
_CLOCK = r"\d{1,2}:\d\d(?::\d\d(?:\.\d+)?)?"
_ISO = re.compile(
    rf"\d{{4}}-(?:0[1-9]|1[0-2])(?:-\d\d(?:[T ]{_CLOCK}(?: ?(?:Z|UTC|[+-]\d\d(?::?\d\d)?))?)?)?", re.ASCII
)
_PARTS = re.compile(rf"(\d{{1,2}})([./-])(\d{{1,2}})\2(\d{{4}})(?:,? +({_CLOCK}))?", re.ASCII)
_LOOKS_LIKE_DATE = re.compile(r"\d{1,4}([./-])\d{1,2}\1\d{1,4}(?:[T ,].*)?", re.ASCII)
_WITH_UNIT = re.compile(r"\D{0,6}[+-]?\d[\d.,' ]*\D{0,6}", re.ASCII)
_RUN = re.compile(r"\d[\d.,]*", re.ASCII)
_MANY = 10
"""Distinct texts beyond which what looks like a date is one, and no category such as 1.2.3."""
_LAST_MONTH = 12


class AmbiguousError(FedkinError):
    """Error of a column all of whose numbers with a sign are such as 1.234, where it may separate thousands."""

    def __init__(self, here: str, sign: str) -> None:
        self.sign = sign
        called = "point" if sign == POINT else "comma"
        super().__init__(
            f"{here} holds numbers whose {called} may stand before decimals or separate thousands, for three digits "
            f"follow it in all; {setting('decimal', sign)} if it stands before decimals, else "
            f"{setting('decimal', COMMA if sign == POINT else POINT)}.",
            public=True,
        )


def read_column(cells: pd.Series, name: str, where: str, options: TableOptions) -> tuple[Column, Values]:
    """Return the kind of a DataFrame's column, and its values, float64 ``(rows,)`` with NaN for empty cells.

    The column may be of any type that pandas has for numbers, booleans, texts, dates and categories. `where` names the
    source, at the beginning of error messages. Raises FedkinError if cells are of no such type, a few are unlike the
    others, or one is no level that `options` name; and `AmbiguousError` if all numbers are such as 1.234.
    """
    from pandas import CategoricalDtype
    from pandas.api import types

    here, kind = f"Column '{name}' of {mid_sentence(where)}", cells.dtype
    if name in options.ordinal:
        return _of_levels(name, cells, options.ordinal[name], here)
    if name in options.categorical:
        column, values = _category(name, *_words(cells, here, options.levels.get(name, ())))
        return replace(column, asked=True), values
    if isinstance(kind, CategoricalDtype):
        levels = [as_text(value, here) for value in kind.categories]
        words = cells.cat.rename_categories(levels).astype(object) if len(set(levels)) == len(levels) else cells
        if kind.ordered:
            return _of_levels(name, words, levels, here)
        return _category(name, *_words(words, here))
    if types.is_bool_dtype(kind):
        return Column(name, "boolean", ("false", "true")), _floats(cells)
    if types.is_numeric_dtype(kind) and not types.is_complex_dtype(kind):
        values = _floats(cells)
        if types.is_integer_dtype(kind) and len(values) and np.nanmax(np.abs(values), initial=0) > EXACT:
            return _category(name, *_words(cells, here))
        return Column(name), values
    if types.is_datetime64_any_dtype(kind):
        return Column(name, "date"), _days(cells)
    if types.is_timedelta64_dtype(kind):
        return Column(name), _hours(cells)
    if str(kind).startswith("period"):
        return Column(name, "date"), _days(cells.dt.to_timestamp())
    return _of_objects(name, cells, here, options)


def _of_objects(name: str, cells: pd.Series, here: str, options: TableOptions) -> tuple[Column, Values]:
    """Return the kind of a column of texts or Python objects, from its distinct values."""
    import pandas as pd

    codes, distinct = _distinct(cells, here)
    kind = "string" if isinstance(cells.dtype, pd.StringDtype) else pd.api.types.infer_dtype(distinct, skipna=False)
    if kind == "boolean":
        return Column(name, "boolean", ("false", "true")), _at(codes, distinct.astype(np.float64))
    if kind in ("date", "datetime", "datetime64"):
        return Column(name, "date"), _at(codes, _days(pd.Series(pd.to_datetime(distinct, utc=True))))
    if kind in ("timedelta", "timedelta64"):
        return Column(name), _at(codes, _hours(pd.Series(pd.to_timedelta(distinct))))
    if kind == "time":
        return Column(name), _at(codes, _hours(pd.Series(pd.to_timedelta([str(time) for time in distinct]))))
    if kind in ("integer", "floating", "mixed-integer-float", "decimal"):
        values = _at(codes, np.array([_as_float(number) for number in distinct]))
        big = kind == "integer" and np.nanmax(np.abs(values), initial=0) > EXACT
        return _category(name, *_merged(codes, distinct, here)) if big else (Column(name), values)
    codes, words = _merged(codes, distinct, here)
    if not len(words):
        return Column(name), np.full(len(codes), np.nan)
    return _of_words(name, codes, words, here, options)


def _of_words(name: str, codes: Codes, words: Words, here: str, options: TableOptions) -> tuple[Column, Values]:
    """Return the kind of a column of texts, in which "None" is an empty cell unless it is a level."""
    some = words != NONE
    filled, places = words[some], np.append(np.where(some, np.cumsum(some) - 1, -1), -1)[codes]
    if not len(filled):
        return Column(name), np.full(len(codes), np.nan)
    if (numbers := as_numbers(filled, options.decimal, here)) is not None:
        return Column(name), _at(places, numbers)
    if (truths := truths_in(filled.tolist(), options.levels.get(name))) is not None:
        return Column(name, "boolean", truths[0]), _at(places, np.array(truths[1]))
    if (dates := as_dates(filled, options.dayfirst, here)) is not None:
        return Column(name, "date"), _at(places, _days(dates))
    _check_no_mixture(words, codes, here)
    if name not in (options.id, *options.categorical, *options.drop) and not is_called_number(name):
        _check_no_units(words, codes, here)
    return _category(name, codes, words)


def as_numbers(words: Words, decimal: str = AUTO, here: str = "The column") -> Values | None:
    """Parse distinct texts as numbers; 58 % is 0.58 where all are percentages. ``None`` if some are none.

    What stands before decimals is read from the texts: 12.5 has a point, 1.234,5 a comma. Where all can be read in both
    ways, as 1.234, `decimal` says which, and "auto" raises an `AmbiguousError`. Numbers with leading zeros or very
    many digits are codes, and none.
    """
    texts = [text.translate(_TYPOGRAPHIC) for text in words]
    if share := any(text.endswith("%") for text in texts):
        if not all(text.endswith("%") or text == "0" for text in texts):
            return None
        texts = [text.removesuffix("%").rstrip() for text in texts]
    fits = {sign: all(map(form.fullmatch, texts)) for sign, form in _FORMS.items()}
    if not any(fits.values()) or any(map(LEADING_ZERO.match, texts)):
        return None
    sign = POINT if fits[POINT] else COMMA
    if all(fits.values()) and (signed := next((text for text in texts if POINT in text or COMMA in text), None)):
        if decimal == AUTO:
            raise AmbiguousError(here, POINT if POINT in signed else COMMA)
        sign = decimal
    others = str.maketrans({" ": None, "'": None, **({".": None, ",": "."} if sign == COMMA else {",": None})})
    texts = [text.translate(others) for text in texts]
    numbers: Values = np.array(texts, dtype=object).astype(np.float64)
    large = np.flatnonzero(np.isfinite(numbers) & (np.abs(numbers) > EXACT))
    if any(texts[at].lstrip("+-").isdigit() for at in large):
        return None
    return numbers / 100 if share else numbers


def decimal_in(cells: pd.Series) -> str | None:
    """Return the sign that stands before decimals in a column whose texts are numbers, if the first thousand tell."""
    texts = [text.strip().translate(_TYPOGRAPHIC) for text in cells.dropna().unique()[:1000] if isinstance(text, str)]
    texts = [text.removesuffix("%").rstrip() for text in texts if text.lower() not in MISSING and text != NONE]
    fits = [sign for sign, form in _FORMS.items() if all(map(form.fullmatch, texts))]
    return fits[0] if texts and len(fits) == 1 else None


def truths_in(words: Sequence[str], known: Sequence[str] | None = None) -> tuple[tuple[str, str], list[bool]] | None:
    """Return how a column writes false and true, and which of its texts are true; ``None`` if others are among them.

    Where the words for false and true are `known`, they may stand alone.
    """
    spelt = {word.lower(): word for word in reversed(words)}
    if known and spelt.keys() <= {word.lower() for word in known}:
        return (known[0], known[1]), [word.lower() == known[1].lower() for word in words]
    for no, yes in TRUTHS:
        if spelt.keys() == {no, yes} or (len(no) > 1 and spelt.keys() <= {no, yes}):
            return (spelt.get(no, no), spelt.get(yes, yes)), [word.lower() == yes for word in words]
    return None


def as_dates(words: Words, dayfirst: bool | None, here: str) -> Any | None:
    """Parse distinct texts, all of one form, as dates: pandas' timestamps in UTC; ``None`` if some are no dates.

    Known are ISO dates with or without a time, 31.12.2024, 31/12/2024 and 12/31/2024. Raises FedkinError if day and
    month cannot be distinguished and `dayfirst` does not say which is first.
    """
    import pandas as pd

    if not all(map(_ISO.fullmatch, words)):
        parts = [found.groups() for word in words if (found := _PARTS.fullmatch(word))]
        if len(parts) < len(words):
            return None
        order = (2, 0) if _is_day_first(parts, dayfirst, here) else (0, 2)
        days = [f"{own[3]}-{own[order[0]]:0>2}-{own[order[1]]:0>2}T{own[4] or '00:00':0>5}" for own in parts]
        words = np.array(days, dtype=object)
    stamps = pd.Series(pd.to_datetime(pd.Series(words, dtype=object), utc=True, errors="coerce", format="ISO8601"))
    return stamps if bool(stamps.notna().all()) else None


def _is_day_first(parts: Sequence[tuple[str, ...]], dayfirst: bool | None, here: str) -> bool:
    """Return whether the day is before the month: dots or a number above 12 tell, else `dayfirst`."""
    if all(part[1] == "." for part in parts) or max(int(part[0]) for part in parts) > _LAST_MONTH:
        return True
    if max(int(part[2]) for part in parts) > _LAST_MONTH:
        return False
    if dayfirst is None and any(int(part[0]) != int(part[2]) for part in parts):
        raise FedkinError(
            f"{here} holds dates of which day and month cannot be distinguished; {setting('dayfirst', True)} if the "
            f"day is first, {setting('dayfirst', False)} if the month is, or write them as 2024-12-31.",
            public=True,
        )
    return bool(dayfirst)


_ID_NAME = re.compile(
    r"(?i:(^|[_\W])(id|key|uuid|guid|no|number|index|code|mrn|pid|seqn|seqno|barcode|rownames|level_\d|unnamed: 0)"
    r"|^(patient|subject|participant|person|respondent|case|encounter|pupil|student|customer|employee|donor|household|visitor"
    r"|specimen|sample|record|animal|ticket|invoice|claim)|subjid|(patient|subject|study|case|row)(id|no|number)|nummer|nr"
    r")$|[a-z](I[dD]|No|Number|Nr|Key|Code)$|^[A-Z]{2,}[BDEGHJKNS]ID$"
)
"""In capitals alone, as WARDID, letters stand before ID that hardly any word in -id has, such as SOLID or THYROID."""
_NUMBER_NAME = re.compile(
    r"(?i:(^|[_\W])(konto|account|iban|phone|telephone|telefon|tel|fax|imei|ean|gtin|isbn|serial)$)|[a-z](Phone|Account)$"
)
"""Names of numbers that name something, of a row or of what it is about, but are no id that results go by."""
_WHOSE_NAME = re.compile(
    r"(?i:(^|[_\W])(id|uuid|guid|mrn|pid|seqn)|^(patient|subject|participant|person|respondent)"
    r"|subjid|(patient|subject|study|case)(id|no|number))$|[a-z]I[dD]$|^[A-Z]{2,}[BDEGHJKNS]ID$"
)
"""Names of ids that may come again, as a patient's in every visit."""
_WHICH_NAME = re.compile(r"(?i:[^\W_][_\W](no|nr|key))$|[a-z](No|Nr|Key)$")
"""Names of ids of things, such as stores, which are hardly those of rows; ``no`` alone may be a gas."""


_cached = functools.lru_cache(maxsize=2**16)
"""Each client and step asks again about the names of a wide table."""


@_cached
def is_called_id(name: str) -> bool:
    """Return whether the name of a column is like that of an id, such as ``patient_id``."""
    return _ID_NAME.search(name) is not None


@_cached
def is_called_whose(name: str) -> bool:
    """Return whether the name of a column is like that of the id of a person, such as ``patient_id``."""
    return _WHOSE_NAME.search(name) is not None


@_cached
def is_called_number(name: str) -> bool:
    """Return whether the name of a column is like that of an id, or of a number to call somebody by, as ``phone``."""
    return is_called_id(name) or _NUMBER_NAME.search(name) is not None


def is_called_recurring(name: str) -> bool:
    """Return whether the name of a column is like that of the id of a person, or of a thing, as ``store_no``."""
    return is_called_whose(name) or _WHICH_NAME.search(name) is not None


def _check_no_mixture(words: Words, codes: Codes, here: str) -> None:
    """Refuse a column of texts most of which are numbers or dates, with what is wrong and where.

    `codes` are the cells' indices into the distinct `words`, which are not all of one of these kinds.
    """
    kinds = [_kind_of_cell(word.translate(_TYPOGRAPHIC)) for word in words]
    for kind in ("number", "percentage", "date"):
        like = np.array([own == kind for own in kinds], dtype=bool)
        if 2 * like.sum() <= len(like) or 2 * np.append(like, False)[codes].sum() <= (codes >= 0).sum():
            continue
        if like.all():
            if kind == "date" and len(words) <= _MANY:
                return
            raise FedkinError(
                f"{here} holds {kind}s written in several ways, or in one that is not read or that the calendar does "
                "not have; write them in one way, such as 1234.5 and 2024-12-31, or name the column in "
                f"{option('categorical')} or {option('drop')}.",
                public=True,
            )
        wrong = (codes >= 0) & ~np.append(like, False)[codes]
        row, count = int(wrong.argmax()), int(wrong.sum())
        more, them = (f", and {count:,} such cells in all", "them") if count > 1 else ("", "it")
        raise FedkinError(
            f"{here} holds {kind}s, but a {kinds[codes[row]]} in row {row + 1:,}{more}; correct or empty {them}, name "
            f"{them} in {option('na_values')}, or name the column in {option('categorical')}.",
            public=f"{here} holds {kind}s, but other cells, too; the site's log says where.",
        )


def _check_no_units(words: Words, codes: Codes, here: str) -> None:
    """Refuse numbers with letters or signs, as Rs1366850 or 10K are, which would be lost among names of rows.

    Codes are none of these: they have leading zeros, several numbers, or count their rows.
    """
    if len(words) <= _MANY or not all(map(_WITH_UNIT.fullmatch, words)) or 2 * len(words) <= (codes >= 0).sum():
        return
    runs = [_RUN.findall(word) for word in words]
    forms = Counter(_RUN.sub("0", word) for word in words)
    digits = [run[0] for run in runs]
    whole = {int(number) for number in digits if number.isdigit()}
    counts_rows = len(whole) == len(words) and max(whole) - min(whole) < 2 * len(words)
    if any(len(run) > 1 for run in runs) or any(map(LEADING_ZERO.match, digits)) or counts_rows:
        return
    if len(forms) <= 1 + len(words) // _MANY:
        raise FedkinError(
            f"{here} holds numbers with letters or signs, as of a unit or currency; write them as numbers, or name the "
            f"column in {option('categorical')} or {option('drop')}, or, if it names the rows, in {option('id')}.",
            public=True,
        )


def _kind_of_cell(text: str) -> str:
    """Return what kind of cell a text is, without any of its characters."""
    if _LOOKS_LIKE_DATE.fullmatch(text) or _ISO.fullmatch(text):
        return "date"
    if text.endswith("%") and any(form.fullmatch(text[:-1].rstrip()) for form in _FORMS.values()):
        return "percentage"
    if any(form.fullmatch(text) for form in _FORMS.values()):
        codes = LEADING_ZERO.match(text) or (text.lstrip("+-").isdigit() and int(text) > EXACT)
        return "code of digits" if codes else "number"
    if re.match(r"[<>≤≥]=? ?\d", text):
        return "limit such as <0 (write limits of detection as numbers)"
    words = len(text.split())
    return f"text of {words} words" if words > 2 else "word" if text.isalpha() else "word with digits or signs"


def _of_levels(name: str, cells: pd.Series, levels: Sequence[str], here: str) -> tuple[Column, Values]:
    levels = [composed(level) for level in levels]
    codes, words = _words(cells, here, levels)
    rank = {level: float(at) for at, level in enumerate(levels)}
    unknown = np.array([word not in rank for word in words], dtype=bool)
    if unknown.any():
        row = int(np.append(unknown, False)[codes].argmax())
        raise FedkinError(
            f"{here} has a text in row {row + 1:,} that is none of its levels {', '.join(levels)}.",
            public=f"{here} has a text that is none of its levels; the site's log says where.",
        )
    return Column(name, "ordinal", tuple(levels)), _at(codes, np.array([rank[word] for word in words]))


def _category(name: str, codes: Codes, words: Words) -> tuple[Column, Values]:
    categories = in_order(words)
    rank = {word: float(at) for at, word in enumerate(categories)}
    return Column(name, "category", tuple(categories)), _at(codes, np.array([rank[word] for word in words]))


def _words(cells: pd.Series, here: str, kept: Collection[str] = ()) -> tuple[Codes, Words]:
    """Return the index of each cell's text, -1 where it is empty, and the distinct texts, stripped of blanks."""
    return _merged(*_distinct(cells, here), here, kept)


def _merged(codes: Codes, distinct: Words, here: str, kept: Collection[str] = ()) -> tuple[Codes, Words]:
    """Merge distinct values with the same text, and set those that stand for empty cells to -1.

    Texts that are `kept` are values whatever they are.
    """
    index: dict[str, int] = {}
    merged = np.full(len(distinct) + 1, -1)
    for at, value in enumerate(distinct):
        text = composed(value if isinstance(value, str) else as_text(value, here)).strip()
        if text.lower() not in MISSING or text in kept:
            merged[at] = index.setdefault(text, len(index))
    return merged[codes], np.array(list(index), dtype=object)


def _distinct(cells: pd.Series, here: str) -> tuple[Codes, Words]:
    """Factorise a column: return each cell's code, -1 where pandas calls it missing, and the distinct values."""
    try:
        codes, distinct = cells.factorize()
        return codes, np.asarray(distinct, dtype=object)
    except TypeError as error:  # what cannot be hashed
        example = next(value for value in cells if not isinstance(value, str | int | float))
        raise _no_cell(here, example) from error


def _no_cell(here: str, value: object) -> FedkinError:
    return FedkinError(
        f"{here} holds values of type {type(value).__name__}, but a cell needs a number, text or date; write their "
        f"parts into columns, or name it in {option('drop')}.",
        public=True,
    )


def as_text(value: Any, here: str = "The column") -> str:
    """Return a value as text; floats that are integers have no decimals."""
    if not isinstance(value, _NAMES) and not any(hasattr(value, attribute) for attribute in _NAMED_BY):
        raise _no_cell(here, value)
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def _as_float(number: Any) -> float:
    """Return a Python number as a float, infinite if it is out of range."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _at(codes: Codes, values: Values) -> Values:
    """Return `values` at the codes; NaN at -1."""
    return np.append(values.astype(np.float64), np.nan)[codes]


def _floats(cells: pd.Series) -> Values:
    values: Values = cells.to_numpy(dtype=np.float64, na_value=np.nan)
    return values


def _hours(cells: pd.Series) -> Values:
    hours: Values = cells.dt.total_seconds().to_numpy(np.float64) / 3_600
    return hours


def _days(cells: pd.Series) -> Values:
    """Return dates as days since 1970-01-01 in UTC."""
    from pandas import to_datetime

    stamps = to_datetime(cells, utc=True).dt.tz_localize(None).to_numpy("datetime64[us]")
    days: Values = stamps.astype(np.int64) / _DAY
    days[np.isnat(stamps)] = np.nan
    return days


# Categories that are whole numbers: programs write these in either way, and those beside empty cells with decimals.


def _as_whole(name: str) -> str:
    """Return 3 for 3.0, and other texts unchanged."""
    return name[:-2] if name.endswith(".0") and name[:-2].lstrip("+-").isdecimal() else name


def as_known(name: str, known: Collection[str]) -> str | None:
    """Return a category as it is known: the same text, or the same whole number, as 3 and 3.0 are."""
    return next((form for form in (name, _as_whole(name), f"{name}.0") if form in known), None)


def merged_wholes(levels: Sequence[tuple[str, ...]]) -> list[list[str]]:
    """Return each client's categories, in which 3.0 is 3 where another client has that, and none has both."""
    known = {level for own in levels for level in own}
    both = {level for own in levels for level in own if _as_whole(level) != level and _as_whole(level) in own}
    merged = {level for level in known if _as_whole(level) in known and level not in both}
    return [[_as_whole(level) if level in merged else level for level in own] for own in levels]
