"""Costs of runs: bytes sent and computing time by phase, compared with the first run.

A phase is what a record's value ``phase`` says; where there is none, the step is one of training. What a run spends
before its first step, on scaling and the method's init, counts to the phase of the first step: the first record's bytes
hold it, and its seconds are step 0 of ``timing.jsonl``. Judging the models costs nothing here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedkin.core import FedkinError
from fedkin.core.errors import unknown_name
from fedkin.core.runner import RecordLine
from fedkin.experiment.run_folder import CONFIG, RECORDS, no_run, read_lines, read_timing
from fedkin.experiment.terminal_tables import sentence_text, table_text
from fedkin.report.measures import measures, phase_of, reached, training_rounds
from fedkin.report.numbers import format_bytes, pluralize


@dataclass(frozen=True)
class Cost:
    """Cost of some steps of a run.

    Bytes are `sent` to the clients and `received` from them. `client_seconds` is the computing time of all clients
    together, `seconds` wall-clock time without evaluation of the models; NaN if unknown.
    """

    steps: int = 0
    sent: int = 0
    received: int = 0
    client_seconds: float = 0.0
    seconds: float = 0.0

    def __add__(self, cost: Cost) -> Cost:
        return Cost(*(sum(pair) for pair in zip(vars(self).values(), vars(cost).values(), strict=True)))

    @property
    def both(self) -> int:
        """Bytes sent and received."""
        return self.sent + self.received

    @property
    def amounts(self) -> dict[str, float | None]:
        """Bytes and seconds by name, ``None`` if unknown; ``both`` are the bytes sent and received together."""
        names = ("sent", "received", "both", "client_seconds", "seconds")
        values = {name: getattr(self, name) for name in names}
        return {name: None if math.isnan(value) else value for name, value in values.items()}


@dataclass(frozen=True)
class CostTarget:
    """Target of a run: a number of the records that should reach at least `reach`."""

    metric: str
    reach: float


@dataclass(frozen=True)
class Costs:
    """Costs of one run, in total or until it reached a target.

    `run` is the folder, as given. `phases` are in order of first appearance; empty if the target was not reached.
    `rounds` are those of training, and `step` is the last one counted; both are ``None`` if the target was not reached.
    """

    run: str
    phases: dict[str, Cost]
    rounds: int | None
    step: int | None

    @property
    def total(self) -> Cost:
        """Cost of all phases together."""
        return sum(self.phases.values(), Cost())


def target_in(text: str) -> CostTarget | None:
    """Parse a target from ``NAME=NUMBER``; ``None`` if `text` is something else, or the number is not finite."""
    name, _, number = text.partition("=")
    try:
        target = CostTarget(name.strip(), float(number))
    except ValueError:
        return None
    return target if target.metric and math.isfinite(target.reach) else None


def costs_of(folders: Sequence[Path], target: CostTarget | None = None) -> list[Costs]:
    """Return the costs of each of these runs up to its last step or, with a target, the step that reached it.

    Raises FedkinError if a folder holds no run or no step yet, a line of its files cannot be read, or no run's records
    have the number that `target` names.
    """
    runs: list[tuple[Path, list[RecordLine]]] = []
    for folder in folders:
        if not (folder / CONFIG).is_file():
            raise no_run(folder)
        runs.append((folder, read_lines(folder / RECORDS)))
        if not runs[-1][1]:
            raise FedkinError(f"{folder} has no step to count yet; wait for its first, or `fedkin resume {folder}`.")
    if target:
        names = {name for _, records in runs for name in measures(*records)}
        if target.metric not in names:
            raise unknown_name("metric", target.metric, names)
    return [_costs(folder, records, target) for folder, records in runs]


def _costs(folder: Path, records: Sequence[RecordLine], target: CostTarget | None) -> Costs:
    last = records[-1]["step"]
    if target:
        reach = reached(records, target.metric, target.reach)
        if reach is None:
            return Costs(str(folder), {}, None, None)
        last = reach[0]
    seconds = {
        line["step"]: (line.get("client_seconds", math.nan), line.get("seconds", math.nan))
        for line in read_timing(folder)
    }
    unknown = math.nan, math.nan
    phases: dict[str, Cost] = {}
    sent = received = 0
    for record in records:
        if record["step"] > last:
            break
        cost = Cost(1, record["sent"] - sent, record["received"] - received, *seconds.get(record["step"], unknown))
        if record is records[0] and 0 in seconds:
            cost += Cost(0, 0, 0, *seconds[0])
        phases[phase_of(record)] = phases.get(phase_of(record), Cost()) + cost
        sent, received = record["sent"], record["received"]
    return Costs(str(folder), phases, training_rounds(records, last), last)


def costs_tree(runs: Sequence[Costs], target: CostTarget | None = None) -> dict[str, Any]:
    """Return the costs as plain values, ``None`` where one is unknown, those of each run also relative to the first."""
    trees: list[dict[str, Any]] = []
    for run in runs:
        pairs = zip(run.total.amounts.items(), runs[0].total.amounts.values(), strict=True)
        ratio = {name: None if part is None or not whole else part / whole for (name, part), whole in pairs}
        phases = {
            name: {"steps": cost.steps, **cost.amounts} for name, cost in {**run.phases, "total": run.total}.items()
        }
        reached_both = run.step is not None and runs[0].step is not None
        trees.append(
            {
                "run": run.run,
                "step": run.step,
                "training_rounds": run.rounds,
                "phases": {} if run.step is None else phases,
                "ratio_to_first": ratio if reached_both else None,
            }
        )
    return {"target": asdict(target) if target else None, "runs": trees}


def as_text(tree: Mapping[str, Any]) -> str:
    """Write a tree of `costs_tree` as a table, with notes below it on the steps that were counted."""
    heads = ("run", "phase", "steps", "sent", "received", "in all", "client seconds", "wall seconds")
    rows: list[tuple[str, ...]] = [heads]
    notes = []
    goal = "{metric} {reach:g}".format(**tree["target"]) if tree["target"] else ""
    for run in tree["runs"]:
        for phase, cost in run["phases"].items():
            *traffic, clients, wall = (cost[name] for name in ("sent", "received", "both", "client_seconds", "seconds"))
            seconds = ["–" if value is None else f"{value:,.3f}" for value in (clients, wall)]
            rows.append((run["run"], phase, str(cost["steps"]), *map(format_bytes, traffic), *seconds))
        if run is not tree["runs"][0] and run["ratio_to_first"]:
            shares = ("–" if value is None else f"{value:.3g}" for value in run["ratio_to_first"].values())
            rows.append((run["run"], "of the first run's", "", *shares))
        reach = f"{goal} reached at step {run['step']}, after" if goal else f"{pluralize(run['step'] or 0, 'step')},"
        rounds = f"{reach} {pluralize(run['training_rounds'] or 0, 'training round')}"
        notes.append(f"{run['run']}: {f'{goal} not reached' if run['step'] is None else rounds}")
    return "\n".join([table_text(rows, left=(0, 1)), "", *map(sentence_text, notes)])
