"""Peak memory of this process, where the operating system counts it."""

from __future__ import annotations

from pathlib import Path

_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_FORGET_PEAK = "5"
_PEAK = "VmHWM:"


def forget_peak() -> None:
    """Reset the count of peak memory; without effect where the system does not allow it."""
    try:
        _RESET.write_text(_FORGET_PEAK, encoding="ascii")
    except OSError:  # not Linux, or not allowed
        return


def peak_memory() -> int | None:
    """Return the peak resident memory since `forget_peak`, in bytes; ``None`` where the system does not count it."""
    try:
        lines = _STATUS.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return None
    found = [line.split()[1] for line in lines if line.startswith(_PEAK)]
    return 1024 * int(found[0]) if found else None
