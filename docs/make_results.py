"""Writes what was measured into the pages, from ``docs/results/data``: ``python docs/make_results.py``.

A page marks where a table stands, by its name in the page's data, and which columns or rows if not all are shown:

    <!-- table mnist; columns: p = 0 | p = 1; rows: kin-graph | kfed -->
    <!-- /table -->

``results/data/PAGE.csv`` has a line per figure: table, row, column, value, spread (behind ±), paper (in brackets) and
verdict; ``sources.csv`` a line per table: heading of its first column, command, seeds, device, and the commit that
recorded it. ``PAGE:NAME`` is a table of another page's data.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from functools import cache
from pathlib import Path

DOCS = Path(__file__).parent
DATA = DOCS / "results" / "data"
_TABLE = re.compile(r"(<!-- table (\S+?)((?:; \w+: [^;]+?)*) -->\n).*?(?=<!-- /table -->)", re.DOTALL)

Line = dict[str, str]


def pages() -> dict[Path, str]:
    """The pages with tables, as their data have them now."""
    marked = [page for page in sorted(DOCS.rglob("*.md")) if "<!-- table " in page.read_text()]
    return {page: filled(page) for page in marked}


def filled(page: Path) -> str:
    """The page with its tables made anew."""
    return _TABLE.sub(lambda mark: mark[1] + _table(page.stem, mark[2], mark[3]), page.read_text())


@cache
def lines(name: str) -> list[Line]:
    """The lines of a file of data."""
    with (DATA / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def _table(page: str, name: str, options: str) -> str:
    if name == "verdicts":
        return _verdicts()
    page, name = name.split(":") if ":" in name else (page, name)
    shown = dict(option.split(": ", 1) for option in options.split("; ")[1:])
    cells = {(line["row"], line["column"]): _cell(line) for line in lines(page) if line["table"] == name}
    rows, columns = (
        _chosen([key[axis] for key in cells], shown.get(option)) for axis, option in enumerate(("rows", "columns"))
    )
    source = next(line for line in lines("sources") if (line["page"], line["table"]) == (page, name))
    head = _row([source["heading"], *columns]) + _row(["---"] * (1 + len(columns)), "|")
    body = "".join(_row([row, *(cells.get((row, column), "") for column in columns)]) for row in rows)
    where = ", ".join(
        filter(
            None, (f"seed{'s' * (not source['seeds'].isdigit())} {source['seeds']}", source["device"], source["commit"])
        )
    )
    return f"{head}{body}\n`{source['command']}` ({where})\n\n"


def _chosen(names: list[str], wanted: str | None) -> list[str]:
    """The names in the order of the data, or those wanted, all of which must be there."""
    known = list(dict.fromkeys(names))
    chosen = known if wanted is None else wanted.split(" | ")
    if missing := set(chosen) - set(known):
        raise ValueError(f"The data have no {sorted(missing)}, but {known}")
    return chosen


def _cell(line: Line) -> str:
    parts = [
        line["value"],
        line["spread"] and f"± {line['spread']}",
        line["paper"] and f"({line['paper']})",
        line["verdict"],
    ]
    return " ".join(filter(None, parts))


def _row(cells: list[str], border: str = "| ") -> str:
    inner = (" | " if border == "| " else "|").join(cells)
    return f"{border}{inner}{border[::-1]}\n"


def _verdicts() -> str:
    """By paper of `fedkin reproduce` and scale: claims that hold of those tested, and cells beside the paper's."""
    claims: dict[tuple[str, str], Counter[str]] = {}
    for line in lines("reproduce-claims"):
        claims.setdefault((line["entry"].split("/")[0], line["scale"]), Counter())[line["outcome"]] += 1
    cells: dict[tuple[str, str], Counter[str]] = {}
    for line in lines("reproduce"):
        scale, paper, _ = line["table"].split("/")
        cells.setdefault((paper, scale), Counter())[line["verdict"]] += 1
    text = _row(["paper", "claims that hold, quick", "near / higher / lower / open", "full size: claims", "cells"])
    text += _row(["---"] * 5, "|")
    for paper in dict.fromkeys(paper for paper, _ in cells):
        row = [f"`{paper}`"]
        for scale in ("quick", "paper"):
            held, found = claims.get((paper, scale), Counter()), cells.get((paper, scale), Counter())
            tested = held["holds"] + held["does not hold"] + held["open"]
            beside = [found["✓"] + found["≈"], found["▲"] + found["△"], found["▼"] + found["▽"], found["?"]]
            row += [f"{held['holds']}/{tested}" if tested else "", " / ".join(map(str, beside)) if any(beside) else ""]
        text += _row(row)
    return text + "\n"


if __name__ == "__main__":
    for page, text in pages().items():
        page.write_text(text)
