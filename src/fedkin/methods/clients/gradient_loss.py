"""Clustering clients by gradient and loss together (Lin et al.; equations 1-7)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from fedkin.core import Client, Federation, Payload, Record, State, client_task
from fedkin.core import payload as forms
from fedkin.core.method import Count, Fraction, Positive
from fedkin.methods.clients.client_method import ClientMethod, ClientMethodState, Trained, round_record
from fedkin.methods.clients.local_work import labels_of
from fedkin.nn.modules import CLASSIFIER, Classifier, lowest_loss


@dataclass(frozen=True)
class GradientLossState(ClientMethodState):
    """State of gradient-loss clustering: each model's change in the last round (eq. 2), float32 ``(K, size)``.

    The change is zero where a model did not change.
    """

    moves: Tensor = field(default_factory=lambda: torch.zeros(0, 0))


@dataclass(frozen=True)
class GradientLossMethod(ClientMethod):
    """Keeps K models; a client joins one with a low loss and a last change similar to its own descent direction.

    In every round each client samples one mini-batch, computes loss and gradient of every model on it, chooses a model,
    and takes one gradient step on it; `local_epochs`, `local_steps`, `optimizer`, `momentum`, `weight_decay`
    and `proximal` have no effect. A round is one exchange. With ``balance=0`` this is IFCA with one step.

    Attributes
    ----------
    n_clusters : int
        K, the number of clusters.
    balance : float
        lambda, the weight of the similarity in the choice, in [0, 1].
    sign : {"descent", "printed"}
        Direction that a model's last change is compared with: that of descent, or that of the printed equation.
    """

    n_clusters: Count = 3
    balance: Fraction = 0.2
    sign: Literal["descent", "printed"] = "descent"
    learning_rate: Positive = 0.1
    rounds: Count = 100
    weighting: Literal["samples", "clients"] = "clients"

    traits = ClientMethod.traits.replace(finds_k=False, takes_k=True, cost="cheap")
    state_type: ClassVar[type[ClientMethodState]] = GradientLossState

    def init(self, fed: Federation) -> GradientLossState:
        """Return K models initialised independently, and no client in a cluster yet."""
        state: GradientLossState = self.unplaced(fed, self.n_clusters)
        return replace(state, moves=torch.zeros_like(state.models))

    def step(self, fed: Federation, state: Any) -> tuple[GradientLossState, Record]:
        """Have clients choose a model and take one step; each model becomes the mean over the clients that chose it."""
        participants, (clusters, size) = self.participants(fed, state), state.models.shape
        stand_ins = self._stand_ins(fed, state, participants)
        payload = {
            "module": state.module,
            "models": state.models,
            "moves": state.moves,
            "balance": self.balance,
            "sign": self.sign,
            "learning_rate": self.learning_rate,
            "batch_size": self.batch_size,
        }
        payloads = {i: payload | {"stand_in": stand_ins[i]} if i in stand_ins else payload for i in participants}
        expected: dict[int, forms.Expected] = {
            i: {"update": forms.updates(2 if i in stand_ins else 1, size), "cluster": forms.below(clusters)}
            for i in participants
        }
        replies = fed.ask(choose_and_step, payloads, expected.__getitem__)
        labels = state.labels.clone()
        for client, reply in replies.items():
            labels[client] = int(reply["cluster"])
        sizes = labels[labels >= 0].bincount(minlength=clusters)
        helping = stand_ins if bool((sizes == 0).any()) else {}
        means = self.means(state)
        for client, reply in replies.items():
            cluster = helping.get(client, int(reply["cluster"]))
            means.add(cluster, reply["update"][int(client in helping)], self.weight(reply), client)
        after = self.after_round(state, means, moves=means.all(), labels=labels)
        trained = Trained.each({client: reply["loss"] for client, reply in replies.items()}, replies.missing)
        return after, round_record(fed, trained, labels)

    def _stand_ins(self, fed: Federation, state: State, participants: list[int]) -> dict[int, int]:
        """Sample K clients that stand in for one cluster each in a round in which some cluster has no client.

        There are none if fewer take part. They are sampled before the round, so that it stays one exchange: they also
        send the step for the cluster that they might stand in for; their label stays the cluster that they chose.
        """
        if len(participants) < self.n_clusters:
            return {}
        drawn = torch.randperm(len(participants), generator=fed.rng("stand-ins", state.steps))[: self.n_clusters]
        return {participants[row]: cluster for cluster, row in enumerate(drawn.tolist())}


@client_task(
    takes={
        "module": CLASSIFIER, "models": forms.candidates("models", "size"), "moves": forms.candidates("models", "size"),
        "balance": forms.within(0, 1), "sign": forms.one_of("descent", "printed"),
        "learning_rate": forms.positive,
        "batch_size": forms.counts_to(forms.MANY), "stand_in": forms.Optional(forms.is_count),
    },
    holds={"cluster": forms.is_count, "samples": forms.is_amount, "loss": forms.is_number},
    sends="Which network suits the client best, and what a few of its rows would change in it",
)  # fmt: skip
def choose_and_step(client: Client, payload: Payload) -> Payload:
    """Choose a model by loss and gradient on one mini-batch; report one step on it: ``update`` ``(1 or 2, size)``.

    A second row is the step of the cluster that the client may stand in for.
    """
    classifier = Classifier.of(payload["module"])
    rows = torch.randperm(len(client), generator=client.rng)[: payload["batch_size"]]
    x, y = client.x[rows], labels_of(client)[rows]
    losses, gradients, after = [], [], []
    with classifier.resident() as resident:
        if len(x) == 1 and resident.needs_pairs:  # a batch norm cannot learn from one sample: the reply is refused
            update = torch.zeros(1 + ("stand_in" in payload), classifier.size)
            return {"cluster": 0, "update": update, "samples": 1, "loss": math.nan}
        resident.module.train()
        for model in payload["models"]:
            resident.load(model, client.rng)
            losses.append(resident.gradient(x, y).cpu().clone())
            gradients.append(resident.collected(resident.grad))
            after.append(resident.vector())
    loss, gradient = torch.stack(losses), torch.stack(gradients)
    cluster = lowest_loss(-preference(loss, gradient, payload["moves"][:, : classifier.parameters], payload))
    chosen = [cluster, payload["stand_in"]] if "stand_in" in payload else [cluster]
    update = torch.stack(after)[chosen] - payload["models"][chosen]
    update[:, : classifier.parameters] = -payload["learning_rate"] * gradient[chosen]
    return {"cluster": cluster, "update": update, "samples": len(client), "loss": float(loss[cluster])}


def preference(losses: Tensor, gradients: Tensor, moves: Tensor, payload: Payload) -> Tensor:
    """Return a client's score of each model, ``(K,)``: similarity weighed against loss (eqs. 3 and 4).

    `losses` ``(K,)`` are each model's mean on the batch (eq. 1), `gradients` ``(K, parameters)`` those of these losses,
    and `moves` ``(K, parameters)`` each model's change in the last round (eq. 2). The payload has ``balance`` and
    ``sign``, see `GradientLossMethod`.
    """
    directions = -gradients if payload["sign"] == "descent" else gradients
    lengths = moves.norm(dim=1)
    similarity = (directions * moves).sum(1) / (lengths * directions.norm(dim=1))
    similarity = similarity.clamp(-1, 1)  # norms of denormal numbers are inexact
    similarity = torch.where((lengths > 0) & similarity.isfinite(), similarity, 0.0)
    balance: float = payload["balance"]
    return balance * similarity - (1 - balance) * losses
