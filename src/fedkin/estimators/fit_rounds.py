"""Rounds of a fit, with evaluation on held-out samples and callbacks."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fedkin.core import Method, State
from fedkin.core.progress import Callback, Callbacks
from fedkin.core.steps import begin, do_step, record_line
from fedkin.data.population import Population
from fedkin.engines.local import LocalFederation
from fedkin.estimators.held_out import HeldOut
from fedkin.estimators.metrics_frame import mean_of
from fedkin.estimators.own_metrics import OwnMetrics
from fedkin.experiment.evaluation import evaluate_clusters


@dataclass(frozen=True)
class Following:
    """Evaluation and callbacks of a fit.

    Models are evaluated on `held_out` samples after every round, by `metrics` besides accuracy.
    """

    held_out: tuple[HeldOut, ...] = ()
    callbacks: tuple[Callback, ...] = ()
    metrics: OwnMetrics = field(default_factory=OwnMetrics)


class Rounds:
    """Rounds of a fit, evaluated and reported to callbacks; `history` and `judged` are as in `FitOutcome`."""

    def __init__(
        self, method: Method[Any], fed: LocalFederation, judges: Mapping[str, Population], callbacks: Callbacks,
        metrics: OwnMetrics,
    ) -> None:  # fmt: skip
        self.method, self.fed, self.judges, self.callbacks, self.metrics = method, fed, judges, callbacks, metrics
        self.history: list[dict[str, Any]] = []
        self.judged: list[dict[str, Any]] = []

    def to_the_end(self) -> State:
        """Make steps until the method has finished or a callback stops it, and return the last state."""
        state: State = begin(self.method, self.fed)
        self._judge(state)
        while not state.finished:
            state = self._step(state)
        return state

    def _step(self, state: State) -> State:
        self.callbacks.phase(f"Step {state.steps + 1}")
        began = time.perf_counter()
        state, record = do_step(self.method, self.fed, state)
        line = record_line(record, self.fed, state.steps, self._judge(state))
        shown = {name: line[name] for name in ("missing", "sent", "received")}
        self.history.append({"step": state.steps, **record.values, **shown})
        if self.callbacks.stops(line) and not state.finished:
            state = dataclasses.replace(state, finished=True)
            self.method.conclude(self.fed, state)
        self.callbacks.step(line, {"step": state.steps, "seconds": time.perf_counter() - began})
        return state

    def _judge(self, state: Any) -> dict[str, Any]:
        """Evaluate the models on held-out samples; names of scores on ``"validation"`` begin with that word."""
        found: dict[str, Any] = {}
        for split, population in self.judges.items():
            scores = evaluate_clusters(self.method, population, self.fed, state)
            labels = state.labels.tolist()
            own = self.metrics.measured(population, state)
            self.judged.append({"round": state.steps, "split": split, "labels": labels, "scores": scores, "own": own})
            scores = scores | {name: mean for name, values in own.items() if (mean := mean_of(values)) is not None}
            prefix = "" if split == "test" else f"{split}_"
            found |= {prefix + name: value for name, value in scores.items()}
        return found
