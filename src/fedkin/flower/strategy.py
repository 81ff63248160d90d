"""Base class of the strategies: the method's hyper-parameters, FedAvg's parameters, and `start`."""

from __future__ import annotations

import dataclasses
import inspect
import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar, NoReturn

from flwr.app import ArrayRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy
from flwr.serverapp.strategy.strategy_utils import aggregate_metricrecords
from torch import Tensor

from fedkin.core import FedkinError
from fedkin.core.files import folder_lock
from fedkin.experiment.config import checked_method
from fedkin.flower.array_layout import ArrayLayout, registered_model
from fedkin.flower.grid_federation import GridFederation, Name
from fedkin.flower.rounds import PATIENCE, REPORT, Aggregate, ClusterResult, EvaluateHere, RoundRunner, StrategyFolder
from fedkin.flower.strategy_options import (
    ELSEWHERE,
    OWN,
    RENAMED,
    TRAINING,
    AppContract,
    Config,
    checked,
    checked_config,
    checked_rounds,
    fraction,
    given_models,
    seconds,
    unknown_option,
)
from fedkin.methods.clients.client_method import ClientMethod, ClientMethodState

# Functions of Flower's strategies that another strategy, which wraps one, would call; here they raise errors.


_NEVER_CALLED = {"configure_train", "aggregate_train", "configure_evaluate", "aggregate_evaluate"}


class StartedStrategy(Strategy):
    """A strategy that nothing but its own `start` runs."""

    def __init_subclass__(cls, **more: Any) -> None:
        """Check a strategy's functions.

        Raises FedkinError if the class defines a function that Flower's strategies call, but these do not.
        """
        super().__init_subclass__(**more)
        for name in sorted(_NEVER_CALLED & vars(cls).keys()):
            raise FedkinError(
                f"{cls.__name__}.{name} would never be called: what is sent and how it is averaged is the method's. "
                "train_config of start() may be a function of the round, and evaluate_fn is called after every round."
            )

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise FedkinError(
            f"{type(self).__name__} has a model for every cluster, so no other strategy can wrap it; call its start(). "
            "Flower's differential privacy at the server protects the mean of one model, but neither the choice of "
            "clusters nor means of a few nodes; add LocalDpMod to the client app instead."
        )

    configure_train = aggregate_train = configure_evaluate = aggregate_evaluate = _refuse


log = logging.getLogger("flwr")


class ClusterStrategy(StartedStrategy):
    """Base class of strategies that find clusters of nodes and train a model for each.

    A strategy is started as Flower's own are, with an app that trains and evaluates the arrays it receives. It runs
    the same method as fedkin's engines; a task for clients becomes the messages that FedAvg would send.

    Parameters
    ----------
    fraction_train, fraction_evaluate, min_train_nodes, min_evaluate_nodes, min_available_nodes
        As of Flower's FedAvg; some nodes must train, so the first is above 0.
    weighted_by_key, arrayrecord_key, configrecord_key
        As of Flower's FedAvg.
    train_metrics_aggr_fn, evaluate_metrics_aggr_fn : callable, optional
        As of Flower's FedAvg, but the records they are given hold metrics only.
    train_loss_key, eval_loss_key, eval_accuracy_key : str
        Metrics that are the loss of a training, and the loss and the accuracy of an evaluation. The first is only
        reported, and may be absent; so may the last, but with FedDrift.
    seed : int
        Seed of the server's random numbers. Flower draws node ids itself, so two simulations with one seed can differ,
        unless `names` is true.
    names : bool
        Whether nodes are asked for their names, or partitions, when they appear, see `fedkin.flower.describes`. Results
        are then by name, clients in order of name, and a node that returns under another id is known.
    **options
        Hyper-parameters of the method, without those that the client app decides.
    """

    _method: ClassVar[type[ClientMethod]]
    _fixed: ClassVar[Mapping[str, str]] = {}
    """Hyper-parameters that are fixed here, and why."""
    _asks: ClassVar[str] = ""
    """The call of `fedkin.flower.describes` that the client app must answer queries by; empty if it need not."""
    _several: ClassVar[bool] = False
    """Whether training begins with a model for each cluster."""
    _trains: ClassVar[bool] = False
    """Whether nodes train by that query, and not by the client app's own function."""
    _unlabelled: ClassVar[tuple[str, str] | None] = None
    """The hyper-parameter and its value with which the client app's data need no labels; ``None`` if they always do."""

    def __init_subclass__(cls, method: type[ClientMethod] | None = None, **more: Any) -> None:
        """Add the hyper-parameters of `method`, and where they are described; by default its base's method."""
        super().__init_subclass__(**more)
        if method is not None:
            if not (isinstance(method, type) and issubclass(method, ClientMethod)):
                name = getattr(method, "__name__", repr(method))
                raise FedkinError(
                    f"{cls.__name__} is made of {name}, but a strategy carries methods that cluster clients: classes "
                    "that inherit fedkin.methods.clients.client_method.ClientMethod."
                )
            cls._method = method
            where = f"`{method.__module__}.{method.__qualname__}`"
            cls.__doc__ = (
                f"{inspect.cleandoc(cls.__doc__ or '')}\n\nSee `ClusterStrategy`, and {where} for its parameters."
            )
        cls.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
                for name, default in (OWN | cls._hyper_parameters()).items()
            ]
        )

    def __init__(self, *unnamed: Any, **options: Any) -> None:
        name, known = type(self).__name__, self._hyper_parameters()
        if unnamed:
            raise TypeError(f"{name} takes parameters by name, as in {name}(fraction_train={unnamed[0]!r}).")
        for option in options:
            if option in (elsewhere := self._elsewhere()):
                raise FedkinError(f"{name} has no parameter '{option}': it is {elsewhere[option]}.")
            if option not in OWN | known:
                raise unknown_option(name, option, OWN | known)
        self.options: dict[str, Any] = {name: options.get(name, default) for name, default in known.items()}
        own = {name: options.get(name, default) for name, default in OWN.items()}
        checked(own, name)
        self.fraction_train = fraction(own, "fraction_train", name, above=True)
        self.fraction_evaluate = fraction(own, "fraction_evaluate", name, above=False)
        self.min_train_nodes: int = own["min_train_nodes"]
        self.min_evaluate_nodes: int = own["min_evaluate_nodes"] if self.fraction_evaluate else 0
        self.min_available_nodes: int = own["min_available_nodes"]
        self.weighted_by_key: str = own["weighted_by_key"]
        self.arrayrecord_key: str = own["arrayrecord_key"]
        self.configrecord_key: str = own["configrecord_key"]
        self.train_metrics_aggr_fn: Aggregate = own["train_metrics_aggr_fn"] or aggregate_metricrecords
        self.evaluate_metrics_aggr_fn: Aggregate = own["evaluate_metrics_aggr_fn"] or aggregate_metricrecords
        self.train_loss_key: str = own["train_loss_key"]
        self.eval_loss_key: str = own["eval_loss_key"]
        self.eval_accuracy_key: str = own["eval_accuracy_key"]
        self.seed: int = own["seed"]
        self.names: bool = own["names"]
        self.method("auto", 1)

    def __getattr__(self, name: str) -> Any:
        """Return a hyper-parameter of the method."""
        options: dict[str, Any] = self.__dict__.get("options", {})
        if name in options:
            return options[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __repr__(self) -> str:
        """Return the strategy with the parameters that differ from their defaults."""
        defaults = OWN | self._hyper_parameters()
        values = {name: getattr(self, name) for name in defaults if not name.endswith("_aggr_fn")}
        given = ", ".join(f"{name}={value!r}" for name, value in values.items() if value != defaults[name])
        return f"{type(self).__name__}({given})"

    @classmethod
    def _hyper_parameters(cls) -> dict[str, Any]:
        """Return the method's hyper-parameters and their defaults."""
        return {
            field.name: field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
            for field in dataclasses.fields(cls._method)
            if field.name not in cls._elsewhere()
        }

    @classmethod
    def _elsewhere(cls) -> dict[str, str]:
        """Return the method's hyper-parameters that the strategy lacks, with the place where they are set."""
        return RENAMED | ELSEWHERE | ({} if cls._trains else TRAINING) | dict(cls._fixed)

    def method(self, module: str, rounds: int) -> ClientMethod:
        """Build the method; raise FedkinError if a hyper-parameter is not allowed."""
        made: ClientMethod = checked_method(self._method, {**self.options, "module": module, "rounds": rounds})
        return made

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
                f"initial_arrays holds {len(models)} model{'s'[: len(models) != 1]}; n_clusters is "
                f"{method.n_clusters}, so give as many{otherwise}."
            )
        state: ClientMethodState = method.init(fed)
        return dataclasses.replace(state, models=models)

    def wait(self, grid: Grid) -> None:
        """Wait until the minimum number of nodes is connected."""
        needed = max(1, self.min_available_nodes, self.min_train_nodes, self.min_evaluate_nodes)
        while (found := len(list(grid.get_node_ids()))) < needed:
            log.info("Waiting for nodes to connect: %d connected (minimum required: %d).", found, needed)
            time.sleep(PATIENCE)

    def summary(self) -> None:
        """Log the strategy's parameters."""
        log.info("\t├──> Clusters by: %s", {name: value for name, value in self.options.items() if value is not None})
        log.info(
            "\t├──> Nodes: train %.2f (at least %d) | evaluate %.2f (at least %d) | available %d",
            *(self.fraction_train, self.min_train_nodes, self.fraction_evaluate, self.min_evaluate_nodes),
            self.min_available_nodes,
        )
        keys = (self.arrayrecord_key, self.configrecord_key, self.weighted_by_key, self.train_loss_key)
        log.info("\t└──> Keys: '%s', '%s', weighted by '%s', losses '%s' and '%s'", *keys, self.eval_loss_key)

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
        num_rounds, began = checked_rounds(num_rounds), time.monotonic()
        layout, models = given_models(initial_arrays)
        log.info("Starting %s strategy: %d rounds", type(self).__name__, num_rounds)
        self.summary()
        unlabelled = self._unlabelled
        terms = AppContract(
            checked_config("train_config", train_config),
            checked_config("evaluate_config", evaluate_config),
            seconds(timeout),
            self.arrayrecord_key,
            self.configrecord_key,
            self.weighted_by_key,
            self.train_loss_key,
            self.eval_loss_key,
            self.eval_accuracy_key,
            asks=bool(self._asks),
            labels_needed=unlabelled is None or self.options[unlabelled[0]] != unlabelled[1],
            without_labels="" if unlabelled is None else "{}({}={!r})".format(type(self).__name__, *unlabelled),
            query_needed=self._asks,
            names=self.names,
        )
        with ExitStack() as stack:
            kept = None
            if folder is not None:
                stack.enter_context(folder_lock(Path(folder)))
                kept = StrategyFolder(Path(folder), self._facts(layout, num_rounds))
            self.wait(grid)
            fed = self._federation(grid, layout, terms, kept)
            module = stack.enter_context(registered_model(layout, models[0]))
            result = RoundRunner(self, self.method(module, num_rounds), fed, evaluate_fn, kept).run(models, module)
            if kept is not None:
                result.report(kept.path / REPORT, self.eval_accuracy_key)
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
            "seed": self.seed,
            "names": self.names,
            "initial_arrays": {name: list(shape) for name, shape in zip(layout.names, layout.shapes, strict=True)},
        }

    def _federation(
        self, grid: Grid, layout: ArrayLayout, terms: AppContract, kept: StrategyFolder | None
    ) -> GridFederation:
        """Build the federation of the nodes, in the order of the checkpoint if there is one."""
        if kept is None or kept.last is None:
            return GridFederation(grid, layout, terms, self.seed)
        names: list[Name] = kept.last["names"]
        fed = GridFederation(grid, layout, terms, self.seed, len(kept.last["state"]["labels"]), names)
        if not self.names and names and min(fed.present, default=len(names)) >= len(names):
            raise FedkinError(
                f"None of the {len(names)} nodes of the run in {kept.path} is connected, by their ids; with names=True "
                "nodes are known by their names instead, in a simulation by their partitions."
            )
        return fed
