"""Tables from DataFrames: what the cells of each column are, which of them are empty, and the column of labels.

pandas has typed what it can; texts are numbers, truth values or dates where all of a column's are, else categories.
Nothing is guessed: what can be read in two ways is refused, and so is a column in which a few cells are unlike the
others. Sentences say what kind of cell is wrong and in which row, and never quote it.
"""

from __future__ import annotations

import functools
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self
from uuid import UUID

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import issparse
from torch import Tensor

from fedkin.core.client import IN_WORDS, Client, Column, Samples, Table, TextColumn
from fedkin.core.errors import FedkinError, mid_sentence, no_column, option, refuse, setting
from fedkin.core.replies import MAX_NUMBER
from fedkin.data.options import AUTO, MIN_MEMBERS, NO_LABELS, NO_OPTIONS, TableOptions

if TYPE_CHECKING:
    import pandas as pd

Values = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]
"""Index of each cell's distinct value; -1 where the cell is empty."""
Words = npt.NDArray[np.object_]

LARGEST = MAX_NUMBER / 1e10
"""Largest number, so that those of ten thousand million rows can be added."""
MISSING = frozenset({"", "?", ".", "-", "–", "—", "na", "n/a", "nan", "null", "<na>", "nat", "#n/a", "#na", "#null!"})
MISSING |= {"#div/0!", "#num!", "\\n", "-nan", "1.#ind", "-1.#ind", "1.#qnan", "-1.#qnan"}
"""Words of an empty cell, in lower case: those of pandas, of spreadsheets' errors and of databases' exports."""
_TRUTHS = (("false", "true"), ("no", "yes"), ("f", "t"), ("n", "y"))
"""Opposites that are truth values, in lower case, the false one first; one alone is enough if it is a word."""
_EXACT = 2**53
"""Whole numbers beyond which float64 no longer distinguishes neighbours."""
_TYPOGRAPHIC = str.maketrans("\u2212\u2013\u2019\u00a0\u202f\u2009", "--'   ")
"""Minus signs, apostrophes and blanks between thousands as typographers set them."""
_FORMS = {
    decimal: re.compile(
        rf"[+-]?(?:(?:[1-9]\d{{0,2}}(?:[ '{thousands}]\d{{3}})+(?:\{decimal}\d*)?|(?:0|[1-9]\d*)(?:\{decimal}\d*)?"
        rf"|\{decimal}\d+)(?:[eE][+-]?\d+)?|inf(?:inity)?)",
        re.ASCII | re.IGNORECASE,
    )
    for decimal, thousands in (".,", ",.")
}
"""Numbers by what stands before their decimals; thousands are apart by blanks, apostrophes or the other sign."""
_YEAR_FIRST = re.compile(r"\d{4}([./-])(?:\d{1,2}\1\d{1,2}|\d\d)(?:[T ,].*)?", re.ASCII)
_YEAR_LAST = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2(\d{4})(?:,? +(.+))?", re.ASCII)


# Data sets in memory, and labels of any type as class indices.

LABEL_NAMES = ("label", "labels", "fine_label", "class", "target", "y")
"""Columns and arrays that are taken for labels when none is named, the first that exists."""


class SplitError(FedkinError):
    """Error of a data set that has no split of the requested name."""


@dataclass(frozen=True)
class Dataset:
    """Data set in memory: samples and, if there are any, their classes.

    Attributes
    ----------
    name : str
        Name that the user gave, or that of its file.
    x : Tensor
        For a table its float64 values; else float32, images ``(n, channels, height, width)`` in [0, 1] or numbers
        ``(n, features)`` as they are.
    y : Tensor or None
        int64 ``(n,)``, indices into `classes`.
    classes : list of str
        Names of the classes; empty without labels.
    table : Table or None
        The samples' columns, if they have names.
    clusters : (Tensor, list of str) or None
        Each sample's cluster, as an index into their names, if a column of these was asked for; it is no feature.
    left_out : tuple of str
        Columns of the source that were dropped by name, or hold free text.
    label : str or None
        The column of a table that was taken for its labels.
    samples : Samples or None
        Images, texts or series that `x` are embeddings of, or will be.
    """

    name: str
    x: Tensor
    y: Tensor | None = None
    classes: list[str] = field(default_factory=list)
    table: Table | None = None
    clusters: tuple[Tensor, list[str]] | None = None
    left_out: tuple[str, ...] = ()
    label: str | None = None
    samples: Samples | None = None

    def __len__(self) -> int:
        return len(self.x)

    def rows(self, index: Tensor) -> Self:
        """Return the samples at int64 or bool `index`, with their labels and clusters."""
        table = None if self.table is None else self.table.rows(index)
        return replace(
            self,
            x=self.x[index] if table is None else table.values,
            y=None if self.y is None else self.y[index],
            table=table,
            samples=None if self.samples is None else self.samples.rows(index),
            clusters=None if self.clusters is None else (self.clusters[0][index], self.clusters[1]),
        )

    def with_classes(self, classes: list[str]) -> Self:
        """Return the data set with its labels as indices into `classes`, among which are its own."""
        index = {name: i for i, name in enumerate(classes)}
        codes = torch.tensor([index[name] for name in self.classes], dtype=torch.int64)
        return replace(self, y=None if self.y is None else codes[self.y], classes=classes)

    @property
    def features(self) -> list[str]:
        """Column names of a table; empty for an array."""
        return self.table.names if self.table is not None else []

    def client(self, number: int, y: Tensor | None = None) -> Client:
        """Return a client with these samples, and with labels `y`."""
        return Client(number, self.x, y, table=self.table, samples=self.samples if self.table is None else None)


# Names.


def composed(value: Any) -> str:
    """Return a value as text whose accents and umlauts are composed (NFC), so that what looks alike is alike."""
    return unicodedata.normalize("NFC", str(value))


def usual_label(columns: Iterable[str]) -> str | None:
    """Return the column that is taken for labels if none is named: of `LABEL_NAMES`, or of such a word in capitals.

    A column ``Y`` is none, for it may be a coordinate.
    """
    names = list(columns)
    spelt = {name.lower(): name for name in reversed(names) if len(name) > 1} | {name: name for name in names}
    return next((spelt[name] for name in LABEL_NAMES if name in spelt), None)


def in_order(names: Iterable[str]) -> list[str]:
    """Return the distinct names, sorted numerically if all are numbers and alphabetically otherwise."""
    distinct = sorted(set(names))
    with suppress(ValueError):
        distinct.sort(key=float)
    return distinct


# Labels.


def encode_labels(values: Iterable[Any], origin: str) -> tuple[Tensor, list[str]]:
    """Encode labels of any plain type as int64 indices ``(n,)`` into their sorted names; return both.

    `values` are one integer, boolean, string or whole float per sample; blanks around a string do not count. `origin`
    names the source, at the beginning of error messages. Raises FedkinError if a label is missing or a fraction.
    """
    from pandas import isna

    array = np.asarray(values)
    labels = (values if isinstance(values, np.ma.MaskedArray) else array).tolist()  # masked ones are None
    if array.ndim != 1 or any(isinstance(label, Collection) and not isinstance(label, str | bytes) for label in labels):
        raise FedkinError(f"{origin} has shape {array.shape}; labels need one value per sample.")
    if missing := int(np.sum(isna(np.array(labels, dtype=object)))):
        raise FedkinError(
            f"{origin} lacks {missing} of {len(labels)} labels; leave these rows out, or {setting('label', 'none')} to "
            "use none."
        )
    if array.dtype.kind == "f":
        if (fraction := next((label for label in labels if not label.is_integer()), None)) is not None:
            raise FedkinError(
                f"{origin} has labels that are fractions, such as {fraction}; labels must be classes, for regression "
                "is not supported."
            )
        labels = [int(label) for label in labels]
    names = [composed(label).strip() for label in labels]
    classes = in_order(names)
    index = {name: i for i, name in enumerate(classes)}
    return torch.tensor([index[name] for name in names], dtype=torch.int64), classes


def are_whole(classes: Iterable[str]) -> bool:
    """Return whether all names of classes are whole numbers, so that labels are integers."""
    return all(name.removeprefix("-").isdecimal() for name in classes)


def notes_on_outcomes(clients: Iterable[Sequence[str]]) -> list[str]:
    """Return a note on each column that is called like labels and is a feature, from the names of clients' columns."""
    names = [(name, columns) for columns in clients for name in columns if usual_label([name])]
    return [
        f"Column '{name}' is called like labels and is a feature; if it is an outcome, which clusters should not "
        f"depend on, name it in {option('drop')}, or, if it holds labels, with {option('label')}."
        for name in dict.fromkeys(name for name, columns in names if name != "y" or "x" not in columns)  # a coordinate
    ]


# Frames of any library, and their labels.


def as_frame(value: Any) -> pd.DataFrame | None:
    """Return a DataFrame of pandas unchanged, and one of polars, Arrow and others converted; ``None`` for the rest."""
    if not hasattr(value, "columns") and not hasattr(value, "column_names"):
        return None
    if "pandas" in sys.modules and isinstance(value, sys.modules["pandas"].DataFrame):
        return value
    import narwhals

    if not narwhals.dependencies.is_into_dataframe(value):
        return None
    import pandas as pd

    frame = narwhals.from_native(value, eager_only=True)
    return pd.DataFrame({name: frame[name].to_numpy() for name in frame.columns})


def label_of(frame: pd.DataFrame, label: str | None, features: Collection[str | None] = ()) -> str | None:
    """Return the column of a DataFrame's labels: `label`; without it the first of a usual name that can hold labels.

    ``None`` if there is none such, or `label` is "none". `features` are none. Fractions and dates are no labels.
    """
    if label is not None:
        return None if label == NO_LABELS else label
    names = [str(name) for name in frame.columns]
    return usual_label(
        name
        for i, name in enumerate(names)
        if name not in features and usual_label([name]) and (names.count(name) > 1 or _can_be_labels(frame.iloc[:, i]))
    )


def _can_be_labels(cells: pd.Series) -> bool:
    import pandas as pd

    numbers = pd.to_numeric(pd.Series(cells.to_numpy(dtype=object)), errors="coerce")
    return cells.dtype.kind not in "mM" and not (numbers % 1 > 0).any()


def _label_cells(cells: pd.Series) -> npt.NDArray[Any]:
    """Return the labels in a column: numbers if all texts are such, else texts with ``None`` for empty cells."""
    if cells.dtype.kind in "biufmM" or not all(isinstance(cell, str) for cell in cells.dropna()):
        return np.asarray(cells.to_numpy())
    texts = _texts(cells)
    labels = np.array([None if text.lower() in MISSING else text for text in texts], dtype=object)
    numbers = as_numbers(texts, ".")
    return labels if np.isnan(numbers[labels != None]).any() else numbers  # noqa: E711  # by element


def frame_to_dataset(
    frame: pd.DataFrame,
    name: str,
    origin: str,
    label: str | None = None,
    cluster: str | None = None,
    options: TableOptions = NO_OPTIONS,
) -> Dataset:
    """Convert a DataFrame to a data set; the columns of labels and of clusters are not part of its table.

    `name` is that of the data set, and `origin` that of the source, at the beginning of error messages. `label` is as
    for `label_of`. Raises FedkinError if there is no such column, no row or column at all, or columns cannot be used: a
    line for each.
    """
    frame = frame.set_axis([composed(column) for column in frame.columns], axis=1)
    label = label_of(frame, label, {cluster, *options.drop, *options.features})
    dropped = tuple(dict.fromkeys(column for column in frame.columns if column in options.drop))
    frame = frame.drop(columns=[*dropped])
    coded: dict[str, tuple[torch.Tensor, list[str]]] = {}
    problems: list[str] = []
    for column in dict.fromkeys(filter(None, (label, cluster))):
        if column not in frame.columns:
            problems.append(str(no_column(origin, column, frame.columns)))
        elif list(frame.columns).count(column) == 1:
            try:
                coded[column] = encode_labels(_label_cells(frame[column]), f"Column '{column}' of {origin}")
            except FedkinError as error:
                problems.append(str(error))
            frame = frame.drop(columns=column)
    table = frame_to_table(frame, origin, options, problems)
    y, classes = coded[label] if label is not None else (None, [])
    clusters = None if cluster is None else coded[cluster]
    return Dataset(name, table.values, y, classes, table, clusters, (*dropped, *table.texts), label)


# Tables of columns of known kinds.


def frame_to_table(
    frame: pd.DataFrame, origin: str, options: TableOptions = NO_OPTIONS, problems: Sequence[str] = ()
) -> Table:
    """Convert a DataFrame to a table, inferring the kinds of its columns.

    Raises FedkinError if it is empty, columns have no name or one name, or any cannot be used: a line for each, after
    `problems`. Columns of new rows that cannot be used and are no features are left out.
    """
    names = [composed(name) for name in frame.columns]
    wrong = [
        f"Column {i + 1} of {mid_sentence(origin)} has no name."
        for i, name in enumerate(names)
        if name.strip() in ("", "nan", "<NA>", "NaT")
    ]
    wrong = wrong or [
        f"{origin} has more than one column '{name}'; each needs a name of its own, so rename all but one."
        for name, count in Counter(names).items()
        if count > 1
    ]
    if len(frame) == 0 or not names:
        wrong.append(f"{origin} is empty ({len(frame)} rows, {len(names)} columns of features).")
    if wrong:
        refuse([*problems, *wrong])
    frame, sentences = _with_empty_cells(frame, options), [*problems]
    if options.decimal == AUTO and frame.attrs.get("separator") == ",":
        options = replace(options, decimal=".")
    kinds = [kind.kind for kind in frame.dtypes]  # a wide table's columns of numbers are not even looked at
    texts = [i for i, name in enumerate(names) if kinds[i] in "OT" or name in options.text]
    texts = [i for i in texts if _is_text(frame.iloc[:, i], names[i], options)]
    of_texts = {names[i]: TextColumn(Samples("texts", _texts(frame.iloc[:, i]))) for i in texts}
    frame = frame.iloc[:, [i for i in range(len(names)) if i not in texts]] if texts else frame
    names = [name for name in names if name not in of_texts]
    values, unread = np.empty(frame.shape), set[int]()
    columns, plain = list(map(Column, names)), _plain_numbers(frame, names, options)
    values[:, plain] = frame.iloc[:, plain].to_numpy(dtype=np.float64)
    for i in np.flatnonzero(~plain).tolist():
        try:
            columns[i], values[:, i] = read_column(frame.iloc[:, i], names[i], origin, options)
        except FedkinError as error:
            unread.add(i)
            if not options.features or names[i] in options.features:  # of new rows only what is compared has to be read
                sentences.append(str(error))
    rest = [i for i in range(len(columns)) if i not in unread]
    columns, values = [columns[i] for i in rest], values[:, rest] if unread else values
    refuse([*sentences, *_too_large(columns, values, origin)])
    return Table(tuple(columns), torch.from_numpy(values), options.id, of_texts)


def _texts(cells: pd.Series) -> list[str]:
    return [composed(cell).strip() if isinstance(cell, str) else "" for cell in cells]


def _is_text(cells: pd.Series, name: str, options: TableOptions) -> bool:
    """Return whether a column is free text: named so, or nearly all different and mostly of four words and more."""
    if name in options.text:
        return True
    if options.features or name in (*options.categorical, *options.ordinal, options.id):
        return False
    filled = [cell for cell in cells.dropna() if isinstance(cell, str) and cell.strip()]
    if len(filled) < MIN_MEMBERS or len(set(filled)) < 0.9 * len(filled):
        return False
    return 2 * sum(len(text.split()) > 3 for text in filled) > len(filled)


def _plain_numbers(frame: pd.DataFrame, names: Sequence[str], options: TableOptions) -> npt.NDArray[np.bool_]:
    """Return which columns hold NumPy numbers that float64 holds exactly, unless an option names them otherwise.

    They are read all at once, since one by one 4,000 columns take seconds.
    """
    kinds = [kind.kind if isinstance(kind, np.dtype) and kind.itemsize <= 8 else "O" for kind in frame.dtypes]
    named = {*options.categorical, *options.ordinal}
    plain = np.array([kind in "iuf" and name not in named for name, kind in zip(names, kinds, strict=True)], dtype=bool)
    whole = plain & np.isin(kinds, ["i", "u"])
    if whole.any():
        plain[whole] = (np.abs(frame.iloc[:, whole].to_numpy(dtype=np.float64)) < _EXACT).all(0)
    return plain


def _too_large(columns: Sequence[Column], values: Values, origin: str) -> list[str]:
    """Return a sentence on each column whose numbers are infinite, or too large to be added up."""
    with np.errstate(invalid="ignore"):
        large = (np.abs(values) > LARGEST).sum(0)
    return [
        f"Column '{columns[i].name}' of {mid_sentence(origin)} has infinite numbers, or too large ones to add up, in "
        f"{large[i]} of {len(values)} rows; empty these cells, write it in another unit, or "
        f"{setting('drop', [columns[i].name])}."
        for i in np.flatnonzero(large).tolist()
    ]


def _with_empty_cells(frame: pd.DataFrame, options: TableOptions) -> pd.DataFrame:
    """Empty the cells with a value of `TableOptions.na_values`: numbers also in texts, and texts but for blanks."""
    import pandas as pd

    by_column = options.na_values_of
    if not any(by_column.values()):
        return frame
    frame = frame.copy()
    for i, name in enumerate(map(composed, frame.columns)):
        if not (named := [*by_column.get("", ()), *by_column.get(name, ())]):
            continue
        cells, values = frame.iloc[:, i], pd.Series([composed(value).strip() for value in named], dtype=object)
        texts = pd.Series([composed(cell).strip().removesuffix(" 00:00:00") for cell in cells], dtype=object)
        numbers, wanted = (pd.to_numeric(part.str.replace(",", "."), errors="coerce") for part in (texts, values))
        gone = (texts.isin(values) | numbers.isin(wanted.dropna())).to_numpy()
        is_category = isinstance(cells.dtype, pd.CategoricalDtype)
        frame.isetitem(i, cells.cat.remove_categories([*cells[gone].unique()]) if is_category else cells.mask(gone))
    return frame


# Kinds of columns.


def read_column(cells: pd.Series, name: str, origin: str, options: TableOptions) -> tuple[Column, Values]:
    """Return the kind of a DataFrame's column, of any of pandas' types, and its values, float64 ``(rows,)``.

    NaN is an empty cell. `origin` names the source, at the beginning of error messages. Raises FedkinError if cells are
    of no such type, a few are unlike the others, one is no level that `options` name, or all can be read in two ways.
    """
    import pandas as pd
    from pandas.api import types

    called = f"Column '{name}' of {mid_sentence(origin)}"
    is_category = isinstance(cells.dtype, pd.CategoricalDtype)
    if name in options.categorical:
        codes, words = _words(cells, called, options.levels.get(name, ()))
        whole = np.array([re.sub(r"^([+-]?\d+)\.0$", r"\1", word) for word in words], dtype=object)
        # Programs write 3 as 3.0 in a column with empty cells.
        return _category(Column(name), codes, whole if len({*whole}) == len(words) else words)
    if name in options.ordinal or (is_category and cells.dtype.ordered):
        levels = options.ordinal.get(name) or [_as_text(value, called) for value in cells.dtype.categories]
        return _ordinal(name, cells, [composed(level) for level in levels], called)
    if is_category:
        return _category(Column(name), *_words(cells, called))
    cells = _typed(cells) if cells.dtype == object else cells
    if types.is_bool_dtype(cells):
        return Column(name, "boolean", ("false", "true")), cells.to_numpy(np.float64, na_value=np.nan)
    if types.is_numeric_dtype(cells) and not types.is_complex_dtype(cells):
        values = cells.to_numpy(np.float64, na_value=np.nan)
        if types.is_integer_dtype(cells) and np.nanmax(np.abs(values), initial=0) > _EXACT:
            return _category(Column(name), *_words(cells, called))
        return Column(name), values
    if types.is_datetime64_any_dtype(cells) or isinstance(cells.dtype, pd.PeriodDtype):
        return Column(name, "date"), _days(cells if hasattr(cells.dt, "tz") else cells.dt.to_timestamp())
    if cells.dtype.kind == "m":
        return Column(name), cells.dt.total_seconds().to_numpy(np.float64) / 3_600
    return _of_texts(name, cells, called, options)


def _typed(cells: pd.Series) -> pd.Series:
    """Return Python objects as a column of pandas' type for them, where it has one."""
    import pandas as pd

    kind = pd.api.types.infer_dtype(cells, skipna=True)
    if kind == "decimal":
        return cells.where(cells.notna(), np.nan).astype(np.float64)
    if kind == "timedelta":
        return pd.Series(pd.to_timedelta(cells))
    if kind in ("datetime", "date"):
        return pd.Series(pd.to_datetime(cells, utc=True))
    # Not texts, which have a word for empty cells that pandas does not know, nor objects of several kinds, for which it
    # has no type, and raises a TypeError for some, such as dates beside times.
    return cells if kind in ("string", "empty", "mixed") else cells.convert_dtypes()


def _of_texts(name: str, cells: pd.Series, called: str, options: TableOptions) -> tuple[Column, Values]:
    """Return the kind of a column of texts: that of the first reading that fits all distinct ones, else a category.

    It is refused if two such readings differ, or one fits more than half of the distinct texts and of the cells.
    """
    codes, words = _words(cells, called)
    if not len(words):
        return Column(name), np.full(len(codes), np.nan)
    if (truths := _truths_in(words, options.levels.get(name, ()))) is not None:
        return Column(name, "boolean", truths[0]), _at_codes(codes, truths[1])
    readings = {"numbers": {sign: as_numbers(words, sign) for sign in ".,"}}
    if all(np.isnan(values).any() for values in readings["numbers"].values()):
        readings["percentages"] = {sign: as_numbers(words, sign, "%") / 100 for sign in ".,"}
        readings["dates"] = {first: as_dates(words, first) for first in ("day", "month")}
    is_read = {what: ~np.isnan(np.fmax(*by_form.values())) for what, by_form in readings.items()}
    for what, by_form in readings.items():
        fitting = [values for values in by_form.values() if not np.isnan(values).any()]
        if len(fitting) == 2 and not np.array_equal(fitting[0], fitting[1]):
            if options.decimal not in by_form:  # "auto", or what is read are dates
                sign = f"{setting('decimal', '.')} if a point stands before decimals, else {setting('decimal', ',')}"
                form = "write them as 2024-12-31, as pandas.to_datetime does with dayfirst" if what == "dates" else sign
                raise FedkinError(f"{called} holds {what} that can be read in two ways; {form}.", public=True)
            fitting = [by_form[options.decimal]]
        if fitting:
            return Column(name, "date" if what == "dates" else "number"), _at_codes(codes, fitting[0])
        wrong = np.append(~is_read[what], False)[codes]
        if 2 * is_read[what].sum() > len(words) and 2 * wrong.sum() < (codes >= 0).sum():
            row = int(wrong.argmax())
            cell = next((kind[:-1] for kind, fits in is_read.items() if fits[codes[row]]), "text")
            raise FedkinError(
                f"{called} holds {what}, but a {cell} in row {row + 1:,}, and {int(wrong.sum()):,} such cells in all; "
                "write them in one way, as 1234.5 and 2024-12-31, name cells that stand for empty ones in "
                f"{option('na_values')}, or the column in {option('categorical')}.",
                public=f"{called} holds {what}, but other cells, too; the site's log says where.",
            )
    return _category(Column(name), codes, words)


def as_numbers(words: Sequence[str] | Words, decimal: str, unit: str = "") -> Values:
    """Return the numbers of texts that end in `unit`, if `decimal` stands before decimals; NaN where a text is none.

    Numbers with leading zeros or very many digits are codes, and none.
    """
    written = str.maketrans({" ": None, "'": None, ",": None, ".": None, decimal: "."})
    numbers = np.full(len(words), np.nan)
    for i, word in enumerate(words):
        text = word if word.isascii() else word.translate(_TYPOGRAPHIC)
        if text.endswith(unit) and _FORMS[decimal].fullmatch(text := text.removesuffix(unit).rstrip()):
            number = float(text.translate(written))
            numbers[i] = np.nan if abs(number) > _EXACT and text.lstrip("+-").isdigit() else number
    return numbers


def as_dates(words: Sequence[str] | Words, first: str) -> Values:
    """Return texts as days since 1970-01-01 in UTC, if "day" or "month" is the `first` number; NaN of what is no date.

    Known are ISO dates with or without a time, 31.12.2024, and 31/12/2024 or 12/31/2024.
    """
    import pandas as pd

    texts: list[str | None] = []
    for word in words:
        if match := _YEAR_LAST.fullmatch(word):
            day, sign, month, year, time = match.groups("")
            day, month = (month, day) if first == "month" and sign != "." else (day, month)
            time = "T" + re.sub(r"^(\d):", r"0\1:", time) if time else ""
            word = f"{year}-{month:0>2}-{day:0>2}{time}"
        texts.append(word.replace(" UTC", "Z") if _YEAR_FIRST.fullmatch(word) else None)
    if not any(texts):
        return np.full(len(texts), np.nan)
    return _days(pd.Series(pd.to_datetime(pd.Series(texts, dtype=object), utc=True, errors="coerce", format="ISO8601")))


def _truths_in(words: Words, levels: Sequence[str]) -> tuple[tuple[str, str], list[bool]] | None:
    """Return how a column writes false and true, and which of its texts are true; ``None`` if other texts are in it.

    The words for false and true in `levels`, if there are any, may stand alone.
    """
    spelt = {word.lower(): word for word in reversed(words)}
    if len(levels) == 2 and spelt.keys() <= {level.lower() for level in levels}:
        return (levels[0], levels[1]), [word.lower() == levels[1].lower() for word in words]
    for no, yes in _TRUTHS:
        if spelt.keys() == {no, yes} or (len(no) > 1 and spelt.keys() <= {no, yes}):
            return (spelt.get(no, no), spelt.get(yes, yes)), [word.lower() == yes for word in words]
    return None


# Values of columns.


def _ordinal(name: str, cells: pd.Series, levels: Sequence[str], called: str) -> tuple[Column, Values]:
    codes, words = _words(cells, called, levels)
    unknown = np.array([word not in levels for word in words] + [False])
    if unknown.any():
        where, what = f" in row {int(unknown[codes].argmax()) + 1:,}", f"{called} has a text that is none of its levels"
        raise FedkinError(f"{what}{where}, {', '.join(levels)}.", public=f"{what}; the site's log says where.")
    return Column(name, "ordinal", tuple(levels)), _at_codes(codes, [levels.index(word) for word in words])


def _category(column: Column, codes: Codes, words: Words) -> tuple[Column, Values]:
    categories = in_order(words)
    rank = {word: float(i) for i, word in enumerate(categories)}
    column = replace(column, kind="category", categories=tuple(categories))
    return column, _at_codes(codes, [rank[word] for word in words])


def _words(cells: pd.Series, called: str, levels: Collection[str] = ()) -> tuple[Codes, Words]:
    """Return the index of each cell's text, -1 where it is empty, and the distinct texts, stripped of blanks.

    Texts among `levels` are values whatever they are.
    """
    try:
        codes, distinct = cells.factorize()
    except TypeError:  # what cannot be hashed
        for cell in cells.dropna():
            _as_text(cell, called)
        raise
    index: dict[str, int] = {}
    merged = np.full(len(distinct) + 1, -1)
    for i, value in enumerate(np.asarray(distinct, dtype=object)):
        text = composed(_as_text(value, called)).strip()
        if text.lower() not in MISSING or text in levels:
            merged[i] = index.setdefault(text, len(index))
    return merged[codes], np.array(list(index), dtype=object)


def _as_text(value: Any, called: str) -> str:
    """Return a value as text; floats that are integers have no decimals."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    is_name = isinstance(value, str | int | float | bool | np.generic | UUID)
    if not is_name and not hasattr(value, "isoformat") and not hasattr(value, "closed_left"):  # dates and intervals
        raise FedkinError(
            f"{called} holds values of type {type(value).__name__}, but a cell needs a number, text or date; write "
            f"their parts into columns, or name it in {option('drop')}.",
            public=True,
        )
    return str(value)


def _at_codes(codes: Codes, values: Any) -> Values:
    """Return `values` at the codes; NaN at -1."""
    return np.append(np.asarray(values).astype(np.float64), np.nan)[codes]


def _days(cells: pd.Series) -> Values:
    """Return dates as days since 1970-01-01 in UTC."""
    from pandas import to_datetime

    stamps = to_datetime(cells, utc=True).dt.tz_localize(None).to_numpy("datetime64[us]")
    days: Values = stamps.astype(np.int64) / 86_400_000_000
    days[np.isnat(stamps)] = np.nan
    return days


# Names of columns that hold ids. Each client and step asks again about the names of a wide table.


_ID_NAME = re.compile(
    r"(?i:(^|[_\W])(id|uuid|guid|mrn|pid|seqn|barcode|iban|phone)$|subjid$"
    r"|^(index|number|rownames|level_\d|unnamed: 0)$"
    r"|^(patient|subject|participant|person|respondent|case|customer|student|employee|record)(id|no|nr|number)?$"
    r"|[^\W_][_\W](no|nr|key)$|(nummer|nr)$)|[a-z](I[dD]|No|Nr|Key)$"
)


@functools.lru_cache(maxsize=2**16)
def is_called_id(name: str) -> bool:
    """Return whether a column is called like an id or a number to call somebody by: ``patient_id``, ``phone``."""
    return _ID_NAME.search(name) is not None


# Arrays of any kind, and tables of numbers alone, as the tensors that clients hold.


_SHAPES = "(n, features) or (n, channels, height, width)"


def as_tensor(value: Any, origin: str) -> Tensor:
    """Convert an array, tensor or nested lists of numbers to a new tensor, float32.

    It is float64 if a column is so far from zero that float32 would lose what varies in it, until it is scaled. It is
    ``(n, features)``, or of images ``(n, channels, height, width)``, which may be without channels in `value`; n is at
    least 1, and all numbers are finite. Images of type uint8 are divided by 255. `origin` names the source, such as
    ``"Client 3"``, at the beginning of error messages. Raises FedkinError if it is empty, of another shape, not numeric
    or not finite.
    """
    array = _as_array(value, origin)
    if array.ndim not in (2, 3, 4) or array.size == 0:
        raise FedkinError(f"{origin} has shape {array.shape}, but samples need {_SHAPES}, with at least one of each.")
    if array.ndim == 3:
        array = array[:, None]
    if array.ndim == 4 and array.shape[-1] in (1, 3, 4) and array.shape[1] not in (1, 3, 4):
        shape = ", ".join(map(str, array.shape[1:]))
        raise FedkinError(f"{origin} has shape (n, {shape}), with the channels last, but samples need {_SHAPES}.")
    with np.errstate(over="ignore", under="ignore"):
        kind = np.float64 if _is_far_from_zero(array) else np.float32
        x = torch.tensor(np.ascontiguousarray(array, dtype=kind))
    if array.ndim == 4 and array.dtype == np.uint8:
        return x / 255
    if bad := int((~torch.isfinite(x.flatten(1)).all(1)).sum()):
        raise FedkinError(
            f"{origin} has missing or infinite values in {bad} of {len(x)} samples; all must be finite float32."
        )
    # Larger ones cannot be added up over all rows, and smaller ones are 0 in float32.
    if float(x.abs().max()) > LARGEST or (not bool(x.any()) and bool(array.any())):
        extent = f"numbers up to {np.abs(array).max():.0e}, and allowed are 1e-45 to {LARGEST:.0e}"
        raise FedkinError(f"{origin} has {extent}; give the data in another unit.")
    return x


def _is_far_from_zero(array: npt.NDArray[Any]) -> bool:
    """Return whether float32 would leave a column of numbers fewer than ten bits of its range.

    Its numbers stay float64 until they are scaled, that is, centred on the mean over all clients; those of [0, 1] are
    not centred.
    """
    if array.ndim != 2 or array.dtype.kind not in "fiu" or array.dtype.itemsize < 8:
        return False
    low, high = array.min(0).astype(np.float64), array.max(0).astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        lost = (high > low) & ((high - low) * 2.0**13 < np.maximum(-low, high))
    return bool(lost.any() and (low.min() < 0 or high.max() > 1))


def as_dataset(
    value: Any, name: str, origin: str, label: str | None = None, options: TableOptions = NO_OPTIONS
) -> Dataset:
    """Convert samples to a data set: a DataFrame to a table, anything else to an array, see `as_tensor`.

    `name` is that of the data set, and `origin` that of the source, at the beginning of error messages. `label` is the
    column of a DataFrame that holds labels; without it one of a usual name is taken for them, as in files, see
    `fedkin.data.tables.label_of`. Raises FedkinError if it cannot be used.
    """
    if isinstance(value, Samples):
        return Dataset(name, torch.zeros(len(value), 0), samples=value)
    frame = as_frame(value)
    if frame is None:
        return Dataset(name, as_tensor(value, origin))
    return frame_to_dataset(frame, name, origin, label, options=options)


def plain_numbers(table: Table, origin: str) -> Tensor:
    """Return a table of numbers and booleans without empty cells as float32 ``(rows, columns)``.

    Raises FedkinError if it holds anything else; a line for each such column.
    """
    x, problems = table.values.float(), []
    for column, bad in zip(table.columns, (~torch.isfinite(x)).sum(0).tolist(), strict=True):
        if bad or column.kind not in ("number", "boolean"):
            what = f"{bad} missing or infinite values in {len(x)} rows" if bad else f"{IN_WORDS[column.kind]}"
            problems.append(f"Column '{column.name}' of {origin} has {what}; it needs a number in each.")
    refuse(problems)
    return x


def _as_array(value: Any, origin: str) -> npt.NDArray[Any]:
    is_other = isinstance(value, Iterator | Mapping | Set | str | bytes | None) or hasattr(value, "to_frame")
    if is_other or issparse(value):
        what = f"a sparse {type(value).__name__}" if issparse(value) else f"of type {type(value).__name__}"
        raise FedkinError(f"{origin} is {what}; give its samples as an array, a list of rows or a DataFrame.")
    try:
        if isinstance(value, Tensor):
            dense = value.detach().cpu()
            value = (dense.float() if dense.is_floating_point() else dense).resolve_conj().resolve_neg().numpy()
        if np.ma.is_masked(value):  # whose masked elements numpy would take for numbers
            value = np.ma.filled(value.astype(np.float64), np.nan)
        array = np.asarray(value)
        if array.dtype.kind == "O" and array.size and not any(isinstance(cell, str) for cell in array.flat):
            array = array.astype(np.float64)  # numbers among which some are None, as a DataFrame's are
    except (ValueError, TypeError, RuntimeError) as error:  # a ragged list; a sparse, quantised or nested tensor
        raise FedkinError(f"{origin} is no dense array of numbers, with rows of one length.") from error
    if array.dtype.kind not in "biuf":
        raise FedkinError(
            f"{origin} holds values of type {array.dtype}, but all must be real numbers; give a table as a DataFrame."
        )
    return array
