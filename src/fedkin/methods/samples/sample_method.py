"""Base of all methods that cluster samples, and the exchanges they share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from torch import Tensor

from fedkin.core import Client, Federation, FedkinError, Method, Payload, Record, State, Task, client_task
from fedkin.core.contract import check_result
from fedkin.core.federation import MAX_ATTEMPTS
from fedkin.core.method import Traits
from fedkin.core.replies import common_shape, is_count, is_number, is_shape, objection
from fedkin.features.encoders import is_encoder

FINAL_ATTEMPTS = 5
"""Maximum number of attempts at an exchange that a run can do without, such as the last one with each client."""

Confidence = Callable[[Mapping[str, Any], Tensor], Tensor | None]
"""``(result, x) -> confidence`` of each sample, in [0, 1], float32 ``(n,)``, or memberships ``(n, k)``; ``None`` if a
method has none."""

PredictClusters = Callable[[Mapping[str, Any], Tensor], Tensor]
"""``(result, x) -> clusters``: the cluster of each sample, int64 ``(n,)``, from a method's result."""

AnyState = TypeVar("AnyState", bound=State)


@dataclass(frozen=True)
class Facts:
    """Facts about the clients' data, which a method needs before its first step.

    They are the shape of a sample, (features,) or (channels, height, width), numbers of samples by client, and whether
    all values lie in [0, 1].
    """

    shape: tuple[int, ...]
    samples: dict[int, int]
    unit: bool


class SampleMethod(Method[Any]):
    """Base of methods that assign every sample of every client to a cluster.

    A result holds ``n_clusters`` and all that `predict` needs. After the last step every client has the clusters of its
    samples in ``state["clusters"]``, int64 ``(n,)``, and, if the method has it, the confidence of each in
    ``state["confidence"]``, float32 ``(n,)``; with fuzzy clusters also ``state["memberships"]``, float32
    ``(n, n_clusters)``.
    """

    traits = Traits(clusters="samples", scenario="own-class")
    soft: ClassVar[bool] = False
    """Whether clusters are soft: `memberships` are then not ``None``, unless a hyper-parameter makes clusters hard."""

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
        """Return the confidence of the clusters that `predict` gives to samples ``(n, *shape)``.

        It is float32 ``(n,)`` in [0, 1]: 0 halfway between two clusters, 1 without doubt. It is not a probability, and
        not comparable between methods. ``None``, as by default, if the method has no such number.
        """
        return None

    @staticmethod
    def memberships(result: Mapping[str, Any], x: Tensor) -> Tensor | None:
        """Return memberships of samples ``(n, *shape)`` in each cluster; see `soft`.

        They are float32 ``(n, n_clusters)``, at least 0; each row sums to 1. ``None``, as by default, if a sample
        belongs to one cluster alone.
        """
        return None

    @classmethod
    def client_memberships(cls, result: Mapping[str, Any], client: Client) -> Tensor | None:
        """Return the `memberships` of a client's own samples, from the client's state if that is enough."""
        kept = client.state.get("memberships")
        if kept is not None and tuple(kept.shape) == (len(client), int(result["n_clusters"])):
            return kept
        return cls.memberships(result, client.x)

    def encodes_samples(self) -> bool:
        return is_encoder(str(getattr(self, "features", "")))

    def ready(self, state: Any) -> bool:
        """Whether `result` of this state can already predict clusters."""
        return True


@client_task(takes={}, holds={"shape": is_shape, "samples": is_count, "lowest": is_number, "highest": is_number})
def describe(client: Client, payload: Payload) -> Payload:
    """Send the shape of a sample, the number of samples, and the range of their values."""
    return {
        "shape": list(client.x.shape[1:]),
        "samples": len(client),
        "lowest": float(client.x.min()),
        "highest": float(client.x.max()),
    }


def describe_clients(fed: Federation) -> Facts:
    """Ask all clients for facts about their data.

    Raises FedkinError if samples of two clients differ in shape, or a client cannot be reached.
    """
    replies = fed.keep_majority(fed.ask_until_all_reply(describe, {}))
    unit = all(reply["lowest"] >= 0.0 and reply["highest"] <= 1.0 for reply in replies.values())
    return Facts(common_shape(replies), {client: reply["samples"] for client, reply in replies.items()}, unit)


def broadcast(fed: Federation, task: Task, payloads: Mapping[int, Payload]) -> None:
    """Send the last `task` of a run with `payloads`; clients that do not reply are asked up to five times."""
    fed.ask_again(task, payloads, FINAL_ATTEMPTS)


def checked_first(method: Any, **parameters: Any) -> Method[Any]:
    """Return the method with whose clusters `method` begins; raise FedkinError if nobody gave its class."""
    if method.first is None:
        name = type(method).__name__
        raise FedkinError(f"{name} begins with clusters of {method.first_method()}; give its class as 'first'.")
    made: Method[Any] = method.first(**parameters)
    return made


def cluster_first(fed: Federation, method: Method[Any]) -> int:
    """Cluster the samples of all clients by another `method`; clients keep the clusters as ``first_clusters``.

    Returns
    -------
    int
        Number of clusters.

    Raises
    ------
    FedkinError
        If a client cannot be reached.
    """
    state = method.init(fed)
    while not state.finished:
        state, _ = method.step(fed, state)
    fed.ask_until_all_reply(keep_first_clusters, {})
    return int(method.result(state)["n_clusters"])


@client_task(takes={})
def keep_first_clusters(client: Client, payload: Payload) -> Payload:
    """Keep the clusters just found as ``first_clusters``, as they are not the final result."""
    if "clusters" in client.state:  # otherwise the client was asked before, and its reply was lost
        client.state["first_clusters"] = client.state.pop("clusters")
    if "first_clusters" not in client.state:
        raise FedkinError(f"Client {client.id} did not receive its first clusters.", public=True)
    return {}


def checked_result(method: Method[Any], state: Any, task: Task) -> dict[str, Any]:
    """Return the result of a state, which `task` takes under ``"result"``.

    Raises FedkinError, which names the method, if it is not as `check_result` or the task wants it.
    """
    found = method.result(state)
    check_result(method, found)
    wanted = {name: form for name, form in (task.takes or {}).items() if name == "result"}
    if wanted and (reason := objection({"result": found}, wanted)) is not None:
        name = type(method).__name__
        raise FedkinError(f"{name}.result does not fit what clients do with it, task '{task.name}': {reason}.")
    return found


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


def assign_samples(
    client: Client,
    payload: Payload,
    predict: PredictClusters,
    confidence: Confidence = SampleMethod.confidence,
    memberships: Confidence = SampleMethod.memberships,
) -> Payload:
    """Store at the client its samples' clusters, confidence and memberships, by the payload's ``result``."""
    client.state["clusters"] = predict(payload["result"], client.x)
    if (found := confidence(payload["result"], client.x)) is not None:
        client.state["confidence"] = found
    if (parts := memberships(payload["result"], client.x)) is not None:
        client.state["memberships"] = parts
    return {}


def own_count(client: Client, wanted: int | str, option: str) -> int:
    """Return how many clusters a client looks for: `wanted`, or for "given" the number in its state.

    Raises FedkinError if it has none; the sentence names the method's `option`.
    """
    if wanted != "given":
        return int(wanted)
    if "n_clusters" not in client.state:
        raise FedkinError(f"method.{option} = 'given', but client {client.id} has no number of its own.", public=True)
    return int(client.state["n_clusters"])
