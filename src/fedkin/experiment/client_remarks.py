"""What the terminal says of clusters of clients: who is in which, what accuracies are worth, and how labels differ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np

from fedkin.core.errors import listing
from fedkin.core.progress import RecordLine
from fedkin.data.checks import Finding
from fedkin.data.population import short_names
from fedkin.report.measures import number
from fedkin.report.numbers import pluralize
from fedkin.report.run_page import AS_GUESSED

CLIENTS = "clients.csv"
"""File of every client's cluster in a run's folder."""
_CLUSTERS, _NAMED = 6, 10
_BEYOND = 0.05
"""Accuracy by which clients' own tests exceed the shared one where it is explained."""


def members(labels: Sequence[int], names: Sequence[str]) -> list[str]:
    """Return a line for each cluster with its clients, if there are several; the first few clusters and clients.

    `labels` are the clusters of the clients, -1 for none, and `names` the clients'; both in order of id.
    """
    clusters = sorted({label for label in labels if label >= 0})
    if len(clusters) < 2:
        return []
    said, called = [], short_names(names) or [str(at) for at in range(len(labels))]
    for cluster in clusters[:_CLUSTERS]:
        own = [name for name, label in zip(called, labels, strict=False) if label == cluster]
        said.append(f"Cluster {cluster} has {pluralize(len(own), 'client')}: {listing(own, _NAMED)}")
    more = len(clusters) - _CLUSTERS
    return [*said, *([f"... and {pluralize(more, 'more cluster')}, in {CLIENTS}"] if more > 0 else [])]


def fewer_clusters(found: int, asked: object, members: Literal["clients", "samples"]) -> list[str]:
    """Return a sentence if fewer clusters, `found`, have `members` than the number that was given, if one was."""
    if not isinstance(asked, int | np.integer) or not 0 < found < asked:
        return []
    have = "1 has" if found == 1 else f"{found:,} have"
    hint = "; another seed may end in more" if members == "clients" else ""
    return [f"{pluralize(int(asked), 'cluster')} were asked for, and {have} {members}{hint}."]


def _used(labels: Iterable[int]) -> int:
    return len({label for label in labels if label >= 0})


def notes_on_clusters(line: RecordLine, guess: float | None, notes: Sequence[str], asked: object = None) -> list[str]:
    """Return sentences that a reader of the last record `line` of clusters of clients should not miss.

    `guess` is the accuracy of always guessing a client's most frequent class, where it is known, `notes` those on the
    clients' data, and `asked` the number of clusters that was given, if one was.
    """
    labels = line["values"].get("labels", [])
    several = _used(labels) > 1
    own, shared = number(line, "personal_accuracy"), number(line, "global_accuracy")
    said = fewer_clusters(_used(labels), asked, "clients")
    if own is not None and guess is not None and own <= guess + AS_GUESSED:
        than = "worse" if own < guess - AS_GUESSED else "no better"
        said.append(
            f"An accuracy of {own:.3f} is {than} than the {guess:.3f} of always guessing each client's most frequent "
            "class."
        )
    if several and own is not None and shared is not None and own - shared > _BEYOND:
        said.append(
            "The shared test set is that of all clients, but a model is made for those of its cluster; what counts are "
            "their own test sets."
        )
    if several:
        said += [note for note in notes if isinstance(note, Finding) and note.check == "labels"]
    return said
