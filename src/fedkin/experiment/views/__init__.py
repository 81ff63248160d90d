"""What the report of a run shows, whatever the method.

Words come from `fedkin.experiment.words`, and what there is to see from the run's records and from what clients hold: clusters of
samples (`samples`) and where they lie (`maps`), associations of local clusters (`associations`), clusters of clients
(`clients`), how they were found (`clustering`) and what happened meanwhile (`changes`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedkin.core.method import display_name
from fedkin.data.population import Population
from fedkin.data.preparing.scaling import Scaling
from fedkin.experiment.config import Config
from fedkin.experiment.views.association_views import graphs
from fedkin.experiment.views.change_views import changes, timeline
from fedkin.experiment.views.client_views import client_clusters, client_spread, tells_clusters
from fedkin.experiment.views.clustering_views import clustering_of
from fedkin.experiment.views.map_views import MapPoints, sample_map
from fedkin.experiment.views.sample_views import cluster_pictures, cluster_profiles, cluster_table
from fedkin.experiment.words import (
    MEASURES,
    TRAINING,
    Measure,
    formed,
    many,
    measures,
    number,
    phase_of,
    phased,
    phases,
    reached,
    scaled,
    size,
    training_rounds,
    warnings_of,
    written,
)
from fedkin.report import ClientClusters, Curve, RunView

RecordLine = dict[str, Any]

_NAMED = 12


def view_of(
    config: Config,
    population: Population,
    scaling: Scaling,
    records: Sequence[RecordLine],
    latents: MapPoints | None = None,
) -> RunView:
    """The page's content, from the run's records and from what clients hold.

    Parameters
    ----------
    config : Config
        The experiment.
    population : Population
        Its clients; those with int64 ``state["clusters"]`` are shown by cluster.
    scaling : Scaling
        How their data were scaled.
    records : sequence of dict
        The lines of ``records.jsonl``.
    latents : Points, optional
        Some samples in the representation that clusters were found in.
    """
    clients = [client for client in population.clients if "clusters" in client.state]
    clusters = sorted({cluster for client in clients for cluster in client.state["clusters"].tolist()})
    is_image = len(scaling.shape) == 3
    # Where a run has phases, its steps are not all rounds.
    unit = "round" if tells_clusters(records) and not phases(records) else "step"
    clients_clustered = client_clusters(records, population, unit)
    findings, bars = clustering_of(records)
    changed = changes(records, population)
    return RunView(
        title=f"{display_name(type(config.method))} on {Path(config.data.source).name}",
        lead=_lead(population, _found(clusters, clients_clustered, records), _steps(records, unit)),
        summary=_summary(config, records, unit),
        curves=_curves(records, unit),
        graphs=graphs(records),
        clients=clients_clustered,
        table=cluster_table(clients, clusters, population.names) if clusters else None,
        pictures=cluster_pictures(clients, clusters, scaling) if is_image else (),
        profiles=cluster_profiles(clients, clusters, population.features) if clusters and not is_image else None,
        map=None if latents is None else sample_map(latents, config.evaluation.map, population.classes),
        notes=_notes(records, unit, clients_clustered is not None),
        findings=findings,
        bars=bars,
        changes=changed,
        timeline=timeline(records, changed, unit),
        settings={name: table for name, table in config.tables.items() if name != "tracking"},
    )


def _steps(records: Sequence[RecordLine], unit: str) -> str:
    """How many steps there are, and of which phases."""
    steps, parts = many(len(records), unit), phased(records)
    return f"{steps} ({parts})" if parts else steps


def _found(clusters: Sequence[int], clients: ClientClusters | None, records: Sequence[RecordLine]) -> str:
    """What a run has found, as a clause; empty if nothing."""
    if clients is None:
        return f"{many(len(clusters), 'cluster')} were found across them" if clusters else ""
    found = len({cluster for cluster in clients.clusters[:, -1].tolist() if cluster >= 0})
    if not any(phase_of(record) == TRAINING for record in records):
        return f"{many(found, 'cluster')} of clients {'was' if found == 1 else 'were'} found" if found else ""
    if found == 1:
        return "one model was trained for all of them"
    if found == len(clients.clients):
        return "each of them trained a model of its own"
    return f"{many(found, 'cluster')} of clients were found" if found else ""


def _lead(population: Population, found: str, steps: str) -> str:
    end = f"In {steps}, {found}." if found else f"So far: {steps}."
    if not population.clients:  # they are elsewhere, and how much they hold is theirs to know
        return f"{many(len(population.names), 'site')} took part; their samples never left them. {end}"
    samples = sum(len(client) for client in population.clients)
    return f"{many(len(population.clients), 'site')} hold {samples:,} samples, which never left them. {end}"


def _summary(config: Config, records: Sequence[RecordLine], unit: str) -> list[tuple[str, str, str]]:
    if not records:
        return []
    known = measures(*records)
    rows = []
    for name, measure in known.items():
        told = _telling(records, name)
        if measure.headline and number(told[-1], name) is not None:
            rows.append((measure.title, written(told[-1], name, measure), _explained(known, name, told, records, unit)))
    last = records[-1]
    rows += _trigger(records, unit) + _target(config, records, unit)
    crossed = size(last["sent"] + last["received"])
    return [*rows, ("Traffic", crossed, "of models and statistics, to the clients and from them")]


def _explained(
    known: Mapping[str, Measure], name: str, told: Sequence[RecordLine], records: Sequence[RecordLine], unit: str
) -> str:
    """What a number means, what goes with it, and where it came from."""
    first, last, measure = told[0], told[-1], known[name]
    text = measure.meaning
    if number(last, measure.beside) is not None:
        beside = known[measure.beside]
        text += f"; {beside.title.lower()}: {written(last, measure.beside, beside)}"
    if last is not records[-1]:
        text += f"; as of {unit} {last['step']}"
    if number(first, name) != number(last, name):
        when = f"the first {unit}" if first is records[0] else f"{unit} {first['step']}"
        text += f"; after {when} {written(first, name, measure)}"
    return text


def _telling(records: Sequence[RecordLine], name: str) -> list[RecordLine]:
    """The records that speak of a number; models are not tried on test samples in every step.

    Where no client has a cluster yet, that there are none says nothing.
    """
    told = [record for record in records if name in record["metrics"] or name in record["values"]]
    return [record for record in told if name != "clusters" or number(record, name) != 0] or told


def _in_its_phases(records: Sequence[RecordLine], name: str) -> list[RecordLine]:
    """The records of those phases in which a number is known at all."""
    known = {phase_of(record) for record in records if number(record, name) is not None}
    return [record for record in records if phase_of(record) in known]


def _trigger(records: Sequence[RecordLine], unit: str) -> list[tuple[str, str, str]]:
    """When a method that waits for a sign formed its clusters."""
    if not any("fired" in record["values"] for record in records):
        return []
    step = formed(records)
    if step is None:
        return [("Clusters formed", "not yet", "the sign that the method waits for has not come")]
    return [("Clusters formed", f"{unit} {step}", "when the sign came that the method waits for")]


def _target(config: Config, records: Sequence[RecordLine], unit: str) -> list[tuple[str, str, str]]:
    """When the number was reached that the experiment names as its target."""
    metric, reach = config.target.metric, config.target.reach
    if metric is None or reach is None:
        return []
    title = MEASURES[metric].title if metric in MEASURES else metric.replace("_", " ")
    label = f"Reached {title[0].lower()}{title[1:]} {reach:g}"
    found = reached(records, metric, reach)
    if found is None:
        return [(label, "no", f"not in {_rounds(records, unit)}")]
    step, crossed = found
    after = f"after {size(crossed)} to the clients and from them"
    if phases(records):
        after = f"{many(training_rounds(records, step), 'round')} of training until then; {after}"
    return [(label, f"{unit} {step}", after)]


def _rounds(records: Sequence[RecordLine], unit: str) -> str:
    """How many steps could have reached a target."""
    if not phases(records):
        return many(len(records), unit)
    return f"{many(training_rounds(records, records[-1]['step']), 'round')} of training"


def _curves(records: Sequence[RecordLine], unit: str) -> list[Curve]:
    if len(records) < 2:
        return []
    known = measures(*records)
    curves = []
    for name, measure in known.items():
        told = _in_its_phases(_telling(records, name), name)
        if measure.chart and len(told) > 1:
            drawn = {n: known[n] for n in (name, measure.beside) if n in known}
            series = {m.title: [scaled(record, n, m) for record in told] for n, m in drawn.items()}
            caption = f"{measure.meaning[0].upper()}{measure.meaning[1:]}."
            steps = [record["step"] for record in told]
            curves.append(Curve(measure.title, caption, steps, series, measure.unit, unit))
    x = [record["step"] for record in records]
    traffic = {name: _increments([record[name] for record in records]) for name in ("sent", "received")}
    caption = f"Sent to the clients and received from them, in each {unit}."
    return [*curves, *client_spread(records, unit), Curve("Traffic", caption, x, traffic, "bytes", unit)]


def _increments(totals: Sequence[float]) -> list[float]:
    return [after - before for before, after in zip([0, *totals], totals, strict=False)]


def _notes(records: Sequence[RecordLine], unit: str, of_clients: bool) -> list[str]:
    """What a method warns of, and who was missing when.

    First comes what numbers are compared with, which depends on whether clusters are of clients.
    """
    missing = [f"{unit.capitalize()} {record['step']}: {told}." for record in records for told in _missing(record)]
    notes = [*warnings_of(records), *missing]
    if not records or not records[-1]["metrics"]:
        return notes
    if not of_clients:
        return ["Whatever is said of classes compares with the labels that came with the data.", *notes]
    return ["Hidden clusters and test samples only serve to judge what was found; no method sees them.", *notes]


def _missing(record: RecordLine) -> list[str]:
    """Who was missing in a step, by reason."""
    sites: dict[str, list[str]] = {}
    for site, reason in record["missing"].items():
        sites.setdefault(reason, []).append(site)
    return [
        f"client {own[0]} was missing ({reason})" if len(own) == 1 else f"clients {_few(own)} were missing ({reason})"
        for reason, own in sites.items()
    ]


def _few(names: Sequence[str]) -> str:
    listed, more = names[:_NAMED], len(names) - _NAMED
    return f"{', '.join(listed)} and {more} more" if more > 0 else f"{', '.join(listed[:-1])} and {listed[-1]}"
