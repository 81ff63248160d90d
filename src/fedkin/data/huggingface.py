"""Reading of data sets in Hugging Face form: a name on the hub, a directory laid out like one, or one in memory."""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fedkin.core.errors import FedkinError, no_column, require
from fedkin.data.dataset import Dataset, SplitError, encode_labels, lacking_labels, usual_label
from fedkin.data.options import NO_LABELS, TableOptions
from fedkin.data.tables import frame_to_table, with_named_empty

if TYPE_CHECKING:
    import pandas as pd

_GREY = ("1", "L", "LA")
_DEEP = ("I", "F", "I;16", "I;16B", "I;16L")


def read_huggingface(
    source: str, name: str, label: str | None, split: str, cluster: str | None, options: TableOptions
) -> Dataset:
    """Read one split of a data set that ``datasets.load_dataset`` can load, from a directory or by its name on the hub.

    If a column holds images, the first such column is `x` and all others but the label's and the cluster's are ignored.
    Else all columns but these are those of a table. By default the `label` is the column of a usual name, see
    `usual_label`, else the only ``ClassLabel`` column, else, with images, the only integer column, else none. `name` is
    the one that the user gave, `split` usually "train" or "test", and `cluster` a column for `Dataset.clusters`. Raises
    FedkinError if it cannot be found or loaded, or its contents are of no use.
    """
    require(f"Reading '{name}', a data set in Hugging Face layout,", "datasets", "datasets")
    import datasets

    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
    where = f"'{name}'"
    try:
        rows = datasets.load_dataset(source, split=split)
        table = rows.with_format("arrow")[:]
    except Exception as error:  # whatever the hub, the network or a reader inside `datasets` can raise
        reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        kind = SplitError if reason.startswith("Unknown split") else FedkinError
        raise kind(f"{where} cannot be loaded as split '{split}' of a Hugging Face data set ({reason}).") from error
    if len(rows) == 0:
        raise FedkinError(f"{where} is empty (0 rows in split '{split}').")
    dropped = [column for column in rows.features if column in options.drop]
    features = {column: kind for column, kind in rows.features.items() if column not in dropped}
    images = [column for column, kind in features.items() if isinstance(kind, datasets.Image)]
    if cluster is not None and cluster not in features:
        raise no_column(where, cluster, features)
    label = _label_column(features, label, cluster, where, bool(images))
    y, classes = (None, []) if label is None else _labels(table, features, label, where)
    clusters = None if cluster is None else _labels(table, features, cluster, where)
    if images:
        return Dataset(name, decode_images(table.column(images[0]).to_pylist(), where), y, classes, clusters=clusters)
    others = {column: kind for column, kind in features.items() if column not in (label, cluster)}
    frame = _with_named_classes(table.select(list(others)).to_pandas(), others)
    frame, held = with_named_empty(frame, options)
    columns = frame_to_table(frame, where, options)
    return Dataset(name, columns.values, y, classes, columns, clusters, tuple(dropped), na_values=held)


def _with_named_classes(frame: pd.DataFrame, features: Mapping[str, Any]) -> pd.DataFrame:
    """Return a table whose ``ClassLabel`` columns hold the names of classes instead of their numbers."""
    import datasets

    for column, kind in features.items():
        if isinstance(kind, datasets.ClassLabel):
            frame[column] = frame[column].map(dict(enumerate(kind.names)))
    return frame


def decode_images(files: list[dict[str, Any]], where: str) -> Tensor:
    """Decode images of one size to float32 ``(n, channels, height, width)`` in [0, 1].

    Grey images have one channel; if any of them is in colour, all become RGB. Each file has its content as ``bytes``,
    or its ``path``. `where` names the source, at the beginning of error messages.
    """
    pixels = [_decode(file, row, where) for row, file in enumerate(files)]
    height, width = pixels[0].shape[:2]
    for row, image in enumerate(pixels):
        if image.shape[:2] != (height, width):
            sizes = f"{image.shape[0]} x {image.shape[1]} where row 0 is {height} x {width}"
            raise FedkinError(f"{where} has images of different sizes: row {row} is {sizes}.")
    if any(image.shape[2] == 3 for image in pixels):
        pixels = [np.broadcast_to(image, (height, width, 3)) for image in pixels]
    stacked = torch.from_numpy(np.stack(pixels))
    return stacked.permute(0, 3, 1, 2).to(torch.float32, memory_format=torch.contiguous_format).div_(255)


def _decode(file: dict[str, Any] | None, row: int, where: str) -> npt.NDArray[np.uint8]:
    from PIL import Image

    if file is None:
        raise FedkinError(f"{where} has no image in row {row}.")
    try:
        with Image.open(file["path"] if file["bytes"] is None else io.BytesIO(file["bytes"])) as image:
            if image.mode in _DEEP:
                raise FedkinError(
                    f"{where} has an image of more than 8 bits per channel in row {row} (mode {image.mode})."
                )
            mode = "L" if image.mode in _GREY else "RGB"
            pixels = np.asarray(image if image.mode == mode else image.convert(mode))
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise FedkinError(f"{where} has an image that cannot be decoded in row {row}.") from error
    return pixels[..., None] if pixels.ndim == 2 else pixels


def _label_column(
    features: dict[str, Any], label: str | None, cluster: str | None, where: str, images: bool
) -> str | None:
    """Return the name of the labels' column: the one given, a usual name, the only ``ClassLabel``, or ``None``.

    Raises FedkinError if there is none of the name given.
    """
    import datasets

    if label == NO_LABELS:
        return None
    if label is not None:
        if label not in features:
            raise no_column(where, label, features)
        return label
    features = {name: kind for name, kind in features.items() if name != cluster}
    if (named := usual_label(features)) is not None:
        return named
    candidates = [name for name, kind in features.items() if isinstance(kind, datasets.ClassLabel)]
    if not candidates and images:
        candidates = [name for name, kind in features.items() if "int" in str(getattr(kind, "dtype", ""))]
    return candidates[0] if len(candidates) == 1 else None


def _labels(table: Any, features: dict[str, Any], label: str, where: str) -> tuple[Tensor, list[str]]:
    import datasets

    column, kind = table.column(label), features[label]
    if not isinstance(kind, datasets.ClassLabel):
        return encode_labels(column.to_numpy(), f"Column '{label}' of {where}")
    y = torch.tensor(column.fill_null(-1).to_numpy(), dtype=torch.int64)
    missing = int((y < 0).sum())
    if missing:
        raise lacking_labels(f"Column '{label}' of {where}", missing, len(y))
    return y, list(kind.names)


def read_rows(rows: Any, where: str, label: str | None = None) -> tuple[Any, Any, str | None]:
    """Return samples, labels, and the name of the labels' column if the samples are a DataFrame that still has it.

    The first column of images is the samples, or the only column of lists; else all columns but the labels are a table.
    Labels are a column of a usual name, or the only ``ClassLabel``; of these, numbers. Raises FedkinError if it is
    empty, has no `label`, or images or lists differ in shape.
    """
    import datasets

    if len(rows) == 0:
        raise FedkinError(f"{where} is empty (0 rows).")
    table, features = rows.with_format("arrow")[:], dict(rows.features)
    images = [name for name, kind in features.items() if isinstance(kind, datasets.Image)]
    label = _label_column(features, label, None, where, bool(images))
    y = None if label is None else table.column(label).to_numpy()
    if images:
        return decode_images(table.column(images[0]).to_pylist(), where), y, None
    others = [name for name in features if name != label]
    if len(others) == 1 and not isinstance(features[others[0]], datasets.Value | datasets.ClassLabel):
        column = table.column(others[0])
        return _stacked(column.to_pylist(), others[0], where, _is_of_bytes(column.type)), y, None
    named = {name: kind for name, kind in features.items() if name != label}
    return _with_named_classes(table.to_pandas(), named), y, label


def _is_of_bytes(kind: Any) -> bool:
    """Return whether an Arrow type is one of lists in lists of uint8, as images are."""
    depth = 0
    while (inner := getattr(kind, "storage_type", None) or getattr(kind, "value_type", None)) is not None:
        depth += not hasattr(kind, "storage_type")
        kind = inner
    return depth > 1 and str(kind) == "uint8"


def _stacked(values: list[Any], column: str, where: str, of_bytes: bool = False) -> np.ndarray[Any, Any]:
    try:
        return np.array(values, dtype=np.uint8 if of_bytes else np.float32)
    except (TypeError, ValueError) as error:
        raise FedkinError(f"Column '{column}' of {where} holds lists of different lengths, or no numbers.") from error
