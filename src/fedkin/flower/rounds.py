"""Rounds of a strategy: the method's steps, with evaluation and log as in Flower's own strategies."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch
from flwr.app import ArrayRecord, MetricRecord, RecordDict
from flwr.serverapp import Grid
from torch import Tensor

from fedkin.core import FedkinError, Record
from fedkin.core.method import display_name
from fedkin.core.steps import do_step
from fedkin.experiment.checkpoint import settle, snapshot
from fedkin.flower.grid_federation import GridFederation
from fedkin.flower.round_log import RoundLog
from fedkin.flower.strategy_folder import StrategyFolder
from fedkin.flower.strategy_result import ClusterResult
from fedkin.methods.clients.client_method import ClientMethod, ClientMethodState
from fedkin.report.numbers import pluralize

Aggregate = Callable[[list[RecordDict], str], MetricRecord]
"""Makes one record of metrics from several, weighted by the metric of a name."""
EvaluateHere = Callable[[int, ArrayRecord], MetricRecord | None]
"""Evaluates a round's model at the server, see `ClusterStrategy.start`."""

_TRAINING = {"training", "warm-up"}
"""Phases of a method whose steps are rounds."""
_BY_CLIENT = {"labels", "memberships"}
"""Values of a record that are lists by client, of those that may still come as well."""

log = logging.getLogger("flwr")


PATIENCE = 1.0
"""Seconds between two looks at who is connected."""


class RoundOptions(Protocol):
    """Interface of a `ClusterStrategy` that the rounds need; see its parameters."""

    fraction_train: float
    fraction_evaluate: float
    min_train_nodes: int
    min_evaluate_nodes: int
    weighted_by_key: str
    train_metrics_aggr_fn: Aggregate
    evaluate_metrics_aggr_fn: Aggregate

    def begin(self, fed: GridFederation, method: Any, models: Tensor) -> ClientMethodState:
        """Return the method's initial state."""

    def wait(self, grid: Grid) -> None:
        """Wait until enough nodes are connected."""


class RoundLoop:
    """Loop of a strategy's rounds, for one run; the folder keeps a checkpoint after every step."""

    def __init__(
        self,
        strategy: RoundOptions,
        method: ClientMethod,
        fed: GridFederation,
        evaluate_fn: EvaluateHere | None,
        folder: StrategyFolder | None = None,
    ) -> None:
        self.strategy, self.method, self.fed, self.evaluate_fn = strategy, method, fed, evaluate_fn
        self.folder, self.log = folder, RoundLog()

    def run(self, models: Tensor, module: str) -> ClusterResult:
        """Run all rounds, or the remaining ones after resuming.

        Training starts from `models` ``(m, size)``; `module` is the name by which methods know the client app's model.
        """
        state = self._resumed(module)
        if state is None:
            self._evaluate_here(0, models[0])
            self._gather()
            state = self._kept(self.strategy.begin(self.fed, self.method, models))
        while not state.finished:
            state = self._kept(self._step(state))
        return self._result(state)

    def _step(self, state: ClientMethodState) -> ClientMethodState:
        fed, log = self.fed, self.log
        self._gather()
        fed.round, fed.trained, fed.has_losses = log.done + 1, {}, True
        state, record = do_step(self._participating(), fed, state)
        trains = record.values.get("phase", "training") in _TRAINING
        self._note(record, log.done + 1 if trains else 0)
        if trains:
            log.done += 1
            self._count_training(log.done, record)
            self._evaluate(log.done, state)
            log.records[-1] |= self._traffic()
        return state

    def _gather(self) -> None:
        """Wait until enough nodes are connected, and one of them takes part."""
        while True:
            self.strategy.wait(self.fed.grid)
            self.fed.connect()
            if self.fed.present:
                return
            log.info("Waiting for nodes that take part: none of those connected does.")
            time.sleep(PATIENCE)

    def _resumed(self, module: str) -> ClientMethodState | None:
        """Restore federation, log and state from the checkpoint; ``None`` if there is none."""
        if self.folder is None or (last := self.folder.last) is None:
            return None
        state: ClientMethodState = settle(self.fed, self.method.state_type, last)
        self.log = RoundLog.from_tree(last["log"])
        log.info("Resuming after round %d of %d", self.log.done, self.method.rounds)
        return dataclasses.replace(state, module={**state.module, "name": module})

    def _kept(self, state: ClientMethodState) -> ClientMethodState:
        """Write a checkpoint of the state, if there is a folder for it, and return the state."""
        if self.folder is not None:
            tree = {**snapshot(self.fed, state), "names": list(self.fed.names), "log": self.log.tree()}
            self.folder.keep(tree, self._result(state))
        return state

    def _participating(self) -> ClientMethod:
        """Return the method with as many participants as Flower's FedAvg samples from the connected nodes."""
        connected = max(1, len(self.fed.present))
        count = max(1, int(self.strategy.fraction_train * connected), self.strategy.min_train_nodes)
        return dataclasses.replace(self.method, participation=min(1.0, count / connected))

    def _note(self, record: Record, number: int) -> None:
        """Store a step's record, and log it."""
        values = dict(record.values)
        for name in _BY_CLIENT & values.keys():
            values[name] = values[name][: len(self.fed.names)]
        if not self.fed.has_losses:
            del values["loss"], values["losses"]
        missing = record.missing | self.fed.left_out
        entry = {"round": number, "answered": record.answered, "missing": missing, **values, **self._traffic()}
        self.log.records.append(entry)
        log.info("[ROUND %d/%d] %s", number, self.method.rounds, "" if number else values.get("phase", ""))
        log.info("\t├──> %d nodes answered, %d did not", len(record.answered), len(missing))
        for client, reason in missing.items():
            log.warning("\t│\t> %s: %s", self.fed.called(client), reason)
        sizes = ", ".join(map(str, values["sizes"]))
        log.info("\t├──> %s of %s nodes", pluralize(values["clusters"], "cluster"), sizes or "no")

    def _traffic(self) -> dict[str, int]:
        """Return the bytes sent to nodes and received from them so far, as in records."""
        return {"sent": self.fed.traffic.sent, "received": self.fed.traffic.received}

    def _count_training(self, number: int, record: Record) -> None:
        """Store and aggregate the training metrics of the clients whose training was used."""
        losses = record.values["losses"]  # a client that trained may be missing in another exchange of the step
        used = {client: metrics for client, metrics in self.fed.trained.items() if str(client) in losses}
        self.log.last_trained |= used
        total = self._aggregated(self.strategy.train_metrics_aggr_fn, used)
        if total is not None:
            log.info("\t├──> Training: %s", dict(total))
            self.log.trained[number] = total

    def _evaluate(self, number: int, state: ClientMethodState) -> None:
        """Evaluate cluster models at sampled nodes, and the largest cluster's model at the server."""
        models, labels = list(state.models), state.labels.tolist()
        asked = self._sample({i: labels[i] for i in self.fed.present if labels[i] >= 0}, number)
        found = self.fed.evaluate({client: models[cluster] for client, cluster in asked.items()})
        if found:
            self.log.evaluated_by_client[number] = found
        aggregate = self.strategy.evaluate_metrics_aggr_fn
        total = self._aggregated(aggregate, found)
        if total is not None:
            log.info("\t├──> Evaluation: %s", dict(total))
            self.log.evaluated[number] = total
            clusters = sorted({asked[client] for client in found})
            parts = {k: self._aggregated(aggregate, {i: found[i] for i in found if asked[i] == k}) for k in clusters}
            self.log.evaluated_by_cluster[number] = {k: one for k, one in parts.items() if one is not None}
        self._evaluate_here(number, models[self._largest(state)])

    def _sample(self, labels: Mapping[int, int], number: int) -> dict[int, int]:
        """Sample the clients that evaluate in this round; return their clusters by client."""
        count = max(int(self.strategy.fraction_evaluate * len(labels)), self.strategy.min_evaluate_nodes)
        drawn = torch.randperm(len(labels), generator=self.fed.rng("evaluate", number))[:count]
        clients = list(labels)
        return {clients[at]: labels[clients[at]] for at in sorted(drawn.tolist())}

    def _aggregated(self, aggregate: Aggregate, metrics: Mapping[int, MetricRecord]) -> MetricRecord | None:
        """Aggregate the clients' metrics to weighted means; ``None`` if their names differ."""
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
        if found is None:
            return
        try:
            metrics = MetricRecord(dict(found))
        except (TypeError, ValueError) as error:
            raise FedkinError(
                f"evaluate_fn returned {type(found).__name__}, which is no MetricRecord ({error})."
            ) from error
        log.info("\t├──> Evaluation at the server: %s", dict(metrics))
        self.log.evaluated_here[number] = metrics

    def _largest(self, state: ClientMethodState) -> int:
        """Return the cluster with the most nodes; the first if no node's cluster is known."""
        labels = state.labels[: len(self.fed.names)]
        return int(labels[labels >= 0].bincount(minlength=len(state.models)).argmax())

    def _result(self, state: ClientMethodState) -> ClusterResult:
        """Build the result from the method's clusters and models, and the log."""
        found: dict[str, Any] = self.method.result(state)
        names, layout, log = self.fed.names, self.fed.layout, self.log
        labels = zip(names, found["labels"].tolist(), strict=False)
        models = [layout.record(model) for model in found["models"]]
        chosen = [int(client) for client in found.get("choices", {})]
        return ClusterResult(
            arrays=models[self._largest(state)],
            train_metrics_clientapp=dict(log.trained),
            evaluate_metrics_clientapp=dict(log.evaluated),
            evaluate_metrics_serverapp=dict(log.evaluated_here),
            arrays_by_cluster=models,
            clusters={name: cluster for name, cluster in labels if cluster >= 0},
            memberships={name: own.tolist() for name, own in zip(names, found.get("memberships", []), strict=False)},
            own_arrays={names[i]: layout.record(self.method.model_of(found, i)) for i in chosen},
            nodes=list(names),
            records=list(log.records),
            evaluate_metrics_by_cluster=dict(log.evaluated_by_cluster),
            evaluate_metrics_by_node={
                number: {names[i]: metrics for i, metrics in by.items()}
                for number, by in log.evaluated_by_client.items()
            },
            train_metrics_by_node={names[i]: metrics for i, metrics in log.last_trained.items()},
            method=display_name(type(self.method)),
        )
