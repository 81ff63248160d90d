"""Verdicts on measured figures against the paper's: means and intervals over seeds, compared with both spreads."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Literal

from scipy.stats import t

from fedkin.core import FedkinError

PaperVerdict = Literal["", "within", "higher", "lower", "unsure", "near", "above", "below"]
SIGNS: dict[PaperVerdict, str] = {
    "within": "✓", "higher": "▲", "lower": "▼", "unsure": "?", "near": "≈", "above": "△", "below": "▽",
}  # fmt: skip
"""The sign of each verdict in text; pages have the same, with words in `fedkin.report.result_tables.MEANINGS`."""

CONFIDENCE = 0.95
_EQUAL = 1e-9
"""By how much figures differ at most that are equal but for arithmetic."""

_PRINTED = re.compile(r"(-?\d+(?:\.\d+)?)(?:\s*±\s*(\d+(?:\.\d+)?))?")


@dataclass(frozen=True)
class Figure:
    """Mean over seeds, with its confidence interval.

    `half` is that of the 95 % interval of the mean, by Student's t; ``None`` for a single seed, or where none was
    printed. `seeds` is the number of values that were averaged; 0 if unknown. `rounding` is the largest rounding error
    of a printed value; 0 for a measured one.
    """

    value: float
    half: float | None = None
    seeds: int = 0
    rounding: float = 0.0

    def shown(self, digits: int) -> str:
        """Format the figure for a table, such as ``"0.894 ± 0.031"``."""
        text = f"{self.value:.{digits}f}"
        return text if self.half is None else f"{text} ± {self.half:.{digits}f}"


def over_seeds(values: Sequence[float]) -> Figure | None:
    """Return the mean of values and its 95 % interval; ``None`` without values."""
    if not values:
        return None
    if len(values) == 1:
        return Figure(values[0], None, 1)
    half = float(t.ppf((1 + CONFIDENCE) / 2, len(values) - 1)) * stdev(values) / math.sqrt(len(values))
    return Figure(mean(values), half, len(values))


def printed(text: str) -> Figure | None:
    """Parse a figure as a paper prints it; ``None`` for an empty text or a dash.

    Raises FedkinError if it is neither a number nor a number with an interval.
    """
    if text.strip() in ("", "-", "–"):
        return None
    match = _PRINTED.fullmatch(text.strip())
    if not match:
        raise FedkinError(f"'{text}' is not a figure; it should be like '0.894', '0.894 ± 0.031' or ''.")
    places = len(match[1].partition(".")[2])
    return Figure(float(match[1]), None if match[2] is None else float(match[2]), rounding=0.5 * 10.0**-places)


def judged(ours: Figure | None, paper: Figure | None, tolerance: float) -> PaperVerdict:
    """Compare the measured figure with the paper's, and return the verdict.

    The paper's *spread* is its figure ± what it prints behind it, or ± `tolerance` where it prints nothing.

    The verdict is ``"higher"`` or ``"lower"`` if our whole interval lies on one side of the spread; ``"within"`` if our
    mean lies in the spread and our interval is no wider; else ``"unsure"``: our interval is too wide to tell. One seed
    has no interval and is compared loosely: ``"near"`` if it lies in the spread, else ``"above"`` or ``"below"``.
    Without one of both figures there is nothing to say: ``""``.
    """
    if ours is None or paper is None:
        return ""
    width = tolerance if paper.half is None else max(paper.half, paper.rounding)
    apart = ours.value - paper.value
    if ours.half is None:
        return "near" if abs(apart) <= width + _EQUAL else "above" if apart > 0 else "below"
    if abs(apart) > width + ours.half + _EQUAL:
        return "higher" if apart > 0 else "lower"
    return "within" if max(abs(apart), ours.half) <= width + _EQUAL else "unsure"


def is_better(verdict: PaperVerdict, ours: float, paper: float, better: str) -> bool | None:
    """Return whether the measured figure is better than the paper's; ``None`` where the verdict names no side.

    `better` is ``"higher"``, ``"lower"``, or ``"near:X"``: the better figure is the one that is nearer to X.
    """
    if verdict not in ("higher", "lower", "above", "below"):
        return None
    if better.startswith("near:"):
        goal = float(better.removeprefix("near:"))
        return abs(ours - goal) < abs(paper - goal)
    return (ours > paper) == (better == "higher")


def at_least(first: Figure, second: Figure, margin: float) -> bool | None:
    """Return whether one figure is at least another less a margin; ``None`` where the spread over seeds is too large.

    The half-width of the interval of a difference is the root of the sum of squares of both half-widths. A figure
    without an interval, a number or one seed, counts as exact.
    """
    half = math.hypot(first.half or 0.0, second.half or 0.0)
    ahead = first.value - second.value + margin
    if abs(ahead) >= half - _EQUAL:
        return ahead >= -_EQUAL
    return None
