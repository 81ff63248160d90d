"""Arrays of any kind as the tensors that clients hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import issparse
from torch import Tensor

from fedkin.core.client import IN_WORDS, Samples, Table
from fedkin.core.errors import FedkinError, refuse
from fedkin.data.dataset import Dataset
from fedkin.data.options import NO_OPTIONS, TableOptions
from fedkin.data.tables import LARGEST, as_frame, frame_to_dataset, frame_to_table

_SHAPES = "(n, features) or (n, channels, height, width)"


def as_tensor(value: Any, origin: str) -> Tensor:
    """Convert an array, tensor, DataFrame of numbers or nested lists to a new tensor, float32.

    It is float64 if a column is so far from zero that float32 would lose what varies in it, until it is scaled. It is
    ``(n, features)``, or of images ``(n, channels, height, width)``, which may be without channels in `value`; n is at
    least 1, and all numbers are finite. Images of type uint8 are divided by 255. `origin` names the source, such as
    ``"Client 3"``, at the beginning of error messages. Raises FedkinError if it is empty, of another shape, not numeric
    or not finite.
    """
    frame = as_frame(value)
    if frame is not None:
        return plain_numbers(frame_to_table(frame, origin), origin)
    array = _as_array(value, origin)
    if array.ndim not in (2, 3, 4) or array.size == 0:
        raise FedkinError(
            f"{origin} has shape {array.shape}, but samples need {_SHAPES}, with at least one of each; one column is "
            "x.reshape(-1, 1)."
        )
    if array.ndim == 3:
        array = array[:, None]
    if array.ndim == 4 and array.shape[-1] in (1, 3, 4) and array.shape[1] not in (1, 3, 4):
        cure = "permute" if isinstance(value, Tensor) else "transpose"
        raise FedkinError(
            f"{origin} has shape (n, {', '.join(map(str, array.shape[1:]))}), with the channels last; give "
            f"x.{cure}(0, 3, 1, 2), for samples need {_SHAPES}."
        )
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
        raise FedkinError(
            f"{origin} has numbers up to {np.abs(array).max():.0e}, and allowed are 1e-45 to {LARGEST:.0e}; give the "
            "data in another unit."
        )
    return x


def _is_far_from_zero(array: npt.NDArray[Any]) -> bool:
    """Return whether float32 would leave a column of numbers fewer than ten bits of its range.

    In less than a thousandth of it no cluster is told apart. Its numbers stay float64 until they are scaled, that is,
    centred on the mean over all clients.
    """
    if array.ndim != 2 or array.dtype.kind not in "fiu" or array.dtype.itemsize < 8:
        return False
    with np.errstate(invalid="ignore"):
        low, high = array.min(0).astype(np.float64), array.max(0).astype(np.float64)
    if not (np.isfinite(low) & np.isfinite(high)).all() or (low.min() >= 0 and high.max() <= 1):
        return False  # it is refused, or holds pictures or fractions, which are not centred
    step = np.maximum(np.abs(low), np.abs(high)) * np.finfo(np.float32).eps
    return bool(((high > low) & (high - low < step * 2.0**10)).any())


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
        if bad:
            missing = f"{bad} missing or infinite values in {len(x)} rows"
            problems.append(f"Column '{column.name}' of {origin} has {missing}.")
        if column.kind not in ("number", "boolean"):
            problems.append(
                f"Column '{column.name}' of {origin} holds {IN_WORDS[column.kind]} and no numbers; drop it, or name it "
                "as the label."
            )
    refuse(problems)
    return x


def _as_array(value: Any, origin: str) -> npt.NDArray[Any]:
    if issparse(value):
        raise FedkinError(f"{origin} is a sparse matrix; give it as an array, by its method toarray().")
    if isinstance(value, Iterator | Mapping | Set | str | bytes) or value is None or hasattr(value, "to_frame"):
        what = type(value).__name__
        raise FedkinError(f"{origin} is of type {what}; give its samples as an array, a list of rows or a DataFrame.")
    try:
        if isinstance(value, Tensor):
            dense = value.detach().cpu()
            value = (dense.float() if dense.is_floating_point() else dense).resolve_conj().resolve_neg().numpy()
        several = isinstance(value, list | tuple) and any(isinstance(row, np.ma.MaskedArray) for row in value)
        array = np.ma.array(value) if several else value
        if isinstance(array, np.ma.MaskedArray):  # whose masked elements numpy would take for numbers
            masked = np.ma.getmaskarray(array).any()
            array = np.ma.filled(array.astype(np.float64), np.nan) if masked else array.data
        array = np.asarray(array)
        if array.dtype.kind == "O" and array.size and not any(isinstance(cell, str) for cell in array.flat):
            array = array.astype(np.float64)  # numbers among which some are None, as a DataFrame's are
    except (ValueError, TypeError, RuntimeError) as error:  # a ragged list; a sparse, quantised or nested tensor
        raise FedkinError(f"{origin} is no dense array of numbers, with rows of one length.") from error
    if array.dtype.kind not in "biuf":
        as_table = " A table with texts or dates is given as a DataFrame." if array.dtype.kind in "OSUM" else ""
        raise FedkinError(f"{origin} holds values of type {array.dtype}, but all must be real numbers.{as_table}")
    return array
