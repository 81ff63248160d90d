"""How a client app of somebody else's is spoken to."""

from __future__ import annotations

from dataclasses import dataclass

from flwr.app import ConfigRecord


@dataclass(frozen=True)
class Terms:
    """What a client app is told, and what its records and metrics are called.

    Attributes
    ----------
    train_config, evaluate_config : ConfigRecord
        What it is told with every message; ``server-round`` is added.
    timeout : float
        Seconds that an exchange takes at most.
    arrayrecord_key, configrecord_key : str
        Names of the records that go to it.
    weighted_by_key, train_loss_key, eval_loss_key : str
        Names of the metrics that come back: the number of samples, the loss of training and that of evaluation.
    asks : bool
        Whether it is asked about its data, by `fedkin.flower.describes`.
    labels_needed : bool
        Whether these must have labels.
    """

    train_config: ConfigRecord
    evaluate_config: ConfigRecord
    timeout: float
    arrayrecord_key: str
    configrecord_key: str
    weighted_by_key: str
    train_loss_key: str
    eval_loss_key: str
    asks: bool
    labels_needed: bool
