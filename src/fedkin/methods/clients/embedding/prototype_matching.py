"""Matching of prototypes across unlabelled clients, each of which numbers them in its own order."""

from __future__ import annotations

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

_SWEEPS = 5


def matched(messages: Tensor, segments: int) -> tuple[Tensor, Tensor]:
    """Put the prototypes of all messages in a common order.

    The order of the message that the others match best comes first; then every message is matched to the mean of all,
    until nothing changes. Only messages already sent are used, so matching costs no privacy.

    Parameters
    ----------
    messages : Tensor
        uint8 ``(n, segments * width)``, each in its own order.
    segments : int

    Returns
    -------
    template : Tensor
        float32 ``(segments, width)``, the mean of all in the common order.
    messages : Tensor
        As given, in the common order.
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
