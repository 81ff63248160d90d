"""Processes that make runs and can be stopped at any moment: one with a limit of time, or several at once."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

from fedkin.core import FedkinError
from fedkin.core.progress import Progress
from fedkin.experiment import registry
from fedkin.experiment.config import Config
from fedkin.experiment.run_folder import is_finished

_PROGRESS = ("phase", "part", "step")

OnRunEnded = Callable[[str, str | None], None]
"""Called when a run ended: its name, and why it failed if it did."""


class RunWorker(AbstractContextManager["RunWorker"]):
    """A process that makes one run at a time. It starts when first needed, and ends with the context or this process.

    Parameters
    ----------
    threads : int, optional
        Threads of torch in the process; by default as many as torch chooses.

    Attributes
    ----------
    start : float
        Seconds that the process took to be ready, when it was last started.
    """

    def __init__(self, threads: int | None = None) -> None:
        self.start = 0.0
        self._threads = threads
        self._process: subprocess.Popen[bytes] | None = None
        self._read = b""
        self._arrived: deque[list[Any]] = deque()

    def run(self, config: Config, folder: Path, seconds: float, max_seconds: float, progress: Progress) -> bool:
        """Make a run, or resume it; whether it is finished.

        A run that is stopped keeps its last checkpoint, from which it can be resumed.

        Parameters
        ----------
        config : Config
        folder : Path
            The run's.
        seconds : float
            Limit of time from the moment when the process is ready.
        max_seconds : float
            Limit of time that includes the start of the process.
        progress : Progress
            Receives the run's progress.

        Raises
        ------
        FedkinError
            If the method refuses the data or fails, a file cannot be written, or the process ends from outside.
        """
        if is_finished(folder):
            return True
        began, is_new = time.monotonic(), self._process is None
        end = began + max_seconds
        self.order(config.tables, folder)
        try:
            while (message := self._next(end)) is not None:
                kind, *rest = message
                if kind == "ready":
                    end = min(end, time.monotonic() + seconds)
                    self.start = time.monotonic() - began if is_new else self.start
                elif kind in _PROGRESS:
                    getattr(progress, kind)(*rest)
                elif kind == "done":
                    return True
                else:
                    raise FedkinError(rest[0] if kind == "refused" else f"it failed with {rest[0]}")
        except KeyboardInterrupt:
            self.stop()
            raise
        self.stop()
        return is_finished(folder)

    def order(self, tables: Mapping[str, Any], folder: Path, probes: Collection[str] = ()) -> None:
        """Have the process make a run and measure probes of it, see `fedkin.studies.reproduce.probes`."""
        if self._process is None:
            threads = [] if self._threads is None else [str(self._threads)]
            self._process = subprocess.Popen(
                [sys.executable, "-m", "fedkin.studies.run_worker", *threads],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        order = {
            "tables": tables,
            "folder": str(folder),
            "probes": sorted(probes),
            "method": registry.target_of("method", tables["method"]["name"]),
            "scenario": registry.target_of("scenario", tables["scenario"]["name"]),
        }
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()

    def fileno(self) -> int:
        """Return the descriptor on which messages arrive."""
        assert self._process is not None
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def receive(self) -> list[list[Any]]:
        """Wait until something arrives, and return all messages that are complete.

        Raises
        ------
        FedkinError
            If the process has ended.
        """
        more = os.read(self.fileno(), 1 << 16)
        if not more:
            assert self._process is not None
            code = self._process.wait()
            self.stop()
            raise FedkinError(f"its process ended with code {code}")
        *lines, self._read = (self._read + more).split(b"\n")
        return [json.loads(line) for line in lines]

    def _next(self, end: float) -> list[Any] | None:
        """Wait for the next message; ``None`` if none arrives until `end`."""
        with selectors.DefaultSelector() as selector:
            selector.register(self, selectors.EVENT_READ)
            while not self._arrived:
                if not selector.select(max(0.0, end - time.monotonic())):
                    return None
                self._arrived.extend(self.receive())
        return None if time.monotonic() > end else self._arrived.popleft()

    def stop(self) -> None:
        """Kill the process, if there is one."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process, self._read = None, b""
            self._arrived.clear()

    def __exit__(self, *_: object) -> None:
        self.stop()


def run_all(
    experiments: Mapping[str, Mapping[str, Any]],
    runs: Path,
    jobs: int,
    on_ended: OnRunEnded,
    probes: Mapping[str, Collection[str]] | None = None,
) -> dict[str, str]:
    """Make all runs, several at a time with one thread each, and measure their probes.

    Parameters
    ----------
    experiments : mapping of str to mapping
        `Config.tables` by name of the folder below `runs`. A stopped run is resumed, a finished one only probed.
    runs : Path
    jobs : int
        How many at a time.
    on_ended : callable
    probes : mapping of str to collection of str, optional
        Names of probes by name of run; see `fedkin.studies.reproduce.probes`.

    Returns
    -------
    dict
        Why runs failed, by name, in one sentence each; the others finished.

    Raises
    ------
    FedkinError
        If a process was ended from outside, for lack of memory for example.
    """
    failed: dict[str, str] = {}
    waiting = iter(experiments)
    busy: dict[RunWorker, str] = {}

    def order_next(worker: RunWorker) -> bool:
        name = next(waiting, None)
        if name is not None:
            busy[worker] = name
            worker.order(experiments[name], runs / name, (probes or {}).get(name, ()))
        return name is not None

    with ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        for _ in range(min(jobs, len(experiments))):
            worker = stack.enter_context(RunWorker(threads=1))
            order_next(worker)
            selector.register(worker, selectors.EVENT_READ, worker)
        while busy:
            for key, _ in selector.select():
                worker = key.data
                for kind, *rest in _messages(worker, busy[worker]):
                    if kind not in ("done", "refused", "failed"):
                        continue
                    name, why = busy.pop(worker), rest[0] if rest else None
                    if why is not None:
                        failed[name] = why
                    on_ended(name, why)
                    if not order_next(worker):
                        selector.unregister(worker)
                        worker.stop()
    return failed


def _messages(worker: RunWorker, name: str) -> list[list[Any]]:
    """Return all messages of a worker that is ready to be read."""
    try:
        return worker.receive()
    except FedkinError as error:
        raise FedkinError(
            f"The process of run {name} was ended from outside, perhaps for lack of memory; repeat the command to "
            "resume, with --jobs 1 for minimal memory."
        ) from error
