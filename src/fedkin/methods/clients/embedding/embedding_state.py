"""State of one-shot clustering by embeddings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from fedkin.methods.clients.one_shot.one_shot import OneShotState


@dataclass(frozen=True)
class EmbeddingState(OneShotState):
    """State of one-shot clustering by embeddings: the messages, and the encoder that they are made with.

    Attributes
    ----------
    encoder : dict
        Plain values that `Encoder.of` makes the encoder from.
    vector : Tensor
        The encoder's model ``(size,)``.
    segments : int
        Number of parts of a message: one for each class, or for each prototype.
    template : Tensor
        float32 ``(segments, width)``, the mean prototypes to which each client's are matched; empty with labels.
    centre : Tensor
        float32 ``(width,)``, the mean direction of all codes; empty before it is known, and if messages are bits.
    radius : float
        Distance from the centre that is scaled to 1 in class sums.
    """

    encoder: dict[str, Any] = field(default_factory=dict)
    vector: Tensor = field(default_factory=lambda: torch.zeros(0))
    segments: int = 0
    template: Tensor = field(default_factory=lambda: torch.zeros(0, 0))
    centre: Tensor = field(default_factory=lambda: torch.zeros(0))
    radius: float = 1.0
