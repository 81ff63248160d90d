"""What all estimators share: parameters that are the method's, the loop of rounds, and DataFrames' columns."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_type_hints

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from fedkin.core import Client, FedkinError, Method, State
from fedkin.core.device import device_named, on
from fedkin.core.method import has_device
from fedkin.data.preparing.scaling import Scaling, scale
from fedkin.engines.local import LocalFederation, one_thread
from fedkin.experiment.config import checked_method
from fedkin.experiment.terminal import Bar, Quiet

_OWN = {
    "scaling": (Literal["auto", "standard", "none"], "auto"),
    "random_state": (int | np.random.RandomState | None, None),
    "device": (str, "cpu"),
    "verbose": (bool, False),
}
"""Parameters every estimator has, but for `device` where the method has none: types and defaults."""


@dataclass(frozen=True)
class FitOutcome:
    """What a method came to.

    Attributes
    ----------
    result : dict
        The method's.
    state : State
        The method's last.
    history : list of dict
        One entry per step: the record's values, with the bytes sent and received so far.
    scaling : Scaling
        How the clients' data were scaled.
    seed : int
        Of the run.
    """

    result: dict[str, Any]
    state: State
    history: list[dict[str, Any]]
    scaling: Scaling
    seed: int


class Estimator(BaseEstimator):  # type: ignore[misc]
    """Base of all estimators: a method's hyper-parameters as scikit-learn's parameters, and the loop of its steps."""

    _method: ClassVar[type[Any]]
    _members: ClassVar[str] = "clients"
    """What `fit` takes a list of, for sentences."""
    _kinds: ClassVar[Mapping[str, Any]] = {}
    """Types of parameters that may be more in Python than the method's own field says."""

    if TYPE_CHECKING:  # what a type checker cannot see: `__init_subclass__` makes the real one

        def __init__(self, **parameters: Any) -> None: ...

    def __init_subclass__(cls, method: type[Any] | None = None, **more: Any) -> None:
        """Give the estimator the hyper-parameters of `method`, a method's dataclass, as its own."""
        super().__init_subclass__(**more)
        if method:
            cls._method = method
            cls.__init__ = _initialiser(cls.__name__, method, cls._kinds)  # type: ignore[method-assign]

    def _hyper_parameters(self) -> dict[str, Any]:
        """The parameters that are the method's."""
        return {name: value for name, value in self.get_params().items() if name not in _OWN}

    def _on_device(self) -> AbstractContextManager[None]:
        """Within it, networks compute where the estimator says."""
        return on(device_named(getattr(self, "device", "cpu"), "'device'"))

    def _run(self, clients: Sequence[Client], options: dict[str, Any]) -> FitOutcome:
        """Scale the clients' data and take the method, with `options` for its fields, to its end."""
        method: Method[Any] = checked_method(self._method, options)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        history: list[dict[str, Any]] = []
        with self._on_device(), one_thread(), Bar() if self.verbose else Quiet() as progress:
            fed = LocalFederation(clients, seed, on_progress=progress.part)
            scaling = scale(fed, self.scaling)
            state = method.init(fed)
            while not state.finished:
                progress.phase(f"Step {state.steps + 1}")
                began = time.perf_counter()
                state, record = method.step(fed, state)
                traffic = {"sent": fed.traffic.sent, "received": fed.traffic.received}
                history.append({"step": state.steps, **record.values, **traffic})
                line = {"step": state.steps, "values": record.values, "metrics": {}}
                progress.step(line, {"step": state.steps, "seconds": time.perf_counter() - began})
        return FitOutcome(method.result(state), state, history, scaling, seed)

    def _remember(self, outcome: FitOutcome, clients: Sequence[Client], columns: list[str]) -> None:
        """Set the attributes that every fitted estimator has."""
        self.history_ = outcome.history
        self.scaling_ = outcome.scaling
        self.result_ = outcome.result
        self.n_clusters_ = int(outcome.result["n_clusters"])
        self.n_features_in_ = clients[0].x[0].numel()
        self.__dict__.pop("feature_names_in_", None)
        if columns:
            self.feature_names_in_ = np.array(columns, dtype=object)

    def _check_known_columns(self, x: Any, where: str) -> None:
        """Refuse a DataFrame whose columns are not those of `fit`."""
        known, given = getattr(self, "feature_names_in_", None), column_names(x)
        if known is not None and given:
            check_columns(given, list(known), where, f"the {self._members} in fit")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        return tags


def _initialiser(name: str, method: type[Any], kinds: Mapping[str, Any]) -> Any:
    """An ``__init__`` with keywords for the fields of `method` that a user can give, types and defaults included."""
    of_fields = {**get_type_hints(method), **kinds}
    known = {f.name: (of_fields[f.name], _default(f)) for f in dataclasses.fields(method) if f.name != "oracle"}
    known |= {parameter: own for parameter, own in _OWN.items() if parameter != "device" or has_device(method)}
    defaults = {parameter: default for parameter, (_, default) in known.items()}

    def __init__(self: Any, **options: Any) -> None:  # noqa: N807
        for option in options:
            if option not in defaults:
                raise TypeError(f"{name} has no parameter '{option}'; it has {', '.join(sorted(defaults))}.")
        vars(self).update(copy.deepcopy(defaults) | options)  # a list is no two estimators' at once

    keywords = [
        inspect.Parameter(parameter, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for parameter, (kind, default) in known.items()
    ]
    myself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    __init__.__signature__ = inspect.Signature([myself, *keywords], return_annotation=None)  # type: ignore[attr-defined]
    __init__.__qualname__ = f"{name}.__init__"
    return __init__


def _default(field: dataclasses.Field[Any]) -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def common_columns(tables: Mapping[str, Any]) -> list[str]:
    """The columns that all DataFrames among `tables`, named as the beginning of a sentence, share; or an empty list."""
    named = [(where, names) for where, table in tables.items() if (names := column_names(table))]
    for where, names in named:
        check_columns(names, named[0][1], where, named[0][0])
    return named[0][1] if named else []


def column_names(x: Any) -> list[str]:
    """Names of a DataFrame's columns if all are strings; else an empty list."""
    names = list(getattr(x, "columns", []))
    return names if all(isinstance(name, str) for name in names) else []


def check_columns(names: list[str], expected: list[str], where: str, others: str) -> None:
    """Refuse columns of another name or order; another number of them is told with the shapes."""
    for name, other in zip(names, expected, strict=False):
        if name != other:
            raise FedkinError(
                f"{where} has column '{name}' where {others} had '{other}'; give the same columns in the same order."
            )
