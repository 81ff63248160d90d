"""Clients that are lists of texts: encoded before anything else sees them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from fedkin.core.errors import FedkinError, kind_of
from fedkin.core.files import ending_of
from fedkin.data.inputs import SAMPLE_KEYS, is_record
from fedkin.features.encoders import TEXTS, encode_texts


def are_texts(value: Any) -> bool:
    """Return whether a value is a list, an array or a Series of texts that are no paths of files."""
    if not isinstance(value, list | tuple) and (not hasattr(value, "dtype") or getattr(value, "ndim", 0) != 1):
        return False
    return len(value) > 0 and all(isinstance(text, str) for text in value) and not all(map(_is_path, value))


def _is_path(text: str) -> bool:
    return len(text) < 4096 and ((bool(ending_of(text)) and " " not in text.strip()) or Path(text).exists())


def with_texts_encoded(data: Any, features: Any) -> tuple[Any, bool]:
    """Return clients' data with every list of texts replaced by its embeddings, and whether there were any.

    `data` is one client's or several clients', each with labels beside or not. `features` is the spec or the function
    that encodes texts. Raises FedkinError if it is neither, or does not give one row of finite numbers per text.
    """
    if issparse(data):  # of which one kind is a dict
        return data, False
    if are_texts(data):
        return _encoded(list(data), features), True
    if isinstance(data, tuple) and len(data) == 2:  # samples and their labels, which may be texts, too
        samples, some = with_texts_encoded(data[0], features)
        return ((samples, data[1]), True) if some else (data, False)
    keys = list(data) if isinstance(data, Mapping) else range(len(data)) if isinstance(data, list | tuple) else []
    if is_record(data):
        keys = [key for key in keys if key in SAMPLE_KEYS]
    each = {key: with_texts_encoded(data[key], features) for key in keys if not isinstance(data[key], str)}
    if not any(some for _, some in each.values()):
        return data, False
    if isinstance(data, Mapping):
        return {**data, **{key: part for key, (part, _) in each.items()}}, True
    return [each[key][0] if key in each else data[key] for key in keys], True


def _encoded(texts: list[str], features: Any) -> NDArray[np.float32]:
    if callable(features):
        rows = features(texts)
    elif isinstance(features, str) and features.startswith(TEXTS):
        rows = encode_texts(features, texts)
    else:
        raise FedkinError(
            f"Clients hold texts, which features={features!r} does not encode; give a function of a list of texts, or "
            "a network, such as features='sentence-transformers:all-MiniLM-L6-v2'."
        )
    try:
        made = np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise FedkinError(f"features returned {kind_of(rows)} of texts; it should be numbers (n, width).") from error
    if made.ndim != 2 or len(made) != len(texts) or not np.isfinite(made).all():
        raise FedkinError(
            f"features turned {len(texts)} texts into an array of shape {made.shape}; it should be ({len(texts)}, "
            "width), all finite."
        )
    return made
