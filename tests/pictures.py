"""Labelled clients with small pictures: every class is a pattern, which each cluster sees turned its own way."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from fedkin.core import Client

CLASSES, SIDE = 5, 8
PATTERNS = torch.randn(CLASSES, 1, SIDE, SIDE, generator=torch.Generator().manual_seed(7))
TURNS = [0, 1, 2, 1, 0, 2, 0, 1, 2, 2, 1, 0, 1, 2, 0]
"""Quarters of a turn by client: three clusters of five."""

TRAINING: dict[str, Any] = {"module": "perceptron", "local_steps": 1, "batch_size": 1000, "learning_rate": 0.1}
"""Without any randomness: a client's id does not matter."""


def client(
    number: int, turns: int = 0, samples: int = 20, classes: Iterable[int] = range(CLASSES), seed: int | None = None
) -> Client:
    """One client; its noise depends on `seed`, by default its number."""
    rng = torch.Generator().manual_seed(number if seed is None else seed)
    held = list(classes)
    y = torch.tensor([held[at % len(held)] for at in range(samples)])
    x = PATTERNS[y] + 0.3 * torch.randn(samples, 1, SIDE, SIDE, generator=rng)
    return Client(number, x.rot90(turns, (2, 3)).contiguous(), y)


def clients(turns: Sequence[int] = TURNS) -> list[Client]:
    """Clients 0..n-1, turned as given."""
    return [client(number, turn) for number, turn in enumerate(turns)]
