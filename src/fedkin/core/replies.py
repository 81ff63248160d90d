"""What must hold of everything that crosses: replies, since clients may be broken or worse, and payloads likewise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

import torch
from torch import Tensor

from fedkin.core.payload import Payload

Check = Callable[[Any], bool]
Shape = tuple[int | str | None, ...]

MAX_COUNT = 2**53
"""Greatest whole number that may cross; beyond it, floating point numbers are no longer exact."""
MAX_NUMBER = 1e30
"""Greatest magnitude of a number that may cross; the square of a sum of such numbers is still finite in float64."""
MAX_UPDATE = 1e10
"""Greatest magnitude of a number in a model or an update of one."""
MAX_CLASSES = 2**15
_MAX_TEXT, _MAX_NAME, _MAX_LEAVES, _MAX_ELEMENTS = 4096, 256, 1_000_000, 2**40
_NUMBERS = {
    torch.float16, torch.bfloat16, torch.float32, torch.float64,
    torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.bool,
}  # fmt: skip


@dataclass(frozen=True)
class Array:
    """A tensor.

    Attributes
    ----------
    shape : tuple
        Sizes and names of sizes as in `Expected`; ``None`` for any shape.
    dtype : torch.dtype or None
        ``None`` for any of real numbers.
    minimum, maximum : float
        Range of its elements.
    """

    shape: Shape | None
    dtype: torch.dtype | None = torch.float32
    minimum: float = -MAX_NUMBER
    maximum: float = MAX_NUMBER


@dataclass(frozen=True)
class Maybe:
    """What is wanted, where there is anything of this name."""

    want: Any


@dataclass(frozen=True)
class Several:
    """A list of what is wanted."""

    want: Any


@dataclass(frozen=True)
class Nullable:
    """What is wanted, or ``None``."""

    want: Any


Want = Shape | Check | Array | Maybe | Nullable | Several | Mapping[str, Any]
Expected = Mapping[str, Want]
"""By name what a value must be: a tensor of a shape, an `Array`, whatever a function says yes to, or again such
a mapping. In a shape ``None`` stands for any length, and a text for any that is the same wherever the text stands."""


def reals(*shape: int | str | None) -> Array:
    """A float32 tensor."""
    return Array(shape)


def doubles(*shape: int | str | None, minimum: float = -MAX_NUMBER) -> Array:
    """A float64 tensor."""
    return Array(shape, torch.float64, minimum)


def updates(*shape: int | str | None) -> Array:
    """A float32 tensor of models, or of changes of them."""
    return Array(shape, maximum=MAX_UPDATE, minimum=-MAX_UPDATE)


def candidates(*shape: int | str | None) -> Array:
    """A float32 tensor of models to choose from, of which some may have diverged."""
    return Array(shape, minimum=-inf, maximum=inf)


def whole(*shape: int | str | None, bound: int = MAX_COUNT) -> Array:
    """An int64 tensor of numbers from 0 and below `bound`."""
    return Array(shape, torch.int64, 0, bound - 1)


def octets(*shape: int | str | None) -> Array:
    """A uint8 tensor."""
    return Array(shape, torch.uint8, 0, 255)


def is_number(value: Any) -> bool:
    """Whether it is a plain number of at most `MAX_NUMBER`."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= MAX_NUMBER


def is_count(value: Any) -> bool:
    """Whether it is a plain whole number from 0 to 2^53."""
    return type(value) is int and 0 <= value < MAX_COUNT


def is_amount(value: Any) -> bool:
    """Whether it is a plain number from 0 to 2^53, such as a weight."""
    return is_number(value) and 0 <= value < MAX_COUNT


def is_flag(value: Any) -> bool:
    """Whether it is true or false."""
    return isinstance(value, bool)


def is_shape(value: Any) -> bool:
    """Whether it is a list of one to four whole numbers from 1, of at most 2^31 elements."""
    if not isinstance(value, list | tuple) or not 0 < len(value) <= 4:
        return False
    elements = 1
    for length in value:
        if not (is_count(length) and length > 0):
            return False
        elements *= length
    return elements <= 2**31


def is_classes(value: Any) -> bool:
    """Whether it is a number of classes: 0 without labels, at most 32,768."""
    return is_count(value) and value <= MAX_CLASSES


def is_seed(value: Any) -> bool:
    """Whether it is a whole number that a generator takes as its seed."""
    return type(value) is int and -(2**63) <= value < 2**64


def is_name(value: Any) -> bool:
    """Whether it is a printable text of 1 to 256 characters."""
    return isinstance(value, str) and 0 < len(value) <= _MAX_NAME and value.isprintable()


def is_text(value: Any) -> bool:
    """Whether it is a text of at most 4096 characters, without halves of characters."""
    return isinstance(value, str) and _text_objection(value) is None


def one_of(*values: Any) -> Check:
    """Says yes to these values, of these types."""
    return lambda value: any(type(value) is type(each) and value == each for each in values)


def is_list(check: Check) -> Check:
    """Says yes to lists whose items all pass a check."""
    return lambda value: isinstance(value, list | tuple) and all(map(check, value))


def within(low: float, high: float = MAX_NUMBER) -> Check:
    """Says yes to plain numbers from `low` to `high`."""
    return lambda value: is_number(value) and low <= value <= high


def positive(value: Any) -> bool:
    """Whether it is a plain number above 0."""
    return is_number(value) and value > 0


def counts_to(high: int, low: int = 1) -> Check:
    """Says yes to plain whole numbers from `low` to `high`."""
    return lambda value: is_count(value) and low <= value <= high


def count_or(*words: str) -> Check:
    """Says yes to plain whole numbers from 1, and to these words."""
    return lambda value: (isinstance(value, str) and value in words) or (is_count(value) and value > 0)


def below(bound: int) -> Check:
    """Says yes to a whole number from 0 and below `bound`, and to int64 tensors of such."""

    def check(value: Any) -> bool:
        if not isinstance(value, Tensor):
            return is_count(value) and value < bound
        return _objection(value, Array(None, torch.int64, 0, bound - 1), {}) is None

    return check


are_counts = below(MAX_COUNT)
"""Whether it is a tensor of whole numbers from 0 to 2^53, or one such number."""


def refusal(reply: Payload, *expected: Expected, optional: Expected | None = None) -> str | None:
    """Why a reply must not be used, or ``None`` if it may.

    Parameters
    ----------
    reply : dict
    *expected : mapping
        What the reply must contain.
    optional : mapping, optional
        What an entry must be where the reply has it.

    Returns
    -------
    str or None
        A reply is refused if a tensor in it is not of real numbers, if one of its numbers is not finite, or greater
        than `MAX_NUMBER`, or whole and beyond 2^53; if a text is long or half a character; or if anything is not as it
        must be.
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
    """Why a task must not be done with a payload, or ``None`` if it may: anything absent, unlike or beyond `takes`."""
    return _unlike_mapping("", payload, takes, {})


def largest_number(payload: Payload) -> float:
    """The greatest magnitude of a tensor's element in a payload; 0 without any."""
    tensors = (value for _, value in _leaves(payload) if isinstance(value, Tensor) and value.numel())
    return max((max(map(abs, _extremes(tensor))) for tensor in tensors), default=0.0)


def _unlike(path: str, holder: Mapping[str, Any], want: Any, lengths: dict[str, int]) -> str | None:
    """Why the value at the path's end is not as it must be; `lengths` are those that texts in shapes have stood for."""
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
        reason = _objection(value, Array(want, None) if isinstance(want, tuple) else want, lengths)
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


def _objection(value: Any, want: Array, lengths: dict[str, int]) -> str | None:
    """Why a value is not such a tensor."""
    if not isinstance(value, Tensor):
        return "is not a tensor"
    shape = want.shape
    if shape is not None:
        same = len(value.shape) == len(shape)
        for length, letter in zip(value.shape, shape, strict=False):
            fixed = lengths.setdefault(letter, length) if isinstance(letter, str) else letter
            same = same and fixed in (None, length)
        if not same:
            return f"has shape {tuple(value.shape)} where {shape} was expected"
    if want.dtype is not None and value.dtype != want.dtype:
        return f"is of {value.dtype} where {want.dtype} was expected"
    if not value.numel() or want.dtype in (None, torch.uint8) or want.maximum == inf:
        return None
    least, greatest = _extremes(value)
    if not (want.minimum <= least and greatest <= want.maximum):
        return (
            "is not finite" if not _finite(least, greatest) else f"is not within {want.minimum:g} to {want.maximum:g}"
        )
    return None


def _generally_wrong(value: Any) -> str | None:
    """What forbids a leaf wherever it stands."""
    if isinstance(value, Tensor):
        if value.dtype not in _NUMBERS:
            return f"is of {value.dtype}"
        if value.numel() > _MAX_ELEMENTS:
            return "is too large"
        if value.is_floating_point() and value.numel():
            least, greatest = _extremes(value)
            if not _finite(least, greatest):
                return "is not finite"
            return None if max(-least, greatest) <= MAX_NUMBER else f"is beyond {MAX_NUMBER:g}"
        return None
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return None if abs(value) <= MAX_COUNT else "is beyond 2^53"
    if isinstance(value, float):
        if not _finite(value):
            return "is not finite"
        return None if abs(value) <= MAX_NUMBER else f"is beyond {MAX_NUMBER:g}"
    return _text_objection(value)


def _text_objection(text: str) -> str | None:
    if len(text) > _MAX_TEXT:
        return f"is a text of more than {_MAX_TEXT} characters"
    return "is no valid text" if any("\ud800" <= letter <= "\udfff" for letter in text) else None


def _finite(*numbers: float) -> bool:
    return all(number == number and abs(number) != float("inf") for number in numbers)


def _extremes(tensor: Tensor) -> tuple[float, float]:
    """The least and the greatest element; NaN if any is. Unlike `torch.isfinite` this needs no memory."""
    least, greatest = tensor.aminmax()
    return float(least), float(greatest)


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            name = key if is_text(key) else "?"
            if name == "?":
                yield path or "?", str(key)[: _MAX_TEXT + 1] + "\ud800"
            yield from _leaves(item, f"{path}/{name}" if path else name)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _leaves(item, f"{path}/{index}")
    elif isinstance(value, Tensor | int | float | str):
        yield path, value
