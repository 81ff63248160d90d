"""Measures of a finished run, named by a number and the moment at which it is read.

``NAME`` is a number of the records; a list's item, ``kappas[3]``; or one of `COSTS`. ``NAME@WHEN`` is its value in the
``first`` or the ``last`` record that has it (the default), at a step (``accuracy@5``: the last at or before it), its
``mean`` over all steps (0 where it is absent, as the ARI is before there are clusters), its ``best``, its ``gain`` from
first to last, or ``last5``: the mean of its last five. ``rounds_to:NAME=VALUE``, ``mb_to:`` and ``client_seconds_to:``
are the cost of reaching a value. ``PROBE/KEY`` is measured on the run's result, see `fedkin.studies.reproduce.probes`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import mean
from typing import Any

from fedkin.core import FedkinError
from fedkin.core.errors import unknown_name
from fedkin.studies.costs import CostTarget, costs_of, target_in
from fedkin.studies.reproduce.finished_run import FinishedRun, split_name
from fedkin.studies.reproduce.probes import PROBES, probed

COSTS: dict[str, Callable[[FinishedRun], float]] = {
    "steps": lambda run: float(len(run.records)),
    "sent_mb": lambda run: run.records[-1]["sent"] / 1e6,
    "received_mb": lambda run: run.records[-1]["received"] / 1e6,
    "both_mb": lambda run: (run.records[-1]["sent"] + run.records[-1]["received"]) / 1e6,
    "seconds": lambda run: sum(line["seconds"] for line in run.timing),
    "client_seconds": lambda run: sum(line["client_seconds"] for line in run.timing),
}
"""What a run costs, by name."""


def _mean(values: Sequence[float | None]) -> float:
    return mean(0.0 if value is None else value for value in values)


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


_WHEN: dict[str, Callable[[Sequence[float | None]], float]] = {
    "last": lambda values: _known(values)[-1],
    "first": lambda values: _known(values)[0],
    "mean": _mean,
    "best": lambda values: max(_known(values)),
    "gain": lambda values: _known(values)[-1] - _known(values)[0],
    "last5": lambda values: mean(_known(values)[-5:]),
}

_UNTIL: dict[str, Callable[[Any], float | None]] = {
    "rounds_to": lambda cost: None if cost.step is None else float(cost.rounds),
    "mb_to": lambda cost: None if cost.step is None else cost.total.both / 1e6,
    "client_seconds_to": lambda cost: None if cost.step is None else cost.total.client_seconds,
}


def check(measure: str) -> None:
    """Check that `measure` is valid, before any run starts.

    Raises FedkinError if it has another form, or names a moment or a probe that does not exist.
    """
    probe, slash, _ = measure.partition("/")
    if slash:
        if probe not in PROBES:
            raise unknown_name("probe", probe, PROBES)
        return
    kind, colon, target = measure.partition(":")
    if colon:
        _goal(kind, target)
        return
    name, _, when = measure.partition("@")
    split_name(name)
    if when and name in COSTS:
        raise FedkinError(f"'{measure}' names a moment, but '{name}' is what the whole run cost; leave @{when} out.")
    if when and not when.isdigit() and when not in _WHEN:
        raise unknown_name(f"moment in '{measure}':", when, [*_WHEN, "a step's number"])


def probe_of(measure: str) -> str | None:
    """Return the name of the probe that `measure` needs, if any."""
    probe, slash, _ = measure.partition("/")
    return probe if slash else None


def number_of(measure: str) -> str | None:
    """Return the number of the records that `measure` reads; ``None`` for a cost and for what a probe measures."""
    if "/" in measure or ":" in measure:
        return None
    name = measure.partition("@")[0]
    return None if name in COSTS else name


def measured(run: FinishedRun, measure: str) -> float | None:
    """Return the value of `measure` in a finished run; ``None`` if the run has none.

    Raises FedkinError if there is no such measure, or its probe does not apply to the run.
    """
    check(measure)
    if "/" in measure:
        probe, key = measure.split("/", 1)
        return probed(run.folder, probe).get(key)
    kind, colon, target = measure.partition(":")
    if colon:
        (cost,) = costs_of([run.folder], _goal(kind, target))
        return _UNTIL[kind](cost)
    name, _, when = measure.partition("@")
    if name in COSTS:
        return COSTS[name](run)
    values = run.values(name)
    if not _known(values):
        return None
    if when.isdigit():
        before = _known(values[: int(when)])
        return before[-1] if before else None
    return _WHEN[when or "last"](values)


def _goal(kind: str, target: str) -> CostTarget:
    if kind not in _UNTIL:
        raise unknown_name("measure", kind, _UNTIL)
    if (found := target_in(target)) is None:
        raise FedkinError(f"'{kind}:{target}' should name a number to reach, as in {kind}:personal_accuracy=0.95.")
    return found
