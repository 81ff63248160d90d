"""Files for trees of tensors and plain values: tensors as safetensors, everything else as JSON in its header.

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
_LONGEST_HEADER = 100_000_000
"""Bytes of a header that safetensors reads; longer ones are not parsed."""
_PIECE = 1 << 20
"""Bytes of a file that are read at once."""
_START = b'{"__metadata__":{"tree":"'
_BLANK = "0" * 64
"""Placeholder for the checksum while it is computed."""


def owned(tree: Any) -> Any:
    """Return a copy of `tree` as reading a file would give it: no views, keys sorted, tuples as lists."""
    tensors, text = pack(tree)
    return unpack({name: tensor.clone() for name, tensor in tensors.items()}, text)


def save_tree(path: Path, tree: Any) -> None:
    """Write an `owned` tree as one safetensors file with a checksum; the same tree gives the same bytes."""
    write_atomically(path, with_checksum(tree))


def with_checksum(tree: Any) -> bytes:
    """Return an `owned` tree as the content of a file for `load_tree`, with its SHA-256 in the header.

    The checksum is that of the content with zeros in place of the checksum.
    """
    tensors, text = pack(tree)
    content = memoryview(save(tensors, metadata={_TREE: _BLANK + text}))
    at = 8 + len(_START)
    return b"".join([content[:at], sha256(content).hexdigest().encode(), content[at + len(_BLANK) :]])


def to_bytes(tree: Any) -> bytes:
    """Return an `owned` tree as the content of a safetensors file; the same tree gives the same bytes."""
    tensors, text = pack(tree)
    return save(tensors, metadata={_TREE: text})


def from_bytes(content: bytes) -> Any:
    """Return the tree that `to_bytes` wrote; nothing in `content` is ever unpickled.

    Raises FedkinError if `to_bytes` did not write it.
    """
    try:
        length = int.from_bytes(content[:8], "little")
        if length > _LONGEST_HEADER:
            raise ValueError
        text = json.loads(content[8 : 8 + length])["__metadata__"][_TREE]
        return unpack(load(content), text)
    except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError, MemoryError) as error:
        raise FedkinError(f"It is not safetensors as fedkin writes them ({type(error).__name__}).") from error


def load_tree(path: Path) -> Any:
    """Read the tree that `save_tree` wrote.

    Raises FileError if the file is absent, unreadable, damaged or not written by `save_tree`.
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
    """Return the checksum that a file contains and that of its content; both empty if it was written without one."""
    with path.open("rb") as file:
        start = file.read(8 + len(_START) + len(_BLANK))
        found = re.fullmatch(re.escape(_START) + rb"([0-9a-f]{64})", start[8:])
        if found is None:
            return "", ""
        digest = sha256(start[: -len(_BLANK)] + _BLANK.encode())
        while piece := file.read(_PIECE):
            digest.update(piece)
    return found[1].decode(), digest.hexdigest()
