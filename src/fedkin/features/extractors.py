"""Features of samples, made by named functions, registered ones, and functions or modules by dotted path."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize
from torch.utils.weak import WeakTensorKeyDictionary

from fedkin.core.errors import FedkinError, unknown_name
from fedkin.core.tasks import named_object
from fedkin.features.gradients import MIN_SIDE, flat_gradients, gradients

ROCKET, EMBEDDED = "rocket", "embedded"
TEXTS = "sentence-transformers:"
PREFIXES = ("timm:", "hf:", "onnx:", "torch:", TEXTS)
"""Specs of encoders, see `fedkin.features.encoders`, and the name of features that one has made before."""
Extractor = Callable[[Tensor], Any]
"""Maps samples, float32 ``(n, *shape)``, to a tensor or array ``(n, ...)``, each sample to a row of its own."""


def extract(name: str, x: Tensor) -> Tensor:
    """Compute features of samples ``(n, *shape)``, float32: ``(n, width)``, float32.

    Known by `name` are "raw": the values of a sample, flattened; "unit": these, scaled to Euclidean length 1;
    "gradients": how strong edges of eight directions are around each point of a grid, see
    `fedkin.features.gradients.gradients`; "flat-gradients": these, of square images whose pixels are the columns of a
    table; and "embedded": embeddings, see `fedkin.features.encoders`, as "unit". Others are registered, or made by a
    dotted path ``"package.module:factory"``: ``factory(shape)`` returns a module or function of samples. It is called
    once in a process, so it must return the same at every client and in every process.

    Raises FedkinError if there are no such features, or they cannot be computed for these samples.
    """
    extractor = _extractor(name, x)
    if name in known:
        features: Tensor = extractor(x)
        return features
    rows = _rows(name, extractor, x)
    if not rows.isfinite().all():
        raise FedkinError(f"Features '{name}' of some samples are not finite.")
    return rows


def is_encoder(name: object) -> bool:
    """Return whether features of this name are an encoder's, or embeddings."""
    return isinstance(name, str) and (name in (ROCKET, EMBEDDED) or name.startswith(PREFIXES))


def width_of(name: str, shape: tuple[int, ...]) -> int:
    """Return the number of features of a sample of `shape`; raises the errors of `extract`."""
    x = torch.zeros(1, *shape)
    return extract(name, x).shape[1] if name in known else _rows(name, _extractor(name, x), x).shape[1]


def register(name: str, extractor: Extractor) -> None:
    """Register an extractor under `name`, for `extract` in this process.

    Raises FedkinError if the name is taken by another one.
    """
    if _FEATURES.setdefault(name, extractor) is not extractor:
        raise FedkinError(f"Features '{name}' exist already; register these under another name.")


def forget(name: str) -> None:
    """Remove a registered extractor."""
    if name not in known:
        _FEATURES.pop(name, None)


def suited(shape: tuple[int, ...], flat: bool) -> str:
    """Return the name of the default features for samples of `shape`, which are `flat` images or not.

    These are "gradients" for images of 8 x 8 or more, "flat-gradients" for flat ones, else "raw".
    """
    if len(shape) == 3 and min(shape[1:]) >= MIN_SIDE:
        return "gradients"
    return "flat-gradients" if flat else "raw"


def _unit(x: Tensor) -> Tensor:
    return normalize(x.flatten(1), dim=1)


_FEATURES: dict[str, Extractor] = {
    "raw": nn.Flatten(),
    "unit": _unit,
    "embedded": _unit,
    "gradients": gradients,
    "flat-gradients": flat_gradients,
}
known = frozenset(_FEATURES)
"""The library's own names."""


@lru_cache(maxsize=8)
def _made(path: str, shape: tuple[int, ...]) -> Extractor:
    """Call the factory at a dotted path, and return its extractor; a module is set to evaluation mode."""
    factory = named_object(path, "Features")
    try:
        extractor = factory(shape)
    except FedkinError:
        raise
    except Exception as error:  # whatever the user's own file raises
        raise FedkinError(f"Features '{path}' cannot be made for samples of shape {shape}: {error!r}.") from error
    if not callable(extractor):
        raise FedkinError(f"Features '{path}' are of type {type(extractor).__name__}, not a module or function.")
    function: Extractor = extractor.eval() if isinstance(extractor, nn.Module) else extractor
    return function


def _extractor(name: str, x: Tensor) -> Extractor:
    """Return the extractor of this name for samples like `x`."""
    if is_encoder(name) and name not in _FEATURES:
        raise FedkinError(f"Features '{name}' are made where samples are read, and these are numbers already.")
    if ":" in name:
        return _made(name, tuple(x.shape[1:]))
    if name not in _FEATURES:
        raise unknown_name("features", name, _FEATURES)
    return _FEATURES[name]


def _rows(name: str, extractor: Extractor, x: Tensor) -> Tensor:
    """Apply a user's own extractor to samples, and check that it returns one row of numbers for each."""
    try:
        with torch.no_grad():
            rows = torch.as_tensor(extractor(x))
    except Exception as error:
        raise FedkinError(f"Features '{name}' fail on samples of shape {tuple(x.shape[1:])}: {error!r}.") from error
    if rows.ndim < 1 or len(rows) != len(x) or 0 in rows.shape[1:]:
        form = f"{len(x)} samples into shape {tuple(rows.shape)}; it must be ({len(x)}, width)"
        raise FedkinError(f"Features '{name}' turn {form}.")
    return (rows.flatten(1) if rows.ndim > 1 else rows[:, None]).float()


# Features of a client's own samples, kept as long as these.

_kept = WeakTensorKeyDictionary()
"""By a client's samples: how their features were computed last, and these."""


def cached_features(name: str, x: Tensor) -> Tensor:
    """Return features of samples ``(n, *shape)``: float32 ``(n, width)``, kept for a client's next task."""
    return x.flatten(1) if name == "raw" else kept_or_computed(x, (name,), lambda batch: extract(name, batch))


def kept_or_computed(x: Tensor, how: tuple[str, *tuple[Hashable, ...]], compute: Callable[[Tensor], Tensor]) -> Tensor:
    """Return what `compute` makes of samples ``(n, *shape)`` in batches, or made before: float32 ``(n, width)``.

    `how` is the name of the features and what else `compute` depends on. Raises FedkinError if they are not one row
    per sample; such features are not kept.
    """
    if (entry := _kept.get(x)) is not None and entry[0] == how:
        features: Tensor = entry[1]
        return features
    features = torch.cat([compute(batch) for batch in x.split(2048)])  # which bounds the memory of maps of images
    if features.ndim != 2 or len(features) != len(x):
        raise FedkinError(f"Features '{how[0]}' are not one row of numbers per sample.")
    _kept[x] = how, features
    return features


def drop(x: Tensor) -> None:
    """Drop the features that are kept of these samples."""
    _kept.pop(x, None)
