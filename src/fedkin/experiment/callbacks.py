"""Callback that ends a run or a fit early."""

from __future__ import annotations

import math
from typing import Literal

from fedkin.core import FedkinError
from fedkin.core.errors import listing
from fedkin.core.runner import Callback, RecordLine


class EarlyStopping(Callback):
    """Callback that ends a run or fit after `patience` rounds without improvement of a metric.

    The models of the last round are kept, not those of the best one.

    Parameters
    ----------
    monitor : str
        A metric or a value of the record. By default the mean over clients of the accuracy on their own validation
        samples, which needs ``fit(..., validation=...)``; ``"personal_accuracy"`` is that on ``eval``, and ``"loss"``
        the training loss.
    patience : int
        Rounds without a better value, at least 1.
    min_delta : float
        How much better a value has to be, 0 or more.
    mode : {"auto", "max", "min"}
        Whether more is better; "auto" is "min" if the name contains ``loss``.

    Attributes
    ----------
    best : float or None
        The best value so far.
    best_step : int
        The round that had it; 0 before the first.

    Raises
    ------
    FedkinError
        If a parameter is out of its range; or, during the run, if the metric is not measured.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> import fedkin
    >>> x, y = load_digits(return_X_y=True)
    >>> clients = [(x[i::4], y[i::4]) for i in range(4)]
    >>> stop = fedkin.EarlyStopping(patience=1)
    >>> model = fedkin.FedAvg(rounds=100, random_state=0).fit(clients, validation=0.2, callbacks=[stop])
    >>> model.n_iter_ < 100
    True
    """

    def __init__(
        self,
        monitor: str = "validation_personal_accuracy",
        patience: int = 5,
        min_delta: float = 0.0,
        mode: Literal["auto", "max", "min"] = "auto",
    ) -> None:
        if not isinstance(patience, int) or patience < 1:
            raise FedkinError(f"patience is {patience!r}; it should be a whole number of rounds, 1 or more.")
        if not min_delta >= 0:
            raise FedkinError(f"min_delta is {min_delta!r}; it should be 0 or more.")
        if mode not in ("auto", "max", "min"):
            raise FedkinError(f"mode is {mode!r}; it should be 'auto', 'max' or 'min'.")
        self.monitor, self.patience, self.min_delta = monitor, patience, min_delta
        self.sign = -1.0 if mode == "min" or (mode == "auto" and "loss" in monitor) else 1.0
        self.begin()

    def begin(self) -> None:
        self.best: float | None = None
        self.best_step = 0

    def stops(self, line: RecordLine) -> bool:
        measured = {**line["values"], **line["metrics"]}
        if self.monitor not in measured:
            advice = " Give fit validation, samples by client." if "validation" in self.monitor else ""
            names = sorted(name for name, value in measured.items() if type(value) in (int, float))
            raise FedkinError(
                f"EarlyStopping monitors '{self.monitor}', which is not measured in step {line['step']}; there are "
                f"{listing(names)}.{advice}"
            )
        value = measured[self.monitor]
        is_number = value is not None and math.isfinite(value)  # a loss may diverge, which is no improvement
        if is_number and (self.best is None or self.sign * (value - self.best) > self.min_delta):
            self.best, self.best_step = float(value), int(line["step"])
        return bool(line["step"] - self.best_step >= self.patience)
