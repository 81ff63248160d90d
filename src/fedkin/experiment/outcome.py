"""What a run found and what its data are, as text for the terminal and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import torch

from fedkin.core.client import Column, Table
from fedkin.core.errors import listing
from fedkin.core.method import CanCut
from fedkin.core.runner import fewer_clusters
from fedkin.data.population import Population, short_names
from fedkin.data.preparation import Preparation
from fedkin.data.profile import ClusterProfile
from fedkin.experiment.run import RunOutcome
from fedkin.experiment.run_folder import CLIENTS, read_names, read_timing
from fedkin.experiment.terminal_tables import table_text
from fedkin.report.measures import headlines, method_remarks, privacy_of_samples
from fedkin.report.numbers import format_bytes, pluralize
from fedkin.report.words import cluster_title, described, remarks, sentences, word_lines


def show_outcome(outcome: RunOutcome, as_json: bool, quiet: bool) -> None:
    """Print the outcome of a run as JSON or as text, or print nothing."""
    if as_json:
        print(json.dumps(outcome_tree(outcome)))
    elif not quiet:
        print_outcome(outcome)


def outcome_tree(outcome: RunOutcome) -> dict[str, Any]:
    """Return a run's last record as plain values, with its clusters, what is said of them, and where its files are.

    ``sizes`` are the samples or clients of each cluster, ``clients`` the cluster of each client by name where clients
    are clustered, and ``notes`` those on the data, the method and the clusters.
    """
    return {
        "run": str(outcome.folder),
        "method": outcome.config.method_name,
        "seed": outcome.config.seed,
        **(outcome.records[-1] if outcome.records else {"step": 0}),
        "n_clusters": outcome.n_clusters,
        "sizes": outcome.sizes,
        "names": {str(cluster): name for cluster, name in read_names(outcome.folder).items()},
        "clients": _clients(outcome),
        "sentences": _sentences(outcome),
        "notes": list(dict.fromkeys([*outcome.notes, *_notes(outcome)])),
        "seconds": _seconds(outcome),
        "changes": None if outcome.changes is None else asdict(outcome.changes),
        "report": str(outcome.report),
    }


def print_outcome(outcome: RunOutcome) -> None:
    """Print a table of the last step, sentences on the clusters, notes, and the path of the report."""
    rows: list[tuple[str, str]] = []
    for last in outcome.records[-1:]:
        rows += [*headlines(last), ("Sent to the clients", format_bytes(last["sent"]))]
        rows += [("Received from them", format_bytes(last["received"])), ("Steps", str(last["step"]))]
    if (privacy := privacy_of_samples(outcome.records)) is not None:
        rows.append(("Privacy of a sample", privacy))
    if (seconds := _seconds(outcome)) is not None:
        rows.append(("Training time", f"{seconds:.1f} s"))
    lines = [table_text(rows, left=(0, 1)), *_sentences(outcome), *(f"Note: {note}" for note in _notes(outcome))]
    lines += [] if outcome.changes is None else outcome.changes.lines()
    if len(set(_clients(outcome).values()) - {-1}) > 1:
        lines.append(f"Clients: {outcome.folder / CLIENTS}")
    print("\n".join([*lines, f"Report: {outcome.report}"]))


def _clients(outcome: RunOutcome) -> dict[str, int]:
    """Return the cluster of each client by name, -1 for none; empty where samples are clustered."""
    of_clients = outcome.config.method.traits.clusters == "clients" and bool(outcome.records)
    labels = outcome.records[-1]["values"].get("labels", []) if of_clients else []
    names = short_names(outcome.clients) or [str(client) for client in range(len(labels))]
    return dict(zip(names, labels, strict=False))


def _sentences(outcome: RunOutcome) -> list[str]:
    """Return sentences on the clusters of samples, or a line for each cluster of clients, the first few of them."""
    names, labels = read_names(outcome.folder), _clients(outcome)
    lines = [*cluster_lines(outcome.profile, outcome.clients, names), *word_lines(outcome.words, names)]
    clusters = sorted(set(labels.values()) - {-1})
    for cluster in clusters[:6] if len(clusters) > 1 else []:
        members = [name for name, label in labels.items() if label == cluster]
        has = f"has {pluralize(len(members), 'client')}"
        lines.append(f"{cluster_title(cluster, names)} {has}: {listing(members, 10)}")
    return lines


def _notes(outcome: RunOutcome) -> list[str]:
    """Return what a reader of the clusters should not miss, and what to do where all is one unasked-for cluster."""
    method, n_clusters = outcome.config.method, outcome.n_clusters or 0
    requested, what = getattr(method, "n_clusters", None), method.traits.clusters
    notes = [*method_remarks(outcome.records), *fewer_clusters(n_clusters, requested, what)]
    if n_clusters == 1 and requested != 1 and not method.traits.baseline:
        cut = f"`fedkin cut {outcome.folder} --clusters 2` makes 2, and " if isinstance(method, CanCut) else ""
        notes.append(f"All {what} are in one cluster; {cut}`fedkin compare` tries other methods.")
    return notes


def cluster_lines(
    profile: ClusterProfile | None, clients: Sequence[str], cluster_names: Mapping[int, str] | None = None
) -> list[str]:
    """Return sentences on the first clusters of a run's samples, and what a reader should know; none without any."""
    if profile is None:
        return []
    columns = described(profile)
    spoken = sentences(profile, clients, columns, cluster_names or {})
    texts = [text for text, size in zip(spoken, profile.samples, strict=True) if size > 0]
    more, unknown = len(texts) - 12, len(profile.samples) - len(texts) - len(profile.gone)
    rest = [f"... and {pluralize(more, 'more cluster')}, in the report."] if more > 0 else []
    if unknown:
        rest.append(f"{pluralize(unknown, 'cluster')}: too few samples at any one client to be described.")
    return [*texts[:12], *rest, *remarks(profile, clients, columns)]


def _seconds(outcome: RunOutcome) -> float | None:
    """Return the seconds of all steps, without the preparation (step 0); ``None`` if unknown."""
    seconds = [line["seconds"] for line in read_timing(outcome.folder) if line["step"] > 0 and "seconds" in line]
    return sum(seconds) if seconds else None


# What was read of the clients' data.


def overview(population: Population, preparation: Preparation) -> str:
    """Return the number of samples, and of tables each column's kind, empty cells and values, as text.

    Columns that are left out, and the one that names rows, are among them. `population` has the clients of this
    process.
    """
    clients = [client for client in population.clients if client.id not in (*population.absent, *population.forgotten)]
    rows = [len(client.x) for client in clients]
    text = (
        f"Data: {pluralize(len(clients), 'client')}, {pluralize(sum(rows), 'sample')}, {min(rows)} to {max(rows)} each."
    )
    if preparation.table is None:
        return f"{text} A sample has the shape {' x '.join(map(str, clients[0].x.shape[1:]))}."
    schema = preparation.encoding.schema
    tables = [client.table for client in clients if client.table is not None]
    return f"{text}\n\n{columns_text(tables, {column.name: column for column in schema.columns}, schema.id)}"


def columns_text(tables: Sequence[Table], columns: Mapping[str, Column], id: str | None) -> str:
    """Return how the columns of tables are read, as text: kind, empty cells and values."""
    rows = [["column", "kind", "empty", "values"]]
    for name in dict.fromkeys(name for table in tables for name in table.names):
        cells = torch.cat([table.of(name) for table in tables if name in table.names])
        column, empty = columns.get(name), int(cells.isnan().sum())
        kind = "id" if name == id else "left out" if column is None else column.kind
        values = "" if column is None or name == id else _values(column, cells[~cells.isnan()])
        rows.append([name, kind, f"{empty:,}", values])
    return table_text(rows, left=(0, 1, 3))


def _values(column: Column, cells: torch.Tensor) -> str:
    """Return a column's values: the ends of what is measured, else its categories."""
    if column.is_coded or not len(cells):
        return listing(column.categories, 4)
    ends = (float(cells.min()), float(cells.max()))
    texts = (str(np.datetime64(int(end // 1), "D")) if column.kind == "date" else f"{end:.10g}" for end in ends)
    return " to ".join(dict.fromkeys(texts))
