"""Pool of processes that make runs and can be stopped at any moment: one with a time limit, or several in parallel."""

from __future__ import annotations

import json
import math
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import IO, Any

from fedkin.core import FedkinError
from fedkin.core.progress import Progress
from fedkin.experiment import registry
from fedkin.experiment.config import Config
from fedkin.experiment.run_folder import is_finished
from fedkin.experiment.terminal import Quiet

Arrival = tuple["RunWorker", list[Any] | None]
"""A message of a worker; ``None`` once its process has ended."""

_PART = 1.0
"""Seconds that are waited at a time."""

_PROGRESS = ("phase", "part", "step")

OnRunEnded = Callable[[str, str | None], None]
"""Called when a run ended: its name, and why it failed if it did."""


class RunWorker(AbstractContextManager["RunWorker"]):
    """Worker process that makes one run at a time; it starts when first needed.

    By default it has as many threads as torch chooses, and a queue of its own. `warned` are warnings that were shown
    and are not repeated, as runs on the same data give the same ones. `start` are the seconds that the process took to
    start the last time; `memory` is its peak resident memory during the last run, in bytes; 0 where the system does not
    count it.
    """

    def __init__(
        self,
        threads: int | None = None,
        arrivals: queue.SimpleQueue[Arrival] | None = None,
        warned: set[str] | None = None,
    ) -> None:
        self.start = 0.0
        self._warned = set() if warned is None else warned
        self.memory = 0
        self._threads = threads
        self._shares = arrivals is not None
        self._arrivals: queue.SimpleQueue[Arrival] = queue.SimpleQueue() if arrivals is None else arrivals
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None

    def run(self, config: Config, folder: Path, seconds: float, max_seconds: float, progress: Progress) -> bool:
        """Make or resume a run in the worker process; return whether it finished within its time.

        A run that is stopped keeps its last checkpoint, from which it can be resumed; the process is killed only in the
        middle of a step. `seconds` is the time limit, counted from when the process is ready; `max_seconds` includes
        its start. Raises FedkinError if the method refuses the data or fails, a file cannot be written, or the process
        ends from outside.
        """
        if is_finished(folder):
            return True
        self.memory = 0
        began, is_new = time.monotonic(), self._process is None
        end = began + max_seconds
        self.order(config.tables, folder, seconds=min(seconds, max_seconds))
        try:
            while (message := self._next(end)) is not None:
                kind, *rest = message
                if kind == "ready":
                    end = min(end, time.monotonic() + seconds)
                    self.start = time.monotonic() - began if is_new else self.start
                elif kind in _PROGRESS:
                    getattr(progress, kind)(*rest)
                elif kind == "memory":
                    self.memory = int(rest[0])
                elif kind in ("done", "stopped"):
                    return bool(kind == "done")
                else:
                    raise FedkinError(rest[0] if kind == "refused" else f"it failed with {rest[0]}")
        except KeyboardInterrupt:
            self.stop()
            raise
        self.stop()
        return is_finished(folder)

    def order(
        self, tables: Mapping[str, Any], folder: Path, probes: Collection[str] = (), seconds: float | None = None
    ) -> None:
        """Send the process an order to make a run and measure probes; see `fedkin.studies.reproduce.measures`.

        The run stops between two steps when its `seconds` are over; without, there is no limit.
        """
        self.begin()
        assert self._process is not None
        order = {
            "tables": tables,
            "folder": str(folder),
            "probes": sorted(probes),
            "seconds": seconds,
            "method": registry.target_of("method", tables["method"]["name"]),
            "scenario": registry.target_of("scenario", tables["scenario"]["name"]),
        }
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()

    def begin(self) -> None:
        """Start the process, unless there is one; it takes seconds, while something else may be done."""
        if self._process is not None:
            return
        threads = [] if self._threads is None else [str(self._threads)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "fedkin.studies.run_worker", *threads],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        self._reader = threading.Thread(target=self._forward, args=(self._process.stdout,), daemon=True)
        self._reader.start()

    def _forward(self, messages: IO[bytes]) -> None:
        """Queue the process's messages until it ends, without repeated warnings.

        It runs in a thread, as Windows cannot poll pipes.
        """
        for line in messages:
            if not line.endswith(b"\n"):  # it was killed while it wrote
                continue
            kind, *rest = json.loads(line)
            if kind == "warn":
                self._warn(rest[0])
            else:
                self._arrivals.put((self, [kind, *rest]))
        self._arrivals.put((self, None))

    def _warn(self, text: str) -> None:
        """Show a warning, unless one was shown that says the same and only advises or does something else."""
        what = text.partition("; ")[0]
        if what not in self._warned:
            self._warned.add(what)
            Quiet().warn(text)

    def ended(self) -> FedkinError:
        """Return the error for a process that ended by itself."""
        assert self._process is not None
        code = self._process.wait()
        self.stop()
        return FedkinError(f"its process ended with code {code}")

    def _next(self, end: float) -> list[Any] | None:
        """Wait for the next message until `end`; ``None`` if none arrives."""
        arrived = _waited_for(self._arrivals, end)
        if arrived is None:
            return None
        if arrived[1] is None:
            raise self.ended()
        return None if time.monotonic() > end else arrived[1]

    def stop(self) -> None:
        """Kill the process, if there is one, and drop its remaining messages."""
        if self._process is not None:
            assert self._reader is not None
            self._process.kill()
            self._reader.join()
            self._process.communicate()
            self._process, self._reader = None, None
            if not self._shares:
                self._arrivals = queue.SimpleQueue()

    def __exit__(self, *_: object) -> None:
        self.stop()


def run_all(
    experiments: Mapping[str, Mapping[str, Any]],
    runs: Path,
    jobs: int,
    on_ended: OnRunEnded,
    probes: Mapping[str, Collection[str]] | None = None,
) -> dict[str, str]:
    """Make all runs, `jobs` in parallel with one thread each, and measure their probes; return why runs failed.

    `experiments` are `Config.tables` by name of the folder below `runs`. A stopped run is resumed, a finished one only
    probed. `probes` are names by name of run; see `fedkin.studies.reproduce.measures`. Raises FedkinError if a process
    was ended from outside, for lack of memory for example.
    """
    failed: dict[str, str] = {}
    waiting = iter(experiments)
    busy: dict[RunWorker, str] = {}

    arrivals: queue.SimpleQueue[Arrival] = queue.SimpleQueue()
    warned: set[str] = set()

    def order_next(worker: RunWorker) -> None:
        name = next(waiting, None)
        if name is None:
            worker.stop()
            return
        busy[worker] = name
        worker.order(experiments[name], runs / name, (probes or {}).get(name, ()))

    with ExitStack() as stack:
        for _ in range(min(jobs, len(experiments))):
            order_next(stack.enter_context(RunWorker(1, arrivals, warned)))
        while busy:
            arrived = _waited_for(arrivals)
            if arrived is None or arrived[0] not in busy:  # a worker that was stopped, as nothing is left for it
                continue
            worker, message = arrived
            if message is None:
                raise FedkinError(
                    f"The process of run {busy[worker]} was ended from outside, perhaps for lack of memory; repeat the "
                    "command to resume, with --jobs 1 for minimal memory."
                ) from worker.ended()
            kind, *rest = message
            if kind not in ("done", "refused", "failed"):
                continue
            name, why = busy.pop(worker), rest[0] if rest else None
            if why is not None:
                failed[name] = why
            on_ended(name, why)
            order_next(worker)
    return failed


def _waited_for(arrivals: queue.SimpleQueue[Arrival], end: float = math.inf) -> Arrival | None:
    """Wait for the next message until `end`; ``None`` if none arrives. In short waits, so that Windows sees Ctrl-C."""
    while True:
        try:
            return arrivals.get(timeout=min(_PART, max(0.0, end - time.monotonic())))
        except queue.Empty:
            if time.monotonic() >= end:
                return None
