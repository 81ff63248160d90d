"""Base of methods that cluster clients once, before training, by one small message from each.

The embeddings of Prigent et al. (2024, algorithm 3) and the styles of LADD have this in common: every client sends a
message, the server clusters the messages, and every cluster trains its own model. An unseen client sends a message and
joins the cluster with the nearest centroid (section V), and so does a client that comes late.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypedDict

import torch
from torch import Tensor

from fedkin.clustering.k_means import pairwise_distances
from fedkin.core import Client, Federation, FedkinError, Payload, Record
from fedkin.core.federation import MAX_ATTEMPTS, Replies
from fedkin.core.method import display_name
from fedkin.methods.clients.client_method import (
    UNKNOWN,
    ClientMethod,
    ClientMethodState,
    RoundValues,
    Trained,
    round_record,
)


@dataclass(frozen=True)
class OneShotState(ClientMethodState):
    """State of one-shot clustering: the clients' last messages ``(n, d)``, uint8 bits or float32; zeros for none.

    `rounds` are those of training done, `attempts` the steps in which too few clients sent a message.
    """

    messages: Tensor = field(default_factory=lambda: torch.zeros(0, 0))
    rounds: int = 0
    attempts: int = 0


class FoundValues(TypedDict, total=False):
    """How clusters were formed, by which `mode`.

    Of `embedding` also what was sent: `bits` or `numbers` of each client, and the `epsilon` that they have.
    """

    mode: str
    radius: float
    noise_source: str
    bits: int
    flip: float
    numbers: int
    epsilon: float
    delta: float


class OneShotValues(RoundValues, total=False):
    """Values of a step: `newcomers` as client and cluster, and of the step that forms clusters how."""

    newcomers: list[list[int]]
    clustering: FoundValues


@dataclass(frozen=True)
class OneShotMethod(ClientMethod):
    """Base of methods that cluster clients by one message from each, and then average within clusters."""

    state_type: ClassVar[type[ClientMethodState]] = OneShotState
    record_type: ClassVar[type[Any]] = OneShotValues
    traits = ClientMethod.traits.replace(scenario="rotation")

    def init(self, fed: Federation) -> Any:
        """Return one new model, and no client in a cluster yet."""
        return self.unplaced(fed)

    @abstractmethod
    def messages(self, fed: Federation, state: Any, clients: Sequence[int]) -> Replies[Tensor]:
        """Ask clients for their messages ``(d,)``, in one exchange; return those that replied."""

    @abstractmethod
    def clustered(self, fed: Federation, state: Any, messages: Tensor) -> tuple[Tensor, dict[str, Any]]:
        """Return the cluster of each of messages ``(m, d)``, int64 ``(m,)``, and plain values for the record.

        A ``note`` or ``warning`` among these is for the user.
        """

    def how(self, state: Any) -> Payload:
        """Return what clients make messages by, which a result has, too."""
        return {}

    def aligned(self, state: Any, messages: Tensor) -> tuple[Any, Tensor]:
        """Bring the first messages ``(m, d)`` to a common form, which the state keeps; by default unchanged."""
        return state, messages

    def step(self, fed: Federation, state: Any) -> tuple[Any, Record]:
        """Cluster the clients if they are not yet; otherwise do a round of training, after messages of late clients."""
        if not state.messages.numel():
            return self._form(fed, state)
        state, placed, missing = self._with_late_clients(fed, state)
        values: dict[str, Any] = {"newcomers": placed} if placed else {}
        trained, means = self.averaged(fed, state)
        record = round_record(fed, trained, state.labels, missing=missing, phase="training", **values)
        return self.after_round(state, means, rounds=state.rounds + 1), record

    def rounds_done(self, state: Any) -> int:
        """Return the number of rounds of training so far: steps before have none, and may be repeated."""
        rounds: int = state.rounds
        return rounds

    @property
    def needed(self) -> int:
        """Number of messages needed to form clusters."""
        return 1

    # Forming clusters, once.

    def _form(self, fed: Federation, state: Any) -> tuple[Any, Record]:
        """Have every client send a message, and cluster them; retry in the next step if too few replied."""
        replies = self.messages(fed, state, fed.present)
        if len(replies) < self.needed:
            return self._again(fed, state, replies.missing)
        rows = list(replies)
        state, sent = self.aligned(state, torch.stack(list(replies.values())))
        messages = sent.new_zeros(len(fed.ids), sent.shape[1])
        messages[rows] = sent
        clusters, values = self.clustered(fed, state, sent)
        labels = torch.full((len(fed.ids),), UNKNOWN)
        labels[rows] = clusters
        models = state.models[:1].repeat(int(clusters.max()) + 1, 1)
        after = state.next(messages=messages, labels=labels, models=models)
        remarks = {kind: values.pop(kind) for kind in ("note", "warning") if kind in values}
        answered = Trained(sorted(replies), loss=None, missing=replies.missing)
        return after, round_record(fed, answered, labels, phase="embedding", clustering=values, **remarks)

    def _again(self, fed: Federation, state: Any, missing: Mapping[int, str]) -> tuple[Any, Record]:
        """Return a state that retries in the next step; raise an error after the last attempt."""
        attempts = state.attempts + 1
        if attempts == MAX_ATTEMPTS or not missing:
            reasons = "; ".join(sorted(set(missing.values()))) or "there are no more clients"
            raise FedkinError(
                f"{display_name(type(self))} needs messages of {self.needed} or more clients to form its clusters, but "
                f"had fewer, attempt {attempts} of {MAX_ATTEMPTS} ({reasons})."
            )
        nobody = Trained.each({}, missing)
        return state.next(attempts=attempts), round_record(fed, nobody, state.labels, phase="embedding")

    # Clients that come late.

    def _with_late_clients(self, fed: Federation, state: Any) -> tuple[Any, list[list[int]], dict[int, str]]:
        """Ask clients without a cluster for messages; return the state, each one's cluster, and who is missing."""
        clients = [i for i in fed.present if state.labels[i] == UNKNOWN]
        replies = self.messages(fed, state, clients) if clients else Replies[Tensor]({}, {})
        if not replies:
            return state, [], replies.missing
        rows, new = list(replies), torch.stack(list(replies.values()))
        labels, messages = state.labels.clone(), state.messages.clone()
        labels[rows], messages[rows] = self.nearest(self.result(state), new), new
        placed = [[client, int(labels[client])] for client in rows]
        return replace(state, labels=labels, messages=messages), placed, replies.missing

    @staticmethod
    def nearest(result: Mapping[str, Any], messages: Tensor) -> Tensor:
        """Return the cluster nearest to each of some new messages ``(m, d)``, int64 ``(m,)``: by its centroid."""
        centroids = result["centroids"][:, : messages.shape[1]]  # of a client without labels FLUX has the beginning
        return pairwise_distances(messages.double(), centroids.double()).argmin(1)

    @staticmethod
    @abstractmethod
    def unseen_message(client: Client, result: Mapping[str, Any]) -> Tensor:
        """Return the message ``(d,)`` of an unseen client."""

    @classmethod
    def assign(cls, result: Mapping[str, Any], unseen: Client) -> int:
        """Return the cluster of an unseen client, as `nearest` to its message."""
        return int(cls.nearest(result, cls.unseen_message(unseen, result)[None]))

    def result(self, state: Any) -> dict[str, Any]:
        """Return the common result with the clusters' mean messages ``(K, d)``; d is 0 before there are messages."""
        members = [state.messages[state.labels == k] for k in range(len(state.models) if state.messages.numel() else 0)]
        means = [part.double().mean(0).float() for part in members]
        centroids = torch.stack(means) if means else torch.zeros(len(state.models), 0)
        return super().result(state) | {"centroids": centroids} | self.how(state)


def least_clients(min_size: int | None, clients: int) -> int:
    """Return the minimum number of clients in a cluster: `min_size`, by default a tenth of `clients`, and 2 or more."""
    return max(2, round(clients / 10)) if min_size is None else min_size


def distances_to_clusters(distances: Tensor, labels: Tensor, clusters: int = -1) -> Tensor:
    """Return mean `distances` ``(m, n)`` to the members of each cluster: ``(m, clusters)``, infinite for empty ones."""
    members = torch.nn.functional.one_hot(labels, clusters).double()
    counts = members.sum(0)
    return torch.where(counts > 0, distances @ members / counts.clamp_min(1), torch.inf)
