"""Clients of one array from files, which are mapped into memory and not read into it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedkin.core.client_array import ClientArray
from fedkin.core.errors import FedkinError, in_short

_ROWS = 1 << 16
"""Rows at a time that are checked or copied: 16 MB of 64 columns."""


def read_client_array(path: str | Path, offsets: str | Path | Sequence[int], min_members: int = 0) -> ClientArray:
    """Return clients whose rows are in one file ``.npy``, float32 ``(rows, *shape)``, those of a client side by side.

    `offsets`, or the file ``.npy`` that holds them, are as of `ClientArray`. Raises FedkinError if a file cannot be
    read, or a row is not finite.
    """
    bounds = _loaded(Path(offsets)) if isinstance(offsets, str | Path) else np.asarray(offsets)
    rows = _loaded(Path(path))
    if rows.dtype != np.float32 or rows.ndim < 2 or bounds.dtype.kind not in "iu":
        raise FedkinError(f"'{path}' holds {rows.dtype} {rows.shape}; clients need float32 rows, and whole offsets.")
    clients = ClientArray(torch.from_numpy(rows), torch.from_numpy(bounds.astype(np.int64)), min_members)
    for start in range(0, len(rows), _ROWS):
        _check_finite(rows[start : start + _ROWS], path)
    return clients


def convert_parquet(path: str | Path, client: str, target: str | Path) -> tuple[Path, Path]:
    """Write a table of Parquet as two files for `read_client_array`, a part at a time; return their paths.

    Column `client` says whose each row is, and a client's rows are side by side; all others are numbers. `target` is a
    folder. Raises FedkinError if the table is not so.
    """
    import pyarrow.parquet as parquet

    folder = Path(target)
    folder.mkdir(parents=True, exist_ok=True)
    rows_path, offsets_path = folder / "rows.npy", folder / "offsets.npy"
    try:
        table = parquet.ParquetFile(path, memory_map=True)
    except (OSError, ValueError) as error:
        raise FedkinError(f"'{path}' cannot be read as Parquet ({in_short(error)}).") from error
    columns = [name for name in table.schema_arrow.names if name != client]
    if len(columns) == len(table.schema_arrow.names) or not columns:
        raise FedkinError(f"'{path}' has no column '{client}' beside columns of numbers.")
    rows = np.lib.format.open_memmap(rows_path, "w+", dtype=np.float32, shape=(table.metadata.num_rows, len(columns)))
    seen: dict[Any, int] = {}
    written, last = 0, None
    for batch in table.iter_batches(_ROWS):
        part = rows[written : written + len(batch)]
        for place, name in enumerate(columns):
            try:
                part[:, place] = batch.column(name).to_numpy(zero_copy_only=False)
            except (TypeError, ValueError) as error:
                raise FedkinError(f"Column '{name}' of '{path}' is not of numbers.") from error
        _check_finite(part, path)
        for row, owner in enumerate(batch.column(client).to_pylist()):
            if owner != last or not seen:
                if owner in seen:
                    raise FedkinError(f"Rows of a client of '{path}' are apart; sort the table by '{client}'.")
                seen[owner] = written + row
                last = owner
        written += len(batch)
    rows.flush()
    np.save(offsets_path, np.array([*seen.values(), written], dtype=np.int64))
    return rows_path, offsets_path


def _loaded(path: Path) -> NDArray[Any]:
    """Return an array that is mapped into memory; nothing is written to its file."""
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="c", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise FedkinError(f"'{path}' cannot be read as .npy ({in_short(error)}).") from error
    return array


def _check_finite(rows: NDArray[Any], path: str | Path) -> None:
    if not np.isfinite(rows).all():
        raise FedkinError(f"'{path}' has rows with missing or infinite numbers; clients of one array have none.")
