"""What the server does with flipped bits: who flips how often, what it asks for, and the clusters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fedkin.core import Federation, Payload
from fedkin.methods.clients.embedding.embedding_tasks import embed
from fedkin.methods.clients.embedding.prototype_matching import matched_to
from fedkin.methods.clients.one_shot.tree_cuts import Clustering, Mode, cluster
from fedkin.privacy.accounting import bit_epsilon
from fedkin.privacy.randomised_response import unpacked


@dataclass(frozen=True)
class FlippedBits:
    """Messages of bits.

    Attributes
    ----------
    bits : int
        Of a message.
    flips : list of float
        Probabilities of a flip that clients take in turn.
    mode : {"exact", "gap", "bayes"}
        How the tree of messages is cut.
    template : Tensor
        See `EmbeddingState`.
    """

    bits: int
    flips: list[float]
    mode: Mode
    template: Tensor

    def ask(self, fed: Federation, how: Payload, clients: Sequence[int]) -> dict[int, Tensor]:
        """Ask clients for their bits ``(bits,)`` (algorithm 1); prototypes are matched, once there is a template."""
        payloads = {flip: how | {"flip": flip} for flip in sorted(set(self.flips))}
        asked = {client: payloads[self.flips[client % len(self.flips)]] for client in clients}
        replies = fed.ask(embed, asked, {"bits": (-(-self.bits // 8),)})
        found = {client: unpacked(reply["bits"], self.bits) for client, reply in replies.items()}
        if self.template.numel():
            found = {client: matched_to(self.template, message) for client, message in found.items()}
        return found

    def clustered(self, messages: Tensor, min_size: int, rng: torch.Generator) -> tuple[Clustering, dict[str, Any]]:
        """Return clusters of messages ``(m, bits)`` (algorithm 2), and plain values for the record."""
        same = self.flips[0] if len(self.flips) == 1 else None
        found = cluster(messages, self.mode, min_size, rng, flips=same)
        return found, {
            "mode": self.mode,
            "separable": found.separable,
            "cut": found.cut,
            "heights": found.heights,
            "noise": found.noise,
            "bits": self.bits,
            "flip": self.flips if same is None else same,
            "epsilon_bit": bit_epsilon(min(self.flips)),
            "epsilon": self.bits * bit_epsilon(min(self.flips)),
        }

    def described(self) -> dict[str, Any]:
        """Return what an unseen client needs for its bits."""
        return {"flip": max(self.flips), "template": self.template}
