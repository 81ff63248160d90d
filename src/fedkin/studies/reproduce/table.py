"""Table of an entry: measured figures beside the paper's, checked claims, and the page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from statistics import mean, stdev
from typing import Any, Literal

import pandas as pd
from scipy.stats import studentized_range, t

from fedkin.experiment.run_folder import is_finished
from fedkin.report.figures import CellVerdict, PagePart, PageView, ResultTable, TableCell
from fedkin.report.numbers import pluralize
from fedkin.report.tables import MEANINGS
from fedkin.studies.pages import duration
from fedkin.studies.reproduce.entry import Cell, Figure, PaperClaim, Plan, PlannedRun, printed
from fedkin.studies.reproduce.measures import FinishedRun, measured

_EQUAL = 1e-9  # by how much figures differ at most that are equal but for arithmetic
COUNTED: dict[str, tuple[CellVerdict, ...]] = {
    "within the spread": ("within",),
    "higher": ("higher",),
    "lower": ("lower",),
    "too few seeds to say": ("unsure",),
    "one seed": ("near", "above", "below"),
}
"""Verdicts that summaries count, by heading."""
LEGEND = (
    "Mean over seeds ± half of its 95 % interval (Student's t), beside it what the paper prints. Ours is higher or "
    "lower if its whole interval lies on one side of the paper's spread, which is what it prints after ±, or the "
    "entry's tolerance; and within it if its mean is and its interval is no wider. Else there are too few seeds to "
    "say. One seed has no interval and is compared loosely."
)


def over_seeds(values: Sequence[float]) -> Figure | None:
    """Return the mean of values and its 95 % interval; ``None`` without values."""
    if not values:
        return None
    if len(values) == 1:
        return Figure(values[0], None, 1)
    half = float(t.ppf(0.975, len(values) - 1)) * stdev(values) / math.sqrt(len(values))
    return Figure(mean(values), half, len(values))


def judged(ours: Figure | None, paper: Figure | None, tolerance: float) -> CellVerdict:
    """Compare the measured figure with the paper's, and return the verdict; ``""`` without one of both.

    The paper's *spread* is its figure ± what it prints behind it, or ± `tolerance` where it prints nothing. The verdict
    is ``"higher"`` or ``"lower"`` if our whole interval lies on one side of the spread; ``"within"`` if our mean lies
    in the spread and our interval is no wider; else ``"unsure"``. One seed has no interval and is compared loosely:
    ``"near"`` if it lies in the spread, else ``"above"`` or ``"below"``.
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
    verdict: CellVerdict
    values: tuple[float, ...]

    def cell(self) -> TableCell:
        """Return it as a page shows it."""
        paper = "" if self.paper is None else self.paper.shown(self.digits)
        if self.ours is None:
            return TableCell("–", paper, tip="No run of this cell is finished, or none has this figure.")
        values = ", ".join(f"{value:.{self.digits}f}" for value in self.values)
        tip = f"{self.row}, {self.column}: {self.measure}, by seed {values}"
        return TableCell(self.ours.shown(self.digits), paper, self.verdict, tip)


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

    @property
    def sentence(self) -> str:
        """The claim, whether it holds and how certain that is, and its figures."""
        word = "Holds" if self.on_means else "Does not hold"
        if self.holds == "untested":
            word = "Not tested at this scale"
        elif self.holds == "unsure":
            word += " on the means, too few seeds to say"
        elif self.one_seed:
            word += " with one seed"
        figures = " ≥ ".join(f"{value:.3g}" + (f" ({name})" if name else "") for name, value in self.figures)
        return f"{word}: {self.text}" + (f": {figures}" if figures else "") + "."


def ranked(results: Sequence[Result]) -> tuple[dict[str, float], float | None]:
    """Rank rows by their means, column by column; more is better (Demšar 2006).

    Returns mean ranks of the rows that have all columns, and Nemenyi's critical difference at 5 %: mean ranks that are
    nearer do not differ significantly; ``None`` with fewer than two rows or columns. Seeds of one column are not
    independent, so each column counts once.
    """
    means = {(result.column, result.row): result.ours.value for result in results if result.ours}
    if not means:
        return {}, None
    table = pd.Series(means).unstack().dropna(axis=1)
    columns, rows = table.shape
    ranks = {str(row): float(rank) for row, rank in table.rank(axis=1, ascending=False).mean().items()}
    if min(rows, columns) < 2:
        return ranks, None
    q = float(studentized_range.ppf(0.95, rows, math.inf)) / math.sqrt(2)
    return ranks, q * math.sqrt(rows * (rows + 1) / (6 * columns))


@dataclass(frozen=True)
class EntryTable:
    """Reproduced table of an entry at a scale, row by row; `seconds` is the time of the finished runs in sum."""

    plan: Plan
    results: tuple[Result, ...]
    claims: tuple[Checked, ...]
    finished: int
    runs: int
    seconds: float

    @property
    def held(self) -> str:
        """How many of the tested claims hold, and for how many there are too few seeds to say."""
        tested = [claim.holds for claim in self.claims if claim.holds != "untested"]
        undecided = f", {tested.count('unsure')} open" if "unsure" in tested else ""
        return f"{tested.count('holds')} of {len(tested)}{undecided}"

    def counts(self) -> dict[str, int]:
        """Count the cells by heading of `COUNTED`."""
        return {head: sum(result.verdict in verdicts for result in self.results) for head, verdicts in COUNTED.items()}

    def tree(self) -> dict[str, Any]:
        """Return the table as plain values."""
        entry, scale = self.plan.entry, self.plan.scale
        return {
            "entry": self.plan.name, "scale": self.plan.scale_name, "title": entry.title, "source": entry.source,
            "differs": [text for text in (entry.differs, scale.differs) if text], "runs": self.runs,
            "finished": self.finished, "seconds": round(self.seconds, 1),
            "cells": [asdict(result) | {"verdict": MEANINGS.get(result.verdict, "")} for result in self.results],
            "claims": [asdict(claim) for claim in self.claims],
        }  # fmt: skip

    def page(self) -> PageView:
        """Build the page."""
        plan, entry = self.plan, self.plan.entry
        rows: dict[str, list[TableCell]] = {}
        for result in self.results:
            rows.setdefault(result.row, []).append(result.cell())
        columns, caption = list(dict.fromkeys(result.column for result in self.results)), LEGEND
        if entry.ranks:
            ranks, difference = ranked(self.results)
            columns.append("mean rank")
            for name in rows:
                rows[name].append(TableCell(f"{ranks[name]:.2f}" if name in ranks else "–"))
            rows = dict(sorted(rows.items(), key=lambda row: ranks.get(row[0], math.inf)))
            if difference is not None:
                caption += f" Mean ranks nearer than {difference:.2f} do not differ significantly (Nemenyi, 5 %)."
        table = ResultTable(entry.heading, caption, entry.axis, columns, list(rows.items()))
        facts = {"claims that hold": self.held if self.claims else "", "cells": str(len(self.results)), **self.counts()}
        counted = "; ".join(f"{head}: {fact}" for head, fact in facts.items() if fact)
        lines = [f"{counted[0].upper()}{counted[1:]}." if self.finished else "No run is finished yet.", entry.claim]
        finished = f"{self.finished} of {pluralize(self.runs, 'run')} finished, {duration(self.seconds)} of one core."
        command = f"fedkin reproduce {plan.request} --scale {plan.scale_name}"
        differs = [f"Differs: {text}" for text in self.tree()["differs"]]
        parts = [
            PagePart("table", "Ours beside the paper's", paragraphs=differs, figures=[table]),
            PagePart("claims", "Claims", notes=[claim.sentence for claim in self.claims]),
            PagePart("again", "Again", paragraphs=[finished], commands=[command]),
        ]
        return PageView(
            title=entry.title,
            lead="\n".join(filter(None, lines)),
            parts=[part for part in parts if part.figures or part.notes or part.commands],
            settings={"run": entry.run, "scale": plan.scale.model_dump(exclude_none=True)},
        )


def table_of(plan: Plan, runs: Path) -> EntryTable:
    """Build the table of a plan from its finished runs, whose folders are in the folder `runs`."""
    names = plan.runs()
    finished = {name: FinishedRun(runs / name) for name in names if is_finished(runs / name)}
    results = {cell.name: _result(plan, cell, planned, finished) for cell, planned in plan.cells.items()}
    claims = tuple(_checked(claim, results) for claim in plan.entry.claims)
    seconds = sum(line["seconds"] for run in finished.values() for line in run.timing)
    return EntryTable(plan, tuple(results.values()), claims, len(finished), len(names), seconds)


def _result(plan: Plan, cell: Cell, planned: Sequence[PlannedRun], finished: Mapping[str, FinishedRun]) -> Result:
    row, column, entry = cell.row, cell.column, plan.entry

    def setting(name: str) -> Any:
        """Return the setting of the column, else of the row, else of the entry."""
        return next(value for line in (column, row, entry) if (value := getattr(line, name)) is not None)

    by_seed = [measured(finished[run.name], cell.measure) for run in planned if run.name in finished]
    values = tuple(setting("factor") * value for value in by_seed if value is not None)
    place = [line.name for line in entry.columns].index(column.name)
    ours, paper = over_seeds(values), printed(row.paper[place]) if row.paper else None
    verdict = judged(ours, paper, setting("tolerance"))
    return Result(row.name, column.name, cell.measure, ours, paper, setting("digits"), verdict, values)


def _checked(claim: PaperClaim, results: Mapping[str, Result]) -> Checked:
    """Check a claim against the measured figures, ignoring cells that a scale leaves out."""
    chain = [
        (link, results[link].ours) if isinstance(link, str) else ("", Figure(float(link)))
        for link in claim.chain
        if not isinstance(link, str) or link in results
    ]
    measured_links = [(name, figure) for name, figure in chain if figure is not None]
    figures = tuple((name, figure.value) for name, figure in measured_links)
    if len(measured_links) < max(2, len(chain)):
        return Checked(claim.text, "untested", figures)
    holds: Literal["holds", "fails", "unsure"] = "holds"
    on_means = True
    for first, second in pairwise(figure for _, figure in measured_links):
        # The half-width of a difference is the root of the sum of squares; a number or one seed counts as exact.
        half = math.hypot(first.half or 0.0, second.half or 0.0)
        ahead = first.value - second.value + claim.margin
        on_means &= ahead >= 0
        if abs(ahead) < half - _EQUAL:
            holds = "unsure" if holds == "holds" else holds
        elif ahead < -_EQUAL:
            holds = "fails"
    return Checked(claim.text, holds, figures, on_means, any(figure.seeds == 1 for _, figure in measured_links))
