"""Reproduction as text: tables for Markdown and the terminal, and the summary of many."""

from __future__ import annotations

from collections.abc import Sequence

from fedkin.report.numbers import pluralize
from fedkin.report.result_tables import MEANINGS
from fedkin.studies.reproduce.entry_table import Checked, EntryTable, Result
from fedkin.studies.reproduce.verdict import SIGNS, PaperVerdict
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
        wanted = len(table.plan.jobs)
        done = str(wanted) if table.finished == wanted else f"{table.finished} of {wanted}"
        verdicts = (str(count) for count in counted([table]).values())
        about, seconds = table.plan.entry.about, duration(table.seconds)
        rows.append([table.plan.name, about, done, seconds, *verdicts, holding(table.claims)])
    return rows


def holding(claims: Sequence[Checked]) -> str:
    """Describe how many of the tested claims hold, and for how many there are too few seeds to say."""
    tested = [claim for claim in claims if claim.holds != "untested"]
    open_ones = sum(claim.holds == "unsure" for claim in tested)
    text = f"{sum(claim.holds == 'holds' for claim in tested)} of {len(tested)}"
    return f"{text}, {open_ones} open" if open_ones else text


def counted(tables: Sequence[EntryTable]) -> dict[str, int]:
    """Count the cells by heading of the summary, each of which stands for some verdicts."""
    each = [table.counts() for table in tables]
    return {head: sum(counts[verdict] for counts in each for verdict in verdicts) for head, verdicts in COUNTED.items()}
