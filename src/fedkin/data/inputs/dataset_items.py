"""Reading of a data set's items, one after another, into arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedkin.core.errors import FedkinError, in_short, listing
from fedkin.data.reading.dataset import LABEL_NAMES
from fedkin.data.reading.disk_store import new_store

SAMPLE_KEYS = ("x", "image", "img", "images", "pixel_values", "data", "features", "inputs", "input")
"""Keys of a dict that are taken for samples, the first that exists."""


Items = tuple[Tensor, NDArray[Any] | None]
"""Samples ``(n, *shape)``, and labels ``(n,)`` if items have any. Floats are float32, bytes of images fractions, where
their number is known, and other types as they were. Many samples lie on disk, see `fedkin.data.reading.disk_store`."""


def read_items(items: Iterable[Any], count: int | None, where: str, label: str | None = None) -> Items:
    """Read items ``(x, y)``, ``{"x": x, "y": y}`` or ``x``, in order, into arrays.

    Each `x` is a tensor, an array or a picture of Pillow's, all of one shape. With a `count` the samples are written in
    place instead of collected. `where` names the source, at the beginning of error messages; `label` is the key of
    labels, where items are dicts. Raises FedkinError if there are none, one cannot be read, or they differ in form or
    shape.
    """
    store: Tensor | None = None
    samples: list[Tensor] = []
    labels: list[Any] = []
    read = 0
    for at, item in _guarded(items, where):
        x, y, labelled = _parts(item, f"Item {at} of {where}", label)
        if store is None:
            is_image = x.dtype == torch.uint8 and x.ndim == 3  # whose bytes are read as fractions in the end
            store = new_store(count or 0, tuple(x.shape), torch.float32 if is_image else x.dtype, where)
        if x.shape != store.shape[1:]:
            raise FedkinError(
                f"Item {at} of {where} has the shape {tuple(x.shape)} where the first has {tuple(store.shape[1:])}; "
                "all need the same, as a resizing transform gives them."
            )
        if count is None:
            samples.append(x)
        else:
            store[at] = x / 255 if x.dtype == torch.uint8 and store.dtype == torch.float32 else x
        if labelled:
            labels.append(y)
        read += 1
        if len(labels) not in (0, read):
            raise FedkinError(f"Item {at} of {where} has {'a label' if labelled else 'no label'}, unlike the first.")
    if store is None:
        raise FedkinError(f"{where} is empty; every client needs at least one sample.")
    made = torch.stack(samples) if count is None else store[:read]
    return made, np.asarray(labels) if labels else None


def _guarded(items: Iterable[Any], where: str) -> Iterable[tuple[int, Any]]:
    """Yield items with their numbers; an exception from a user's own data set becomes an error that names the item."""
    at = -1
    try:
        for at, item in enumerate(items):
            yield at, item
    except FedkinError:
        raise
    except Exception as error:
        raise FedkinError(f"Item {at + 1} of {where} cannot be read: {in_short(error)}.") from error


def _parts(item: Any, where: str, label: str | None) -> tuple[Tensor, Any, bool]:
    """Return the sample and the label of an item, and whether it has a label."""
    if isinstance(item, Mapping):
        key = label or next((name for name in LABEL_NAMES if name in item), None)
        if key is not None and key not in item:
            raise FedkinError(f"{where} has no '{key}'; it has {listing([str(name) for name in item])}.")
        x = item[_sample_key(item, key, where)]
        return _sample(x, where), None if key is None else _plain(item[key]), key is not None
    if isinstance(item, list | tuple):
        if len(item) not in (1, 2):
            raise FedkinError(f"{where} has {len(item)} parts; an item is x, a pair (x, y), or a dict of these.")
        return _sample(item[0], where), _plain(item[1]) if len(item) == 2 else None, len(item) == 2
    return _sample(item, where), None, False


def _sample_key(item: Mapping[str, Any], label: str | None, where: str) -> str:
    known = [key for key in SAMPLE_KEYS if key in item and key != label]
    others = [key for key in item if key != label]
    if not known and len(others) != 1:
        names = listing([str(name) for name in item])
        raise FedkinError(f"{where} has {names}, and none of these is called x, image or features, as samples are.")
    return known[0] if known else others[0]


def _sample(x: Any, where: str) -> Tensor:
    if isinstance(x, Tensor):
        tensor = x.detach().cpu()
    else:
        try:
            tensor = torch.from_numpy(_pixels(x) if hasattr(x, "convert") else np.array(x))
        except (TypeError, ValueError, RuntimeError) as error:
            raise FedkinError(f"{where} is of type {type(x).__name__}, which is no array of numbers.") from error
    return tensor.float() if tensor.is_floating_point() else tensor


def _pixels(picture: Any) -> np.ndarray[Any, Any]:
    """Return a Pillow image as uint8 ``(channels, height, width)``, with one channel if it is grey."""
    grey = picture.mode in ("1", "L", "LA")
    pixels = np.array(picture.convert("L" if grey else "RGB"))
    return pixels[None] if grey else np.ascontiguousarray(pixels.transpose(2, 0, 1))


def _plain(label: Any) -> Any:
    return label.tolist() if isinstance(label, Tensor | np.ndarray | np.generic) else label
