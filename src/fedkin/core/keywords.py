"""Check of keyword arguments: an unknown one is answered with the one that was probably meant."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from fedkin.core.errors import hint, nearest

_F = TypeVar("_F", bound=Callable[..., Any])


_ELSEWHERE = {
    "val": "validation", "valid": "validation", "val_set": "validation", "dev": "validation", "test": "eval",
    "test_set": "eval", "labels": "y", "target": "y", "scoring": "metrics",
    "eval_set": "eval", "validation_data": "validation", "test_data": "eval", "callback": "callbacks",
    "random_state": "seed", "clusters": "n_clusters", "time": "budget",
}  # fmt: skip
"""Names of arguments in other libraries, and those of fedkin's that they mean."""
_DONE_OTHERWISE = dict.fromkeys(
    ("groups", "group", "by", "client_column"), "give clients as table.groupby('hospital'), divided by a column."
) | dict.fromkeys(("names", "client_names"), "give clients in a dict by name.")
"""What is done without an argument."""


def checked_keywords(function: _F) -> _F:
    """Decorate a function so that an unknown keyword raises a `TypeError` that names the nearest known one."""
    known = [one.name for one in inspect.signature(function).parameters.values() if one.name != "self"]

    @functools.wraps(function)
    def called(*arguments: Any, **keywords: Any) -> Any:
        for name in keywords:
            if name not in known:
                if name in _DONE_OTHERWISE and "eval" in known:
                    raise TypeError(f"{function.__name__} has no argument '{name}'; {_DONE_OTHERWISE[name]}")
                near = meant if (meant := _ELSEWHERE.get(name)) in known else nearest(name, known)
                others = f"; options of methods are settings={{'method.{name}': ...}}" if "settings" in known else ""
                end = hint(near, f"it takes {', '.join(known)}{others}")
                raise TypeError(f"{function.__name__} has no argument '{name}'; {end}")
        return function(*arguments, **keywords)

    return called  # type: ignore[return-value]
