"""Costs of runs: bytes sent and computing time by phase, compared with the first run.

A phase is what a record's value ``phase`` says; where there is none, the step is one of training. What a run spends
before its first step, on scaling and the method's init, counts to the phase of the first step: the first record's bytes
hold it, and its seconds are step 0 of ``timing.jsonl``. Judging the models costs nothing here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

from fedkin.core import FedkinError
from fedkin.core.errors import unknown_name
from fedkin.core.progress import RecordLine
from fedkin.experiment.run_folder import CONFIG, RECORDS, no_run, read_lines, read_timing
from fedkin.experiment.terminal_tables import sentence_text, table_text
from fedkin.report.measures import measures, phase_of, reached, training_rounds
from fedkin.report.numbers import pluralize

_HEADINGS = ("run", "phase", "steps", "MB sent", "MB received", "MB in all", "client seconds", "wall seconds")


@dataclass(frozen=True)
class Cost:
    """Cost of some steps of a run.

    Bytes are `sent` to the clients and `received` from them. `client_seconds` is the computing time of all clients
    together, `seconds` wall-clock time without evaluation of the models; ``None`` if unknown.
    """

    steps: int = 0
    sent: int = 0
    received: int = 0
    client_seconds: float | None = 0.0
    seconds: float | None = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(*(_sum(one, two) for one, two in zip(astuple(self), astuple(other), strict=True)))

    @property
    def amounts(self) -> dict[str, float | None]:
        """Bytes and seconds by name; ``both`` are the bytes sent and received together."""
        both = self.sent + self.received
        times = {"client_seconds": self.client_seconds, "seconds": self.seconds}
        return {"sent": self.sent, "received": self.received, "both": both, **times}

    def over(self, other: Cost) -> dict[str, float | None]:
        """Return each amount as a multiple of `other`'s; ``None`` where one is unknown or the other's is zero."""
        return {
            name: None if part is None or not whole else part / whole
            for (name, part), whole in zip(self.amounts.items(), other.amounts.values(), strict=True)
        }


def _sum(one: Any, other: Any) -> Any:
    return None if one is None or other is None else one + other


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


def parsed_target(text: str) -> CostTarget:
    """Parse a target from ``NAME=NUMBER``.

    Raises FedkinError if `text` is something else, or the number is not finite.
    """
    if (target := target_in(text)) is None:
        raise FedkinError(f"--target '{text}' is not NAME=NUMBER, such as personal_accuracy=0.95.")
    return target


def target_in(text: str) -> CostTarget | None:
    """As `parsed_target`, but ``None`` where that raises an error."""
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
    runs = [(folder, _records(folder)) for folder in folders]
    if target:
        known = {name for _, records in runs for name in measures(*records)}
        if target.metric not in known:
            raise unknown_name("metric", target.metric, known)
    return [_costs(folder, records, target) for folder, records in runs]


def as_json(found: Sequence[Costs], target: CostTarget | None = None) -> str:
    """Write the costs as JSON, bytes as whole numbers, in the order of `found`."""
    runs = [
        {
            "run": each.run,
            "step": each.step,
            "training_rounds": each.rounds,
            "phases": {name: asdict(cost) for name, cost in each.phases.items()},
            "total": None if each.step is None else asdict(each.total),
            "ratio_to_first": _ratios(each, found),
        }
        for each in found
    ]
    return json.dumps({"target": asdict(target) if target else None, "runs": runs})


def as_text(found: Sequence[Costs], target: CostTarget | None = None) -> str:
    """Write the costs as a table, with notes below it on the steps that were counted."""
    rows: list[tuple[str, ...]] = [_HEADINGS]
    notes = []
    what = f"{target.metric} {target.reach:g}" if target else ""
    for each in found:
        if each.step is None:
            rows.append((each.run, "not reached", *[""] * (len(_HEADINGS) - 2)))
            notes.append(f"{each.run}: {what} not reached")
            continue
        phases = {**each.phases, **({"total": each.total} if len(each.phases) > 1 else {})}
        for at, (name, cost) in enumerate(phases.items()):
            rows.append((each.run if at == 0 else "", name, str(cost.steps), *_amounts(cost)))
        if each is not found[0] and (ratios := _ratios(each, found)) is not None:
            times = ("–" if value is None else f"{value:.3g}" for value in ratios.values())
            rows.append(("", "  of the first run's", "", *times))
        rounds = pluralize(each.rounds or 0, "training round")
        steps = f"{what} reached at step {each.step}, after" if target else f"{pluralize(each.step, 'step')},"
        notes.append(f"{each.run}: {steps} {rounds}")
    return "\n".join([table_text(rows, left=(0, 1)), "", *map(sentence_text, notes)])


def _amounts(cost: Cost) -> list[str]:
    units = {name: 1.0 if name.endswith("seconds") else 1e6 for name in cost.amounts}
    return ["–" if value is None else f"{value / units[name]:,.3f}" for name, value in cost.amounts.items()]


def _ratios(each: Costs, found: Sequence[Costs]) -> dict[str, float | None] | None:
    """Return a run's totals as multiples of the first run's; ``None`` for a single run or if one is unknown."""
    if len(found) < 2 or each.step is None or found[0].step is None:
        return None
    return each.total.over(found[0].total)


def _costs(folder: Path, records: Sequence[RecordLine], target: CostTarget | None) -> Costs:
    last = records[-1]["step"]
    if target:
        found = reached(records, target.metric, target.reach)
        if found is None:
            return Costs(str(folder), {}, None, None)
        last = found[0]
    timing = {line["step"]: line for line in read_timing(folder)}
    phases: dict[str, Cost] = {}
    sent = received = 0
    for record in records:
        if record["step"] > last:
            break
        cost = Cost(1, record["sent"] - sent, record["received"] - received, *_seconds(timing, record["step"]))
        if record is records[0] and 0 in timing:
            cost += Cost(0, 0, 0, *_seconds(timing, 0))
        phases[phase_of(record)] = phases.get(phase_of(record), Cost()) + cost
        sent, received = record["sent"], record["received"]
    return Costs(str(folder), phases, training_rounds(records, last), last)


def _seconds(timing: dict[int, RecordLine], step: int) -> tuple[float | None, float | None]:
    line = timing.get(step, {})
    return line.get("client_seconds"), line.get("seconds")


def _records(folder: Path) -> list[RecordLine]:
    if not (folder / CONFIG).is_file():
        raise no_run(folder)
    records = read_lines(folder / RECORDS)
    if not records:
        raise FedkinError(f"{folder} has no step to count yet; wait for its first, or `fedkin resume {folder}`.")
    return records
