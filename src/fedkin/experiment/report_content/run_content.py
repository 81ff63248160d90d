"""Content of a run's page, built from its records and its clients' state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from fedkin.core.method import display_name
from fedkin.core.progress import RecordLine
from fedkin.data.population import Population, client_name
from fedkin.data.preparation import Preparation
from fedkin.data.profile import ClusterProfile
from fedkin.experiment.config import Config
from fedkin.experiment.measure_titles import (
    MEASURES,
    Measure,
    clustering_step,
    join_words,
    measures,
    method_remarks,
    number,
    phase_of,
    phased,
    phases,
    reached,
    scaled,
    training_rounds,
    written,
)
from fedkin.experiment.report_content.association_content import graphs
from fedkin.experiment.report_content.change_content import changes, timeline
from fedkin.experiment.report_content.client_content import client_clusters, client_spread, has_client_clusters
from fedkin.experiment.report_content.cluster_words import descriptions
from fedkin.experiment.report_content.clustering_content import clustering_of, scales_of
from fedkin.experiment.report_content.finding_content import (
    client_finding,
    data_sentence,
    forgotten_note,
    sample_finding,
)
from fedkin.experiment.report_content.map_content import LatentSample, sample_map
from fedkin.experiment.report_content.sample_content import (
    cluster_pictures,
    cluster_profiles,
    cluster_table,
    mixed_in_words,
    mixtures_of,
)
from fedkin.experiment.sections import TargetSection
from fedkin.experiment.terminal_tables import in_shell
from fedkin.report import Curve, RunView
from fedkin.report.numbers import format_bytes, pluralize

_MAX_NAMES = 12


def view_of(
    config: Config,
    population: Population,
    preparation: Preparation,
    records: Sequence[RecordLine],
    latents: LatentSample | None = None,
    profile: ClusterProfile | None = None,
) -> RunView:
    """Build the content of a run's page from its records and its clients' state.

    Samples of clients with int64 ``state["clusters"]`` are shown by cluster. `records` are the lines of
    ``records.jsonl``; `latents` some samples in the latent representation of the method; `profile` that of the clusters
    of a table.
    """
    clients = [client for client in population.clients if "clusters" in client.state]
    clusters = sorted({cluster for client in clients for cluster in client.state["clusters"].tolist()})
    is_image, names = len(preparation.shape) == 3, preparation.columns or population.features
    # Where a run has phases, its steps are not all rounds.
    unit = "round" if has_client_clusters(records) and not phases(records) else "step"
    clustered = client_clusters(records, population, unit)
    findings, bars = clustering_of(records)
    shows_means = bool(clusters) and not is_image and profile is None
    changed = changes(records, population)
    say = str if config.data.source == "federation" else in_shell  # distant sites' options are in files
    mixtures = mixtures_of(clients, population)
    found = (
        sample_finding(clusters, clients, mixtures, records)
        if clustered is None
        else client_finding(clustered, population, records)
    )
    return RunView(
        title=f"{display_name(type(config.method))} on {Path(config.data.source).name}",
        lead=_lead(
            found,
            records,
            data_sentence(config.method, population, _taken(found, records, unit)),
            _asked_in_words([*map(say, preparation.questions)]),
        ),
        summary=_summary(config.target, records, unit, mixed_in_words(list(mixtures.values()))),
        curves=_curves(records, unit),
        graphs=graphs(records, population.names),
        clients=clustered,
        table=cluster_table(clients, clusters, population.names, mixtures, profile.min_members if profile else 0)
        if clusters
        else None,
        pictures=cluster_pictures(clients, clusters, preparation.scaling, mixtures)
        if is_image and preparation.scaling
        else (),
        profiles=cluster_profiles(clients, clusters, names, preparation.has_limits) if shows_means else None,
        descriptions=None if profile is None else descriptions(profile, population.names),
        map=None if latents is None else sample_map(latents, config.evaluation.map, population.classes),
        notes=[
            *forgotten_note(population),
            *map(say, preparation.notes),
            *_notes(records, unit, bool(clustered), population),
        ],
        findings=findings,
        bars=bars,
        scales=scales_of(records),
        changes=changed,
        timeline=timeline(records, changed, unit),
        settings={name: table for name, table in config.tables.items() if name != "tracking"},
    )


def view_of_rounds(title: str, records: Sequence[RecordLine], names: Sequence[str]) -> RunView:
    """Build the content of a page of rounds whose clients are known by name and replies alone.

    `records` are as in ``records.jsonl``, and `names` the clients', in order of id.
    """
    unit = "round" if not phases(records) else "step"
    population = Population([], None, [], [], list(names))
    clustered, changed = client_clusters(records, population, unit), changes(records, population)
    findings, bars = clustering_of(records)
    found = "" if clustered is None else client_finding(clustered, population, records)
    data = f"{pluralize(len(names), 'client')} took part; their samples never left them."
    return RunView(
        title=title,
        lead=_lead(found, records, f"{data} {_taken(found, records, unit)}"),
        summary=_summary(None, records, unit),
        curves=_curves(records, unit),
        clients=clustered,
        notes=_happened(records, unit, names),
        findings=findings,
        bars=bars,
        changes=changed,
        timeline=timeline(records, changed, unit),
    )


def _taken(found: str, records: Sequence[RecordLine], unit: str) -> str:
    """Describe the number of steps, and their phases, of a finished or unfinished run."""
    steps, parts = pluralize(len(records), unit), phased(records)
    steps += f" ({parts})" if parts else ""
    return f"It took {steps}." if found else f"So far: {steps}."


def _summary(
    target: TargetSection | None, records: Sequence[RecordLine], unit: str, mixed: str = ""
) -> list[tuple[str, str, str]]:
    if not records:
        return []
    known = measures(*records)
    rows = []
    for name, measure in known.items():
        own = _with_number(records, name)
        if measure.headline and number(own[-1], name) is not None:
            meaning = _explained(known, name, own, records, unit)
            if name == "false_matches" and mixed:
                meaning += f"; it does not see mixtures within local clusters: {mixed}"
            rows.append((measure.title, written(own[-1], name, measure), meaning))
    last = records[-1]
    rows += _trigger(records, unit) + _target(target, records, unit)
    traffic = format_bytes(last["sent"] + last["received"])
    return [*rows, ("Traffic", traffic, "models and statistics sent to the clients and received from them")]


def _explained(
    known: Mapping[str, Measure], name: str, own: Sequence[RecordLine], records: Sequence[RecordLine], unit: str
) -> str:
    """Explain a headline number: its meaning, its companion number, and its first value."""
    first, last, measure = own[0], own[-1], known[name]
    text = measure.meaning
    if number(last, measure.beside) is not None:
        beside = known[measure.beside]
        text += f"; {beside.in_sentence}: {written(last, measure.beside, beside)}"
    if last is not records[-1]:
        text += f"; as of {unit} {last['step']}"
    if number(first, name) != number(last, name):
        when = f"the first {unit}" if first is records[0] else f"{unit} {first['step']}"
        text += f"; after {when} {written(first, name, measure)}"
    return text


def _with_number(records: Sequence[RecordLine], name: str) -> list[RecordLine]:
    """Return the records that hold a number, since models are not evaluated in every step.

    For the number of clusters, records with no cluster at all count only if there are no others.
    """
    own = [record for record in records if name in record["metrics"] or name in record["values"]]
    return [record for record in own if name != "clusters" or number(record, name) != 0] or own


def _trigger(records: Sequence[RecordLine], unit: str) -> list[tuple[str, str, str]]:
    """Return a headline on when the method's trigger fired; empty if the method has none."""
    if not any("fired" in record["values"] for record in records):
        return []
    step = clustering_step(records)
    if step is None:
        return [("Clusters formed", "not yet", "the method's trigger has not fired")]
    return [("Clusters formed", f"{unit} {step}", "when the method's trigger fired")]


def _target(target: TargetSection | None, records: Sequence[RecordLine], unit: str) -> list[tuple[str, str, str]]:
    """Return a headline on when the experiment's target was reached; empty without a target."""
    if target is None or target.metric is None or target.reach is None:
        return []
    metric, reach = target.metric, target.reach
    title = MEASURES[metric].in_sentence if metric in MEASURES else metric.replace("_", " ")
    label = f"Reached {title} {reach:g}"
    found = reached(records, metric, reach)
    if found is None:
        return [(label, "no", f"not in {_rounds(records, unit)}")]
    step, traffic = found
    after = f"after {format_bytes(traffic)} sent and received"
    if phases(records):
        after = f"{pluralize(training_rounds(records, step), 'round')} of training until then; {after}"
    return [(label, f"{unit} {step}", after)]


def _rounds(records: Sequence[RecordLine], unit: str) -> str:
    """Return the number of steps that could have reached a target, as text."""
    if not phases(records):
        return pluralize(len(records), unit)
    return f"{pluralize(training_rounds(records, records[-1]['step']), 'round')} of training"


def _curves(records: Sequence[RecordLine], unit: str) -> list[Curve]:
    if len(records) < 2:
        return []
    known = measures(*records)
    curves = []
    for name, measure in known.items():
        known_in = {phase_of(record) for record in records if number(record, name) is not None}
        own = [record for record in _with_number(records, name) if phase_of(record) in known_in]
        if measure.chart and len(own) > 1:
            together = {n: known[n] for n in (name, measure.beside) if n in known}
            series = {m.title: [scaled(record, n, m) for record in own] for n, m in together.items()}
            caption = f"{measure.meaning[0].upper()}{measure.meaning[1:]}."
            steps = [record["step"] for record in own]
            curves.append(Curve(measure.title, caption, steps, series, measure.unit, unit))
    x = [record["step"] for record in records]
    totals = {name: [record[name] for record in records] for name in ("sent", "received")}
    traffic = {name: np.diff(own, prepend=0).tolist() for name, own in totals.items()}
    caption = f"Sent to the clients and received from them, in each {unit}."
    return [*curves, *client_spread(records, unit), Curve("Traffic", caption, x, traffic, "bytes", unit)]


def _notes(records: Sequence[RecordLine], unit: str, of_clients: bool, population: Population) -> list[str]:
    """Return notes on what metrics are compared with, and on events."""
    notes = _happened(records, unit, population.names)
    if not records or not records[-1]["metrics"]:
        return notes
    if not of_clients:
        return ["Class metrics use the data's labels, which no method sees.", *notes]
    used = ["the true clusters"] if population.clusters is not None else []
    used += ["test samples"] if population.tests or population.common_test is not None else []
    return [*([f"Metrics use {' and '.join(used)}, which no method sees."] if used else []), *notes]


def _lead(found: str, records: Sequence[RecordLine], data: str, asked: str = "") -> str:
    """Return what was found, what the method says of it, where the data are, and what they ask, a line each."""
    return "\n".join(line for line in (found, *method_remarks(records), data, asked) if line)


def _asked_in_words(questions: Sequence[str]) -> str:
    """Return what looks wrong in the data, the first of it in full; empty if nothing does."""
    if not questions:
        return ""
    more = len(questions) - 1
    rest = f" See the notes for {more} more." if more else ""
    return f"Something in the data looks wrong, and was used as it is: {questions[0]}{rest}"


def _happened(records: Sequence[RecordLine], unit: str, names: Sequence[str]) -> list[str]:
    """Return notes on refused and missing clients."""
    missing = [f"{unit.capitalize()} {record['step']}: {who}." for record in records for who in _missing(record, names)]
    refused = [f"Refused: {reason}" for record in records for reason in record.get("refused", [])]
    return [*dict.fromkeys(refused), *missing]


def _missing(record: RecordLine, names: Sequence[str]) -> list[str]:
    """Describe the clients missing in a step, by reason."""
    clients: dict[str, list[str]] = {}
    for client, reason in record["missing"].items():
        clients.setdefault(reason, []).append(client_name(int(client), names))
    return [
        f"client {own[0]} was missing ({reason})"
        if len(own) == 1
        else f"clients {join_words(own, _MAX_NAMES)} were missing ({reason})"
        for reason, own in clients.items()
    ]
