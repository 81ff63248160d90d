"""A strategy's rounds: the method's steps, and around them what Flower's users expect of a round."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from flwr.app import ArrayRecord, MetricRecord, RecordDict

from fedkin.core import Record
from fedkin.flower.message_federation import GridFederation
from fedkin.flower.strategy_result import ClusterResult
from fedkin.methods.clients.client_method import ClientMethod, ClientMethodState

if TYPE_CHECKING:
    from torch import Tensor

    from fedkin.flower.strategy import ClusterStrategy

Aggregate = Callable[[list[RecordDict], str], MetricRecord]

log = logging.getLogger("flwr")


class Loop:
    """One run of a strategy.

    Parameters
    ----------
    strategy : ClusterStrategy
    method : ClusterMethod
    fed : GridFederation
    evaluate_fn : callable or None
        See `ClusterStrategy.start`.
    """

    def __init__(
        self,
        strategy: ClusterStrategy,
        method: ClientMethod,
        fed: GridFederation,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None,
    ) -> None:
        self.strategy, self.method, self.fed, self.evaluate_fn = strategy, method, fed, evaluate_fn
        self.result = ClusterResult()

    def run(self, models: Tensor) -> ClusterResult:
        """Do all rounds, from the models ``(m, size)`` given."""
        fed, done = self.fed, 0
        self._evaluate_here(0, models[0])
        state = self.strategy.begin(fed, self.method, models)
        while not state.finished:
            self.strategy.wait(fed.grid)
            fed.connect()
            fed.round, fed.trained, fed.told_loss = done + 1, {}, True
            state, record = self._participating().step(fed, state)  # type: ignore[attr-defined]
            trains = record.values.get("phase", "training") == "training"
            self._note(record, done + 1 if trains else 0)
            if trains:
                done += 1
                self._count_training(done, record)
                self._evaluate(done, state)
        return self._finished(state)

    def _participating(self) -> ClientMethod:
        """The method with as many participants as Flower's FedAvg would have of those that are there now."""
        there = max(1, len(self.fed.present))
        count = max(1, int(self.strategy.fraction_train * there), self.strategy.min_train_nodes)
        return dataclasses.replace(self.method, participation=min(1.0, count / there))

    def _note(self, record: Record, number: int) -> None:
        """Keep a step's record, and tell the log."""
        values, nodes = dict(record.values), self.fed.nodes
        values["labels"] = values["labels"][: len(nodes)]
        if not self.fed.told_loss:
            del values["loss"], values["losses"]
        traffic = {"sent": self.fed.traffic.sent, "received": self.fed.traffic.received}
        entry = {"round": number, "answered": record.answered, "missing": record.missing, **values, **traffic}
        self.result.records.append(entry)
        log.info("[ROUND %d/%d] %s", number, self.method.rounds, "" if number else values.get("phase", ""))
        log.info("\t├──> %d nodes answered, %d did not", len(record.answered), len(record.missing))
        for client, reason in record.missing.items():
            log.warning("\t│\t> Node %d: %s", nodes[client], reason)
        log.info("\t├──> %d clusters of %s nodes", values["clusters"], values["sizes"])

    def _count_training(self, number: int, record: Record) -> None:
        """Take in the metrics of the clients whose training was used."""
        heard = record.values["losses"]  # who trained may have been lost in another exchange of the step
        used = {client: metrics for client, metrics in self.fed.trained.items() if str(client) in heard}
        self.result.train_metrics_by_node |= {self.fed.nodes[client]: metrics for client, metrics in used.items()}
        total = self._aggregated(self.strategy.train_metrics_aggr_fn, used)
        if total is not None:
            log.info("\t├──> Training: %s", dict(total))
            self.result.train_metrics_clientapp[number] = total

    def _evaluate(self, number: int, state: ClientMethodState) -> None:
        """Have some nodes evaluate their cluster's model, and the server the largest cluster's."""
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
        """Clients that evaluate in this round, and their clusters."""
        count = max(int(self.strategy.fraction_evaluate * len(labels)), self.strategy.min_evaluate_nodes)
        drawn = torch.randperm(len(labels), generator=self.fed.rng("evaluate", number))[:count]
        clients = list(labels)
        return {clients[at]: labels[clients[at]] for at in sorted(drawn.tolist())}

    def _aggregated(self, aggregate: Aggregate, metrics: Mapping[int, MetricRecord]) -> MetricRecord | None:
        """Weighted means of the clients' metrics; none if they do not have the same."""
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
        """The cluster with most nodes; the first, if none is known."""
        labels = state.labels[: len(self.fed.nodes)]
        return int(labels[labels >= 0].bincount(minlength=len(state.models)).argmax())

    def _finished(self, state: ClientMethodState) -> ClusterResult:
        """The result, with what the method found."""
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
