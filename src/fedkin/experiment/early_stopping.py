"""Callback that ends a run early, when a metric stops improving."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

from fedkin.core.errors import FedkinError, listing
from fedkin.core.progress import Callback, RecordLine
from fedkin.experiment.config import Config
from fedkin.report.measures import number


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
        value = measured.get(self.monitor)
        if self.monitor not in measured:
            numbers = sorted(name for name, one in measured.items() if isinstance(one, int | float))
            raise FedkinError(
                f"EarlyStopping monitors '{self.monitor}', which is not measured; there are {listing(numbers)}."
                f"{self._advice(numbers)}"
            )
        if value is not None and math.isfinite(value) and self._is_better(value):
            self.best, self.best_step = float(value), int(line["step"])
        return bool(line["step"] - self.best_step >= self.patience)

    def _advice(self, measured: Sequence[str]) -> str:
        """Return what to give or to monitor instead, where the monitored metric needs validation samples."""
        if not self.monitor.startswith("validation"):
            return ""
        common = "validation_global_accuracy"
        if common in measured:
            return f" Validation is one data set for all; give it by client, or monitor '{common}'."
        return " Give fit validation, a fraction or samples."

    def _is_better(self, value: float) -> bool:
        return self.best is None or self.sign * (value - self.best) > self.min_delta


# The target of a run, section ``[target]``: whether it is measured, and whether the run ends where it is reached.


_NAMED = 20


class TargetWatch(Callback):
    """Callback that ends a run when its target metric is reached, if the configuration says so (``evaluation.stop``).

    Once models have been evaluated, `tell` is called with a sentence if the metric is not measured.
    """

    def __init__(self, config: Config, tell: Callable[[str], None]) -> None:
        self.config, self.target, self.tell = config, config.evaluation, tell
        self.looked = False

    def stops(self, line: RecordLine) -> bool:
        target = self.target
        if target.target is None or target.reach is None:
            return False
        if not self.looked and line["step"] % self.config.evaluation.every == 0:
            self.looked = True
            if target.target not in {**line["values"], **line["metrics"]}:
                self.tell(self._unmeasured(target.target, line))
        value = number(line, target.target)
        return target.stop and value is not None and value >= target.reach

    def _unmeasured(self, metric: str, line: RecordLine) -> str:
        there = sorted(name for name in {**line["values"], **line["metrics"]} if number(line, name) is not None)
        ends = ", and the run stops for it only if a later step measures it" if self.target.stop else ""
        tests = getattr(self.config.scenario, "test_fraction", None)
        hint = "; simulation.test_fraction holds out samples for tests" if tests == 0 else ""
        return (
            f"The target metric '{metric}' is not measured in step {line['step']}{ends}; there are "
            f"{listing(there, _NAMED)}{hint}."
        )
