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
from fedkin.studies.reproduce.entry import Figure, PaperClaim, Plan, PlannedCell, printed
from fedkin.studies.reproduce.measures import FinishedRun, measured

_EQUAL = 1e-9
"""By how much figures differ at most that are equal but for arithmetic."""
COUNTED: dict[str, tuple[CellVerdict, ...]] = {
    "within the spread": ("within",),
    "higher": ("higher",),
    "lower": ("lower",),
    "too few seeds to say": ("unsure",),
    "one seed": ("near", "above", "below"),
}
"""Verdicts that summaries count, by heading."""
OUR_LEGEND = "Mean over seeds ± half of its 95 % interval (Student's t)."
LEGEND = (
    "Ours is the mean over seeds ± half of its 95 % interval (Student's t), beside it what the paper prints. Ours is "
    "higher or lower if its whole interval lies on one side of the paper's spread, which is what it prints after ±, or "
    "the entry's tolerance; and within it if its mean is and its interval is no wider. Else there are too few seeds to "
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
    def differs(self) -> list[str]:
        """Deviations of the entry and its scale from the paper's set-up."""
        return [text for text in (self.plan.entry.differs, self.plan.scale.differs) if text]

    @property
    def held(self) -> str:
        """How many of the tested claims hold, and for how many there are too few seeds to say."""
        tested = [claim for claim in self.claims if claim.holds != "untested"]
        undecided = sum(claim.holds == "unsure" for claim in tested)
        text = f"{sum(claim.holds == 'holds' for claim in tested)} of {len(tested)}"
        return f"{text}, {undecided} open" if undecided else text

    def counts(self) -> dict[str, int]:
        """Count the cells by heading of `COUNTED`."""
        return {head: sum(result.verdict in verdicts for result in self.results) for head, verdicts in COUNTED.items()}

    def tree(self) -> dict[str, Any]:
        """Return the table as plain values."""
        entry = self.plan.entry
        return {
            "entry": self.plan.name, "scale": self.plan.scale_name, "title": entry.title, "source": entry.source,
            "differs": self.differs, "runs": self.runs, "finished": self.finished, "seconds": round(self.seconds, 1),
            "cells": [asdict(result) | {"verdict": MEANINGS.get(result.verdict, "")} for result in self.results],
            "claims": [asdict(claim) for claim in self.claims],
        }  # fmt: skip

    def rows(self) -> list[list[Any]]:
        """Return the cells as rows of a table of plain values, headings first."""
        rows: list[list[Any]] = [["row", "column", "measure", "value", "half", "seeds", "paper", "verdict"]]
        for result in self.results:
            ours, paper = result.ours or Figure(math.nan), result.paper and result.paper.shown(result.digits)
            figures = [result.measure, result.ours and ours.value, ours.half, ours.seeds, paper]
            rows.append([result.row, result.column, *figures, result.verdict])
        return rows

    def page(self) -> PageView:
        """Build the page."""
        plan, entry = self.plan, self.plan.entry
        beside = any(result.paper for result in self.results)
        place = f"{entry.source}, at scale {plan.scale_name}" if entry.source else f"Scale {plan.scale_name}"
        held = f"{self.held} claims hold." if self.claims else pluralize(len(self.results), "cell") + "."
        held = held if self.finished else "No run is finished yet."
        rows = [(row.name, [_cell(result) for result in self.results if result.row == row.name]) for row in plan.rows]
        columns, caption = [column.name for column in plan.columns], LEGEND if beside else OUR_LEGEND
        if entry.ranks:
            ranks, difference = ranked(self.results)
            columns.append("mean rank")
            rows = [(name, [*cells, TableCell(f"{ranks[name]:.2f}" if name in ranks else "–")]) for name, cells in rows]
            rows.sort(key=lambda row: ranks.get(row[0], math.inf))
            caption += " Ranks need two rows and columns without gaps." if difference is None else (
                f" Mean ranks nearer than {difference:.2f} do not differ significantly (Nemenyi, 5 %)."
            )  # fmt: skip
        table = ResultTable(entry.heading, caption, entry.axis, columns, rows)
        runs = pluralize(self.runs, "run")
        finished = runs if self.finished == self.runs else f"{self.finished} of {runs} finished"
        again = f"{finished}, {duration(self.seconds)} of one core." if self.finished else f"{finished}."
        command = f"fedkin reproduce {plan.request} --scale {plan.scale_name}"
        return PageView(
            title=entry.title,
            lead=f"{held}\n{place}. {entry.claim}".rstrip(),
            summary=[
                *([("Claims that hold", self.held, "of those checked on our figures")] if self.claims else []),
                *((head.capitalize(), str(n), "cells beside the paper's") for head, n in self.counts().items() if n),
            ],
            parts=[
                PagePart(
                    "table",
                    "Ours beside the paper's" if beside else "Results",
                    paragraphs=[f"Differs: {text}" for text in self.differs],
                    figures=[table],
                ),
                *(
                    [PagePart("claims", "Claims", notes=[claim.sentence for claim in self.claims])]
                    if self.claims
                    else []
                ),
                PagePart("again", "Again", paragraphs=[again], commands=[command]),
            ],
            settings={"run": entry.run, "scale": plan.scale.model_dump(exclude_none=True)},
        )


def summary(tables: Sequence[EntryTable]) -> PageView:
    """Build a page with a row for each entry, which links to the entry's own."""
    scale, rows = tables[0].plan.scale_name, []
    for table in tables:
        runs = [table.plan.entry.heading, f"{table.finished} of {table.runs}", duration(table.seconds)]
        texts = [*runs, *map(str, table.counts().values()), table.held]
        rows.append((table.plan.name, [TableCell(text) for text in texts]))
    heads = ["about", "runs", "core time", *COUNTED, "claims that hold"]
    links = {table.plan.name: f"{table.plan.name}/{scale}/report.html" for table in tables}
    figure = ResultTable("Entries", "Cells are counted by their verdict.", "entry", heads, rows, links)
    return PageView(f"Reproduced at scale {scale}", parts=[PagePart("entries", "Entries", figures=[figure])])


def table_of(plan: Plan, runs: Path) -> EntryTable:
    """Build the table of a plan from its finished runs, whose folders are in the folder `runs`."""
    names = plan.runs()
    finished = {name: FinishedRun(runs / name) for name in names if is_finished(runs / name)}
    results = {cell.name: _result(plan, cell, finished) for cell in plan.cells}
    claims = tuple(_checked(claim, results) for claim in plan.entry.claims)
    seconds = sum(line["seconds"] for run in finished.values() for line in run.timing)
    return EntryTable(plan, tuple(results.values()), claims, len(finished), len(names), seconds)


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
    holds: Literal["holds", "fails", "unsure"] = "holds"
    on_means = True
    for first, second in pairwise(figure for _, figure in chain):
        # The half-width of a difference is the root of the sum of squares; a number or one seed counts as exact.
        half = math.hypot(first.half or 0.0, second.half or 0.0)
        ahead = first.value - second.value + claim.margin
        on_means &= ahead >= 0
        if abs(ahead) < half - _EQUAL:
            holds = "unsure" if holds == "holds" else holds
        elif ahead < -_EQUAL:
            holds = "fails"
    return Checked(claim.text, holds, figures, on_means, any(figure.seeds == 1 for _, figure in chain))


def _cell(result: Result) -> TableCell:
    paper = "" if result.paper is None else result.paper.shown(result.digits)
    if result.ours is None:
        return TableCell("–", paper, tip="No run of this cell is finished, or none has this figure.")
    values = ", ".join(f"{value:.{result.digits}f}" for value in result.values)
    beside = f"; paper: {paper}" if paper else ""
    verdict = f"; {MEANINGS[result.verdict]}" if result.verdict else ""
    tip = f"{result.row}, {result.column}: {result.measure}, by seed {values}{beside}{verdict}"
    return TableCell(result.ours.shown(result.digits), paper, result.verdict, tip)
