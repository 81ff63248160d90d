"""A process that makes runs, one after another: ``python -m fedkin.studies.compare.worker``.

It reads an order per line on stdin, JSON as `fedkin.studies.compare.worker_process` writes it, and tells on stdout what happens, a
JSON list per line: ``["ready"]`` when it can begin, the name of a `fedkin.core.progress.Progress` method with its arguments, and
at the end ``["done"]``, ``["refused", sentence]`` or ``["failed", what]``. A process of its own can be killed at any
moment, in the middle of an import or of one long step.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any, TextIO

from fedkin.core import FedkinError
from fedkin.core.progress import Progress, RecordLine, Timing
from fedkin.experiment import registry
from fedkin.experiment.config import config_of
from fedkin.experiment.run import execute, resume
from fedkin.experiment.run_folder import CONFIG


class Wired(Progress):
    """Passes on what a run tells; ends the run, by an error, when nobody listens any more.

    Parameters
    ----------
    wire : file
        Open for text.
    """

    def __init__(self, wire: TextIO) -> None:
        self._wire = wire

    def tell(self, *words: Any) -> None:
        """Write one line."""
        self._wire.write(json.dumps(words) + "\n")
        self._wire.flush()

    def phase(self, text: str) -> None:
        self.tell("phase", text)

    def part(self, done: int, total: int) -> None:
        self.tell("part", done, total)

    def step(self, line: RecordLine, timing: Timing) -> None:
        self.tell("step", line, timing)


def main() -> None:
    """Do orders until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for who gives orders, and kills this process
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as wire:
        os.dup2(2, 1)  # what a method prints is no message
        for order in sys.stdin:
            progress = Wired(wire)
            progress.tell("ready")
            progress.tell(*_outcome(json.loads(order), progress))


def _outcome(order: dict[str, Any], progress: Progress) -> tuple[str, ...]:
    """Do one order."""
    registry.METHODS.setdefault(order["tables"]["method"]["name"], registry.RegistryEntry(order["method"], ""))
    registry.SCENARIOS.setdefault(order["tables"]["scenario"]["name"], registry.RegistryEntry(order["scenario"], ""))
    folder = Path(order["folder"])
    try:
        if (folder / CONFIG).exists():
            resume(folder, progress)
        else:
            execute(config_of(order["tables"]), folder, progress)
    except FedkinError as error:
        return "refused", str(error)
    except BrokenPipeError:
        raise
    except Exception as error:  # a method's own, on data it was not made for: one line of a table, not its end
        traceback.print_exc()
        return "failed", f"{type(error).__name__}: {error}"
    return ("done",)


if __name__ == "__main__":
    main()
