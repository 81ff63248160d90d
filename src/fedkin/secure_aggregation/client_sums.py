"""Sums over clients for methods that only need sums: masked where at least three clients take part.

Then what each of them adds is hidden by masks, whether or not the run asks for secure sums. With fewer clients the
server adds up what it receives.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from fedkin.core import Federation, Payload, Task
from fedkin.secure_aggregation.client_checks import MIN_CLIENTS
from fedkin.secure_aggregation.sum_tasks import Term
from fedkin.secure_aggregation.sums import check_enough, summed

MAX_HIDDEN = 64
"""Maximum number of clients whose sums are hidden unless the run asks for it: each pair of clients needs a mask."""
_ATTEMPTS = 3


def can_hide(clients: int) -> bool:
    """Return whether sums over this number of clients are masked even if the run does not ask for secure sums."""
    return MIN_CLIENTS <= clients <= MAX_HIDDEN


class ClientSums:
    """Sums over all clients present, one exchange after another, and the clients that took part.

    `hidden` says whether the server sees sums alone. `answered` are clients in every sum so far, and `missing` those
    that are not, and why. `exchanges` is the number of sums asked for.
    """

    def __init__(self, fed: Federation) -> None:
        if fed.secure_sums:
            check_enough(len(fed.present))
        self.fed = fed
        self.hidden = fed.secure_sums or can_hide(len(fed.present))
        self.answered, self.missing, self.exchanges = list(fed.present), dict[int, str](), 0

    def ask(self, asked: Task, payload: Payload, wanted: Mapping[str, tuple[int, ...]]) -> dict[str, Tensor] | None:
        """Have all clients do `asked`; return the sums of their replies, float64, by name, or ``None`` without a sum.

        `wanted` are the shapes of the tensors of a reply that are summed.
        """
        self.exchanges += 1
        payloads, totals, answered = self.fed.all(**payload), None, list[int]()
        if self.hidden:
            terms = [Term(name, shape) for name, shape in wanted.items()]
            for attempt in range(_ATTEMPTS):
                if attempt:
                    self.fed.pause(attempt)
                if found := summed(self.fed, asked, payloads, terms).get(0):
                    answered, totals = found.clients, found.totals
                    break
        elif replies := self.fed.ask_again(asked, payloads, _ATTEMPTS, dict(wanted)):
            answered = list(replies)
            totals = {name: torch.stack([reply[name].double() for reply in replies.values()]).sum(0) for name in wanted}
        self.missing.update(self.fed.missing)
        self.answered = [client for client in self.answered if client in set(answered)]
        return totals

    def facts(self) -> dict[str, object]:
        """Return how the sums were made, for the record."""
        return {"exchanges": self.exchanges, "sums": "hidden" if self.hidden else "seen by the server"}
