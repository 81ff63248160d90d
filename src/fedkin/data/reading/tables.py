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
from fedkin.data.reading.columns import read_column, read_number
from fedkin.data.reading.csv.csv_files import read_csv
from fedkin.data.reading.csv.csv_points import with_points
from fedkin.data.reading.dataset import NO_LABELS, Dataset, LackingLabelsError, encode_labels
from fedkin.data.reading.label_columns import label_of
from fedkin.data.reading.logarithms import logarithms
from fedkin.data.reading.na_values import na_values_in, values_of_other_columns, without_na_values
from fedkin.data.reading.table_errors import DecimalCommaError, ReadSoFar, TableError, decimal_commas
from fedkin.data.reading.table_options import NO_OPTIONS, TableOptions
from fedkin.data.reading.values.text_values import composed
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
    if (ending := ending_of(path)) != ".parquet":
        sheet = read_sheet(path, where, options.sheet, options.decimal) if ending in WORKBOOKS else None
        frame = read_csv(path, where, options.decimal, options.encoding, options.kept, options.categorical, sheet)
        options = replace(options, decimal=frame.attrs["decimal"])
        if options.decimal == ",":
            frame = with_points(frame, where, {label, cluster, options.id, *options.named})
    else:
        frame = _read_parquet(path, where)
    taken = label_of(frame, label, {cluster, *options.no_labels}, options.decimal)
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
    frame = frame.drop(columns=dropped)
    coded, wanted = {}, [column for column in (label, cluster) if column is not None]
    problems = [str(no_column(where, column, frame.columns)) for column in wanted if column not in frame.columns]
    named = dict.fromkeys(column for column in wanted if list(frame.columns).count(column) == 1)
    for column in named:
        try:
            coded[column] = encode_labels(frame[column].to_numpy(), f"Column '{column}' of {where}")
        except LackingLabelsError as error:
            problems.append(error.if_found if found and column == label else str(error))
        except FedkinError as error:
            problems.append(str(error))
    rest = frame.drop(columns=list(named))
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
    if nameless := [at for at, name in enumerate(names) if name.strip() in _NAMELESS]:
        raise all_problems([*found, *(f"Column {at + 1} of {mid_sentence(where)} has no name." for at in nameless)])
    twice = [name for name, count in Counter(names).items() if count > 1]
    found += [f"{where} has more than one column '{name}'; each needs a name of its own." for name in twice]
    frame = frame.iloc[:, [at for at, name in enumerate(names) if name not in twice]]
    if rows == 0 or not names:
        found.append(f"{where} is empty ({rows} rows, {len(names)} columns of features).")
        raise TableError(
            found, ReadSoFar(Table((), torch.zeros(0, 0, dtype=torch.float64)), frozenset(names), left_out)
        )
    columns, values, unread = _read(frame, where, options, found)
    for at in np.flatnonzero(np.isinf(values).any(0)).tolist():
        infinite = int(np.isinf(values[:, at]).sum())
        found.append(f"{_column(columns[at], where)} has {infinite} infinite values in {rows} rows.")
    for at, largest in _beyond_sums(values):
        large = abs(largest) > 1
        size = f"numbers such as {largest!r}, too large" if large else f"no number above {largest:.0e}, too small"
        form = toml_text({columns[at].name: [largest]})
        missing = f"if that stands for a missing value, set na_values = {form}; else " if large else ""
        found.append(
            f"{_column(columns[at], where)} has {size} to add up; {missing}write them in another unit, or name "
            "the column in categorical, if they are codes, or in drop."
        )
    if unread:
        kept = [at for at, column in enumerate(columns) if column.name not in unread]
        columns, values = [columns[at] for at in kept], values[:, kept]
    table = Table(tuple(columns), torch.from_numpy(values), options.id)
    if found:
        raise TableError(found, ReadSoFar(table, frozenset({*unread, *twice}), left_out))
    return table


def _column(column: Column, where: str) -> str:
    return f"Column '{column.name}' of {mid_sentence(where)}"


def _read(
    frame: pd.DataFrame, where: str, options: TableOptions, found: list[str]
) -> tuple[list[Column], npt.NDArray[np.float64], list[str]]:
    """Return a DataFrame's columns, their values, and names of unreadable ones, whose problems are added to `found`."""
    values = np.empty(frame.shape)
    columns = [Column(composed(name)) for name in frame.columns]
    plain = _plain_numbers(frame, options)
    values[:, plain] = frame.iloc[:, plain].to_numpy(dtype=np.float64)
    unread, commas = [], {}
    for at in np.flatnonzero(~plain).tolist():
        name = columns[at].name
        try:
            columns[at], values[:, at] = read_column(frame.iloc[:, at], name, where, options)
        except FedkinError as error:
            unread.append(name)
            values[:, at] = np.nan
            if isinstance(error, DecimalCommaError):
                commas[name] = error
            elif not options.features or name in options.features:  # of new rows only what is compared has to be read
                found.append(str(error))
    kinds, are_new = options.logarithmic, bool(options.features)
    written = frame.attrs.get("written", {})
    for at, column in enumerate(columns):
        if column.name in kinds and column.name not in unread:
            kind, here = kinds[column.name], _column(column, where)
            try:
                columns[at], values[:, at] = logarithms(column, values[:, at], kind, here, are_new)
            except FedkinError as error:
                unread.append(column.name)
                values[:, at] = np.nan
                found.append(str(error))
        elif column.kind == "number" and column.name not in unread:
            found_kind, values[:, at] = read_number(column.name, values[:, at])
            columns[at] = replace(
                found_kind, percent=column.percent, written=column.written or written.get(column.name, "")
            )
    if commas:
        found.append(decimal_commas(commas, mid_sentence(where)))
    return columns, values, unread


def _beyond_sums(values: npt.NDArray[np.float64]) -> list[tuple[int, float]]:
    """Return columns whose sum overflows what may be sent, or whose squares underflow to 0.

    With each is the number farthest from 0, without a sign where it is small.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        finite = np.where(np.isfinite(values), values, 0.0)
        widest = np.abs(finite).max(0)
        large, small = widest > LARGEST, (widest > 0) & (widest < _SMALLEST)
    farthest = [
        (at, float(finite[np.abs(finite[:, at]).argmax(), at])) for at in np.flatnonzero(large | small).tolist()
    ]
    return [(at, value if large[at] else abs(value)) for at, value in farthest]


def as_frame(value: Any) -> pd.DataFrame | None:
    """Return a pandas DataFrame unchanged, and one with ``to_pandas`` converted; ``None`` for anything else."""
    if "pandas" in sys.modules:
        import pandas as pd

        if isinstance(value, pd.DataFrame):
            return value
    if hasattr(value, "to_pandas") and hasattr(value, "columns"):
        converted = value.to_pandas()
        return converted if hasattr(converted, "iloc") else None
    return None


def _plain_numbers(frame: pd.DataFrame, options: TableOptions) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return which columns hold NumPy numbers that float64 holds exactly, unless an option names them otherwise."""
    special = {*options.categorical, *options.ordinal}
    plain = [
        isinstance(kind, np.dtype) and kind.kind in "iuf" and kind.itemsize <= 8 and str(name) not in special
        for name, kind in frame.dtypes.items()
    ]
    found = np.array(plain, dtype=bool)
    long = [
        is_plain and kind.kind in "iu" and kind.itemsize == 8
        for is_plain, kind in zip(plain, frame.dtypes, strict=True)
    ]
    if any(long):
        integers = frame.iloc[:, long].to_numpy()
        found[long] = (integers.max(0) <= 2**53) & (integers.min(0) >= -(2**53))
    return found


def _read_parquet(path: Path, where: str) -> pd.DataFrame:
    require(f"Reading {where}", "pyarrow", "parquet")
    import pandas as pd
    from pyarrow import parquet

    try:
        about = parquet.read_metadata(path)
        check_room(where, max(about.num_rows * about.num_columns * 8, _unpacked_bytes(about)))
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


def _unpacked_bytes(about: Any) -> int:
    return sum(about.row_group(at).total_byte_size for at in range(about.num_row_groups))
