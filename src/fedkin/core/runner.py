"""Runner of a method: its steps, from the first to the last, at every door."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from fedkin.core.contract import after_step, first_state
from fedkin.core.errors import DivergedError, FedkinError, listing
from fedkin.core.federation import MAX_ATTEMPTS, MAX_UNUSABLE, Federation
from fedkin.core.method import Method, Record
from fedkin.core.progress import Callback, RecordLine, Timing
from fedkin.core.replies import MAX_UPDATE, failure_kind, lasts


class Runner:
    """Makes the steps of a method over a federation, until it has finished or a callback stops it.

    The command line's runs, `fit` and Flower's strategies are subclasses, which differ in what they do around a step:
    `advance` before it, `judge` after it, and `keep` once its record is written.

    Attributes
    ----------
    method : Method
        The method; `advance` may replace it.
    fed : Federation
        The clients.
    callbacks : Callback
        What is called as the run proceeds, see `fedkin.core.progress.Callbacks`. Their `begin` and `end` are called by
        `fedkin.core.progress.run_with_callbacks`, since a run does more than steps.
    """

    def __init__(self, method: Method[Any], fed: Federation, callbacks: Callback | None = None) -> None:
        self.method, self.fed, self.callbacks = method, fed, callbacks or Callback()

    def advance(self, step: int) -> None:
        """Do what comes before a step, such as admitting clients that have joined; nothing by default."""

    def judge(self, state: Any, record: Record | None) -> Mapping[str, Any]:
        """Return what is measured of a state, by name: after `init`, without a record, and after every step.

        It is called again with the same record if a callback ends the run there.
        """
        return {}

    def keep(self, state: Any, timing: Timing, line: RecordLine | None) -> Any:
        """Keep a state, such as in a checkpoint; return that from which the next step starts, by default the same."""
        return state

    def steps(self, state: Any = None) -> Any:
        """Make steps after `state`, by default from the start, and return the last state."""
        if state is None:
            state = self.start()
        while not state.finished:
            state = self.step(state)
        return state

    def start(self) -> Any:
        """Return the first state."""
        began = time.perf_counter()
        state = begin(self.method, self.fed)
        self.judge(state, None)
        return self.keep(state, self._timing(0, began, 0.0), None)

    def step(self, state: Any) -> Any:
        """Make the step after `state`, and return the next one."""
        self.callbacks.phase(f"Step {state.steps + 1}")
        computed = self.fed.seconds  # what newcomers compute to join belongs to the step, as its bytes do
        self.advance(state.steps + 1)
        began = time.perf_counter()
        state, record = do_step(self.method, self.fed, state)
        timing = self._timing(state.steps, began, computed)
        line = self._line(state, record)
        if self.callbacks.stops(line) and not state.finished:
            state = dataclasses.replace(state, finished=True)
            self.method.conclude(self.fed, state)
            line = self._line(state, record)
        self.fed.refused.clear()
        state = self.keep(state, timing, line)
        self.callbacks.step(line, timing)
        return state

    def _line(self, state: Any, record: Record) -> RecordLine:
        """Return the line of a step's record, in which clients that were left out of the run are missing, too."""
        metrics = self.judge(state, record)
        record = dataclasses.replace(record, missing={**record.missing, **self.fed.dropped})
        refused = {"refused": list(self.fed.refused)} if self.fed.refused else {}
        line: RecordLine = _finite({**record.line(state.steps, self.fed.traffic, metrics), **refused})
        return line

    def _timing(self, step: int, began: float, computed: float) -> Timing:
        """Return the seconds since `began`, and those that all clients together have computed beyond `computed`."""
        seconds = time.perf_counter() - began
        return {"step": step, "seconds": round(seconds, 3), "client_seconds": round(self.fed.seconds - computed, 6)}


def begin(method: Method[Any], fed: Federation) -> Any:
    """Return the first state of `method`; raise FedkinError if `init` returns none, or sets what does not change."""
    with _unchanged(method, "init"):
        state = method.init(fed)
    return first_state(method, state)


@contextmanager
def _unchanged(method: Method[Any], function: str) -> Iterator[None]:
    """Say in a sentence that options and states are not set; a context manager around a `function` of `method`."""
    try:
        yield
    except dataclasses.FrozenInstanceError as error:
        raise FedkinError(
            f"{type(method).__name__}.{function} {error}: options and states do not change; what is new goes into the "
            "next state, as in state.next(centroids=...)."
        ) from error


def do_step(method: Method[Any], fed: Federation, state: Any) -> tuple[Any, Record]:
    """Do one step of `method`, and repeat it if no client replied or if clients have to be left out first.

    A step that nobody answers is done again, up to 20 times, or five times if all replies were unusable. Then those
    that were asked are left out of the run, if enough clients remain. So are, at once, those whose updates alone make
    a model useless (`DivergedError`). Raises FedkinError if fewer than `Federation.min_clients` would remain, which
    names the clients and says why, or if a model diverges and no client stands out: after averaging, or in training at
    everyone.
    """
    empty = 0
    while True:
        requested, usable, present = fed.requested, fed.usable, set(fed.present)
        try:
            with _unchanged(method, "step"):
                answer = method.step(fed, state)
            after, record = after_step(method, state, answer)
        except DivergedError as error:
            reasons = {i: reason for i, reason in error.culprits.items() if i in present}
            if not reasons or not fed.can_spare(reasons):
                raise error.naming(fed.client_phrase) from error
            fed.drop(reasons)
            continue
        if fed.usable > usable or fed.requested == requested:
            return after, record
        empty += 1
        reasons = {i: reason for i, reason in fed.missing.items() if i in present}
        if empty < (MAX_UNUSABLE if all(map(lasts, reasons.values())) else MAX_ATTEMPTS):
            fed.pause(empty)
            continue
        if not reasons or not fed.can_spare(reasons):
            if reasons and all(failure_kind(reason) == "diverged" for reason in reasons.values()):
                raise DivergedError(
                    f"Training diverged in step {state.steps + 1} at every client that was asked: updates are not "
                    f"finite, or beyond {MAX_UPDATE:g}",
                    {},
                )
            silent = listing([f"{fed.client_phrase(client)}: {reason}" for client, reason in reasons.items()])
            raise FedkinError(
                f"Nobody gave a usable reply in step {state.steps + 1}, in {empty} attempts, so the run stops "
                f"({silent})."
            )
        fed.drop(reasons)
        empty = 0


def _finite(value: Any) -> Any:
    """Replace NaN and infinities in `value` by ``None``, as JSON cannot hold them."""
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
