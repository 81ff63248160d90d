"""Replies that no client of this version would send."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from fedkin.core import Payload
from fedkin.engines.local import LocalFederation

Spoil = Callable[[Payload], Payload]


def shorter(reply: Payload) -> Payload:
    """The first tensor without its last row."""
    first = next((name for name, value in reply.items() if isinstance(value, Tensor) and len(value)), "")
    return {name: value[:-1] if name == first else value for name, value in reply.items()}


def wider(reply: Payload) -> Payload:
    """Every tensor with one more number in each row."""
    return {name: _wider(value) if isinstance(value, Tensor) else value for name, value in reply.items()}


def in_words(reply: Payload) -> Payload:
    """Words where there should be numbers."""
    return dict.fromkeys(reply, "many")


def poorer(reply: Payload) -> Payload:
    """All but the first thing that a reply should hold."""
    return dict(list(reply.items())[1:]) or {"other": 1}


def by(client: int, spoil: Spoil, patch: pytest.MonkeyPatch) -> None:
    """Spoil all replies of a client that hold something."""
    deliver = LocalFederation.deliver

    def spoiling(fed: LocalFederation, *asked: Any) -> Any:
        for i, reply in deliver(fed, *asked):
            wrong = i == client and isinstance(reply, dict) and reply
            yield i, spoil(reply) if wrong else reply

    patch.setattr(LocalFederation, "deliver", spoiling)


def _wider(value: Tensor) -> Tensor:
    return torch.cat([value, value[..., :1]], dim=-1) if value.numel() else value
