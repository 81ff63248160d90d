"""Worker processes that call functions one after another, and can be killed at any moment.

``python -m fedkin.studies.workers [THREADS]`` receives pickled calls on stdin and sends pickled messages to stdout:
``("ready", None)`` before a call, ``("warn", text)`` during it, and at the end ``("result", value)`` or ``("failed",
sentence)``. It is a command and no fork, so that a user's script needs no guard.
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
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from multiprocessing.connection import Connection
from typing import Any

from fedkin.core import FedkinError
from fedkin.core.errors import at_door, current_door
from fedkin.core.progress import Progress
from fedkin.experiment import registry
from fedkin.experiment.terminal import Quiet


class EndedError(FedkinError):
    """A worker's process was ended from outside."""


class Worker(AbstractContextManager["Worker"]):
    """Process that carries out one call at a time; it starts when first needed.

    By default it has as many `threads` as torch chooses. Warnings in `shown` are not repeated: runs on the same data
    give the same ones.
    """

    def __init__(self, threads: int | None = None, shown: set[str] | None = None) -> None:
        self._threads, self._shown = threads, set() if shown is None else shown
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False

    def call(self, function: Callable[..., Any], *arguments: Any, seconds: float = math.inf) -> Any:
        """Return what a function of `fedkin` returns, called with `arguments` and, last, a progress.

        Raises TimeoutError if it takes more than `seconds` once the process is ready, which is killed then; EndedError
        if the process ends from outside; and FedkinError if the function raises an error.
        """
        if self._closed:  # while another thread was about to call
            raise EndedError("its process was ended")
        messages = self._send(function, arguments)
        end = math.inf
        try:
            while messages.poll(None if end == math.inf else max(0.0, end - time.monotonic())):
                kind, value = pickle.loads(messages.recv_bytes())
                if kind == "result":
                    return value
                if kind == "failed":
                    raise FedkinError(value)
                if kind == "ready":
                    end = time.monotonic() + seconds
                elif value not in self._shown:
                    self._shown.add(value)
                    Quiet().warn(value)
            raise TimeoutError
        except (EOFError, ConnectionError) as error:
            self.stop()
            raise EndedError("its process ended") from error
        except FedkinError:
            raise
        except BaseException:
            self.stop()
            raise

    def _send(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Connection:
        """Send a call to the process, which starts unless there is one; return where its messages come from."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "fedkin.studies.workers", *([str(self._threads)] if self._threads else [])],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._calls = Connection(os.dup(self._process.stdin.fileno()), readable=False)
            self._messages = Connection(os.dup(self._process.stdout.fileno()), writable=False)
        # Not `send`, by which torch would share the memory of tensors, with its own children alone.
        self._calls.send_bytes(pickle.dumps((current_door(), function, arguments)))
        return self._messages

    def stop(self) -> None:
        """Kill the process, if there is one."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            self._calls.close()
            process.communicate()

    def __exit__(self, *_: object) -> None:
        self._closed = True
        self.stop()


def targets(tables: Mapping[str, Any]) -> dict[str, str]:
    """Return the classes of an experiment's method and scenario, which another process may not know by name."""
    return {
        "method": registry.target_of("method", tables["method"]["name"]),
        "scenario": registry.target_of("scenario", tables["simulation"]["scenario"]),
    }


def register(tables: Mapping[str, Any], classes: Mapping[str, str]) -> None:
    """Make the classes of `targets` known in this process."""
    registry.METHODS.setdefault(tables["method"]["name"], registry.RegistryEntry(classes["method"], ""))
    registry.SCENARIOS.setdefault(tables["simulation"]["scenario"], registry.RegistryEntry(classes["scenario"], ""))


class _SentWarnings(Progress):
    """Progress whose warnings are sent to the parent process."""

    def __init__(self, messages: Connection) -> None:
        self._messages = messages

    def warn(self, text: str) -> None:
        _send(self._messages, "warn", text)


def main() -> None:
    """Carry out calls from stdin until it closes, as when the parent is killed: then this process ends at once."""
    from fedkin.data.sources import keep_read
    from fedkin.engines.local import give_back_memory, keep_freed_memory

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which kills this process
    calls: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(Connection(os.dup(0), writable=False), calls), daemon=True).start()
    messages = Connection(os.dup(1), readable=False)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # what a method prints is no message
    if len(sys.argv) > 1:
        import torch

        os.environ["OMP_NUM_THREADS"] = sys.argv[1]
        torch.set_num_threads(int(sys.argv[1]))
    keep_read()
    keep_freed_memory()
    progress = _SentWarnings(messages)
    while True:
        door, function, arguments = calls.get()
        _send(messages, "ready", None)
        try:
            with at_door(door):
                outcome = ("result", function(*arguments, progress))
        except FedkinError as error:
            outcome = ("failed", str(error))
        except BrokenPipeError:
            raise
        except Exception as error:  # a method's own, on data it was not made for: it ends this run and no other
            traceback.print_exc()
            outcome = ("failed", f"it failed with {type(error).__name__}: {error}")
        _send(messages, *outcome)
        give_back_memory()


def _send(messages: Connection, kind: str, value: Any) -> None:
    messages.send_bytes(pickle.dumps((kind, value)))


def _receive(connection: Connection, calls: queue.SimpleQueue[Any]) -> None:
    try:
        while True:
            calls.put(pickle.loads(connection.recv_bytes()))
    except EOFError:
        pass
    except Exception:
        traceback.print_exc()
    finally:
        os._exit(1)


if __name__ == "__main__":
    main()
