"""Our figures beside the paper's: means and intervals over seeds, and a verdict."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Literal

from scipy.stats import t

from fedkin.core import FedkinError

PaperVerdict = Literal["", "inside", "better", "worse"]

CONFIDENCE = 0.95

_PRINTED = re.compile(r"(-?\d+(?:\.\d+)?)(?:\s*±\s*(\d+(?:\.\d+)?))?")


@dataclass(frozen=True)
class Figure:
    """A mean over seeds.

    Attributes
    ----------
    value : float
    half : float or None
        Half of the 95 % interval of the mean, by Student's t; ``None`` for a single seed, or where none was printed.
    seeds : int
        How many values it is the mean of; 0 where it is not known.
    """

    value: float
    half: float | None = None
    seeds: int = 0

    def shown(self, digits: int) -> str:
        """As in a table, such as ``"0.894 ± 0.031"``."""
        text = f"{self.value:.{digits}f}"
        return text if self.half is None else f"{text} ± {self.half:.{digits}f}"


def over_seeds(values: Sequence[float]) -> Figure | None:
    """Mean and interval; ``None`` of nothing."""
    if not values:
        return None
    if len(values) == 1:
        return Figure(values[0], None, 1)
    half = float(t.ppf((1 + CONFIDENCE) / 2, len(values) - 1)) * stdev(values) / math.sqrt(len(values))
    return Figure(mean(values), half, len(values))


def printed(text: str) -> Figure | None:
    """A figure as a paper prints it; ``None`` for an empty one or a dash.

    Raises
    ------
    FedkinError
        If it is neither a number nor a number with an interval.
    """
    if text.strip() in ("", "-", "–"):
        return None
    match = _PRINTED.fullmatch(text.strip())
    if not match:
        raise FedkinError(f"'{text}' is not a figure; it should be like '0.894', '0.894 ± 0.031' or ''.")
    return Figure(float(match[1]), None if match[2] is None else float(match[2]))


def judged(ours: Figure | None, paper: Figure | None, better: str, tolerance: float) -> PaperVerdict:
    """Whether our mean lies in the paper's interval, or on which side of it.

    Parameters
    ----------
    ours, paper : Figure or None
        Without one of them there is nothing to say.
    better : str
        ``"higher"``, ``"lower"``, or ``"near:X"``: the better figure is the one that is nearer to X.
    tolerance : float
        Half of the paper's interval where it prints none.
    """
    if ours is None or paper is None:
        return ""
    half = tolerance if paper.half is None else paper.half
    if abs(ours.value - paper.value) <= half + 1e-12:
        return "inside"
    if better.startswith("near:"):
        goal = float(better.removeprefix("near:"))
        return "better" if abs(ours.value - goal) < abs(paper.value - goal) else "worse"
    return "better" if (ours.value > paper.value) == (better == "higher") else "worse"
