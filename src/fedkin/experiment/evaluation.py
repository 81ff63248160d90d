"""Evaluation of clusters and models against the ground truth that only a scenario knows."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedkin.clustering.metrics import (
    accuracy,
    adjusted_mutual_information,
    adjusted_rand,
    clustering_accuracy,
    cohen_kappa,
    completeness,
    homogeneity,
    macro_f1,
    match_labels,
    normalized_mutual_information,
    pooled,
    purity,
)
from fedkin.core import Federation, Method
from fedkin.core.method import LinksLocalClusters
from fedkin.core.runner import predicted_clusters
from fedkin.data.population import Population
from fedkin.methods.clients.client_method import UNKNOWN, ClientMethodState
from fedkin.methods.samples.sample_method import SampleMethod
from fedkin.nn.modules import Classifier

Evaluator = Callable[[Any, Population, Federation, Any], dict[str, Any]]


def evaluator_for(method: Method[Any], models_too: bool = True) -> Evaluator | None:
    """Return the function ``(method, population, federation, state) -> metrics`` of what a method clusters, if any.

    `models_too` says whether models are evaluated on test samples, too, which takes time.
    """
    if isinstance(method, LinksLocalClusters):
        return evaluate_associations
    evaluators = {"samples": evaluate_samples, "clients": evaluate_clusters}
    evaluate: Any = evaluators.get(method.traits.clusters or "")
    return None if evaluate is None else functools.partial(evaluate, models_too=models_too)


def with_oracle(method: Method[Any], truth: Callable[[int], Tensor], fed: Federation) -> Method[Any]:
    """Give an upper-bound method the true classes of local clusters, by those of a client's samples, int64 ``(n,)``.

    Other methods are returned unchanged.
    """
    if not isinstance(method, LinksLocalClusters):
        return method

    def oracle(client: int) -> list[int]:
        return classes_of(truth(client), fed.clients[client].state["labels"])

    informed: Method[Any] = method.with_oracle(oracle)
    return informed


# Evaluation of client clusters and of the models that clusters share.


_AGREEMENT = {
    "ari": adjusted_rand, "ami": adjusted_mutual_information, "homogeneity": homogeneity, "completeness": completeness,
    "purity": purity,
}  # fmt: skip


def evaluate_clusters(
    method: Any, population: Population, fed: Federation, state: ClientMethodState, models_too: bool = True
) -> dict[str, Any]:
    """Score client clusters against the hidden clusters, and their models on test samples.

    A model is evaluated once on the tests of all its clients together, and once on the common test: the data set's
    official test set or, without one, the tests of all clients together. Hidden clusters and tests are those of the
    population at the evaluated step. Models are evaluated only with `models_too`, as that takes time. Clients that are
    labelled -1 or away are not evaluated. `method` is ignored; it is part of every evaluator's signature.

    ``ari``, ``ami``, ``homogeneity``, ``completeness``, ``purity`` are of the clients' clusters, absent without hidden
    ones.

    ``personal_accuracy``, ``personal_f1``: mean over clients, each with the model of its cluster on its own test.
    ``client_accuracy``: the same per client in order of id, ``None`` where there is no model or no test.
    ``global_accuracy``, ``global_f1``: mean over clients of the model of their cluster on the common test; absent
    with more than 32 models, as when every client has its own. ``learning_gap``:
    distance of the two F1.
    """
    labels = state.labels.clone()
    labels[list(set(fed.ids) - set(fed.present))] = UNKNOWN
    scores = _agreement(population.clusters, labels)
    if not models_too or not population.tests or not (labels >= 0).any():
        return scores
    return scores | _quality(population, state, labels.tolist())


def _agreement(clusters: Tensor | None, labels: Tensor) -> dict[str, float]:
    is_placed = labels >= 0
    if clusters is None or not is_placed.any():
        return {}
    true, predicted = clusters[is_placed].numpy(), labels[is_placed].numpy()
    return {name: score(true, predicted) for name, score in _AGREEMENT.items()}


def _quality(population: Population, state: ClientMethodState, labels: Sequence[int]) -> dict[str, Any]:
    personal = {
        i: _scores(population.tests[i][1], classes)
        for i, classes in predicted_classes(population, state, labels).items()
    }
    each = [personal[i][0] if i in personal else None for i in range(len(labels))]
    quality: dict[str, Any] = {"client_accuracy": each} | _means("personal", list(personal.values()))
    if len(state.models) <= 32:  # each is one pass over the common test
        # The official test set, or all clients' tests together.
        x, y = population.common_test or [torch.cat(parts) for parts in zip(*population.tests, strict=True)]
        classifier = Classifier.of(state.module)
        clusters = sorted({label for label in labels if label >= 0}) if len(y) else []
        scores = {c: _scores(y, classifier.logits(state.models[c], x).argmax(1)) for c in clusters}
        quality |= _means("global", [scores[label] for label in labels if label in scores])
    if {"personal_f1", "global_f1"} <= quality.keys():
        quality["learning_gap"] = abs(quality["personal_f1"] - quality["global_f1"])
    return quality


def predicted_classes(population: Population, state: ClientMethodState, labels: Sequence[int]) -> dict[int, Tensor]:
    """Predict the classes, int64 ``(n,)``, of each client's test by its cluster's model, by client id.

    Soft clusters predict by all models, weighted by the client's memberships. Clients without a cluster or a test are
    left out.
    """
    tests, classifier = population.tests, Classifier.of(state.module)
    tested = {i: label for i, label in enumerate(labels) if label >= 0 and len(tests[i][1])}
    if (memberships := getattr(state, "memberships", None)) is not None:
        mixed, models = classifier.mixed_logits, state.models
        return {i: mixed(models, memberships[i], tests[i][0]).argmax(1) for i in tested}
    classes: dict[int, Tensor] = {}
    for cluster in sorted(set(tested.values())):  # one pass of a model over the tests of all its clients
        members = [i for i, label in tested.items() if label == cluster]
        logits = classifier.logits(state.models[cluster], torch.cat([tests[i][0] for i in members]))
        classes |= dict(zip(members, logits.argmax(1).split([len(tests[i][1]) for i in members]), strict=True))
    return classes


def _scores(y: Tensor, predicted: Tensor) -> tuple[float, float]:
    return accuracy(y.numpy(), predicted.numpy()), macro_f1(y.numpy(), predicted.numpy())


def _means(kind: str, scores: Sequence[tuple[float, float]]) -> dict[str, float]:
    if not scores:
        return {}
    right, f1 = np.mean(scores, axis=0).tolist()
    return {f"{kind}_accuracy": right, f"{kind}_f1": f1}


# Evaluation of sample clusters, and of FedCRef's local clusters and their associations.


def evaluate_samples(
    method: SampleMethod, population: Population, fed: Federation, state: Any, models_too: bool = True
) -> dict[str, Any]:
    """Score the samples' clusters against their classes, over all clients (CCFC, section 4.2).

    The clusters are those that a client keeps; a client that keeps none yet, or never took part, gets those that the
    method's present result predicts. Without `models_too` nothing is evaluated, as that takes time where the result is
    a network. Scores are ``nmi``, ``kappa``, ``ari`` and ``pooled_accuracy`` of all samples together; ``accuracy``, ACC
    within a client, mean over clients; ``kappas``, kappa within each client, in order of id, ``None`` for those
    that are forgotten or were dropped, which count nowhere. There are none without a truth, or if the method has no
    clusters yet.
    """
    if population.truth is None or not models_too or not method.ready(state):
        return {}
    result = method.result(state)
    outside = {*population.forgotten, *fed.dropped}  # their samples may not even be prepared
    sites = [client for client in population.clients if client.id not in outside]
    clusters = [
        client.state["clusters"] if "clusters" in client.state else predicted_clusters(method, result, client.x)
        for client in sites
    ]
    within = {each.id: (population.truth[each.id], labels) for each, labels in zip(sites, clusters, strict=True)}
    return {
        **_class_agreement(*zip(*within.values(), strict=True)),
        "accuracy": float(np.mean([clustering_accuracy(*pair) for pair in within.values()])),
        "kappas": [cohen_kappa(*within[each.id]) if each.id in within else None for each in population.clients],
    }


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
        state_of = fed.clients[site].state
        # A client keeps its clusters' models until it refines them; the graph is that of the partition before.
        classes[site] = classes_of(truth[site], state_of["labels"] if "models" in state_of else state_of["previous"])
    ends = [[classes[site][cluster] for site, cluster in (state.nodes[a], state.nodes[b])] for a, b in state.edges]
    ids = sorted(int(site) for site in state.clusters)
    clusters = [np.array(state.clusters[str(i)])[fed.clients[i].state["labels"].numpy()] for i in ids]
    present = [np.unique(y.numpy()) for y in truth]
    _, holders = np.unique(np.concatenate(present), return_counts=True)
    return {
        **({"accuracy": float(np.mean(accuracy))} if accuracy else {}),
        "false_matches": float(np.mean([first != second for first, second in ends])) if ends else 0.0,
        "target": int((holders > 1).sum()),
        **_class_agreement([truth[i] for i in ids], clusters),
    }


def _class_agreement(truth: Sequence[Tensor], clusters: Sequence[Any]) -> dict[str, float]:
    if not clusters:
        return {}
    true, labels = pooled(truth), pooled(clusters)
    return {
        "ari": adjusted_rand(true, labels),
        "nmi": normalized_mutual_information(true, labels),
        "kappa": cohen_kappa(true, labels),
        "pooled_accuracy": clustering_accuracy(true, labels),
    }


def classes_of(truth: Tensor, labels: Tensor) -> list[int]:
    """Return the class that each of a client's local clusters is matched with, in order of cluster."""
    match = match_labels(truth, labels)
    return [match[cluster] for cluster in sorted(match)]
