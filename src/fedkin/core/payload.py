"""Serialisation of what clients and server send each other: trees of named tensors and plain values.

`pack` splits such a tree into tensors (for safetensors) and JSON; `unpack` is its inverse. Messages,
checkpoints and saved models all go through this pair, so nothing in fedkin is ever unpickled.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
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
