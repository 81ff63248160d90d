"""Validation of payloads and replies: the reasons for which they are refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from fedkin.core.errors import FedkinError
from fedkin.core.payload import Payload
from fedkin.core.replies import (
    MAX_COUNT,
    MAX_NUMBER,
    MAX_TEXT,
    Array,
    Expected,
    Maybe,
    Nullable,
    Several,
    are_finite,
    extremes,
    is_name,
    is_text,
    text_objection,
)

_MAX_LEAVES, _MAX_ELEMENTS = 1_000_000, 2**40
_NUMBERS = {
    torch.float16, torch.bfloat16, torch.float32, torch.float64,
    torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.bool,
}  # fmt: skip


class Unusable(str):
    """Reason why a client's reply cannot be used."""

    __slots__ = ()


class Refusal(str):
    """Reason why a client refuses a task for good: asking again would not change it."""

    __slots__ = ()


FAILED = "the task failed there"
"""Beginning of the reason of a client whose task ended in an error, before the kind of error."""


def failed_there(error: Exception) -> str:
    """Return the reason of a client whose task ended in `error`: what of it is public, see `FedkinError`, or its type.

    Any other message may hold samples, so it stays in the client's log.
    """
    if isinstance(error, FedkinError) and error.public:
        return error.public
    return f"{FAILED} ({type(error).__name__}; its log says more)"


def refusal(reply: Payload, *expected: Expected, optional: Expected | None = None) -> str | None:
    """Return why a reply must not be used, or ``None`` if it may.

    `expected` specifies the entries that the reply must contain, `optional` those that it may contain. A reply is
    refused if a tensor in it is not of real numbers, if one of its numbers is not finite, or greater than `MAX_NUMBER`,
    or whole and beyond 2^53; if a text is long or half a character; or if anything is not as it must be.
    """
    if not isinstance(reply, dict):
        return "it is no mapping"
    for count, (path, value) in enumerate(_leaves(reply)):
        if count > _MAX_LEAVES:
            return f"it has more than {_MAX_LEAVES:,} entries"
        if (reason := _generally_wrong(value)) is not None:
            return f"'{path}' {reason}"
    lengths: dict[str, int] = {}
    wants = [item for wanted in expected for item in wanted.items()]
    wants += [(name, Maybe(want)) for name, want in (optional or {}).items()]
    return next(filter(None, (_unlike(name, reply, want, lengths) for name, want in wants)), None)


def objection(payload: Payload, takes: Expected) -> str | None:
    """Return why a payload is not as a task `takes` it, or ``None`` if it is."""
    return _unlike_mapping("", payload, takes, {})


def _unlike(path: str, holder: Mapping[str, Any], want: Any, lengths: dict[str, int]) -> str | None:
    """Return why an entry is not as `want` says, or ``None``; `lengths` has the values of named sizes."""
    name = path.rpartition("/")[2]
    if name not in holder:
        return None if isinstance(want, Maybe) else f"'{path}' is absent"
    return _wrong(path, holder[name], want, lengths)


def _wrong(path: str, value: Any, want: Any, lengths: dict[str, int]) -> str | None:
    if isinstance(want, Maybe):
        return _wrong(path, value, want.want, lengths)
    if isinstance(want, Nullable):
        return None if value is None else _wrong(path, value, want.want, lengths)
    if isinstance(want, Several):
        if not isinstance(value, list | tuple):
            return f"'{path}' is no list"
        reasons = (_wrong(f"{path}/{at}", item, want.want, lengths) for at, item in enumerate(value))
        return next(filter(None, reasons), None)
    if isinstance(want, Mapping):
        return _unlike_mapping(path, value, want, lengths)
    if isinstance(want, tuple | Array):
        reason = (Array(want, None) if isinstance(want, tuple) else want).objection(value, lengths)
        return None if reason is None else f"'{path}' {reason}"
    return None if want(value) else f"'{path}' is not what it should be"


def _unlike_mapping(path: str, value: Any, wants: Mapping[str, Any], lengths: dict[str, int]) -> str | None:
    if not isinstance(value, Mapping):
        return f"'{path}' is no mapping"
    start = f"{path}/" if path else ""
    for name in value:
        if name not in wants:
            return f"'{start}{name if is_name(name) else '?'}' is not expected"
    reasons = (_unlike(f"{start}{name}", value, want, lengths) for name, want in wants.items())
    return next(filter(None, reasons), None)


def _generally_wrong(value: Any) -> str | None:
    """Return why a value is never allowed in a reply, such as an infinite number; ``None`` if it may be."""
    if isinstance(value, Tensor):
        if value.dtype not in _NUMBERS:
            return f"is of {value.dtype}"
        if value.numel() > _MAX_ELEMENTS:
            return "is too large"
        if value.is_floating_point() and value.numel():
            lowest, highest = extremes(value)
            if not are_finite(lowest, highest):
                return "is not finite"
            return None if max(-lowest, highest) <= MAX_NUMBER else f"is beyond {MAX_NUMBER:g}"
        return None
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return None if abs(value) <= MAX_COUNT else "is beyond 2^53"
    if isinstance(value, float):
        if not are_finite(value):
            return "is not finite"
        return None if abs(value) <= MAX_NUMBER else f"is beyond {MAX_NUMBER:g}"
    return text_objection(value)


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            name = key if is_text(key) else "?"
            if name == "?":
                yield path or "?", str(key)[: MAX_TEXT + 1] + "\ud800"
            yield from _leaves(item, f"{path}/{name}" if path else name)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _leaves(item, f"{path}/{index}")
    elif isinstance(value, Tensor | int | float | str):
        yield path, value
