"""Costs of runs: bytes sent and computing time by phase, compared with the first run.

A phase is what a record's value ``phase`` says; where there is none, the step is one of training. What a run spends
before its first step, on scaling and the method's init, counts to the phase of the first step: the first record's bytes
hold it, and its seconds are step 0 of ``timing.jsonl``. Judging the models costs nothing here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedkin.core import FedkinError
from fedkin.core.errors import unknown_name
from fedkin.core.progress import RecordLine
from fedkin.experiment.run_folder import CONFIG, RECORDS, no_run, read_lines, read_timing
from fedkin.experiment.terminal_tables import sentence_text, table_text
from fedkin.report.measures import measures, phase_of, reached, training_rounds
from fedkin.report.numbers import pluralize


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

    def over(self, whole: Cost) -> dict[str, float | None]:
        """Return each amount as a multiple of that of the `whole`; ``None`` if one is unknown or the latter zero."""
        names = ("sent", "received", "both", "client_seconds", "seconds")
        pairs = {name: (getattr(self, name), getattr(whole, name)) for name in names}
        return {
            name: None if not of or math.isnan(part) or math.isnan(of) else part / of
            for name, (part, of) in pairs.items()
        }


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
    """Return the costs as plain values, ``None`` where one is unknown, further runs also relative to the first."""

    def plain(cost: Cost) -> dict[str, float | None]:
        return {name: None if math.isnan(amount) else amount for name, amount in vars(cost).items()}

    trees: list[dict[str, Any]] = [
        {
            "run": run.run,
            "step": run.step,
            "training_rounds": run.rounds,
            "phases": {name: plain(cost) for name, cost in run.phases.items()},
            "total": None if run.step is None else plain(run.total),
            "ratio_to_first": None if run.step is None or runs[0].step is None else run.total.over(runs[0].total),
        }
        for run in runs
    ]
    return {"target": asdict(target) if target else None, "runs": trees}


def as_text(runs: Sequence[Costs], target: CostTarget | None = None) -> str:
    """Write the costs as a table, with notes below it on the steps that were counted."""
    rows: list[tuple[str, ...]] = [
        ("run", "phase", "steps", "MB sent", "MB received", "MB in all", "client seconds", "wall seconds")
    ]
    notes = []
    goal = f"{target.metric} {target.reach:g}" if target else ""
    for run, tree in zip(runs, costs_tree(runs, target)["runs"], strict=True):
        if run.step is None:
            rows.append((run.run, "not reached", "", "", "", "", "", ""))
            notes.append(f"{run.run}: {goal} not reached")
            continue
        for phase, cost in {**run.phases, "total": run.total}.items():
            amounts = [cost.sent / 1e6, cost.received / 1e6, cost.both / 1e6, cost.client_seconds, cost.seconds]
            texts = ("–" if math.isnan(amount) else f"{amount:,.3f}" for amount in amounts)
            rows.append((run.run, phase, str(cost.steps), *texts))
        if run is not runs[0] and tree["ratio_to_first"]:
            shares = ("–" if value is None else f"{value:.3g}" for value in tree["ratio_to_first"].values())
            rows.append((run.run, "of the first run's", "", *shares))
        steps = f"{goal} reached at step {run.step}, after" if target else f"{pluralize(run.step, 'step')},"
        notes.append(f"{run.run}: {steps} {pluralize(run.rounds or 0, 'training round')}")
    return "\n".join([table_text(rows, left=(0, 1)), "", *map(sentence_text, notes)])
