"""What all methods share that cluster samples: facts about the clients, and telling them the clusters in the end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from fedkin.core import Federation, Payload, Record, State, Task
from fedkin.data.reading.arrays import common_shape
from fedkin.methods.samples.sample_tasks import describe

_ATTEMPTS = 5
"""How often a client is told its clusters, should it not answer."""


@dataclass(frozen=True)
class Facts:
    """What clients say of their data before anything begins.

    Attributes
    ----------
    shape : tuple of int
        Of one sample: (features,) or (channels, height, width).
    samples : dict of int to int
        Number of samples by client.
    unit : bool
        Whether all values lie in [0, 1].
    """

    shape: tuple[int, ...]
    samples: dict[int, int]
    unit: bool

    @property
    def is_image(self) -> bool:
        return len(self.shape) == 3


class SampleMethod(ABC):
    """Base of methods that give every sample of every client a cluster.

    A result holds ``n_clusters`` and all that `predict` needs. When a method has come to its end, every client has its
    samples' clusters in ``state["clusters"]``, int64 ``(n,)``.
    """

    state_type: ClassVar[type[State]]

    @abstractmethod
    def init(self, fed: Federation) -> Any: ...

    @abstractmethod
    def step(self, fed: Federation, state: Any) -> tuple[Any, Record]: ...

    @abstractmethod
    def result(self, state: Any) -> dict[str, Any]: ...

    @property
    def moves_data(self) -> bool:
        """Whether samples leave their client, as for a yardstick."""
        return False

    @staticmethod
    @abstractmethod
    def predict(result: Mapping[str, Any], x: Tensor) -> Tensor:
        """Cluster of any samples ``(n, *shape)``, int64 ``(n,)``."""

    @staticmethod
    def embed(result: Mapping[str, Any], x: Tensor) -> Tensor:
        """The representation that clusters were found in: float32 ``(n, width)``; by default the samples themselves."""
        return x.flatten(1)

    def ready(self, state: Any) -> bool:
        """Whether `result` of this state can tell clusters already."""
        return True


def describe_clients(fed: Federation) -> Facts:
    """What the clients say of their data.

    Raises
    ------
    FedkinError
        If clients differ in the shape of their samples, or one cannot be reached.
    """
    replies = fed.ask_until_all_reply(describe, {})
    unit = all(reply["lowest"] >= 0.0 and reply["highest"] <= 1.0 for reply in replies.values())
    return Facts(common_shape(replies), {client: reply["samples"] for client, reply in replies.items()}, unit)


def broadcast(fed: Federation, task: Task, payloads: Mapping[int, Payload]) -> None:
    """Ask each client in `payloads` to do `task`, and those that do not answer again, four times more."""
    fed.ask_again(task, payloads, _ATTEMPTS)
