"""Evaluation of sample clusters, and of FedCRef's local clusters and their associations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from fedkin.clustering.metrics import (
    adjusted_rand,
    clustering_accuracy,
    cohen_kappa,
    match_labels,
    normalized_mutual_information,
    pooled,
    soft_scores,
)
from fedkin.core import Client, Federation, Method
from fedkin.core.contract import predicted_clusters
from fedkin.data.population import Population
from fedkin.methods.samples.sample_method import SampleMethod


def evaluate_samples(
    method: SampleMethod, population: Population, fed: Federation, state: Any, models_too: bool = True
) -> dict[str, Any]:
    """Score the samples' clusters against their classes, over all clients (CCFC, section 4.2).

    The clusters are those that a client keeps; a client that keeps none yet, or never took part, gets those that the
    method's present result predicts. Without `models_too` nothing is evaluated, as that takes time where the result is
    a network. Scores are ``nmi``, ``kappa``, ``ari`` and ``pooled_accuracy`` of all samples together; ``accuracy``, ACC
    within a client, mean over clients; ``kappas``, kappa within each client, in order of id, ``None`` for those
    that are forgotten or were dropped, which count nowhere; and where samples have memberships,
    ``soft_ari`` and ``partition_coefficient`` of these. There are none
    without a truth, or if the method has no clusters yet.
    """
    if population.truth is None or not models_too or not method.ready(state):
        return {}
    result = method.result(state)
    outside = {*population.forgotten, *fed.dropped}  # their samples may not even be prepared
    there = [client for client in population.clients if client.id not in outside]
    clusters = [
        client.state["clusters"] if "clusters" in client.state else predicted_clusters(method, result, client.x)
        for client in there
    ]
    within = {one.id: (population.truth[one.id], own) for one, own in zip(there, clusters, strict=True)}
    return {
        **_agreement(*zip(*within.values(), strict=True)),
        **_soft(method, there, population.truth, result),
        "accuracy": float(np.mean([clustering_accuracy(*pair) for pair in within.values()])),
        "kappas": [cohen_kappa(*within[one.id]) if one.id in within else None for one in population.clients],
    }


def _soft(
    method: SampleMethod, there: Sequence[Client], truth: Sequence[Tensor], result: Mapping[str, Any]
) -> dict[str, float]:
    """Score soft clusters by the samples' memberships; empty if the method has none or a client lacks them."""
    if not getattr(method, "soft", False):  # a method of one's own may be another class
        return {}
    found = [method.client_memberships(result, client) for client in there]
    parts = [own for own in found if own is not None]
    if len(parts) < len(there):
        return {}
    return soft_scores(np.concatenate([truth[client.id] for client in there]), np.concatenate(parts))


def evaluate_associations(method: Method[Any], population: Population, fed: Federation, state: Any) -> dict[str, Any]:
    """Score FedCRef's local clusters and associations (section 5.5 of its paper), and the clusters over all clients.

    ``accuracy``: ACC of the local clusters, mean over the clients that have begun, resting ones included; absent if
    none has. ``false_matches``: fraction of associations between clusters whose matched classes differ. ``ari``,
    ``nmi``, ``kappa``, ``pooled_accuracy``: of the clusters of all samples whose client is known. ``target``: number of
    classes that two or more clients have. Empty without a truth.
    """
    if population.truth is None:
        return {}
    truth = population.truth
    sites = [fed.clients[i] for i in fed.ids if "labels" in fed.clients[i].state]
    accuracy = [clustering_accuracy(truth[c.id], c.state["labels"]) for c in sites]
    classes: dict[int, list[int]] = {}
    for site in {node[0] for node in state.nodes}:
        own = fed.clients[site].state
        # A client keeps its clusters' models until it refines them; the graph is that of the partition before.
        classes[site] = classes_of(truth[site], own["labels"] if "models" in own else own["previous"])
    ends = [[classes[site][cluster] for site, cluster in (state.nodes[a], state.nodes[b])] for a, b in state.edges]
    known = sorted(int(site) for site in state.clusters)
    clusters = [np.array(state.clusters[str(i)])[fed.clients[i].state["labels"].numpy()] for i in known]
    present = [np.unique(y.numpy()) for y in truth]
    _, holders = np.unique(np.concatenate(present), return_counts=True)
    return {
        **({"accuracy": float(np.mean(accuracy))} if accuracy else {}),
        "false_matches": float(np.mean([first != second for first, second in ends])) if ends else 0.0,
        "target": int((holders > 1).sum()),
        **_agreement([truth[i] for i in known], clusters),
    }


def _agreement(truth: Sequence[Tensor], clusters: Sequence[Any]) -> dict[str, float]:
    if not clusters:
        return {}
    true, found = pooled(truth), pooled(clusters)
    return {
        "ari": adjusted_rand(true, found),
        "nmi": normalized_mutual_information(true, found),
        "kappa": cohen_kappa(true, found),
        "pooled_accuracy": clustering_accuracy(true, found),
    }


def classes_of(truth: Tensor, labels: Tensor) -> list[int]:
    """Return the class that each of a client's local clusters is matched with, in order of cluster."""
    match = match_labels(truth, labels)
    return [match[cluster] for cluster in sorted(match)]
