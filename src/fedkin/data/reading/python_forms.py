"""Forms of a table in Python that are not read, and what to give instead."""

from __future__ import annotations

from collections.abc import Mapping, Sized
from typing import Any

import numpy as np
from scipy.sparse import issparse


def given_instead(value: Any) -> str | None:
    """Return what a client's data are and what to give instead, as the end of a sentence; ``None`` of other forms.

    Known are lists of dicts, structured arrays, dicts of columns, pairs of ``groupby``, and the Bunch of scikit-learn's
    data sets.
    """
    if issparse(value):  # one form of them is a mapping
        return None
    if type(value).__name__ == "Bunch" and isinstance(value, Mapping):
        return "a Bunch; give its DataFrame, as load_iris(as_frame=True).frame, or the pair (data, target)"
    if isinstance(value, list | tuple) and value and all(isinstance(row, Mapping) for row in value):
        return "a list of dicts; give it as a DataFrame, pandas.DataFrame(rows)"
    if isinstance(value, tuple) and [hasattr(one, "columns") for one in value] == [False, True]:
        return "a pair of a key and a table, as list(groupby) has them; give the groupby itself, or a dict of them"
    if isinstance(value, np.ndarray) and value.dtype.names:
        return "a structured array; give it as a DataFrame, pandas.DataFrame(rows)"
    if isinstance(value, Mapping) and value and all(map(_is_column, value.values())):
        return "a dict of columns; give it as a DataFrame, pandas.DataFrame(columns)"
    return None


def _is_column(value: Any) -> bool:
    """Return whether a value is a list, array or Series of single values."""
    if isinstance(value, list | tuple):
        return len(value) > 0 and (isinstance(value[0], str) or not isinstance(value[0], Sized))
    return hasattr(value, "__array__") and getattr(value, "ndim", 0) == 1
