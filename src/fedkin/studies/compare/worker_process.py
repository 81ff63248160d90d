"""Having runs made by another process, which can be stopped at any moment."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from fedkin.core import FedkinError
from fedkin.core.progress import Progress
from fedkin.experiment import registry
from fedkin.experiment.config import Config
from fedkin.experiment.run_folder import is_finished

_TELLS = ("phase", "part", "step")


class Worker(AbstractContextManager["Worker"]):
    """A process that makes runs; it is started when first needed, and killed when a run's time is over.

    A context: it ends with it.

    Attributes
    ----------
    start : float
        Seconds that the process took to be ready, when it was last started.
    """

    def __init__(self) -> None:
        self.start = 0.0
        self._process: subprocess.Popen[bytes] | None = None
        self._read = b""

    def run(self, config: Config, folder: Path, seconds: float, most: float, progress: Progress) -> bool:
        """Begin a run or go on with it; whether it has come to its end.

        One that was stopped keeps its last step, from which it can go on.

        Parameters
        ----------
        config : Config
        folder : Path
            The run's.
        seconds : float
            How long it may take, once the process is ready for it.
        most : float
            How long it may take with the start of the process.
        progress : Progress
            Follows the run.

        Raises
        ------
        FedkinError
            If the method refuses the data or fails, or a file cannot be written.
        """
        if is_finished(folder):
            return True
        began, is_new = time.monotonic(), self._process is None
        end = began + most
        self._order(config, folder)
        try:
            while (words := self._next(end)) is not None:
                kind, *rest = words
                if kind == "ready":
                    end = min(end, time.monotonic() + seconds)
                    self.start = time.monotonic() - began if is_new else self.start
                elif kind in _TELLS:
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

    def stop(self) -> None:
        """Kill the process, if there is one."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process, self._read = None, b""

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _order(self, config: Config, folder: Path) -> None:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "fedkin.studies.compare.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        order = {
            "tables": config.tables,
            "folder": str(folder),
            "method": registry.target_of("method", config.method_name),
            "scenario": registry.target_of("scenario", config.tables["scenario"]["name"]),
        }
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()

    def _next(self, end: float) -> list[Any] | None:
        """The next message; ``None`` if there is none until `end`.

        Raises
        ------
        FedkinError
            If the process has ended.
        """
        assert self._process is not None
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._read:
                if not selector.select(max(0.0, end - time.monotonic())):
                    return None
                more = os.read(self._process.stdout.fileno(), 1 << 16)
                if not more:
                    code = self._process.wait()
                    self.stop()
                    raise FedkinError(f"its process ended with code {code}")
                self._read += more
        if time.monotonic() > end:
            return None
        text, _, self._read = self._read.partition(b"\n")
        message: list[Any] = json.loads(text)
        return message
