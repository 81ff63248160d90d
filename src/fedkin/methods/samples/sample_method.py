"""Base of all methods that cluster samples, and the exchanges they share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, TypeVar, cast

import torch
from torch import Tensor

from fedkin.core import Client, Federation, FedkinError, Method, Payload, Record, State, Task, block_task
from fedkin.core.client_array import Block
from fedkin.core.federation import MAX_ATTEMPTS, Replies
from fedkin.core.method import Traits
from fedkin.core.payload import common_shape, is_flag, is_shape
from fedkin.features.extractors import EMBEDDED, is_encoder

FINAL_ATTEMPTS = 5
"""Maximum number of attempts at an exchange that a run can do without, such as the last one with each client."""

AnyState = TypeVar("AnyState", bound=State)


class SampleMethod(Method[Any]):
    """Base of methods that assign every sample of every client to a cluster.

    A result holds ``n_clusters`` and all that `predict` needs. After the last step every client's state has the
    ``clusters`` of its samples, int64 ``(n,)``, and, if the method has them, the ``confidence`` of each and, float32
    ``(n, n_clusters)``, ``memberships``.
    """

    traits = Traits(clusters="samples", scenario="own-class")
    soft: ClassVar[bool] = False
    """Whether clusters are soft: `memberships` are then not ``None``, unless a hyper-parameter makes clusters hard."""
    assign_task: ClassVar[Task | None] = None
    """The task by which clients assign their samples in the end, by ``result``; without one, `conclude` says how."""

    @staticmethod
    @abstractmethod
    def predict(result: Mapping[str, Any], x: Tensor) -> Tensor:
        """Return the clusters of samples ``(n, *shape)``, int64 ``(n,)``."""

    @staticmethod
    def embed(result: Mapping[str, Any], x: Tensor) -> Tensor:
        """Return the representation that samples are clustered in, float32 ``(n, width)``; by default the samples."""
        return x.flatten(1)

    @staticmethod
    def confidence(result: Mapping[str, Any], x: Tensor) -> Tensor | None:
        """Return the confidence of the clusters of samples by `predict`: float32 ``(n,)`` in [0, 1], or ``None``.

        0 is halfway between two clusters, 1 without doubt; it is no probability, and methods' are not comparable.
        """
        return None

    @staticmethod
    def contrast(result: Mapping[str, Any], x: Tensor) -> tuple[Tensor, Tensor] | None:
        """Return the next best cluster of samples, and by feature how far it is farther away than their own.

        They are int64 ``(n,)``, -1 where there is no other, and float64 ``(n, width)``: parts of the difference of
        squared distances from the means of both clusters, in the features that are compared. ``None``, as by default,
        if that is no sum over features.
        """
        return None

    @staticmethod
    def memberships(result: Mapping[str, Any], x: Tensor) -> Tensor | None:
        """Return memberships of samples: float32 ``(n, n_clusters)``, rows sum to 1; ``None`` if clusters are hard."""
        return None

    @classmethod
    def client_memberships(cls, result: Mapping[str, Any], client: Client) -> Tensor | None:
        """Return the `memberships` of a client's own samples, from the client's state if that is enough."""
        stored = client.state.get("memberships")
        if stored is not None and tuple(stored.shape) == (len(client), int(result["n_clusters"])):
            return stored
        return cls.memberships(result, client.x)

    def conclude(self, fed: Federation, state: Any) -> Replies[Payload]:
        """Have every client assign its samples by the result of `state`."""
        if self.assign_task is None:
            return Replies({}, {})
        return broadcast(fed, self.assign_task, fed.all(result=self.result(state)))

    def encodes_samples(self) -> bool:
        return is_encoder(getattr(self, "features", ""))

    def for_embeddings(self, encoder: str) -> Self:
        """Return the method with features "embedded" where samples are encoded and no others are wanted.

        Raises FedkinError if an encoder is wanted that no client has used.
        """
        features = getattr(self, "features", "")
        if not encoder and self.encodes_samples() and features != EMBEDDED:
            raise FedkinError(
                f"Features '{features}' are made where samples are read, and no client has done so; each site's "
                f'site.toml says it by encode = "{features}".'
            )
        if not encoder or not (features == "auto" or self.encodes_samples()):
            return self
        changed: Self = replace(cast(Any, self), features=EMBEDDED)
        return changed

    def ready(self, state: Any) -> bool:
        """Whether `result` of this state can already predict clusters."""
        return True


def assign_samples(client: Client, payload: Payload, method: type[Any]) -> Payload:
    """Store at the client its samples' clusters, confidence and memberships, by the payload's ``result`` and a method.

    `method` is a class of methods that cluster samples.
    """
    client.state.update(assigned(client.x, payload["result"], method))
    return {}


def assigned(x: Tensor, result: Mapping[str, Any], method: type[Any]) -> dict[str, Tensor]:
    """Return clusters, confidence and memberships of samples ``(n, *shape)``, as far as a class of methods has them."""
    parts = {"clusters": method.predict, "confidence": method.confidence, "memberships": method.memberships}
    values = {name: part(result, x) for name, part in parts.items()}
    return {name: part for name, part in values.items() if part is not None}


@dataclass(frozen=True)
class Facts:
    """Facts about the clients' data, which a method needs before its first step.

    They are the shape of a sample, (features,) or (channels, height, width), and whether all values lie in [0, 1].
    """

    shape: tuple[int, ...]
    unit: bool


@block_task(
    takes={},
    holds={"shape": is_shape, "unit": is_flag},
    sends="What columns there are, or how large a picture is",
    fewest="none",
)
def describe(block: Block, payload: Payload) -> Payload:
    """Send the shape of a sample, and whether all values of the samples lie in [0, 1]."""
    lowest, highest = (extreme(block.x.flatten(1), 1) for extreme in (torch.amin, torch.amax))
    return {"shape": list(block.x.shape[2:]), "unit": (lowest >= 0) & (highest <= 1)}


def describe_clients(fed: Federation) -> Facts:
    """Ask all clients for facts about their data.

    Raises FedkinError if samples of two clients differ in shape, or a client cannot be reached.
    """
    replies = fed.keep_majority(fed.ask_until_all_reply(describe, {}))
    return Facts(common_shape(replies), all(replies.each("unit")))


def broadcast(fed: Federation, task: Task, payloads: Mapping[int, Payload]) -> Replies[Payload]:
    """Send the last `task` of a run with `payloads`; clients that do not reply are asked up to five times."""
    return fed.ask_again(task, payloads, FINAL_ATTEMPTS)


def repeat_step(fed: Federation, state: AnyState, record: Record, failure: str) -> tuple[AnyState, Record]:
    """End a step without progress, so that the next one tries again.

    Raises FedkinError with the message `failure`, in step 20 and later.
    """
    if state.steps + 1 >= MAX_ATTEMPTS:
        raise FedkinError(failure)
    fed.pause(state.steps + 1)
    return state.next(), record


def reasons(missing: Mapping[int, str]) -> str:
    """Return the distinct reasons why clients are missing, joined for a message."""
    return "; ".join(sorted(set(missing.values())))
