"""Tables: CSV and Parquet files, DataFrames."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from fedkin.core.errors import FedkinError, all_problems, mid_sentence, unknown_name
from fedkin.core.replies import MAX_NUMBER
from fedkin.core.table import Column, Table
from fedkin.data.reading.columns import read_column
from fedkin.data.reading.csv_files import read_csv
from fedkin.data.reading.dataset import LABEL_NAMES, Dataset, encode_labels
from fedkin.data.reading.table_options import TableOptions

if TYPE_CHECKING:
    import pandas as pd


_LARGEST_SUM = MAX_NUMBER / 1000
"""Largest sum of squares at one client, so that those of many clients can be added."""
_NAMELESS = frozenset({"", "nan", "<NA>", "NaT"})
"""Names of columns, as texts, that are none."""


def read_table(
    path: Path, label: str | None = None, cluster: str | None = None, options: TableOptions | None = None
) -> Dataset:
    """A ``.csv``, ``.tsv`` or ``.parquet`` file.

    Raises
    ------
    FedkinError
        If it cannot be read, has no rows or no header, or a column cannot be used; a line for each such column.
    """
    options, where = options or TableOptions(), f"'{path}'"
    csv = path.suffix.lower() in (".csv", ".tsv")
    frame = read_csv(path, where, options.decimal) if csv else _read_parquet(path, where)
    names = [name for name in map(str, frame.columns) if name not in options.drop]
    if label is None:
        label = next((name for name in LABEL_NAMES if name in names and name != cluster), None)
    return frame_to_dataset(frame, path.name, where, label, cluster, options)


def frame_to_dataset(
    frame: pd.DataFrame,
    name: str,
    where: str,
    label: str | None = None,
    cluster: str | None = None,
    options: TableOptions | None = None,
) -> Dataset:
    """A DataFrame as a data set, of whose columns `label` and `cluster` are none of the table's.

    Parameters
    ----------
    frame : DataFrame
    name : str
        Name of the data set.
    where : str
        What holds it, for errors' sentences.
    label, cluster : str, optional
        Columns of labels and of clusters.
    options : TableOptions, optional

    Raises
    ------
    FedkinError
        If there is no such column, it has no rows or columns, or a column cannot be used; a line for each such column.
    """
    options = options or TableOptions()
    frame = frame.set_axis([str(column) for column in frame.columns], axis=1)
    dropped = [column for column in frame.columns if column in options.drop]
    frame = frame.drop(columns=dropped)
    for kind, wanted in ((f"label column of {where}", label), (f"column of {where}", cluster)):
        if wanted is not None and wanted not in frame.columns:
            raise unknown_name(kind, wanted, frame.columns)
    coded, problems = {}, []
    named = dict.fromkeys(column for column in (label, cluster) if column is not None)
    for column in named:
        try:
            coded[column] = encode_labels(frame[column].to_numpy(), f"Column '{column}' of {where}")
        except FedkinError as error:
            problems.append(str(error))
    rest = frame.drop(columns=list(named))
    table = frame_to_table(rest, where, options, problems)
    y, classes = coded[label] if label is not None else (None, [])
    clusters = None if cluster is None else coded[cluster]
    return Dataset(name, table.values, y, classes, table, clusters, tuple(dropped), label)


def frame_to_table(
    frame: pd.DataFrame, where: str, options: TableOptions | None = None, problems: Sequence[str] = ()
) -> Table:
    """The columns of a DataFrame, by what they hold.

    Columns of numbers are read all at once.

    Raises
    ------
    FedkinError
        If it is empty, columns have no name or one name, or any cannot be used: a line for each, after `problems`.
    """
    options, found = options or TableOptions(), list(problems)
    names = [str(name) for name in frame.columns]
    rows = len(frame)
    if rows == 0 or not names:
        raise all_problems([*found, f"{where} is empty ({rows} rows, {len(names)} columns of features)."])
    nameless = [at for at, name in enumerate(names) if name.strip() in _NAMELESS]
    if nameless:
        raise all_problems([*found, *(f"Column {at + 1} of {mid_sentence(where)} has no name." for at in nameless)])
    if len(set(names)) < len(names):
        twice = next(name for at, name in enumerate(names) if name in names[:at])
        raise all_problems([*found, f"{where} has more than one column '{twice}'; each needs a name of its own."])
    values = np.empty((rows, len(names)))
    columns = [Column(name) for name in names]
    plain = _plain_numbers(frame, options)
    values[:, plain] = frame.iloc[:, plain].to_numpy(dtype=np.float64)
    for at, (_, cells) in enumerate(frame.items()):
        if plain[at]:
            continue
        try:
            columns[at], values[:, at] = read_column(cells, names[at], where, options)
        except FedkinError as error:
            found.append(str(error))
            values[:, at] = np.nan
    for at in np.flatnonzero(np.isinf(values).any(0)).tolist():
        infinite = int(np.isinf(values[:, at]).sum())
        found.append(f"Column '{names[at]}' of {mid_sentence(where)} has {infinite} infinite values in {rows} rows.")
    for at in np.flatnonzero(_too_large(values)).tolist():
        largest = np.nanmax(np.abs(values[:, at]))
        found.append(
            f"Column '{names[at]}' of {mid_sentence(where)} has numbers as large as {largest:.0e}, too large to "
            "add up their squares; write them in another unit, or name the column in drop."
        )
    if found:
        raise all_problems(found)
    return Table(tuple(columns), torch.from_numpy(values), options.id)


def _too_large(values: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Which columns have finite numbers whose sums are beyond what crosses between clients and server."""
    with np.errstate(over="ignore", invalid="ignore"):
        widest = np.nan_to_num(np.abs(np.where(np.isfinite(values), values, 0.0)).max(0))
        large: npt.NDArray[np.bool_] = widest**2 * len(values) > _LARGEST_SUM
    return large


def as_frame(value: Any) -> pd.DataFrame | None:
    """A DataFrame of pandas as it is, one of another library by its ``to_pandas``; ``None`` for anything else."""
    if "pandas" in sys.modules:
        import pandas as pd

        if isinstance(value, pd.DataFrame):
            return value
    if hasattr(value, "to_pandas") and hasattr(value, "columns"):
        converted = value.to_pandas()
        return converted if hasattr(converted, "iloc") else None
    return None


def _plain_numbers(frame: pd.DataFrame, options: TableOptions) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which columns hold NumPy's real numbers that float64 holds exactly and nobody has called anything else."""
    wide = ("i8", "u8")
    special = {*options.categorical, *options.ordinal}
    plain = [
        isinstance(kind, np.dtype)
        and (kind.kind in "iuf" and kind.str[1:] not in wide and kind.itemsize <= 8)
        and str(name) not in special
        for name, kind in frame.dtypes.items()
    ]
    found = np.array(plain, dtype=bool)
    long = np.array([isinstance(kind, np.dtype) and kind.str[1:] in wide for kind in frame.dtypes], dtype=bool)
    long &= np.array([str(name) not in special for name in frame.columns], dtype=bool)
    if long.any():
        integers = frame.iloc[:, long].to_numpy()
        found[long] = (integers.max(0) <= 2**53) & (integers.min(0) >= -(2**53))
    return found


def _read_parquet(path: Path, where: str) -> pd.DataFrame:
    import pandas as pd

    try:
        return pd.read_parquet(path)
    except Exception as error:  # whatever Arrow and pandas raise over damaged bytes
        reason = (str(error).splitlines() or ["empty"])[0]
        raise FedkinError(f"{where} cannot be read as {path.suffix.lower()} ({reason}).") from error
