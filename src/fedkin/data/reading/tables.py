"""Tables: CSV and Parquet files, DataFrames."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from fedkin.core.errors import FedkinError, unknown_name
from fedkin.data.reading.dataset import LABEL_NAMES, Dataset, encode_labels

if TYPE_CHECKING:
    import pandas as pd


def read_table(path: Path, label: str | None = None, cluster: str | None = None) -> Dataset:
    """A ``.csv`` or ``.parquet`` file whose columns, all but the label's and the cluster's, are numbers or booleans.

    Raises
    ------
    FedkinError
        If it cannot be read, has no rows or no header, or a column is not numeric, has missing or infinite values.
    """
    where = f"'{path}'"
    frame = _read(path, where)
    names = [str(name) for name in frame.columns]
    for kind, wanted in (("label column", label), ("column", cluster)):
        if wanted is not None and wanted not in names:
            raise unknown_name(f"{kind} of {where}", wanted, names)
    label = label or next((name for name in LABEL_NAMES if name in names and name != cluster), None)
    columns = frame.drop(columns=[name for name in (label, cluster) if name is not None])
    x = frame_to_tensor(columns, where)
    coded = {
        name: encode_labels(frame[name].to_numpy(), f"Column '{name}' of {where}")
        for name in (label, cluster)
        if name is not None
    }
    y, classes = coded[label] if label is not None else (None, [])
    features = [str(name) for name in columns.columns]
    return Dataset(path.name, x, y, classes, features, None if cluster is None else coded[cluster])


def frame_to_tensor(frame: pd.DataFrame, where: str) -> Tensor:
    """The columns of a DataFrame as float32 ``(rows, columns)``.

    Raises
    ------
    FedkinError
        If it is empty, or a column is neither numeric nor boolean or has missing or infinite values.
    """
    rows, columns = frame.shape
    if rows == 0 or columns == 0:
        raise FedkinError(f"{where} is empty ({rows} rows, {columns} columns of features).")
    x = torch.empty(rows, columns)
    for position, name in enumerate(frame.columns):
        column = frame.iloc[:, position]
        if not _is_numeric(column):
            raise FedkinError(
                f"Column '{name}' of {where} is not numeric{_example(column)}; drop it or name it as the label."
            )
        x[:, position] = torch.tensor(column.to_numpy(dtype=np.float64, na_value=np.nan))
        bad = int((~torch.isfinite(x[:, position])).sum())
        if bad:
            raise FedkinError(f"Column '{name}' of {where} has {bad} missing or infinite values in {rows} rows.")
    return x


def _read(path: Path, where: str) -> pd.DataFrame:
    import pandas as pd

    is_csv = path.suffix.lower() == ".csv"
    try:
        frame = _read_csv(path) if is_csv else pd.read_parquet(path)
    except pd.errors.ParserWarning as error:
        raise FedkinError(
            f"A column of {where} has no name: rows hold more values than the first line has names (row numbers? "
            "write it without them)."
        ) from error
    except (OSError, ValueError, NotImplementedError) as error:
        reason = (str(error).splitlines() or ["empty"])[0]
        raise FedkinError(f"{where} cannot be read as {path.suffix.lower()} ({reason}).") from error
    if is_csv:
        frame.columns = [str(name).strip() for name in frame.columns]
        _check_header(list(frame.columns), where)
    return frame


def _read_csv(path: Path) -> pd.DataFrame:
    """The table; rows longer than the header end in pandas' own warning, as an error."""
    import pandas as pd

    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        return pd.read_csv(path, index_col=False, skipinitialspace=True)


def _check_header(names: list[str], where: str) -> None:
    nameless = [position for position, name in enumerate(names, 1) if not name or name.startswith("Unnamed: ")]
    if nameless:
        raise FedkinError(f"Column {nameless[0]} of {where} has no name (row numbers? write it without them).")
    if twice := [name for position, name in enumerate(names) if name in names[:position]]:
        raise FedkinError(f"{where} has more than one column '{twice[0]}'; each needs a name of its own.")
    counted = [str(position) for position in range(len(names))]
    if names != counted and all(re.fullmatch(r"[-+.\deE]*\d[-+.\deE]*", name) for name in names):
        raise FedkinError(
            f"The first line of {where} holds numbers ({', '.join(names[:3])}, ...); it must name the columns."
        )


def _is_numeric(column: pd.Series) -> bool:
    from pandas.api import types

    return types.is_numeric_dtype(column) and not types.is_complex_dtype(column)


def _example(column: pd.Series) -> str:
    import pandas as pd

    with_text = column[pd.to_numeric(column.astype(str), errors="coerce").isna() & column.notna()]
    return f" (it holds '{with_text.iloc[0]}')" if len(with_text) else ""
