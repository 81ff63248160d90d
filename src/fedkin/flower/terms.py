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

    Attributes
    ----------
    train_config, evaluate_config : Config
        Configuration sent with every message; ``server-round`` is added.
    timeout : float
        Maximum duration of an exchange in seconds.
    arrayrecord_key, configrecord_key : str
        Names of the records sent to the client app.
    weighted_by_key, train_loss_key, eval_loss_key, eval_accuracy_key : str
        Names of the metrics in its replies: the number of samples, the loss of training, and the loss and the accuracy
        of evaluation.
    asks : bool
        Whether nodes are asked to describe their data, see `fedkin.flower.describes`.
    labels_needed : bool
        Whether the data must have labels.
    without_labels : str
        Code of the strategy that needs no labels; empty if there is none.
    query_needed : str
        Code with which the client app must register its query.
    names : bool
        Whether nodes are identified by the names they report, see `fedkin.flower.describes`.
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
