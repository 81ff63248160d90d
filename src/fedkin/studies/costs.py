"""Costs of runs: bytes sent and computing time by phase, compared with the first run.

A phase is what a record's value ``phase`` says; where there is none, the step is one of training. What a run spends
before its first step, on scaling and the method's init, counts to the phase of the first step: the first record's bytes
hold it, and its seconds are step 0 of ``timing.jsonl``. Judging the models costs nothing here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedkin.core import FedkinError
from fedkin.core.errors import unknown_name
from fedkin.core.runner import RecordLine
from fedkin.experiment.run_folder import CONFIG, RECORDS, no_run, read_lines, read_timing
from fedkin.experiment.terminal_tables import table_text
from fedkin.report.measures import measures, phase_of, reached, training_rounds
from fedkin.report.numbers import format_bytes, pluralize

AMOUNTS = ("sent", "received", "both", "client_seconds", "seconds")
Target = tuple[str, float]
"""A number of the records, and the least value that it should reach."""


def target_in(text: str) -> Target | None:
    """Parse a target from ``NAME=NUMBER``; ``None`` if `text` is something else, or the number is not finite."""
    name, _, number = text.partition("=")
    try:
        reach = float(number)
    except ValueError:
        return None
    return (name.strip(), reach) if name.strip() and math.isfinite(reach) else None


def costs_of(folders: Sequence[Path], target: Target | None = None) -> dict[str, Any]:
    """Return the costs of runs up to the last step or, with a target, the step that reached it, as plain values.

    ``runs`` has for each folder the last ``step`` counted and the ``training_rounds`` up to it, both ``None`` if the
    target was not reached; by phase and in ``total`` the number of ``steps``, bytes ``sent`` to the clients and
    ``received`` from them, ``both`` together, ``client_seconds``, the computing time of all clients, and wall-clock
    ``seconds`` without evaluation, ``None`` if unknown; and ``ratio_to_first``, these amounts relative to the first
    run's. Raises FedkinError if a folder holds no run or no step yet, a line of its files cannot be read, or no run's
    records have the number that `target` names.
    """
    runs: list[list[RecordLine]] = []
    for folder in folders:
        if not (folder / CONFIG).is_file():
            raise no_run(folder)
        runs.append(read_lines(folder / RECORDS))
        if not runs[-1]:
            raise FedkinError(f"{folder} has no step to count yet; wait for its first, or `fedkin resume {folder}`.")
    if target and target[0] not in (names := {name for records in runs for name in measures(*records)}):
        raise unknown_name("metric", target[0], names)
    trees = [_costs(folder, records, target) for folder, records in zip(folders, runs, strict=True)]
    first = trees[0]["phases"].get("total")
    for tree in trees:
        total = tree["phases"].get("total")
        tree["ratio_to_first"] = first and total and {
            name: None if total[name] is None or not first[name] else total[name] / first[name] for name in AMOUNTS
        }  # fmt: skip
    return {"target": target and dict(zip(("metric", "reach"), target, strict=True)), "runs": trees}


def _costs(folder: Path, records: Sequence[RecordLine], target: Target | None) -> dict[str, Any]:
    reach = reached(records, *target) if target else (records[-1]["step"], 0)
    if reach is None:
        return {"run": str(folder), "step": None, "training_rounds": None, "phases": {}}
    timing: dict[int, Mapping[str, Any]] = {line["step"]: line for line in read_timing(folder)}
    phases: dict[str, dict[str, Any]] = {phase_of(line): {} for line in records if line["step"] <= reach[0]}
    phases["total"] = {}
    before = 0, 0
    for record in (line for line in records if line["step"] <= reach[0]):
        times = [timing.get(record["step"], {}), *([timing[0]] if record is records[0] and 0 in timing else [])]
        sent, received = record["sent"] - before[0], record["received"] - before[1]
        before = record["sent"], record["received"]
        step: dict[str, Any] = {"steps": 1, "sent": sent, "received": received, "both": sent + received}
        step |= {name: sum(line.get(name, math.nan) for line in times) for name in AMOUNTS[3:]}
        for phase in (phase_of(record), "total"):
            phases[phase] = {name: phases[phase].get(name, 0) + value for name, value in step.items()}
    for cost in phases.values():
        cost.update({name: None for name in AMOUNTS[3:] if math.isnan(cost[name])})
    rounds = training_rounds(records, reach[0])
    return {"run": str(folder), "step": reach[0], "training_rounds": rounds, "phases": phases}


def as_text(tree: Mapping[str, Any]) -> str:
    """Write what `costs_of` returns as a table, with notes below it on the steps that were counted."""
    rows: list[tuple[str, ...]] = [
        ("run", "phase", "steps", "sent", "received", "in all", "client seconds", "wall seconds")
    ]
    notes, goal = [], "{metric} {reach:g}".format(**tree["target"]) if tree["target"] else ""
    for run in tree["runs"]:
        for phase, cost in run["phases"].items():
            seconds = ["–" if cost[name] is None else f"{cost[name]:,.3f}" for name in AMOUNTS[3:]]
            traffic = (format_bytes(cost[name]) for name in AMOUNTS[:3])
            rows.append((run["run"], phase, str(cost["steps"]), *traffic, *seconds))
        if run is not tree["runs"][0] and run["ratio_to_first"]:
            shares = ("–" if value is None else f"{value:.3g}" for value in run["ratio_to_first"].values())
            rows.append((run["run"], "of the first run's", "", *shares))
        reach = f"{goal} reached at step {run['step']}, after" if goal else f"{pluralize(run['step'] or 0, 'step')},"
        rounds = f"{reach} {pluralize(run['training_rounds'] or 0, 'training round')}"
        notes.append(f"{run['run']}: {f'{goal} not reached' if run['step'] is None else rounds}")
    return "\n".join([table_text(rows, left=(0, 1)), "", *notes])
