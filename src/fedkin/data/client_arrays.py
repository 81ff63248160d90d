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
    step = 1 << 16  # 16 MB of 64 columns
    if not all(np.isfinite(rows[start : start + step]).all() for start in range(0, len(rows), step)):
        raise FedkinError(f"'{path}' has rows with missing or infinite numbers; clients of one array have none.")
    return clients


def _loaded(path: Path) -> NDArray[Any]:
    """Return an array that is mapped into memory; nothing is written to its file."""
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="c", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise FedkinError(f"'{path}' cannot be read as .npy ({in_short(error)}).") from error
    return array
