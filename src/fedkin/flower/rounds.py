"""A strategy's rounds: the method's steps, with the evaluation and the log that Flower's own strategies have."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch
from flwr.app import ArrayRecord, MetricRecord, RecordDict
from flwr.serverapp import Grid
from torch import Tensor

from fedkin.core import Record
from fedkin.core.steps import do_step
from fedkin.flower.message_federation import GridFederation
from fedkin.flower.strategy_result import ClusterResult
from fedkin.methods.clients.client_method import ClientMethod, ClientMethodState

Aggregate = Callable[[list[RecordDict], str], MetricRecord]
"""Makes one record of metrics from several, weighted by the metric of a name."""
EvaluateHere = Callable[[int, ArrayRecord], MetricRecord | None]
"""Evaluates a round's model at the server, see `ClusterStrategy.start`."""

log = logging.getLogger("flwr")


class RoundOptions(Protocol):
    """What the rounds need of a `ClusterStrategy`, which describes these parameters."""

    fraction_train: float
    fraction_evaluate: float
    min_train_nodes: int
    min_evaluate_nodes: int
    weighted_by_key: str
    train_metrics_aggr_fn: Aggregate
    evaluate_metrics_aggr_fn: Aggregate

    def begin(self, fed: GridFederation, method: Any, models: Tensor) -> ClientMethodState:
        """Return the method's first state."""

    def wait(self, grid: Grid) -> None:
        """Wait until enough nodes are connected."""


class RoundLoop:
    """One run of a strategy.

    Parameters
    ----------
    strategy : RoundOptions
    method : ClientMethod
    fed : GridFederation
    evaluate_fn : callable or None
    """

    def __init__(
        self,
        strategy: RoundOptions,
        method: ClientMethod,
        fed: GridFederation,
        evaluate_fn: EvaluateHere | None,
    ) -> None:
        self.strategy, self.method, self.fed, self.evaluate_fn = strategy, method, fed, evaluate_fn
        self.result = ClusterResult()

    def run(self, models: Tensor) -> ClusterResult:
        """Run all rounds, starting from the models ``(m, size)``."""
        fed, done = self.fed, 0
        self._evaluate_here(0, models[0])
        state = self.strategy.begin(fed, self.method, models)
        while not state.finished:
            self.strategy.wait(fed.grid)
            fed.connect()
            fed.round, fed.trained, fed.has_losses = done + 1, {}, True
            state, record = do_step(self._participating(), fed, state)
            trains = record.values.get("phase", "training") == "training"
            self._note(record, done + 1 if trains else 0)
            if trains:
                done += 1
                self._count_training(done, record)
                self._evaluate(done, state)
        return self._finished(state)

    def _participating(self) -> ClientMethod:
        """The method with as many participants as Flower's FedAvg samples from the nodes connected now."""
        connected = max(1, len(self.fed.present))
        count = max(1, int(self.strategy.fraction_train * connected), self.strategy.min_train_nodes)
        return dataclasses.replace(self.method, participation=min(1.0, count / connected))

    def _note(self, record: Record, number: int) -> None:
        """Keep a step's record and log it."""
        values, nodes = dict(record.values), self.fed.nodes
        values["labels"] = values["labels"][: len(nodes)]
        if not self.fed.has_losses:
            del values["loss"], values["losses"]
        traffic = {"sent": self.fed.traffic.sent, "received": self.fed.traffic.received}
        missing = record.missing | self.fed.left_out
        entry = {"round": number, "answered": record.answered, "missing": missing, **values, **traffic}
        self.result.records.append(entry)
        log.info("[ROUND %d/%d] %s", number, self.method.rounds, "" if number else values.get("phase", ""))
        log.info("\t├──> %d nodes answered, %d did not", len(record.answered), len(missing))
        for client, reason in missing.items():
            log.warning("\t│\t> Node %d: %s", nodes[client], reason)
        log.info("\t├──> %d clusters of %s nodes", values["clusters"], values["sizes"])

    def _count_training(self, number: int, record: Record) -> None:
        """Keep and aggregate the metrics of the clients whose training was used."""
        losses = record.values["losses"]  # a client that trained may be missing in another exchange of the step
        used = {client: metrics for client, metrics in self.fed.trained.items() if str(client) in losses}
        self.result.train_metrics_by_node |= {self.fed.nodes[client]: metrics for client, metrics in used.items()}
        total = self._aggregated(self.strategy.train_metrics_aggr_fn, used)
        if total is not None:
            log.info("\t├──> Training: %s", dict(total))
            self.result.train_metrics_clientapp[number] = total

    def _evaluate(self, number: int, state: ClientMethodState) -> None:
        """Have some nodes evaluate their cluster's model, and the server evaluate the largest cluster's."""
        models, labels = list(state.models), state.labels.tolist()
        asked = self._sample({i: labels[i] for i in self.fed.present if labels[i] >= 0}, number)
        found = self.fed.evaluate({client: models[cluster] for client, cluster in asked.items()})
        aggregate = self.strategy.evaluate_metrics_aggr_fn
        total = self._aggregated(aggregate, found)
        if total is not None:
            log.info("\t├──> Evaluation: %s", dict(total))
            self.result.evaluate_metrics_clientapp[number] = total
            clusters = sorted({asked[client] for client in found})
            parts = {k: self._aggregated(aggregate, {i: found[i] for i in found if asked[i] == k}) for k in clusters}
            self.result.evaluate_metrics_by_cluster[number] = {k: one for k, one in parts.items() if one is not None}
        self._evaluate_here(number, models[self._largest(state)])

    def _sample(self, labels: Mapping[int, int], number: int) -> dict[int, int]:
        """Sample the clients that evaluate in this round: their clusters by client."""
        count = max(int(self.strategy.fraction_evaluate * len(labels)), self.strategy.min_evaluate_nodes)
        drawn = torch.randperm(len(labels), generator=self.fed.rng("evaluate", number))[:count]
        clients = list(labels)
        return {clients[at]: labels[clients[at]] for at in sorted(drawn.tolist())}

    def _aggregated(self, aggregate: Aggregate, metrics: Mapping[int, MetricRecord]) -> MetricRecord | None:
        """Weighted means of the clients' metrics; ``None`` if these differ in name."""
        names = {frozenset(one) for one in metrics.values()}
        if len(names) > 1:
            log.warning("Nodes replied with different metrics, which are not averaged.")
        if len(names) != 1:
            return None
        return aggregate([RecordDict({"metrics": one}) for one in metrics.values()], self.strategy.weighted_by_key)

    def _evaluate_here(self, number: int, model: Tensor) -> None:
        if self.evaluate_fn is None:
            return
        found = self.evaluate_fn(number, self.fed.layout.record(model))
        if found is not None:
            log.info("\t├──> Evaluation at the server: %s", dict(found))
            self.result.evaluate_metrics_serverapp[number] = found

    def _largest(self, state: ClientMethodState) -> int:
        """The cluster with the most nodes; the first if no node's cluster is known."""
        labels = state.labels[: len(self.fed.nodes)]
        return int(labels[labels >= 0].bincount(minlength=len(state.models)).argmax())

    def _finished(self, state: ClientMethodState) -> ClusterResult:
        """Complete the result with the clusters and models that the method found."""
        found: dict[str, Any] = self.method.result(state)
        nodes, layout = self.fed.nodes, self.fed.layout
        self.result.nodes = list(nodes)
        labels = dict(zip(nodes, found["labels"].tolist(), strict=False))
        self.result.clusters = {node: cluster for node, cluster in labels.items() if cluster >= 0}
        self.result.arrays_by_cluster = [layout.record(model) for model in found["models"]]
        self.result.arrays = self.result.arrays_by_cluster[self._largest(state)]
        chosen = [int(client) for client in found.get("choices", {})]
        self.result.own_arrays = {nodes[i]: layout.record(self.method.model_of(found, i)) for i in chosen}
        return self.result
