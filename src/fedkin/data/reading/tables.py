"""Reading of tables: CSV and Parquet files, workbooks, and DataFrames."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from fedkin.core.errors import FedkinError, all_problems, mid_sentence, no_column, require
from fedkin.core.files import check_room, ending_of
from fedkin.core.options import toml_text
from fedkin.core.replies import MAX_NUMBER
from fedkin.core.table import Column, Table
from fedkin.data.reading.cells import EXACT, POINT, AmbiguousError, as_plain_numbers, composed, decimal_in
from fedkin.data.reading.columns import distinct_texts, read_column
from fedkin.data.reading.csv_files import SEPARATORS, check_columns, read_csv
from fedkin.data.reading.dataset import NO_LABELS, Dataset, LackingLabelsError, encode_labels
from fedkin.data.reading.label_columns import label_cells, label_of
from fedkin.data.reading.na_values import na_values_in, values_of_other_columns, without_na_values
from fedkin.data.reading.table_errors import ReadSoFar, TableError
from fedkin.data.reading.table_options import NO_OPTIONS, TableOptions
from fedkin.data.reading.workbook import WORKBOOKS, read_sheet

if TYPE_CHECKING:
    import pandas as pd


LARGEST = MAX_NUMBER / 1e10
"""Largest number, so that those of ten thousand million rows can be added; nanoseconds since 1970 are less."""
_SMALLEST = 1e-140
"""Numbers whose squares float64 still holds in full."""
_NAMELESS = frozenset({"", "nan", "<NA>", "NaT"})
"""Names of columns, as texts, that are none."""


def read_table(
    path: Path, label: str | None = None, cluster: str | None = None, options: TableOptions = NO_OPTIONS
) -> Dataset:
    """Read a ``.csv``, ``.tsv`` or ``.parquet`` file, or a workbook; those of text may be compressed.

    Raises FedkinError if it cannot be read, has no rows or no header, or a column cannot be used; a line for each such
    column.
    """
    where = f"'{path}'"
    if (ending := ending_of(path)) == ".parquet":
        frame = _read_parquet(path, where)
    elif ending in WORKBOOKS:
        frame = read_sheet(path, where, options.sheet, options.header)
    else:
        frame = read_csv(path, where, options.encoding, options.header)
    taken = label_of(frame, label, {cluster, *options.no_labels})
    return frame_to_dataset(frame, path.name, where, taken, cluster, options, label is None)


def frame_to_dataset(
    frame: pd.DataFrame,
    name: str,
    where: str,
    label: str | None = None,
    cluster: str | None = None,
    options: TableOptions = NO_OPTIONS,
    found: bool = False,
) -> Dataset:
    """Convert a DataFrame to a data set; the columns `label` and `cluster` are not part of its table.

    `name` is that of the data set, and `where` that of the source, at the beginning of error messages. `found` is
    whether `label` was taken for labels by its name alone, which an error on empty ones then says. Raises
    FedkinError if there is no such column, or no row or column at all; and where columns cannot be used, with a line
    for each, a `TableError` with what could be read.
    """
    label = None if label == NO_LABELS else label
    frame = frame.set_axis([composed(column) for column in frame.columns], axis=1)
    dropped = list(dict.fromkeys(column for column in frame.columns if column in options.drop))
    frame = frame.drop(columns=dropped) if dropped else frame
    coded, wanted = {}, [column for column in (label, cluster) if column is not None]
    problems = [str(no_column(where, column, frame.columns)) for column in wanted if column not in frame.columns]
    named = dict.fromkeys(column for column in wanted if list(frame.columns).count(column) == 1)
    for column in named:
        try:
            coded[column] = encode_labels(label_cells(frame[column]), f"Column '{column}' of {where}")
        except LackingLabelsError as error:
            problems.append(error.if_found if found and column == label else str(error))
        except FedkinError as error:
            problems.append(str(error))
    rest = frame.drop(columns=list(named)) if named else frame
    table = frame_to_table(rest, where, options, problems, tuple(dropped))
    y, classes = coded[label] if label is not None else (None, [])
    clusters = None if cluster is None else coded[cluster]
    held = na_values_in(rest, options)
    return Dataset(name, table.values, y, classes, table, clusters, tuple(dropped), label, na_values=held)


def frame_to_table(
    frame: pd.DataFrame,
    where: str,
    options: TableOptions = NO_OPTIONS,
    problems: Sequence[str] = (),
    left_out: tuple[str, ...] = (),
) -> Table:
    """Convert a DataFrame to a table, inferring the kinds of its columns; `left_out` are columns that were dropped.

    Columns of numbers are read all at once. Raises FedkinError if it is empty, columns have no name or one name, or any
    cannot be used: a line for each, after `problems`. Where columns have names, it is a `TableError` with what could be
    read. Columns of new rows that cannot be used and are no features are left out.
    """
    found = list(problems)
    if not options.features:  # new rows are read as the clients' were
        found += values_of_other_columns(frame, mid_sentence(where), options)
    frame = without_na_values(frame, options)
    names = [composed(name) for name in frame.columns]
    rows = len(frame)
    check_columns(len(names), where)
    if nameless := [at for at, name in enumerate(names) if name.strip() in _NAMELESS]:
        raise all_problems([*found, *(f"Column {at + 1} of {mid_sentence(where)} has no name." for at in nameless)])
    twice = [name for name, count in Counter(names).items() if count > 1]
    found += [
        f"{where} has more than one column '{name}'; each needs a name of its own, so rename all but one."
        for name in twice
    ]
    if twice:
        frame = frame.iloc[:, [at for at, name in enumerate(names) if name not in twice]]
    if len(names) == 1 and (sign := next((sign for sign in SEPARATORS if sign in names[0]), None)):
        found.append(f"{where} has one column alone, '{names[0]}'; read the file with sep={sign!r}.")
    if rows == 0 or not names:
        found.append(f"{where} is empty ({rows} rows, {len(names)} columns of features).")
        raise TableError(
            found, ReadSoFar(Table((), torch.zeros(0, 0, dtype=torch.float64)), frozenset(names), left_out)
        )
    columns, values, unread = _read(frame, where, options, found)
    found += _too_large(columns, values, where)
    if unread:
        kept = [at for at, column in enumerate(columns) if column.name not in unread]
        columns, values = [columns[at] for at in kept], values[:, kept]
    table = Table(tuple(columns), torch.from_numpy(values), options.id)
    if found:
        raise TableError(found, ReadSoFar(table, frozenset({*unread, *twice}), left_out))
    return table


def _read(
    frame: pd.DataFrame, where: str, options: TableOptions, found: list[str]
) -> tuple[list[Column], npt.NDArray[np.float64], list[str]]:
    """Return a DataFrame's columns, their values, and names of unreadable ones, whose problems are added to `found`.

    Where a column's numbers are all such as 1.234, the sign of decimals is that of the other columns; in a file whose
    cells are separated by commas points stand before decimals.
    """
    values = np.empty(frame.shape)
    columns = [Column(composed(name)) for name in frame.columns]
    plain = _plain_numbers(frame, options)
    values[:, plain] = frame.iloc[:, plain].to_numpy(dtype=np.float64)
    unread: list[str] = []
    special = {*options.categorical, *options.ordinal}
    texts = frame.fillna("").to_numpy(dtype=object).T if "separator" in frame.attrs else ()  # of a CSV file
    for at in np.flatnonzero(~plain).tolist():
        is_text = len(texts) > 0 and columns[at].name not in special
        if is_text and (numbers := as_plain_numbers(texts[at].tolist())) is not None:
            values[:, at] = numbers
            continue
        name, cells = columns[at].name, frame.iloc[:, at]
        try:
            try:
                columns[at], values[:, at] = read_column(cells, name, where, options)
            except AmbiguousError as error:
                options = replace(options, decimal=_decimal_of(frame, error))
                columns[at], values[:, at] = read_column(cells, name, where, options)
        except FedkinError as error:
            unread.append(name)
            values[:, at] = np.nan
            if not options.features or name in options.features:  # of new rows only what is compared has to be read
                found.append(str(error))
    return columns, values, unread


def _decimal_of(frame: pd.DataFrame, error: AmbiguousError) -> str:
    """Return the sign before decimals of all columns of texts in which it can be read in one way; else raise `error`.

    In a file whose cells are separated by commas it is the point where numbers have such.
    """
    if frame.attrs.get("separator") == "," and error.sign == POINT:
        return POINT
    found = {decimal_in(distinct_texts(cells)) for _, cells in frame.items() if cells.dtype.kind not in "biufmM"}
    found.discard(None)
    sign = found.pop() if len(found) == 1 else None
    if sign is None:
        raise error
    return sign


def _too_large(columns: Sequence[Column], values: npt.NDArray[np.float64], where: str) -> list[str]:
    """Return a sentence on each column whose numbers are infinite, or whose sum overflows or squares underflow."""
    found = []
    with np.errstate(over="ignore", invalid="ignore"):
        infinite = np.isinf(values)
        widest = np.where(np.isfinite(values), np.abs(values), 0.0).max(0)
    for at in np.flatnonzero(infinite.any(0)).tolist():
        form = toml_text({columns[at].name: ["inf", "-inf"]})
        found.append(
            f"Column '{columns[at].name}' of {mid_sentence(where)} has {int(infinite[:, at].sum())} infinite values in "
            f"{len(values)} rows; empty these cells, or set na_values = {form}."
        )
    for at in np.flatnonzero((widest > LARGEST) | ((widest > 0) & (widest < _SMALLEST))).tolist():
        size = "numbers too large" if widest[at] > 1 else f"no number above {_SMALLEST:.0e}, too small"
        found.append(
            f"Column '{columns[at].name}' of {mid_sentence(where)} has {size} to add up; write them in another unit, "
            "name those that stand for a missing value in na_values, or name the column in categorical, if they are "
            "codes, or in drop."
        )
    return found


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


def _read_parquet(path: Path, where: str) -> pd.DataFrame:
    require(f"Reading {where}", "pyarrow", "parquet")
    import pandas as pd
    from pyarrow import parquet

    try:
        about = parquet.read_metadata(path)
        check_columns(about.num_columns, where)
        unpacked = sum(about.row_group(at).total_byte_size for at in range(about.num_row_groups))
        check_room(where, max(about.num_rows * about.num_columns * 8, unpacked))
        frame = pd.read_parquet(path)
        named = [name for name in frame.index.names if name is not None and name not in frame.columns]
        return frame.reset_index(named) if named else frame  # they are columns of the file
    except FedkinError:
        raise
    except Exception as error:  # whatever Arrow and pandas raise over damaged bytes
        reason = (str(error).splitlines() or ["empty"])[0]
        if twice := re.match(r"Multiple matches for FieldRef\.Name\((.*)\) in ", reason):
            raise FedkinError(
                f"{where} has more than one column '{twice[1]}'; each needs a name of its own."
            ) from error
        if "magic bytes not found" in reason:
            reason = "it is damaged, or no Parquet file"
        raise FedkinError(f"{where} cannot be read as {path.suffix.lower()} ({reason}).") from error
