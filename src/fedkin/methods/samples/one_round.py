"""Methods that find their centroids in one exchange: every client sends something once, the server does the rest."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from fedkin.core import Federation, FedkinError, Payload, Record, Task
from fedkin.core.method import display_name
from fedkin.methods.samples.centroid_method import CentroidMethod
from fedkin.methods.samples.sample_method import describe_clients

_ATTEMPTS = 20

RoundOutcome = tuple[dict[str, Any], dict[str, Any]]
"""Changes of the state, and plain values that tell about them."""


@dataclass(frozen=True)
class OneRoundMethod(CentroidMethod):
    """A method of one step. Clients that did not answer in it are left out, and told their clusters all the same.

    If nobody answered, the next step tries again, up to twenty times.
    """

    asked: ClassVar[Task]
    """What clients do."""
    sent: ClassVar[str]
    """What their points are called in a reply, ``(n, width)``."""

    @abstractmethod
    def payload(self, state: Any) -> Payload:
        """What clients are told for it."""

    @abstractmethod
    def clustered(self, fed: Federation, state: Any, replies: dict[int, Payload]) -> RoundOutcome:
        """What one or more `replies` lead to."""

    def init(self, fed: Federation) -> Any:
        """Which features the clients' samples are compared by; nothing is found yet."""
        return self.state_type(**self.fields(describe_clients(fed).shape))

    def step(self, fed: Federation, state: Any) -> tuple[Any, Record]:
        """The exchange, and word of the clusters to all clients."""
        payloads = dict.fromkeys(fed.present, self.payload(state))
        replies = fed.ask(self.asked, payloads, {self.sent: ("points", state.width)})
        missing = dict(fed.missing)
        if not replies:
            return self._again(fed, state, missing)
        changes, told = self.clustered(fed, state, replies)
        after = state.next(finished=True, **changes)
        self.conclude(fed, after)
        return after, Record(answered=list(replies), missing=missing, values=told)

    def ready(self, state: Any) -> bool:
        """Whether there are centroids."""
        return len(state.centroids) > 0

    def _again(self, fed: Federation, state: Any, missing: dict[int, str]) -> tuple[Any, Record]:
        if state.steps + 1 == _ATTEMPTS:
            reasons = "; ".join(sorted(set(missing.values())))
            raise FedkinError(f"No client answered {display_name(type(self))} in {_ATTEMPTS} attempts ({reasons}).")
        fed.pause(state.steps + 1)
        return state.next(), Record(answered=[], missing=missing)
