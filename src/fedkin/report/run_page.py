"""Content of a run's page: sections, each a function of the run; those that have nothing to show are left out.

Of the values in records it knows those that any method may have, see `fedkin.core.method.Record`; all else is a number
to be shown, or in a figure that the method describes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedkin.core import Client, Method
from fedkin.core.method import Nodes, display_name
from fedkin.core.runner import RecordLine
from fedkin.data.encoding import Encoding
from fedkin.data.population import Population, client_name, short_names
from fedkin.data.preparation import Preparation
from fedkin.data.profile import ClusterProfile
from fedkin.data.samples import thumbnails
from fedkin.report import figures as fig
from fedkin.report.markup import name_ranges
from fedkin.report.measures import (
    TRAINING,
    clustering_step,
    last_number,
    measures,
    method_remarks,
    number,
    phase_of,
    phased,
    phases,
    scaled,
    written,
)
from fedkin.report.numbers import all_of, format_bytes, join_words, pluralize
from fedkin.report.sample_map import MapLayout, map_of_nodes, map_of_samples, with_scales
from fedkin.report.words import MIN_EFFECT, NOTHING, described, remarks, sentences

_MAX_ROWS = 40
"""Columns of a table that are shown; more are not read."""
_MEMBERS = 11
"""Pictures of a cluster that fill a card, with their mean."""

Classes = Mapping[int, list[tuple[str, float]]]
"""By cluster, names of true classes with their fractions of its samples, the largest first."""


@dataclass(frozen=True)
class _Run:
    """What is known of a run when its page is written: its records, its clients' state and its method's figures."""

    population: Population
    records: Sequence[RecordLine]
    figures: Sequence[fig.Figure] = ()
    preparation: Preparation = field(default_factory=lambda: Preparation(Encoding.unchanged("none", (1,))))
    method: Any = None
    result: Mapping[str, Any] | None = None
    layout: MapLayout = "none"
    profile: ClusterProfile | None = None
    words: Sequence[Sequence[str]] = ()
    nodes: Nodes | None = None

    @cached_property
    def rounds(self) -> list[RecordLine]:
        return [record for record in self.records if "labels" in record["values"]]

    @cached_property
    def unit(self) -> str:
        # Where a run has phases, its steps are not all rounds.
        return "round" if self.rounds and not phases(self.records) else "step"

    @cached_property
    def clients(self) -> list[Client]:
        return [client for client in self.population.clients if "clusters" in client.state]

    @cached_property
    def clusters(self) -> list[int]:
        return sorted({cluster for client in self.clients for cluster in client.state["clusters"].tolist()})

    @cached_property
    def classes(self) -> Classes:
        return classes_of(self.clients, self.population)

    @cached_property
    def marks(self) -> list[fig.Mark]:
        return marks_of(self.records, self.population)

    @cached_property
    def finding(self) -> str:
        return _client_finding(self) if self.rounds else _sample_finding(self)

    @cached_property
    def length(self) -> str:
        steps, parts = pluralize(len(self.records), self.unit), phased(self.records)
        steps += f" ({parts})" if parts else ""
        return f"It took {steps}." if self.finding else f"So far: {steps}."

    def names(self, clients: Sequence[int]) -> list[str]:
        return [client_name(client, self.population.names) for client in clients]


def page_of_run(
    config: Any,
    population: Population,
    preparation: Preparation,
    records: Sequence[RecordLine],
    result: Mapping[str, Any] | None = None,
    profile: ClusterProfile | None = None,
    words: Sequence[Sequence[str]] = (),
    nodes: Nodes | None = None,
    further: Sequence[fig.PagePart] = (),
) -> fig.PageView:
    """Build the content of a run's page from its records and its clients' state.

    `config` is a `fedkin.experiment.config.Config`. Samples of clients with int64 ``state["clusters"]`` are shown by
    cluster. `records` are the lines of ``records.jsonl``; `result` is the method's, of a finished run; `profile` that
    of the clusters of a table, `words` those that distinguish clusters of texts, `nodes` the groups of samples that the
    server has, and `further` are other sections.
    """
    figures, evaluation = config.method.figures(records), config.evaluation
    run = _Run(population, records, figures, preparation, config.method, result, evaluation.map, profile, words, nodes)
    data = f"{data_sentence(config.method, population)} {run.length}"
    lines = [run.finding, _whose_form(config), *method_remarks(records), data]
    if questions := preparation.questions:
        more = f" See the notes for {len(questions) - 1} more." if questions[1:] else ""
        lines.append(f"Something in the data looks wrong, and was used as it is: {questions[0]}{more}")
    return fig.PageView(
        title=f"{display_name(type(config.method))} on {Path(config.data.source).name}",
        lead="\n".join(filter(None, lines)),
        summary=_summary(run),
        parts=[*_sections(run), *further],
        settings=config.tables,
    )


def _whose_form(config: Any) -> str:
    """Return a sentence on whose form the method's options are, where the paper's are others than the defaults."""
    form, name = config.method.traits.form(config.tables["method"]), display_name(type(config.method))
    hint = "; method.variant = 'paper' has the paper's" if form == "fedkin's form" else ""
    return f"Options are {form} of {name}{hint}." if form else ""


def page_of_rounds(
    title: str, figures: Sequence[fig.Figure], records: Sequence[RecordLine], names: Sequence[str]
) -> fig.PageView:
    """Build the content of a page of rounds whose clients are known by name and replies alone.

    `figures` are the method's of these `records`, which are as in ``records.jsonl``; `names` are the clients', in order
    of id.
    """
    run = _Run(Population([], None, [], [], list(names)), records, figures)
    data = f"{pluralize(len(names), 'client')} took part; their samples never left them. {run.length}"
    lead = "\n".join(filter(None, [run.finding, *method_remarks(records), data]))
    return fig.PageView(title=title, lead=lead, summary=_summary(run), parts=_sections(run))


def page_of_fit(
    title: str,
    figures: Sequence[fig.Figure],
    records: Sequence[RecordLine],
    population: Population,
    preparation: Preparation,
    profile: ClusterProfile | None = None,
) -> fig.PageView:
    """Build the content of a page of what a fitted model knows, without its samples.

    The population's clients have as many samples as there were, without values; `records` are as in ``records.jsonl``.
    """
    run = _Run(population, records, figures, preparation, profile=profile)
    return fig.PageView(title, parts=_sections(run, (_descriptions, _members, _clustering, _counts, _curves)))


def page_of_client(client: Client, name: str, ids: Sequence[str] = (), id_name: str = "row") -> fig.PageView:
    """Build a client's own page, which stays there: its samples with clusters on a map, by `ids` if there are any."""
    alone = Population([replace(client, id=0)], None, [], names=[name])
    drawn = map_of_samples(None, {}, alone.clients, alone, "tsne")
    parts = []
    if drawn is not None:
        view = drawn[0]
        view = replace(view, ids=[ids[int(row)] for row in view.ids], id_name=id_name) if ids else view
        parts = [fig.PagePart("map", "Map of the samples", figures=[view])]
    lead = f"This page is of {pluralize(len(client), 'row')} of {name}, and stays there."
    return fig.PageView(f"Clusters of {name}", lead, parts=parts)


# What was found, and in which data.


def _client_finding(run: _Run) -> str:
    """Summarise the clusters of clients: number, agreement with the true ones, and accuracy of their models."""
    last = run.rounds[-1]["values"]["labels"]
    clusters = len(set(last) - {-1})
    if not clusters:
        return ""
    trained = any(phase_of(record) == TRAINING for record in run.records)
    ari, accuracy = last_number(run.records, "ari"), last_number(run.records, "personal_accuracy")
    if clusters == 1 and trained:
        finding = "One model was trained for all clients."
    elif clusters == len(last) and trained:
        finding = "Each client trained a model of its own."
    else:
        finding = f"{pluralize(clusters, 'cluster')} of clients {'was' if clusters == 1 else 'were'} found."
        finding += "" if ari is None else f" {_matched('clusters', ari)}."
    if accuracy is None:
        return finding
    return f"{finding} A client's model is right for {100 * accuracy:.0f} % of its own test samples."


def _sample_finding(run: _Run) -> str:
    """Summarise the clusters of samples: number, spread across clients, and agreement with the classes."""
    if not run.clusters:
        return ""
    if len(run.clusters) == 1:
        return "No clusters were separated: all samples are in one."
    holders = [sum(bool((client.state["clusters"] == c).any()) for client in run.clients) for c in run.clusters]
    low, high, count = min(holders), max(holders), len(run.clients)
    across = (
        all_of(count, "clients") if low == count else f"{low if low == high else f'{low} to {high}'} of {count} clients"
    )
    finding = f"{len(run.clusters)} clusters of samples were found"
    finding += f"; each has samples of {across}." if count > 1 else "."
    ari = last_number(run.records, "ari")
    if ari is None or not run.classes:
        return finding
    pure = sum(fractions[0][1] >= 0.9 for fractions in run.classes.values())
    held = f"{pure} of {len(run.classes)} hold{'s' if pure == 1 else ''} one class almost alone"
    return f"{finding} {_matched('classes', ari)}: {held}."


def _matched(truth: str, ari: float) -> str:
    """Describe an agreement in the words of Steinley (2004), who calls 0.9 excellent, 0.8 good and 0.65 moderate."""
    words = ((0.9999, "exactly"), (0.9, "closely"), (0.8, "well"), (0.65, "moderately"), (0.1, "poorly"))
    word = next((word for bound, word in words if ari >= bound), "no better than chance would")
    return f"They match the true {truth} {word} (ARI {ari:.2f})"


def classes_of(clients: Sequence[Client], population: Population) -> Classes:
    """Return the true classes of every cluster that `clients` have; empty where they are not known."""
    if population.truth is None or not clients:
        return {}
    truth = torch.cat([population.truth[client.id] for client in clients])
    clusters = torch.cat([client.state["clusters"] for client in clients])
    names = dict(enumerate(population.classes))
    classes = {}
    for cluster in clusters.unique().tolist():
        counts = Counter(sorted(truth[clusters == cluster].tolist())).most_common()
        classes[cluster] = [(names.get(label, str(label)), n / sum(m for _, m in counts)) for label, n in counts]
    return classes


def _classes_in_words(fractions: Sequence[tuple[str, float]]) -> str:
    """Name classes, such as ``'Class 8 (64 %) and class 1 (21 %)'``; only the first may be below a tenth."""
    named = [fractions[0], *(fraction for fraction in fractions[1:3] if fraction[1] >= 0.1)]
    return f"C{join_words([f'class {name} ({100 * part:.0f} %)' for name, part in named])[1:]}"


def data_sentence(method: Method[Any], population: Population) -> str:
    """Describe the number of samples, and what left their clients."""
    stayed = "never left them, but synthetic copies did" if method.traits.copies_data else "never left them"
    stayed = "left them, for this method needs all data in one place" if method.sends_samples() else stayed
    if not population.clients:  # in a real federation the number of samples is not known
        return f"{pluralize(len(population.names), 'client')} took part; their samples {stayed}."
    samples = sum(len(client) for client in population.clients)
    count = len(population.clients) - len(population.forgotten)
    return f"{pluralize(count, 'client')} hold{'s' if count == 1 else ''} {samples:,} samples; these {stayed}."


def _summary(run: _Run) -> list[tuple[str, str, str]]:
    """Return the headline numbers: what each is, and the one beside it."""
    records, rows = run.records, []
    if not records:
        return []
    named = measures(*records)
    for name, measure in named.items():
        # Models are not evaluated in every step.
        holders = [record for record in records if name in record["metrics"] or name in record["values"]]
        if measure.headline and number(holders[-1], name) is not None:
            explanation, last = measure.meaning, written(holders[-1], name, measure)
            if (beside := named.get(measure.beside)) and number(holders[-1], measure.beside) is not None:
                explanation += f"; {beside.in_sentence}: {written(holders[-1], measure.beside, beside)}"
            rows.append((measure.title, last, explanation))
    if any("fired" in record["values"] for record in records):
        step = clustering_step(records)
        rows.append(("Clusters formed", "not yet" if step is None else f"{run.unit} {step}", "when the trigger fired"))
    traffic = format_bytes(records[-1]["sent"] + records[-1]["received"])
    return [*rows, ("Traffic", traffic, "models and statistics sent to the clients and received from them")]


def marks_of(records: Sequence[RecordLine], population: Population) -> list[fig.Mark]:
    """Return what the scenario did to clients up to the last record."""
    last = records[-1]["step"] if records else 0
    marks = []
    if population.drift is not None and len(population.drift.clients):
        marks.append(
            fig.Mark(population.drift.step, f"{pluralize(len(population.drift.clients), 'client')}: data changed")
        )
    arrivals = Counter([] if population.arrivals is None else population.arrivals.tolist())
    marks += [fig.Mark(step, f"{pluralize(n, 'client')} joined") for step, n in sorted(arrivals.items()) if step > 0]
    return sorted((mark for mark in marks if mark.step <= last), key=lambda mark: mark.step)


# Sections, in the order of the page.


def _descriptions(run: _Run) -> fig.PagePart | None:
    """Show the clusters of a table in words: a sentence each, and a table of columns with typical samples."""
    profile, names = run.profile, run.population.names
    if profile is None:
        return None
    columns = described(profile)
    spoken, caveats = sentences(profile, names, columns), remarks(profile, names, columns)
    caption = (
        "Mean ± standard deviation, or the most frequent category, in the units of the data. Columns that tell the "
        "clusters apart the most come first. The effect is 0 where clusters do not differ in a column, and 1 where it "
        "alone tells them apart: the share of its variance between clusters, or Cramér's V squared."
    )
    if len(columns) > _MAX_ROWS:
        caption += f" Shown are the first {_MAX_ROWS} of {len(columns)} columns."
    columns = columns[:_MAX_ROWS]
    rows, foot = [], []
    for column in columns:
        # A cell is shaded most from one and a half standard deviations on.
        typical = [f"typical {text}" if text != NOTHING else "" for text in column.typical] or [""] * len(column.cells)
        # A cell is shaded most from one and a half standard deviations on.
        cells = [
            fig.TableCell(cell, beside, shade=shift / 1.5)
            for cell, beside, shift in zip(column.cells, typical, column.shifts, strict=True)
        ]
        rows.append((column.name, [*cells, fig.TableCell(f"{column.effect:.2f}")]))
    faint = frozenset(column.name for column in columns if column.effect < MIN_EFFECT)
    heads = [*range(len(profile.samples)), "effect"]
    if profile.has_typical:
        caption += (
            " Below it, a typical sample: the mean, or the most frequent category, of the rows nearest to the "
            "cluster's middle at each client. It is nobody's row: cells of fewer than five rows of a client stay there."
        )
        made_of = [*(fig.TableCell(f"{n:,}") for n in profile.typical_filled.amax(1).tolist()), fig.TableCell("")]
        foot = [("rows of the typical sample", made_of)]
    faint = frozenset(column.name for column in columns if column.effect < MIN_EFFECT)
    heads = [*range(len(profile.samples)), "effect"]
    tables = [fig.ResultTable("Columns by cluster", caption, "column", heads, rows, foot=foot, faint=faint)]
    return fig.PagePart("descriptions", "The clusters in words", spoken, caveats, figures=tables if columns else ())


def _words(run: _Run) -> fig.PagePart | None:
    """Show the words that distinguish clusters of texts."""
    if not any(run.words):
        return None
    caption = "Words that texts of a cluster hold more often than others; each is in several texts of two clients."
    rows = [(str(cluster), [fig.TableCell(", ".join(words) or "–")]) for cluster, words in enumerate(run.words)]
    return fig.PagePart(
        "words", "What the clusters are about", figures=[fig.ResultTable("", caption, "cluster", ["words"], rows)]
    )


def _members(run: _Run) -> fig.PagePart | None:
    """Show the cluster of each client over the rounds."""
    if not run.rounds:
        return None
    labels, population = np.array([record["values"]["labels"] for record in run.rounds]).T, run.population
    last, metrics = labels[:, -1].tolist(), run.rounds[-1]["metrics"]
    # True clusters have letters, A to Z and then AA to ZZ, since clusters found have numbers.
    hidden = [] if population.clusters is None else population.clusters.tolist()
    unknown = f", {pluralize(last.count(-1), 'client')} in none yet" if -1 in last else ""
    caption = f"After {run.unit} {run.rounds[-1]['step']}: {pluralize(len(set(last) - {-1}), 'cluster')}{unknown}."
    if hidden:
        drifted = population.drift is not None and population.drift.happened
        since = ", after the drift of some clients' data" if drifted else ""
        caption += f" Letters name the true clusters, which no method sees{since}."
    names = short_names(population.names) or [str(client.id) for client in population.clients]
    scores, rows = metrics.get("client_accuracy", []), []
    for cluster in sorted(set(last), key=lambda key: (key < 0, key)):
        members = [client for client, label in enumerate(last) if label == cluster]
        texts = [str(len(members))]
        if hidden:
            letters = [chr(ord("A") + hidden[client] % 26) * (hidden[client] // 26 + 1) for client in members]
            texts.append(", ".join(f"{count} {name}" for name, count in Counter(sorted(letters)).most_common()))
        if scores:
            accuracies = [scores[client] for client in members if scores[client] is not None]
            texts.append(f"{np.mean(accuracies):.3f}" if accuracies and cluster >= 0 else "–")
        rows.append((cluster, [*map(fig.TableCell, [*texts, name_ranges([names[client] for client in members])])]))
    heads = ["clients", *(["true clusters"] if hidden else []), *(["accuracy"] if scores else []), "which"]
    table = fig.ResultTable("", caption, "cluster", heads, rows)
    return fig.PagePart("clients", "Clusters of clients", figures=[table])


def _clustering(run: _Run) -> fig.PagePart | None:
    """Show the method's own figures."""
    figures = [figure for figure in run.figures if not isinstance(figure, fig.Curve)]
    return fig.PagePart("clustering", "How the clusters were found", figures=figures) if figures else None


def _pictures(run: _Run) -> fig.PagePart | None:
    """Show pictures of clusters of images, in original values, rescaled together if beyond [0, 1]."""
    are_files = bool(run.clients) and all(c.samples is not None and c.samples.kind == "images" for c in run.clients)
    if not run.clusters or run.preparation.table is not None or not (are_files or len(run.preparation.shape) == 3):
        return None
    cards = [_photographs(run, cluster) if are_files else _tensor_images(run, cluster) for cluster in run.clusters]
    images = [pictures for card in cards for pictures in (card.mean, card.members)]
    low, high = min(float(x.min()) for x in images), max(float(x.max()) for x in images)
    if low >= -1e-3 and high <= 1 + 1e-3:  # beyond by rounding errors, less than half a shade of grey
        low, high = 0.0, 1.0
    figures = []
    for card in cards:
        mean, members = (((x - low) / (high - low or 1.0)).clip(0, 1) for x in (card.mean, card.members))
        mostly = _classes_in_words(run.classes[card.cluster]) if run.classes else ""
        figures.append(replace(card, mean=mean, members=members, mostly=mostly))
    return fig.PagePart("pictures", "What the clusters look like", figures=figures)


def _tensor_images(run: _Run, cluster: int) -> fig.ClusterPictures:
    scaling, members = run.preparation.encoding, [(c, c.state["clusters"] == cluster) for c in run.clients]
    x = torch.cat([client.x[inside] for client, inside in members if inside.any()])
    if scaling.mode == "standard":
        x = (x * scaling.scale.view(1, -1, 1, 1) + scaling.mean.view(1, -1, 1, 1)).float()
    # Grey as (H, W), colour as (H, W, 3); of any other number of channels the first is shown.
    x = x.movedim(1, -1) if x.shape[1] == 3 else x[:, 0]
    spread = torch.linspace(0, len(x) - 1, min(_MEMBERS, len(x))).round().long()
    holders = sum(bool(inside.any()) for _, inside in members)
    return fig.ClusterPictures(cluster, len(x), holders, x.mean(0).numpy(), x[spread].numpy())


def _photographs(run: _Run, cluster: int) -> fig.ClusterPictures:
    """Return pictures of a cluster, cut to squares: that of the middle embedding, as a mean of photographs is grey, and
    some of each client in turn; only simulations have them.
    """
    members = [(client, (client.state["clusters"] == cluster).nonzero()[:, 0].tolist()) for client in run.clients]
    holders = [(client, rows) for client, rows in members if rows]
    each = math.ceil(_MEMBERS / len(holders))
    side = 64  # a card of twelve then stays below 200 kB
    images = np.concatenate([
        thumbnails(client.samples, [rows[len(rows) * turn // each] for turn in range(min(each, len(rows)))], side)
        for client, rows in holders[:_MEMBERS]
        if client.samples is not None
    ])  # fmt: skip
    places = [(client, row) for client, rows in holders for row in rows]
    x = torch.stack([client.x[row].flatten() for client, row in places])
    client, row = places[int((x - x.mean(0)).square().sum(1).argmin())]
    assert client.samples is not None
    middle = thumbnails(client.samples, [row], side)[0]
    return fig.ClusterPictures(cluster, len(places), len(holders), middle, images[:_MEMBERS])


def _map(run: _Run) -> fig.PagePart | None:
    """Show some samples, or the groups of them that the server has, in the plane."""
    if run.result is None:
        return None
    title, drawn = "Map of the samples", map_of_samples(run.method, run.result, run.clients, run.population, run.layout)
    if drawn is None and run.nodes is not None and not run.population.clients:
        title, drawn = "Map of the micro-clusters", map_of_nodes(run.nodes, run.population.names, run.layout)
    if drawn is None:
        return None
    spoken = [] if run.profile is None else sentences(run.profile, run.population.names)
    view = with_scales(drawn, run.nodes, spoken)
    return fig.PagePart("map", title, figures=[view])


def _means(run: _Run) -> fig.PagePart | None:
    """Show standardised means of numbers without a profile, of the columns that differ most."""
    preparation = run.preparation
    if not run.clusters or len(preparation.shape) == 3 or run.profile is not None or preparation.encoder:
        return None
    x = torch.cat([client.x for client in run.clients]).double()
    labels = torch.cat([client.state["clusters"] for client in run.clients])
    spread = torch.where(x.amin(0) == x.amax(0), torch.inf, x.std(0, correction=0))
    means = torch.stack([((x - x.mean(0)) / spread)[labels == cluster].mean(0) for cluster in run.clusters])
    names = preparation.columns or run.population.features or [f"column {index + 1}" for index in range(x.shape[1])]
    columns = means.abs().amax(0).argsort(descending=True, stable=True)[:_MAX_ROWS].sort().values
    caption = "Mean of each column by cluster, in standard deviations from the mean of all samples."
    if preparation.encoding.limits.shape[1]:
        caption += " Values far from all others count as a limit, and those between are bent to the middle."
    if len(columns) < len(names):
        caption += f" Shown are the {len(columns)} of {len(names)} columns in which a cluster stands out most."
    largest = float(means.abs().nan_to_num(0.0).max()) or 1.0
    rows = [
        (
            names[column],
            [fig.TableCell(f"{v:.2f}", shade=v / largest) if v == v else fig.TableCell("–") for v in values],
        )
        for column, values in zip(columns.tolist(), means[:, columns].T.tolist(), strict=True)
    ]
    table = fig.ResultTable("", caption, "feature", run.clusters, rows)
    return fig.PagePart("profiles", "Feature means of the clusters", figures=[table])


def _counts(run: _Run) -> fig.PagePart | None:
    """Show the samples by client and cluster, with the most frequent classes."""
    if not run.clusters:
        return None
    counts = np.array([[int((c.state["clusters"] == cluster).sum()) for cluster in run.clusters] for c in run.clients])
    largest = max(int(counts.max(initial=0)), 1)
    names = run.names([client.id for client in run.clients])
    rows = [
        (name, [*(fig.TableCell(f"{n}", shade=-n / largest) for n in row), fig.TableCell(f"{row.sum()}")])
        for name, row in zip(names, counts, strict=True)
    ]
    foot = []
    if run.classes:
        mostly = [f"{fractions[0][0]}: {100 * fractions[0][1]:.0f} %" for fractions in run.classes.values()]
        foot.append(("most frequent class", [*map(fig.TableCell, mostly), fig.TableCell("")]))
    foot.append(("all", [fig.TableCell(str(total)) for total in (*counts.sum(axis=0), counts.sum())]))
    caption = "Samples of each client by cluster."
    if run.profile is not None:
        caption += (
            " The clients are simulated, so all their samples are counted; sites send no number below "
            f"{run.profile.min_members}, and have no such table."
        )
    table = fig.ResultTable("", caption, "client", [*run.clusters, "all"], rows, foot=foot)
    return fig.PagePart("sizes", "Samples by client and cluster", figures=[table])


def _curves(run: _Run) -> fig.PagePart | None:
    """Show all numbers over the steps."""
    records, unit = run.records, run.unit
    named, curves = measures(*records), [figure for figure in run.figures if isinstance(figure, fig.Curve)]
    if len(records) < 2 and not curves:
        return None
    for name, measure in named.items():
        holders = [record for record in records if name in record["metrics"] or name in record["values"]]
        if measure.chart and len(holders) > 1:
            together = {n: named[n] for n in (name, measure.beside) if n in named}
            series = {m.title: [scaled(record, n, m) for record in holders] for n, m in together.items()}
            caption = f"{measure.meaning[0].upper()}{measure.meaning[1:]}."
            curves.append(fig.Curve(measure.title, caption, _steps(holders), series, measure.unit, unit))
    if len(run.rounds) > 1:
        labels = np.array([record["values"]["labels"] for record in run.rounds])
        moved = ((labels[1:] != labels[:-1]) & (labels[:-1] >= 0)).sum(1).tolist()
        caption = "Clients whose cluster is another one than before."
        series = {"moved": moved}
        curves.append(fig.Curve("Clients that moved", caption, _steps(run.rounds[1:]), series, "count", unit))
    totals = {name: [record[name] for record in records] for name in ("sent", "received")}
    traffic = {name: np.diff(bytes_so_far, prepend=0).tolist() for name, bytes_so_far in totals.items()}
    caption = f"Sent to the clients and received from them, in each {unit}."
    curves.append(fig.Curve("Traffic", caption, _steps(records), traffic, "bytes", unit))
    notes = ["Vertical lines: what happened to clients. Point at a line for more."] if run.marks else []
    return fig.PagePart(
        "curves", "Step by step", paragraphs=notes, figures=[replace(curve, marks=run.marks) for curve in curves]
    )


def _steps(records: Sequence[RecordLine]) -> list[int]:
    return [record["step"] for record in records]


def _notes(run: _Run) -> fig.PagePart | None:
    """Show what was forgotten, how the data were prepared, what metrics are compared with, and who was missing."""
    population, notes = run.population, []
    if population.forgotten:
        clients = f"client{'' if len(population.forgotten) == 1 else 's'} {join_words(run.names(population.forgotten))}"
        notes.append(f"Forgotten or away, without data in this run: {clients}.")
    notes += run.preparation.notes
    if run.records and run.records[-1]["metrics"]:
        used = ["the true clusters"] if population.clusters is not None else []
        used += ["test samples"] if population.tests or population.common_test is not None else []
        used = used if run.rounds else ["the data's labels"]
        notes += [f"Metrics use {' and '.join(used)}, which no method sees."] if used else []
    notes += dict.fromkeys(f"Refused: {reason}" for line in run.records for reason in line.get("refused", []))
    for record in run.records:
        by_reason: dict[str, list[int]] = {}
        for client, reason in record["missing"].items():
            by_reason.setdefault(reason, []).append(int(client))
        for reason, missing in by_reason.items():
            who = "client {} was" if len(missing) == 1 else "clients {} were"
            names = join_words(run.names(missing), 12)
            notes.append(f"{run.unit.capitalize()} {record['step']}: {who.format(names)} missing ({reason}).")
    return fig.PagePart("notes", "Notes", notes=notes) if notes else None


SECTIONS: tuple[Callable[[_Run], fig.PagePart | None], ...] = (
    _descriptions, _words, _members, _clustering, _pictures, _map, _means, _counts, _curves,
    _notes,
)  # fmt: skip


def _sections(run: _Run, sections: Sequence[Callable[[_Run], fig.PagePart | None]] = SECTIONS) -> list[fig.PagePart]:
    return [part for section in sections if (part := section(run)) is not None]
