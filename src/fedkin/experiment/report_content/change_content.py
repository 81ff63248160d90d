"""Events of a run: phases, drifting data, and clients that join or change their cluster.

They come from the scenario, and from the values of a method's records: ``phase``; ``moved``, lists of client and the
clusters from and to; ``newcomers``, lists of client and cluster; ``founded``, numbers of new clusters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from fedkin.core.progress import RecordLine
from fedkin.data.population import Population, client_name
from fedkin.experiment.measure_titles import join_words, phase_of
from fedkin.report import Band, ClientEvent, Mark, Timeline
from fedkin.report.numbers import pluralize

DRIFTED, JOINED, PLACED = "data changed", "joined the federation", "got a first cluster"
MOVED, FOUNDED = "moved to another cluster", "founded a cluster"

_LISTED_STEPS = 8


def changes(records: Sequence[RecordLine], population: Population) -> list[ClientEvent]:
    """List the events up to the last record in order of step, those of the scenario before those of the method."""
    last = records[-1]["step"] if records else 0
    found = [change for change in _in_scenario(population) if change.step <= last]
    for record in records:
        founded = _list(record, "founded")
        for before, after, clients in _together(_list(record, "moved")):
            what = FOUNDED if after in founded else MOVED
            found.append(ClientEvent(record["step"], what, _names(population, clients), before, after))
        newcomers = [(client, None, cluster) for client, cluster in _list(record, "newcomers")]
        for _, after, clients in _together(newcomers):
            found.append(ClientEvent(record["step"], PLACED, _names(population, clients), None, after))
    return sorted(found, key=lambda change: change.step)


def timeline(records: Sequence[RecordLine], events: Sequence[ClientEvent], unit: str) -> Timeline:
    """Build the timeline of phases and events over the steps, which are called `unit`."""
    bands = _bands(records)
    counts: Counter[tuple[float, str]] = Counter()
    for event in events:
        if event.what != PLACED:  # shown by the lane that begins
            counts[event.step, event.what] += len(event.clients)
    marks = [
        Mark(step, f"{pluralize(count, 'client')}: {what}", what in (MOVED, FOUNDED))
        for (step, what), count in counts.items()
    ]
    sentences = [_phases(bands, unit)] if bands else []
    for what in dict.fromkeys(what for _, what in counts):
        line = "Dashed vertical line" if what in (MOVED, FOUNDED) else "Solid vertical line"
        steps = [f"{step:g}" for step, other in counts if other == what]
        shown = join_words(steps) if len(steps) <= _LISTED_STEPS else f"{steps[0]} to {steps[-1]}"
        sentences.append(f"{line}: clients whose {what}" if what == DRIFTED else f"{line}: clients that {what}")
        sentences[-1] += f", in {unit}{'s' if len(steps) > 1 else ''} {shown}."
    return Timeline(bands, marks, " ".join(sentences))


def _list(record: RecordLine, name: str) -> list[Any]:
    """Return a list in a record's values; empty where a method uses the name for another type, such as a count."""
    value = record["values"].get(name)
    return value if isinstance(value, list) else []


def _in_scenario(population: Population) -> Iterable[ClientEvent]:
    if population.drift is not None and len(population.drift.clients):
        yield ClientEvent(population.drift.step, DRIFTED, _names(population, population.drift.clients.tolist()))
    arrivals = [] if population.arrivals is None else population.arrivals.tolist()
    for step in sorted({step for step in arrivals if step > 0}):
        yield ClientEvent(step, JOINED, _names(population, [i for i, own in enumerate(arrivals) if own == step]))


def _together(moves: Iterable[Sequence[Any]]) -> list[tuple[Any, Any, list[int]]]:
    """Group moves by the clusters from and to, with the clients of each."""
    ways: dict[tuple[Any, Any], list[int]] = {}
    for client, before, after in moves:
        ways.setdefault((before, after), []).append(client)
    in_order = sorted(ways, key=lambda way: (-1 if way[0] is None else way[0], way[1]))
    return [(before, after, ways[before, after]) for before, after in in_order]


def _names(population: Population, clients: Sequence[int]) -> list[str]:
    return [client_name(i, population.names) for i in clients]


def _bands(records: Sequence[RecordLine]) -> list[Band]:
    if not any("phase" in record["values"] for record in records):
        return []
    bands = []
    for phase, run in groupby(records, key=phase_of):
        steps = [record["step"] for record in run]
        bands.append(Band(phase, steps[0], steps[-1]))
    return bands


def _phases(bands: Sequence[Band], unit: str) -> str:
    """Describe the steps of each phase in a sentence."""
    parts = [
        f"{unit} {band.first:g}: {band.phase}"
        if band.first == band.last
        else f"{unit}s {band.first:g} to {band.last:g}: {band.phase}"
        for band in bands
    ]
    sentence = "; ".join(parts)
    return f"{sentence[0].upper()}{sentence[1:]}."
