"""Base of all estimators: a method's options as parameters, and its run on clients in this process."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from fedkin.core import Client, FedkinError, Method, Record, runner
from fedkin.core.client_array import ClientArray
from fedkin.core.device import device_named, on
from fedkin.core.errors import PYTHON, FedkinWarning, at_door, listing, nearest, suggestion
from fedkin.core.method import Option, options_of, section_entries
from fedkin.core.runner import Callback
from fedkin.data.options import TableOptions
from fedkin.data.population import Population
from fedkin.data.preparation import Preparation, prepare
from fedkin.data.tables import Dataset
from fedkin.engines.local import LocalFederation, one_thread
from fedkin.estimators.clients import Inputs, held_out_population
from fedkin.experiment.config import checked_method, encoder_named, encoding_features
from fedkin.experiment.evaluation import evaluate_clusters
from fedkin.experiment.numbering import checked_names
from fedkin.experiment.registry import resolve
from fedkin.features.encoders import Encoder
from fedkin.report.figures import PagePart, PageView
from fedkin.report.numbers import pluralize

if TYPE_CHECKING:
    from fedkin.report.plots import Plot

_OF_LINES = ("step", "missing", "sent", "received")
"""What lines of records have beside values."""
_KINDS = {
    "map": "map", "descriptions": "profile", "clustering": "scales", "sizes": "sizes", "clients": "rounds",
    "curves": "rounds",
}  # fmt: skip
"""The kind of plot that each section of a page is part of."""
_SENTENCES = 3
"""Sentences on what looks wrong that one warning has; `preparation_.notes` has all."""
_OF_EVERY_FIT = """
callbacks : sequence of Callback
    `fedkin.Callback`, such as `fedkin.EarlyStopping`, which are called as the fit proceeds.

Returns
-------
self

Raises
------
FedkinError
    A `ValueError`: if a client's data or a parameter cannot be used. A `FedkinWarning` is of what looks wrong in the
    data, of columns that are labels, or are none, by their name alone, of clients without a part in the result, of what
    the method doubts, and of fewer clusters with members than were asked for.
"""
"""The end of the docstring of each ``fit``, whose own ends with its parameters."""


@dataclass(frozen=True)
class EstimatorOptions:
    """Parameters of every estimator beside its method's and those of tables; `device` only where the method uses one.

    Attributes
    ----------
    encode : str, callable or None
        What turns images, texts and series into numbers: "rocket" for series, "timm:NAME", "hf:OWNER/NAME",
        "onnx:FILE", "torch:FILE" or "sentence-transformers:NAME"; or a function or module. By default `features`, where
        these are one.
    random_state : int, RandomState or None
        Seed; the same number gives the same result, here and as ``--seed`` of the command line.
    device : str or torch.device
        Where networks and kin-graph's large searches compute: "cpu", what torch calls a GPU, such as "cuda", or "auto",
        a GPU if there is one.
    verbose : bool
        Whether to show progress on stderr.
    """

    encode: Any = None
    random_state: int | np.random.RandomState | None = None
    device: str | torch.device = "cpu"
    verbose: bool = False


_OF_TABLES = ("scaling", "drop", "id", "categorical", "ordinal", "text", "imputation")
"""Options of `TableOptions` that estimators have; the others are for files, which pandas reads."""


@cache
def common_options() -> list[Option]:
    """Return the parameters that all estimators have; scikit-learn allows no list and no dict as a default."""
    immutable = {"[]": (), "{}": None}
    of_tables = {
        option.name: dataclasses.replace(option, default=immutable.get(repr(option.default), option.default))
        for option in options_of(TableOptions)
    }
    return [*map(of_tables.__getitem__, _OF_TABLES), *options_of(EstimatorOptions)]


class Estimator(BaseEstimator):  # type: ignore[misc]
    """Base class of all estimators: a method's options as scikit-learn parameters, and the loop of its steps.

    Attributes
    ----------
    n_iter_ : int
        Number of rounds, or of other steps of the method.
    result_ : dict
        Complete result of the method.
    records_ : list of dict
        One entry per step: what the method recorded, with the bytes sent and received so far, and what was measured on
        held-out samples; ``pandas.DataFrame(model.records_)`` is a table of them.
    client_names_ : list of str
        Names of the clients, in the order of `fit`, which is that of all lists by client. They are texts, also of
        clients that a dict has under numbers.
    missing_ : dict of str to str
        Clients that are not in the result because they gave no usable reply when one was needed, and why; `fit` warns
        of them.
    preparation_ : Preparation
        How samples were prepared. ``preparation_.apply(x)`` prepares new ones, a DataFrame, an array and so on, and
        returns the tensor that models take; its ``notes`` say what was done to tables.
    n_features_in_ : int
        Columns of DataFrames, or numbers per sample.
    feature_names_in_ : ndarray of str
        Columns, if the clients are DataFrames.
    cluster_names_ : dict of int to str
        Names that `rename` has given clusters; empty after `fit`.
    """

    _method: ClassVar[type[Any]]
    certificates_: list[dict[str, Any]]
    records_: list[dict[str, Any]]
    client_names_: list[str]
    cluster_names_: dict[int, str]
    missing_: dict[str, str]
    n_clusters_: int
    device: str | torch.device
    preparation_: Preparation
    result_: dict[str, Any]
    _clusters: ClassVar[Literal["samples", "clients"] | None] = None
    """What the methods of a base of estimators cluster."""
    _types: ClassVar[Mapping[str, Any]] = {}
    """Types of parameters that may be more in Python than the method's own field says."""
    _label: str | None = None
    """The column of labels in the tables of `fit`, which is no feature of new samples."""
    if TYPE_CHECKING:  # what a type checker cannot see: `__init_subclass__` makes the real one

        def __init__(self, **parameters: Any) -> None: ...

    def __init_subclass__(cls, method: type[Any] | str | None = None, **more: Any) -> None:
        """Add the options of `method`, its name or class, to the estimator's signature and docstring."""
        super().__init_subclass__(**more)
        if fit := vars(cls).get("fit"):  # not one that is inherited, which has it already
            fit.__doc__ = inspect.cleandoc(fit.__doc__ or "") + _OF_EVERY_FIT
        if method is None:
            return
        method = resolve("method", method) if isinstance(method, str) else method
        if (clusters := method.traits.clusters) not in (None, cls._clusters):
            base = "ClientClusterer" if clusters == "clients" else "SampleClusterer"
            raise FedkinError(f"{method.__name__} clusters {clusters}; make {cls.__name__} of {base}.")
        cls._method = method
        options = options_of(method)
        if taken := next((option.name for option in options if hasattr(cls, option.name)), None):
            raise FedkinError(f"{method.__name__} has an option '{taken}', which estimators have; call it otherwise.")
        options = [dataclasses.replace(option, kind=cls._types.get(option.name, option.kind)) for option in options]
        options += [option for option in common_options() if option.name != "device" or method.traits.has_device]
        cls.__init__ = _initialiser(cls.__name__, options)  # type: ignore[method-assign]
        bases = [base.__doc__ or "" for base in cls.__mro__[1:] if issubclass(base, Estimator)]
        cls.__doc__ = _documented(cls.__doc__ or "", options, bases)

    def _options(self) -> dict[str, Any]:
        """Return the parameters that are the method's options."""
        return {option.name: getattr(self, option.name) for option in options_of(self._method)}

    def _made(self, **changes: Any) -> Any:
        """Build the method of the last fit, with `changes` of its options."""
        return checked_method(self._method, self._options() | self._named | changes)

    def _table_options(self) -> TableOptions:
        chosen = self.encode if self.encode is not None else getattr(self, "features", None)
        spec = chosen if self.encode is not None else encoding_features(chosen)
        encoder = Encoder(chosen) if callable(chosen) else encoder_named(spec)
        columns = {name: getattr(self, name) for name in _OF_TABLES} | {"ordinal": self.ordinal or {}}
        return TableOptions(**columns, encoder=encoder)

    @property
    def _device(self) -> torch.device | None:
        """The device of a method that uses one."""
        return device_named(str(self.device), "'device'") if self._method.traits.has_device else None

    def _on_device(self) -> AbstractContextManager[None]:
        return on(place) if (place := self._device) else nullcontext()

    @at_door(PYTHON)
    def _run(
        self, inputs: Inputs, named: Mapping[str, Any], held_out: Mapping[str, Any], callbacks: Sequence[Callback]
    ) -> None:
        """Prepare the clients' data, run the method until it has finished, and set the attributes.

        `named` are options that stand for what only Python can give; `held_out` are samples by the argument of `fit`.
        """
        population = inputs.population
        clients, names = population.clients if inputs.array is None else inputs.array, population.names
        server_data = getattr(self, "server_data", None)
        if in_memory := not isinstance(server_data, str | None):
            named = {**named, "server_data": "server_data"}
        method: Method[Any] = checked_method(self._method, {**self._options(), **named})
        random = check_random_state(self.random_state)  # refuses what is no seed
        # A number is the run's seed as it is, as the command line takes it.
        is_number = isinstance(self.random_state, int | np.integer)
        seed = int(self.random_state) if is_number else int(random.randint(2**31 - 1))
        with self._on_device(), one_thread(), _progress(self.verbose) as progress:
            fed = LocalFederation(clients, seed, on_progress=progress.part, names=names, device=self._device)
            table = self._table_options()
            preparation = prepare(fed, table.of(method), names)
            preparation = dataclasses.replace(preparation, files={"encoder": table.encoder})
            preparation = preparation.noted(population.notes, population.questions)
            method = method.for_embeddings(preparation.encoder)
            if preparation.questions:
                shown = " ".join(preparation.questions[:_SENTENCES])
                more = len(preparation.questions) - _SENTENCES
                shown += f" ... and {more:,} more." if more > 0 else ""
                _warn(f"The data look wrong, and are used as they are. {shown} See preparation_.notes.")
            _warn(*population.guesses)
            read = partial(preparation.apply, server_data) if in_memory else preparation.apply
            method = method.with_server_data(read)
            splits = {
                entrance: held_out_population(samples, entrance, inputs, preparation)
                for entrance, samples in held_out.items()
                if samples is not None
            }
            steps = FitRunner(method, fed, runner.Callbacks([progress, *(callbacks or ())]), splits)
            tables = [client.table for client in population.clients if client.table]
            columns = list(dict.fromkeys(name for table in tables for name in table.names))
            # All attributes are set once the steps are done: a fit that fails leaves the model as it was.
            attributes = {
                "records_": [], "certificates_": [], "cluster_names_": {}, "preparation_": preparation,
                "_label": inputs.label, "_run_seed": seed, "_named": named,
                "feature_names_in_": np.array(columns, object),
                "n_features_in_": len(columns) or clients[0].x[0].numel(),
            }  # fmt: skip
            self._follow(steps, None, names, attributes)
            if not columns:
                del self.feature_names_in_

    def _follow(self, steps: FitRunner, state: Any, names: Sequence[str], attributes: Mapping[str, Any]) -> None:
        """Make the steps after `state`, and set the attributes: these, and those that follow from the result."""
        method, fed = steps.method, steps.fed
        with runner.run_with_callbacks(steps.callbacks):
            after = steps.steps(state)
        result, missing = runner.result_of(method, fed, after), runner.without_result(method, fed)
        self.__dict__.update(attributes)
        self.records_ = [*self.records_, *steps.history]
        self._scores, self.n_iter_ = steps.scores, after.steps
        self.client_names_, self._forgotten = list(names), set[int]()
        self.missing_ = {names[client]: reason for client, reason in missing.items()}
        one_array = isinstance(fed.clients, ClientArray)
        self._take(method, fed, after, result, runner.clustered(fed) if one_array else list(fed.clients.values()))
        if missing:
            have = "has" if len(missing) == 1 else "have"
            why = listing([f"'{name}': {reason}" for name, reason in self.missing_.items()], _SENTENCES)
            _warn(f"{len(missing)} of the clients {have} no part in the result ({why}); see missing_.")
        clusters = self._members()["cluster"]
        requested, used = getattr(self, "n_clusters", None), clusters[clusters >= 0].nunique()
        doubts = [str(record["warning"]) for record in steps.history if "warning" in record]
        _warn(*doubts, *runner.fewer_clusters(used, requested, self._method.traits.clusters))

    def _take(
        self, method: Any, fed: LocalFederation, state: Any, result: dict[str, Any], clients: Sequence[Client]
    ) -> None:
        """Set the attributes that follow from a state and its result."""
        self.result_, self.n_clusters_ = result, int(result["n_clusters"])

    def rename(self, names: Mapping[int, str]) -> Self:
        """Name clusters, as in ``model.rename({0: "frail"})``; an empty name takes one away.

        All that describes clusters shows the names; `cut` and `forget` keep them where clusters have mostly the same
        members.

        Raises FedkinError if a cluster does not exist, two would have the same name, or a name is no line of up to 60
        letters.
        """
        check_is_fitted(self, "result_")
        if not isinstance(names, Mapping):
            raise FedkinError("names should be a dict of cluster and name, such as {0: 'frail'}.")
        self.cluster_names_ = checked_names(names, int(self.result_["n_clusters"]), self.cluster_names_)
        return self

    @at_door(PYTHON)
    def _prepared(self, x: Any, subject: str) -> Tensor:
        """Prepare new samples as the method needs them; labels in them are ignored."""
        data, subject = self._read_again(x, subject)
        return self.preparation_.prepared(data.x, data.table, subject)

    def _read_again(self, x: Any, subject: str) -> tuple[Dataset, str]:
        """Read one client's new samples without labels, and say what to call them."""
        return self.preparation_.read_again(x, subject, [] if self._label is None else [self._label])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        return tags

    def __getattr__(self, name: str) -> Any:
        """Name the attribute that a word of another library stands for; only what there is not comes here."""
        public = [each for each in (*dir(type(self)), *vars(self)) if not each.startswith("_")]
        if name in public or name.startswith("_"):  # a property of it raised, whose words are better
            return object.__getattribute__(self, name)
        near = nearest(name, public)
        instead = f"; there is {near}" if near else ""
        raise AttributeError(f"{type(self).__name__} has no attribute '{name}'{instead}.")

    def to_frame(self) -> pd.DataFrame:
        """Return the clusters as a table, whose ``to_excel`` and ``to_csv`` are pandas'.

        Where samples are clustered it has a row for each: ``client``, ``sample``, its position in the client's data,
        ``cluster``, the cluster's ``name`` and, where the method says it, ``confidence`` in [0, 1]. Where clients are
        clustered it has a row for each: ``client``, ``cluster`` and ``name``. Names are empty where there are none; of
        a client without a part in the result the cluster is -1.
        """
        check_is_fitted(self, "result_")
        frame = self._members()
        names = [self.cluster_names_.get(cluster, "") for cluster in frame["cluster"]]
        frame.insert(frame.columns.get_loc("cluster") + 1, "name", names)
        return frame

    def plot(self, kind: str = "all") -> Plot:
        """Return figures of the clusters, which a notebook shows and ``save`` writes as a page.

        Parameters
        ----------
        kind : str
            "map" of some samples, to zoom, filter and colour, with a slider over kin-graph's scales; "profile", columns
            by cluster, of tables; "scales", how the clusters were found, with coarser and finer ones; "sizes" by
            client; "rounds", numbers and clusters of clients over the rounds; or "all" that there are. A model that was
            pickled has no samples to map.
        """
        from fedkin.report.plots import Plot

        check_is_fitted(self, "result_")
        view = self._page()
        parts = list(view.parts)
        if kind in ("all", "map") and (drawn := self._map()) is not None:
            parts.insert(1, drawn)
        shown = [part for part in parts if kind in ("all", _KINDS[part.anchor])]
        if not shown:
            kinds = [
                *dict.fromkeys(_KINDS[part.anchor] for part in parts),
                *["map"] * bool(getattr(self, "_mapped", None)),
            ]
            raise FedkinError(f"This model has no plot {kind!r}; there are {listing(kinds)}.")
        return Plot(dataclasses.replace(view, parts=shown), self.cluster_names_)

    def _map(self) -> PagePart | None:
        """Return the map of samples, if there are any."""
        return None

    def _page(self) -> PageView:
        """Return all figures of the model."""
        from fedkin.report.run_page import page_of_fit

        lines = []
        for record in self.records_:
            values = {name: value for name, value in record.items() if name not in _OF_LINES}
            answered = [i for i in range(len(self.client_names_)) if str(i) not in record["missing"]]
            metrics = {name: values.pop(name) for name in list(values) if name in self._scores}
            shown = {name: record[name] for name in _OF_LINES}
            lines.append({**shown, "answered": answered, "values": values, "metrics": metrics})
        population = Population(self._counted(), None, [], names=self.client_names_)
        profile = getattr(self, "_profile", None)
        frame, clients = self._members(), pluralize(len(self.client_names_), "client")
        of = f"{pluralize(len(frame), 'sample')} of {clients}" if "sample" in frame else clients
        title = f"{type(self).__name__}: {pluralize(self.n_clusters_, 'cluster')} of {of}"
        figures = self._method.figures(lines)
        return page_of_fit(title, figures, lines, population, self.preparation_, profile)

    def _counted(self) -> list[Client]:
        """Return the clients with the clusters of their samples, and without the samples."""
        return []

    def _members(self) -> pd.DataFrame:
        raise NotImplementedError


def _warn(*sentences: str) -> None:
    """Warn where the code is that called fedkin, however deep inside this is."""
    frame, level = inspect.currentframe(), 1
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("fedkin", "contextlib"):
        frame, level = frame.f_back, level + 1
    for text in sentences:
        warnings.warn(text, FedkinWarning, stacklevel=level)


def _progress(is_shown: bool) -> AbstractContextManager[runner.Progress]:
    if not is_shown:
        return nullcontext(runner.Progress())
    from fedkin.experiment.terminal import Bar

    return Bar()


class FitRunner(runner.Runner):
    """Runner of a fit, which evaluates models on held-out samples: a population's tests by the argument of `fit`.

    `history` has one entry per step, as `records_` of estimators, and `scores` the names of what was evaluated.
    """

    fed: LocalFederation

    def __init__(
        self, method: Method[Any], fed: LocalFederation, callbacks: runner.Callbacks, splits: Mapping[str, Population]
    ) -> None:
        super().__init__(method, fed, callbacks)
        self.splits = splits
        self.history: list[dict[str, Any]] = []
        self.scores: set[str] = set()
        self.values: Mapping[str, Any] = {}

    def judge(self, state: Any, record: Record | None) -> Mapping[str, Any]:
        """Evaluate the models on held-out samples; names of what is measured on others than ``eval`` begin with it."""
        self.values = {} if record is None else record.values  # a line has None for infinity, a history the number
        return {
            f"{'' if split == 'eval' else f'{split}_'}{name}": value
            for split, population in self.splits.items()
            for name, value in evaluate_clusters(self.method, population, self.fed, state).items()
        }

    def keep(self, state: Any, timing: runner.Timing, line: runner.RecordLine | None) -> Any:
        """Add the step to the history."""
        if line is not None:
            shown = {name: line[name] for name in ("missing", "sent", "received")}
            self.scores |= line["metrics"].keys()
            self.history.append({"step": line["step"], **self.values, **line["metrics"], **shown})
        return state


# Signatures and docstrings made of options, and the error about an unknown one.


def _initialiser(estimator: str, options: Sequence[Option]) -> Any:
    """Build an ``__init__`` with a keyword for every option, types and defaults included."""
    defaults = {option.name: option.default for option in options}

    def __init__(self: Any, **parameters: Any) -> None:  # noqa: N807
        for name in parameters:
            if name not in defaults:
                raise TypeError(f"{estimator} has no parameter '{name}'; {suggestion(name, defaults)}")
        vars(self).update(copy.deepcopy(defaults) | parameters)  # a list is no two estimators' at once

    keywords = [
        inspect.Parameter(option.name, inspect.Parameter.KEYWORD_ONLY, default=option.default, annotation=option.kind)
        for option in options
    ]
    instance = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    __init__.__signature__ = inspect.Signature([instance, *keywords], return_annotation=None)  # type: ignore[attr-defined]
    __init__.__qualname__ = f"{estimator}.__init__"
    return __init__


def _documented(text: str, options: Sequence[Option], bases: Iterable[str]) -> str:
    """Write an estimator's docstring: its own, the options, and the attributes that it and its bases describe."""
    summary, *sections = re.split(r"^(\w+)\n-{3,}\n", inspect.cleandoc(text), flags=re.MULTILINE)
    parameters = [
        f"{option.name} : {option.allowed(repr)}, default {option.default!r}\n"
        + (option.meaning and f"    {option.meaning}\n")
        for option in options
    ]
    attributes: dict[str, str] = {}
    for docstring in (text, *bases):
        for head, body in section_entries(inspect.cleandoc(docstring), "Attributes"):
            attributes.setdefault(head.partition(" : ")[0], f"{head}\n{body.rstrip()}\n")
    written = {"Parameters": "".join(parameters), "Attributes": "".join(attributes.values())}
    written |= {title: body for title, body in zip(sections[::2], sections[1::2], strict=True) if title not in written}
    return "\n\n".join(
        [summary.rstrip(), *(f"{title}\n{'-' * len(title)}\n{body.rstrip()}" for title, body in written.items())]
    )
