"""Rounds of a fit, with evaluation on held-out samples and callbacks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedkin.core import Client, FedkinError, Method, Record
from fedkin.core.errors import unknown_name
from fedkin.core.progress import Callback, Callbacks, RecordLine, Timing
from fedkin.core.runner import Runner
from fedkin.core.seeds import derive_generator
from fedkin.core.table import Table
from fedkin.data.inputs import (
    ClientInput,
    as_given,
    dimensions,
    holds_several,
    is_named,
    is_pair,
    labels_beside,
    named_data,
)
from fedkin.data.names import expanded, holds_clients
from fedkin.data.population import Population
from fedkin.data.preparation import Preparation
from fedkin.engines.local import LocalFederation
from fedkin.estimators.clients import labelled_data
from fedkin.estimators.metrics import mean_of
from fedkin.experiment.evaluation import evaluate_clusters, predicted_classes
from fedkin.methods.clients.client_method import ClientMethodState

# Held-out labelled samples on which a fit is evaluated as it goes on.


Samples = tuple[Callable[[Preparation], Tensor], Tensor]
"""What prepares samples as methods see them, and their classes, int64 ``(n,)``."""


@dataclass(frozen=True)
class HeldOut:
    """Samples of one held-out split, which is named in metrics, such as ``"test"``.

    `clients` has the samples of each client, ``None`` where it has none; it is empty where all clients share `common`,
    samples of no client, on which every cluster's model is evaluated.
    """

    split: str
    clients: list[Samples | None]
    common: Samples | None = None

    def population(self, clients: Sequence[Client], preparation: Preparation) -> Population:
        """Return the clients with these samples, prepared, as their tests."""
        nothing = torch.zeros(0, *clients[0].x.shape[1:]), torch.zeros(0, dtype=torch.int64)
        own = self.clients or [None] * len(clients)
        tests = [nothing if one is None else (one[0](preparation), one[1]) for one in own]
        common = None if self.common is None else (self.common[0](preparation), self.common[1])
        return Population(list(clients), None, [], tests=tests, common_test=common)


Reader = Callable[[ClientInput, str], Samples]
"""Reads one client's data; the second argument is whose they are, for errors' sentences."""


def held_out_of(
    given: Any, split: str, entrance: str, names: Sequence[str], label: str | None, read: Reader
) -> HeldOut:
    """Read the held-out samples that a user gives: labelled samples by client, or one data set for all.

    Clients are given as in ``fit``, by name or as many in a list; one client's form of data is for all. `split` and
    `entrance` are the names of the split and of the argument of ``fit``; `names` are the clients of ``fit``; `label` is
    the column or field of labels. Raises FedkinError if clients are unknown or their number differs, or data cannot be
    used or have no labels.
    """

    def samples(value: Any, where: str) -> Samples:
        data = labelled_data(value, where, label)
        if data.y is None:
            raise FedkinError(f"{where} has no labels, and {entrance} is to be compared with them; give pairs (x, y).")
        return read(data, where)

    if isinstance(given, tuple) and len(given) == 2 and holds_several(given[0]) and not is_pair(given[0]):
        given = _with_labels_beside(*given, entrance)
    if isinstance(given, str | Path) and (files := holds_clients(str(given))):
        given = {name: expanded(str(given)) / name for name in files}
    if not holds_several(given):
        return HeldOut(split, [], samples(given, f"The data given as {entrance}"))
    by_key = by_client(named_data(given, entrance), names, entrance)
    return HeldOut(
        split, [samples(by_key[at], f"{name} in {entrance}") if at in by_key else None for at, name in enumerate(names)]
    )


def _with_labels_beside(x: Any, y: Any, entrance: str) -> Any:
    """Convert a pair of all clients' samples and all their labels to pairs by client; else return both as given."""
    named = named_data(x, entrance)
    labels = list(y.values()) if isinstance(y, Mapping) else y
    if not isinstance(labels, list | tuple) or any(dimensions(own) != 1 for own in labels):
        return x, y
    beside = labels_beside(y, list(named), is_named(x))
    return as_given({key: (own, beside[key]) for key, own in named.items()}, x)


def by_client(given: Mapping[Any, Any], names: Sequence[str], entrance: str) -> dict[int, Any]:
    """Convert items given by name or in a list to a dict by position of the clients of ``fit``.

    Raises FedkinError if a name is unknown, or a list does not have one item per client.
    """
    if not all(isinstance(key, int) for key in given):
        for key in given:
            if key not in names:
                raise unknown_name(f"client in {entrance}", str(key), names)
        return {names.index(key): value for key, value in given.items()}
    if len(given) != len(names):
        raise FedkinError(
            f"{entrance} lists {len(given)} clients where fit has {len(names)}; give as many, or a dict by name."
        )
    return dict(given)


def split_off(
    clients: Sequence[Client], fraction: float, seed: int, split: str, entrance: str
) -> tuple[list[Client], HeldOut]:
    """Split a fraction off each client's samples at random, and return the remaining clients and the split.

    A client keeps at least one sample; one with a single sample has none held out. Raises FedkinError if the fraction
    is not between 0 and 1.
    """
    if not 0 < fraction < 1:
        raise FedkinError(f"{entrance} is {fraction}; a fraction of every client's samples is between 0 and 1.")
    kept, out = [], []
    for client in clients:
        order = torch.randperm(len(client), generator=derive_generator(seed, split, client.id))
        count = min(len(client) - 1, max(1, round(fraction * len(client))))
        kept.append(client.rows(order[count:].sort().values))
        out.append(_samples_of(client.rows(order[:count].sort().values), kept[-1].table) if count else None)
    return kept, HeldOut(split, out)


def _samples_of(client: Client, donors: Table | None) -> Samples:
    columns = None if client.table is None else client.table.columns
    assert client.y is not None
    return lambda preparation: preparation.prepared(client.x, columns, f"Client {client.id}", donors), client.y


# User-defined metrics, measured at each client by its cluster's model on held-out samples.


Metric = Callable[[NDArray[Any], NDArray[Any]], float]
"""From true labels ``(n,)`` and predicted ones, both as the user has them, to a number."""

_TAKEN = (
    *("accuracy", "personal_accuracy", "client_accuracy", "global_accuracy"),
    *("f1", "personal_f1", "global_f1", "learning_gap"),
    *("loss", "clients", "clusters", "member", "sent", "received", "temperature"),
)
"""What is measured anyway."""


@dataclass(frozen=True)
class OwnMetrics:
    """User-defined metrics by name, with the labels of classes and the names of clients to measure them.

    `functions` are as in `Metric`; names are in order of the clients' ids.
    """

    functions: Mapping[str, Metric] = field(default_factory=dict)
    classes: NDArray[Any] = field(default_factory=lambda: np.zeros(0))
    names: Sequence[str] = ()

    def measured(self, population: Population, state: ClientMethodState) -> dict[str, list[float | None]]:
        """Measure every metric at every client; ``None`` for clients without a model or a test.

        Raises FedkinError if a function fails, or returns anything but a number.
        """
        if not self.functions:
            return {}
        predicted = predicted_classes(population, state, state.labels.tolist())
        pairs = {
            client: (self.classes[population.tests[client][1].numpy()], self.classes[own.numpy()])
            for client, own in predicted.items()
        }
        return {
            name: [self._number(name, i, *pairs[i]) if i in pairs else None for i in range(len(self.names))]
            for name in self.functions
        }

    def _number(self, name: str, client: int, true: NDArray[Any], predicted: NDArray[Any]) -> float:
        try:
            value = self.functions[name](true, predicted)
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            raise FedkinError(f"metrics['{name}'] fails at client '{self.names[client]}': {what}.") from error
        if isinstance(value, Real | np.ndarray) and np.size(value) == 1 and math.isfinite(float(value)):
            return float(value)
        raise FedkinError(f"metrics['{name}'] gives {value!r} at client '{self.names[client]}'; it should be a number.")


def own_metrics(given: Any, classes: NDArray[Any], names: Sequence[str], held_out: bool) -> OwnMetrics:
    """Check the metrics that a user gives to `fit`, see `Metric`.

    `classes` and `names` are as in `OwnMetrics`; `held_out` says whether there are samples to measure them on. Raises
    FedkinError if `given` is of another type, a name is that of a built-in metric, or there is nothing to measure on.
    """
    if not callable(given) and not given:
        return OwnMetrics()
    given = _by_name(given)
    if taken := [name for name in given if name in _TAKEN]:
        raise FedkinError(f"metrics has '{taken[0]}', which is measured anyway; give it another name.")
    if not held_out:
        raise FedkinError("metrics are measured on samples that are held out; give fit eval or validation, too.")
    return OwnMetrics(given, classes, names)


def _by_name(given: Any) -> dict[str, Metric]:
    """Return metrics by name, which of a function alone is its own; raises FedkinError if one has none."""
    if isinstance(given, Mapping) and all(map(callable, given.values())):
        return dict(given)
    each = [given] if callable(given) else list(given) if isinstance(given, list | tuple) else [None]
    names = [getattr(one, "__name__", "") for one in each if callable(one)]
    if len(names) < len(each) or not all(name.isidentifier() for name in names):
        raise FedkinError("metrics takes functions of true and predicted labels by name, such as {'kappa': kappa}.")
    if len(set(names)) < len(names):
        raise FedkinError("metrics has two functions of one name; give them by other names, in a dict.")
    return dict(zip(names, each, strict=True))


@dataclass(frozen=True)
class FitHooks:
    """Evaluation and callbacks of a fit.

    Models are evaluated on `held_out` samples after every round, by `metrics` besides accuracy.
    """

    held_out: tuple[HeldOut, ...] = ()
    callbacks: tuple[Callback, ...] = ()
    metrics: OwnMetrics = field(default_factory=OwnMetrics)


class FitRunner(Runner):
    """Runner of a fit; `history` and `judged` are as in `FitOutcome`.

    Models are evaluated on the samples of each of `judges`, by name of the split.
    """

    def __init__(
        self, method: Method[Any], fed: LocalFederation, judges: Mapping[str, Population], callbacks: Callbacks,
        metrics: OwnMetrics,
    ) -> None:  # fmt: skip
        super().__init__(method, fed, callbacks)
        self.judges, self.metrics = judges, metrics
        self.history: list[dict[str, Any]] = []
        self.judged: list[dict[str, Any]] = []
        self.values: Mapping[str, Any] = {}

    def judge(self, state: Any, record: Record | None) -> Mapping[str, Any]:
        """Evaluate the models on held-out samples; names of scores on ``"validation"`` begin with that word."""
        self.judged = [one for one in self.judged if one["round"] != state.steps]
        self.values = {} if record is None else record.values  # a line has None for infinity, a history the number
        metrics: dict[str, Any] = {}
        for split, population in self.judges.items():
            scores = evaluate_clusters(self.method, population, self.fed, state)
            labels = state.labels.tolist()
            own = self.metrics.measured(population, state)
            self.judged.append({"round": state.steps, "split": split, "labels": labels, "scores": scores, "own": own})
            scores = scores | {name: mean for name, values in own.items() if (mean := mean_of(values)) is not None}
            prefix = "" if split == "test" else f"{split}_"
            metrics |= {prefix + name: value for name, value in scores.items()}
        return metrics

    def keep(self, state: Any, timing: Timing, line: RecordLine | None) -> Any:
        """Add the step to the history."""
        if line is not None:
            shown = {name: line[name] for name in ("missing", "sent", "received")}
            self.history.append({"step": line["step"], **self.values, **shown})
        return state
