"""Trees of tensors and plain values as one file: tensors as safetensors, everything else as JSON in its header.

On a disk the JSON has the file's checksum before it, so that a file with a single bit flipped is refused.
"""

from __future__ import annotations

import json
import re
from hashlib import sha256
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import load, save

from fedkin.core.errors import FedkinError
from fedkin.core.files import FileError, check_regular, write_atomically
from fedkin.core.payload import pack, unpack

_TREE = "tree"
_PIECE = 1 << 20
"""Bytes of a file that are read at once."""
_START = b'{"__metadata__":{"tree":"'
_BLANK = "0" * 64
"""Stands for the checksum while that is computed."""


def owned(tree: Any) -> Any:
    """A copy of `tree` as a file would give it back: no tensor a view of another, keys in order, lists for tuples."""
    tensors, text = pack(tree)
    return unpack({name: tensor.clone() for name, tensor in tensors.items()}, text)


def save_tree(path: Path, tree: Any) -> None:
    """Write an `owned` tree as one safetensors file with a checksum; the same tree gives the same bytes."""
    write_atomically(path, with_checksum(tree))


def with_checksum(tree: Any) -> bytes:
    """An `owned` tree as the content of a file that `load_tree` reads: SHA-256 of it all, with zeros in its place."""
    tensors, text = pack(tree)
    content = memoryview(save(tensors, metadata={_TREE: _BLANK + text}))
    at = 8 + len(_START)
    return b"".join([content[:at], sha256(content).hexdigest().encode(), content[at + len(_BLANK) :]])


def to_bytes(tree: Any) -> bytes:
    """An `owned` tree as the content of one safetensors file; the same tree gives the same bytes."""
    tensors, text = pack(tree)
    return save(tensors, metadata={_TREE: text})


def from_bytes(content: bytes) -> Any:
    """The tree that `to_bytes` wrote. Nothing in `content` is ever unpickled.

    Raises
    ------
    FedkinError
        If `to_bytes` did not write it.
    """
    try:
        length = int.from_bytes(content[:8], "little")
        text = json.loads(content[8 : 8 + length])["__metadata__"][_TREE]
        return unpack(load(content), text)
    except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError, MemoryError) as error:
        raise FedkinError(f"It is not safetensors as fedkin writes them ({type(error).__name__}).") from error


def load_tree(path: Path) -> Any:
    """The tree that `save_tree` wrote.

    Raises
    ------
    FileError
        If the file is absent, unreadable, damaged or not written by `save_tree`.
    """
    check_regular(path)
    try:
        checksum, computed = _checksums(path)
        if checksum == computed:
            with safe_open(path, framework="pt") as file:
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
                return owned(unpack(tensors, file.metadata()[_TREE].removeprefix(checksum)))
    except (OSError, SafetensorError, KeyError, TypeError, ValueError, RuntimeError, MemoryError) as error:
        raise FileError(f"Cannot read {path}: it is not a file that fedkin wrote ({error}).") from error
    raise FileError(f"{path} is damaged: its checksum is not that of its content.")


def _checksums(path: Path) -> tuple[str, str]:
    """The checksum in a file, and the one of its content; both empty where an earlier version wrote none."""
    with path.open("rb") as file:
        start = file.read(8 + len(_START) + len(_BLANK))
        found = re.fullmatch(re.escape(_START) + rb"([0-9a-f]{64})", start[8:])
        if found is None:
            return "", ""
        digest = sha256(start[: -len(_BLANK)] + _BLANK.encode())
        while piece := file.read(_PIECE):
            digest.update(piece)
    return found[1].decode(), digest.hexdigest()
