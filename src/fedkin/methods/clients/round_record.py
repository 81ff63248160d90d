"""Record of a round, common to all methods of clustered federated learning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from fedkin.core import Federation, Record

UNKNOWN = -1
"""Label of a client whose cluster is not known yet."""


@dataclass(frozen=True)
class Participation:
    """Clients that replied in a round, in order of id, and their training losses.

    `loss` is the mean of these clients; `losses` are by client, empty with secure sums.
    """

    answered: list[int]
    loss: float | None
    losses: Mapping[int, float] = field(default_factory=dict)

    @classmethod
    def each(cls, losses: Mapping[int, float]) -> Participation:
        """Return the participation of the clients with these losses."""
        return cls(sorted(losses), sum(losses.values()) / len(losses) if losses else None, losses)


def round_record(
    fed: Federation,
    participation: Participation | Mapping[int, float],
    labels: Tensor,
    *,
    missing: Mapping[int, str] | None = None,
    **values: Any,
) -> Record:
    """Return the record of a round, with the values that all methods of this family report.

    `missing` are the clients missing in earlier exchanges of the round; those of the last one are added.

    ``loss``: mean training loss over the clients that replied; ``losses``: the same by client; ``clusters``: the number
    of clusters with clients; ``sizes``: clients in each cluster, up to the last with any; ``labels``: the cluster of
    each client, -1 where it is unknown or the client has not joined yet.
    """
    participation = participation if isinstance(participation, Participation) else Participation.each(participation)
    labels = labels.masked_fill(torch.tensor([i in fed.away for i in fed.ids]), UNKNOWN)
    known = labels[labels >= 0]
    sizes = known.bincount().tolist()
    common = {
        "loss": participation.loss,
        "clusters": sum(size > 0 for size in sizes),
        "sizes": sizes,
        "labels": labels.tolist(),
        "losses": {str(client): loss for client, loss in participation.losses.items()},
    }
    away = dict(sorted(({**missing} | fed.missing).items())) if missing else dict(fed.missing)
    return Record(answered=participation.answered, missing=away, values=common | values)
