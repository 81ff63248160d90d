"""Table of an entry: measured figures beside the paper's, and checked claims."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from statistics import mean, stdev
from typing import Any, Literal

from scipy.stats import t

from fedkin.core.errors import hint, listing, nearest
from fedkin.experiment.run_folder import is_finished
from fedkin.report.tables import MEANINGS
from fedkin.studies.reproduce.entry import Figure, PaperClaim, Plan, PlannedCell, printed
from fedkin.studies.reproduce.measures import COSTS, FinishedRun, measured, number_of

PaperVerdict = Literal["", "within", "higher", "lower", "unsure", "near", "above", "below"]
SIGNS: dict[PaperVerdict, str] = {
    "within": "✓", "higher": "▲", "lower": "▼", "unsure": "?", "near": "≈", "above": "△", "below": "▽",
}  # fmt: skip
"""The sign of each verdict in text; pages have the same, with words in `fedkin.report.tables.MEANINGS`."""
_EQUAL = 1e-9
"""By how much figures differ at most that are equal but for arithmetic."""


def over_seeds(values: Sequence[float]) -> Figure | None:
    """Return the mean of values and its 95 % interval; ``None`` without values."""
    if not values:
        return None
    if len(values) == 1:
        return Figure(values[0], None, 1)
    half = float(t.ppf(0.975, len(values) - 1)) * stdev(values) / math.sqrt(len(values))
    return Figure(mean(values), half, len(values))


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


def at_least(first: Figure, second: Figure, margin: float) -> bool | None:
    """Return whether one figure is at least another less a margin; ``None`` where the spread over seeds is too large.

    The half-width of the interval of a difference is the root of the sum of squares of both half-widths. A figure
    without an interval, a number or one seed, counts as exact.
    """
    half = math.hypot(first.half or 0.0, second.half or 0.0)
    ahead = first.value - second.value + margin
    return ahead >= -_EQUAL if abs(ahead) >= half - _EQUAL else None


@dataclass(frozen=True)
class Result:
    """Cell of a reproduced table: the measured figure, the paper's, and the verdict.

    Figures are in the paper's unit; ``None`` where it has none, or no run is finished. `values` are measured by seed,
    in the order of the scale's, without unfinished runs.
    """

    row: str
    column: str
    measure: str
    ours: Figure | None
    paper: Figure | None
    digits: int
    verdict: PaperVerdict
    values: tuple[float, ...]


@dataclass(frozen=True)
class Checked:
    """Claim of a paper with the result of its check.

    `holds` is ``"unsure"`` where a link of the chain is closer than the spread over seeds tells, ``"untested"`` where
    there are not two figures. `figures` are the known ones of the claim's chain, with the names of their cells; numbers
    have an empty name. `on_means` says whether the claim holds for the means, regardless of the spread; `one_seed`
    whether a figure is from one seed, and so without an interval.
    """

    text: str
    holds: Literal["holds", "fails", "unsure", "untested"]
    figures: tuple[tuple[str, float], ...]
    on_means: bool = False
    one_seed: bool = False


@dataclass(frozen=True)
class EntryTable:
    """Reproduced table of an entry at a scale, row by row; `seconds` is the time of the finished runs in sum.

    `absent` are sentences on numbers that no record has, as where a measure is mistyped.
    """

    plan: Plan
    results: tuple[Result, ...]
    claims: tuple[Checked, ...]
    finished: int
    runs: int
    seconds: float
    absent: tuple[str, ...] = ()

    @property
    def beside_paper(self) -> bool:
        """Whether any cell has a figure of a paper."""
        return any(result.paper for result in self.results)

    @property
    def differs(self) -> list[str]:
        """Deviations of the entry and its scale from the paper's set-up."""
        return [text for text in (self.plan.entry.differs, self.plan.scale.differs) if text]

    def row(self, name: str) -> list[Result]:
        """Return the cells of a row."""
        return [result for result in self.results if result.row == name]

    def counts(self) -> dict[PaperVerdict, int]:
        """Count the cells by verdict."""
        return {name: sum(result.verdict == name for result in self.results) for name in SIGNS}

    def tree(self) -> dict[str, Any]:
        """Return the table as plain values."""
        entry = self.plan.entry
        return {
            "entry": self.plan.name,
            "scale": self.plan.scale_name,
            "title": entry.title,
            "source": entry.source,
            "differs": self.differs,
            "runs": self.runs,
            "finished": self.finished,
            "seconds": round(self.seconds, 1),
            "cells": [
                asdict(result) | {"verdict": MEANINGS[result.verdict] if result.verdict else ""}
                for result in self.results
            ],
            "claims": [asdict(claim) for claim in self.claims],
        }


def table_of(plan: Plan, runs: Path) -> EntryTable:
    """Build the table of a plan from its finished runs, whose folders are in the folder `runs`."""
    names = plan.runs()
    finished = {name: FinishedRun(runs / name) for name in names if is_finished(runs / name)}
    results = tuple(_result(plan, cell, finished) for cell in plan.cells)
    by_name = {cell.name: result for cell, result in zip(plan.cells, results, strict=True)}
    claims = tuple(_checked(claim, by_name) for claim in plan.entry.claims)
    seconds = sum(line["seconds"] for run in finished.values() for line in run.timing)
    return EntryTable(plan, results, claims, len(finished), len(names), seconds, _absent(plan, finished))


def _absent(plan: Plan, finished: Mapping[str, FinishedRun]) -> tuple[str, ...]:
    """Return a sentence, with the nearest name, for each number that all its runs are finished without."""
    names: dict[str, set[str]] = {}
    for cell in plan.cells:
        if number := number_of(cell.measure):
            names.setdefault(number, set()).update(run.name for run in cell.runs)
    sentences = []
    for number, all_runs in names.items():
        runs = [finished[name] for name in sorted(all_runs) if name in finished]
        if len(runs) == len(all_runs) and all(value is None for run in runs for value in run.values(number)):
            measured_names = sorted({name for run in runs for name in run.names} | set(COSTS))
            near = hint(nearest(number, measured_names), f"they have {listing(measured_names)}")
            sentences.append(f"The records of {plan.asked}'s runs have no number '{number}'; {near}")
    return tuple(sentences)


def _result(plan: Plan, cell: PlannedCell, finished: Mapping[str, FinishedRun]) -> Result:
    row, column, entry = cell.row, cell.column, plan.entry

    def setting(name: str) -> Any:
        """Return the setting of the column, else of the row, else of the entry."""
        values = (getattr(line, name) for line in (column, row, entry))
        return next(value for value in values if value is not None)

    by_seed = [measured(finished[run.name], cell.measure) for run in cell.runs if run.name in finished]
    values = tuple(setting("factor") * value for value in by_seed if value is not None)
    place = [line.name for line in entry.columns].index(column.name)
    ours, paper = over_seeds(values), printed(row.paper[place]) if row.paper else None
    verdict = judged(ours, paper, setting("tolerance"))
    return Result(row.name, column.name, cell.measure, ours, paper, setting("digits"), verdict, values)


def _checked(claim: PaperClaim, results: Mapping[str, Result]) -> Checked:
    """Check a claim against the measured figures, ignoring cells that a scale leaves out."""
    chain: list[tuple[str, Figure]] = []
    is_known = True
    for link in claim.chain:
        if not isinstance(link, str):
            chain.append(("", Figure(float(link))))
        elif link in results:
            ours = results[link].ours
            is_known &= ours is not None
            chain += [] if ours is None else [(link, ours)]
    figures = tuple((name, figure.value) for name, figure in chain)
    if len(chain) < 2 or not is_known:
        return Checked(claim.text, "untested", figures)
    links = list(pairwise(figure for _, figure in chain))
    steps = [at_least(first, second, claim.margin) for first, second in links]
    holds: Literal["holds", "fails", "unsure"] = "fails" if False in steps else "unsure" if None in steps else "holds"
    on_means = all(first.value >= second.value - claim.margin for first, second in links)
    return Checked(claim.text, holds, figures, on_means, any(figure.seeds == 1 for _, figure in chain))
