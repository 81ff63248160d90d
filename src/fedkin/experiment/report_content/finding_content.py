"""Summary sentences at the top of a run's page: what was found, and in which data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from fedkin.core import Client, Method
from fedkin.core.progress import RecordLine
from fedkin.data.population import Population, client_name
from fedkin.experiment.measure_titles import TRAINING, join_words, number, phase_of
from fedkin.experiment.report_content.sample_content import ClusterMixture, mixed_in_words
from fedkin.report import ClientClusters
from fedkin.report.numbers import all_of, pluralize

_AGREEMENT = ((0.9999, "exactly"), (0.9, "closely"), (0.8, "well"), (0.65, "moderately"), (0.1, "poorly"))
"""Words for an ARI from its lower bound on: those of Steinley (2004), who calls 0.9 excellent, 0.8 good, 0.65 moderate
and what is below poor."""
AS_GUESSED = 0.02
"""Accuracy by which a model must be better than the most frequent class to be called so, or worse."""


def sample_finding(
    clusters: Sequence[int],
    clients: Sequence[Client],
    mixtures: Mapping[int, ClusterMixture],
    records: Sequence[RecordLine],
) -> str:
    """Summarise the clusters of samples: number, spread across clients, and agreement with the classes."""
    if not clusters:
        return ""
    ari, mixed = _last(records, "ari"), mixed_in_words(list(mixtures.values()))
    if len(clusters) == 1:
        found = "No clusters were separated: all samples are in one."
        return found if ari is None or not mixed else f"{found} {mixed[:1].upper()}{mixed[1:]}."
    found = f"{len(clusters)} clusters of samples were found{_across(clusters, clients)}."
    if ari is None or not mixtures:
        return found
    pure = sum(each.is_pure for each in mixtures.values())
    held = f"{pure} of {len(mixtures)} hold{'s' if pure == 1 else ''} one class almost alone"
    return f"{found} {_matched('classes', ari)}: {held}{'; ' if mixed else ''}{mixed}."


def client_finding(found: ClientClusters, population: Population, records: Sequence[RecordLine]) -> str:
    """Summarise the clusters of clients: number, agreement with the true ones, and accuracy of their models."""
    clusters = len({cluster for cluster in found.clusters[:, -1].tolist() if cluster >= 0})
    if not clusters:
        return ""
    trained = any(phase_of(record) == TRAINING for record in records)
    if clusters == 1 and trained:
        said = ["One model was trained for all clients."]
    elif clusters == len(found.clients) and trained:
        said = ["Each client trained a model of its own."]
    else:
        said = [f"{pluralize(clusters, 'cluster')} of clients {'was' if clusters == 1 else 'were'} found."]
        ari = _last(records, "ari")
        said += [] if ari is None else [f"{_matched('clusters', ari)}."]
    accuracy = _last(records, "personal_accuracy")
    return " ".join([*said, *([] if accuracy is None else [_worth(accuracy, population)])])


def data_sentence(method: Method[Any], population: Population, steps: str) -> str:
    """Describe the number of samples, and what left their clients."""
    if not population.clients:  # in a real federation the number of samples is not known here
        return f"{pluralize(len(population.names), 'client')} took part; {_stayed('their samples', method)}. {steps}"
    samples = sum(len(client) for client in population.clients)
    count = len(population.clients) - len(population.forgotten)
    held = f"{pluralize(count, 'client')} hold{'s' if count == 1 else ''} {samples:,} samples"
    return f"{held}; {_stayed('these', method)}. {steps}"


def forgotten_note(population: Population) -> list[str]:
    """Return a sentence on forgotten clients; empty if there are none."""
    forgotten = [client_name(at, population.names) for at in population.forgotten]
    called = f"client{'' if len(forgotten) == 1 else 's'} {join_words(forgotten)}"
    return [f"Forgotten, and part of nothing here: {called}."] if forgotten else []


def _stayed(samples: str, method: Method[Any]) -> str:
    if method.sends_samples():
        return f"{samples} left them, for this method needs all data in one place"
    if method.traits.copies_data:
        return f"{samples} never left them, but synthetic copies did"
    return f"{samples} never left them"


def _across(clusters: Sequence[int], clients: Sequence[Client]) -> str:
    """Describe at how many clients the clusters have samples."""
    if len(clients) < 2:
        return ""
    holders = [sum(bool((client.state["clusters"] == cluster).any()) for client in clients) for cluster in clusters]
    low, high = min(holders), max(holders)
    if low == len(clients):
        return f"; each has samples of {all_of(len(clients), 'clients')}"
    return f"; each has samples of {low if low == high else f'{low} to {high}'} of {len(clients)} clients"


def _matched(what: str, ari: float) -> str:
    word = next((word for bound, word in _AGREEMENT if ari >= bound), "no better than chance would")
    return f"They match the true {what} {word} (ARI {ari:.2f})"


def _worth(accuracy: float, population: Population) -> str:
    """Describe the accuracy of the clients' models, beside that of always guessing the most frequent class."""
    said = f"A client's model is right for {100 * accuracy:.0f} % of its own test samples"
    guess = guess_of(population)
    if guess is None:
        return f"{said}."
    than = "which is no better than" if accuracy <= guess + AS_GUESSED else "as against"
    than = "which is worse than" if accuracy < guess - AS_GUESSED else than
    return f"{said}, {than} {100 * guess:.0f} % by always guessing its most frequent class."


def guess_of(population: Population) -> float | None:
    """Return the mean accuracy of guessing each client's most frequent class; ``None`` where it is not known."""
    if population.drift is not None or not population.tests:
        return None
    scores = []
    for client, (_, y) in zip(population.clients, population.tests, strict=False):
        if client.y is None or not len(client.y) or not len(y):
            continue
        scores.append(float((y == torch.mode(client.y).values).double().mean()))
    return sum(scores) / len(scores) if scores else None


def _last(records: Sequence[RecordLine], name: str) -> float | None:
    """Return the last value of a number in the records."""
    known = [number(record, name) for record in records]
    return next((value for value in reversed(known) if value is not None), None)
