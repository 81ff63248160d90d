"""Content of a run's page, from its records, its clients' state and its method's figures; empty sections are left out.

Of the values in records it knows those that any method may have, see `fedkin.core.method.Record`; all else is a number
to be shown, or in a figure that the method describes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from threadpoolctl import threadpool_limits
from torch import Tensor

from fedkin.core import Client, Method
from fedkin.core.method import display_name
from fedkin.core.progress import RecordLine
from fedkin.data.population import Population, client_name, short_names
from fedkin.data.preparation import Preparation
from fedkin.data.profile import ClusterProfile
from fedkin.data.samples import thumbnails
from fedkin.data.scaling import Scaling
from fedkin.report.figures import (
    ClientClusters,
    ClusterPictures,
    Curve,
    Figure,
    Graph,
    HeatCell,
    HeatTable,
    Mark,
    PagePart,
    PageView,
    ResultTable,
    SampleMap,
    TableCell,
)
from fedkin.report.markup import name_ranges
from fedkin.report.measures import (
    TRAINING,
    Measure,
    last_number,
    measures,
    method_remarks,
    moments,
    number,
    phase_of,
    phased,
    phases,
    scaled,
    written,
)
from fedkin.report.numbers import all_of, format_bytes, join_words, pluralize
from fedkin.report.words import MIN_EFFECT, described, remarks, sentences

MapLayout = Literal["tsne", "pca", "none"]
AS_GUESSED = 0.02
"""Accuracy by which a model must be better than the most frequent class to be called so, or worse."""
_THUMBNAIL = 64
"""Side of a photograph on the page: a card of twelve stays below 200 kB."""
_MAX_ROWS = 40
"""Columns of a table that are shown; more are not read."""


def page_of_run(
    config: Any,
    population: Population,
    preparation: Preparation,
    records: Sequence[RecordLine],
    latents: LatentSample | None = None,
    profile: ClusterProfile | None = None,
    words: Sequence[Sequence[str]] = (),
) -> PageView:
    """Build the content of a run's page from its records and its clients' state.

    `config` is a `fedkin.experiment.config.Config`. Samples of clients with int64 ``state["clusters"]`` are shown by
    cluster. `records` are the lines of ``records.jsonl``; `latents` some samples in the latent representation of the
    method; `profile` that of the clusters of a table, and `words` those that distinguish clusters of texts.
    """
    run = _Run(population, records)
    clients = [client for client in population.clients if "clusters" in client.state]
    clusters = sorted({cluster for client in clients for cluster in client.state["clusters"].tolist()})
    mixtures = mixtures_of(clients, population)
    finding = run.finding() if run.clients else sample_finding(clusters, clients, mixtures, records)
    data = f"{data_sentence(config.method, population)} {run.length(finding)}"
    by_client = [_counts(clients, clusters, population.names, mixtures, profile)] if clusters else []
    return PageView(
        title=f"{display_name(type(config.method))} on {Path(config.data.source).name}",
        lead=_lead(finding, records, data, preparation.questions),
        summary=_summary(records, run.unit, config.evaluation),
        parts=[
            *_described(profile, population.names),
            *_words(words),
            *run.parts(config.method.figures(records)),
            *_pictures(clients, clusters, preparation, mixtures),
            *_map(latents, config.evaluation.map, population.classes),
            *_means(clients, clusters, preparation, population, profile),
            *run.curves(),
            *by_client,
            *_notes([*_forgotten(population), *preparation.notes, *run.sources(), *run.events_in_notes()]),
        ],
        settings={name: table for name, table in config.tables.items() if name != "tracking"},
    )


def page_of_rounds(
    title: str, figures: Sequence[Figure], records: Sequence[RecordLine], names: Sequence[str],
    evaluated: Sequence[Curve] = (),
) -> PageView:  # fmt: skip
    """Build the content of a page of rounds whose clients are known by name and replies alone.

    `figures` are the method's of these `records`, which are as in ``records.jsonl``; `names` are the clients', in order
    of id, and `evaluated` further curves.
    """
    run = _Run(Population([], None, [], [], list(names)), records)
    finding = run.finding()
    data = f"{pluralize(len(names), 'client')} took part; their samples never left them."
    return PageView(
        title=title,
        lead=_lead(finding, records, f"{data} {run.length(finding)}"),
        summary=_summary(records, run.unit),
        parts=[*run.parts(figures), *run.curves(evaluated), *_notes(run.events_in_notes())],
    )


def _notes(notes: Sequence[str]) -> list[PagePart]:
    return [PagePart("notes", "Notes", notes=notes)] if notes else []


def _lead(finding: str, records: Sequence[RecordLine], data: str, questions: Sequence[str] = ()) -> str:
    """Return what was found, what the method says of it, where the data are, and what looks wrong in them, by line."""
    wrong = ""
    if questions:
        more = f" See the notes for {len(questions) - 1} more." if questions[1:] else ""
        wrong = f"Something in the data looks wrong, and was used as it is: {questions[0]}{more}"
    return "\n".join(line for line in (finding, *method_remarks(records), data, wrong) if line)


# What records say of clients: their clusters, events, and who was missing.

DRIFTED, JOINED, PLACED = "data changed", "joined the federation", "got a first cluster"
MOVED, FOUNDED = "moved to another cluster", "founded a cluster"


class Event(NamedTuple):
    """Event of some clients, by id, at a step; `before` and `after` are clusters, or ``None`` if no client moves."""

    step: float
    what: str
    clients: Sequence[int]
    before: int | None = None
    after: int | None = None


class _Run:
    """Records of a run with what they say of its clients. Where a run has phases, its steps are not all rounds."""

    def __init__(self, population: Population, records: Sequence[RecordLine]) -> None:
        self.population, self.records = population, records
        with_labels = any("labels" in record["values"] for record in records)
        self.unit = "round" if with_labels and not phases(records) else "step"
        self.events = events_of(records, population)
        self.marks, self.caption = marks_of(self.events, self.unit)
        self.clients = self._clients() if with_labels else None

    def _names(self, clients: Iterable[int]) -> list[str]:
        return [client_name(client, self.population.names) for client in clients]

    def parts(self, figures: Sequence[Figure]) -> Iterator[PagePart]:
        """Yield the sections of a method's figures, of the clusters of clients, and of events."""
        names = short_names(self.population.names)
        if graphs := [replace(figure, clients=names) for figure in figures if isinstance(figure, Graph)]:
            yield PagePart("associations", "Matched local clusters", figures=graphs)
        if self.clients is not None:
            yield PagePart("clients", "Clusters of clients", figures=[self.clients])
        if rest := [figure for figure in figures if not isinstance(figure, Graph)]:
            yield PagePart("clustering", "How the clusters were found", figures=rest)
        if self.events:
            yield PagePart("changes", "Events", figures=[self._event_table()])

    def _clients(self) -> ClientClusters:
        records = [record for record in self.records if "labels" in record["values"]]
        labels, population = np.array([record["values"]["labels"] for record in records]).T, self.population
        hidden = [] if population.clusters is None else list(map(_letter, population.clusters.tolist()))
        last = labels[:, -1].tolist()
        scores: dict[int, list[float]] = {}
        for cluster, score in zip(last, records[-1]["metrics"].get("client_accuracy", []), strict=False):
            if score is not None and cluster >= 0:
                scores.setdefault(cluster, []).append(score)
        return ClientClusters(
            short_names(population.names) or [str(client.id) for client in population.clients],
            [record["step"] for record in records],
            labels,
            hidden,
            {cluster: float(np.mean(scores[cluster])) for cluster in sorted(scores)},
            self._sizes_in_words(records[-1]["step"], last, bool(hidden)),
            self.unit,
            self.marks,
        )

    def _sizes_in_words(self, step: int, labels: Sequence[int], hidden: bool) -> str:
        sizes = [labels.count(cluster) for cluster in sorted(set(labels)) if cluster >= 0]
        words = f" of {join_words([*map(str, sizes)])} clients"
        if len(set(sizes)) < 2:
            words = f" of {pluralize(sizes[0], 'client')}{' each' if len(sizes) > 1 else ''}" if sizes else ""
        elif len(sizes) > 8:
            words = f" of {min(sizes)} to {max(sizes)} clients"
        unknown = labels.count(-1)
        without = f", {pluralize(unknown, 'client')} without a cluster yet" if unknown else ""
        sentence = f"After {self.unit} {step}: {pluralize(len(sizes), 'cluster')}{words}{without}."
        drifted = self.population.drift is not None and self.population.drift.happened
        since = ", after the drift of some clients' data" if drifted else ""
        return f"{sentence} Letters name the true clusters, which no method sees{since}." if hidden else sentence

    def _event_table(self) -> ResultTable:
        rows = []
        for event in self.events:
            ends = ("" if end is None else str(end) for end in (event.before, event.after))
            cells = [event.what, *ends, str(len(event.clients)), name_ranges(self._names(event.clients))]
            rows.append((f"{event.step:g}", [TableCell(text) for text in cells]))
        return ResultTable("", "", self.unit, ["event", "from cluster", "to", "clients", "which"], rows)

    def finding(self) -> str:
        """Summarise the clusters of clients: number, agreement with the true ones, and accuracy of their models."""
        last = [] if self.clients is None else self.clients.clusters[:, -1].tolist()
        clusters = len({cluster for cluster in last if cluster >= 0})
        if not clusters:
            return ""
        trained = any(phase_of(record) == TRAINING for record in self.records)
        if clusters == 1 and trained:
            sentences = ["One model was trained for all clients."]
        elif clusters == len(last) and trained:
            sentences = ["Each client trained a model of its own."]
        else:
            sentences = [f"{pluralize(clusters, 'cluster')} of clients {'was' if clusters == 1 else 'were'} found."]
            ari = last_number(self.records, "ari")
            sentences += [] if ari is None else [f"{_matched('clusters', ari)}."]
        accuracy = last_number(self.records, "personal_accuracy")
        return " ".join([*sentences, *([] if accuracy is None else [_worth(accuracy, self.population)])])

    def length(self, finding: str) -> str:
        """Describe the number of steps, and their phases, of a finished or unfinished run."""
        steps, parts = pluralize(len(self.records), self.unit), phased(self.records)
        steps += f" ({parts})" if parts else ""
        return f"It took {steps}." if finding else f"So far: {steps}."

    def curves(self, evaluated: Sequence[Curve] = ()) -> list[PagePart]:
        """Return the section of all numbers over the steps."""
        if len(self.records) < 2:
            return []
        curves = [replace(curve, marks=self.marks) for curve in (*evaluated, *_curves(self.records, self.unit))]
        title = "Curves" if any(len(curve.x) > 3 for curve in curves) else "Step by step"
        caption = [self.caption] if self.caption else []
        return [PagePart("curves", title, paragraphs=caption, figures=curves)]

    def sources(self) -> list[str]:
        """Return a note on what metrics are compared with."""
        if not self.records or not self.records[-1]["metrics"]:
            return []
        if self.clients is None:
            return ["Class metrics use the data's labels, which no method sees."]
        population = self.population
        used = ["the true clusters"] if population.clusters is not None else []
        used += ["test samples"] if population.tests or population.common_test is not None else []
        return [f"Metrics use {' and '.join(used)}, which no method sees."] if used else []

    def events_in_notes(self) -> list[str]:
        """Return notes on refused and missing clients, the latter by step and reason."""
        notes = list(dict.fromkeys(f"Refused: {why}" for line in self.records for why in line.get("refused", [])))
        for record in self.records:
            by_reason: dict[str, list[int]] = {}
            for client, reason in record["missing"].items():
                by_reason.setdefault(reason, []).append(int(client))
            for reason, clients in by_reason.items():
                who = f"client {self._names(clients)[0]} was"
                if len(clients) > 1:
                    who = f"clients {join_words(self._names(clients), 12)} were"
                notes.append(f"{self.unit.capitalize()} {record['step']}: {who} missing ({reason}).")
        return notes


def events_of(records: Sequence[RecordLine], population: Population) -> list[Event]:
    """List the events up to the last record in order of step, those of the scenario before those of the method."""
    last = records[-1]["step"] if records else 0
    events = []
    if population.drift is not None and len(population.drift.clients):
        events.append(Event(population.drift.step, DRIFTED, population.drift.clients.tolist()))
    arrivals = [] if population.arrivals is None else population.arrivals.tolist()
    for step in sorted({step for step in arrivals if step > 0}):
        events.append(Event(step, JOINED, [client for client, arrival in enumerate(arrivals) if arrival == step]))
    events = [event for event in events if event.step <= last]
    for record in records:
        founded = _list(record, "founded")
        for before, after, clients in _by_way(_list(record, "moved")):
            events.append(Event(record["step"], FOUNDED if after in founded else MOVED, clients, before, after))
        newcomers = [(client, None, cluster) for client, cluster in _list(record, "newcomers")]
        for _, after, clients in _by_way(newcomers):
            events.append(Event(record["step"], PLACED, clients, None, after))
    return sorted(events, key=lambda event: event.step)


def _list(record: RecordLine, name: str) -> list[Any]:
    """Return a list in a record's values; empty where a method uses the name for another type, such as a count."""
    value = record["values"].get(name)
    return value if isinstance(value, list) else []


def _by_way(moves: Iterable[Sequence[Any]]) -> list[tuple[Any, Any, list[int]]]:
    """Group moves by the clusters from and to, with the clients of each."""
    ways: dict[tuple[Any, Any], list[int]] = {}
    for client, before, after in moves:
        ways.setdefault((before, after), []).append(client)
    in_order = sorted(ways, key=lambda way: (-1 if way[0] is None else way[0], way[1]))
    return [(before, after, ways[before, after]) for before, after in in_order]


def marks_of(events: Sequence[Event], unit: str) -> tuple[list[Mark], str]:
    """Return the marks of events in charts over the steps, which are called `unit`, and what their lines mean."""
    counts: Counter[tuple[float, str]] = Counter()
    for event in events:
        if event.what != PLACED:  # shown by the lane that begins
            counts[event.step, event.what] += len(event.clients)
    marks = [
        Mark(step, f"{pluralize(count, 'client')}: {what}", what in (MOVED, FOUNDED))
        for (step, what), count in counts.items()
    ]
    sentences = []
    for what in dict.fromkeys(what for _, what in counts):
        line = "Dashed vertical line" if what in (MOVED, FOUNDED) else "Solid vertical line"
        times = [f"{step:g}" for step, event in counts if event == what]
        when = join_words(times) if len(times) <= 8 else f"{times[0]} to {times[-1]}"
        whose = "whose" if what == DRIFTED else "that"
        sentences.append(f"{line}: clients {whose} {what}, in {unit}{'s' if len(times) > 1 else ''} {when}.")
    return marks, " ".join(sentences)


def _letter(cluster: int) -> str:
    """Return A to Z, then AA to ZZ, for a hidden cluster, to distinguish it from numbered clusters."""
    return chr(ord("A") + cluster % 26) * (cluster // 26 + 1)


# Headlines and curves.


def _summary(records: Sequence[RecordLine], unit: str, target: Any = None) -> list[tuple[str, str, str]]:
    if not records:
        return []
    named, rows = measures(*records), []
    for name, measure in named.items():
        holders = _with_number(records, name)
        if measure.headline and number(holders[-1], name) is not None:
            explanation = _explained(named, name, holders, records, unit)
            rows.append((measure.title, written(holders[-1], name, measure), explanation))
    rows += moments(records, unit, *((target.target, target.reach) if target else ()))
    traffic = format_bytes(records[-1]["sent"] + records[-1]["received"])
    return [*rows, ("Traffic", traffic, "models and statistics sent to the clients and received from them")]


def _explained(
    named: Mapping[str, Measure], name: str, holders: Sequence[RecordLine], records: Sequence[RecordLine], unit: str
) -> str:
    """Explain a headline number: its meaning, its companion number, and its first value."""
    first, last, measure = holders[0], holders[-1], named[name]
    text = measure.meaning
    if number(last, measure.beside) is not None:
        beside = named[measure.beside]
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
    holders = [record for record in records if name in record["metrics"] or name in record["values"]]
    return [record for record in holders if name != "clusters" or number(record, name) != 0] or holders


def _curves(records: Sequence[RecordLine], unit: str) -> list[Curve]:
    named, curves = measures(*records), []
    for name, measure in named.items():
        in_phases = {phase_of(record) for record in records if number(record, name) is not None}
        holders = [record for record in _with_number(records, name) if phase_of(record) in in_phases]
        if measure.chart and len(holders) > 1:
            together = {n: named[n] for n in (name, measure.beside) if n in named}
            series = {m.title: [scaled(record, n, m) for record in holders] for n, m in together.items()}
            caption = f"{measure.meaning[0].upper()}{measure.meaning[1:]}."
            steps = [record["step"] for record in holders]
            curves.append(Curve(measure.title, caption, steps, series, measure.unit, unit))
    holders = [record for record in records if "client_accuracy" in record["metrics"]]
    if len(holders) > 1:
        scores = [[s for s in record["metrics"]["client_accuracy"] if s is not None] for record in holders]
        spread = {
            name: [float(np.percentile(values, percentile)) if values else None for values in scores]
            for name, percentile in (("10th percentile", 10), ("median", 50), ("90th percentile", 90))
        }
        caption = "On each client's own test set: median, and 10th and 90th percentile over clients."
        steps = [record["step"] for record in holders]
        curves.append(Curve("Accuracy across clients", caption, steps, spread, "share", unit))
    totals = {name: [record[name] for record in records] for name in ("sent", "received")}
    traffic = {name: np.diff(bytes_so_far, prepend=0).tolist() for name, bytes_so_far in totals.items()}
    caption = f"Sent to the clients and received from them, in each {unit}."
    return [*curves, Curve("Traffic", caption, [record["step"] for record in records], traffic, "bytes", unit)]


# What was found, and in which data.


def sample_finding(
    clusters: Sequence[int], clients: Sequence[Client], mixtures: Mapping[int, ClusterMixture],
    records: Sequence[RecordLine],
) -> str:  # fmt: skip
    """Summarise the clusters of samples: number, spread across clients, and agreement with the classes."""
    if not clusters:
        return ""
    ari, mixed = last_number(records, "ari"), _mixed_in_words(list(mixtures.values()))
    if len(clusters) == 1:
        sentence = "No clusters were separated: all samples are in one."
        return sentence if ari is None or not mixed else f"{sentence} {mixed[:1].upper()}{mixed[1:]}."
    sentence = f"{len(clusters)} clusters of samples were found{_across(clusters, clients)}."
    if ari is None or not mixtures:
        return sentence
    pure = sum(mixture.fractions[0][1] >= 0.9 for mixture in mixtures.values())
    held = f"{pure} of {len(mixtures)} hold{'s' if pure == 1 else ''} one class almost alone"
    return f"{sentence} {_matched('classes', ari)}: {held}{'; ' if mixed else ''}{mixed}."


def _across(clusters: Sequence[int], clients: Sequence[Client]) -> str:
    """Describe at how many clients the clusters have samples."""
    if len(clients) < 2:
        return ""
    holders = [sum(bool((client.state["clusters"] == cluster).any()) for client in clients) for cluster in clusters]
    low, high = min(holders), max(holders)
    if low == len(clients):
        return f"; each has samples of {all_of(len(clients), 'clients')}"
    return f"; each has samples of {low if low == high else f'{low} to {high}'} of {len(clients)} clients"


def data_sentence(method: Method[Any], population: Population) -> str:
    """Describe the number of samples, and what left their clients."""
    stayed = "never left them, but synthetic copies did" if method.traits.copies_data else "never left them"
    stayed = "left them, for this method needs all data in one place" if method.sends_samples() else stayed
    if not population.clients:  # in a real federation the number of samples is not known
        return f"{pluralize(len(population.names), 'client')} took part; their samples {stayed}."
    samples = sum(len(client) for client in population.clients)
    count = len(population.clients) - len(population.forgotten)
    return f"{pluralize(count, 'client')} hold{'s' if count == 1 else ''} {samples:,} samples; these {stayed}."


def _forgotten(population: Population) -> list[str]:
    """Return a sentence on forgotten clients; empty if there are none."""
    names = [client_name(client, population.names) for client in population.forgotten]
    clients = f"client{'' if len(names) == 1 else 's'} {join_words(names)}"
    return [f"Forgotten, and part of nothing here: {clients}."] if names else []


def _matched(truth: str, ari: float) -> str:
    """Describe an agreement in the words of Steinley (2004), who calls 0.9 excellent, 0.8 good and 0.65 moderate."""
    words = ((0.9999, "exactly"), (0.9, "closely"), (0.8, "well"), (0.65, "moderately"), (0.1, "poorly"))
    word = next((word for bound, word in words if ari >= bound), "no better than chance would")
    return f"They match the true {truth} {word} (ARI {ari:.2f})"


def _worth(accuracy: float, population: Population) -> str:
    """Describe the accuracy of the clients' models, beside that of always guessing the most frequent class."""
    right = f"A client's model is right for {100 * accuracy:.0f} % of its own test samples"
    guess = guess_of(population)
    if guess is None:
        return f"{right}."
    than = "which is no better than" if accuracy <= guess + AS_GUESSED else "as against"
    than = "which is worse than" if accuracy < guess - AS_GUESSED else than
    return f"{right}, {than} {100 * guess:.0f} % by always guessing its most frequent class."


def guess_of(population: Population) -> float | None:
    """Return the mean accuracy of guessing each client's most frequent class; ``None`` where it is not known."""
    if population.drift is not None or not population.tests:
        return None
    scores = [
        float((y == torch.mode(client.y).values).double().mean())
        for client, (_, y) in zip(population.clients, population.tests, strict=False)
        if client.y is not None and len(client.y) and len(y)
    ]
    return sum(scores) / len(scores) if scores else None


# Clusters of samples: words, counts, pictures, means and a map.


class ClusterMixture(NamedTuple):
    """Composition of a cluster: names of true classes with their fractions of its samples, the largest first."""

    cluster: int
    fractions: list[tuple[str, float]]

    @property
    def is_mixed(self) -> bool:
        """Whether more than a fifth of the samples of the cluster are not of its most frequent class."""
        return self.fractions[0][1] < 0.8

    @property
    def in_words(self) -> str:
        """Classes in words, such as ``'class 8 (64 %) and class 1 (21 %)'``; only the first may be below a tenth."""
        worth = [self.fractions[0], *(fraction for fraction in self.fractions[1:3] if fraction[1] >= 0.1)]
        return join_words([f"class {name} ({100 * part:.0f} %)" for name, part in worth])


def mixtures_of(clients: Sequence[Client], population: Population) -> dict[int, ClusterMixture]:
    """Return the composition of every cluster that `clients` keep, by cluster; empty without a truth."""
    if population.truth is None or not clients:
        return {}
    truth = torch.cat([population.truth[client.id] for client in clients])
    clusters = torch.cat([client.state["clusters"] for client in clients])
    names = dict(enumerate(population.classes))
    mixtures = {}
    for cluster in clusters.unique().tolist():
        labels, counts = truth[clusters == cluster].unique(return_counts=True)
        order = counts.argsort(descending=True, stable=True)
        total, pairs = int(counts.sum()), zip(labels[order].tolist(), counts[order].tolist(), strict=True)
        fractions = [(names.get(label, str(label)), count / total) for label, count in pairs]
        mixtures[cluster] = ClusterMixture(cluster, fractions)
    return mixtures


def _mixed_in_words(mixtures: Sequence[ClusterMixture]) -> str:
    """Write a clause on the clusters that mix classes, the worst first; empty if there are none."""
    mixed = sorted((mixture for mixture in mixtures if mixture.is_mixed), key=lambda mixture: mixture.fractions[0][1])
    if not mixed:
        return ""
    named = [f"cluster {mixture.cluster} mixes {mixture.in_words}" for mixture in mixed[:3]]
    more = len(mixed) - len(named)
    return join_words([*named, f"{more} more {'is a mixture' if more == 1 else 'are mixtures'}"] if more else named)


def _described(profile: ClusterProfile | None, names: Sequence[str]) -> list[PagePart]:
    """Return the section of the clusters in words: a sentence each, a table of columns, and typical samples."""
    if profile is None:
        return []
    columns = described(profile)
    caption = (
        "Mean ± standard deviation, or the most frequent category, in the units of the data. Columns that tell the "
        "clusters apart the most come first; the effect is the share of a column's variance that lies between "
        "clusters, or the square of Cramér's V."
    )
    if len(columns) > _MAX_ROWS:
        caption += f" Shown are the first {_MAX_ROWS} of {len(columns)} columns."
    spoken, caveats = sentences(profile, names, columns), remarks(profile, names, columns)
    columns, clusters = columns[:_MAX_ROWS], range(len(profile.samples))
    rows = []
    for column in columns:
        # A cell is shaded most from one and a half standard deviations on.
        cells = [HeatCell(cell, shift / 1.5) for cell, shift in zip(column.cells, column.shifts, strict=True)]
        rows.append((column.name, [*cells, HeatCell(f"{column.effect:.2f}")]))
    faint = frozenset(column.name for column in columns if column.effect < MIN_EFFECT)
    tables = [HeatTable("Columns by cluster", caption, "column", clusters, rows, "effect", faint=faint)]
    if profile.has_typical:
        caption = (
            "A typical sample of each cluster: the mean, or the most frequent category, of the rows nearest to the "
            "cluster's middle at each client. It is nobody's row: cells of fewer than five rows of a client stay there."
        )
        rows = [(column.name, list(map(HeatCell, column.typical))) for column in columns]
        sources = [f"{count:,}" for count in profile.typical_filled.amax(1).tolist()]
        foot = [("rows that it is made of", sources)]
        tables.append(HeatTable("Typical samples", caption, "column", clusters, rows, foot=foot))
    return [PagePart("descriptions", "The clusters in words", spoken, caveats, figures=tables if columns else ())]


def _counts(
    clients: Sequence[Client], clusters: Sequence[int], names: Sequence[str], mixtures: Mapping[int, ClusterMixture],
    profile: ClusterProfile | None,
) -> PagePart:  # fmt: skip
    """Return the section of samples by client and cluster, with the most frequent classes."""
    counts = np.array([[int((client.state["clusters"] == c).sum()) for c in clusters] for client in clients])
    largest = max(int(counts.max(initial=0)), 1)
    rows = [
        (client_name(client.id, names), [*(HeatCell(f"{n}", -n / largest) for n in row), HeatCell(f"{row.sum()}")])
        for client, row in zip(clients, counts, strict=True)
    ]
    mostly = [f"{name}: {100 * part:.0f} %" for name, part in (mixture.fractions[0] for mixture in mixtures.values())]
    foot = [("most frequent class", [*mostly, ""])] if mixtures else []
    foot.append(("all", [str(int(total)) for total in (*counts.sum(axis=0), counts.sum())]))
    caption = "Samples of each client by cluster."
    if profile is not None:
        caption += (
            " The clients are simulated, so all their samples are counted; sites send no number below "
            f"{profile.min_members}, and have no such table."
        )
    table = HeatTable("", caption, "client", clusters, rows, "all", foot)
    return PagePart("table", "Samples by client and cluster", figures=[table])


def _words(words: Sequence[Sequence[str]]) -> list[PagePart]:
    """Return the section of words that distinguish clusters of texts."""
    if not any(words):
        return []
    caption = "Words that texts of a cluster hold more often than others; each is in several texts of two clients."
    rows = [(str(cluster), [TableCell(", ".join(own) or "–")]) for cluster, own in enumerate(words)]
    table = ResultTable("", caption, "cluster", ["words"], rows)
    return [PagePart("words", "What the clusters are about", figures=[table])]


def _pictures(
    clients: Sequence[Client], clusters: Sequence[int], preparation: Preparation, mixtures: Mapping[int, ClusterMixture]
) -> list[PagePart]:
    """Return the section of pictures of clusters of images, in original values, rescaled together if beyond [0, 1]."""
    are_files = bool(clients) and all(one.samples is not None and one.samples.kind == "images" for one in clients)
    if not clusters or not preparation.scaling or not (are_files or len(preparation.shape) == 3):
        return []
    if are_files:
        cards = [_photographs_of(clients, cluster) for cluster in clusters]
    else:
        cards = [_pictures_of(clients, cluster, preparation.scaling) for cluster in clusters]
    images = [pictures for card in cards for pictures in (card.mean, card.members)]
    low, high = min(float(x.min()) for x in images), max(float(x.max()) for x in images)
    if low >= -1e-3 and high <= 1 + 1e-3:  # beyond by rounding errors, less than half a shade of grey
        low, high = 0.0, 1.0

    def on_unit(x: NDArray[Any]) -> NDArray[Any]:
        return ((x - low) / (high - low or 1.0)).clip(0, 1)

    def classes(cluster: int) -> str:
        mixture = mixtures.get(cluster)
        if mixture is None:
            return ""
        return f"A mixture: {mixture.in_words}" if mixture.is_mixed else mixture.in_words.capitalize()

    cards = [
        replace(card, mean=on_unit(card.mean), members=on_unit(card.members), mostly=classes(card.cluster))
        for card in cards
    ]
    return [PagePart("pictures", "What the clusters look like", figures=cards)]


def _pictures_of(clients: Sequence[Client], cluster: int, scaling: Scaling) -> ClusterPictures:
    holders = [client for client in clients if (client.state["clusters"] == cluster).any()]
    x = torch.cat([client.x[client.state["clusters"] == cluster] for client in holders])
    if scaling.mode == "standard":
        x = (x * scaling.scale.view(1, -1, 1, 1) + scaling.mean.view(1, -1, 1, 1)).float()
    # Grey as (H, W), colour as (H, W, 3); of any other number of channels the first is shown.
    x = x.movedim(1, -1) if x.shape[1] == 3 else x[:, 0]
    spread = torch.linspace(0, len(x) - 1, min(11, len(x))).round().long()  # with the mean they fill a card
    return ClusterPictures(cluster, len(x), len(holders), x.mean(0).numpy(), x[spread].numpy())


def _photographs_of(clients: Sequence[Client], cluster: int) -> ClusterPictures:
    """Return some pictures of a cluster, cut to squares, from each client in turn; only simulations have them."""
    members = [(client, (client.state["clusters"] == cluster).nonzero()[:, 0].tolist()) for client in clients]
    holders = [(client, rows) for client, rows in members if rows]
    size = sum(len(rows) for _, rows in holders)
    each = max(1, math.ceil(11 / len(holders)))  # with the mean they fill a card
    shown = [
        thumbnails(client.samples, [rows[len(rows) * at // each] for at in range(min(each, len(rows)))], _THUMBNAIL)
        for client, rows in holders[:11]
        if client.samples is not None
    ]
    images = np.concatenate(shown)
    return ClusterPictures(cluster, size, len(holders), images.mean(0), images[:11])


def _means(
    clients: Sequence[Client], clusters: Sequence[int], preparation: Preparation, population: Population,
    profile: ClusterProfile | None,
) -> list[PagePart]:  # fmt: skip
    """Return the section of standardised means by cluster, where there is no profile, of columns that differ most."""
    if not clusters or len(preparation.shape) == 3 or profile is not None or preparation.encoder:
        return []
    x = torch.cat([client.x for client in clients]).double()
    labels = torch.cat([client.state["clusters"] for client in clients])
    spread = torch.where(x.amin(0) == x.amax(0), torch.inf, x.std(0, correction=0))
    means = torch.stack([((x - x.mean(0)) / spread)[labels == cluster].mean(0) for cluster in clusters])
    names = preparation.columns or population.features or [f"column {index + 1}" for index in range(x.shape[1])]
    shown = means.abs().amax(0).argsort(descending=True, stable=True)[:_MAX_ROWS].sort().values.tolist()
    caption = "Mean of each column by cluster, in standard deviations from the mean of all samples."
    if preparation.has_limits:
        caption += " Values far from all others count as a limit."
    if len(shown) < len(names):
        caption += f" Shown are the {len(shown)} of {len(names)} columns in which a cluster stands out most."
    finite = means[:, shown][means[:, shown].isfinite()].abs()
    largest = float(finite.max()) if len(finite) and finite.any() else 1.0
    rows = []
    for column in shown:
        values = means[:, column].tolist()
        cells = [HeatCell(f"{v:.2f}", v / largest) if np.isfinite(v) else HeatCell("–") for v in values]
        rows.append((names[column], cells))
    table = HeatTable("", caption, "feature", clusters, rows)
    return [PagePart("profiles", "Feature means of the clusters", figures=[table])]


@dataclass(frozen=True)
class LatentSample:
    """Subset of all clients' samples in a method's latent representation, with clusters and classes.

    `points` are float32 ``(m, width)``, and `clusters` int64 ``(m,)``. So are the classes, `truth`, or ``None`` where
    they are not known.
    """

    points: Tensor
    clusters: Tensor
    truth: Tensor | None


def latents_of(method: Any, population: Population, result: Mapping[str, Any], limit: int = 600) -> LatentSample | None:
    """Embed at most `limit` clustered samples, spread evenly over all clients; ``None`` if no sample has a cluster.

    The embedding is `SampleMethod.embed`; for other methods the samples themselves are returned.
    """
    holders = [client for client in population.clients if "clusters" in client.state]
    count = sum(map(len, holders))
    if not count:
        return None
    rows = torch.linspace(0, count - 1, min(limit, count), dtype=torch.float64).round().long()
    ends = torch.tensor([0, *map(len, holders)]).cumsum(0)
    pairs = [
        (client, rows[(rows >= start) & (rows < stop)] - start)
        for client, (start, stop) in zip(holders, pairwise(ends), strict=True)
    ]
    x = torch.cat([client.x[chosen] for client, chosen in pairs])
    clusters = torch.cat([client.state["clusters"][chosen] for client, chosen in pairs])
    truth = population.truth
    classes = None if truth is None else torch.cat([truth[client.id][chosen] for client, chosen in pairs])
    points = method.embed(result, x) if method.traits.clusters == "samples" else x.flatten(1)
    return LatentSample(points, clusters, classes)


_CAPTIONS = {
    "tsne": "t-SNE of the representation that clusters were found in: neighbours lie together, distances between "
    "islands mean little.",
    "pca": "First two principal components of the representation that clusters were found in.",
}


def _map(latents: LatentSample | None, layout: MapLayout, classes: Sequence[str]) -> list[PagePart]:
    """Return the section of samples projected to the plane, by their clusters and, where known, their classes."""
    if latents is None or layout == "none":
        return []
    points, clusters = latents.points.double().numpy(), latents.clusters.numpy()
    # t-SNE starts from two components, and needs some neighbours that differ.
    if len(points) < 12 or points.shape[1] < 2 or not np.ptp(points, axis=0).any():
        layout = "pca"
    places = _neighbours(points) if layout == "tsne" else _components(points)
    caption = f"{len(points):,} samples of all clients. {_CAPTIONS[layout]}"
    names = {cluster: f"Cluster {cluster}" for cluster in np.unique(clusters).tolist()}
    maps = [SampleMap("By cluster found", places, clusters, names)]
    if latents.truth is not None:
        truth, class_names = latents.truth.numpy(), dict(enumerate(classes))
        names = {label: class_names.get(label, f"Class {label}") for label in np.unique(truth).tolist()}
        maps.append(SampleMap("By true class", places, truth, names, _colours(truth, clusters)))
        caption += " A class has the colour of the cluster that most stands for it."
    return [PagePart("map", "Map of the samples", paragraphs=[caption], figures=maps)]


def _colours(truth: NDArray[Any], clusters: NDArray[Any]) -> dict[int, int]:
    """Return the cluster matched one to one with each class; unmatched classes get numbers beyond all clusters."""
    classes, numbers = np.unique(truth).tolist(), np.unique(clusters[clusters >= 0]).tolist()
    counts = np.array([[int(((truth == label) & (clusters == c)).sum()) for c in numbers] for label in classes])
    rows, columns = linear_sum_assignment(counts, maximize=True) if numbers else ([], [])
    matched = {classes[row]: numbers[column] for row, column in zip(rows, columns, strict=True)}
    free = 1 + max(numbers, default=-1)
    rest = [label for label in classes if label not in matched]
    return matched | {label: free + turn for turn, label in enumerate(rest)}


def _neighbours(points: NDArray[Any]) -> NDArray[Any]:
    from sklearn.manifold import TSNE

    perplexity = min(30.0, (len(points) - 1) / 3)
    with threadpool_limits(1, user_api="openmp"):  # sums over several threads depend on which is first
        search = TSNE(perplexity=perplexity, init="pca", max_iter=500, random_state=0, n_jobs=1)
        return np.asarray(search.fit_transform(points.astype(np.float32)), dtype=np.float64)


def _components(points: NDArray[Any]) -> NDArray[Any]:
    directions, scale, _ = np.linalg.svd(points - points.mean(0), full_matrices=False)
    places = np.zeros((len(points), 2))
    width = min(2, len(scale))
    places[:, :width] = directions[:, :width] * scale[:width]
    return places
