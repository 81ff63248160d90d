"""One client of a federation, as a task sees it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fedkin.core.noise import Noise, Secret

LASTING = "lasting_"
"""How names in a client's state begin that a client keeps even when a run goes back to an earlier step."""


@dataclass
class Client:
    """A client's data and its private memory.

    Attributes
    ----------
    id : int
        Stable number of the client, ``0..n-1``; never a transport's node id.
    x : Tensor
        float32, ``(n, features)`` or ``(n, channels, height, width)``.
    y : Tensor or None
        int64 ``(n,)`` labels the client itself holds and may use; ``None`` where data are unlabelled.
    state : dict of str to Tensor
        What tasks remember between exchanges. It never leaves the client. When a run is taken up at an earlier step, so
        is this, but for names that begin with ``lasting_``, such as accounts of what was given away.
    rng : torch.Generator
        Derived by the engine for every exchange from (run seed, client id, exchange number).
    noise : Secret or torch.Generator
        For what is to hide something from the server, too, which knows the seed; see `fedkin.core.noise`. The local
        engine takes `rng`, for inside one process nothing is secret and runs are to repeat.
    secret : callable
        So many bytes that nobody else can guess; derived by the local engine, for the same reason.
    reserve : callable
        Whether a run may spend this much on the client, a mu of Gaussian differential privacy, over all its exchanges; if
        so, a client with a budget of its own has written it down. Others let a run spend anything.
    """

    id: int
    x: Tensor
    y: Tensor | None = None
    state: dict[str, Tensor] = field(default_factory=dict)
    rng: torch.Generator = field(default_factory=torch.Generator, repr=False)
    noise: Noise = field(default_factory=Secret, repr=False)
    secret: Callable[[int], bytes] = field(default=os.urandom, repr=False)
    reserve: Callable[[float], bool] = field(default=lambda mu: True, repr=False)

    def __len__(self) -> int:
        return len(self.x)

    @classmethod
    def newcomer(cls, x: Tensor, y: Tensor | None, rng: torch.Generator) -> Client:
        """A client in this process, outside of any federation; `rng` draws its noise, too, so that it is repeatable."""
        return cls(0, x, y, rng=rng, noise=rng)
