"""Worker processes that call functions one after another, and can be killed at any moment.

``python -m fedkin.studies.workers [THREADS]`` reads pickled calls from stdin and writes pickled messages to stdout:
``("ready",)`` before a call, the name of a `fedkin.core.progress.Progress` method with its arguments, and at the end
``("done", value)``, ``("refused", sentence)`` or ``("failed", what)``, with the peak resident memory in bytes behind.
It is a command and no fork, so that a user's script needs no guard. A process ends as soon as its stdin closes, as when
its parent is killed.
"""

from __future__ import annotations

import math
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, ExitStack, suppress
from pathlib import Path
from typing import IO, Any

from fedkin.core import FedkinError
from fedkin.core.doors import at_door, current_door
from fedkin.core.progress import Progress, RecordLine, Timing
from fedkin.experiment import registry
from fedkin.experiment.terminal import Quiet

Message = tuple[Any, ...]
Measure = Callable[[Path, str], object]
"""Measures something of the run in a folder, by name, and keeps it there."""
OnRunEnded = Callable[[str, str | None], None]
"""Called when a run ended: its name, and why it failed if it did."""

_PART = 1.0
"""Seconds that are waited at a time, so that Windows sees Ctrl-C."""
_PROGRESS = ("phase", "part", "step")
_STATUS, _RESET, _FORGET_PEAK, _PEAK = Path("/proc/self/status"), Path("/proc/self/clear_refs"), "5", "VmHWM:"


class EndedError(FedkinError):
    """A worker's process was ended from outside."""


class Worker(AbstractContextManager["Worker"]):
    """Process that carries out one call at a time; it starts when first needed.

    By default it has as many `threads` as torch chooses. `warned` are warnings that were shown and are not repeated, as
    runs on the same data give the same ones. `memory` is the peak resident memory of the last call, in bytes; 0 where
    the system does not count it.
    """

    def __init__(self, threads: int | None = None, warned: set[str] | None = None) -> None:
        self.memory = 0
        self._threads, self._warned = threads, set() if warned is None else warned
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False

    def call(self, function: Callable[..., Any], *arguments: Any, seconds: float, progress: Progress) -> Any:
        """Return what a function of `fedkin` returns, called with `arguments` and, last, a progress.

        Raises TimeoutError if it takes more than `seconds` once the process is ready, which is killed then; EndedError
        if the process ends from outside; and FedkinError if the function raises an error.
        """
        end = math.inf
        self.order(function, *arguments)
        try:
            while True:
                kind, *rest = self._next(end)
                if kind == "ready":
                    end = time.monotonic() + seconds
                elif kind in _PROGRESS:
                    getattr(progress, kind)(*rest)
                else:
                    value, self.memory = rest
                    if kind == "done":
                        return value
                    raise FedkinError(value if kind == "refused" else f"it failed with {value}")
        except BaseException as error:
            if not isinstance(error, FedkinError) or isinstance(error, EndedError):  # it has ended, or is at work
                self.stop()
            raise

    def order(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Send a call to the process, which starts unless there is one."""
        if self._closed:  # while another thread was about to call
            raise EndedError("its process was ended")
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "fedkin.studies.workers", *([str(self._threads)] if self._threads else [])],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
            self._messages: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
            self._reader = threading.Thread(target=self._forward, args=(self._process.stdout,), daemon=True)
            self._reader.start()
        assert self._process.stdin is not None
        pickle.dump((current_door(), function, arguments), self._process.stdin)
        self._process.stdin.flush()

    def _forward(self, messages: IO[bytes]) -> None:
        """Queue the process's messages until it ends, in a thread, as Windows cannot poll pipes; warnings are shown."""
        with suppress(EOFError, pickle.UnpicklingError):  # it may be killed while it writes
            while True:
                message = pickle.load(messages)
                if message[0] == "warn":
                    self._warn(message[1])
                else:
                    self._messages.put(message)
        self._messages.put(None)

    def _next(self, end: float) -> Message:
        """Wait for the next message; raises TimeoutError at `end`, and EndedError if the process has ended."""
        while True:
            try:
                message = self._messages.get(timeout=min(_PART, max(0.0, end - time.monotonic())))
            except queue.Empty:
                if time.monotonic() >= end:
                    raise TimeoutError from None
                continue
            if message is None:
                code = "" if self._process is None else f" with code {self._process.wait()}"
                raise EndedError(f"its process ended{code}")
            return message

    def _warn(self, text: str) -> None:
        """Show a warning, unless one was shown that says the same and only advises or does something else."""
        what = text.partition("; ")[0]
        if what not in self._warned:
            self._warned.add(what)
            Quiet().warn(text)

    def stop(self) -> None:
        """Kill the process, if there is one, and drop its remaining messages."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            self._reader.join()
            process.communicate()

    def __exit__(self, *_: object) -> None:
        self._closed = True
        self.stop()


def run_all(
    experiments: Mapping[str, Mapping[str, Any]],
    runs: Path,
    jobs: int,
    on_ended: OnRunEnded,
    probes: Mapping[str, Collection[str]] | None = None,
    measure: Measure | None = None,
) -> dict[str, str]:
    """Make all runs in folders, `jobs` in parallel with one thread each, and measure their probes.

    `experiments` are `Config.tables` by name of the folder below `runs`. A stopped run is resumed, a finished one only
    probed. `probes` are names by name of run, each of which `measure` is called with. Return why runs failed. Raises
    FedkinError if a process was ended from outside, for lack of memory for example.
    """
    failed: dict[str, str] = {}
    free: queue.SimpleQueue[Worker] = queue.SimpleQueue()

    def make(name: str) -> None:
        worker, tables = free.get(), experiments[name]
        wanted = sorted((probes or {}).get(name, ()))
        try:
            worker.call(
                make_run, tables, targets(tables), str(runs / name), wanted, measure,
                seconds=math.inf, progress=Progress(),
            )  # fmt: skip
        finally:
            free.put(worker)

    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(jobs))
        warned: set[str] = set()
        for _ in range(min(jobs, len(experiments))):
            free.put(stack.enter_context(Worker(1, warned)))
        stack.callback(pool.shutdown, wait=False, cancel_futures=True)  # before workers are killed, as after Ctrl-C
        ended = {pool.submit(make, name): name for name in experiments}
        for future in as_completed(ended):
            name = ended[future]
            try:
                future.result()
            except EndedError as error:
                raise FedkinError(
                    f"The process of run {name} was ended from outside, perhaps for lack of memory; repeat the "
                    "command to resume, with --jobs 1 for minimal memory."
                ) from error
            except FedkinError as error:
                failed[name] = str(error)
            on_ended(name, failed.get(name))
    return failed


def targets(tables: Mapping[str, Any]) -> dict[str, str]:
    """Return the classes of an experiment's method and scenario, which another process may not know by name."""
    return {kind: registry.target_of(kind, tables[kind]["name"]) for kind in ("method", "scenario")}


def register(tables: Mapping[str, Any], classes: Mapping[str, str]) -> None:
    """Make the classes of `targets` known in this process."""
    for kind, entries in (("method", registry.METHODS), ("scenario", registry.SCENARIOS)):
        entries.setdefault(tables[kind]["name"], registry.RegistryEntry(classes[kind], ""))


def make_run(
    tables: dict[str, Any], classes: Mapping[str, str], place: str, probes: Collection[str], measure: Measure | None,
    progress: Progress,
) -> None:  # fmt: skip
    """Make, or resume, the run of an experiment in a folder, and measure its probes, unless they are there."""
    from fedkin.experiment.config import config_of
    from fedkin.experiment.run import execute, resume
    from fedkin.experiment.run_folder import CONFIG, is_finished

    folder = Path(place)
    register(tables, classes)
    if not (folder / CONFIG).exists():
        execute(config_of(tables), folder, progress)
    elif not is_finished(folder):
        resume(folder, progress)
    if measure is not None:
        for probe in probes:
            measure(folder, probe)


class _SentProgress(Progress):
    """Progress that is sent to the parent process."""

    def __init__(self, messages: IO[bytes]) -> None:
        self._messages = messages

    def send(self, *message: Any) -> None:
        pickle.dump(message, self._messages)
        self._messages.flush()

    def phase(self, text: str) -> None:
        self.send("phase", text)

    def part(self, done: int, total: int) -> None:
        self.send("part", done, total)

    def step(self, line: RecordLine, timing: Timing) -> None:
        self.send("step", line, timing)

    def warn(self, text: str) -> None:
        self.send("warn", text)


def main() -> None:
    """Carry out calls from stdin until it closes."""
    from fedkin.data.sources import keep_read
    from fedkin.engines.local import give_back_memory, keep_freed_memory

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which kills this process
    calls: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(os.dup(0), calls), daemon=True).start()
    messages = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # what a method prints is no message
    if len(sys.argv) > 1:
        import torch

        os.environ["OMP_NUM_THREADS"] = sys.argv[1]
        torch.set_num_threads(int(sys.argv[1]))
    keep_read()
    keep_freed_memory()
    progress = _SentProgress(messages)
    while True:
        door, function, arguments = calls.get()
        with suppress(OSError):  # not Linux, or not allowed
            _RESET.write_text(_FORGET_PEAK, encoding="ascii")
        progress.send("ready")
        try:
            with at_door(door):
                outcome = ("done", function(*arguments, progress))
        except FedkinError as error:
            outcome = ("refused", str(error))
        except BrokenPipeError:
            raise
        except Exception as error:  # a method's own, on data it was not made for: it ends this run and no other
            traceback.print_exc()
            outcome = ("failed", f"{type(error).__name__}: {error}")
        progress.send(*outcome, _peak_memory())
        give_back_memory()


def _read(descriptor: int, calls: queue.SimpleQueue[Any]) -> None:
    """Queue calls from stdin; end this process when its parent is gone."""
    with os.fdopen(descriptor, "rb") as stream, suppress(EOFError, pickle.UnpicklingError):
        while True:
            calls.put(pickle.load(stream))
    os._exit(1)


def _peak_memory() -> int:
    """Return the peak resident memory since it was reset, in bytes; 0 where the system does not count it."""
    try:
        lines = _STATUS.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return 0
    peaks = [line.split()[1] for line in lines if line.startswith(_PEAK)]
    return 1024 * int(peaks[0]) if peaks else 0


if __name__ == "__main__":
    main()
