"""What the server of clustering by embeddings knows between steps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from fedkin.methods.clients.one_shot.one_shot import OneShotState


@dataclass(frozen=True)
class EmbeddingState(OneShotState):
    """State with the encoder.

    Attributes
    ----------
    encoder : dict
        Plain values that `Encoder.of` makes it from.
    vector : Tensor
        Its model ``(size,)``.
    segments : int
        Parts of a message: one for each class, or for each prototype.
    template : Tensor
        float32 ``(segments, width)``, what unlabelled clients' prototypes are matched to; empty with labels.
    centre : Tensor
        float32 ``(width,)``, of all directions of codes; empty before it is known, and where messages are bits.
    radius : float
        Length around the centre that is 1 in class sums.
    """

    encoder: dict[str, Any] = field(default_factory=dict)
    vector: Tensor = field(default_factory=lambda: torch.zeros(0))
    segments: int = 0
    template: Tensor = field(default_factory=lambda: torch.zeros(0, 0))
    centre: Tensor = field(default_factory=lambda: torch.zeros(0))
    radius: float = 1.0
