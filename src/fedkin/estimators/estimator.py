"""Base class of all estimators: the method's options as parameters, the fit, and attributes common to all."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from fedkin.core import Client, FedkinError, Method, State
from fedkin.core.contract import result_of, without_result
from fedkin.core.device import device_named, on
from fedkin.core.doors import PYTHON, at_door
from fedkin.core.errors import FedkinWarning, listing
from fedkin.core.method import ServerData, check_class, with_server_data
from fedkin.core.options import options_of
from fedkin.core.progress import Callbacks, run_with_callbacks
from fedkin.data.encoding import PreparingOptions
from fedkin.data.inputs import ClientInput, client_input
from fedkin.data.options import TableOptions
from fedkin.data.preparation import Preparation, remembered
from fedkin.data.prepare import prepare
from fedkin.data.profile import ClusterProfile, profile_clusters
from fedkin.data.scaling import ends_of
from fedkin.engines.local import LocalFederation, one_thread
from fedkin.estimators.fitting import FitHooks, FitRunner
from fedkin.estimators.metrics import Row, client_panels, figure_of, history_rows, judged_rows, sample_panels, tidy
from fedkin.estimators.parameters import (
    ATTRIBUTES,
    EstimatorOptions,
    initialiser,
    no_parameter,
    with_attributes,
    with_parameters,
)
from fedkin.experiment.config import checked_method, preparing_for
from fedkin.experiment.registry import check_declared
from fedkin.experiment.terminal import Bar, Quiet

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


_ASKED = 3
"""Sentences on what looks wrong in a warning."""
_OWN = {option.name for option in options_of(EstimatorOptions)}


@dataclass(frozen=True)
class FitOutcome:
    """Outcome of a method's run, from which `fit` sets its attributes.

    `history` has one entry per step: the record's values, with the bytes sent and received so far. `judged` are scores
    of models on held-out samples, see `fedkin.estimators.metrics.judged_rows`. `forgotten` are clients that took
    no part because they are forgotten, and `missing` those without a part in the result though they began, and why.
    """

    result: dict[str, Any]
    state: State
    history: list[dict[str, Any]]
    preparation: Preparation
    seed: int
    profile: ClusterProfile | None = None
    judged: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    forgotten: frozenset[int] = frozenset()
    missing: Mapping[int, str] = dataclasses.field(default_factory=dict)

    def noted(self, notes: Sequence[str], questions: Sequence[str]) -> Self:
        """Return the outcome with these notes, some of them questions, before those of the preparation."""
        return dataclasses.replace(self, preparation=self.preparation.noted(notes, questions))


class Estimator(BaseEstimator):  # type: ignore[misc]
    """Base class of all estimators: a method's options as scikit-learn parameters, and the loop of its steps.

    Attributes
    ----------
    history_ : DataFrame
        The same table as `metrics_`.
    n_iter_ : int
        Number of rounds, or of other steps of the method.
    result_ : dict
        Complete result of the method.
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
    """

    _method: ClassVar[type[Any]]
    _label: str | None = None
    """The column of labels in the tables of `fit`, which is no feature of new samples."""
    _leaving: tuple[frozenset[int], int] | None = None
    """Clients that the fit under way is to leave out, and its seed."""
    _elsewhere: ClassVar[Mapping[str, str]] = ATTRIBUTES
    """Attributes that other libraries have, and what they are here."""
    _kinds: ClassVar[Mapping[str, Any]] = {}
    """Types of parameters that may be more in Python than the method's own field says."""
    _clusters: ClassVar[Literal["samples", "clients"] | None] = None
    """What the methods of a base of estimators cluster."""
    _more: ClassVar[type[Any] | None] = None
    """A dataclass of parameters that only Python can give."""

    if TYPE_CHECKING:  # what a type checker cannot see: `__init_subclass__` makes the real one

        def __init__(self, **parameters: Any) -> None: ...

    def __init_subclass__(cls, method: type[Any] | None = None, **more: Any) -> None:
        """Add the options of `method`, a dataclass, to the estimator's signature and docstring.

        Raises FedkinError if the method's class cannot be used as one, see `check_declared` and `check_class`, clusters
        something else than those of the base, or has an option with a name of the estimator's own.
        """
        super().__init_subclass__(**more)
        if method is not None:
            if not (isinstance(method, type) and issubclass(method, Method)):
                raise FedkinError(f"{cls.__name__} is made of a method's class, such as KFedMethod, not of {method!r}.")
            check_declared(method, f"{method.__module__}:{method.__name__}")
            check_class(method)
            clusters = method.traits.clusters
            if None not in (cls._clusters, clusters) and clusters != cls._clusters:
                base = "ClientClusterer" if clusters == "clients" else "SampleClusterer"
                raise FedkinError(f"{method.__name__} clusters {clusters}; make {cls.__name__} of {base}.")
            if taken := [one.name for one in options_of(method) if one.name in _OWN or hasattr(cls, one.name)]:
                raise FedkinError(
                    f"{method.__name__} has an option '{taken[0]}', a name that every estimator uses itself; call the "
                    f"option otherwise to make {cls.__name__} of it."
                )
            cls._method = method
            listed = [*options_of(method), *(options_of(cls._more) if cls._more is not None else ())]
            options = [dataclasses.replace(one, kind=cls._kinds.get(one.name, one.kind)) for one in listed]
            options += [one for one in options_of(EstimatorOptions) if one.name != "device" or method.traits.has_device]
            cls.__init__ = initialiser(cls.__name__, options)  # type: ignore[method-assign]
            bases = [base.__doc__ or "" for base in cls.__mro__[1:] if issubclass(base, Estimator)]
            cls.__doc__ = with_parameters(with_attributes(cls.__doc__ or "", bases), options)

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name; the `ValueError` for an unknown one suggests the nearest."""
        for name in params:
            if name not in self.get_params():
                raise FedkinError(no_parameter(type(self).__name__, name, self.get_params()))
        super().set_params(**params)
        return self

    def _hyper_parameters(self) -> dict[str, Any]:
        """Return the parameters that are the method's options."""
        own = _OWN | ({option.name for option in options_of(self._more)} if self._more is not None else set())
        return {name: value for name, value in self.get_params().items() if name not in own}

    def _on_device(self) -> AbstractContextManager[None]:
        """Select the estimator's device for networks; a context manager."""
        return on(device_named(str(getattr(self, "device", "cpu")), "'device'"))

    def _table_options(self) -> TableOptions:
        """Return the options for reading the columns of DataFrames."""
        return TableOptions(self.drop, self.id, self.categorical, self.ordinal or {})

    @at_door(PYTHON)
    def _run(
        self, clients: Sequence[Client], names: Sequence[str], options: dict[str, Any], following: FitHooks
    ) -> FitOutcome:
        """Prepare the clients' data, and run the method with `options` until it has finished."""
        method: Method[Any] = checked_method(self._method, options)
        forgotten, seed = self._leaving or (frozenset(), None)
        seed = self._drawn_seed() if seed is None else seed
        with self._on_device(), one_thread(), Bar() if self.verbose else Quiet() as progress:
            fed = LocalFederation(clients, seed, on_progress=progress.part, names=names)
            fed.leave(forgotten)
            identity = "none" if self.id is None else self.id
            preparing = PreparingOptions(self.scaling, identity, self.lacking, self.imputation, self.indicator)
            preparation = prepare(fed, preparing_for(method, preparing), names)
            preparation = dataclasses.replace(preparation, files=remembered(one.table for one in clients))
            if preparation.mode == "none" and preparation.encoding is None and not method.guards_samples():
                preparation = dataclasses.replace(preparation, reach=ends_of([one.x for one in clients if len(one)]))
            judges = {one.split: one.population(clients, preparation) for one in following.held_out}
            method = with_server_data(method, self._own_data(preparation))
            runner = FitRunner(method, fed, judges, Callbacks([progress, *following.callbacks]), following.metrics)
            with run_with_callbacks(runner.callbacks):
                state = runner.steps()
            found, profile = result_of(method, fed, state), None
            missing = without_result(method, fed)
            if preparation.encoding is not None and method.traits.clusters == "samples" and not method.is_private():
                profile = profile_clusters(fed, preparation.encoding, int(found["n_clusters"]))
        return FitOutcome(found, state, runner.history, preparation, seed, profile, runner.judged, forgotten, missing)

    def _drawn_seed(self) -> int:
        """Return the run's seed: `random_state` if it is a number, as the command line takes it, else drawn from it."""
        drawn = check_random_state(self.random_state)  # refuses what is no seed
        is_number = isinstance(self.random_state, int | np.integer)
        return int(self.random_state) if is_number else int(drawn.randint(2**31 - 1))

    def _own_data(self, preparation: Preparation) -> ServerData:
        """Return how the server's own samples are read, if the method's server has any."""
        return preparation.read

    def _remember(self, outcome: FitOutcome, clients: Sequence[Client], names: Sequence[str]) -> None:
        """Set the attributes that every fitted estimator has."""
        self.records_ = outcome.history
        self.n_iter_ = outcome.state.steps
        self._judged = outcome.judged
        self.preparation_ = outcome.preparation
        self.client_names_ = list(names)
        self.missing_ = {names[client]: reason for client, reason in outcome.missing.items()}
        self.result_ = outcome.result
        self.n_clusters_ = int(outcome.result["n_clusters"])
        self.__dict__.pop("feature_names_in_", None)
        columns = list(dict.fromkeys(name for one in clients if one.table is not None for name in one.table.names))
        self.n_features_in_ = len(columns) or clients[0].x[0].numel()
        if columns:
            self.feature_names_in_ = np.array(columns, dtype=object)

    def __getattr__(self, name: str) -> Any:
        """Raise `AttributeError`, with fedkin's name for an attribute that other libraries have."""
        if not hasattr(type(self), "_method"):
            what = f"class {type(self).__name__}(..., method=YourMethod)"
            raise AttributeError(f"{type(self).__name__} is made of no method; name one, as in {what}.")
        if name in self._elsewhere:
            raise AttributeError(f"{type(self).__name__} has no '{name}'; {self._elsewhere[name]}")
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'", name=name, obj=self)

    @property
    def metrics_(self) -> pd.DataFrame:
        """Values of every round in a tidy DataFrame.

        Its columns are ``round``, ``client``, ``cluster``, ``split``, ``metric`` and ``value``. Client and cluster are
        missing for values over all of them; ``split`` is ``"train"``, ``"test"`` for the samples given to `fit` as
        ``eval``, ``"validation"``, or missing. Round 0 is before the first.
        """
        check_is_fitted(self, "result_")
        return tidy([*history_rows(self.records_, self.client_names_), *self._more_rows()])

    @property
    def history_(self) -> pd.DataFrame:
        """The same table as `metrics_`."""
        return self.metrics_

    def plot(self) -> Figure:
        """Draw the standard figures of the fit.

        For clients that were clustered: accuracy by cluster and client where `fit` had ``eval`` or ``validation``, the
        cluster of each client by round, sizes, loss, and the temperature where the method has one. For samples: how
        many each client has in each cluster, and agreement with labels where there are any.

        Returns
        -------
        matplotlib.figure.Figure
            Notebooks show it; ``model.plot().savefig("fit.png")`` keeps it.

        Raises
        ------
        FedkinError
            If Matplotlib is not installed.
        """
        check_is_fitted(self, "result_")
        panels = client_panels if self._method.traits.clusters == "clients" else sample_panels
        return figure_of(panels(self.metrics_, self.client_names_), type(self).__name__)

    def _more_rows(self) -> Iterable[Row]:
        """Return rows of `metrics_` that the history does not have."""
        return judged_rows(self._judged, self.client_names_)

    def _prepared(self, x: Any, where: str) -> Tensor:
        """Prepare new samples as the method needs them; labels in them are ignored."""
        return prepared_samples(self.preparation_, client_input(x, where), where, self._label, warns=True)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        return tags


def warn_of_questions(preparation: Preparation, stacklevel: int) -> None:
    """Warn, once and with the first sentences, of what looks wrong in the data and is used as it is."""
    asked = preparation.questions
    if asked:
        said = f"{_first(asked)} See preparation_.notes."
        warnings.warn(f"The data look wrong, and are used as they are. {said}", FedkinWarning, stacklevel=stacklevel)


def warn_of_missing(missing: Mapping[str, str], stacklevel: int) -> None:
    """Warn, once, of the clients that have no part in the result of a fit."""
    if missing:
        have = "has" if len(missing) == 1 else "have"
        why = listing([f"'{name}': {reason}" for name, reason in missing.items()], _ASKED)
        said = f"{len(missing)} of the clients {have} no part in the result ({why}); see missing_."
        warnings.warn(said, FedkinWarning, stacklevel=stacklevel)


def _first(sentences: Sequence[str]) -> str:
    more = [f"... and {len(sentences) - _ASKED:,} more."] if len(sentences) > _ASKED else []
    return " ".join([*sentences[:_ASKED], *more])


@at_door(PYTHON)
def prepared_samples(
    preparation: Preparation, given: ClientInput, where: str, label: str | None = None, warns: bool = False
) -> Tensor:
    """Prepare a client's samples as methods need them, without the column `label` of a table.

    With `warns` there is a warning if they are unlike those of `fit`, with the first sentences on columns.
    """
    data, where = preparation.read_again(given, where, [] if label is None else [label])
    x = preparation.prepared(data.x, None if data.table is None else data.table.columns, where)
    if warns and (notes := preparation.notes_on(data, where)):
        warnings.warn(_first(notes), FedkinWarning, stacklevel=4)  # beside the decorator
    return x
