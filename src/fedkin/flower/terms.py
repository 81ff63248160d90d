"""Configuration that a user's client app expects in messages, and names in its replies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from flwr.app import ConfigRecord

from fedkin.core import FedkinError

Config = Mapping[str, Any] | Callable[[int], Mapping[str, Any]]
"""A configuration for the client app, or a function that returns that of a round."""


@dataclass(frozen=True)
class Terms:
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
