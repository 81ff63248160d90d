"""Formatting of numbers for axes, sentences and tables to copy."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fedkin.report.figures import Unit

_BYTES = ["B", "kB", "MB", "GB", "TB", "PB"]
_EXACT = 1e15  # whole numbers below it are exact as floats


def finite(value: float | None) -> float | None:
    """Return `value` as a float, or ``None`` if it is missing, NaN or infinite."""
    return None if value is None or not math.isfinite(value) else float(value)


def shown(value: float | None, unit: Unit) -> str:
    """Format `value` with its unit for reading: ``'0.945'``, ``'12'``, ``'3.1 %'``, ``'4.23 MB'``."""
    number = finite(value)
    if number is None:
        return "–"
    if unit == "bytes":
        return format_bytes(number)
    if unit == "percent":
        return f"{number:.1f} %"
    if unit == "share":
        return f"{number:.3f}"
    if number.is_integer() and abs(number) < _EXACT:
        return f"{number:.0f}"
    return f"{number:.1f}" if unit == "count" else f"{number:.4g}"


def plain(value: float | None) -> str:
    """Format `value` for copying: digits only, an empty text if it is missing."""
    number = finite(value)
    if number is None:
        return ""
    return f"{number:.0f}" if number.is_integer() and abs(number) < _EXACT else f"{number:.6g}"


def format_bytes(count: float) -> str:
    """Format a byte count with three significant digits and its unit, such as ``'4.2 MB'``."""
    for unit in _BYTES[:-1]:
        if count < 999.5:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} {_BYTES[-1]}"


def pluralize(count: int, noun: str) -> str:
    """Return a count with its noun, such as ``'1 cluster'`` and ``'2,000 clusters'``."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{count:,} {noun if count == 1 else plural}"


def all_of(count: int, nouns: str) -> str:
    """Return "both" or "all 3" with the plural of a noun."""
    return f"both {nouns}" if count == 2 else f"all {count} {nouns}"


def join_words(names: Sequence[str], maximum: int | None = None) -> str:
    """Join names for a sentence: "a", "a and b", "a, b and c"; beyond `maximum`, "a, b and 3 more"."""
    if maximum is not None and len(names) > maximum:
        names = [*names[:maximum], f"{len(names) - maximum} more"]
    *first, last = names or [""]
    return f"{', '.join(first)} and {last}" if first else last


def nice_ticks(low: float, high: float, count: int = 5, whole: bool = False) -> list[float]:
    """Return about `count` round numbers that enclose [low, high]; integers only if `whole`."""
    if high <= low:
        low, high = (min(low, 0.0), max(high, 0.0)) if low else (0.0, 1.0)
    rough = (high - low) / max(count - 1, 1)
    base = 10.0 ** math.floor(math.log10(rough))
    step = next(base * factor for factor in (1, 2, 5, 10) if base * factor >= rough * (1 - 1e-9))
    step = max(step, 1.0) if whole else step
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [tick * step for tick in range(first, max(last, first + 1) + 1)]


def tick_labels(ticks: Sequence[float], unit: Unit) -> list[str]:
    """Return one label per tick, all with the same decimals and unit."""
    largest = max(abs(tick) for tick in ticks)
    thousands = int(math.log10(largest) / 3 + 1e-9) if unit == "bytes" and largest >= 1 else 0
    power = min(thousands, len(_BYTES) - 1)
    step = (ticks[1] - ticks[0]) / 1000**power
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    ending = {"bytes": f" {_BYTES[power]}", "percent": " %"}.get(unit, "")
    return [f"{tick / 1000**power:.{decimals}f}{ending}" for tick in ticks]
