"""What clients and server send each other: trees of named tensors and plain values, and what these must be.

`pack` splits such a tree into tensors (for safetensors) and JSON; `unpack` is its inverse. Messages, checkpoints and
saved models all go through this pair, so nothing in fedkin is ever unpickled. Forms are a small language of types and
ranges, by which payloads and replies are checked, since the other side may be malicious.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from math import inf, isfinite, prod
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from fedkin.core.errors import FedkinError
from fedkin.core.files import FileError, check_regular, write_atomically

Payload = dict[str, Any]
"""Names to tensors, numbers, strings, booleans, ``None``, or lists and string-keyed dicts of them."""

_TENSOR = "__tensor__"
_PLAIN = frozenset({str, int, float, bool, type(None)})
"""Types that JSON represents directly; long lists hold these."""


def pack(tree: Any) -> tuple[dict[str, Tensor], str]:
    """Split `tree` into its tensors, keyed by path, and the JSON text of everything else.

    Raises FedkinError if the tree holds anything that is neither a tensor nor plain JSON, which it names.
    """
    tensors: dict[str, Tensor] = {}
    text = json.dumps(_packed(tree, "", tensors), sort_keys=True)
    return {path: tensor.contiguous() for path, tensor in tensors.items()}, text


def _packed(value: Any, path: str, tensors: dict[str, Tensor]) -> Any:
    """Return plain JSON with paths in place of tensors, which go into `tensors`.

    It is no function within `pack`, which would hold itself, and all tensors until the next collection of garbage.
    """
    if isinstance(value, Tensor):
        tensors[path] = value.detach()
        return {_TENSOR: path}
    if isinstance(value, list | tuple):  # before mappings, whose check is slow, as wide tables are lists of lists
        if _PLAIN.issuperset(map(type, value)):
            return value
        return [
            item if type(item) in _PLAIN else _packed(item, f"{path}/{index}", tensors)
            for index, item in enumerate(value)
        ]
    place = f"'{path.removeprefix('/')}'" if path else "it"
    if isinstance(value, Mapping):
        if (key := next((key for key in value if not isinstance(key, str) or key == _TENSOR), None)) is not None:
            raise FedkinError(f"{place} is a dict with the key {key!r}, and only strings can be keys.")
        # Keys are escaped as in a JSON pointer (RFC 6901), so that no two paths are the same.
        return {
            key: _packed(item, f"{path}/{key.replace('~', '~0').replace('/', '~1')}", tensors)
            for key, item in value.items()
        }
    if value is None or isinstance(value, bool | int | float | str):
        return value
    hint = "; torch.from_numpy makes a tensor of it" * isinstance(value, np.ndarray)
    raise FedkinError(f"{place} is of type {type(value).__name__}, which can be neither sent nor written{hint}.")


def detached(tree: Any) -> Any:
    """Return a tree whose tensors require no gradient, as `pack` sends them."""
    if isinstance(tree, Tensor):
        return tree.detach()
    if isinstance(tree, list | tuple):
        return tree if _PLAIN.issuperset(map(type, tree)) else [detached(item) for item in tree]
    return {key: detached(item) for key, item in tree.items()} if isinstance(tree, Mapping) else tree


def unpack(tensors: Mapping[str, Tensor], text: str) -> Any:
    """Return the tree that `pack` split; tuples come back as lists.

    Raises ValueError if the text is not what `pack` writes, RecursionError if it is nested too deep, and KeyError if a
    tensor is missing.
    """
    return json.loads(text, object_hook=lambda item: tensors[item[_TENSOR]] if _TENSOR in item else item)


def payload_bytes(payload: Payload) -> int:
    """Return the size of a payload when sent: its tensors' bytes plus the JSON text of the rest."""
    tensors: dict[str, Tensor] = {}
    text = json.dumps(_packed(payload, "", tensors))  # whose order does not matter
    return sum(tensor.nbytes for tensor in tensors.values()) + len(text)


# Files for trees of tensors and plain values: tensors as safetensors, everything else as JSON in its header. On a disk
# the JSON has the file's checksum before it, so that a file with a single bit flipped is refused.


_TREE = "tree"
_START = b'{"__metadata__":{"tree":"'
_BLANK = "0" * 64
"""Placeholder for the checksum while it is computed."""


def owned(tree: Any) -> Any:
    """Return a copy of `tree` as reading a file would give it: no views, keys sorted, tuples as lists."""
    tensors, text = pack(tree)
    return unpack({name: tensor.clone() for name, tensor in tensors.items()}, text)


def to_bytes(tree: Any, prefix: str = "") -> bytes:
    """Return an `owned` tree as the content of a safetensors file, with a `prefix` of its JSON.

    The same tree gives the same bytes.
    """
    tensors, text = pack(tree)
    return save(tensors, metadata={_TREE: prefix + text})


def from_bytes(content: bytes, prefix: int = 0) -> Any:
    """Return the tree that `to_bytes` wrote, with a prefix of so many characters; nothing in it is ever unpickled.

    Raises FedkinError if `to_bytes` did not write it.
    """
    try:
        length = int.from_bytes(content[:8], "little")
        if length > 100_000_000:  # the longest header that safetensors reads
            raise ValueError
        text = json.loads(content[8 : 8 + length])["__metadata__"][_TREE][prefix:]
        return unpack(load(content), text)
    except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError, MemoryError) as error:
        raise FedkinError(f"It is not safetensors as fedkin writes them ({type(error).__name__}).") from error


def with_checksum(tree: Any) -> bytes:
    """Return an `owned` tree as the content of a file for `load_tree`, with its SHA-256 in the header.

    The checksum is that of the content with zeros in place of the checksum.
    """
    content, start = memoryview(to_bytes(tree, _BLANK)), 8 + len(_START)  # behind the length of the header
    return b"".join([content[:start], sha256(content).hexdigest().encode(), content[start + len(_BLANK) :]])


def save_tree(path: Path, tree: Any) -> None:
    """Write an `owned` tree as one safetensors file with a checksum; the same tree gives the same bytes."""
    write_atomically(path, with_checksum(tree))


def load_tree(path: Path) -> Any:
    """Read the tree that `save_tree` wrote.

    Raises FileError if the file is absent, unreadable, damaged or not written by `save_tree`.
    """
    check_regular(path)
    try:
        content, start = path.read_bytes(), 8 + len(_START)
        digest = sha256(content[:start] + _BLANK.encode())
        digest.update(memoryview(content)[start + len(_BLANK) :])
        if content[start : start + len(_BLANK)] == digest.hexdigest().encode():
            return from_bytes(content, len(_BLANK))
    except (OSError, FedkinError) as error:
        raise FileError(f"Cannot read {path}: it is not a file that fedkin wrote ({error}).") from error
    raise FileError(f"{path} is damaged, or not a file that fedkin wrote: its checksum is not that of its content.")


# What payloads and replies must be.


Check = Callable[[Any], bool]
Shape = tuple[int | str | None, ...]

MAX_COUNT = 2**53
"""Greatest integer that may be sent; beyond it, floating point numbers are no longer exact."""
MAX_NUMBER = 1e30
"""Greatest magnitude of a number that may be sent; the square of a sum of such numbers is finite in float64."""
MAX_UPDATE = 1e10
"""Greatest magnitude of a number in a model or an update of one."""
MAX_SAMPLE = 1e15
"""Greatest magnitude of a number in a sample that the server clusters; sums of their squares are finite in float32."""
MAX_CLASSES = 2**15
"""Greatest number of classes, so that a hostile one makes nobody allocate a network's last layer without end."""
MANY = 2**31
"""Greatest count that a payload may contain."""
MAX_TEXT = 4096
"""Maximum number of characters of a text that may be sent."""


# Forms: a shape of a float tensor, an `Array`, a function that accepts a value, a mapping of forms, or one of these
# wrapped in `Optional`, `Nullable` or `ListOf`.


@dataclass(frozen=True)
class Array:
    """Form of a tensor: its shape, type and range.

    `shape` has sizes and names of sizes as in `Expected`; ``None`` is any shape. A `dtype` of ``None`` is any of real
    numbers.
    """

    shape: Shape | None
    dtype: torch.dtype | None = torch.float32
    minimum: float = -MAX_NUMBER
    maximum: float = MAX_NUMBER

    def objection(self, value: Any, lengths: dict[str, int] | None = None) -> str | None:
        """Return why a value is not such a tensor, or ``None``; `lengths` has the values of named sizes."""
        if not isinstance(value, Tensor):
            return "is not a tensor"
        if self.shape is not None and not self._fits(value.shape, {} if lengths is None else lengths):
            return f"has shape {tuple(value.shape)} where {self.shape} was expected"
        if self.dtype is not None and value.dtype != self.dtype:
            return f"is of {value.dtype} where {self.dtype} was expected"
        if not value.numel() or self.dtype in (None, torch.uint8) or self.maximum == inf:
            return None
        lowest, highest = extremes(value)
        if self.minimum <= lowest and highest <= self.maximum:
            return None
        is_finite, is_update = isfinite(lowest) and isfinite(highest), self.maximum == MAX_UPDATE
        advice = ": training diverged, and a lower learning rate, or scaled data, may help" if is_update else ""
        return (f"is not within {self.minimum:g} to {self.maximum:g}" if is_finite else "is not finite") + advice

    def accepts(self, value: Any) -> bool:
        """Return whether a value is such a tensor."""
        return self.objection(value) is None

    def _fits(self, shape: Sequence[int], lengths: dict[str, int]) -> bool:
        sizes = self.shape or ()
        fits = len(shape) == len(sizes)
        for length, size in zip(shape, sizes, strict=False):
            fixed = lengths.setdefault(size, length) if isinstance(size, str) else size
            fits = fits and fixed in (None, length)
        return fits


@dataclass(frozen=True)
class Optional:
    """Form of an entry that may be absent."""

    want: Any


@dataclass(frozen=True)
class ListOf:
    """Form of a list of at least so many items, which all meet `want`."""

    want: Any
    least: int = 0


@dataclass(frozen=True)
class Nullable:
    """Form of a value that may be ``None``."""

    want: Any


Want = Shape | Check | Array | Optional | Nullable | ListOf | Mapping[str, Any]
Expected = Mapping[str, Want]
"""Form of a mapping, by name of each entry. In a shape ``None`` means any size, and a text a size that is the same
wherever it stands."""


def reals(*shape: int | str | None, minimum: float = -MAX_NUMBER, maximum: float = MAX_NUMBER) -> Array:
    """Return the form of a float32 tensor."""
    return Array(shape, minimum=minimum, maximum=maximum)


def doubles(*shape: int | str | None, minimum: float = -MAX_NUMBER, maximum: float = MAX_NUMBER) -> Array:
    """Return the form of a float64 tensor."""
    return Array(shape, torch.float64, minimum, maximum)


def features(*shape: int | str | None) -> Array:
    """Return the form of a float32 tensor of samples, or of summaries of them such as centroids."""
    return reals(*shape, minimum=-MAX_SAMPLE, maximum=MAX_SAMPLE)


def updates(*shape: int | str | None) -> Array:
    """Return the form of a float32 tensor of model parameters, or of changes of them."""
    return reals(*shape, maximum=MAX_UPDATE, minimum=-MAX_UPDATE)


def candidates(*shape: int | str | None) -> Array:
    """Return the form of a float32 tensor of models to choose from, some of which may have diverged."""
    return reals(*shape, minimum=-inf, maximum=inf)


def int64(*shape: int | str | None, bound: int = MAX_COUNT) -> Array:
    """Return the form of an int64 tensor of numbers at least 0 and less than `bound`."""
    return Array(shape, torch.int64, 0, bound - 1)


def uint8(*shape: int | str | None) -> Array:
    """Return the form of a uint8 tensor."""
    return Array(shape, torch.uint8, 0, 255)


def within(low: float, high: float = MAX_NUMBER) -> Check:
    """Return a check that accepts plain numbers from `low` to `high`."""
    return lambda value: isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high


def counts_to(high: int, low: int = 1) -> Check:
    """Return a check that accepts plain integers from `low` to `high`."""
    return lambda value: type(value) is int and low <= value <= high


is_number, is_amount, is_count = within(-MAX_NUMBER), within(0, MAX_COUNT), counts_to(MAX_COUNT - 1, 0)
"""Whether a value is a plain number; one that is not negative, such as a weight; a plain integer in [0, 2^53)."""


def is_shape(value: Any) -> bool:
    """Return whether a value is a list of one to four positive integers, of at most 2^31 elements."""
    if not isinstance(value, list | tuple) or not 0 < len(value) <= 4:
        return False
    return all(is_count(length) and length > 0 for length in value) and prod(value) <= MANY


def is_seed(value: Any) -> bool:
    """Return whether a value is an integer that a generator accepts as its seed."""
    return type(value) is int and -(2**63) <= value < 2**64


def is_name(value: Any) -> bool:
    """Return whether a value is a printable text of 1 to 256 characters."""
    return isinstance(value, str) and 0 < len(value) <= 256 and value.isprintable()


def is_text(value: Any) -> bool:
    """Return whether a value is a text of at most 4096 characters, without lone surrogates."""
    return isinstance(value, str) and _text_objection(value) is None


def one_of(*values: Any) -> Check:
    """Return a check that accepts these values, of the same types."""
    return lambda value: any(type(value) is type(each) and value == each for each in values)


def below(bound: int) -> Check:
    """Return a check that accepts an integer in [0, `bound`), and int64 tensors of such."""
    whole = Array(None, torch.int64, 0, bound - 1)
    return lambda value: is_count(value) and value < bound if not isinstance(value, Tensor) else whole.accepts(value)


def positive(value: Any) -> bool:
    """Return whether a value is a plain number above 0."""
    return is_number(value) and value > 0


is_flag = one_of(True, False)
"""Whether a value is true or false."""


def extremes(tensor: Tensor) -> tuple[float, float]:
    """Return the minimum and maximum of a tensor; NaN if any element is. Unlike `torch.isfinite` it needs no memory."""
    lowest, highest = tensor.aminmax()
    return float(lowest), float(highest)


def check_same_shape(shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Check that the samples of all clients have the same shape; clients are named as the beginning of a sentence.

    Raises FedkinError, naming the first client whose shape is not the most common one.
    """
    usual = Counter(shapes.values()).most_common(1)
    for client, shape in shapes.items():
        if shape != usual[0][0]:
            odd, common = (
                f"{sizes[0]} features" if len(sizes) == 1 else f"images of {' x '.join(map(str, sizes))}"
                for sizes in (shape, usual[0][0])
            )
            raise FedkinError(f"{client} has {odd} where others have {common}; all clients need the same.")


def common_shape(replies: Mapping[int, Payload]) -> tuple[int, ...]:
    """Return the shape of a sample from replies' ``shape``; raise FedkinError if clients differ."""
    shapes = {f"Client {client}": tuple(reply["shape"]) for client, reply in replies.items()}
    check_same_shape(shapes)
    return next(iter(shapes.values()))


# Failures: why a client gave no usable reply.


FailureKind = Literal["absent", "failed", "refused", "unusable", "unsummed"]
"""Kinds of failures, see `Failure`."""


class Failure(str):
    """Why a client gave no usable reply: the words of a sentence, and their kind.

    ``"absent"`` is a client that did not answer or could not be reached, ``"failed"`` one whose task ended in an error,
    and ``"refused"`` one that never will do it. A reply that is not as it must be is ``"unusable"``. ``"unsummed"`` is
    a client whose sum or pool failed, perhaps because of others.
    """

    kind: FailureKind

    def __new__(cls, kind: FailureKind, text: str) -> Failure:
        failure = super().__new__(cls, text)
        failure.kind = kind
        return failure

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]
        return self.kind, str(self)


def failure_kind(reason: str) -> FailureKind:
    """Return the kind of a failure; that of a mere text is ``"absent"``."""
    return reason.kind if isinstance(reason, Failure) else "absent"


def lasts(reason: str) -> bool:
    """Return whether a client that fails for `reason` is not merely slow or out of reach."""
    return failure_kind(reason) in ("refused", "unusable")


def failure_of(error: Exception) -> Failure:
    """Return why a client's task ended in `error`: what of it is public, see `FedkinError`, or its type.

    Any other message may hold samples, so it stays in the client's log.
    """
    reason = f"the task failed there ({type(error).__name__}; its log says more)"
    return Failure(error.kind, error.public or reason) if isinstance(error, FedkinError) else Failure("failed", reason)


def refusal(reply: Payload, *expected: Expected) -> Failure | None:
    """Return why a reply must not be used, or ``None`` if it may.

    `expected` specify its entries; it may contain others. A reply is refused if a tensor in it is not of real numbers,
    if one of its numbers is not finite, or greater than `MAX_NUMBER`, or whole and beyond 2^53; if a text is long or
    half a character; or if anything is not as it must be.
    """
    if not isinstance(reply, dict):
        return Failure("unusable", "it is no mapping")
    wants = [item for mapping in expected for item in mapping.items()]
    lengths: dict[str, int] = {}
    faults = (_unfit(name, reply.get(name, _ABSENT), want, lengths) for name, want in wants)
    reason = next(filter(None, faults), None) or _never_allowed(reply)
    return None if reason is None else Failure("unusable", reason)


def objection(payload: Payload, takes: Expected) -> str | None:
    """Return why a payload is not as a task `takes` it, or ``None`` if it is."""
    return _unfit("", payload, takes, {})


_ABSENT = object()
"""In the place of an entry that a mapping lacks."""


def _unfit(path: str, value: Any, want: Any, lengths: dict[str, int]) -> str | None:
    """Return why a value is not as `want` says, or ``None``; `lengths` has the values of named sizes."""
    if isinstance(want, Optional | Nullable):
        may_be = value is _ABSENT if isinstance(want, Optional) else value is None
        return None if may_be else _unfit(path, value, want.want, lengths)
    if value is _ABSENT:
        return f"'{path}' is absent"
    if isinstance(want, ListOf):
        if not isinstance(value, list | tuple) or len(value) < want.least:
            return f"'{path}' is no list of {want.least} or more"
        reasons = (_unfit(f"{path}/{index}", item, want.want, lengths) for index, item in enumerate(value))
        return next(filter(None, reasons), None)
    if isinstance(want, Mapping):
        if not isinstance(value, Mapping):
            return f"'{path}' is no mapping"
        start = f"{path}/" if path else ""
        if unknown := [name for name in value if name not in want]:
            return f"'{start}{unknown[0] if is_name(unknown[0]) else '?'}' is not expected"
        entries = ((f"{start}{name}", value.get(name, _ABSENT), item) for name, item in want.items())
        return next(filter(None, (_unfit(*entry, lengths) for entry in entries)), None)
    if isinstance(want, tuple | Array):
        reason = (Array(want, None) if isinstance(want, tuple) else want).objection(value, lengths)
        return None if reason is None else f"'{path}' {reason}"
    return None if want(value) else f"'{path}' is not what it should be"


_REAL = {
    torch.float16, torch.bfloat16, torch.float32, torch.float64,
    torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.bool,
}  # fmt: skip


def _never_allowed(reply: Payload) -> str | None:
    """Return what in a reply is never allowed, such as an infinite number; ``None`` if all of it may be."""
    for number, (path, value) in enumerate(_entries(reply, "")):
        reason = None
        if number > 1_000_000:  # more than any task's, and a second of work for the server
            return "it has more than 1,000,000 entries"
        if isinstance(value, Tensor):
            if value.dtype not in _REAL:
                reason = f"is of {value.dtype}"
            elif value.numel() > 2**40:  # of a tensor that claims to be larger than any memory
                reason = "is too large"
            elif value.is_floating_point() and value.numel():
                reason = _number_objection(*extremes(value))
        elif isinstance(value, str):
            reason = _text_objection(value)
        elif isinstance(value, float):
            reason = _number_objection(value, value)
        elif abs(value) > MAX_COUNT:
            reason = "is beyond 2^53"
        if reason is not None:
            return f"'{path}' {reason}"
    return None


def _entries(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the path and value of each entry that is no mapping and no list."""
    if isinstance(value, Tensor | int | float | str):
        yield path, value
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            if type(item) in (str, bool, int, float):  # without a generator for each
                yield f"{path}/{index}", item
            else:
                yield from _entries(item, f"{path}/{index}")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if not is_text(key):  # shown by what refuses it
                yield path or "?", str(key)[: MAX_TEXT + 1] + "\ud800"
            else:
                yield from _entries(item, f"{path}/{key}" if path else key)


def _number_objection(lowest: float, highest: float) -> str | None:
    if not (isfinite(lowest) and isfinite(highest)):
        return "is not finite"
    return None if max(-lowest, highest) <= MAX_NUMBER else f"is beyond {MAX_NUMBER:g}"


def _text_objection(text: str) -> str | None:
    """Return why a text must not be sent, or ``None`` if it may."""
    if len(text) > MAX_TEXT:
        return f"is a text of more than {MAX_TEXT} characters"
    return "is no valid text" if re.search("[\ud800-\udfff]", text) else None  # half a character, which no encoding has
