"""Rounds of a strategy: the method's steps, with evaluation and log as in Flower's own strategies."""

from __future__ import annotations

import dataclasses
import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch
from flwr.app import ArrayRecord, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result
from safetensors.numpy import save
from torch import Tensor

from fedkin.core import FedkinError, Record
from fedkin.core.files import write_atomically
from fedkin.core.method import display_name
from fedkin.core.payload import owned, save_tree
from fedkin.core.progress import RecordLine, Timing
from fedkin.core.runner import Runner
from fedkin.experiment.checkpoint import load_checkpoint, restore_checkpoint, snapshot
from fedkin.flower.grid_federation import GridFederation, Name
from fedkin.methods.clients.client_method import ClientMethod, ClientMethodState
from fedkin.report.figures import Curve, Figure, PageView
from fedkin.report.numbers import pluralize
from fedkin.report.page import write_page
from fedkin.report.run_page import page_of_rounds

# Log of a strategy's rounds: records and metrics, by client.


V = TypeVar("V")
ByRound = dict[int, MetricRecord]


@dataclass
class RoundLog:
    """Records and metrics of the rounds so far; clients are numbers.

    `done` is the number of rounds of training; `records` are as in `ClusterResult`. `trained`, `evaluated` and
    `evaluated_here` are means over nodes of training and evaluation, and the server's own evaluation, by round; the
    others of evaluation are by round, then by cluster or client. `last_trained` has the metrics of the last training of
    each client.
    """

    done: int = 0
    records: list[dict[str, Any]] = field(default_factory=list)
    trained: ByRound = field(default_factory=dict)
    evaluated: ByRound = field(default_factory=dict)
    evaluated_here: ByRound = field(default_factory=dict)
    evaluated_by_cluster: dict[int, ByRound] = field(default_factory=dict)
    evaluated_by_client: dict[int, ByRound] = field(default_factory=dict)
    last_trained: ByRound = field(default_factory=dict)

    def tree(self) -> dict[str, Any]:
        """Return the log as plain values, for a checkpoint."""
        return {
            "done": self.done,
            "records": [{**one, "missing": _texts(one["missing"], str)} for one in self.records],
            **{name: _texts(getattr(self, name), dict) for name in _METRICS},
            **{name: _texts(getattr(self, name), lambda by: _texts(by, dict)) for name in _DIVIDED},
        }

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> RoundLog:
        """Restore the log from the result of `tree`."""
        log = cls(tree["done"], [{**one, "missing": _numbers(one["missing"], str)} for one in tree["records"]])
        for name in _METRICS:
            setattr(log, name, _numbers(tree[name], MetricRecord))
        for name in _DIVIDED:
            setattr(log, name, _numbers(tree[name], lambda by: _numbers(by, MetricRecord)))
        return log


_METRICS = ("trained", "evaluated", "evaluated_here", "last_trained")
_DIVIDED = ("evaluated_by_cluster", "evaluated_by_client")


def _texts(values: Mapping[int, Any], convert: Callable[[Any], V]) -> dict[str, V]:
    return {str(key): convert(value) for key, value in values.items()}


def _numbers(values: Mapping[str, Any], convert: Callable[[Any], V]) -> dict[int, V]:
    return {int(key): convert(value) for key, value in sorted(values.items(), key=lambda one: int(one[0]))}


# Result of a strategy: Flower's own result, extended by clusters and a model for each, and the page of its run.


_OWN = ("round", "answered", "missing", "sent", "received")
"""Entries of a record that are no values of the method."""


@dataclass(repr=False)
class ClusterResult(Result):
    """Clusters of nodes and their models; where one model is expected, it is that of the largest cluster.

    Attributes
    ----------
    arrays : ArrayRecord
        The largest cluster's model.
    arrays_by_cluster : list of ArrayRecord
        One for each cluster.
    clusters : dict of Name to int
        Cluster of each node; a node whose cluster is not known, because it never replied, is absent. Nodes are called
        by their node ids here and below; with ``names=True`` by their names, which in a simulation are partitions.
    memberships : dict of Name to list of float
        Membership of each node in each cluster; only from FedRC, whose nodes predict with the models' probabilities
        weighted by membership.
    own_arrays : dict of Name to ArrayRecord
        Models of nodes that are better served by another than their cluster's; only from Sattler.
    nodes : list of Name
        Nodes in the order in which `records` number them.
    records : list of dict
        One for each step: ``round``, 0 before training; ``answered`` and ``missing``, and why; ``sent`` and
        ``received``, bytes of arrays and numbers so far; and what the method reports. Clients are numbers in `nodes`.
    evaluate_metrics_by_cluster : dict of int to dict of int to MetricRecord
        By round and cluster, as `evaluate_metrics_clientapp` has them over all nodes.
    evaluate_metrics_by_node : dict of int to dict of Name to MetricRecord
        By round and node: metrics of its own cluster's model, of the nodes that evaluated.
    train_metrics_by_node : dict of Name to MetricRecord
        The last training metrics of each node.
    method : str
        The method's name.
    figures : function
        Describes from records what else a page shows, see `fedkin.core.Method.figures`.
    """

    arrays_by_cluster: list[ArrayRecord] = field(default_factory=list)
    clusters: dict[Name, int] = field(default_factory=dict)
    memberships: dict[Name, list[float]] = field(default_factory=dict)
    own_arrays: dict[Name, ArrayRecord] = field(default_factory=dict)
    nodes: list[Name] = field(default_factory=list)
    records: list[dict[str, Any]] = field(default_factory=list)
    evaluate_metrics_by_cluster: dict[int, dict[int, MetricRecord]] = field(default_factory=dict)
    evaluate_metrics_by_node: dict[int, dict[Name, MetricRecord]] = field(default_factory=dict)
    train_metrics_by_node: dict[Name, MetricRecord] = field(default_factory=dict)
    method: str = ""
    figures: Callable[[Sequence[RecordLine]], Sequence[Figure]] = lambda records: ()

    def members(self, cluster: int) -> list[Name]:
        """Return the nodes in `cluster`, in order."""
        found = (node for node, its in self.clusters.items() if its == cluster)
        return sorted(found, key=lambda node: (isinstance(node, str), node))

    def arrays_of(self, node: Name) -> ArrayRecord:
        """Return the model for `node`: the one it chose, its cluster's, or the largest cluster's if that is unknown."""
        if node in self.own_arrays:
            return self.own_arrays[node]
        return self.arrays_by_cluster[self.clusters[node]] if node in self.clusters else self.arrays

    def save(self, folder: str | Path) -> None:
        """Write models as ``cluster-<k>.safetensors``, and the nodes of each in ``clusters.json``.

        Files of clusters from an earlier `save` that no longer exist are removed.

        Raises
        ------
        FedkinError
            If the folder cannot be written.
        """
        folder = Path(folder)
        clusters = {f"cluster-{k}.safetensors": arrays for k, arrays in enumerate(self.arrays_by_cluster)}
        files = {node: f"node-{_in_a_name(node)}.safetensors" for node in self.own_arrays}
        own = {files[node]: arrays for node, arrays in self.own_arrays.items()}
        for name, arrays in {**clusters, **own}.items():
            write_atomically(folder / name, save({key: array.numpy() for key, array in arrays.items()}))
        index = {
            "clusters": [{"model": name, "nodes": self.members(k)} for k, name in enumerate(clusters)],
            "own models": {str(node): name for node, name in files.items()},
        }
        write_atomically(folder / "clusters.json", json.dumps(index, indent=2) + "\n")
        stale = len(clusters)
        while (path := folder / f"cluster-{stale}.safetensors").exists():
            path.unlink()
            stale += 1

    def report(self, path: str | Path, accuracy_key: str = "eval_acc") -> None:
        """Write an HTML page of the run: clusters of nodes over rounds, metrics of each cluster, and missing nodes.

        Parameters
        ----------
        path : str or Path
            The HTML file.
        accuracy_key : str
            Name of the accuracy, in [0, 1], among the client app's evaluation metrics; shown by client and by cluster.

        Raises
        ------
        FedkinError
            If it cannot be written.
        """
        write_page(Path(path), _view(self, accuracy_key))

    def __repr__(self) -> str:
        """Return the clusters, followed by Flower's own representation of a result."""
        lines = [f"\tCluster {k}: {len(self.members(k))} nodes" for k in range(len(self.arrays_by_cluster))]
        return "\n".join(["Clusters:", *lines, "", super().__repr__()])


def _in_a_name(node: Name) -> str:
    """Escape a node's name for a file name; disallowed characters become their numbers."""
    return "".join(one if one.isalnum() or one in "-_.@+" else f"%{ord(one):x}" for one in str(node))


def _view(result: ClusterResult, accuracy_key: str) -> PageView:
    """Build the content of the page; `accuracy_key` names the accuracy among the nodes' evaluation metrics."""
    records = [_line(result, step, accuracy_key) for step in range(1, len(result.records) + 1)]
    for record in records:  # nodes that came later were in no cluster yet
        labels = record["values"]["labels"]
        labels += [-1] * (len(result.nodes) - len(labels))
    names = [f"node {name}" for name in result.nodes]
    title, evaluated = f"{result.method} on Flower", list(_evaluated(result))
    return page_of_rounds(title, result.figures(records), records, names, evaluated)


def _line(result: ClusterResult, step: int, accuracy_key: str) -> RecordLine:
    """Convert a record of the result to the form of a run's records."""
    entry = result.records[step - 1]
    by_node = result.evaluate_metrics_by_node.get(entry["round"], {}) if entry["round"] else {}
    found = {node: metrics[accuracy_key] for node, metrics in by_node.items() if accuracy_key in metrics}
    sound = {node: value for node, value in found.items() if isinstance(value, int | float) and 0 <= value <= 1}
    values = {name: value for name, value in entry.items() if name not in _OWN}
    line: RecordLine = {
        "step": step,
        "answered": entry["answered"],
        "missing": {str(client): reason for client, reason in entry["missing"].items()},
        "values": {**values, "labels": list(values["labels"])},
        "metrics": {"client_accuracy": [sound.get(node) for node in result.nodes]} if sound else {},
        "sent": entry["sent"],
        "received": entry["received"],
    }
    return line


def _evaluated(result: ClusterResult) -> Iterator[Curve]:
    """Yield a chart for each evaluation metric: the mean over all nodes, and over those of each cluster."""
    steps = {entry["round"]: at for at, entry in enumerate(result.records, 1) if entry["round"]}
    rounds = [number for number in sorted(steps) if number in result.evaluate_metrics_clientapp]
    if len(rounds) < 2:
        return
    metrics, parts = result.evaluate_metrics_clientapp, result.evaluate_metrics_by_cluster
    clusters = sorted({cluster for number in rounds for cluster in parts.get(number, {})})
    for name in sorted({name for number in rounds for name in metrics[number]}):
        series = {"all nodes": _values(name, (metrics[number] for number in rounds))}
        if len(clusters) > 1:
            series |= {f"cluster {k}": _values(name, (parts.get(n, {}).get(k, {}) for n in rounds)) for k in clusters}
        caption = "Mean over the nodes, each with its own cluster's model, as the client app reports it."
        if any(value is not None for value in series["all nodes"]):
            yield Curve(name, caption, [steps[number] for number in rounds], series, x_label="round")


def _values(name: str, metrics: Iterable[MetricRecord | Mapping[str, object]]) -> Sequence[float | None]:
    found = (one.get(name) for one in metrics)
    return [float(value) if isinstance(value, int | float) else None for value in found]


# Folder of a strategy's run: the checkpoint from which it resumes, and the models of its clusters.


CHECKPOINT, MODELS, REPORT = "checkpoint.safetensors", "models", "report.html"


class StrategyFolder:
    """Folder of a run with its last checkpoint, and the model of each cluster after the last round.

    `facts` are the settings in which a run must agree with the checkpoint that it resumes from, as plain values. `last`
    is the checkpoint that the folder held before, if any. Raises FedkinError if the folder holds another run.
    """

    def __init__(self, path: Path, facts: Mapping[str, Any]) -> None:
        self.path, self.facts = path, owned(dict(facts))
        self.last = load_checkpoint(path / CHECKPOINT)
        if self.last is None:
            return
        there = self.last.get("facts", {})
        for name, value in sorted(self.facts.items(), key=lambda fact: fact[0] != "strategy"):  # that says most
            if there.get(name) != value:
                raise FedkinError(
                    f"{path} holds another run: {name} {_shown(there.get(name))} there, and {_shown(value)} here; "
                    "give another folder."
                )

    def keep(self, tree: Mapping[str, Any], result: ClusterResult) -> None:
        """Write the clusters' models, then the checkpoint."""
        result.save(self.path / MODELS)
        save_tree(self.path / CHECKPOINT, {**tree, "facts": self.facts})


def _shown(value: Any) -> str:
    text = repr(value)
    return f"is {text}" if len(text) <= 60 else "is something else"


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


class RoundRunner(Runner):
    """Runner of a strategy's rounds, for one run; the folder keeps a checkpoint after every step."""

    method: ClientMethod
    fed: GridFederation

    def __init__(
        self,
        strategy: RoundOptions,
        method: ClientMethod,
        fed: GridFederation,
        evaluate_fn: EvaluateHere | None,
        folder: StrategyFolder | None = None,
    ) -> None:
        super().__init__(method, fed)
        self.strategy, self.evaluate_fn, self.folder, self.log = strategy, evaluate_fn, folder, RoundLog()

    def run(self, models: Tensor, module: str) -> ClusterResult:
        """Run all rounds, or the remaining ones after resuming.

        Training starts from `models` ``(m, size)``; `module` is the name by which methods know the client app's model.
        """
        state = self._resumed(module)
        if state is None:
            self._evaluate_here(0, models[0])
            self._gather()
            state = self.keep(self.strategy.begin(self.fed, self.method, models), {}, None)
        last: ClientMethodState = self.steps(state)
        return self._result(last)

    def advance(self, step: int) -> None:
        """Wait for nodes, of which as many train as Flower's FedAvg samples from those connected."""
        self._gather()
        connected = max(1, len(self.fed.present))
        count = max(1, int(self.strategy.fraction_train * connected), self.strategy.min_train_nodes)
        self.method = dataclasses.replace(self.method, participation=min(1.0, count / connected))
        self.fed.round, self.fed.trained, self.fed.has_losses = self.log.done + 1, {}, True

    def judge(self, state: ClientMethodState, record: Record | None) -> Mapping[str, Any]:
        """Log a step, and evaluate the models where it was a round; the metrics are in the log alone."""
        assert record is not None
        log = self.log
        trains = record.values.get("phase", "training") in _TRAINING
        self._note(record, log.done + 1 if trains else 0)
        if trains:
            log.done += 1
            self._count_training(log.done, record)
            self._evaluate(log.done, state)
            log.records[-1] |= self._traffic()
        return {}

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
        state: ClientMethodState = restore_checkpoint(self.fed, self.method.state_type, last)
        self.log = RoundLog.from_tree(last["log"])
        log.info("Resuming after round %d of %d", self.log.done, self.method.rounds)
        return dataclasses.replace(state, module={**state.module, "name": module})

    def keep(self, state: ClientMethodState, timing: Timing, line: RecordLine | None) -> ClientMethodState:
        """Write a checkpoint of the state, if there is a folder for it, and return the state."""
        if self.folder is not None:
            tree = {**snapshot(self.fed, state), "names": list(self.fed.names), "log": self.log.tree()}
            self.folder.keep(tree, self._result(state))
        return state

    def _note(self, record: Record, number: int) -> None:
        """Store a step's record, and log it."""
        values = dict(record.values)
        for name in _BY_CLIENT & values.keys():
            values[name] = values[name][: len(self.fed.names)]
        if not self.fed.has_losses:
            del values["loss"], values["losses"]
        missing = record.missing | self.fed.dropped
        entry = {"round": number, "answered": record.answered, "missing": missing, **values, **self._traffic()}
        self.log.records.append(entry)
        log.info("[ROUND %d/%d] %s", number, self.method.rounds, "" if number else values.get("phase", ""))
        log.info("\t├──> %d nodes answered, %d did not", len(record.answered), len(missing))
        for client, reason in missing.items():
            log.warning("\t│\t> %s: %s", self.fed.client_label(client), reason)
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
            figures=self.method.figures,
        )
