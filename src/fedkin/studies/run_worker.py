"""Worker process that makes runs, one after another: ``python -m fedkin.studies.run_worker [THREADS]``.

It reads an order per line on stdin, JSON as `fedkin.studies.run_pool` writes it, and writes to stdout a JSON list per
line: ``["ready"]`` before a run, the name of a `fedkin.core.progress.Progress` method with its arguments, and at the
end ``["done"]``, ``["stopped"]``, ``["refused", sentence]`` or ``["failed", what]``. Before that comes ``["memory",
bytes]`` on Linux. A process of its own can be killed at any moment, also in the middle of an import or of one long
step. It takes seconds to start another, so a run with a time limit stops by itself between two steps, if another one
like the last would take too long. The process ends as soon as its stdin closes, as when its parent is killed.
"""

from __future__ import annotations

import json
import math
import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from fedkin.core import FedkinError
from fedkin.core.progress import Progress, RecordLine, Timing
from fedkin.data.reading.sources import keep_read
from fedkin.engines.local import give_back_memory, keep_freed_memory
from fedkin.experiment import registry
from fedkin.experiment.config import config_of
from fedkin.experiment.run import execute, resume
from fedkin.experiment.run_folder import CONFIG, is_finished

_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_CAUTION = 1.25
"""Time of the next step, in multiples of the last one's."""
_FORGET_PEAK, _PEAK = "5", "VmHWM:"


class _TimeOverError(Exception):
    """There is no time for another step of a run."""


class SentProgress(Progress):
    """Progress that is sent to the parent process, one message per line of text.

    It ends a run before a step that would take longer than the time left, if it took as long as the last one.
    """

    def __init__(self, messages: TextIO) -> None:
        self._messages = messages
        self.limit(None)

    def limit(self, seconds: float | None) -> None:
        """Give the next run so many `seconds` from now; ``None`` for no limit."""
        self._end_of_time = math.inf if seconds is None else time.monotonic() + seconds
        self._finished = False
        self._stepped: float | None = None

    def send(self, *words: Any) -> None:
        """Write one message."""
        self._messages.write(json.dumps(words) + "\n")
        self._messages.flush()

    def phase(self, text: str) -> None:
        self.send("phase", text)

    def part(self, done: int, total: int) -> None:
        self.send("part", done, total)

    def checkpoint(self, tree: Mapping[str, Any], timing: Timing, line: RecordLine | None) -> None:
        self._finished = bool(tree["state"]["finished"])

    def step(self, line: RecordLine, timing: Timing) -> None:
        self.send("step", line, timing)
        before, self._stepped = self._stepped, time.monotonic()
        took = timing["seconds"] if before is None else self._stepped - before  # with evaluation and files
        if not self._finished and self._stepped + _CAUTION * took > self._end_of_time:
            raise _TimeOverError

    def warn(self, text: str) -> None:
        self.send("warn", text)


def main() -> None:
    """Carry out orders from stdin until it closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which kills this process
    orders: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(os.dup(0), orders), daemon=True).start()
    messages = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # what a method prints is no message
    if len(sys.argv) > 1:
        import torch

        os.environ["OMP_NUM_THREADS"] = sys.argv[1]
        torch.set_num_threads(int(sys.argv[1]))
    keep_read()
    keep_freed_memory()
    progress = SentProgress(messages)
    while True:
        order = json.loads(orders.get())
        with suppress(OSError):  # not Linux, or not allowed
            _RESET.write_text(_FORGET_PEAK, encoding="ascii")
        progress.send("ready")
        progress.limit(order["seconds"])
        outcome = _outcome(order, progress)
        if (peak := _peak_memory()) is not None:
            progress.send("memory", peak)
        give_back_memory()
        progress.send(*outcome)


def _read(descriptor: int, orders: queue.SimpleQueue[str]) -> None:
    """Queue orders from stdin; end this process when its parent is gone."""
    with os.fdopen(descriptor, encoding="utf-8") as lines:
        for line in lines:
            orders.put(line)
    os._exit(1)


def _peak_memory() -> int | None:
    """Return the peak resident memory since it was reset, in bytes; ``None`` where the system does not count it."""
    try:
        lines = _STATUS.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return None
    found = [line.split()[1] for line in lines if line.startswith(_PEAK)]
    return 1024 * int(found[0]) if found else None


def _outcome(order: dict[str, Any], progress: Progress) -> tuple[str, ...]:
    """Carry out one order: make the run and measure its probes, unless they are there."""
    folder = Path(order["folder"])
    try:
        registry.METHODS.setdefault(order["tables"]["method"]["name"], registry.RegistryEntry(order["method"], ""))
        registry.SCENARIOS.setdefault(
            order["tables"]["scenario"]["name"], registry.RegistryEntry(order["scenario"], "")
        )
        if not (folder / CONFIG).exists():
            execute(config_of(order["tables"]), folder, progress)
        elif not is_finished(folder):
            resume(folder, progress)
        if order["probes"]:
            from fedkin.studies.reproduce.measures import probed

            for probe in order["probes"]:
                probed(folder, probe)
    except _TimeOverError:
        return ("stopped",)
    except FedkinError as error:
        return "refused", str(error)
    except BrokenPipeError:
        raise
    except Exception as error:  # a method's own, on data it was not made for: it ends this run and no other
        traceback.print_exc()
        return "failed", f"{type(error).__name__}: {error}"
    return ("done",)


if __name__ == "__main__":
    main()
