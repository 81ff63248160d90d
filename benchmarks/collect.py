"""Summarise run folders as a Markdown table: ``python benchmarks/collect.py RUNS``.

Folders named ``<experiment>-s<seed>`` below RUNS become one row per experiment, with mean and standard deviation over
its seeds. Accuracy, wrong associations and so on are those of the last step; seconds are those of the whole run, on
whatever the machine was doing.
"""

from __future__ import annotations

import re
import sys
import tomllib
from math import isnan, nan
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from fedkin.experiment.measure_titles import formed, reached
from grid import records, seconds

Row = dict[str, float]

CLIENTS = {
    "personal_accuracy": "personal accuracy", "personal_f1": "personal F1", "global_accuracy": "global accuracy",
    "global_f1": "global F1", "learning_gap": "gap", "ari": "ARI", "purity": "purity",
}  # fmt: skip
"""Measures of clusters of clients, and their columns."""


def read(folder: Path) -> Row | None:
    """The figures of one finished run; ``None`` if it has not finished."""
    if not (folder / "result.json").exists():
        return None
    lines, took = records(folder), {"seconds": sum(seconds(folder))}
    if "labels" in lines[-1]["values"]:
        target = tomllib.loads((folder / "config.toml").read_text())["target"]
        return of_clients(lines, target) | took
    return of_samples(lines) | took


def of_clients(lines: list[dict[str, Any]], target: dict[str, Any]) -> Row:
    """Of a run that clusters clients; ``to target`` is the step that reached the experiment's target."""
    last = lines[-1]
    row = {name: last["metrics"].get(key, nan) for key, name in CLIENTS.items()}
    row["clusters"] = last["values"]["clusters"]
    row["formed in"] = formed(lines) or nan
    if target["metric"] != "none" and target["reach"] != "none":
        found = reached(lines, target["metric"], target["reach"])
        row["to target"] = found[0] if found else nan
        row["reached"] = found is not None
    return row | {"steps": len(lines), "MB": (last["sent"] + last["received"]) / 1e6}


def of_samples(lines: list[dict[str, Any]]) -> Row:
    """Of a run that clusters samples."""
    first, last = lines[0], lines[-1]
    return {
        "ACC": last["metrics"]["accuracy"],
        "ACC it. 1": first["metrics"]["accuracy"],
        "ARI": last["metrics"]["ari"],
        "clusters": last["values"]["clusters"],
        "communities": last["values"]["communities"],
        "classes held twice": last["metrics"]["target"],
        "unmatched start": first["values"]["local_clusters"],
        "unmatched end": last["values"]["unmatched"],
        "wrong %": 100 * last["metrics"]["false_matches"],
        "iterations": len(lines),
        "MB": (last["sent"] + last["received"]) / 1e6,
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
    columns = list(dict.fromkeys(column for rows in experiments.values() for row in rows for column in row))
    lines = [f"| experiment | seeds | {' | '.join(columns)} |", "|---" * (len(columns) + 2) + "|"]
    for name, rows in experiments.items():
        cells = [_cell([row.get(column, nan) for row in rows], column) for column in columns]
        lines.append(f"| {name} | {len(rows)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(values: list[float], column: str) -> str:
    values = [value for value in values if not isnan(value)]
    if not values:
        return "–"
    digits = 3 if column.startswith(("ACC", "ARI", "personal", "global", "gap", "purity")) else 1
    spread = f" ± {stdev(values):.{digits}f}" if len(values) > 1 and stdev(values) > 0 else ""
    return f"{mean(values):.{digits}f}{spread}"


if __name__ == "__main__":
    print(table(Path(sys.argv[1])))
