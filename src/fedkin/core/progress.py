"""Callbacks of a run: one interface for progress, records, checkpoints, tracking and early stopping."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from fedkin.core.errors import FedkinError, kind_of

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

    def __init_subclass__(cls, **more: Any) -> None:
        """Refuse a subclass with methods of other libraries' callbacks, ``on_...``, which fedkin would never call."""
        super().__init_subclass__(**more)
        for name in vars(cls):
            if name.startswith("on_"):
                raise TypeError(f"{cls.__name__}.{name} would never be called: a Callback has {', '.join(_HOOKS)}.")

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


_HOOKS = [name for name in vars(Callback) if not name.startswith("_")]


class Progress(Callback):
    """Progress display that shows nothing; warnings are issued as Python's."""

    def warn(self, text: str) -> None:
        warnings.warn(text, stacklevel=2)

    def note(self, text: str) -> None:
        """Called with what is noted of the data, which are in the report, too."""
        self.warn(text)


class Callbacks(Callback):
    """Several callbacks as one, called in order; a run ends if any of them says so."""

    def __init__(self, callbacks: Sequence[Callback]) -> None:
        self.callbacks = tuple(callbacks)

    def stops(self, line: RecordLine) -> bool:
        return any(each.stops(line) for each in self.callbacks)


def _in_turn(name: str) -> Callable[..., None]:
    def call(self: Callbacks, *arguments: Any) -> None:
        for each in self.callbacks:
            getattr(each, name)(*arguments)

    return call


for _name in _HOOKS:
    if _name != "stops":
        setattr(Callbacks, _name, _in_turn(_name))


Follower = Callback | Callable[[RecordLine], object]
"""A callback, or a function that is called with each step's record."""
Followers = Follower | Iterable[Follower] | None
"""Callbacks as users give them: one, several or none."""


class _Called(Callback):
    """Callback that calls a function with each step's record."""

    def __init__(self, function: Callable[[RecordLine], object]) -> None:
        self.function = function

    def step(self, line: RecordLine, timing: Timing) -> None:
        self.function(line)


def callbacks_of(followers: Followers) -> tuple[Callback, ...]:
    """Return callbacks as a tuple, functions among them wrapped; raise FedkinError if one is neither."""
    if followers is None:
        return ()
    listed = [followers] if isinstance(followers, Callback) or callable(followers) else list(followers)
    for each in listed:
        if isinstance(each, type) or not (isinstance(each, Callback) or callable(each)):
            what = f"the class {each.__name__}" if isinstance(each, type) else kind_of(each)
            raise FedkinError(f"A callback is {what}; give instances of fedkin.Callback, or functions of a record.")
    return tuple(each if isinstance(each, Callback) else _Called(each) for each in listed)


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
