"""Summarise run folders as a Markdown table: ``python benchmarks/collect.py RUNS``.

Folders named ``<experiment>-s<seed>`` below RUNS become one row per experiment, with mean and standard deviation over
its seeds. Accuracy, wrong associations and so on are those of the last step; seconds are those of the whole run, on
whatever the machine was doing.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from statistics import mean, stdev
from typing import Any

Row = dict[str, float]


def read(folder: Path) -> Row | None:
    """The figures of one finished run; ``None`` if it has not finished."""
    if not (folder / "result.json").exists():
        return None
    lines: list[dict[str, Any]] = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]
    first, last = lines[0], lines[-1]
    seconds = [json.loads(line)["seconds"] for line in (folder / "timing.jsonl").read_text().splitlines()]
    return {
        "ACC": last["metrics"]["accuracy"],
        "ACC it. 1": first["metrics"]["accuracy"],
        "ARI": last["metrics"]["ari"],
        "groups": last["values"]["groups"],
        "communities": last["values"]["communities"],
        "classes held twice": last["metrics"]["target"],
        "isolated start": first["values"]["clusters"],
        "isolated end": last["values"]["isolated"],
        "wrong %": 100 * last["metrics"]["wrong"],
        "iterations": len(lines),
        "MB": (last["sent"] + last["received"]) / 1e6,
        "seconds": sum(seconds),
    }


def table(runs: Path) -> str:
    """The Markdown table of all experiments below `runs`."""
    experiments: dict[str, list[Row]] = {}
    for folder in sorted(path for path in runs.iterdir() if path.is_dir()):
        row = read(folder)
        if row:
            experiments.setdefault(re.sub(r"-s\d+$", "", folder.name), []).append(row)
    if not experiments:
        return "no finished runs"
    columns = list(next(iter(experiments.values()))[0])
    lines = [f"| experiment | seeds | {' | '.join(columns)} |", "|---" * (len(columns) + 2) + "|"]
    for name, rows in experiments.items():
        cells = [_cell([row[column] for row in rows], column) for column in columns]
        lines.append(f"| {name} | {len(rows)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(values: list[float], column: str) -> str:
    digits = 3 if column.startswith(("ACC", "ARI")) else 1
    spread = f" ± {stdev(values):.{digits}f}" if len(values) > 1 and stdev(values) > 0 else ""
    return f"{mean(values):.{digits}f}{spread}"


if __name__ == "__main__":
    print(table(Path(sys.argv[1])))
