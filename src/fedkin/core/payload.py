"""Serialisation of what clients and server send each other: trees of named tensors and plain values.

`pack` splits such a tree into tensors (for safetensors) and JSON; `unpack` is its inverse. Messages,
checkpoints and saved models all go through this pair, so nothing in fedkin is ever unpickled.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from fedkin.core.errors import kind_of

Payload = dict[str, Any]
"""Names to tensors, numbers, strings, booleans, ``None``, or lists and string-keyed dicts of them."""

_TENSOR = "__tensor__"
_DEEPEST = 64
_PLAIN = frozenset({str, int, float, bool, type(None)})
"""Types that JSON represents directly; long lists hold these."""


def pack(tree: Any) -> tuple[dict[str, Tensor], str]:
    """Split `tree` into its tensors, keyed by path, and the JSON text of everything else.

    Raises
    ------
    TypeError
        If the tree holds anything that is neither a tensor nor plain JSON.
    """
    tensors: dict[str, Tensor] = {}
    return tensors, json.dumps(_packed(tree, "", tensors), sort_keys=True)


def _packed(value: Any, path: str, tensors: dict[str, Tensor]) -> Any:
    """Return plain JSON with paths in place of tensors, which go into `tensors`.

    It is no function within `pack`, which would hold itself, and all tensors until the next collection of garbage.
    """
    if isinstance(value, Tensor):
        tensors[path] = value.detach().contiguous()
        return {_TENSOR: path}
    if isinstance(value, Mapping):
        return {_name(key, path): _packed(item, f"{path}/{_escaped(key)}", tensors) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [
            item if type(item) in _PLAIN else _packed(item, f"{path}/{index}", tensors)
            for index, item in enumerate(value)
        ]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"{path or 'payload'} holds a {type(value).__name__}; only tensors and plain values may be sent.")


def foreign(tree: Any, path: str = "") -> str | None:
    """Return where a tree holds what `pack` does not take, and what it is, in words; ``None`` if it takes all of it."""
    if isinstance(tree, Tensor) or type(tree) in _PLAIN:
        return None
    if isinstance(tree, Mapping):
        for key, item in tree.items():
            if not isinstance(key, str) or key == _TENSOR:
                return f"{_at(path)}a dict with the key {key!r}; keys are strings"
            if (found := foreign(item, f"{path}/{key}" if path else key)) is not None:
                return found
        return None
    if isinstance(tree, list | tuple):
        items = (foreign(item, f"{path}/{at}") for at, item in enumerate(tree) if type(item) not in _PLAIN)
        return next((found for found in items if found is not None), None)
    if isinstance(tree, bool | int | float | str):
        return None
    advice = " (torch.from_numpy makes a tensor of it)" if isinstance(tree, np.ndarray) else ""
    return f"{_at(path)}{kind_of(tree)}{advice}"


def detached(tree: Any) -> Any:
    """Return a tree whose tensors require no gradient, as `pack` sends them: the same one if none does."""
    if isinstance(tree, Tensor):
        return tree.detach() if tree.requires_grad else tree
    if isinstance(tree, Mapping):
        items = {key: detached(item) for key, item in tree.items()}
        return items if any(items[key] is not tree[key] for key in items) else tree
    if isinstance(tree, list | tuple):
        each = [item if type(item) in _PLAIN else detached(item) for item in tree]
        return each if any(new is not old for new, old in zip(each, tree, strict=True)) else tree
    return tree


def _at(path: str) -> str:
    return f"'{path}', " if path else ""


def unpack(tensors: Mapping[str, Tensor], text: str) -> Any:
    """Return the tree that `pack` split; tuples come back as lists.

    Raises
    ------
    ValueError
        If the text is not what `pack` writes, or is nested deeper than any tree of fedkin's.
    KeyError
        If a tensor is missing.
    """
    return _unpacked(json.loads(text), tensors, 0)


def _unpacked(value: Any, tensors: Mapping[str, Tensor], depth: int) -> Any:
    if depth > _DEEPEST:
        raise ValueError("nested too deep")
    if isinstance(value, dict):
        if _TENSOR in value:
            return tensors[value[_TENSOR]]
        return {key: _unpacked(item, tensors, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [item if type(item) in _PLAIN else _unpacked(item, tensors, depth + 1) for item in value]
    return value


def payload_bytes(payload: Payload) -> int:
    """Return the size of a payload when sent: its tensors' bytes plus the JSON text of the rest."""
    tensors, text = pack(payload)
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values()) + len(text)


def _escaped(key: Any) -> str:
    """Escape a key as in a JSON pointer (RFC 6901), so that no two paths are the same."""
    return str(key).replace("~", "~0").replace("/", "~1")


def _name(key: Any, path: str) -> str:
    if not isinstance(key, str) or key == _TENSOR:
        raise TypeError(f"{path or 'payload'} has the key {key!r}; keys must be strings.")
    return key


@dataclass
class Traffic:
    """Bytes transmitted so far: `sent` to clients and `received` from them."""

    sent: int = 0
    received: int = 0

    def send(self, payloads: Iterable[Payload]) -> None:
        """Count sent payloads; one that clients share by reference is measured once and counted for each of them."""
        sizes: dict[int, int] = {}
        for payload in payloads:
            if id(payload) not in sizes:
                sizes[id(payload)] = payload_bytes(payload)
            self.sent += sizes[id(payload)]
