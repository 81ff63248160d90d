"""Flower strategies: their base and result, rounds with evaluation and log as in Flower's, and one per method."""

from __future__ import annotations

import dataclasses
import inspect
import json
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import torch
from flwr.app import ArrayRecord, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy
from flwr.serverapp.strategy.strategy_utils import aggregate_metricrecords
from safetensors.numpy import save
from torch import Tensor

from fedkin.core import FedkinError, Record
from fedkin.core.errors import suggestion
from fedkin.core.files import folder_lock, write_atomically
from fedkin.core.method import display_name, options_of
from fedkin.core.payload import owned, save_tree
from fedkin.core.runner import RecordLine, Runner, Timing
from fedkin.experiment.config import checked_method
from fedkin.experiment.registry import resolve
from fedkin.experiment.run_folder import load_checkpoint, restore_checkpoint, snapshot
from fedkin.flower.array_layout import ArrayLayout, registered_model
from fedkin.flower.grid_federation import Aggregate, Config, GridFederation, Name, StrategyOptions
from fedkin.methods.clients.client_method import ClientMethod, ClientMethodState
from fedkin.nn.modules import Classifier
from fedkin.report.figures import Figure
from fedkin.report.numbers import pluralize
from fedkin.report.page import write_page
from fedkin.report.run_page import page_of_rounds

PATIENCE = 1.0
"""Seconds between two looks at who is connected."""
CHECKPOINT, MODELS, REPORT = "checkpoint.safetensors", "models", "report.html"
"""What the folder of a run holds."""
OPTIONS = {option.name: option.default for option in dataclasses.fields(StrategyOptions)}
_KEPT = ("rounds", "lines", "means", "evaluated")
"""What a checkpoint has of a `RoundRunner`, beside the method's state."""
NOT_HERE = ("module", "rounds", "participation")
"""Hyper-parameters that the arguments of `ClusterStrategy.start`, or `StrategyOptions`, take the place of."""
TRAINING = (
    "local_epochs", "local_steps", "batch_size", "optimizer", "learning_rate", "momentum", "weight_decay", "proximal",
)  # fmt: skip
"""How clients train, which is the client app's own."""

log = logging.getLogger("flwr")


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
    nodes : list of Name
        Nodes in the order in which `records` number them.
    records : list of dict
        One for each step, as in ``records.jsonl`` of a run: ``answered`` and ``missing``, and why; ``sent`` and
        ``received``, bytes of arrays and numbers so far; and ``values`` that the method reports, with the ``round``, 0
        before training. Clients are numbers in `nodes`.
    evaluate_metrics_by_node : dict of int to dict of Name to MetricRecord
        By round and node: metrics of its own cluster's model, of the nodes that evaluated.
    method : str
        The method's name.
    figures : function
        Describes from records what else a page shows, see `fedkin.core.Method.figures`.
    """

    arrays_by_cluster: list[ArrayRecord] = field(default_factory=list)
    clusters: dict[Name, int] = field(default_factory=dict)
    nodes: list[Name] = field(default_factory=list)
    records: list[RecordLine] = field(default_factory=list)
    evaluate_metrics_by_node: dict[int, dict[Name, MetricRecord]] = field(default_factory=dict)
    method: str = ""
    figures: Callable[[Sequence[RecordLine]], Sequence[Figure]] = lambda records: ()

    def members(self, cluster: int) -> list[Name]:
        """Return the nodes in `cluster`, in order."""
        nodes = (node for node, its in self.clusters.items() if its == cluster)
        return sorted(nodes, key=lambda node: (isinstance(node, str), node))

    def arrays_of(self, node: Name) -> ArrayRecord:
        """Return the model for `node`: its cluster's, or the largest cluster's if that is unknown."""
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
        for name, arrays in clusters.items():
            write_atomically(folder / name, save({key: array.numpy() for key, array in arrays.items()}))
        index = {"clusters": [{"model": name, "nodes": self.members(k)} for k, name in enumerate(clusters)]}
        write_atomically(folder / "clusters.json", json.dumps(index, indent=2) + "\n")
        for path in set(folder.glob("cluster-*.safetensors")) - {folder / name for name in clusters}:
            path.unlink()

    def report(self, path: str | Path) -> None:
        """Write an HTML page of the run: clusters of nodes over rounds, their accuracy, and missing nodes.

        Raises
        ------
        FedkinError
            If it cannot be written.
        """
        names = [f"node {name}" for name in self.nodes]
        page = page_of_rounds(f"{self.method} on Flower", self.figures(self.records), self.records, names)
        write_page(Path(path), page)

    def __repr__(self) -> str:
        """Return the clusters, followed by Flower's own representation of a result."""
        sizes = {f"cluster {k}": f"{len(self.members(k))} nodes" for k in range(len(self.arrays_by_cluster))}
        return f"{sizes}\n{super().__repr__()}"


class ClusterStrategy(Strategy):
    """Base class of strategies that find clusters of nodes and train a model for each.

    A strategy is started as Flower's own are. It works with any app that works with FedAvg, and sends what FedAvg
    sends. It runs the same method as fedkin's engines; a task for clients becomes such messages. Parameters are those
    of `fedkin.flower.grid_federation.StrategyOptions`, of Flower's FedAvg and a few more, and hyper-parameters of the
    method, without those that the client app decides.
    """

    _method: ClassVar[type[ClientMethod]]
    _fixed: ClassVar[Mapping[str, Any]] = {}
    """Hyper-parameters that are fixed here, and their values."""
    _several: ClassVar[bool] = False
    """Whether training begins with a model for each cluster."""

    def __init_subclass__(cls, method: type[ClientMethod] | str | None = None, **more: Any) -> None:
        """Add the hyper-parameters of `method`, its name or class; by default its base's.

        Raises FedkinError if `method` does not cluster clients.
        """
        super().__init_subclass__(**more)
        if method is not None:
            declared = resolve("method", method) if isinstance(method, str) else method
            if not (isinstance(declared, type) and issubclass(declared, ClientMethod)):
                raise FedkinError(
                    f"{cls.__name__} is made of {getattr(declared, '__name__', repr(declared))}; a strategy carries "
                    "classes that inherit fedkin.methods.clients.client_method.ClientMethod."
                )
            cls._method = declared
            options = (
                f"`{StrategyOptions.__module__}.StrategyOptions` and `{declared.__module__}.{declared.__qualname__}`"
            )
            cls.__doc__ = f"{inspect.cleandoc(cls.__doc__ or '')}\n\nIts parameters are those of {options}."
        cls.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
                for name, default in (OPTIONS | cls._hyper_parameters()).items()
            ]
        )

    def __init__(self, **options: Any) -> None:
        name, defaults = type(self).__name__, self._hyper_parameters()
        for option in options:
            if option not in (allowed := OPTIONS | defaults):
                elsewhere = option in (*NOT_HERE, *TRAINING, *self._fixed)
                end = "the client app decides it, or start() takes it." if elsewhere else suggestion(option, allowed)
                raise TypeError(f"{name} has no parameter '{option}'; {end}")
        self.options: dict[str, Any] = {key: options.get(key, default) for key, default in defaults.items()}
        values = {key: options.get(key, default) for key, default in OPTIONS.items()}
        self.app_options: StrategyOptions = checked_method(StrategyOptions, values)
        # A wrong value is refused here, and not when nodes have connected; with more rounds than any option waits for.
        self.method("auto", 10**6)

    def __repr__(self) -> str:
        """Return the strategy with the parameters that differ from their defaults."""
        defaults, values = OPTIONS | self._hyper_parameters(), vars(self.app_options) | self.options
        changed = [f"{name}={value!r}" for name, value in values.items() if value != defaults[name]]
        return f"{type(self).__name__}({', '.join(changed)})"

    @classmethod
    def _hyper_parameters(cls) -> dict[str, Any]:
        """Return the method's hyper-parameters that the strategy has, and their defaults."""
        absent = (*NOT_HERE, *TRAINING, *cls._fixed)
        return {option.name: option.default for option in options_of(cls._method) if option.name not in absent}

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise FedkinError(
            f"{type(self).__name__} has a model for every cluster, so no other strategy can wrap it; call its start(), "
            "and for differential privacy add LocalDpMod to the client app."
        )

    configure_train = aggregate_train = configure_evaluate = aggregate_evaluate = _refuse

    def method(self, module: str, rounds: int) -> ClientMethod:
        """Build the method; raise FedkinError if a hyper-parameter is not allowed."""
        method: ClientMethod = checked_method(
            self._method, {**self.options, **self._fixed, "module": module, "rounds": rounds}
        )
        return method

    def begin(self, fed: GridFederation, method: Any, models: Tensor) -> ClientMethodState:
        """Return the initial state from the models ``(m, size)`` that `start` was given."""
        count = method.n_clusters if self._several else 1
        if len(models) != count:
            raise FedkinError(
                f"{type(self).__name__} begins with {pluralize(count, 'model')}, but initial_arrays holds "
                f"{len(models)}."
            )
        state: ClientMethodState = method.init(fed)
        return dataclasses.replace(state, models=models) if self._several else state

    def summary(self) -> None:
        """Log the strategy's parameters."""
        log.info("\t└──> %r", self)

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord | Sequence[ArrayRecord],
        num_rounds: int = 3,
        timeout: float | None = 3600,
        train_config: Config | None = None,
        evaluate_config: Config | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
        folder: str | Path | None = None,
    ) -> ClusterResult:
        """Run the strategy: find the clusters and train their models.

        Parameters
        ----------
        grid : Grid
        initial_arrays : ArrayRecord or list of ArrayRecord
            The model that training begins from; `CLoVEStrategy` takes a list of `n_clusters` of them, and
            `IFCAStrategy` either.
        num_rounds : int
            Rounds of training; steps that come before it are not counted.
        timeout : float or None
            Seconds until nodes that have not replied to an exchange count as missing; None waits for all.
        train_config, evaluate_config : ConfigRecord or callable, optional
            Configuration sent with every message, or a function that returns that of a round, as for a learning rate
            that decreases; ``server-round`` is added.
        evaluate_fn : callable, optional
            ``(round, arrays) -> MetricRecord or None``, called with the largest cluster's model before and after every
            round.
        folder : str or Path, optional
            Where a checkpoint is kept after every step, with each cluster's model in ``models``, and a ``report.html``
            in the end. The same call resumes from it as if nothing had happened; nodes are recognised by their ids or,
            with `names`, by their names.

        Returns
        -------
        ClusterResult

        Raises
        ------
        FedkinError
            If a value is not allowed, no reply of the client app can be used, or `folder` holds another run or is used
            by another process.
        """
        if type(num_rounds) is not int or num_rounds < 1:
            raise FedkinError(f"num_rounds is {num_rounds!r}; allowed: whole numbers from 1.")
        if timeout is not None and not (isinstance(timeout, int | float) and timeout > 0):
            raise FedkinError(f"timeout is {timeout!r}; allowed: above 0, in seconds, or None.")
        began, path = time.monotonic(), None if folder is None else Path(folder)
        layout, models = _models_in(initial_arrays)
        log.info("Starting %s strategy: %d rounds", type(self).__name__, num_rounds)
        self.summary()
        with ExitStack() as stack:
            module = stack.enter_context(registered_model(layout, models[0]))
            if path is not None:
                stack.enter_context(folder_lock(path))
            rounds = RoundRunner(self, module, num_rounds, path, layout)
            rounds.evaluate_fn = evaluate_fn
            configs = {MessageType.TRAIN: train_config or {}, MessageType.EVALUATE: evaluate_config or {}}
            result = rounds.run(grid, configs, math.inf if timeout is None else float(timeout), models)
            if path is not None:
                result.report(path / REPORT)
        log.info("Strategy execution finished in %.2fs", time.monotonic() - began)
        return result


def _models_in(initial_arrays: ArrayRecord | Sequence[ArrayRecord]) -> tuple[ArrayLayout, Tensor]:
    """Return the layout of the initial models, and the models as vectors ``(m, size)``.

    Raises FedkinError if they are not records of arrays, hold no parameters, or differ in layout.
    """
    records = [initial_arrays] if isinstance(initial_arrays, ArrayRecord) else initial_arrays
    are_records = isinstance(records, Sequence) and all(isinstance(record, ArrayRecord) for record in records)
    if not are_records or not records:
        raise FedkinError(
            f"initial_arrays is of type {type(initial_arrays).__name__}; give an ArrayRecord, as in "
            "ArrayRecord(model.state_dict()), or a list of them."
        )
    layout, vectors = ArrayLayout.of(records[0]), []
    for position, record in enumerate(records):
        vector = layout.vector(record)
        if isinstance(vector, str):
            raise FedkinError(f"initial_arrays holds models that differ: in that at {position}, {vector}.")
        vectors.append(vector)
    return layout, torch.stack(vectors)


# The rounds of one run.


class RoundRunner(Runner):
    """Runner of a strategy's rounds, for one run; a `folder` keeps a checkpoint after every step.

    `module` is the name by which methods know the client app's model, whose arrays are of the `layout`. Raises
    FedkinError if the folder holds another run.

    Attributes
    ----------
    rounds : int
        Rounds of training so far.
    lines : list of dict
        One for each step, as in ``records.jsonl``, with labels of all seats.
    means : list of (str, int, dict)
        Means over clients: of what, ``"trained"``, ``"evaluated"`` or ``"evaluated here"``, the last by the server; the
        round; and the metrics.
    evaluated : list of (int, int, dict)
        Metrics by round and client.
    """

    method: ClientMethod
    fed: GridFederation
    evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None

    def __init__(
        self, strategy: ClusterStrategy, module: str, num_rounds: int, folder: Path | None, layout: ArrayLayout
    ) -> None:
        self.strategy, self.options, self.layout = strategy, strategy.app_options, layout
        self.module, self.num_rounds, self.folder = module, num_rounds, folder
        self.rounds = 0
        self.lines: list[RecordLine] = []
        self.means: list[tuple[str, int, dict[str, Any]]] = []
        self.evaluated: list[tuple[int, int, dict[str, Any]]] = []
        # A run resumes only with the settings that it began with.
        settings = {
            "strategy": type(strategy).__name__,
            "num_rounds": num_rounds,
            **{option: value for option, value in strategy.options.items() if not callable(value)},
            "seed": self.options.seed,
            "names": self.options.names,
            "initial_arrays": {name: list(shape) for name, shape in zip(layout.names, layout.shapes, strict=True)},
        }
        self.facts: dict[str, Any] = owned(settings)
        self.last = None if folder is None else load_checkpoint(folder / CHECKPOINT)
        before = self.facts if self.last is None else self.last.get("facts", {})
        for name, value in sorted(self.facts.items(), key=lambda fact: fact[0] != "strategy"):  # which says most
            if before.get(name) != value:
                old, new = (text if len(text := repr(each)) <= 60 else "another" for each in (before.get(name), value))
                raise FedkinError(
                    f"{folder} holds another run: {name} is {old} there, and {new} here; give another folder."
                )

    def run(self, grid: Grid, configs: Mapping[str, Config], timeout: float, models: Tensor) -> ClusterResult:
        """Run all rounds, or the remaining ones after resuming; training starts from `models` ``(m, size)``."""
        self._wait(grid)  # before there is a federation, whose seats are numbered from the nodes that are there
        last = self.last or {"state": {"labels": ()}, "names": ()}
        names, seats = last["names"], None if self.last is None else len(last["state"]["labels"])
        fed = GridFederation(grid, self.layout, self.options, configs, timeout, seats, names)
        if not self.options.names and names and min(fed.present, default=len(names)) >= len(names):
            raise FedkinError(
                f"None of the {len(names)} nodes of the run in {self.folder} is connected, by their ids; with "
                "names=True nodes are known by their names instead, in a simulation by their partitions."
            )
        super().__init__(self.strategy.method(self.module, self.num_rounds), fed)
        if self.last is None:
            self._evaluate_here(0, models[0])
            self._gather()
            return self._result(self.steps(self.keep(self.strategy.begin(fed, self.method, models), {}, None)))
        state: ClientMethodState = restore_checkpoint(fed, self.method.state_type, self.last)
        for name in _KEPT:
            setattr(self, name, self.last[name])
        log.info("Resuming after round %d of %d", self.rounds, self.num_rounds)
        # The model is registered under another name in every process.
        return self._result(self.steps(dataclasses.replace(state, module={**state.module, "name": self.module})))

    def advance(self, step: int) -> None:
        """Wait for nodes, of which as many train as Flower's FedAvg samples from those connected."""
        self._gather()
        connected = max(1, len(self.fed.present))
        # FedAvg's own rounding; how many are connected is known only now, so the method is another one in each round.
        count = max(1, int(self.options.fraction_train * connected), self.options.min_train_nodes)
        self.method = dataclasses.replace(self.method, participation=min(1.0, count / connected))
        self.fed.round, self.fed.trained, self.fed.has_losses = self.rounds + 1, {}, True

    def judge(self, state: ClientMethodState, record: Record | None) -> Mapping[str, Any]:
        """Log a step, and evaluate the models where it was a round; return the accuracies of clients."""
        assert record is not None
        trains = record.values.get("phase", "training") in ("training", "warm-up")
        self.rounds += trains
        losses = record.values.get("losses", {})  # a client that trained may be missing in another exchange of the step
        record.values["round"] = self.rounds if trains else 0
        if not self.fed.has_losses:
            del record.values["loss"], record.values["losses"]
        self._log(record)
        if not trains:
            return {}
        used = {client: metrics for client, metrics in self.fed.trained.items() if str(client) in losses}
        self._average("trained", self.options.train_metrics_aggr_fn, used)
        metrics = self._evaluate(state)
        accuracies = [metrics.get(i, {}).get(self.options.eval_accuracy_key) for i in self.fed.ids]
        sound = [value if isinstance(value, int | float) and 0 <= value <= 1 else None for value in accuracies]
        return {"client_accuracy": sound} if any(value is not None for value in sound) else {}

    def keep(self, state: ClientMethodState, timing: Timing, line: RecordLine | None) -> ClientMethodState:
        """Write the clusters' models, then a checkpoint, if there is a folder for them; return the state."""
        self.lines += [] if line is None else [line]
        if self.folder is not None:
            self._result(state).save(self.folder / MODELS)
            tree = {name: getattr(self, name) for name in _KEPT} | {"facts": self.facts}
            tree |= {**snapshot(self.fed, state), "names": list(self.fed.names)}
            save_tree(self.folder / CHECKPOINT, owned(tree))
        return state

    def _wait(self, grid: Grid) -> None:
        """Wait until the minimum number of nodes is connected."""
        evaluating = self.options.min_evaluate_nodes if self.options.fraction_evaluate else 0
        minimum = max(1, self.options.min_available_nodes, self.options.min_train_nodes, evaluating)
        while (connected := len(list(grid.get_node_ids()))) < minimum:
            log.info("Waiting for nodes to connect: %d connected (minimum required: %d).", connected, minimum)
            time.sleep(PATIENCE)

    def _gather(self) -> None:
        """Wait until enough nodes are connected, and one of them takes part."""
        while True:
            self._wait(self.fed.grid)
            self.fed.connect()
            if self.fed.present:
                return
            log.info("Waiting for nodes that take part: none of those connected does.")
            time.sleep(PATIENCE)

    def _log(self, record: Record) -> None:
        values, missing = record.values, record.missing | self.fed.dropped
        number = values["round"]
        log.info("[ROUND %d/%d] %s", number, self.num_rounds, "" if number else values.get("phase", ""))
        log.info("\t├──> %d nodes answered, %d did not", len(record.answered), len(missing))
        for client, reason in missing.items():
            log.warning("\t│\t> %s: %s", self.fed.client_label(client), reason)
        sizes = ", ".join(map(str, values["sizes"]))
        log.info("\t├──> %s of %s nodes", pluralize(values["clusters"], "cluster"), sizes or "no")

    def _average(self, what: str, aggregate: Aggregate | None, metrics: Mapping[int, MetricRecord]) -> None:
        """Store and log the weighted mean of clients' metrics, unless their names differ."""
        names = {frozenset(record) for record in metrics.values()}
        if len(names) == 1:
            records = [RecordDict({"metrics": record}) for record in metrics.values()]
            total = dict((aggregate or aggregate_metricrecords)(records, self.options.weighted_by_key))
            log.info("\t├──> %s: %s", what.capitalize(), total)
            self.means.append((what, self.rounds, total))
        elif names:
            log.warning("Nodes replied with different metrics, which are not averaged.")

    def _evaluate(self, state: ClientMethodState) -> dict[int, dict[str, Any]]:
        """Evaluate cluster models at sampled nodes, whose metrics are returned, and the largest one's at the server."""
        labels = state.labels.tolist()
        placed = [client for client in self.fed.present if labels[client] >= 0]
        fewest = self.options.min_evaluate_nodes if self.options.fraction_evaluate else 0
        count = max(int(self.options.fraction_evaluate * len(placed)), fewest)
        drawn = torch.randperm(len(placed), generator=self.fed.rng("evaluate", self.rounds))[:count]
        metrics = self.fed.evaluate({placed[i]: state.models[labels[placed[i]]] for i in sorted(drawn.tolist())})
        self._average("evaluated", self.options.evaluate_metrics_aggr_fn, metrics)
        self._evaluate_here(self.rounds, state.models[self._largest(state)])
        by_client = {client: dict(record) for client, record in metrics.items()}
        self.evaluated += [(self.rounds, client, record) for client, record in by_client.items()]
        return by_client

    def _evaluate_here(self, number: int, model: Tensor) -> None:
        if self.evaluate_fn is None or (metrics := self.evaluate_fn(number, self.layout.record(model))) is None:
            return
        if not isinstance(metrics, MetricRecord):
            raise FedkinError(f"evaluate_fn returned {type(metrics).__name__}, which is no MetricRecord.")
        self.means.append(("evaluated here", number, dict(metrics)))
        log.info("\t├──> Evaluation at the server: %s", dict(metrics))

    def _largest(self, state: ClientMethodState) -> int:
        """Return the cluster with the most nodes; the first if no node's cluster is known."""
        labels = state.labels[: len(self.fed.names)]
        return int(labels[labels >= 0].bincount(minlength=len(state.models)).argmax())

    def _result(self, state: ClientMethodState) -> ClusterResult:
        """Build the result from the method's clusters and models, and what was measured."""
        result: dict[str, Any] = self.method.result(state)
        names, models = self.fed.names, [self.layout.record(model) for model in result["models"]]
        by_node: dict[int, dict[Name, MetricRecord]] = {}
        for number, client, metrics in self.evaluated:
            by_node.setdefault(number, {})[names[client]] = MetricRecord(metrics)
        trained, evaluated, here = (
            {number: MetricRecord(metrics) for what, number, metrics in self.means if what == kind}
            for kind in ("trained", "evaluated", "evaluated here")
        )
        return ClusterResult(
            arrays=models[self._largest(state)],
            train_metrics_clientapp=trained,
            evaluate_metrics_clientapp=evaluated,
            evaluate_metrics_serverapp=here,
            arrays_by_cluster=models,
            clusters={
                name: cluster for name, cluster in zip(names, result["labels"].tolist(), strict=False) if cluster >= 0
            },
            nodes=list(names),
            records=[_of_nodes(line, len(names)) for line in self.lines],
            evaluate_metrics_by_node=by_node,
            method=display_name(type(self.method)),
            figures=self.method.figures,
        )


def _of_nodes(line: RecordLine, count: int) -> RecordLine:
    """Return a line without the seats of nodes that have not come."""
    values = line["values"] | {"labels": line["values"]["labels"][:count]}
    return {**line, "values": values, "metrics": {name: each[:count] for name, each in line["metrics"].items()}}


# Strategies by name: each runs a method of `fedkin.methods.clients`.


class FedAvgStrategy(ClusterStrategy, method="fedavg"):
    """Strategy of FedAvg: one model for all nodes (McMahan et al. 2017), the baseline for clusters."""


class FedOptStrategy(ClusterStrategy, method="fedopt"):
    """Strategy of FedOpt: one model for all nodes, with an adaptive optimiser at the server (Reddi et al. 2021)."""


class OCFLStrategy(ClusterStrategy, method="ocfl"):
    """Strategy of OCFL: find clusters and their number once, as soon as the nodes' updates diverge (Zuziak et al.)."""


class SattlerStrategy(ClusterStrategy, method="sattler"):
    """Strategy of CFL: bipartition clusters recursively where one model no longer fits all (Sattler et al. 2020).

    Without the paper's cache of models from before a cut, which fedkin's own client app has.
    """

    _fixed: ClassVar = {"cache": False}


class HierarchicalStrategy(ClusterStrategy, method="hierarchical"):
    """Strategy of FL+HC: cluster nodes once, by a dendrogram of updates cut at a given height (Briggs et al. 2020)."""


class FeSEMStrategy(ClusterStrategy, method="fesem"):
    """Strategy of FeSEM: assign each node to the nearest of `n_clusters` models in every round (Long et al. 2023)."""


class FedGroupStrategy(ClusterStrategy, method="fedgroup"):
    """Strategy of FedGroup: cluster nodes once, by the decomposed cosine similarity of updates (Duan et al. 2021)."""


class IFCAStrategy(ClusterStrategy, method="ifca"):
    """Strategy of IFCA: each node trains the one of `n_clusters` models that fits it best (Ghosh et al. 2020).

    The app's evaluation reports a loss, `eval_loss_key`. Models are chosen by that loss, so on the samples the app
    evaluates with. A round is `n_clusters` evaluations at every node and then a training: two exchanges, where fedkin's
    own client app needs one.

    With one model as `initial_arrays` the others are seeded as in k-means++: before the first round one node after
    another trains it, each sampled in proportion to its loss under the models so far. With a list of `n_clusters`
    models, training begins from these; they should differ.
    """

    # On all samples, and by initial_arrays; a node chooses and trains at once.
    _fixed: ClassVar = {"identity": "all", "start": "random", "min_size": 0}
    _several = True

    def begin(self, fed: GridFederation, method: Any, models: Tensor) -> ClientMethodState:
        """Return the initial state, with models that are seeded or given."""
        if len(models) == 1:
            seeded: ClientMethodState = dataclasses.replace(method, start="kmeans").init(fed)
            return seeded
        state = super().begin(fed, method, models)
        models = state.models.clone()
        shared = Classifier.of(state.module).leading(method.shared_layers)
        models[:, :shared] = models[0, :shared]
        return dataclasses.replace(state, models=models)


class CLoVEStrategy(ClusterStrategy, method="clove"):
    """Strategy of CLoVE: k-means of the nodes' losses under `n_clusters` models, in every round (Bhatia et al. 2025).

    The app's evaluation reports a loss, `eval_loss_key`; a node evaluates all models in a round in which it is
    clustered. `initial_arrays` is a list of `n_clusters` models that differ.
    """

    _several = True
