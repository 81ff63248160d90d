"""FedDrift: one model per concept of the data, while clients' data drift (Jothimurugesan et al. 2023; AISTATS).

At the beginning of a time step every client evaluates all models on its data. A client whose best model has become
worse than before trains a model of its own for some time steps. Models that are as good on each other's clients as on
their own are merged.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import torch
from annotated_types import Interval
from torch import Tensor

from fedkin.clustering.from_distances import cut_tree
from fedkin.core import Client, Federation, Payload, Record, client_task
from fedkin.core.method import Count
from fedkin.core.payload import Expected, candidates, is_amount, reals, updates, within
from fedkin.methods.clients.client_method import (
    UNKNOWN,
    ClientMethod,
    ClientMethodState,
    PositiveFraction,
    RoundValues,
    round_record,
)
from fedkin.methods.clients.local_work import Training, labels_of, trained_update, training_of, training_task
from fedkin.nn.modules import CLASSIFIER, Classifier


@dataclass(frozen=True)
class FedDriftState(ClientMethodState):
    """State of FedDrift: each client's error of its best model in the last time step, float64 ``(n,)``, -1 for none.

    `until`, int64 ``(n,)``, is the time step in which a client that drifted takes part in the clustering again.
    """

    errors: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.float64))
    until: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))


class FedDriftValues(RoundValues, total=False):
    """Values of a round: the clients that `drifted`, and the clusters that were `merged`."""

    drifted: list[int]
    merged: list[list[int]]


@dataclass(frozen=True)
class FedDriftMethod(ClientMethod):
    """Clusters clients again in every time step, by the errors of all models on their data.

    Every client begins with a model of its own, as in the experiments of the authors' code.
    A time step is `period` rounds. Data are those that a client has when it is asked: samples of earlier time steps are
    not kept, and a client's samples stand for those of the last time step as long as its model is as good on them.

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
        Fraction of a client's samples, at least one, on which it evaluates models and does not train. With 0 it
        evaluates them on all samples, which it also trains on.
    """

    period: Count = 4
    threshold: PositiveFraction = 0.1
    isolation: Count = 1
    held_out: Annotated[float, Interval(ge=0, lt=1)] = 0.2

    traits = ClientMethod.traits.replace(scenario="drift-swap")
    state_type: ClassVar[type[ClientMethodState]] = FedDriftState
    record_type: ClassVar[type[Any]] = FedDriftValues

    def init(self, fed: Federation) -> FedDriftState:
        """Return one new model, and no client in a cluster yet."""
        state: FedDriftState = self.unplaced(fed)
        never = torch.full((len(fed.ids),), -1.0, dtype=torch.float64)
        return dataclasses.replace(state, errors=never, until=torch.zeros(len(fed.ids), dtype=torch.int64))

    def step(self, fed: Federation, state: FedDriftState) -> tuple[FedDriftState, Record]:
        """Cluster the clients if a time step begins, then do a round of averaging in every cluster."""
        missing: dict[int, str] = {}
        values: dict[str, Any] = {}
        if state.steps == 0:
            # In the first time step every client has a model of its own, with an error of 1.
            rows, labels, errors = fed.present, state.labels.clone(), state.errors.clone()
            labels[rows], errors[rows] = torch.arange(len(rows)), 1.0
            models = state.models.repeat(len(rows), 1)
            state = dataclasses.replace(state, labels=labels, errors=errors, models=models)
        elif state.steps % self.period == 0:
            state, values, missing = self._clustered(fed, state)
        present, by_cluster = [i for i in self.participants(fed, state) if i not in missing], list(state.models)
        clusters = self.known_clusters(state.labels, present)
        starts = {client: by_cluster[cluster] for client, cluster in clusters.items()}
        payloads, means = self.training(state, starts, held_out=self.held_out), self.means(state)
        replies = fed.stream(train_on_kept, payloads, {"update": updates(state.models.shape[1])})
        trained = self.add_each(means, replies, lambda client, reply: clusters[client])
        after = self.after_round(state, means)
        return after, round_record(fed, trained, state.labels, missing=missing, **values)

    def _clustered(self, fed: Federation, state: FedDriftState) -> tuple[FedDriftState, dict[str, Any], dict[int, str]]:
        """Have all clients evaluate all models; return the state, who drifted and what merged, and who is missing."""
        payload = {"module": state.module, "models": state.models, "held_out": self.held_out}
        expected: Expected = {"errors": reals(len(state.models), minimum=0, maximum=1)}
        replies = fed.ask(judge, dict.fromkeys(fed.present, payload), expected)
        if not replies:
            return state, {}, replies.missing
        rows = list(replies)
        errors = torch.stack([reply["errors"].double() for reply in replies.values()])
        weights = torch.tensor([float(reply["samples"]) for reply in replies.values()], dtype=torch.float64)
        placed, drifted = self.placed(state, rows, errors)
        members = self.members(state, placed, rows, errors)
        shares = members.double() * weights[:, None]
        # The mean error of every model (row) on every model's clients (column), 0 of models without clients.
        between = errors.T @ shares / shares.sum(0).clamp_min(1e-12)
        merged, groups = self.merged(placed, between, members)
        used, labels = merged.labels[merged.labels != UNKNOWN].unique(return_inverse=True)  # models that clients have
        renumbered = merged.labels.masked_scatter(merged.labels != UNKNOWN, labels)
        after = dataclasses.replace(merged, models=merged.models[used], labels=renumbered)
        values = {"drifted": sorted(drifted), "merged": groups}
        return after, values, replies.missing

    def placed(self, state: FedDriftState, rows: Sequence[int], errors: Tensor) -> tuple[FedDriftState, set[int]]:
        """Assign clients to their best models, or to new ones if they have drifted; return the state and who drifted.

        `rows` are the clients, and `errors`, float64 ``(m, K)``, those of every model at each.
        """
        time, available = state.steps // self.period, self._available(state)
        if not available.any():
            return state, set()
        labels, best_errors, until = state.labels.clone(), state.errors.clone(), state.until.clone()
        parents: list[int] = []
        drifted: set[int] = set()
        for row, by_model in zip(rows, errors, strict=True):
            if state.until[row] > time:  # it still trains alone
                continue
            best = int(by_model.masked_fill(~available, torch.inf).argmin())
            before = _error_before(state, row, best)
            labels[row], best_errors[row] = best, by_model[best]
            if before is not None and float(by_model[best]) - before > self.threshold:
                labels[row], until[row] = len(state.models) + len(parents), time + self.isolation
                parents.append(best)
                drifted.add(row)
        models = torch.cat([state.models, state.models[parents]])
        return dataclasses.replace(state, labels=labels, errors=best_errors, until=until, models=models), drifted

    def members(self, before: FedDriftState, after: FedDriftState, rows: Sequence[int], errors: Tensor) -> Tensor:
        """Return whose samples count as whose model's, bool ``(m, K)`` for the models `before`.

        A client's samples count for the model it has now, and for its last one while that has not become worse.
        """
        count = len(before.models)
        old, new = before.labels[list(rows), None], after.labels[list(rows), None]
        rise = errors.gather(1, old.clamp_min(0)) - before.errors[list(rows), None]
        is_last = (old == torch.arange(count)) & (rise <= self.threshold)
        return ((new == torch.arange(count)) | is_last) & self._available(before)

    def merged(self, state: FedDriftState, between: Tensor, members: Tensor) -> tuple[FedDriftState, list[list[int]]]:
        """Average similar models into one each; return the state and the lists of models merged.

        `between`, float64 ``(K, K)``, has the mean error of every model (row) on every model's clients (column), and
        `members`, bool ``(m, K)``, each model's clients.
        """
        compared = members.any(0).nonzero()[:, 0]
        if len(compared) < 2:
            return state, []
        models, labels, groups = state.models.clone(), state.labels.clone(), []
        # How much worse models are on each other's clients than on their own.
        errors = between[compared][:, compared]
        worse = errors - errors.diagonal()[:, None]
        distances = torch.maximum(worse, worse.T).clamp_min(0).fill_diagonal_(0)
        parts = cut_tree(distances, "complete", self.threshold)
        for part in range(int(parts.max()) + 1):
            group = compared[parts == part]
            if len(group) > 1:
                share = members[:, group].double().sum(0)
                models[group[0]] = ((share / share.sum()) @ state.models[group].double()).float()
                labels[torch.isin(labels, group)] = group[0]
                groups.append(group.tolist())
        return dataclasses.replace(state, models=models, labels=labels), groups

    def _available(self, state: FedDriftState) -> Tensor:
        """Return which models clients may choose: bool ``(K,)``, all but those of isolated clients."""
        available = torch.ones(len(state.models), dtype=torch.bool)
        available[state.labels[state.until > state.steps // self.period]] = False
        return available


def _error_before(state: FedDriftState, row: int, best: int) -> float | None:
    """Return the error to compare with: the client's last one or, for a new client, its cluster's mean."""
    if state.errors[row] >= 0:
        return float(state.errors[row])
    of_cluster = state.errors[(state.labels == best) & (state.errors >= 0)]
    return float(of_cluster.mean()) if len(of_cluster) else None


HELD_OUT = "held_out"  # key of a client's state: which samples it never trains on


@client_task(
    takes={"module": CLASSIFIER, "held_out": within(0, 1), "models": candidates("models", "size")},
    holds={"errors": reals(None, minimum=0, maximum=1), "samples": is_amount},
    sends="How often each model is wrong on some of the client's rows, and how many these are",
)
def judge(client: Client, payload: Payload) -> Payload:
    """Report the error rate of each model on the held-out samples, as ``errors`` ``(K,)``, and their number."""
    rows, _ = _split_rows(client, payload["held_out"])
    classifier, x, y = Classifier.of(payload["module"]), client.x[rows], labels_of(client)[rows]
    errors = []
    for model in payload["models"]:
        logits = classifier.logits(model, x)
        right = (logits.argmax(1) == y) & logits.isfinite().all(1)  # a model that has diverged is never right
        errors.append(1.0 - float(right.double().mean()))
    return {"errors": torch.tensor(errors), "samples": len(rows)}


@training_task({"held_out": within(0, 1)})
def train_on_kept(client: Client, payload: Payload) -> Training:
    """Train on all but the held-out samples; report the update, their number and the training loss."""
    _, rows = _split_rows(client, payload["held_out"])
    job = training_of(client, payload, payload["model"])
    return trained_update(dataclasses.replace(job, x=job.x[rows], y=job.y[rows]))


def _split_rows(client: Client, fraction: float) -> tuple[Tensor, Tensor]:
    """Return the rows of held-out samples and of training samples, the same in all rounds."""
    n = len(client)
    rows = torch.arange(n)
    if fraction == 0 or n < 2:
        return rows, rows
    held = client.state.get(HELD_OUT)
    if held is None or len(held) != n:  # the client's data have changed
        held = torch.zeros(n, dtype=torch.bool)
        held[torch.randperm(n, generator=client.rng)[: min(n - 1, max(1, round(fraction * n)))]] = True
        client.state[HELD_OUT] = held
    return rows[held], rows[~held]
