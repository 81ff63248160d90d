"""Conversion of arrays of any kind to the tensors that clients hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import issparse
from torch import Tensor

from fedkin.core.errors import FedkinError, refuse, unknown_name
from fedkin.core.files import check_room
from fedkin.core.table import Table
from fedkin.data.reading.dataset import NO_LABELS, Dataset, encode_labels, usual_label
from fedkin.data.reading.disk_store import is_on_disk
from fedkin.data.reading.label_columns import label_of
from fedkin.data.reading.table_options import NO_OPTIONS, TableOptions
from fedkin.data.reading.tables import LARGEST, as_frame, frame_to_dataset, frame_to_table

_ARRAY_COPIES = 2
"""Copies of an array that are in memory while it is read: as it is saved, and in float32."""
_PIECE = 1000
"""Samples that are looked at together."""
_FEWEST_BITS = 10
"""Bits of a column's range that float32 has to keep: in less than a thousandth of it no cluster is told apart."""
_WITH_LABELS = {"x": "y", "x_train": "y_train", "train_images": "train_labels"}
_SAMPLES = (*_WITH_LABELS, "images", "data")
"""Names of the samples' array in a file of several, the first that exists, and of the labels beside it."""
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
    `label_of`. Raises FedkinError if it cannot be used.
    """
    frame = as_frame(value)
    if frame is None:
        return Dataset(name, as_tensor(value, where))
    taken = label_of(frame, label, options.no_labels)
    return frame_to_dataset(frame, name, where, taken, options=options, found=label is None)


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


def read_npz(
    path: Path, label: str | None = None, cluster: str | None = None, options: TableOptions = NO_OPTIONS
) -> Dataset:
    """Read a ``.npz`` file: its array ``x``, or its only array with two or more dimensions, and labels if it has any.

    Its columns have no names, so `options` say nothing about them.
    """
    where = f"'{path}'"
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            check_room(where, _ARRAY_COPIES * sum(member.file_size for member in file.zip.infolist()))
            arrays = {name: file[name] for name in file.files}
    except FedkinError:
        raise
    except Exception as error:  # whatever zipfile, zlib and NumPy's reader of headers raise over damaged bytes
        raise FedkinError(
            f"{where} cannot be read as .npz; it must hold plain numeric arrays, as numpy.savez(path, x=..., y=...) "
            "saves them, and no Python objects such as a dict."
        ) from error
    for wanted in (label, cluster):
        if wanted not in (None, NO_LABELS) and wanted not in arrays:
            raise unknown_name(f"array of labels in {where}", wanted, arrays)
    if label is None:
        beside = (_WITH_LABELS[name] for name in _SAMPLES if name in arrays and name in _WITH_LABELS)
        label = usual_label(name for name in arrays if name != cluster) or next(beside, None)
        label = label if label in arrays else None
    label = None if label == NO_LABELS else label
    wide = [name for name, array in arrays.items() if array.ndim >= 2 and name not in (label, cluster)]
    samples = next((name for name in _SAMPLES if name in arrays), wide[0] if len(wide) == 1 else None)
    if samples is None:
        raise FedkinError(f"{where} holds the arrays {', '.join(arrays) or 'none'}; name the samples' array 'x'.")
    x = as_tensor(arrays[samples], where)
    coded = {name: _coded(arrays, name, len(x), where) for name in (label, cluster) if name is not None}
    y, classes = coded[label] if label is not None else (None, [])
    return Dataset(path.name, x, y, classes, clusters=None if cluster is None else coded[cluster])


def _coded(arrays: Mapping[str, npt.NDArray[Any]], name: str, samples: int, where: str) -> tuple[Tensor, list[str]]:
    """Return the labels in one array as class indices, after checking that there is one for each sample."""
    y, classes = encode_labels(arrays[name], f"Array '{name}' of {where}")
    if len(y) != samples:
        raise FedkinError(f"{where} holds {samples} samples, but {len(y)} labels in '{name}'.")
    return y, classes


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
