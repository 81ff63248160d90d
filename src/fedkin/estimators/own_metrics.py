"""User-defined metrics, measured at each client by its cluster's model on held-out samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkin.core import FedkinError
from fedkin.data.population import Population
from fedkin.experiment.evaluation.client_scores import predicted_classes
from fedkin.methods.clients.client_method import ClientMethodState

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
