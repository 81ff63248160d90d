"""FedDrift: as many models as there are concepts at a time, while clients drift (Jothimurugesan et al. 2023; AISTATS).

At the beginning of a time step every client judges all models on its data. One whose best model has become worse than
it was trains a model of its own for a while. Models that are as good on each other's clients as on their own become
one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import torch
from annotated_types import Interval
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from torch import Tensor

from fedkin.core import Client, Federation, Payload, Record, task
from fedkin.core.method import Count
from fedkin.core.replies import candidates, is_amount, is_number, reals, updates, within
from fedkin.methods.clients.client_method import ClientMethod, ClientMethodState, PositiveFraction, positions
from fedkin.methods.clients.client_tasks import labels_of, training_of
from fedkin.methods.clients.round_record import UNKNOWN, round_record
from fedkin.nn.classifier import Classifier
from fedkin.nn.client_stack import Job, descend_all
from fedkin.nn.network_forms import CLASSIFIER, DESCENT

HELD_OUT = "held_out"
_NEVER = -1.0


@dataclass(frozen=True)
class FedDriftState(ClientMethodState):
    """State with what drift is seen by.

    Attributes
    ----------
    errors : Tensor
        float64 ``(n,)``: of each client, the error of its best model in the last time step; -1 where there is none.
    until : Tensor
        int64 ``(n,)``: the time step in which a client that drifted takes part in the clustering again; 0 for others.
    """

    errors: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.float64))
    until: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))


@dataclass(frozen=True)
class FedDriftMethod(ClientMethod):
    """Clusters clients again in every time step, by the errors of all models on their data.

    A time step is `period` rounds. Data are those that a client has when it is asked: samples of earlier time steps are
    not kept, and a client's samples stand for those of the last time step as long as its model is as good on them.

    Differences from the authors' code: models are judged on samples that a client never trains on, where the paper's
    are new in every time step; all models begin equal; merged models are weighted by clients, not by clients and time
    steps; a model that nobody has is dropped, where the code keeps a given number; a client that joins later is
    compared with the others of its cluster.

    Attributes
    ----------
    period : int
        Rounds of a time step.
    threshold : float
        delta: a client drifts if its error rises by more, and models merge if their errors on each other's clients are
        at most this much higher. A fraction of samples, in (0, 1].
    isolation : int
        W, the time steps in which a client that drifted trains alone.
    held_out : float
        Fraction of a client's samples by which it judges models, and on which it does not train; at least one. 0
        judges by all samples that it trains on.
    start : {"alone", "together"}
        Whether every client begins with a model of its own, as in the experiments of the authors' code, or all with
        one. Concepts that differ from the beginning are found in the first case only.
    """

    period: Count = 4
    threshold: PositiveFraction = 0.1
    isolation: Count = 1
    held_out: Annotated[float, Interval(ge=0, lt=1)] = 0.2
    start: Literal["alone", "together"] = "alone"

    sends: ClassVar[str] = (
        "the change of its model, the number of its samples, its loss, and its error under each of the models"
    )
    state_type: ClassVar[type[ClientMethodState]] = FedDriftState
    scenario = "drift-swap"

    def init(self, fed: Federation) -> FedDriftState:
        """Return one new model, and no client in a cluster yet."""
        state: FedDriftState = super().init(fed)
        n = len(fed.ids)
        return dataclasses.replace(
            state,
            labels=torch.full((n,), UNKNOWN),
            errors=torch.full((n,), _NEVER, dtype=torch.float64),
            until=torch.zeros(n, dtype=torch.int64),
        )

    def step(self, fed: Federation, state: FedDriftState) -> tuple[FedDriftState, Record]:
        """Cluster the clients if a time step begins, then do a round of averaging in every cluster."""
        missing: dict[int, str] = {}
        values: dict[str, Any] = {}
        if state.steps == 0:
            state = self._begun(fed, state)
        elif state.steps % self.period == 0:
            state, values = self._clustered(fed, state)
            missing = dict(fed.missing)
        cluster_of = dict(zip(fed.ids, state.labels.tolist(), strict=True))
        models = list(state.models)
        starts = {
            client: models[cluster_of[client]]
            for client in self.participants(fed, state)
            if client not in missing and cluster_of[client] != UNKNOWN
        }
        means, losses = self.means_of(*state.models.shape), {}
        asked = {client: {**one, "held_out": self.held_out} for client, one in self.training(state, starts).items()}
        for client, reply in fed.stream(train_on_kept, asked, {"update": updates(state.models.shape[1])}):
            means.add(cluster_of[client], reply["update"], self.weight(reply), client)
            losses[client] = reply["loss"]
        moved = means.moved(state.models, self.server_learning_rate)
        record = round_record(fed, losses, state.labels, **values)
        record = dataclasses.replace(record, missing=dict(sorted((missing | fed.missing).items())))
        return state.next(models=moved, finished=self.finished(state)), record

    def _begun(self, fed: Federation, state: FedDriftState) -> FedDriftState:
        """Return the state of the first time step, in which nothing has been learnt: the error is 1."""
        position = positions(fed)
        labels, errors = state.labels.clone(), state.errors.clone()
        for number, client in enumerate(fed.present):
            labels[position[client]] = number if self.start == "alone" else 0
            errors[position[client]] = 1.0
        count = len(fed.present) if self.start == "alone" else 1
        return dataclasses.replace(state, labels=labels, errors=errors, models=state.models.repeat(count, 1))

    def _clustered(self, fed: Federation, state: FedDriftState) -> tuple[FedDriftState, dict[str, Any]]:
        """Return the state after all clients have judged all models, and which drifted and which models merged."""
        payload = {"module": state.module, "models": state.models, "held_out": self.held_out}
        replies = fed.ask(
            judge, dict.fromkeys(fed.present, payload), {"errors": reals(len(state.models), minimum=0, maximum=1)}
        )
        if not replies:
            return state, {}
        position = positions(fed)
        rows = [position[client] for client in replies]
        judged = torch.stack([reply["errors"].double() for reply in replies.values()])
        weights = torch.tensor([float(reply["samples"]) for reply in replies.values()], dtype=torch.float64)
        moved, drifted = self.placed(state, rows, judged)
        members = self.members(state, moved, rows, judged)
        merged, joined = self.merged(moved, errors_between(judged, weights, members), members)
        values = {"drifted": [client for client in replies if position[client] in drifted], "merged": joined}
        return _without_unused(merged), values

    def placed(self, state: FedDriftState, rows: Sequence[int], judged: Tensor) -> tuple[FedDriftState, set[int]]:
        """Return the state with clients at their best models, or at new ones if they have drifted, and which have.

        Parameters
        ----------
        state : FedDriftState
        rows : sequence of int
            Positions of the clients.
        judged : Tensor, (m, K) float64
            Their errors under all models.
        """
        now = state.steps // self.period
        alone = state.until > now
        used = self._used(state)
        if not used.any():
            return state, set()
        labels, errors, until = state.labels.clone(), state.errors.clone(), state.until.clone()
        parents: list[int] = []
        drifted: set[int] = set()
        for row, own in zip(rows, judged, strict=True):
            if alone[row]:
                continue
            best = int(own.masked_fill(~used, torch.inf).argmin())
            before = _before(state, row, best)
            labels[row], errors[row] = best, own[best]
            if before is not None and float(own[best]) - before > self.threshold:
                labels[row], until[row] = len(state.models) + len(parents), now + self.isolation
                parents.append(best)
                drifted.add(row)
        models = torch.cat([state.models, state.models[parents]])
        return dataclasses.replace(state, labels=labels, errors=errors, until=until, models=models), drifted

    def members(self, before: FedDriftState, after: FedDriftState, rows: Sequence[int], judged: Tensor) -> Tensor:
        """Return whose samples count as those of which model, bool ``(m, K)`` for the models `before`.

        They count for the model that a client has now, and for the one it had as long as that is as good as it was.
        Models that are trained alone have none.
        """
        count = len(before.models)
        found = torch.zeros(len(rows), count, dtype=torch.bool)
        for at, row in enumerate(rows):
            old, new = int(before.labels[row]), int(after.labels[row])
            if new < count:
                found[at, new] = True
            if old != UNKNOWN and float(judged[at, old]) - float(before.errors[row]) <= self.threshold:
                found[at, old] = True
        return found & self._used(before)

    def merged(self, state: FedDriftState, between: Tensor, members: Tensor) -> tuple[FedDriftState, list[list[int]]]:
        """Return the state with similar models averaged into one each, and the models that were.

        Parameters
        ----------
        state : FedDriftState
        between : Tensor, (K, K) float64
            Errors of models on each other's clients.
        members : Tensor, (m, K) bool
        """
        judged = members.any(0).nonzero()[:, 0]
        if len(judged) < 2:
            return state, []
        parts = merges(distances_of(between[judged][:, judged]), self.threshold)
        models, labels, found = state.models.clone(), state.labels.clone(), []
        for part in parts:
            own = judged[part]
            if len(own) > 1:
                share = members[:, own].double().sum(0)
                models[own[0]] = ((share / share.sum()) @ state.models[own].double()).float()
                labels[torch.isin(labels, own)] = own[0]
                found.append(own.tolist())
        return dataclasses.replace(state, models=models, labels=labels), found

    def _used(self, state: FedDriftState) -> Tensor:
        """Which models clients may choose: bool ``(K,)``, not those that a client trains alone."""
        used = torch.ones(len(state.models), dtype=torch.bool)
        used[state.labels[state.until > state.steps // self.period]] = False
        return used


_JUDGED: Mapping[str, Any] = {"module": CLASSIFIER, "held_out": within(0, 1)}


@task(
    takes={**_JUDGED, "models": candidates("models", "size")},
    holds={"errors": reals(None, minimum=0, maximum=1), "samples": is_amount},
)
def judge(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """Report which fraction of the held-out samples each model gets wrong, as ``errors`` ``(K,)``, and their number."""
    replies: list[Payload] = []
    for client, payload in zip(clients, payloads, strict=True):
        rows, _ = _divided(client, payload["held_out"])
        classifier, x, y = Classifier.of(payload["module"]), client.x[rows], labels_of(client)[rows]
        errors = [error_of(classifier, model, x, y) for model in payload["models"]]
        replies.append({"errors": torch.tensor(errors), "samples": len(rows)})
    return replies


@task(
    takes={**_JUDGED, "model": updates("size"), "training": DESCENT},
    holds={"update": updates(None), "samples": is_amount, "loss": is_number},
)
def train_on_kept(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """Train on the samples that are not held out; report the update, their number and the training loss."""
    jobs: list[Job] = []
    for client, payload in zip(clients, payloads, strict=True):
        _, rows = _divided(client, payload["held_out"])
        job = training_of(client, payload, payload["model"])
        jobs.append(dataclasses.replace(job, x=job.x[rows], y=job.y[rows]))
    return [
        {"update": model.sub_(job.start), "samples": len(job.x), "loss": loss}
        for job, (model, loss) in zip(jobs, descend_all(jobs), strict=True)
    ]


def error_of(classifier: Classifier, model: Tensor, x: Tensor, y: Tensor) -> float:
    """Return the fraction of samples that a model gets wrong; one that has diverged gets them all wrong."""
    logits = classifier.logits(model, x)
    right = (logits.argmax(1) == y) & logits.isfinite().all(1)
    return 1.0 - float(right.double().mean())


def _divided(client: Client, fraction: float) -> tuple[Tensor, Tensor]:
    """Return the rows that models are judged by and those that are trained on, the same in all rounds."""
    n = len(client)
    every = torch.arange(n)
    if fraction == 0 or n < 2:
        return every, every
    held = client.state.get(HELD_OUT)
    if held is None or len(held) != n:
        held = torch.zeros(n, dtype=torch.bool)
        held[torch.randperm(n, generator=client.rng)[: min(n - 1, max(1, round(fraction * n)))]] = True
        client.state[HELD_OUT] = held
    return every[held], every[~held]


def _before(state: FedDriftState, row: int, best: int) -> float | None:
    """Return the error that a client's is compared with: its last, or of a new one the mean of its cluster's others."""
    if state.errors[row] >= 0:
        return float(state.errors[row])
    others = state.errors[(state.labels == best) & (state.errors >= 0)]
    return float(others.mean()) if len(others) else None


def errors_between(judged: Tensor, weights: Tensor, members: Tensor) -> Tensor:
    """Return the error of every model on every model's clients.

    Parameters
    ----------
    judged : Tensor, (m, K) float64
        Errors of clients under all models.
    weights : Tensor, (m,) float64
        Numbers of samples.
    members : Tensor, (m, K) bool

    Returns
    -------
    Tensor, (K, K) float64
        Row: the model; column: whose clients. 0 where a model has none.
    """
    shares = members.double() * weights[:, None]
    return judged.T @ shares / shares.sum(0).clamp_min(1e-12)


def distances_of(between: Tensor) -> Tensor:
    """Return how much worse models are on each other's clients than on their own: ``(K, K)``, symmetric, from 0 up."""
    worse = between - between.diagonal()[:, None]
    return torch.maximum(worse, worse.T).clamp_min(0).fill_diagonal_(0)


def merges(distances: Tensor, threshold: float) -> list[list[int]]:
    """Return the parts of a tree of complete linkage over `distances` ``(K, K)``, K above 1, cut at `threshold`."""
    tree = linkage(squareform(distances.numpy(), checks=False), "complete")
    parts: dict[int, list[int]] = {}
    for at, part in enumerate(fcluster(tree, threshold, criterion="distance").tolist()):
        parts.setdefault(part, []).append(at)
    return sorted(parts.values())


def _without_unused(state: FedDriftState) -> FedDriftState:
    """Return the state without models that no client has."""
    kept = state.labels[state.labels != UNKNOWN].unique()
    numbers = torch.full((len(state.models),), UNKNOWN)
    numbers[kept] = torch.arange(len(kept))
    labels = torch.where(state.labels == UNKNOWN, UNKNOWN, numbers[state.labels.clamp_min(0)])
    return dataclasses.replace(state, models=state.models[kept], labels=labels)
