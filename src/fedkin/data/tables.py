"""Tables from DataFrames: what the cells of each column are, which of them are empty, and the column of labels.

pandas has typed what it can; texts are numbers, truth values or dates where all of a column's are, else categories.
Nothing is guessed: what can be read in two ways is refused, and so is a column in which a few cells are unlike the
others. Sentences say what kind of cell is wrong and in which row, and never quote it.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import issparse
from torch import Tensor

from fedkin.core.client import Client, Column, Samples, Table, TextColumn
from fedkin.core.errors import FedkinError, mid_sentence, no_column, option, refuse, setting
from fedkin.core.payload import MAX_NUMBER
from fedkin.data.names import KINDS
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
"""Whole numbers beyond which float64 no longer distinguishes neighbours; texts of 16 digits are names, too."""
_TYPOGRAPHIC = str.maketrans("\u2212\u2013\u2019\u00a0\u202f\u2009", "--'   ")
"""Minus signs, apostrophes and blanks between thousands as typographers set them."""
_NUMBERS = {
    decimal: re.compile(
        rf"([+-]?(?:(?:0|[1-9]\d{{0,14}}|[1-9]\d{{0,2}}(?:[ '{thousands}]\d{{3}})+)(?:\{decimal}\d*)?|\{decimal}\d+)"
        r"(?:[eE][+-]?\d+)?) ?(%?)",
        re.ASCII,
    )
    for decimal, thousands in (".,", ",.")
}
"""Numbers by what stands before their decimals; thousands are apart by blanks, apostrophes or the other sign."""
_YEAR_LAST = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2(\d{4})\b", re.ASCII)


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
    are_texts : bool
        Whether labels were given as texts, and not in a file of texts: then whole numbers among them stay such.
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
    are_texts: bool = False

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
    def has_samples(self) -> bool:
        """Whether there are images, texts or series, also as a table's columns of texts."""
        return self.samples is not None or (self.table is not None and bool(self.table.texts))

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
    spelt = {name if len(name) == 1 else name.lower(): name for name in columns}
    return next((spelt[name] for name in LABEL_NAMES if name in spelt), None)


def in_order(names: Iterable[str]) -> list[str]:
    """Return the distinct names, sorted numerically if all are numbers and alphabetically otherwise."""
    distinct = sorted(set(names))
    with suppress(ValueError):
        distinct.sort(key=float)
    return distinct


def encode_labels(values: Any, origin: str) -> tuple[Tensor, list[str]]:
    """Encode labels of any plain type as int64 indices ``(n,)`` into their sorted names; return both.

    `values` are one integer, boolean, string or whole float per sample; blanks around a string do not count. `origin`
    names the source, at the beginning of error messages. Raises FedkinError if a label is missing or a fraction.
    """
    import pandas as pd

    if (dimensions := np.ndim(values)) != 1:
        raise FedkinError(f"{origin} has {dimensions} dimensions; labels need one value per sample.")
    cells = values if isinstance(values, np.ma.MaskedArray) else np.asarray(values)
    # Objects stay such: as strings of Arrow's, pandas would refuse texts that are no UTF-8.
    codes, words = _words(pd.Series(cells, dtype=object if cells.dtype.kind == "O" else None), origin)
    if missing := int((codes < 0).sum()):
        raise FedkinError(
            f"{origin} lacks {missing} of {len(codes)} labels; leave these rows out, or {setting('label', 'none')} to "
            "use none."
        )
    numbers = pd.to_numeric(pd.Series(words, dtype=object), errors="coerce")
    if numbers.notna().all() and (numbers % 1 > 0).any():
        raise FedkinError(f"{origin} has labels that are fractions; they must be classes, for regression is not done.")
    column, indices = _category("label", codes, words)
    return torch.from_numpy(indices.astype(np.int64)), list(column.categories)


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


def _label_of(frame: pd.DataFrame, features: Collection[str | None]) -> str | None:
    """Return the first column of a usual name that can hold labels: `features`, fractions and dates are none."""
    import pandas as pd

    names = []
    for name, cells in frame.items():
        if usual_label([str(name)]) and name not in features and cells.dtype.kind not in "mM":
            numbers = pd.to_numeric(pd.Series(cells.to_numpy(dtype=object)), errors="coerce")
            names += [] if (numbers % 1 > 0).any() else [str(name)]
    return usual_label(names)


def frame_to_dataset(
    frame: pd.DataFrame,
    name: str,
    origin: str,
    label: str | None = None,
    cluster: str | None = None,
    options: TableOptions = NO_OPTIONS,
) -> Dataset:
    """Convert a DataFrame to a data set; the columns of labels and of clusters are not part of its table.

    `name` is that of the data set, and `origin` that of the source, at the beginning of error messages. `label` is the
    column of labels, or "none"; without it the first of a usual name that holds no fractions or dates is taken. Raises
    FedkinError if there is no such column, no row or column at all, or columns cannot be used: a line for each.
    """
    frame = frame.set_axis([composed(column) for column in frame.columns], axis=1)
    label = _label_of(frame, {cluster, *options.drop, *options.features}) if label is None else label
    label = None if label == NO_LABELS else label
    dropped = tuple(dict.fromkeys(column for column in frame.columns if column in options.drop))
    frame = frame.drop(columns=[*dropped])
    coded: dict[str, tuple[torch.Tensor, list[str]]] = {}
    problems: list[str] = []
    are_texts = False
    for column in dict.fromkeys(filter(None, (label, cluster))):
        if column not in frame.columns:
            problems.append(str(no_column(origin, column, frame.columns)))
        elif list(frame.columns).count(column) == 1:
            is_read = "separator" in frame.attrs  # from a file of texts
            are_texts |= column == label and not is_read and any(isinstance(cell, str) for cell in frame[column][:1])
            try:
                coded[column] = encode_labels(frame[column], f"Column '{column}' of {origin}")
            except FedkinError as error:
                problems.append(str(error))
            frame = frame.drop(columns=column)
    table = frame_to_table(frame, origin, options, problems)
    y, classes = coded[label] if label is not None else (None, [])
    clusters = None if cluster is None else coded[cluster]
    data = Dataset(name, table.values, y, classes, table, clusters, (*dropped, *table.texts), label)
    return replace(data, are_texts=are_texts)


# Tables of columns of known kinds.


def frame_to_table(
    frame: pd.DataFrame, origin: str, options: TableOptions = NO_OPTIONS, problems: Sequence[str] = ()
) -> Table:
    """Convert a DataFrame to a table, inferring the kinds of its columns.

    Raises FedkinError if it is empty, columns have no name or one name, or any cannot be used: a line for each, after
    `problems`. Columns of new rows that cannot be used and are no features are left out.
    """
    problems, names = list(problems), [composed(name) for name in frame.columns]
    if len(frame) == 0 or not names:
        problems.append(f"{origin} is empty ({len(frame)} rows, {len(names)} columns of features).")
    for name, count in Counter(names).items():
        if count > 1 or name.strip() in ("", "nan", "<NA>", "NaT"):
            problems.append(f"{origin} has {count} columns of the name '{name}'; each needs a name of its own.")
    refuse(problems)
    if options.decimal == AUTO and frame.attrs.get("separator") == ",":
        options = replace(options, decimal=".")
    columns: list[Column] = []
    values: list[Values] = []
    texts: dict[str, TextColumn] = {}
    for name, (_, cells) in zip(names, frame.items(), strict=True):
        if (samples := _samples(cells, name, Path(frame.attrs.get("folder", ".")), options)) is not None:
            texts[name] = TextColumn(samples)
            continue
        try:
            column, numbers = read_column(cells, name, origin, options)
        except FedkinError as error:
            if not options.features or name in options.features:  # of new rows only what is compared has to be read
                problems.append(str(error))
            continue
        if large := int((np.abs(numbers) > LARGEST).sum()):
            problems.append(
                f"Column '{name}' of {mid_sentence(origin)} has infinite numbers, or too large ones to add up, in "
                f"{large} of {len(frame)} rows; empty these cells, write it in another unit, or "
                f"{setting('drop', [name])}."
            )
        columns.append(column)
        values.append(numbers)
    refuse(problems)
    stacked = np.stack(values, 1) if values else np.empty((len(frame), 0))
    return Table(tuple(columns), torch.from_numpy(stacked), options.id, texts)


def _samples(cells: pd.Series, name: str, folder: Path, options: TableOptions) -> Samples | None:
    """Return a column's images, texts or series, of which it names files in `folder`, or its free text.

    Free text is named so, or nearly all different and mostly of four words and more. ``None`` of all other columns.
    """
    others = (*options.categorical, *options.ordinal, options.id)
    if name not in options.text and (cells.dtype.kind not in "OT" or name in others):
        return None
    texts = [composed(str(cell)).strip() if isinstance(cell, str | Path) else "" for cell in cells]
    filled = [text for text in texts if text]
    kind = KINDS.get(Path(filled[0]).suffix.lower()) if filled else None
    if kind and all(KINDS.get(Path(text).suffix.lower()) == kind for text in filled) and (folder / filled[0]).is_file():
        return Samples(kind, [folder / text if text else "" for text in texts])
    if name not in options.text:
        if options.features or len(filled) < MIN_MEMBERS or len(set(filled)) < 0.9 * len(filled):
            return None
        if 2 * sum(len(text.split()) > 3 for text in filled) <= len(filled):
            return None
    return Samples("texts", texts)


# Kinds of columns.


def read_column(cells: pd.Series, name: str, origin: str, options: TableOptions) -> tuple[Column, Values]:
    """Return the kind of a DataFrame's column, of any of pandas' types, and its values, float64 ``(rows,)``.

    NaN is an empty cell. `origin` names the source, at the beginning of error messages. Raises FedkinError if cells are
    of no such type, a few are unlike the others, one is no level that `options` name, or all can be read in two ways.
    """
    import pandas as pd
    from pandas.api import types

    called = f"Column '{name}' of {mid_sentence(origin)}"
    empty = {_as_text(value) for key in ("", name) for value in options.na_values_of.get(key, ())}
    is_category = isinstance(cells.dtype, pd.CategoricalDtype)
    if name in options.categorical:
        return _category(name, *_words(cells, called, empty))
    if name in options.ordinal or (is_category and cells.dtype.ordered):
        levels = options.ordinal.get(name) or map(_as_text, cells.dtype.categories)
        return _ordinal(name, cells, [composed(level) for level in levels], called, empty)
    if is_category:
        return _category(name, *_words(cells, called, empty))
    if cells.dtype == object:
        kind = types.infer_dtype(cells, skipna=True)
        # Not texts, which have a word for empty cells that pandas does not know, nor objects of several kinds, for
        # which it has no type, and raises a TypeError for some, such as dates beside times.
        if kind not in ("string", "empty", "mixed"):
            cells = pd.to_numeric(cells) if kind == "decimal" else cells.convert_dtypes()
    if types.is_bool_dtype(cells):
        return Column(name, "boolean", ("false", "true")), cells.to_numpy(np.float64, na_value=np.nan)
    if types.is_numeric_dtype(cells) and not types.is_complex_dtype(cells):
        values = cells.to_numpy(np.float64, na_value=np.nan)
        if types.is_integer_dtype(cells) and np.nanmax(np.abs(values), initial=0) > _EXACT:
            return _category(name, *_words(cells, called, empty))
        return Column(name), _emptied(values, empty)
    if types.is_datetime64_any_dtype(cells) or isinstance(cells.dtype, pd.PeriodDtype):
        return Column(name, "date"), _days(cells if hasattr(cells.dt, "tz") else cells.dt.to_timestamp())
    if cells.dtype.kind == "m":
        return Column(name), cells.dt.total_seconds().to_numpy(np.float64) / 3_600
    column, values = _of_texts(name, *_words(cells, called, empty), called, options.decimal)
    return column, _emptied(values, empty) if column.kind == "number" else values  # -9,0 as -9


def _emptied(values: Values, empty: Collection[str]) -> Values:
    """Return numbers with NaN in the place of those that stand for empty cells."""
    return np.where(np.isin(values, as_numbers(sorted(empty), ".")), np.nan, values) if empty else values


def _of_texts(name: str, codes: Codes, words: Words, called: str, decimal: str) -> tuple[Column, Values]:
    """Return the kind of a column of texts: that of the first reading that fits all distinct ones, else a category.

    It is refused if two such readings differ, or one fits more than half of the distinct texts and of the cells.
    """
    if not len(words):
        return Column(name), np.full(len(codes), np.nan)
    spelt = {word.lower(): word for word in reversed(words)}
    for no, yes in _TRUTHS:
        if spelt.keys() == {no, yes} or (len(no) > 1 and spelt.keys() <= {no, yes}):
            column = Column(name, "boolean", (spelt.get(no, no), spelt.get(yes, yes)))
            return column, _at_codes(codes, [word.lower() == yes for word in words])
    for what, read, forms in (("numbers", as_numbers, (".", ",")), ("dates", as_dates, ("day", "month"))):
        by_form = {form: read(words, form) for form in forms}
        fitting = [values for values in by_form.values() if not np.isnan(values).any()]
        if len(fitting) == 2 and not np.array_equal(fitting[0], fitting[1]):
            if decimal not in by_form:  # "auto", or what is read are dates
                sign = f"{setting('decimal', '.')} if a point stands before decimals, else {setting('decimal', ',')}"
                form = "write them as 2024-12-31, as pandas.to_datetime does with dayfirst" if what == "dates" else sign
                raise FedkinError(f"{called} holds {what} that can be read in two ways; {form}.", public=True)
            fitting = [by_form[decimal]]
        if fitting:
            return Column(name, "date" if what == "dates" else "number"), _at_codes(codes, fitting[0])
        is_read = ~np.isnan(np.fmax(*by_form.values()))
        wrong = np.append(~is_read, False)[codes]
        if 2 * is_read.sum() > len(words) and 2 * wrong.sum() < (codes >= 0).sum():
            row = int(wrong.argmax())
            raise FedkinError(
                f"{called} holds {what}, but {_kind_of(words[codes[row]])} in row {row + 1:,}, the first of "
                f"{int(wrong.sum()):,} other cells; write them in one way, as 1234.5 and 2024-12-31, name cells that "
                f"stand for empty ones in {option('na_values')}, or the column in {option('categorical')}.",
                public=f"{called} holds {what}, but other cells, too; the site's log says where.",
            )
    return _category(name, codes, words)


def _kind_of(word: str) -> str:
    """Return what kind of text is in a column of numbers or dates, for sentences, which never quote it."""
    for what, read, forms in (("a number", as_numbers, ".,"), ("a date", as_dates, ("day", "month"))):
        if not all(np.isnan(read([word], form)).all() for form in forms):
            return "a percentage" if word.endswith("%") else what
    if not re.search(r"\d", word):
        return "a text without digits"
    return "digits with letters" if re.search(r"[^\W\d_]", word) else "digits that are neither a number nor a date"


def as_numbers(words: Iterable[str], decimal: str) -> Values:
    """Return the numbers of texts, if `decimal` stands before decimals, 58 % as 0.58; NaN where a text is none.

    Numbers with leading zeros or more than 15 digits are codes, and none; nor are those without a sign of per cent
    beside more that have one, or the other way round: whether 58 beside 60 % is a hundred times more nobody knows.
    """
    written = str.maketrans({" ": None, "'": None, ",": None, ".": None, decimal: "."})
    matches = [_NUMBERS[decimal].fullmatch(word.translate(_TYPOGRAPHIC)) for word in words]
    signs = [match[2] for match in matches if match]
    sign = "%" if 2 * signs.count("%") > len(signs) else ""
    numbers = [float(m[1].translate(written)) if m and m[2] == sign else np.nan for m in matches]
    return np.array(numbers, dtype=np.float64) / (100 if sign else 1)


def as_dates(words: Iterable[str], first: str) -> Values:
    """Return texts as days since 1970-01-01 in UTC, if "day" or "month" is the `first` number; NaN of what is no date.

    Known are ISO dates with or without a time, 31.12.2024, and 31/12/2024 or 12/31/2024.
    """
    import pandas as pd

    def year_first(match: re.Match[str]) -> str:
        day, sign, month, year = match.groups()
        day, month = (month, day) if first == "month" and sign != "." else (day, month)
        return f"{year}-{month:0>2}-{day:0>2}"

    texts = pd.Series([_YEAR_LAST.sub(year_first, word) for word in words], dtype=object)
    # pandas takes a year alone, and eight digits, for dates, too.
    texts = texts.where(texts.str.match(r"\d{4}[./-]\d"), None)
    return _days(pd.Series(pd.to_datetime(texts, utc=True, errors="coerce", format="ISO8601")))


# Values of columns.


def _ordinal(
    name: str, cells: pd.Series, levels: Sequence[str], called: str, empty: Collection[str]
) -> tuple[Column, Values]:
    codes, words = _words(cells, called, empty, levels)
    unknown = np.array([word not in levels for word in words] + [False])
    if unknown.any():
        where, what = f" in row {int(unknown[codes].argmax()) + 1:,}", f"{called} has a text that is none of its levels"
        raise FedkinError(f"{what}{where}, {', '.join(levels)}.", public=f"{what}; the site's log says where.")
    return Column(name, "ordinal", tuple(levels)), _at_codes(codes, [levels.index(word) for word in words])


def _category(name: str, codes: Codes, words: Words) -> tuple[Column, Values]:
    categories = in_order(words)
    rank = {word: float(i) for i, word in enumerate(categories)}
    return Column(name, "category", tuple(categories)), _at_codes(codes, [rank[word] for word in words])


def _words(
    cells: pd.Series, called: str, empty: Collection[str] = (), levels: Collection[str] = ()
) -> tuple[Codes, Words]:
    """Return the index of each cell's text, -1 where it is empty, and the distinct texts, stripped of blanks.

    Texts of `MISSING` and `empty` stand for empty cells, but for `levels`. Whole numbers have no decimals: programs
    write 3 as 3.0 in a column with empty cells. Raises FedkinError if cells hold several values.
    """
    with suppress(TypeError):  # what cannot be hashed has several
        codes, distinct = cells.factorize()
        distinct = np.asarray(distinct, dtype=object)
        if not any(hasattr(value, "__len__") and not isinstance(value, str) for value in distinct):
            index: dict[str, int] = {}
            merged = np.full(len(distinct) + 1, -1)
            for i, value in enumerate(distinct):
                text = _as_text(value)
                if text in levels or (text not in empty and text.lower() not in MISSING):
                    merged[i] = index.setdefault(text, len(index))
            return merged[codes], np.array(list(index), dtype=object)
    raise FedkinError(
        f"{called} holds lists or other objects, but a cell needs a number, text or date; write their parts into "
        f"columns, or name it in {option('drop')}.",
        public=True,
    )


def _as_text(value: Any) -> str:
    return re.sub(r"^([+-]?\d+)\.0$", r"\1", composed(value).strip())


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
    shape = array.shape
    array = array[:, None] if array.ndim == 3 else array
    has_channels_last = array.ndim == 4 and shape[-1] in (1, 3, 4) and array.shape[1] not in (1, 3, 4)
    if array.ndim not in (2, 4) or array.size == 0 or has_channels_last:
        raise FedkinError(f"{origin} has shape {shape}, but samples need {_SHAPES}, with at least one of each.")
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
    """Return whether float32 would leave a column fewer than ten bits of its range; those of [0, 1] are not scaled."""
    if array.ndim != 2 or array.dtype.kind not in "fiu" or array.dtype.itemsize < 8:
        return False
    low, high = array.min(0).astype(np.float64), array.max(0).astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        lost = (high > low) & ((high - low) * 2.0**13 < np.maximum(-low, high))
    return bool(lost.any() and (low.min() < 0 or high.max() > 1))


def _as_array(value: Any, origin: str) -> npt.NDArray[Any]:
    is_other = isinstance(value, Iterator | Mapping | Set | str | bytes | None) or hasattr(value, "to_frame")
    try:
        if is_other or issparse(value):
            raise TypeError
        if isinstance(value, Tensor):
            dense = value.detach().cpu()
            value = (dense.float() if dense.is_floating_point() else dense).resolve_conj().resolve_neg().numpy()
        if np.ma.is_masked(value):  # whose masked elements numpy would take for numbers
            value = np.ma.filled(value.astype(np.float64), np.nan)
        array = np.asarray(value)
        if array.dtype.kind == "O" and array.size and not any(isinstance(cell, str) for cell in array.flat):
            array = array.astype(np.float64)  # numbers among which some are None, as a DataFrame's are
        if array.dtype.kind not in "biuf":
            raise TypeError
    except (ValueError, TypeError, RuntimeError) as error:  # a ragged list; a sparse, quantised or nested tensor
        raise FedkinError(
            f"{origin} is a {type(value).__name__} that is no array of real numbers, not sparse, with rows of one "
            "length; give a table as a DataFrame."
        ) from error
    return array


def plain_numbers(table: Table, origin: str) -> Tensor:
    """Return a table of numbers and booleans without empty cells as float32 ``(rows, columns)``.

    Raises FedkinError if it holds anything else.
    """
    x = table.values.float()
    if any(column.kind not in ("number", "boolean") for column in table.columns) or not bool(x.isfinite().all()):
        raise FedkinError(f"{origin} has cells that are empty or no numbers; the clients had arrays of numbers.")
    return x
