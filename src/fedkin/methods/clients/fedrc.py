"""FedRC: soft clusters that separate clients by concept, not by their classes (Guo, Tang, Lin 2024; algorithm 1).

Every sample has a membership in each cluster. It is greater if the cluster's model has a low loss on the sample, and
smaller if the sample's class is frequent in the cluster, so that clients that differ only in their classes, which one
model can serve, stay in one cluster.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import torch
from annotated_types import Ge
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot

from fedkin.core import Client, Federation, Payload, Record
from fedkin.core.method import Count
from fedkin.core.payload import Array, is_amount, is_number, updates
from fedkin.methods.clients.client_method import ClientMethod, ClientMethodState, Trained, check_differ, round_record
from fedkin.methods.clients.local_work import Training, labels_of, training_of, training_task
from fedkin.nn.descent import LOCAL_TRAINING
from fedkin.nn.modules import CLASSIFIER, Classifier

_RAREST = 1e-6  # minimum frequency of a class in a cluster, so that no membership becomes infinite
_SHARES = Array(("models",), minimum=0.0, maximum=1.0)
_FREQUENCIES = Array(("models", "classes"), minimum=0.0, maximum=1.0)


@dataclass(frozen=True)
class FedRCState(ClientMethodState):
    """State of FedRC: each client's memberships in clusters, and the frequency of each class in each cluster.

    `memberships` are float32 ``(n, K)``, and `labels` the clusters of the largest. `frequencies`, float32 ``(K,
    classes)``, are the fractions of a cluster's samples that a class has. Rows of both sum to 1.
    """

    memberships: Tensor = field(default_factory=lambda: torch.zeros(0, 0))
    frequencies: Tensor = field(default_factory=lambda: torch.zeros(0, 0))


@dataclass(frozen=True)
class FedRCMethod(ClientMethod):
    """Trains K models on all clients, each sample weighted by its membership in the model's cluster.

    A client predicts with all models' probabilities, weighted by its memberships; its cluster, where one is asked for,
    is that of its greatest. In every round all K models go to a client and back. Memberships of an unseen client are
    found by the same steps with models as they are.

    Memberships are computed from training samples as they are, without augmentation, unlike in the authors' code.

    Attributes
    ----------
    n_clusters : int
        K, the number of soft clusters; the paper shows that too many harm little.
    warm_up : int
        Rounds at the beginning in which memberships are computed without the classes' frequencies.
    """

    n_clusters: Count = 3
    warm_up: Annotated[int, Ge(0)] = 0

    traits = ClientMethod.traits.replace(finds_k=False, takes_k=True)
    state_type: ClassVar[type[FedRCState]] = FedRCState

    def init(self, fed: Federation) -> FedRCState:
        """Return K different models, and equal memberships of every client."""
        count, state = self.n_clusters, self.unplaced(fed, self.n_clusters)
        memberships = torch.full((len(fed.ids), count), 1 / count)
        frequencies = torch.full((count, state.module["classes"]), 1 / state.module["classes"])
        first: FedRCState = dataclasses.replace(state, memberships=memberships, frequencies=frequencies)
        return first

    def step(self, fed: Federation, state: FedRCState) -> tuple[FedRCState, Record]:
        """Have clients weight their samples and train all models; average the models.

        Raises FedkinError if all models are the same at first, for a module with given weights.
        """
        if state.steps == 0:
            check_differ(state, 0, "give a module that draws its weights")
        labels, memberships = state.labels.clone(), state.memberships.clone()
        count, size = state.models.shape
        means = self.means(state)
        masses = torch.zeros(state.frequencies.shape, dtype=torch.float64)
        losses: dict[int, float] = {}
        payload = {
            "module": state.module,
            "models": state.models,
            "training": self.training_settings(),
            "frequencies": state.frequencies
            if state.steps >= self.warm_up
            else torch.full_like(state.frequencies, 1 / state.frequencies.shape[1]),
        }
        payloads = {
            client: payload | {"memberships": memberships[client].clone()} for client in self.participants(fed, state)
        }
        expected = {
            "updates": updates(count, size),
            "memberships": Array((count,), minimum=0.0, maximum=1.0),
            "masses": Array(tuple(state.frequencies.shape), minimum=0.0, maximum=1.0),
        }
        replies = fed.stream(weigh_and_train, payloads, expected)
        for client, reply in replies:
            total = reply["memberships"].sum()
            memberships[client] = reply["memberships"] / total if total > 0 else 1 / count
            labels[client] = int(memberships[client].argmax())
            weight = self.weight(reply)
            masses += weight * reply["masses"].double()
            for cluster, update in enumerate(reply["updates"]):
                means.add(cluster, update, weight, client)
            losses[client] = reply["loss"]
        frequencies = frequencies_of(masses) if losses else state.frequencies
        after = self.after_round(state, means, labels=labels, memberships=memberships, frequencies=frequencies)
        return after, round_record(fed, Trained.each(losses, replies.missing), labels)

    def result(self, state: FedRCState) -> dict[str, Any]:
        return {**super().result(state), "memberships": state.memberships, "frequencies": state.frequencies}

    @classmethod
    def logits_of(cls, result: Mapping[str, Any], x: Tensor, client: int | None = None, cluster: int = 0) -> Tensor:
        if client is None:
            return super().logits_of(result, x, client, cluster)
        classifier = Classifier.of(result["module"])
        return classifier.mixed_logits(result["models"], result["memberships"][client], x)

    @staticmethod
    def assign(result: Mapping[str, Any], unseen: Client) -> int:
        models, classifier = result["models"], Classifier.of(result["module"])
        losses = sample_losses(classifier, models, unseen.x, labels_of(unseen))
        memberships = torch.full((len(models),), 1 / len(models))
        for _ in range(20):
            memberships = shares_of(losses, memberships, result["frequencies"], labels_of(unseen)).mean(0)
        return int(memberships.argmax())


@training_task(
    takes={
        "module": CLASSIFIER, "models": updates("models", "size"), "memberships": _SHARES,
        "frequencies": _FREQUENCIES, "training": LOCAL_TRAINING,
    },
    holds={
        "updates": updates("models", "size"), "memberships": _SHARES, "masses": _FREQUENCIES,
        "samples": is_amount, "loss": is_number,
    },
    sends="What training has changed in each network, how well each suits the client, and how wrong they were",
)  # fmt: skip
def weigh_and_train(client: Client, payload: Payload) -> Training:
    """Weight the client's samples by their memberships, and train all models on them.

    Report the ``updates`` ``(K, size)``, the client's ``memberships`` ``(K,)``, which sum to 1, and as ``masses``
    ``(K, classes)`` the fraction of its samples by cluster and class; ``loss`` is the weighted loss of all models.
    """
    classifier, y, models = Classifier.of(payload["module"]), labels_of(client), payload["models"]
    losses = sample_losses(classifier, models, client.x, y)
    shares = shares_of(losses, payload["memberships"], payload["frequencies"], y)
    classes = one_hot(y, classifier.classes).float()
    jobs = [
        dataclasses.replace(training_of(client, payload, model), y=share[:, None] * classes)
        for share, model in zip(shares.T, models, strict=True)
    ]
    trained = yield jobs
    return {
        "updates": torch.stack([model.sub_(job.start) for job, (model, _) in zip(jobs, trained, strict=True)]),
        "memberships": shares.mean(0).clamp(0, 1),
        "masses": (shares.T @ classes / len(y)).clamp(0, 1),
        "samples": len(y),
        "loss": sum(loss for _, loss in trained),
    }


def sample_losses(classifier: Classifier, models: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Return the loss of every model on every sample, float32 ``(n, K)``."""
    return torch.stack([cross_entropy(classifier.logits(model, x), y, reduction="none") for model in models], 1)


def shares_of(losses: Tensor, memberships: Tensor, frequencies: Tensor, y: Tensor) -> Tensor:
    """Return each sample's memberships in the clusters, float32 ``(n, K)`` (the gamma of FedRC's paper).

    They are proportional to ``memberships * exp(-loss) / frequency``, with `losses` ``(n, K)``, `memberships` ``(K,)``
    of the client, `frequencies` ``(K, classes)`` and classes `y` ``(n,)``. A model that has diverged gets 0.
    """
    logits = memberships.clamp_min(_RAREST).log() - losses - frequencies.clamp_min(_RAREST).log().T[y]
    return logits.nan_to_num(nan=-1e4, posinf=1e4, neginf=-1e4).softmax(1)


def frequencies_of(masses: Tensor) -> Tensor:
    """Return the frequency of each class in each cluster, from `masses` of samples ``(K, classes)``."""
    totals = masses.sum(1, keepdim=True)
    return torch.where(totals > 0, masses / totals.clamp_min(_RAREST), 1 / masses.shape[1]).float()
