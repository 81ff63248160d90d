"""Runner of a method: its steps at every door, what is called as it proceeds, and checks of what a method returns."""

from __future__ import annotations

import dataclasses
import math
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from numbers import Integral
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from fedkin.core.client import Client
from fedkin.core.client_array import ClientArray
from fedkin.core.errors import DivergedError, FedkinError, listing
from fedkin.core.federation import MAX_ATTEMPTS, Federation
from fedkin.core.method import Method, Record
from fedkin.core.payload import lasts

NUMBERS = "numbers"
"""In a result whose clusters have other numbers than the method's own: these, int64 ``(k,)``, by the method's."""
RecordLine = dict[str, Any]
"""One line of ``records.jsonl``: step, answered, missing, values, metrics, the bytes sent and received so far.

``refused`` has a sentence about each node that a real federation did not let in since the last line, if any.
"""
Timing = dict[str, Any]
"""One line of ``timing.jsonl``: step, seconds, and client_seconds where they are known."""
Status = Literal["finished", "failed", "interrupted"]


class Callback:
    """Base class of callbacks, whose methods do nothing here; an error that one raises ends the run.

    A `line` is the record of a step, a dict: ``step``; ``answered``, the ids of clients; ``missing``, reasons by id;
    ``values``, what the method reports, such as ``loss``; ``metrics``, what was evaluated, such as ``ari``; ``sent``
    and ``received``, bytes so far. A `timing` has ``step``, ``seconds`` and ``client_seconds``. A `tree` is the whole
    checkpoint, dicts and lists of tensors and plain values.
    """

    def begin(self) -> None:
        """Called when the run begins or resumes."""

    def phase(self, text: str) -> None:
        """Called when something that may take a while begins."""

    def part(self, done: int, total: int) -> None:
        """Called when `done` of the `total` clients of the current exchange have replied."""

    def stops(self, line: RecordLine) -> bool:
        """Return whether the run ends with this step, whose record is not on disk yet."""
        return False

    def checkpoint(self, tree: Mapping[str, Any], timing: Timing, line: RecordLine | None) -> None:
        """Called when a checkpoint is due: after a step, or, without a line, after the method's init.

        It must not change `tree`.
        """

    def step(self, line: RecordLine, timing: Timing) -> None:
        """Called when a step has ended and its record is on disk."""

    def warn(self, text: str) -> None:
        """Called when something failed that the run can do without."""

    def end(self, status: Status) -> None:
        """Called when the run has ended, once for each `begin`, even if that failed."""


class Progress(Callback):
    """Progress display that shows nothing; warnings are issued as Python's."""

    def warn(self, text: str) -> None:
        warnings.warn(text, stacklevel=2)

    def note(self, text: str) -> None:
        """Called with what is noted of the data, which are in the report, too."""
        self.warn(text)


class Callbacks(Callback):
    """Several callbacks as one, called in order; a run ends if any of them says so.

    Raises FedkinError if one is no callback.
    """

    def __init__(self, callbacks: Sequence[Callback]) -> None:
        if wrong := [each for each in callbacks if not isinstance(each, Callback)]:
            raise FedkinError(f"A callback is {wrong[0]!r}; give instances of fedkin.Callback.")
        self.callbacks = tuple(callbacks)

        for name in ("begin", "phase", "part", "checkpoint", "step", "warn", "end"):
            setattr(self, name, partial(self._in_turn, name))

    def _in_turn(self, name: str, *arguments: Any) -> None:
        for each in self.callbacks:
            getattr(each, name)(*arguments)

    def stops(self, line: RecordLine) -> bool:
        return any(each.stops(line) for each in self.callbacks)


@contextmanager
def run_with_callbacks(callback: Callback) -> Iterator[None]:
    """Call `begin` of a callback on entry and `end` on exit, with "finished", "interrupted" or "failed"."""
    status: Status = "failed"
    try:
        callback.begin()
        yield
        status = "finished"
    except KeyboardInterrupt:
        status = "interrupted"
        raise
    finally:
        callback.end(status)


class EarlyStopping(Callback):
    """Callback that ends a run or fit after `patience` rounds without improvement of a metric.

    The models of the last round are kept, not those of the best one.

    Parameters
    ----------
    monitor : str
        A metric or a value of the record, of which more is better unless the name contains ``loss``. By default the
        mean over clients of the accuracy on their own validation samples, which needs ``fit(..., validation=...)``;
        ``"personal_accuracy"`` is that on ``eval``, and ``"loss"`` the training loss.
    patience : int
        Rounds without a better value, at least 1.

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

    def __init__(self, monitor: str = "validation_personal_accuracy", patience: int = 5) -> None:
        if not isinstance(patience, int) or patience < 1:
            raise FedkinError(f"patience is {patience!r}; it should be a whole number of rounds, 1 or more.")
        self.monitor, self.patience = monitor, patience
        self.sign = -1.0 if "loss" in monitor else 1.0
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
        if is_number and (self.best is None or self.sign * (value - self.best) > 0):
            self.best, self.best_step = float(value), int(line["step"])
        return bool(line["step"] - self.best_step >= self.patience)


# Steps.


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
        What is called as the run proceeds, see `Callbacks`. Their `begin` and `end` are called by
        `run_with_callbacks`, since a run does more than steps.
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
        state = self.method.init(self.fed)
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
        refused = {"refused": list(self.fed.refused)} if self.fed.refused else {}
        line: RecordLine = _plain(
            {
                "step": state.steps, "answered": record.answered, "missing": {**record.missing, **self.fed.dropped},
                "values": record.values, "metrics": self.judge(state, record),
                "sent": self.fed.sent, "received": self.fed.received, **refused,
            }
        )  # fmt: skip
        return line

    def _timing(self, step: int, began: float, computed: float) -> Timing:
        """Return the seconds since `began`, and those that all clients together have computed beyond `computed`."""
        seconds = time.perf_counter() - began
        return {"step": step, "seconds": round(seconds, 3), "client_seconds": round(self.fed.seconds - computed, 6)}


def _plain(value: Any) -> Any:
    """Return what a record holds as JSON can: with plain numbers in place of numpy's and torch's, ``None`` for NaN."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic | Tensor | np.ndarray) and value.ndim == 0:
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise FedkinError(f"The record of a step holds a value of type {type(value).__name__}; tolist() makes a list.")


def do_step(method: Method[Any], fed: Federation, state: Any) -> tuple[Any, Record]:
    """Do one step of `method`, and repeat it if no client replied or if clients have to be left out first.

    A step that nobody answers is done again, up to 20 times, or five times if all replies were unusable. Then those
    that were asked are left out of the run, if enough clients remain. So are, at once, those whose updates alone make
    a model useless (`DivergedError`). Raises FedkinError if fewer than `Federation.min_clients` would remain, which
    names the clients and says why, or if a model diverges after averaging and no client stands out.
    """
    empty = 0
    while True:
        requested, usable, present = fed.requested, fed.usable, set(fed.present)
        try:
            after, record = _checked_step(method, state, method.step(fed, state))
        except DivergedError as error:
            reasons = {i: reason for i, reason in error.culprits.items() if i in present}
            if not reasons or not fed.can_spare(reasons):
                raise DivergedError(error.what, error.culprits, fed.client_label) from error
            fed.drop(reasons)
            continue
        if fed.usable > usable or fed.requested == requested:
            return after, record
        empty += 1
        reasons = {i: reason for i, reason in fed.missing.items() if i in present}
        if empty < (fed.most_unusable if all(map(lasts, reasons.values())) else MAX_ATTEMPTS):
            fed.pause(empty)
            continue
        if not reasons or not fed.can_spare(reasons):
            silent = listing([f"{fed.client_label(client)}: {reason}" for client, reason in reasons.items()])
            raise FedkinError(
                f"Nobody gave a usable reply in step {state.steps + 1}, in {empty} attempts, so the run stops "
                f"({silent})."
            )
        fed.drop(reasons)
        empty = 0


def _checked_step(method: Method[Any], before: Any, answer: Any) -> tuple[Any, Record]:
    """Return the state and the record of a step after `before`; raise FedkinError if a user's own method has no such.

    With the same number of steps a run would never end.
    """
    state, record = answer if isinstance(answer, tuple) and len(answer) == 2 else (None, None)
    if not (isinstance(state, type(before)) and state.steps == before.steps + 1 and isinstance(record, Record)):
        name = type(method).__name__
        raise FedkinError(f"{name}.step should return what state.next(...) makes, and a Record.")
    return state, record


# Predictions of a result, and what is known of clients when a method has finished.


def predicted_clusters(method: Any, result: Mapping[str, Any], x: Tensor, **whose: Any) -> Tensor:
    """Have a method, or its class, predict samples ``(n, *shape)``; return their clusters, int64 ``(n,)``.

    `whose` says whose model predicts, where clients have models.
    """
    labels: Tensor = method.predict(result, x, **whose).long()
    return result[NUMBERS][labels] if NUMBERS in result else labels


def predicted_memberships(method: Any, result: Mapping[str, Any], x: Tensor) -> Tensor | None:
    """Return the memberships of samples in each cluster, float32 ``(n, n_clusters)``; ``None`` if clusters are hard."""
    memberships: Tensor | None = method.memberships(result, x)
    if memberships is None or NUMBERS not in result:  # else a column for each number; those that no cluster has are 0
        return memberships
    return in_places(memberships, result[NUMBERS], int(result["n_clusters"]), 1)


def in_places(values: Tensor, numbers: Tensor, count: int, dim: int = 0) -> Tensor:
    """Return values by cluster along `dim` at the clusters' `numbers`, int64 ``(k,)``, of `count`; 0 at others."""
    shape = [*values.shape]
    shape[dim] = count
    return values.new_zeros(shape).index_copy_(dim, numbers, values.narrow(dim, 0, len(numbers)))


def result_of(method: Method[Any], fed: Federation, state: Any) -> dict[str, Any]:
    """Return the result of a method that has finished, in which clients that were left out have the label -1.

    Raises FedkinError if samples are clustered, and no client of this process has clusters of its own.
    """
    result = dict(method.result(state))
    if method.traits.clusters == "samples":
        if not clustered(fed) and any(i in fed.clients for i in fed.present):
            raise FedkinError(
                f'{type(method).__name__} has finished, and no client has state["clusters"], the number of a cluster '
                "for each of its samples; a task should set them."
            )
    elif fed.dropped and isinstance(labels := result.get("labels"), Tensor):
        result["labels"] = labels.index_fill(0, torch.tensor(sorted(fed.dropped)), -1)
    return result


def clustered(fed: Federation) -> list[Client]:
    """Return the clients of this process that take part to the end and have clusters of their samples, in order.

    Those of one array are one.
    """
    if isinstance(fed.clients, ClientArray):
        return [client for client in [fed.clients.as_one()] if "clusters" in client.state]
    return [fed.clients[i] for i in fed.present if i in fed.clients and "clusters" in fed.clients[i].state]


def without_result(method: Method[Any], fed: Federation) -> dict[int, str]:
    """Return the clients of this process that have no part in the result though they began, and why."""
    missing = dict(fed.dropped)
    if method.traits.clusters == "samples" and not isinstance(fed.clients, ClientArray):
        ready = {client.id for client in clustered(fed)}
        missing |= {i: fed.missing.get(i, "no reply") for i in fed.present if i in fed.clients and i not in ready}
    return dict(sorted(missing.items()))


def fewer_clusters(used: int, requested: object, members: str | None) -> list[str]:
    """Return a sentence if fewer clusters have `members` than the number that was given, if one was."""
    if not isinstance(requested, Integral) or not 0 < used < int(requested):
        return []
    return [f"{requested} clusters were asked for, and {used} {'has' if used == 1 else 'have'} {members}."]
