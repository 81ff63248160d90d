"""The memory of a process and of everything it starts, and the end of what it leaves behind. Linux only."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from time import perf_counter, sleep

PROC = Path("/proc")


class ProcessTree:
    """A process and its descendants; one that was seen once belongs to the tree even after its parent is gone.

    Attributes
    ----------
    peak : int
        Most memory the tree held at any measurement, in bytes: the sum of proportional set sizes, in which a page
        that several processes share counts once.
    pause : float
        Seconds to wait until the next measurement, so that measuring takes at most two percent of one core.
    """

    def __init__(self, root: int, pause: float = 0.1) -> None:
        self.root = root
        self.peak = 0
        self.pause = pause
        self._least_pause = pause
        began = _stat(PROC / str(root))
        self._seen = {root: began[1]} if began else {}  # with when each began, since the system uses numbers again

    def measure(self) -> int:
        """Bytes held now."""
        start = perf_counter()
        held = sum(_proportional_size(pid) for pid in self.members())
        self.peak = max(self.peak, held)
        self.pause = max(self._least_pause, 50 * (perf_counter() - start))
        return held

    def members(self) -> list[int]:
        """Living processes of the tree."""
        alive = {int(path.name): fields for path in PROC.iterdir() if path.name.isdigit() if (fields := _stat(path))}
        self._seen = {pid: began for pid, began in self._seen.items() if pid in alive and alive[pid][1] == began}
        found = True
        while found:
            children = {pid: began for pid, (parent, began) in alive.items() if parent in self._seen}
            found = not children.keys() <= self._seen.keys()
            self._seen |= children
        return sorted(self._seen)

    def kill(self, patience: float = 5.0) -> int:
        """Give the tree `patience` seconds to end if its root has, then kill what is left; how many had to be."""
        deadline = perf_counter() + patience
        while (left := self.members()) and self.root not in left and perf_counter() < deadline:
            sleep(0.05)
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return len(left)


def _stat(process: Path) -> tuple[int, str] | None:
    """Parent and time of start; ``None`` for a process that has ended."""
    try:
        fields = (process / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else (int(fields[1]), fields[19])


def _proportional_size(pid: int) -> int:
    try:
        lines = (PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:  # it has just ended
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)
