"""Tables from DataFrames: kinds of columns, cells that options empty, and the column of labels."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from fedkin.core.doors import option, setting
from fedkin.core.errors import FedkinError, all_problems, listing, mid_sentence, no_column, refuse
from fedkin.core.replies import MAX_NUMBER
from fedkin.core.table import Column, Table
from fedkin.data.cells import COMMA, EXACT, MISSING, NONE, POINT, AmbiguousError, decimal_in, read_column
from fedkin.data.dataset import Dataset, composed, encode_labels, usual_label
from fedkin.data.options import NO_LABELS, NO_OPTIONS, TableOptions

if TYPE_CHECKING:
    import pandas as pd


LARGEST = MAX_NUMBER / 1e10
"""Largest number, so that those of ten thousand million rows can be added; nanoseconds since 1970 are less."""
_SMALLEST = 1e-140
"""Numbers whose squares float64 still holds in full."""
MAX_COLUMNS = 100_000
"""Columns of a table: each is looked at alone, which takes 0.1 ms, so that more take minutes with few rows."""
SEPARATORS = ",;\t|"
_NAMELESS = frozenset({"", "nan", "<NA>", "NaT"})
"""Names of columns, as texts, that are none."""
_NAMED = 8
"""Values that a note names."""
_SHARE, _CELLS = 0.05, 3
"""Part of a column, and cells, beyond which a value that was named for all columns is no slip in this one."""


def as_frame(value: Any) -> pd.DataFrame | None:
    """Return a DataFrame of pandas unchanged, and one of polars, Arrow and others converted; ``None`` for the rest."""
    if not hasattr(value, "columns") and not hasattr(value, "column_names"):
        return None
    if "pandas" in sys.modules:
        import pandas as pd

        if isinstance(value, pd.DataFrame):
            return value
    import narwhals

    if narwhals.dependencies.is_into_dataframe(value):
        try:
            return narwhals.from_native(value, eager_only=True).to_pandas()
        except ImportError as error:  # as of polars without Arrow
            raise FedkinError(
                f"A table of {type(value).__module__.partition('.')[0]} needs {error.name or 'pyarrow'} to be read; "
                "pip install 'fedkin[parquet]', or give a DataFrame of pandas."
            ) from error
    if hasattr(value, "to_pandas") and hasattr(value, "columns"):
        converted = value.to_pandas()
        return converted if hasattr(converted, "iloc") else None
    return None


def label_of(frame: pd.DataFrame, label: str | None, features: Collection[str | None] = ()) -> str | None:
    """Return the column of a DataFrame's labels: `label`; without it the first of a usual name that can hold labels.

    ``None`` if there is none such, or `label` is "none". `features` are none. Fractions and dates are no labels.
    """
    if label is not None:
        return None if label == NO_LABELS else label
    columns = [str(name) for name in frame.columns]
    names = [name for name in columns if name not in features]
    while (name := usual_label(names)) is not None:
        if names.count(name) > 1 or _can_be_labels(frame.iloc[:, columns.index(name)]):
            return name
        names.remove(name)
    return None


def _can_be_labels(cells: pd.Series) -> bool:
    try:
        column, values = read_column(cells, "", "", TableOptions(dayfirst=True))
    except AmbiguousError:
        return False
    except FedkinError:  # of cells that are unlike the others, which may still be classes
        return True
    return column.kind != "date" and (column.kind != "number" or not (values[np.isfinite(values)] % 1).any())


def _label_cells(cells: pd.Series) -> npt.NDArray[Any]:
    """Return the labels in a column, with ``None`` for empty cells of texts."""
    if cells.dtype.kind in "biufmM" or not all(isinstance(cell, str) for cell in cells.dropna()):
        return np.asarray(cells.to_numpy())
    texts = [composed(cell).strip() if isinstance(cell, str) else "" for cell in cells]
    return np.array([None if text.lower() in MISSING else text for text in texts], dtype=object)


def frame_to_dataset(
    frame: pd.DataFrame,
    name: str,
    where: str,
    label: str | None = None,
    cluster: str | None = None,
    options: TableOptions = NO_OPTIONS,
) -> Dataset:
    """Convert a DataFrame to a data set; the columns of labels and of clusters are not part of its table.

    `name` is that of the data set, and `where` that of the source, at the beginning of error messages. `label` is as
    for `label_of`. Raises FedkinError if there is no such column, no row or column at all, or columns cannot be used: a
    line for each.
    """
    frame = frame.set_axis([composed(column) for column in frame.columns], axis=1)
    label = label_of(frame, label, {cluster, *options.no_labels})
    dropped = list(dict.fromkeys(column for column in frame.columns if column in options.drop))
    frame = frame.drop(columns=dropped) if dropped else frame
    coded, problems = {}, []
    wanted = [column for column in (label, cluster) if column is not None]
    named = dict.fromkeys(column for column in wanted if list(frame.columns).count(column) == 1)
    for column in named:
        try:
            coded[column] = encode_labels(_label_cells(frame[column]), f"Column '{column}' of {where}")
        except FedkinError as error:
            problems.append(str(error))
    problems += [str(no_column(where, column, frame.columns)) for column in wanted if column not in frame.columns]
    rest = frame.drop(columns=list(named)) if named else frame
    problems += _check_bare_values(rest, where, options)
    rest, held = with_named_empty(rest, options)
    table = frame_to_table(rest, where, options, problems)
    y, classes = coded[label] if label is not None else (None, [])
    clusters = None if cluster is None else coded[cluster]
    return Dataset(name, table.values, y, classes, table, clusters, tuple(dropped), label, na_values=held)


def frame_to_table(
    frame: pd.DataFrame, where: str, options: TableOptions = NO_OPTIONS, problems: Sequence[str] = ()
) -> Table:
    """Convert a DataFrame to a table, inferring the kinds of its columns.

    Columns of numbers are read all at once. Raises FedkinError if it is empty, columns have no name or one name, or any
    cannot be used: a line for each, after `problems`. Columns of new rows that cannot be used and are no features are
    left out.
    """
    said = list(problems)
    names = [composed(name) for name in frame.columns]
    check_columns(len(names), where)
    said += [
        f"Column {at + 1} of {mid_sentence(where)} has no name."
        for at, name in enumerate(names)
        if name.strip() in _NAMELESS
    ]
    said += [
        f"{where} has more than one column '{name}'; each needs a name of its own, so rename all but one."
        for name, count in Counter(names).items()
        if count > 1 and name.strip() not in _NAMELESS
    ]
    if len(names) == 1 and (sign := next((sign for sign in SEPARATORS if sign in names[0]), None)):
        said.append(f"{where} has one column alone, '{names[0]}'; read the file with sep={sign!r}.")
    if len(frame) == 0 or not names:
        said.append(f"{where} is empty ({len(frame)} rows, {len(names)} columns of features).")
    if len(said) > len(problems):
        raise all_problems(said)
    columns, values, decimal = _read(frame, where, options, said)
    refuse([*said, *_too_large(columns, values, where)])
    return Table(tuple(columns), torch.from_numpy(values), options.id, decimal)


def check_columns(count: int, where: str) -> None:
    """Raise FedkinError if a table has more columns than can be read."""
    if count > MAX_COLUMNS:
        raise FedkinError(f"{where} has {count:,} columns; a table may have {MAX_COLUMNS:,}, an array has no limit.")


def _read(
    frame: pd.DataFrame, where: str, options: TableOptions, problems: list[str]
) -> tuple[list[Column], npt.NDArray[np.float64], str]:
    """Return a DataFrame's columns, their values, and what stands before decimals in texts; problems are added.

    Where a column's numbers are all such as 1.234, the sign of decimals is that of the other columns; in a file whose
    cells are separated by commas points stand before decimals.
    """
    values = np.empty(frame.shape)
    columns = [Column(composed(name)) for name in frame.columns]
    plain = _plain_numbers(frame, options)
    values[:, plain] = frame.iloc[:, plain].to_numpy(dtype=np.float64)
    signs: set[str | None] = {frame.attrs.get("decimal")}
    ambiguous: list[tuple[int, FedkinError]] = []
    unread: list[int] = []
    for at in np.flatnonzero(~plain).tolist():
        name, cells = columns[at].name, frame.iloc[:, at]
        try:
            columns[at], values[:, at] = read_column(cells, name, where, options)
            if columns[at].kind == "number" and cells.dtype.kind not in "biufmM":
                signs.add(decimal_in(cells))
        except AmbiguousError as error:
            ambiguous.append((at, error))
        except FedkinError as error:
            unread.append(at)
            if not options.features or name in options.features:  # of new rows only what is compared has to be read
                problems.append(str(error))
    signs = signs - {None} or ({POINT} if frame.attrs.get("separator") == COMMA else set())
    decimal = str(signs.pop()) if len(signs) == 1 else ""
    for at, unclear in ambiguous:
        if decimal:
            known = replace(options, decimal=decimal)
            columns[at], values[:, at] = read_column(frame.iloc[:, at], columns[at].name, where, known)
        else:
            unread.append(at)
            problems.append(str(unclear))
    if not unread:
        return columns, values, decimal
    kept = [at for at in range(len(columns)) if at not in unread]
    return [columns[at] for at in kept], values[:, kept], decimal


def _too_large(columns: Sequence[Column], values: npt.NDArray[np.float64], where: str) -> list[str]:
    """Return a sentence on each column whose numbers are infinite, or whose sum overflows or squares underflow."""
    found = []
    with np.errstate(over="ignore", invalid="ignore"):
        infinite = np.isinf(values)
        widest = np.where(np.isfinite(values), np.abs(values), 0.0).max(0)
    for at in np.flatnonzero(infinite.any(0)).tolist():
        empty = setting("na_values", {columns[at].name: ["inf", "-inf"]})
        found.append(
            f"Column '{columns[at].name}' of {mid_sentence(where)} has {int(infinite[:, at].sum())} infinite values in "
            f"{len(values)} rows; empty these cells, or {empty}."
        )
    for at in np.flatnonzero((widest > LARGEST) | ((widest > 0) & (widest < _SMALLEST))).tolist():
        size = "numbers too large" if widest[at] > 1 else f"no number above {_SMALLEST:.0e}, too small"
        found.append(
            f"Column '{columns[at].name}' of {mid_sentence(where)} has {size} to add up; write them in another unit, "
            f"name those that stand for a missing value in {option('na_values')}, or name the column in "
            f"{option('categorical')}, if they are codes, or in {option('drop')}."
        )
    return found


def _plain_numbers(frame: pd.DataFrame, options: TableOptions) -> npt.NDArray[np.bool_]:
    """Return which columns hold NumPy numbers that float64 holds exactly, unless an option names them otherwise."""
    special = {*options.categorical, *options.ordinal}
    dtypes = list(frame.dtypes)
    able = {kind: isinstance(kind, np.dtype) and kind.kind in "iuf" and kind.itemsize <= 8 for kind in set(dtypes)}
    plain = np.array([able[kind] for kind in dtypes], dtype=bool)
    if special:
        plain &= [composed(name) not in special for name in frame.columns]
    long = [
        bool(is_plain and kind.kind in "iu" and kind.itemsize == 8)
        for is_plain, kind in zip(plain, dtypes, strict=True)
    ]
    if any(long):
        integers = frame.iloc[:, long].to_numpy()
        plain[long] = (integers.max(0) <= EXACT) & (integers.min(0) >= -EXACT) if len(integers) else True
    return plain


# Values that options name as standing for empty cells.


def _check_bare_values(frame: pd.DataFrame, where: str, options: TableOptions) -> list[str]:
    """Return a problem for each number that `na_values` names for all columns, and that is a true value of some.

    So is 0 of a number of children, though none of a blood pressure: it lies among the column's other numbers, or no
    farther from them than these are from each other, in more cells than a few. The problem says what to type instead.
    """
    problems = []
    for value in options.na_values_of.get("", ()):
        if (number := _number(value)) is None:
            continue
        codes, values = [], dict[str, int]()
        for at, name in enumerate(frame.columns):
            cells = frame.iloc[:, at].dropna()
            if cells.dtype == object and not all(isinstance(cell, Hashable) for cell in cells):
                continue
            counts = cells.value_counts()
            numbers = np.array([_number(cell) for cell in counts.index], np.float64)
            emptied = int(counts.to_numpy()[numbers == number].sum())
            others = np.unique(numbers[np.isfinite(numbers) & (numbers != number)])
            if emptied and len(others):
                if _is_code(number, others):
                    codes.append(composed(name))
                elif emptied >= _CELLS and emptied > _SHARE * len(cells):
                    values[composed(name)] = emptied
        if values:
            listed = listing([f"{cells:,} cells of '{name}'" for name, cells in values.items()], _NAMED)
            form = setting("na_values", {name: [value] for name in codes or list(values)[:1]})
            problems.append(
                f"{option('na_values')} has {value!r} for all columns of {where}, which would empty {listed}, among "
                f"whose values it lies; name the columns in which it stands for a missing one, {form}."
            )
    return problems


def _is_code(number: float, others: npt.NDArray[np.float64]) -> bool:
    """Return whether a number is farther from a column's `others`, in order, than any two neighbours of these."""
    step = float(np.diff(others).max(initial=0.0)) or abs(float(others[0]))
    return number < 0 <= others[0] or not others[0] - step <= number <= others[-1] + step


def with_named_empty(
    frame: pd.DataFrame, options: TableOptions
) -> tuple[pd.DataFrame, frozenset[tuple[str, str | float]]]:
    """Empty the cells with a value of `TableOptions.na_values`; also return those that some cell holds.

    A number stands for all cells of this number, also as text; a text for cells of this text, but for blanks around it.
    Each value that is held stands beside its column, which is "" where it was named for all.
    """
    held: set[tuple[str, str | float]] = set()
    emptied: dict[int, pd.Series] = {}
    for at, name in enumerate(frame.columns) if any(options.na_values_of.values()) else ():
        cells = frame.iloc[:, at]
        if cells.dtype == object and not all(isinstance(cell, Hashable) for cell in cells):
            continue  # of lists and the like, which are refused later
        sought = [(column, value) for column in ("", composed(name)) for value in options.na_values_of.get(column, ())]
        are_numbers = isinstance(cells.dtype, np.dtype) and cells.dtype.kind in "iuf"
        distinct = cells.dropna().unique() if sought and not are_numbers else ()
        gone: list[Any] = []
        for column, value in sought:
            if are_numbers:
                number = _number(value)
                equal = [number] if number is not None and bool((cells == number).any()) else []
            else:
                equal = [cell for cell in distinct if _is_equal(cell, value)]
            if equal:
                held.add((column, value))
                gone += equal
        if gone:
            is_category = hasattr(cells, "cat") and hasattr(cells.dtype, "categories")
            emptied[at] = cells.cat.remove_categories(gone) if is_category else cells.mask(cells.isin(gone))
    if emptied:
        frame = frame.copy()
        for at, cells in emptied.items():
            frame.isetitem(at, cells)
    return frame, frozenset(held)


def _is_equal(cell: Any, value: str | float) -> bool:
    """Return whether a cell holds a value: the same number, or the same text; of a date the day."""
    text = composed(cell).strip().removesuffix(" 00:00:00")
    return text == composed(value).strip() or ((number := _number(cell)) is not None and number == _number(value))


def _number(value: Any) -> float | None:
    if isinstance(value, bool | np.bool_):
        return None
    try:
        return float(value.replace(",", ".") if isinstance(value, str) else value)
    except (TypeError, ValueError):
        return None


def note_on_unheld(clients: Iterable[Dataset], options: TableOptions) -> list[str]:
    """Return a note on values of `TableOptions.na_values` that no client's cells hold, as misspelt ones.

    Words that stand for an empty cell anyway are none of these.
    """
    held = {each for one in clients for each in one.na_values}
    unheld = [
        f"{value!r}" + (f" in column '{column}'" if column else "")
        for column, values in options.na_values_of.items()
        for value in values
        if (column, value) not in held and str(value).strip().lower() not in MISSING and value != NONE
    ]
    if not unheld:
        return []
    written = "are they" if len(unheld) > 1 else "is it"
    named = f"{listing(unheld, _NAMED)}, as named in {option('na_values')}"
    return [f"No cell holds {named}; {written} written otherwise there?"]
