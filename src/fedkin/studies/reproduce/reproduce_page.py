"""Pages and texts of one reproduction, and of many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from fedkin.report.charts import MIN_STEPS
from fedkin.report.figures import Curve, PagePart, PageView, ResultTable, TableCell
from fedkin.report.numbers import pluralize
from fedkin.report.tables import MEANINGS
from fedkin.studies.reproduce.entry import Figure
from fedkin.studies.reproduce.entry_table import SIGNS, Checked, EntryTable, PaperVerdict, Result
from fedkin.studies.time_budget import duration

COUNTED: dict[str, tuple[PaperVerdict, ...]] = {
    "within the spread": ("within",),
    "higher": ("higher",),
    "lower": ("lower",),
    "too few seeds to say": ("unsure",),
    "one seed": ("near", "above", "below"),
}
"""Verdicts that summaries count, by heading."""
SUMMARY_HEADS = ("entry", "about", "runs", "core time", *COUNTED, "claims that hold")
LEGEND = (
    "Ours is the mean over seeds ± half of its 95 % interval (Student's t), small below it what the paper prints. Ours "
    "is higher or lower if its whole interval lies on one side of the paper's spread, which is what it prints after ±, "
    "or the entry's tolerance; and within it if its mean is and its interval is no wider. Else there are too few seeds "
    "to say. One seed has no interval and is compared loosely."
)
OUR_LEGEND = "Mean over seeds ± half of its 95 % interval (Student's t)"


def text_parts(table: EntryTable) -> tuple[list[str], list[list[str]], list[str]]:
    """Return the plain text above the table, its rows, headings first, and the text below it."""
    plan = table.plan
    above = [f"{plan.name}: {plan.entry.title}", *(f"Differs: {text}" for text in table.differs)]
    heads = [plan.entry.axis, *(column.name for column in plan.columns)]
    rows = [[row.name, *map(_in_text, table.row(row.name))] for row in plan.rows]
    below = [*([f"{signs}."] if (signs := _signs(table)) else []), *map(claim_text, table.claims)]
    return above, [heads, *rows], [*below, f"{command(table)}; {runs_text(table)}"]


def markdown(table: EntryTable) -> str:
    """Write the table and the claims as Markdown."""
    (heading, *differs), rows, below = text_parts(table)
    lines = [f"## {heading}", *differs, "\n".join(markdown_rows(rows)), *below]
    return "\n\n".join(lines) + "\n"


def markdown_rows(rows: Sequence[Sequence[str]]) -> list[str]:
    """Format a Markdown table, its headings first, with pipes in its cells escaped."""
    head, *body = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return [head, "|---" * len(rows[0]) + "|", *body]


def _signs(table: EntryTable) -> str:
    """Explain the signs in the table's cells: how ours compare with the paper's; without any of a paper, what ± is."""
    if not table.beside_paper:
        with_interval = any(result.ours and result.ours.half is not None for result in table.results)
        return OUR_LEGEND if with_interval else ""
    used = [f"{sign} {MEANINGS[verdict]}" for verdict, sign in SIGNS.items() if table.counts()[verdict]]
    return f"Ours beside the paper's (in brackets): {', '.join(used)}" if used else ""


def command(table: EntryTable) -> str:
    """Return the command that makes the table."""
    return f"fedkin reproduce {table.plan.asked} --scale {table.plan.scale_name}"


def runs_text(table: EntryTable) -> str:
    """Describe how many runs are finished, and their time."""
    runs = pluralize(table.runs, "run")
    finished = runs if table.finished == table.runs else f"{table.finished} of {runs} finished"
    return f"{finished}, {duration(table.seconds)} of one core." if table.finished else f"{finished}."


def _in_text(result: Result) -> str:
    ours = "–" if result.ours is None else result.ours.shown(result.digits)
    paper = "" if result.paper is None else f" ({_of_paper(result)})"
    return f"{ours}{paper}{' ' + SIGNS[result.verdict] if result.verdict else ''}"


def _of_paper(result: Result) -> str:
    """Format the paper's figure, with at least as many digits as the measured one."""
    return "" if result.paper is None else result.paper.shown(result.digits)


def claim_text(claim: Checked) -> str:
    """Describe a claim, whether it holds and how certain that is, and its figures."""
    word = "Holds" if claim.on_means else "Does not hold"
    if claim.holds == "untested":
        word = "Not tested at this scale"
    elif claim.holds == "unsure":
        word += " on the means, too few seeds to say"
    elif claim.one_seed:
        word += " with one seed"
    figures = " ≥ ".join(f"{value:.3g}" + (f" ({name})" if name else "") for name, value in claim.figures)
    return f"{word}: {claim.text}" + (f": {figures}" if figures else "") + "."


def summary_rows(tables: Sequence[EntryTable]) -> list[list[str]]:
    """Return a summary row per entry, below `SUMMARY_HEADS`."""
    return [
        [
            table.plan.name,
            table.plan.entry.about,
            f"{table.finished} of {table.runs}",
            duration(table.seconds),
            *map(str, counted(table).values()),
            holding(table.claims),
        ]
        for table in tables
    ]


def holding(claims: Sequence[Checked]) -> str:
    """Describe how many of the tested claims hold, and for how many there are too few seeds to say."""
    tested = [claim for claim in claims if claim.holds != "untested"]
    undecided = sum(claim.holds == "unsure" for claim in tested)
    text = f"{sum(claim.holds == 'holds' for claim in tested)} of {len(tested)}"
    return f"{text}, {undecided} open" if undecided else text


def counted(table: EntryTable) -> dict[str, int]:
    """Count the cells by heading of the summary, each of which stands for some verdicts."""
    counts = table.counts()
    return {head: sum(counts[verdict] for verdict in verdicts) for head, verdicts in COUNTED.items()}


def page(table: EntryTable) -> PageView:
    """Build the page of one entry."""
    plan, beside = table.plan, table.beside_paper
    entry = plan.entry
    place = f"{entry.source}, at scale {plan.scale_name}" if entry.source else f"Scale {plan.scale_name}"
    held = f"{holding(table.claims)} claims hold." if table.finished else "No run is finished yet."
    rows = [(row.name, [_cell(result) for result in table.row(row.name)]) for row in plan.rows]
    columns = [column.name for column in plan.columns]
    results = ResultTable(entry.about, LEGEND if beside else f"{OUR_LEGEND}.", entry.axis, columns, rows)
    title = "Ours beside the paper's" if beside else "Results"
    differs = [f"Differs: {text}" for text in table.differs]
    claims = list(map(claim_text, table.claims))
    return PageView(
        title=entry.title,
        lead=f"{held}\n{place}. {entry.claim}".rstrip(),
        summary=[
            ("Claims that hold", holding(table.claims), "of those checked on our figures"),
            *((head.capitalize(), str(n), "cells beside the paper's") for head, n in counted(table).items() if n),
        ],
        parts=[
            PagePart("table", title, paragraphs=differs, figures=[results]),
            *([PagePart("curves", "As curves", figures=curves)] if (curves := _curves(table)) else []),
            *([PagePart("claims", "Claims", notes=claims)] if claims else []),
            PagePart("again", "Again", paragraphs=[runs_text(table)], commands=[command(table)]),
        ],
        settings={"run": entry.run, "scale": plan.scale.model_dump(exclude_none=True)},
    )


def _cell(result: Result) -> TableCell:
    if result.ours is None:
        return TableCell("–", _of_paper(result), tip="No run of this cell is finished, or none has this figure.")
    values = ", ".join(f"{value:.{result.digits}f}" for value in result.values)
    paper = f"; paper: {_of_paper(result)}" if result.paper else ""
    verdict = f"; {MEANINGS[result.verdict]}" if result.verdict else ""
    tip = f"{result.row}, {result.column}: {result.measure}, by seed {values}{paper}{verdict}"
    return TableCell(result.ours.shown(result.digits), _of_paper(result), result.verdict, tip)


def _curves(table: EntryTable) -> list[Curve]:
    """Return a chart of the rows over the columns' positions, if there are enough columns."""
    places = {column.name: column.at for column in table.plan.columns if column.at is not None}
    if len(places) < MIN_STEPS:
        return []
    columns = sorted(places, key=places.__getitem__)

    def figures(row: str, whose: Literal["ours", "paper"]) -> list[Figure | None]:
        by_column = {result.column: result for result in table.row(row)}
        return [getattr(by_column[name], whose) for name in columns]

    def values(row: str, whose: Literal["ours", "paper"]) -> list[float | None]:
        return [None if figure is None else figure.value for figure in figures(row, whose)]

    rows = [row.name for row in table.plan.rows]
    curve = Curve(
        table.plan.entry.title,
        "Means over seeds with their 95 % intervals; thin, what the paper prints.",
        [places[name] for name in columns],
        {name: values(name, "ours") for name in rows},
        x_label=table.plan.entry.axis,
        intervals={
            name: [None if figure is None else figure.interval for figure in figures(name, "ours")] for name in rows
        },
        reference={row.name: values(row.name, "paper") for row in table.plan.rows if any(row.paper)},
    )
    return [curve]
