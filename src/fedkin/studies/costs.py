"""Costs of a run: bytes sent and computing time by phase, to its last step or until a number is reached.

A phase is what a record's value ``phase`` says; where there is none, the step is one of training. What a run spends
before its first step, on scaling and the method's init, counts to the phase of the first step: the first record's bytes
hold it, and its seconds are step 0 of ``timing.jsonl``. Judging the models costs nothing here.
"""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd

from fedkin.core import FedkinError
from fedkin.core.errors import unknown_name
from fedkin.experiment.run_folder import CONFIG, RECORDS, no_run, read_lines, read_timing
from fedkin.report.measures import measures, number, phase_of

AMOUNTS = ["steps", "sent", "received", "client_seconds", "seconds"]
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


def costs_of(folder: Path, target: Target | None = None) -> pd.DataFrame | None:
    """Return the costs of a run up to the last step or, with a target, the step that reached it; ``None`` if none did.

    A row is a phase, the last one ``total``; columns are ``steps``, bytes ``sent`` to the clients and ``received`` from
    them, ``client_seconds``, the computing time of all clients, and wall-clock ``seconds`` without evaluation, NaN if
    unknown. Raises FedkinError if the folder holds no run or no step yet, or no record has the number of the target.
    """
    if not (folder / CONFIG).is_file():
        raise no_run(folder)
    records = read_lines(folder / RECORDS)
    if not records:
        raise FedkinError(f"{folder} has no step to count yet; `fedkin resume {folder}` goes on with it.")
    if target and target[0] not in (names := measures(*records)):
        raise unknown_name("metric", target[0], names)
    last = records[-1]["step"]
    if target:
        values = {record["step"]: number(record, target[0]) for record in records}
        last = next((step for step, value in values.items() if value is not None and value >= target[1]), None)
    if last is None:
        return None
    timing = pd.DataFrame(read_timing(folder), columns=["step", "client_seconds", "seconds"]).set_index("step")
    steps = pd.DataFrame(
        [{name: record[name] for name in ("step", "sent", "received")} for record in records]
    ).set_index("step")
    steps = steps.diff().fillna(steps).assign(steps=1).join(timing)
    if 0 in timing.index:
        steps.loc[steps.index[0], timing.columns] += timing.loc[0]
    counted = steps[steps.index <= last][AMOUNTS]
    phases = [phase_of(record) for record in records][: len(counted)]
    costs = counted.groupby(phases, sort=False).agg(lambda amounts: amounts.sum(skipna=False))
    costs.loc["total"] = counted.sum(skipna=False)
    return costs.astype({"steps": int, "sent": int, "received": int})
