"""Parameters of a strategy that are not its method's, the terms agreed with the client app, and their checks."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from flwr.app import ArrayRecord, ConfigRecord
from torch import Tensor

from fedkin.core import FedkinError
from fedkin.core.aliases import meant_by
from fedkin.core.errors import hint, nearest_few
from fedkin.flower.array_layout import ArrayLayout

Config = Mapping[str, Any] | Callable[[int], Mapping[str, Any]]
"""A configuration for the client app, or a function that returns that of a round."""

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
    "initial_parameters": "given to start() as initial_arrays",
    "evaluate_fn": "given to start()",
    "on_fit_config_fn": "given to start() as train_config, which may be a function of the round",
    "on_evaluate_config_fn": "given to start() as evaluate_config, which may be a function of the round",
}
"""Parameters of the strategies that Flower had before those of its message API, and where they are."""
ELSEWHERE: dict[str, str] = {
    "module": "the client app's; its arrays are given to start() as initial_arrays",
    "rounds": "given to start() as num_rounds",
    "participation": "called fraction_train here",
}
"""Hyper-parameters that a method has and a strategy has not, and where they are."""
TRAINING: dict[str, str] = dict.fromkeys(
    (
        "local_epochs", "local_steps", "batch_size", "optimizer", "learning_rate", "learning_rates", "momentum",
        "weight_decay", "proximal", "recipe",
    ),
    "the client app's own, which train_config of start() can set",
)  # fmt: skip
"""The same for how clients train, unless fedkin trains the client app's network."""


@dataclass(frozen=True)
class AppContract:
    """Configuration sent to a client app, and the names of its records and metrics.

    A configuration is sent with every message; ``server-round`` is added. `timeout` is that of an exchange in seconds.
    Names of metrics are those of the number of samples, the loss of training, and the loss and the accuracy of
    evaluation. `asks` says whether nodes are asked to describe their data, and `names` whether they are identified by
    the names they report, see `fedkin.flower.describes`; `query_needed` is the code with which the client app must
    register its query. `without_labels` is the code of the strategy that needs no labels, empty if there is none.
    """

    train_config: Config
    evaluate_config: Config
    timeout: float
    arrayrecord_key: str
    configrecord_key: str
    weighted_by_key: str
    train_loss_key: str
    eval_loss_key: str
    eval_accuracy_key: str
    asks: bool
    labels_needed: bool
    without_labels: str = ""
    query_needed: str = "describes(load)"
    names: bool = False

    def config(self, trains: bool, server_round: int) -> ConfigRecord:
        """Return the configuration for a message of a round that asks for training or evaluation.

        Raises FedkinError if a function of the round returns anything but a configuration.
        """
        name, given = ("train_config", self.train_config) if trains else ("evaluate_config", self.evaluate_config)
        values = given(server_round) if callable(given) else given
        try:
            return ConfigRecord({**values, "server-round": server_round})
        except (TypeError, ValueError) as error:
            where = f" of round {server_round}" if callable(given) else ""
            raise FedkinError(f"{name}{where} is no configuration that Flower can send: {error}.") from error


def fraction(own: Mapping[str, Any], name: str, strategy: str, above: bool) -> float:
    """Check a fraction of the nodes, and return it."""
    value = own[name]
    if not isinstance(value, int | float) or not 0 <= value <= 1 or (above and value == 0):
        allowed = "above 0, at most 1" if above else "0 to 1"
        raise FedkinError(f"{name} is {value!r} in {strategy}; allowed: {allowed}.")
    return float(value)


def unknown_option(name: str, option: str, known: Collection[str]) -> TypeError:
    """Return the error for an unknown parameter, which suggests the nearest name."""
    end = hint(meant_by(option, known), nearest_few(option, known, f"help({name})"))
    return TypeError(f"{name} has no parameter '{option}'; {end}")


def checked(own: Mapping[str, Any], strategy: str) -> None:
    """Raise FedkinError if one of the parameters that all strategies have is of another type."""
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


def given_models(initial_arrays: ArrayRecord | Sequence[ArrayRecord]) -> tuple[ArrayLayout, Tensor]:
    """Return the layout of the initial models, and the models as vectors ``(m, size)``.

    Raises FedkinError if they are not records of arrays, hold no parameters, or differ in layout.
    """
    given = [initial_arrays] if isinstance(initial_arrays, ArrayRecord) else initial_arrays
    if not isinstance(given, Sequence) or not given or not all(isinstance(one, ArrayRecord) for one in given):
        what = type(initial_arrays).__name__
        if isinstance(given, Sequence):
            what += f" of {type(given[0]).__name__}" if given else ", which is empty"
        raise FedkinError(
            f"initial_arrays is of type {what}; give an ArrayRecord, as in ArrayRecord(model.state_dict()), or a list "
            "of them."
        )
    layout = ArrayLayout.of(given[0])
    return layout, torch.stack([_model(layout, arrays, at) for at, arrays in enumerate(given)])


def checked_rounds(num_rounds: int) -> int:
    """Return the number of rounds; raise FedkinError if it is below 1, or not a whole number."""
    if type(num_rounds) is not int or num_rounds < 1:
        raise FedkinError(f"num_rounds is {num_rounds!r}; allowed: whole numbers from 1.")
    return num_rounds


def seconds(timeout: float | None) -> float:
    """Return the timeout of an exchange in seconds, infinite for ``None``; raise FedkinError unless it is above 0."""
    if timeout is None:
        return math.inf
    if not isinstance(timeout, int | float) or not timeout > 0:
        raise FedkinError(f"timeout is {timeout!r}; allowed: above 0, in seconds, or None.")
    return float(timeout)


def checked_config(name: str, given: Any) -> Config:
    """Return the configuration for the client app, empty for ``None``; raise FedkinError if it is anything else."""
    if given is None:
        return {}
    if isinstance(given, Mapping) or callable(given):
        config: Config = given
        return config
    raise FedkinError(
        f"{name} is of type {type(given).__name__}; give a ConfigRecord, or a function that returns one for a round."
    )


def _model(layout: ArrayLayout, arrays: ArrayRecord, at: int) -> Tensor:
    """Flatten the model of `arrays`, item `at` of a list."""
    vector = layout.vector(arrays)
    if isinstance(vector, str):
        raise FedkinError(f"initial_arrays holds models that differ: in that at {at}, {vector}.")
    return vector
