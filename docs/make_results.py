"""Writes what was measured into the pages, from ``docs/results/data``: ``python docs/make_results.py``.

A page marks where a table stands, by its name in the page's data, and which columns or rows if not all are shown:

    <!-- table mnist; columns: p = 0 | p = 1; rows: kin-graph | kfed -->
    <!-- /table -->

``coverage`` is a table of what was measured of the papers, from the entries of ``experiments`` and all of these data.

``results/data/PAGE.csv`` has a line per figure: table, row, column, value, spread (behind ±), paper (in brackets) and
verdict; ``sources.csv`` a line per table: heading of its first column, command, seeds, device, and the commit that
recorded it. ``PAGE:NAME`` is a table of another page's data.
"""

from __future__ import annotations

import csv
import io
import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
DATA = DOCS / "results" / "data"
_TABLE = re.compile(r"(<!-- table (\S+?)((?:; \w+: [^;]+?)*) -->\n).*?(?=<!-- /table -->)", re.DOTALL)

Line = dict[str, str]


def pages() -> dict[Path, str]:
    """The pages with tables, as their data have them now, and the cells of `coverage`."""
    marked = [page for page in sorted(DOCS.rglob("*.md")) if "<!-- table " in page.read_text()]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(_coverage())
    return {**{page: filled(page) for page in marked}, DATA / "coverage-cells.csv": text.getvalue()}


def filled(page: Path) -> str:
    """The page with its tables made anew."""
    return _TABLE.sub(lambda mark: mark[1] + _table(page.stem, mark[2], mark[3]), page.read_text())


@cache
def lines(name: str) -> list[Line]:
    """The lines of a file of data."""
    with (DATA / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def _table(page: str, name: str, options: str) -> str:
    shown = dict(option.split(": ", 1) for option in options.split("; ")[1:])
    if name == "verdicts":
        return _verdicts()
    if name == "coverage":
        heads, *rows = (
            [*row[:3], "/".join(row[3:6]), row[6], "/".join(row[7:9]).strip("/"), row[9].replace(" ", "/"), row[11]]
            for row in _coverage()
            if row[1] != "0"
        )  # one without printed figures is in the data alone
        return "".join([_row(heads), _row(["---"] * 8, "|"), *map(_row, rows), "\n"])
    page, name = name.split(":") if ":" in name else (page, name)
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


_LESS = ("unmatched", "false_matches", "steps", "target/", "both_mb", "learning_gap")
"""Beginnings of measures of which less is better."""
_NEITHER = ("communities", "local_clusters", "temperature", "imbalance", "reconstruction", "global_f1")
"""Beginnings of measures of which neither more nor less is better."""
_MEASURED = ["full size", "small only", "never", "no data"]


def _coverage() -> list[list[str]]:
    """By table and figure of the papers: printed cells by how they were measured, and how full size compares."""
    timed = map(json.loads, (DOCS.parent / "benchmarks" / "gpu.jsonl").read_text().splitlines())
    gpu = {line["part"]: line["values"].get("seconds, not recorded") for line in timed}
    rows, totals = [], Counter[str]()
    for line in lines("coverage"):
        counts, seeds, entry = coverage(line["entry"])
        scales = entry["scales"]
        hours = float(f"{scales['paper']['core_seconds'] / 7200:.2g}")
        runs = [" ".join(map(str, sorted(seeds))) or "0", str(len(scales["quick"]["seeds"]))]
        part = gpu.get(line["entry"].split("/")[0])
        stand_ins = [line["data"], line["network"]]
        rows.append([line["entry"], *_sums(counts), *stand_ins, *runs, f"{hours:g}", f"{part:.2f}" if part else ""])
        totals += counts
    heads = ["table or figure", "printed", *_MEASURED, "inside/better/worse/open", "own data", "network"]
    heads += ["seeds", "seeds, quick", "hours", "GPU seconds of a part"]
    return [heads, *rows, ["all", *_sums(totals), *[""] * 6]]


def _sums(counts: Counter[str]) -> list[str]:
    beside = "/".join(str(counts[key]) for key in ("inside", "better", "worse", "open"))
    return [*(str(counts[key]) for key in ("printed", *_MEASURED)), beside]


@cache
def coverage(name: str) -> tuple[Counter[str], set[int], dict[str, Any]]:
    """How the printed cells of an entry were measured, the numbers of seeds at full size, and the entry."""
    entry = tomllib.loads((DOCS.parent / "experiments" / f"{name}.toml").read_text())
    about = next(line for line in lines("coverage") if line["entry"] == name)
    full, small = (
        {f"{line['row']} | {line['column']}": line for line in lines("reproduce") if line["table"] == f"{scale}/{name}"}
        for scale in ("paper", "quick")
    )
    counts: Counter[str] = Counter()
    counts["no data"] = counts["printed"] = int(about["printed without an entry"])
    seeds: set[int] = set()
    for cell, figure, measure, tolerance in _printed(entry):
        counts["printed"] += 1
        if measured := _elsewhere(name, cell):
            values, runs = measured
            counts["full size"] += 1
            counts[_compared(values, figure, tolerance, measure)] += 1
            seeds.add(runs)
        elif cell in full and full[cell]["value"]:
            counts["full size"] += 1
            counts[_judged(full[cell]["verdict"], measure)] += 1
            seeds.add(_seeds(name, bool(full[cell]["spread"])))
        elif cell in small and small[cell]["value"]:
            counts["small only"] += 1
        else:
            counts["no data" if about["without"] and cell.startswith(about["without"]) else "never"] += 1
    return counts, seeds, entry


def _printed(entry: dict[str, Any]) -> Iterator[tuple[str, float, str, float]]:
    """Name, figure, measure and tolerance of each cell that has a figure of the paper."""
    for row in entry["rows"]:
        for column, text in zip(entry["columns"], row.get("paper", ()), strict=False):
            if text not in ("", "-", "–"):
                each = {**entry, **row, **column}
                figure = float(text.split("±")[0])
                yield f"{row['name']} | {column['name']}", figure, each["measure"], each.get("tolerance", 0.03)


def _elsewhere(name: str, cell: str) -> tuple[list[float], int] | None:
    """Values and number of seeds of a cell at full size in another page's data; no value where none was reached."""
    for line in lines("coverage-elsewhere"):
        if (line["entry"], line["cell"]) == (name, cell):
            page, table = line["source"].split(":")
            row, column = line["source cell"].split(" | ")
            key = (table, row, column)
            source = next(each for each in lines(page) if (each["table"], each["row"], each["column"]) == key)
            return [float(value) for value in re.findall(r"[\d.]+", source["value"].split("(")[0])], int(line["seeds"])
    return None


def _seeds(name: str, spread: bool) -> int:
    """How many seeds a cell at full size has: as its source says of all cells, or of those with a spread."""
    source = next(line for line in lines("sources") if (line["page"], line["table"]) == ("reproduce", f"paper/{name}"))
    return len(re.findall(r"\d+", source["seeds"].split(";")[-1 if spread else 0]))


def _compared(values: list[float], figure: float, tolerance: float, measure: str) -> str:
    apart = sum(values) / len(values) - figure if values else float("inf")
    return "inside" if abs(apart) <= tolerance + 1e-9 else _judged("▲" if apart > 0 else "▼", measure)


def _judged(verdict: str, measure: str) -> str:
    if verdict in ("✓", "≈"):
        return "inside"
    if verdict == "?" or measure.startswith(_NEITHER) or "seconds" in measure:  # seconds are of other machines
        return "open"
    return "better" if {"▲": True, "△": True, "▼": False, "▽": False}[verdict] != measure.startswith(_LESS) else "worse"


if __name__ == "__main__":
    for page, text in pages().items():
        page.write_text(text)
