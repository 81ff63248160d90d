"""Checks of those parameters of a strategy that are not its method's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fedkin.core import FedkinError
from fedkin.core.errors import nearest

OWN: dict[str, Any] = {
    "fraction_train": 1.0,
    "fraction_evaluate": 1.0,
    "min_train_nodes": 2,
    "min_evaluate_nodes": 2,
    "min_available_nodes": 2,
    "weighted_by_key": "num-examples",
    "arrayrecord_key": "arrays",
    "configrecord_key": "config",
    "train_metrics_aggr_fn": None,
    "evaluate_metrics_aggr_fn": None,
    "train_loss_key": "train_loss",
    "eval_loss_key": "eval_loss",
    "eval_accuracy_key": "eval_acc",
    "seed": 0,
    "names": False,
}
"""Parameters of every strategy and their defaults: FedAvg's, by its names, and a few more."""

RENAMED: dict[str, str] = {
    "fraction_fit": "called fraction_train here",
    "min_fit_clients": "called min_train_nodes here",
    "min_evaluate_clients": "called min_evaluate_nodes here",
    "min_available_clients": "called min_available_nodes here",
    "fit_metrics_aggregation_fn": "called train_metrics_aggr_fn here",
    "evaluate_metrics_aggregation_fn": "called evaluate_metrics_aggr_fn here",
    "initial_parameters": "given to start() as initial_arrays",
    "evaluate_fn": "given to start()",
    "on_fit_config_fn": "given to start() as train_config, which may be a function of the round",
    "on_evaluate_config_fn": "given to start() as evaluate_config, which may be a function of the round",
}
"""Parameters of the strategies that Flower had before those of its message API, and where they are."""

_TRAINING = "the client app's own, which train_config of start() can set"

ELSEWHERE: dict[str, str] = {
    "module": "the client app's; its arrays are given to start() as initial_arrays",
    "rounds": "given to start() as num_rounds",
    "participation": "called fraction_train here",
}
"""Hyper-parameters that a method has and a strategy has not, and where they are."""

TRAINING: dict[str, str] = dict.fromkeys(
    (
        "local_epochs",
        "local_steps",
        "batch_size",
        "optimizer",
        "learning_rate",
        "learning_rates",
        "momentum",
        "weight_decay",
        "proximal",
        "recipe",
    ),
    _TRAINING,
)
"""The same for how clients train, unless fedkin trains the client app's network."""


def fraction(own: Mapping[str, Any], name: str, strategy: str, above: bool) -> float:
    """Check a fraction of the nodes, and return it."""
    value = own[name]
    if not isinstance(value, int | float) or not 0 <= value <= 1 or (above and value == 0):
        allowed = "above 0, at most 1" if above else "0 to 1"
        raise FedkinError(f"{name} is {value!r} in {strategy}; allowed: {allowed}.")
    return float(value)


def unknown_option(name: str, option: str, known: Iterable[str]) -> TypeError:
    """Return the error for an unknown parameter, which suggests the nearest name."""
    names = sorted(known)
    near = nearest(option, names)
    hint = f"did you mean '{near}'?" if near else f"it has {', '.join(names)}."
    return TypeError(f"{name} has no parameter '{option}'; {hint}")


def checked(own: Mapping[str, Any], strategy: str) -> None:
    """Check the types of the parameters that all strategies have.

    Raises FedkinError if one has another type.
    """
    for name, default in OWN.items():
        value = own[name]
        if name.startswith("min_") or name == "seed":
            sound, allowed = type(value) is int and value >= 0, "whole numbers from 0"
        elif isinstance(default, str):
            sound, allowed = isinstance(value, str) and bool(value), "names"
        elif isinstance(default, bool):
            sound, allowed = isinstance(value, bool), "True and False"
        else:
            sound, allowed = default is not None or value is None or callable(value), "functions, and None"
        if not sound:
            raise FedkinError(f"{name} is {value!r} in {strategy}; allowed: {allowed}.")
