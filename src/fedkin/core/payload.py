"""What may cross between a site and the federation: named tensors and plain values.

`pack` splits such a tree into tensors (for safetensors) and JSON; `unpack` is its inverse. Messages,
checkpoints and saved models all go through this pair, so nothing in fedkin is ever unpickled.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any

from torch import Tensor

Payload = dict[str, Any]
"""Names to tensors, numbers, strings, booleans, ``None``, or lists and string-keyed dicts of them."""

_TENSOR = "__tensor__"


def pack(tree: Any) -> tuple[dict[str, Tensor], str]:
    """Split `tree` into its tensors, keyed by path, and the JSON text of everything else.

    Raises
    ------
    TypeError
        If the tree holds anything that is neither a tensor nor plain JSON.
    """
    tensors: dict[str, Tensor] = {}

    def walk(value: Any, path: str) -> Any:
        if isinstance(value, Tensor):
            tensors[path] = value.detach().contiguous()
            return {_TENSOR: path}
        if isinstance(value, Mapping):
            return {_name(key, path): walk(item, f"{path}/{_escaped(key)}") for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [walk(item, f"{path}/{index}") for index, item in enumerate(value)]
        if value is None or isinstance(value, bool | int | float | str):
            return value
        raise TypeError(f"{path or 'payload'} holds a {type(value).__name__}; only tensors and plain values may cross.")

    return tensors, json.dumps(walk(tree, ""), sort_keys=True)


def unpack(tensors: Mapping[str, Tensor], text: str) -> Any:
    """The tree that `pack` split; tuples come back as lists."""

    def walk(value: Any) -> Any:
        if isinstance(value, dict):
            return tensors[value[_TENSOR]] if _TENSOR in value else {key: walk(item) for key, item in value.items()}
        return [walk(item) for item in value] if isinstance(value, list) else value

    return walk(json.loads(text))


def payload_bytes(payload: Payload) -> int:
    """Size of a payload on a wire: its tensors' bytes plus the JSON text of the rest."""
    tensors, text = pack(payload)
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values()) + len(text)


def refusal(payload: Payload, shapes: Mapping[str, tuple[int | None, ...]] | None = None) -> str | None:
    """Why a reply must not be used, or ``None`` if it may.

    A reply is refused if a tensor or number in it is not finite, or if a tensor named in `shapes` is absent or
    of another shape (``None`` in a shape stands for any length).
    """
    for path, value in _leaves(payload):
        numbers = _extremes(value) if isinstance(value, Tensor) else (value,)
        finite = all(number == number and abs(number) != float("inf") for number in numbers)
        if not finite:
            return f"'{path}' is not finite"
    for name, shape in (shapes or {}).items():
        tensor = payload.get(name)
        if not isinstance(tensor, Tensor):
            return f"'{name}' is absent"
        if len(tensor.shape) != len(shape) or any(
            want not in (None, got) for want, got in zip(shape, tensor.shape, strict=True)
        ):
            return f"'{name}' has shape {tuple(tensor.shape)} where {shape} was expected"
    return None


def _extremes(tensor: Tensor) -> tuple[float, ...]:
    """Numbers that are finite if and only if all elements are; unlike `torch.isfinite` this needs no memory.

    The sum is by far the fastest and not finite if any element is not; where large elements make it overflow, the least
    and the greatest decide.
    """
    if not tensor.numel():
        return ()
    total = float(tensor.sum())
    return (total,) if isfinite(total) else tuple(map(float, tensor.aminmax()))


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(item, f"{path}/{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _leaves(item, f"{path}/{index}")
    elif isinstance(value, Tensor | int | float):
        yield path, value


def _escaped(key: Any) -> str:
    """As in a JSON pointer (RFC 6901), so that no two paths are the same."""
    return str(key).replace("~", "~0").replace("/", "~1")


def _name(key: Any, path: str) -> str:
    if not isinstance(key, str) or key == _TENSOR:
        raise TypeError(f"{path or 'payload'} has the key {key!r}; keys must be strings.")
    return key
