"""Arrays of any kind as the tensors that clients hold, in memory or, where they are too many, in a file."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterator, Mapping, Set
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import issparse
from torch import Tensor

from fedkin.core.errors import FedkinError, refuse
from fedkin.core.table import Table
from fedkin.data.dataset import Dataset
from fedkin.data.options import NO_OPTIONS, TableOptions
from fedkin.data.tables import LARGEST, as_frame, frame_to_dataset, frame_to_table

_PIECE = 1000
"""Samples that are looked at together."""
_FEWEST_BITS = 10
"""Bits of a column's range that float32 has to keep: in less than a thousandth of it no cluster is told apart."""
LARGE = 2**30
"""Bytes from which on the samples of a data set lie on disk."""
_SHAPES = "(n, features) or (n, channels, height, width)"


def as_tensor(value: Any, where: str) -> Tensor:
    """Convert an array, tensor, DataFrame of numbers or nested lists to a new tensor, float32.

    It is float64 if a column is so far from zero that float32 would lose what varies in it, until it is scaled.

    It is ``(n, features)``, or of images ``(n, channels, height, width)``, where channels may be absent in `value`; n
    is at least 1, and all numbers are finite. Images of type uint8 are divided by 255. A float32 tensor that is mapped
    from a file stays there and is not copied. `where` names the source, such as ``"Client 3"``, at the beginning of
    error messages. Raises FedkinError if it is empty, of another shape, not numeric or not finite.
    """
    frame = as_frame(value)
    if frame is not None:
        return plain_numbers(frame_to_table(frame, where), where)
    if isinstance(value, Tensor) and is_on_disk(value) and value.dtype == torch.float32 and value.ndim in (2, 3, 4):
        return _checked(value[:, None] if value.ndim == 3 else value, where)
    array = _as_array(value, where)
    if array.ndim not in (2, 3, 4):
        raise FedkinError(f"{where} has shape {array.shape}, but samples need {_SHAPES}.")
    if array.size == 0:
        raise FedkinError(
            f"{where} is empty (shape {array.shape}); every client needs at least one sample and one feature."
        )
    if array.ndim == 3:
        array = array[:, None]
    if array.ndim == 4 and array.shape[-1] in (1, 3, 4) and array.shape[1] not in (1, 3, 4):
        last, cure = (
            f"(n, {', '.join(map(str, array.shape[1:]))})",
            "permute" if isinstance(value, Tensor) else "transpose",
        )
        raise FedkinError(
            f"{where} has shape {last}, with the channels last; give x.{cure}(0, 3, 1, 2), for samples need {_SHAPES}."
        )
    if _is_far_from_zero(array):
        return _checked(torch.tensor(np.ascontiguousarray(array, dtype=np.float64)), where)
    with np.errstate(over="ignore", under="ignore"):
        x = torch.tensor(np.ascontiguousarray(array, dtype=np.float32))
    if not bool(x.any()) and bool(array.any()):
        raise FedkinError(
            f"{where} has no value above {np.abs(array).max():.1g}, which is 0 in float32; give the data in another "
            "unit."
        )
    return x / 255 if array.ndim == 4 and array.dtype == np.uint8 else _checked(x, where)


def _is_far_from_zero(array: npt.NDArray[Any]) -> bool:
    """Return whether float32 would leave a column of numbers fewer than `_FEWEST_BITS` bits of its range.

    Its numbers stay float64 until they are scaled, that is, centred on the mean over all clients.
    """
    if array.ndim != 2 or array.dtype.kind not in "fiu" or array.dtype.itemsize < 8:
        return False
    with np.errstate(invalid="ignore"):
        low, high = array.min(0).astype(np.float64), array.max(0).astype(np.float64)
    if not (np.isfinite(low) & np.isfinite(high)).all() or (low.min() >= 0 and high.max() <= 1):
        return False  # it is refused, or holds pictures or fractions, which are not centred
    step = np.maximum(np.abs(low), np.abs(high)) * np.finfo(np.float32).eps
    return bool(((high > low) & (high - low < step * 2.0**_FEWEST_BITS)).any())


def _checked(x: Tensor, where: str) -> Tensor:
    """Return samples after checking, in batches since they may be in a file, that all are finite and can be added."""
    bad = sum(int((~torch.isfinite(part.flatten(1)).all(1)).sum()) for part in x.split(_PIECE))
    if bad:
        raise FedkinError(
            f"{where} has missing or infinite values in {bad} of {len(x)} samples; all must be finite float32."
        )
    if any(float(part.abs().max()) > LARGEST for part in x.split(_PIECE)):
        raise FedkinError(
            f"{where} has numbers beyond {LARGEST:.0e}, too large to add up; give the data in another unit."
        )
    return x


def as_dataset(
    value: Any, name: str, where: str, label: str | None = None, options: TableOptions = NO_OPTIONS
) -> Dataset:
    """Convert samples to a data set: a DataFrame to a table, anything else to an array, see `as_tensor`.

    `name` is that of the data set, and `where` that of the source, at the beginning of error messages. `label` is the
    column of a DataFrame that holds labels; without it one of a usual name is taken for them, as in files, see
    `fedkin.data.tables.label_of`. Raises FedkinError if it cannot be used.
    """
    frame = as_frame(value)
    if frame is None:
        return Dataset(name, as_tensor(value, where))
    return frame_to_dataset(frame, name, where, label, options=options)


def plain_numbers(table: Table, where: str) -> Tensor:
    """Return a table of numbers and booleans without empty cells as float32 ``(rows, columns)``.

    Raises FedkinError if it holds anything else; a line for each such column.
    """
    x = table.values.float()
    problems = []
    for at in (~torch.isfinite(x)).any(0).nonzero()[:, 0].tolist():
        bad = int((~torch.isfinite(x[:, at])).sum())
        problems.append(
            f"Column '{table.columns[at].name}' of {where} has {bad} missing or infinite values in {len(x)} rows."
        )
    for column in table.columns:
        if column.kind not in ("number", "boolean"):
            example = f" (it holds '{column.categories[0]}')" if column.categories else " (it holds dates)"
            problems.append(
                f"Column '{column.name}' of {where} is not numeric{example}; drop it or name it as the label."
            )
    refuse(problems)
    return x


def _as_array(value: Any, where: str) -> npt.NDArray[Any]:
    if isinstance(value, Tensor):
        try:
            dense = value.detach().cpu()
            value = (dense.float() if dense.is_floating_point() else dense).resolve_conj().resolve_neg().numpy()
        except (RuntimeError, TypeError) as error:  # sparse, nested, quantised, or on a device without values
            form = f"{value.dtype} and {value.layout} on '{value.device}'"
            raise FedkinError(f"{where} is a tensor of {form}; give its numbers as a dense one.") from error
    if issparse(value):
        raise FedkinError(f"{where} is a sparse matrix; give it as an array, by its method toarray().")
    if isinstance(value, Iterator | Mapping | Set | str | bytes) or value is None:
        what = type(value).__name__
        raise FedkinError(f"{where} is of type {what}; give its samples as an array, a list of rows or a DataFrame.")
    if type(value).__name__ == "Series" and hasattr(value, "to_frame"):
        raise FedkinError(f"{where} is a Series, one row or one column; give a table, such as table.iloc[[0]].")
    try:
        array = np.asarray(unmasked(value))
    except (ValueError, TypeError) as error:
        raise FedkinError(f"{where} is no array: its rows differ in length or type.") from error
    if array.dtype.kind == "O":
        array = _of_numbers(array)
    if array.dtype.kind not in "biuf":
        as_table = " A table with texts or dates is given as a DataFrame." if array.dtype.kind in "OSUM" else ""
        raise FedkinError(f"{where} holds values of type {array.dtype}, but all must be real numbers.{as_table}")
    return array


def _of_numbers(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an array of objects as float64 if all are numbers or ``None``, as a DataFrame's is; others unchanged."""
    kinds = (bool, int, float, np.bool_, np.integer, np.floating, type(None))
    if not array.size or not all(isinstance(value, kinds) for value in array.flat):
        return array
    return array.astype(np.float64)


def unmasked(value: Any) -> Any:
    """Return a masked array, or a list of them, with NaN for masked elements; anything else is returned unchanged."""
    several = isinstance(value, list | tuple) and any(isinstance(row, np.ma.MaskedArray) for row in value)
    if not several and not isinstance(value, np.ma.MaskedArray):
        return value
    array = np.ma.array(value)
    return np.ma.filled(array.astype(np.float64), np.nan) if np.ma.getmaskarray(array).any() else array.data


def new_store(count: int, shape: tuple[int, ...], dtype: torch.dtype, where: str) -> Tensor:
    """Allocate a tensor ``(count, *shape)``: in memory, or if it is large in a memory-mapped temporary file.

    The file is in the folder for temporary files, which ``TMPDIR`` names. It has no name there, so that nothing of it
    remains. Raises FedkinError if there is not enough room on disk.
    """
    numbers = count * math.prod(shape)
    size = numbers * dtype.itemsize
    if size < LARGE:
        return torch.empty((count, *shape), dtype=dtype)
    handle, path = tempfile.mkstemp(prefix="fedkin-")
    try:
        os.posix_fallocate(handle, 0, size)  # a sparse file would end the program when the disk is full
        return torch.from_file(path, shared=True, size=numbers, dtype=dtype).view(count, *shape)
    except OSError as error:
        raise FedkinError(
            f"{where} holds {size / 2**30:.1f} GiB, for which there is no room in {tempfile.gettempdir()} "
            f"({error.strerror}); name a larger folder by TMPDIR."
        ) from error
    finally:
        os.close(handle)
        os.unlink(path)


def is_on_disk(x: Tensor) -> bool:
    """Return whether a tensor is mapped from a file."""
    return x.layout == torch.strided and not x.is_nested and x.untyped_storage().filename is not None
