"""Data sets of the library ``datasets`` that are in memory."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from fedkin.core.errors import FedkinError
from fedkin.data.reading.huggingface import decode_images, label_column, with_named_classes


def is_hub_dataset(value: Any) -> bool:
    """Return whether a value is a ``datasets.Dataset``, without importing the library."""
    library = sys.modules.get("datasets")
    return library is not None and isinstance(value, getattr(library, "Dataset", ()))


def is_transformed(rows: Any) -> bool:
    """Return whether a data set has a transform of the user's, by ``with_transform`` or ``set_transform``."""
    return bool(rows.format["type"] == "custom")


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
    label = label_column(features, label, None, where, bool(images))
    y = None if label is None else table.column(label).to_numpy()
    if images:
        return decode_images(table.column(images[0]).to_pylist(), where), y, None
    others = [name for name in features if name != label]
    if len(others) == 1 and not isinstance(features[others[0]], datasets.Value | datasets.ClassLabel):
        return _stacked(table.column(others[0]).to_pylist(), others[0], where), y, None
    named = {name: kind for name, kind in features.items() if name != label}
    return with_named_classes(table.to_pandas(), named), y, label


def _stacked(values: list[Any], column: str, where: str) -> np.ndarray[Any, Any]:
    try:
        return np.array(values, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise FedkinError(f"Column '{column}' of {where} holds lists of different lengths, or no numbers.") from error
