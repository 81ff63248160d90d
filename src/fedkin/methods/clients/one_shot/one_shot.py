"""Base of methods that cluster clients once, before training, by one small message from each.

The embeddings of Prigent et al. (2024, algorithm 3) and the styles of LADD have this in common: every client sends a
message, the server clusters the messages, and every cluster trains its own model. An unseen client sends a message and
joins the cluster with the nearest centroid (section V). With `refresh`, clients send new messages from time to time and
change clusters if their data have changed (section VII, where it is future work).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

import torch
from annotated_types import Ge
from torch import Tensor

from fedkin.clustering.nearest import pairwise_distances
from fedkin.core import Federation, FedkinError, Record
from fedkin.core.federation import MAX_ATTEMPTS, Replies
from fedkin.core.method import Count, display_name
from fedkin.methods.clients.client_method import (
    UNKNOWN,
    UPDATES,
    ClientMethod,
    ClientMethodState,
    Trained,
    positions,
    round_record,
)
from fedkin.methods.clients.one_shot.one_shot_figures import one_shot_figures
from fedkin.methods.clients.one_shot.tree_cuts import Clustering, cluster
from fedkin.nn.aggregation import Means
from fedkin.nn.descent import LocalTraining
from fedkin.nn.modules import Classifier
from fedkin.report.figures import Figure


@dataclass(frozen=True)
class OneShotState(ClientMethodState):
    """State of one-shot clustering: the clients' last messages ``(n, d)``, uint8 bits or float32; zeros for none.

    `rounds` are those of training done; `attempts` are the steps in which too few clients sent a message to form
    clusters.
    """

    messages: Tensor = field(default_factory=lambda: torch.zeros(0, 0))
    rounds: int = 0
    attempts: int = 0


@dataclass(frozen=True)
class OneShotMethod(ClientMethod):
    """Base of methods that cluster clients by one message from each, and then average within clusters.

    Attributes
    ----------
    min_size : int or None
        Minimum number of clients in a cluster; by default a tenth of all, and at least two.
    refresh : int
        Rounds of training between new messages from all clients; 0 for none. A client nearest to another cluster moves
        there, and clients far from all clusters form a new one if at least `min_size` of them are similar.
    shared_layers : int
        Number of leading parameter tensors that are averaged over all clusters. The authors' code does so with both
        convolutions of LeNet-5, four tensors; the paper does not mention it.
    """

    min_size: Count | None = None
    refresh: Annotated[int, Ge(0)] = 0
    shared_layers: Annotated[int, Ge(0)] = 0

    state_type: ClassVar[type[ClientMethodState]] = OneShotState
    traits = ClientMethod.traits.replace(sends=UPDATES, scenario="rotation")

    def init(self, fed: Federation) -> Any:
        """Return one new model, and no client in a cluster yet."""
        return self.unplaced(fed)

    @abstractmethod
    def messages(self, fed: Federation, state: Any, clients: Sequence[int]) -> Replies[Tensor]:
        """Ask clients for their messages ``(d,)``, in one exchange; return those that replied."""

    @abstractmethod
    def clustered(self, fed: Federation, state: Any, messages: Tensor) -> tuple[Clustering, dict[str, Any]]:
        """Return clusters of messages ``(m, d)``, and plain values for the record.

        A ``note`` or ``warning`` among these is for the user.
        """

    def aligned(self, state: Any, messages: Tensor) -> tuple[Any, Tensor]:
        """Bring the first messages ``(m, d)`` to a common form, which the state keeps; by default unchanged."""
        return state, messages

    def step(self, fed: Federation, state: Any) -> tuple[Any, Record]:
        """Cluster the clients if they are not yet; otherwise do a round of training, after new messages if any."""
        if not state.messages.numel():
            return self._form(fed, state)
        missing: dict[int, str] = {}
        state, changes = self._with_new_messages(fed, state, missing)
        trained, means = self.averaged(fed, state)
        missing |= trained.missing
        rounds = state.rounds + 1
        record = round_record(fed, trained, state.labels, phase="training", **changes)
        answered = [client for client in record.answered if client not in missing]
        after = self.moved(state, means, rounds=rounds, finished=rounds >= self.rounds)
        return after, replace(record, answered=answered, missing=missing)

    @property
    def rounds_before_training(self) -> int:
        """Number of rounds before any cluster's model is trained."""
        return 1

    def local_training(self, step: int = 0) -> LocalTraining:
        """Return the settings of the clients' training; learning rates count from the first round of training."""
        return super().local_training(max(0, step - self.rounds_before_training))

    def means(self, state: ClientMethodState) -> Means:
        """Return an empty accumulator of mean updates, with the shared layers averaged over all clusters."""
        clusters, size = state.models.shape
        return self.means_of(clusters, size, Classifier.of(state.module).leading(self.shared_layers))

    @property
    def needed(self) -> int:
        """Number of messages needed to form clusters."""
        return 1

    def smallest(self, clients: int) -> int:
        """Return the minimum number of clients in a cluster, out of `clients`."""
        return self.min_size if self.min_size is not None else max(2, round(clients / 10))

    @classmethod
    def figures(cls, records: Sequence[Mapping[str, Any]]) -> Sequence[Figure]:
        """Describe how clusters were found, what clients sent for it, and how private that was."""
        return one_shot_figures(records)

    # Forming clusters, once.

    def _form(self, fed: Federation, state: Any) -> tuple[Any, Record]:
        """Have every client send a message, and cluster them; retry in the next step if too few replied."""
        replies = self.messages(fed, state, fed.present)
        if len(replies) < self.needed:
            return self._again(fed, state, replies.missing)
        position = positions(fed)
        rows = [position[client] for client in replies]
        state, sent = self.aligned(state, torch.stack(list(replies.values())))
        messages = sent.new_zeros(len(fed.ids), sent.shape[1])
        messages[rows] = sent
        clustering, values = self.clustered(fed, state, sent)
        labels = torch.full((len(fed.ids),), UNKNOWN)
        labels[rows] = clustering.labels
        models = state.models[:1].repeat(int(clustering.labels.max()) + 1, 1)
        after = state.next(messages=messages, labels=labels, models=models, finished=not state.module)
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

    # Clients that come late, and those whose data change.

    def _with_new_messages(self, fed: Federation, state: Any, missing: dict[int, str]) -> tuple[Any, dict[str, Any]]:
        """Ask new clients, or all in a refresh, for messages; return the state and the changes of clusters."""
        position = positions(fed)
        due = self.refresh and state.rounds and state.rounds % self.refresh == 0
        clients = [i for i in fed.present if due or state.labels[position[i]] == UNKNOWN]
        replies = self.messages(fed, state, clients) if clients else Replies[Tensor]({}, {})
        missing.update(replies.missing)
        if not replies:
            return state, {}
        rows = torch.tensor([position[client] for client in replies])
        new = torch.stack(list(replies.values()))
        labels, parents = self.placed(fed, state, rows, new)
        moves = list(zip(replies, state.labels[rows].tolist(), labels[rows].tolist(), strict=True))
        changes = {
            "moved": [[client, before, after] for client, before, after in moves if UNKNOWN != before != after],
            "newcomers": [[client, after] for client, before, after in moves if before == UNKNOWN],
            "founded": list(range(len(state.models), len(state.models) + len(parents))),
        }
        models = torch.cat([state.models, state.models[parents]]) if parents else state.models
        messages = state.messages.clone()
        messages[rows] = new
        state = replace(state, labels=labels, messages=messages, models=models)
        return state, {name: value for name, value in changes.items() if value}

    def placed(self, fed: Federation, state: Any, rows: Tensor, new: Tensor) -> tuple[Tensor, list[int]]:
        """Return labels after messages `new` of the clients at `rows`, and the parent cluster of each new cluster.

        A client joins the nearest cluster. One far from all keeps its own, if it has one, and several such clients that
        are alike form a new one.
        """
        centroids, reach = cluster_balls(state.messages, state.labels, len(state.models))
        # Not by matrix products, which are undefined for infinite centroids.
        distances = pairwise_distances(new.double(), centroids)
        nearest = distances.argmin(1)
        far = distances.gather(1, nearest[:, None])[:, 0] > reach[nearest]
        far |= self._separated(fed, state, rows, new, nearest)
        labels = state.labels.clone()
        labels[rows] = torch.where(far & (labels[rows] != UNKNOWN), labels[rows], nearest)
        if int(far.sum()) < self.smallest(len(fed.present)):
            return labels, []
        parents: list[int] = []
        for part in self._new_clusters(fed, state, new[far], float(reach.max())):
            members = rows[far][part]
            parents.append(int(labels[members].mode().values))
            labels[members] = len(state.models) + len(parents) - 1
            centroids = torch.cat([centroids, new[far][part].double().mean(0, keepdim=True)])
        if parents:  # some clients placed before are nearer to a new cluster
            nearest = pairwise_distances(new.double(), centroids).argmin(1)
            labels[rows] = torch.where(nearest >= len(state.models), nearest, labels[rows])
        return labels, parents

    def _separated(self, fed: Federation, state: Any, rows: Tensor, new: Tensor, nearest: Tensor) -> Tensor:
        """Whether a new message separates its client from the nearest cluster: bool ``(m,)``.

        Flipped bits can hide in one message what several messages together show: if the cluster is divided again,
        clients that form a part of their own do not belong to it.
        """
        smallest = self.smallest(len(fed.present))
        messages = state.messages.clone()
        messages[rows] = new
        labels, changed = state.labels.clone(), torch.zeros(len(messages), dtype=torch.bool)
        labels[rows], changed[rows] = nearest, (new != state.messages[rows]).any(1)
        separated = torch.zeros_like(changed)
        for k in range(len(state.models)):
            members = (labels == k).nonzero()[:, 0]
            if int(changed[members].sum()) < smallest:
                continue
            parts = cluster(messages[members], "gap", smallest, fed.rng("divided", state.steps, k)).labels
            new_fractions = torch.stack([changed[members[parts == part]].float().mean() for part in parts.unique()])
            stays = int(new_fractions.argmin())  # the part with the most unchanged messages
            separated[members[(parts != stays) & (new_fractions[parts] > 0.5)]] = True
        return separated[rows]

    def _new_clusters(self, fed: Federation, state: Any, strangers: Tensor, reach: float) -> list[Tensor]:
        """Return groups of clients far from all clusters, similar and numerous enough to form a cluster."""
        smallest = self.smallest(len(fed.present))
        labels = cluster(strangers, "gap", smallest, fed.rng("strangers", state.steps)).labels
        centroids, _ = cluster_balls(strangers, labels, int(labels.max()) + 1)
        groups = []
        for k, centroid in enumerate(centroids):
            members = (labels == k).nonzero()[:, 0]
            distances = (strangers[members].double() - centroid).norm(dim=1)
            if len(members) >= smallest and float(distances.mean()) <= reach:
                groups.append(members)
        return groups

    def result(self, state: Any) -> dict[str, Any]:
        """Return the common result with the clusters' centroids ``(K, d)``; d is 0 before there are messages."""
        if not state.messages.numel():
            return super().result(state) | {"centroids": torch.zeros(len(state.models), 0)}
        centroids, _ = cluster_balls(state.messages, state.labels, len(state.models))
        return super().result(state) | {"centroids": centroids.float()}


def cluster_balls(messages: Tensor, labels: Tensor, clusters: int) -> tuple[Tensor, Tensor]:
    """Return the centroid ``(K, d)`` and the radius ``(K,)`` of each cluster of messages ``(n, d)``, both float64.

    `labels` are -1 for clients without a cluster. The centroid is infinite for a cluster without members, so that no
    client is near it. The radius is the mean distance of a member from the centroid of the others, plus four standard
    deviations, which are pooled over all clusters because small ones estimate their own badly. A client beyond is far
    from the cluster.
    """
    centroids = torch.full((clusters, messages.shape[1]), torch.inf, dtype=torch.float64)
    distances: dict[int, Tensor] = {}
    for k in range(clusters):
        members = messages[labels == k].double()
        if len(members):
            centroids[k] = members.mean(0)
        if len(members) > 1:
            distances[k] = (members - centroids[k]).norm(dim=1) * (len(members) / (len(members) - 1))
    if not distances:
        return centroids, torch.full((clusters,), torch.inf, dtype=torch.float64)
    deviations = torch.cat([of_cluster - of_cluster.mean() for of_cluster in distances.values()])
    overall = torch.cat(list(distances.values())).mean()
    means = torch.stack([distances[k].mean() if k in distances else overall for k in range(clusters)])
    return centroids, means + 4 * deviations.square().mean().sqrt()


def nearest_cluster(centroids: Tensor, message: Tensor) -> int:
    """Return the cluster whose centroid ``(K, d)`` is nearest to `message` ``(d,)``."""
    return int((centroids.double() - message.double()).norm(dim=1).argmin())
