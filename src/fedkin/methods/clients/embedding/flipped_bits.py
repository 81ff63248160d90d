"""What the server does with flipped bits: who flips how often, what it asks for, and the clusters.

Prototypes of unlabelled clients, each of which numbers them in its own order, are matched first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from fedkin.core import Federation, Payload
from fedkin.methods.clients.embedding.embedding_tasks import embed
from fedkin.methods.clients.one_shot.tree_cuts import Clustering, Mode, cluster
from fedkin.privacy.accounting import bit_epsilon
from fedkin.privacy.randomised_response import unpacked

_SWEEPS = 5


@dataclass(frozen=True)
class FlippedBits:
    """Messages of `bits` bits each; clients take the probabilities of a flip, `flips`, in turn.

    `mode` is how the tree of messages is cut, and `template` is as in `EmbeddingState`.
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


def matched(messages: Tensor, segments: int) -> tuple[Tensor, Tensor]:
    """Put the prototypes of all messages in a common order; return their mean, and the messages, in this order.

    Messages are uint8 ``(n, segments * width)``, given each in its own order; the mean is float32 ``(segments,
    width)``. The order of the message that the others match best comes first; then every message is matched to the mean
    of all, until nothing changes. Only messages already sent are used, so matching costs no privacy.
    """
    parts = messages.unflatten(1, (segments, -1))
    template = _most_central(parts).float()
    for _ in range(_SWEEPS):
        ordered = torch.stack([_in_order(template, part) for part in parts])
        if torch.equal(mean := ordered.float().mean(0), template):
            break
        template = mean
    return template, ordered.flatten(1)


def matched_to(template: Tensor, message: Tensor) -> Tensor:
    """Return one message ``(segments * width,)`` in the order of `template` ``(segments, width)``."""
    return _in_order(template, message.unflatten(0, (len(template), -1))).flatten()


def _most_central(parts: Tensor) -> Tensor:
    """Return the message, out of 20 evenly spaced ones or more, that the others match best."""
    some = parts[:: max(1, len(parts) // 20)]
    costs = [
        sum(float(_costs(one.float(), other)[_assignment(one.float(), other)].sum()) for other in some) for one in some
    ]
    return some[int(torch.tensor(costs).argmin())]


def _in_order(template: Tensor, part: Tensor) -> Tensor:
    _, columns = _assignment(template, part)
    return part[columns]


def _assignment(template: Tensor, part: Tensor) -> tuple[Tensor, Tensor]:
    rows, columns = linear_sum_assignment(_costs(template, part).numpy())
    return torch.from_numpy(rows), torch.from_numpy(columns)


def _costs(template: Tensor, part: Tensor) -> Tensor:
    """Return the squared distances between segments ``(segments, segments)``."""
    return torch.cdist(template, part.float()).square()
