"""Pages of one reproduction, and of many."""

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
OWN_LEGEND = "Mean over seeds ± half of its 95 % interval (Student's t)"
SUMMARY_HEADS = ("entry", "about", "runs", "core time", *COUNTED, "claims that hold")


def markdown(table: EntryTable) -> str:
    """Write the table and the claims as Markdown."""
    plan = table.plan
    rows = [[row.name, *map(_in_text, table.row(row.name))] for row in plan.rows]
    lines = [
        f"## {heading(table)}",
        "",
        *(f"*Differs:* {text}\n" for text in table.differs),
        *_table([plan.entry.axis, *(column.name for column in plan.columns)], rows),
        "",
        *([f"{signs}.", ""] if (signs := _signs(table)) else []),
        *(f"* {claim_text(claim)}" for claim in table.claims),
        "",
        f"`{command(table)}`; {runs_text(table)}",
    ]
    return "\n".join(lines) + "\n"


def text_parts(table: EntryTable) -> tuple[list[str], list[str], list[list[str]], list[str]]:
    """Return the plain text above the table, its headings, its rows, and the text below it."""
    plan = table.plan
    above = [heading(table), *(f"Differs: {text}" for text in table.differs)]
    heads = [plan.entry.axis, *(column.name for column in plan.columns)]
    rows = [[row.name, *map(_in_text, table.row(row.name))] for row in plan.rows]
    below = [*([f"{signs}."] if (signs := _signs(table)) else []), *plain_claims(table)]
    return above, heads, rows, [*below, f"{command(table)}; {runs_text(table)}"]


def _signs(table: EntryTable) -> str:
    """Explain the signs in the table's cells: how ours compare with the paper's; without any of a paper, what ± is."""
    if not table.beside_paper:
        with_interval = any(result.ours and result.ours.half is not None for result in table.results)
        return OWN_LEGEND if with_interval else ""
    used = [f"{sign} {MEANINGS[verdict]}" for verdict, sign in SIGNS.items() if table.counts()[verdict]]
    return f"Ours beside the paper's (in brackets): {', '.join(used)}" if used else ""


def heading(table: EntryTable) -> str:
    """Return the heading of a table: its paper, number and subject."""
    return f"{table.plan.name}: {table.plan.entry.title}"


def command(table: EntryTable) -> str:
    """Return the command that makes the table."""
    return f"fedkin reproduce {table.plan.asked} --scale {table.plan.scale_name}"


def runs_text(table: EntryTable) -> str:
    """Describe how many runs are finished, and their time."""
    count = len(table.plan.jobs)
    runs = pluralize(count, "run")
    done = runs if table.finished == count else f"{table.finished} of {runs} finished"
    return f"{done}, {duration(table.seconds)} of one core." if table.finished else f"{done}."


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Format a Markdown table, with pipes in its cells escaped."""
    head, *body = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in (heads, *rows)]
    return [head, "|---" * len(heads) + "|", *body]


def _in_text(result: Result) -> str:
    ours = "–" if result.ours is None else result.ours.shown(result.digits)
    paper = "" if result.paper is None else f" ({of_paper(result)})"
    return f"{ours}{paper}{' ' + SIGNS[result.verdict] if result.verdict else ''}"


def of_paper(result: Result) -> str:
    """Format the paper's figure, with at least as many digits as the measured one."""
    return "" if result.paper is None else result.paper.shown(result.digits)


def claim_text(claim: Checked) -> str:
    """Describe a claim, whether it holds, and its figures."""
    figures = " ≥ ".join(f"{value:.3g}" + (f" ({name})" if name else "") for name, value in claim.figures)
    return f"{_holds(claim)}: {claim.text}" + (f": {figures}" if figures else "") + "."


def plain_claims(table: EntryTable) -> list[str]:
    """Describe the claims as `claim_text` does, without Markdown's bold marks."""
    return [claim_text(claim).replace("**", "") for claim in table.claims]


def _holds(claim: Checked) -> str:
    """Describe whether a claim holds, and how certain that is."""
    if claim.holds == "untested":
        return "Not tested at this scale"
    word = "Holds" if claim.on_means else "**Does not hold**"
    if claim.holds == "unsure":
        return f"{word} on the means, too few seeds to say"
    return f"{word} with one seed" if claim.one_seed else word


def summary(tables: Sequence[EntryTable]) -> str:
    """Write the summary of entries as a Markdown table, a row each."""
    return "\n".join(_table(SUMMARY_HEADS, summary_rows(tables))) + "\n"


def summary_rows(tables: Sequence[EntryTable]) -> list[list[str]]:
    """Return a summary row per entry, below `SUMMARY_HEADS`."""
    rows = []
    for table in tables:
        verdicts = map(str, counted(table).values())
        done = f"{table.finished} of {len(table.plan.jobs)}"
        rows.append(
            [table.plan.name, table.plan.entry.about, done, duration(table.seconds), *verdicts, holding(table.claims)]
        )
    return rows


def holding(claims: Sequence[Checked]) -> str:
    """Describe how many of the tested claims hold, and for how many there are too few seeds to say."""
    tested = [claim for claim in claims if claim.holds != "untested"]
    open_ones = sum(claim.holds == "unsure" for claim in tested)
    text = f"{sum(claim.holds == 'holds' for claim in tested)} of {len(tested)}"
    return f"{text}, {open_ones} open" if open_ones else text


def counted(table: EntryTable) -> dict[str, int]:
    """Count the cells by heading of the summary, each of which stands for some verdicts."""
    counts = table.counts()
    return {head: sum(counts[verdict] for verdict in verdicts) for head, verdicts in COUNTED.items()}


LEGEND = (
    "Ours is the mean over seeds ± half of its 95 % interval (Student's t), small below it what the paper prints. Ours "
    "is higher or lower if its whole interval lies on one side of the paper's spread, which is what it prints after ±, "
    "or the entry's tolerance; and within it if its mean is and its interval is no wider. Else there are too few seeds "
    "to say. One seed has no interval and is compared loosely."
)


def page(table: EntryTable) -> PageView:
    """Build the page of one entry."""
    plan, beside = table.plan, table.beside_paper
    place = f"{plan.entry.source}, at scale {plan.scale_name}" if plan.entry.source else f"Scale {plan.scale_name}"
    held = f"{holding(table.claims)} claims hold." if table.finished else "No run is finished yet."
    counts = [(head.capitalize(), str(count), "cells beside the paper's") for head, count in counted(table).items()]
    parts = [
        PagePart(
            "table",
            "Ours beside the paper's" if beside else "Results",
            paragraphs=[f"Differs: {text}" for text in table.differs],
            figures=[_result_table(table)],
        ),
        *([PagePart("curves", "As curves", figures=curves)] if (curves := _curves(table)) else []),
        *([PagePart("claims", "Claims", notes=plain_claims(table))] if table.claims else []),
        PagePart("again", "Again", paragraphs=[runs_text(table)], commands=[command(table)]),
    ]
    return PageView(
        title=plan.entry.title,
        lead=f"{held}\n{place}. {plan.entry.claim}".rstrip(),
        summary=[
            ("Claims that hold", holding(table.claims), "of those checked on our figures"),
            *(row for row in counts if row[1] != "0"),
        ],
        parts=parts,
        settings={"run": plan.entry.run, "scale": plan.scale.model_dump(exclude_none=True)},
    )


def _result_table(table: EntryTable) -> ResultTable:
    columns = table.plan.columns
    rows = [(row.name, [_cell(result) for result in table.row(row.name)]) for row in table.plan.rows]
    legend = LEGEND if table.beside_paper else f"{OWN_LEGEND}."
    return ResultTable(table.plan.entry.about, legend, table.plan.entry.axis, [column.name for column in columns], rows)


def _cell(result: Result) -> TableCell:
    if result.ours is None:
        return TableCell("–", of_paper(result), tip="No run of this cell is finished, or none has this figure.")
    values = ", ".join(f"{value:.{result.digits}f}" for value in result.values)
    paper = f"; paper: {of_paper(result)}" if result.paper else ""
    verdict = f"; {MEANINGS[result.verdict]}" if result.verdict else ""
    tip = f"{result.row}, {result.column}: {result.measure}, by seed {values}{paper}{verdict}"
    return TableCell(result.ours.shown(result.digits), of_paper(result), result.verdict, tip)


def _curves(table: EntryTable) -> list[Curve]:
    """Return a chart of the rows over the columns' positions, if there are enough columns."""
    places = {column.name: column.at for column in table.plan.columns if column.at is not None}
    if len(places) < MIN_STEPS:
        return []
    columns = sorted(places, key=places.__getitem__)
    ours = {row.name: _figures(table, row.name, columns, "ours") for row in table.plan.rows}
    printed = {row.name: _figures(table, row.name, columns, "paper") for row in table.plan.rows if any(row.paper)}
    curve = Curve(
        table.plan.entry.title,
        "Means over seeds with their 95 % intervals; thin, what the paper prints.",
        [places[name] for name in columns],
        {name: _values(figures) for name, figures in ours.items()},
        x_label=table.plan.entry.axis,
        intervals={
            name: [None if figure is None else figure.interval for figure in figures] for name, figures in ours.items()
        },
        reference={name: _values(figures) for name, figures in printed.items()},
    )
    return [curve]


def _values(figures: Sequence[Figure | None]) -> list[float | None]:
    return [None if figure is None else figure.value for figure in figures]


def _figures(
    table: EntryTable, row: str, columns: Sequence[str], whose: Literal["ours", "paper"]
) -> list[Figure | None]:
    by_column = {result.column: result for result in table.row(row)}
    return [getattr(by_column[name], whose) for name in columns]
