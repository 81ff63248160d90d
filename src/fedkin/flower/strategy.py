"""Base class of the strategies, and the rounds of a run: a method's steps, with evaluation and log as in Flower's."""

from __future__ import annotations

import dataclasses
import inspect
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import torch
from flwr.app import ArrayRecord, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy
from flwr.serverapp.strategy.strategy_utils import aggregate_metricrecords
from torch import Tensor

from fedkin.core import FedkinError, Record
from fedkin.core.errors import hint, meant_by, nearest_few
from fedkin.core.files import folder_lock
from fedkin.core.method import display_name
from fedkin.core.payload import owned, save_tree
from fedkin.core.progress import RecordLine, Timing
from fedkin.core.runner import Runner
from fedkin.experiment.config import checked_method
from fedkin.experiment.run_folder import load_checkpoint, restore_checkpoint, snapshot
from fedkin.flower.array_layout import ArrayLayout, registered_model
from fedkin.flower.grid_federation import Aggregate, AppContract, Config, GridFederation, StrategyOptions
from fedkin.flower.result import ClusterResult
from fedkin.methods.clients.client_method import ClientMethod, ClientMethodState
from fedkin.report.numbers import pluralize

EvaluateHere = Callable[[int, ArrayRecord], MetricRecord | None]
"""Evaluates a round's model at the server, see `ClusterStrategy.start`."""
PATIENCE = 1.0
"""Seconds between two looks at who is connected."""
CHECKPOINT, MODELS, REPORT = "checkpoint.safetensors", "models", "report.html"
"""What the folder of a run holds."""
OPTIONS = {option.name: option.default for option in dataclasses.fields(StrategyOptions)}
ELSEWHERE: dict[str, str] = {
    "initial_parameters": "given to start() as initial_arrays",
    "evaluate_fn": "given to start()",
    "on_fit_config_fn": "given to start() as train_config, which may be a function of the round",
    "on_evaluate_config_fn": "given to start() as evaluate_config, which may be a function of the round",
    "module": "the client app's; its arrays are given to start() as initial_arrays",
    "rounds": "given to start() as num_rounds",
    "participation": "called fraction_train here",
}
"""Parameters of a method, or of Flower's earlier strategies, that a strategy lacks, and where they are."""
TRAINING = (
    "local_epochs", "local_steps", "batch_size", "optimizer", "learning_rate", "learning_rates", "momentum",
    "weight_decay", "proximal", "recipe",
)  # fmt: skip
"""How clients train, which is the client app's own, unless fedkin trains the client app's network."""

log = logging.getLogger("flwr")


class ClusterStrategy(Strategy):
    """Base class of strategies that find clusters of nodes and train a model for each.

    A strategy is started as Flower's own are. Unless it says otherwise, it works with any app that works with FedAvg,
    and sends what FedAvg sends. It runs the same method as fedkin's engines; a task for clients becomes such messages.
    Parameters are those of `fedkin.flower.grid_federation.StrategyOptions`, of Flower's FedAvg and a few more, and
    hyper-parameters of the method, without those that the client app decides.
    """

    _method: ClassVar[type[ClientMethod]]
    _fixed: ClassVar[Mapping[str, str]] = {}
    """Hyper-parameters that are fixed here, and why."""
    _describes: ClassVar[str] = ""
    """The call of `fedkin.flower.describes` that the client app must answer queries by; empty if it need not."""
    _several: ClassVar[bool] = False
    """Whether training begins with a model for each cluster."""
    _trains: ClassVar[bool] = False
    """Whether nodes train by that query, and not by the client app's own function."""
    _unlabelled: ClassVar[tuple[str, str] | None] = None
    """The hyper-parameter and its value with which the client app's data need no labels; ``None`` if they always do."""

    def __init_subclass__(cls, method: type[ClientMethod] | None = None, **more: Any) -> None:
        """Add the hyper-parameters of `method`, and where they are described; by default its base's method.

        Raises FedkinError if `method` does not cluster clients, or the class defines a function that Flower's
        strategies call, but these do not.
        """
        super().__init_subclass__(**more)
        for name in ("configure_train", "aggregate_train", "configure_evaluate", "aggregate_evaluate"):
            if name in vars(cls):
                raise FedkinError(
                    f"{cls.__name__}.{name} would never be called: what is sent and how it is averaged is the "
                    "method's; train_config of start() may be a function of the round, and evaluate_fn follows each."
                )
        if method is not None:
            if not (isinstance(method, type) and issubclass(method, ClientMethod)):
                name = getattr(method, "__name__", repr(method))
                raise FedkinError(
                    f"{cls.__name__} is made of {name}, but a strategy carries methods that cluster clients: classes "
                    "that inherit fedkin.methods.clients.client_method.ClientMethod."
                )
            cls._method = method
            options = f"`{StrategyOptions.__module__}.StrategyOptions` and `{method.__module__}.{method.__qualname__}`"
            cls.__doc__ = f"{inspect.cleandoc(cls.__doc__ or '')}\n\nIts parameters are those of {options}."
        cls.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
                for name, default in (OPTIONS | cls._hyper_parameters()).items()
            ]
        )

    def __init__(self, *unnamed: Any, **options: Any) -> None:
        name, defaults = type(self).__name__, self._hyper_parameters()
        if unnamed:
            raise TypeError(f"{name} takes parameters by name, as in {name}(fraction_train={unnamed[0]!r}).")
        for option in options:
            if option in (elsewhere := self._elsewhere()):
                raise FedkinError(f"{name} has no parameter '{option}': it is {elsewhere[option]}.")
            if option not in (allowed := OPTIONS | defaults):
                end = hint(meant_by(option, allowed), nearest_few(option, allowed, f"help({name})"))
                raise TypeError(f"{name} has no parameter '{option}'; {end}")
        self.options: dict[str, Any] = defaults | {key: value for key, value in options.items() if key in defaults}
        values = OPTIONS | {key: value for key, value in options.items() if key in OPTIONS}
        self.app_options: StrategyOptions = checked_method(StrategyOptions, values)
        self.method("auto", 1)  # a wrong value is refused here, and not when nodes have connected

    def __getattr__(self, name: str) -> Any:
        """Return a parameter of the strategy or a hyper-parameter of the method."""
        options: dict[str, Any] = self.__dict__.get("options", {})
        if name in options:
            return options[name]
        if name in OPTIONS and "app_options" in self.__dict__:
            return getattr(self.app_options, name)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __repr__(self) -> str:
        """Return the strategy with the parameters that differ from their defaults."""
        defaults = OPTIONS | self._hyper_parameters()
        values = vars(self.app_options) | self.options  # one of a method may be called as a function of the strategy
        changed = ", ".join(f"{name}={value!r}" for name, value in values.items() if value != defaults[name])
        return f"{type(self).__name__}({changed})"

    @classmethod
    def _hyper_parameters(cls) -> dict[str, Any]:
        """Return the method's hyper-parameters and their defaults."""
        return {
            option.name: option.default if option.default_factory is dataclasses.MISSING else option.default_factory()
            for option in dataclasses.fields(cls._method)
            if option.name not in cls._elsewhere()
        }

    @classmethod
    def _elsewhere(cls) -> dict[str, str]:
        """Return the method's hyper-parameters that the strategy lacks, with the place where they are set."""
        training = dict.fromkeys(TRAINING, "the client app's own, which train_config of start() can set")
        return ELSEWHERE | ({} if cls._trains else training) | dict(cls._fixed)

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise FedkinError(
            f"{type(self).__name__} has a model for every cluster, so no other strategy can wrap it; call its start(). "
            "Flower's differential privacy at the server protects the mean of one model, but neither the choice of "
            "clusters nor means of a few nodes; add LocalDpMod to the client app instead."
        )

    configure_train = aggregate_train = configure_evaluate = aggregate_evaluate = _refuse

    def method(self, module: str, rounds: int) -> ClientMethod:
        """Build the method; raise FedkinError if a hyper-parameter is not allowed."""
        method: ClientMethod = checked_method(self._method, {**self.options, "module": module, "rounds": rounds})
        return method

    def begin(self, fed: GridFederation, method: Any, models: Tensor) -> ClientMethodState:
        """Return the initial state from the models ``(m, size)`` that `start` was given."""
        if self._several:
            return self._with_models(fed, method, models)
        if len(models) != 1:
            raise FedkinError(f"{type(self).__name__} begins with one model, but initial_arrays holds {len(models)}.")
        state: ClientMethodState = method.init(fed)
        return state

    def _with_models(self, fed: GridFederation, method: Any, models: Tensor, otherwise: str = "") -> ClientMethodState:
        """Return the initial state with the models that `start` was given, one per cluster."""
        if len(models) != method.n_clusters:
            raise FedkinError(
                f"initial_arrays holds {pluralize(len(models), 'model')}; n_clusters is {method.n_clusters}, so give "
                f"as many{otherwise}."
            )
        state: ClientMethodState = method.init(fed)
        return dataclasses.replace(state, models=models)

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
        evaluate_fn: EvaluateHere | None = None,
        folder: str | Path | None = None,
    ) -> ClusterResult:
        """Run the strategy: find the clusters and train their models.

        Parameters
        ----------
        grid : Grid
        initial_arrays : ArrayRecord
            The model that training begins from. `IFCA` also takes a list of `n_clusters` of them.
        num_rounds : int
            Rounds of training; steps that come before it, such as one message from each, are not counted.
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
        began, name, unlabelled = time.monotonic(), type(self).__name__, self._unlabelled
        layout, models = _models_in(initial_arrays)
        contract = AppContract(
            self.app_options,
            {} if train_config is None else train_config,
            {} if evaluate_config is None else evaluate_config,
            math.inf if timeout is None else float(timeout),
            self._describes,
            labels_needed=unlabelled is None or self.options[unlabelled[0]] != unlabelled[1],
            without_labels="" if unlabelled is None else f"{name}({unlabelled[0]}={unlabelled[1]!r})",
        )
        log.info("Starting %s strategy: %d rounds", name, num_rounds)
        self.summary()
        with ExitStack() as stack:
            module = stack.enter_context(registered_model(layout, models[0]))
            path = None if folder is None else Path(folder)
            if path is not None:
                stack.enter_context(folder_lock(path))
            rounds = RoundRunner(self, module, num_rounds, path, self._facts(layout, num_rounds), evaluate_fn)
            result = rounds.run(grid, layout, contract, models)
            if path is not None:
                result.report(path / REPORT, self.app_options.eval_accuracy_key)
        log.info("Strategy execution finished in %.2fs", time.monotonic() - began)
        for line in str(result).splitlines():
            log.info("\t%s", line)
        return result

    def _facts(self, layout: ArrayLayout, num_rounds: int) -> dict[str, Any]:
        """Return the settings in which a run must agree with the checkpoint that it resumes from."""
        return {
            "strategy": type(self).__name__,
            "num_rounds": num_rounds,
            **{name: value for name, value in self.options.items() if not callable(value)},
            "seed": self.app_options.seed,
            "names": self.app_options.names,
            "initial_arrays": {name: list(shape) for name, shape in zip(layout.names, layout.shapes, strict=True)},
        }


def _models_in(initial_arrays: ArrayRecord | Sequence[ArrayRecord]) -> tuple[ArrayLayout, Tensor]:
    """Return the layout of the initial models, and the models as vectors ``(m, size)``.

    Raises FedkinError if they are not records of arrays, hold no parameters, or differ in layout.
    """
    records = [initial_arrays] if isinstance(initial_arrays, ArrayRecord) else initial_arrays
    if (
        not isinstance(records, Sequence)
        or not records
        or not all(isinstance(record, ArrayRecord) for record in records)
    ):
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


@dataclass
class RoundLog:
    """Records and metrics of the rounds so far; clients are numbers.

    `rounds` is the number of rounds of training; `records` are as in `ClusterResult`. `trained`, `evaluated` and
    `evaluated_here` are means over nodes of training and evaluation, and the server's own evaluation, by round; the
    others of evaluation are by round, then by cluster or client. `last_trained` has the metrics of the last training of
    each client.
    """

    rounds: int = 0
    records: list[dict[str, Any]] = field(default_factory=list)
    trained: dict[int, Any] = field(default_factory=dict)
    evaluated: dict[int, Any] = field(default_factory=dict)
    evaluated_here: dict[int, Any] = field(default_factory=dict)
    evaluated_by_cluster: dict[int, Any] = field(default_factory=dict)
    evaluated_by_client: dict[int, Any] = field(default_factory=dict)
    last_trained: dict[int, Any] = field(default_factory=dict)

    def tree(self) -> dict[str, Any]:
        """Return the log as plain values, for a checkpoint: all keys are texts, and metrics dicts."""
        tree: dict[str, Any] = _plain(dict(vars(self)))
        return tree

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> RoundLog:
        """Restore the log from the result of `tree`."""
        records = [
            {**record, "missing": {int(i): reason for i, reason in record["missing"].items()}}
            for record in tree["records"]
        ]
        depths = {name: 2 if "_by_" in name else 1 for name in tree if name not in ("rounds", "records")}
        return cls(tree["rounds"], records, **{name: _metrics(tree[name], depth) for name, depth in depths.items()})


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _metrics(tree: Mapping[str, Any], depth: int) -> Any:
    """Restore metrics by numbers, in their order, from a tree whose keys are texts; `depth` numbers lead to one."""
    if depth == 0:
        return MetricRecord(dict(tree))
    return {int(key): _metrics(value, depth - 1) for key, value in sorted(tree.items(), key=lambda item: int(item[0]))}


def _shown(value: Any) -> str:
    text = repr(value)
    return f"is {text}" if len(text) <= 60 else "is something else"


class RoundRunner(Runner):
    """Runner of a strategy's rounds, for one run; a `folder` keeps a checkpoint after every step.

    `module` is the name by which methods know the client app's model. `facts` are the settings in which a run must
    agree with the checkpoint that it resumes from. Raises FedkinError if the folder holds another run.
    """

    method: ClientMethod
    fed: GridFederation

    def __init__(
        self, strategy: ClusterStrategy, module: str, num_rounds: int, folder: Path | None, facts: Mapping[str, Any],
        evaluate_fn: EvaluateHere | None,
    ) -> None:  # fmt: skip
        self.strategy, self.options, self.evaluate_fn = strategy, strategy.app_options, evaluate_fn
        self.module, self.num_rounds, self.log = module, num_rounds, RoundLog()
        self.folder, self.facts = folder, owned(dict(facts))
        self.last = None if folder is None else load_checkpoint(folder / CHECKPOINT)
        before = self.facts if self.last is None else self.last.get("facts", {})
        for name, value in sorted(self.facts.items(), key=lambda fact: fact[0] != "strategy"):  # that says most
            if before.get(name) != value:
                raise FedkinError(
                    f"{folder} holds another run: {name} {_shown(before.get(name))} there, and {_shown(value)} here; "
                    "give another folder."
                )

    def run(self, grid: Grid, layout: ArrayLayout, contract: AppContract, models: Tensor) -> ClusterResult:
        """Run all rounds, or the remaining ones after resuming; training starts from `models` ``(m, size)``."""
        self._wait(grid)
        last = self.last or {"state": {"labels": ()}, "names": ()}
        names, seats = last["names"], len(last["state"]["labels"])
        fed = GridFederation(grid, layout, contract, None if self.last is None else seats, names)
        if not self.options.names and names and min(fed.present, default=len(names)) >= len(names):
            raise FedkinError(
                f"None of the {len(names)} nodes of the run in {self.folder} is connected, by their ids; with "
                "names=True nodes are known by their names instead, in a simulation by their partitions."
            )
        super().__init__(self.strategy.method(self.module, self.num_rounds), fed)
        if self.last is not None:
            state: ClientMethodState = restore_checkpoint(fed, self.method.state_type, self.last)
            self.log = RoundLog.from_tree(self.last["log"])
            log.info("Resuming after round %d of %d", self.log.rounds, self.num_rounds)
            state = dataclasses.replace(state, module={**state.module, "name": self.module})
        else:
            self._evaluate_here(0, models[0])
            self._gather()
            state = self.keep(self.strategy.begin(fed, self.method, models), {}, None)
        return self._result(self.steps(state))

    def advance(self, step: int) -> None:
        """Wait for nodes, of which as many train as Flower's FedAvg samples from those connected."""
        self._gather()
        connected = max(1, len(self.fed.present))
        count = max(1, int(self.options.fraction_train * connected), self.options.min_train_nodes)
        self.method = dataclasses.replace(self.method, participation=min(1.0, count / connected))
        self.fed.round, self.fed.trained, self.fed.has_losses = self.log.rounds + 1, {}, True

    def judge(self, state: ClientMethodState, record: Record | None) -> Mapping[str, Any]:
        """Log a step, and evaluate the models where it was a round; the metrics are in the log alone."""
        assert record is not None
        trains = record.values.get("phase", "training") in ("training", "warm-up")
        self.log.rounds += trains
        self._note(record, self.log.rounds if trains else 0)
        if trains:
            self._count_training(self.log.rounds, record)
            self._evaluate(self.log.rounds, state)
            self.log.records[-1] |= self._traffic()
        return {}

    def keep(self, state: ClientMethodState, timing: Timing, line: RecordLine | None) -> ClientMethodState:
        """Write the clusters' models, then a checkpoint, if there is a folder for them; return the state."""
        if self.folder is not None:
            self._result(state).save(self.folder / MODELS)
            names = list(self.fed.names)
            tree = {**snapshot(self.fed, state), "names": names, "log": self.log.tree(), "facts": self.facts}
            save_tree(self.folder / CHECKPOINT, tree)
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

    def _note(self, record: Record, number: int) -> None:
        """Store a step's record, and log it."""
        values = dict(record.values)
        for name in ("labels", "memberships"):  # which also have seats of those that may still come
            if name in values:
                values[name] = values[name][: len(self.fed.names)]
        if not self.fed.has_losses:
            del values["loss"], values["losses"]
        missing = record.missing | self.fed.dropped
        entry = {"round": number, "answered": record.answered, "missing": missing, **values, **self._traffic()}
        self.log.records.append(entry)
        log.info("[ROUND %d/%d] %s", number, self.num_rounds, "" if number else values.get("phase", ""))
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
        total = self._aggregated(self.options.train_metrics_aggr_fn, used)
        if total is not None:
            log.info("\t├──> Training: %s", dict(total))
            self.log.trained[number] = total

    def _evaluate(self, number: int, state: ClientMethodState) -> None:
        """Evaluate cluster models at sampled nodes, and the largest cluster's model at the server."""
        labels, aggregate = state.labels.tolist(), self.options.evaluate_metrics_aggr_fn
        placed = [client for client in self.fed.present if labels[client] >= 0]
        fewest = self.options.min_evaluate_nodes if self.options.fraction_evaluate else 0
        count = max(int(self.options.fraction_evaluate * len(placed)), fewest)
        drawn = torch.randperm(len(placed), generator=self.fed.rng("evaluate", number))[:count]
        metrics = self.fed.evaluate({placed[i]: state.models[labels[placed[i]]] for i in sorted(drawn.tolist())})
        if metrics:
            self.log.evaluated_by_client[number] = metrics
        total = self._aggregated(aggregate, metrics)
        if total is not None:
            log.info("\t├──> Evaluation: %s", dict(total))
            self.log.evaluated[number] = total
            self.log.evaluated_by_cluster[number] = {
                cluster: part
                for cluster in sorted({labels[client] for client in metrics})
                if (part := self._aggregated(aggregate, {i: metrics[i] for i in metrics if labels[i] == cluster}))
                is not None
            }
        self._evaluate_here(number, state.models[self._largest(state)])

    def _aggregated(self, aggregate: Aggregate | None, metrics: Mapping[int, MetricRecord]) -> MetricRecord | None:
        """Aggregate the clients' metrics to weighted means; ``None`` if their names differ."""
        names = {frozenset(record) for record in metrics.values()}
        if len(names) > 1:
            log.warning("Nodes replied with different metrics, which are not averaged.")
        if len(names) != 1:
            return None
        records = [RecordDict({"metrics": record}) for record in metrics.values()]
        return (aggregate or aggregate_metricrecords)(records, self.options.weighted_by_key)

    def _evaluate_here(self, number: int, model: Tensor) -> None:
        if self.evaluate_fn is None or (metrics := self.evaluate_fn(number, self.fed.layout.record(model))) is None:
            return
        try:
            self.log.evaluated_here[number] = MetricRecord(dict(metrics))
        except (TypeError, ValueError) as error:
            raise FedkinError(
                f"evaluate_fn returned {type(metrics).__name__}, which is no MetricRecord ({error})."
            ) from error
        log.info("\t├──> Evaluation at the server: %s", dict(metrics))

    def _largest(self, state: ClientMethodState) -> int:
        """Return the cluster with the most nodes; the first if no node's cluster is known."""
        labels = state.labels[: len(self.fed.names)]
        return int(labels[labels >= 0].bincount(minlength=len(state.models)).argmax())

    def _result(self, state: ClientMethodState) -> ClusterResult:
        """Build the result from the method's clusters and models, and the log."""
        result: dict[str, Any] = self.method.result(state)
        names, layout, log = self.fed.names, self.fed.layout, self.log
        labels = zip(names, result["labels"].tolist(), strict=False)
        memberships = zip(names, result.get("memberships", []), strict=False)
        models = [layout.record(model) for model in result["models"]]
        chosen = [int(client) for client in result.get("choices", {})]
        return ClusterResult(
            arrays=models[self._largest(state)],
            train_metrics_clientapp=dict(log.trained),
            evaluate_metrics_clientapp=dict(log.evaluated),
            evaluate_metrics_serverapp=dict(log.evaluated_here),
            arrays_by_cluster=models,
            clusters={name: cluster for name, cluster in labels if cluster >= 0},
            memberships={name: shares.tolist() for name, shares in memberships},
            own_arrays={names[i]: layout.record(self.method.model_of(result, i)) for i in chosen},
            nodes=list(names),
            records=list(log.records),
            evaluate_metrics_by_cluster=dict(log.evaluated_by_cluster),
            evaluate_metrics_by_node={
                number: {names[i]: metrics for i, metrics in by_client.items()}
                for number, by_client in log.evaluated_by_client.items()
            },
            train_metrics_by_node={names[i]: metrics for i, metrics in log.last_trained.items()},
            method=display_name(type(self.method)),
            figures=self.method.figures,
        )
