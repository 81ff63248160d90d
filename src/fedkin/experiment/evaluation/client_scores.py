"""Evaluation of client clusters and of the models that clusters share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedkin.clustering.metrics import (
    accuracy,
    adjusted_mutual_information,
    adjusted_rand,
    completeness,
    homogeneity,
    macro_f1,
    purity,
    soft_scores,
)
from fedkin.core import Federation
from fedkin.data.population import Population
from fedkin.methods.clients.client_method import UNKNOWN, ClientMethodState, SoftState
from fedkin.nn.modules import Classifier

MAX_MODELS = 32
"""With more models than this, none is tried on the common test."""

_AGREEMENT = {
    "ari": adjusted_rand,
    "ami": adjusted_mutual_information,
    "homogeneity": homogeneity,
    "completeness": completeness,
    "purity": purity,
}

PredictClasses = Callable[[int, Tensor], Tensor]
"""Classes, int64 ``(n,)``, that the model of a cluster gives to samples."""


def evaluate_clusters(
    method: Any,
    population: Population,
    fed: Federation,
    state: ClientMethodState,
    models_too: bool = True,
    common_test: bool = True,
) -> dict[str, Any]:
    """Score client clusters against the hidden clusters, and their models on test samples.

    A model is evaluated once on the tests of all its clients together, and once on the common test: the data set's
    official test set or, without one, the tests of all clients together. Hidden clusters and tests are those of the
    population at the evaluated step. Models are evaluated only with `models_too`, as that takes time, and on the common
    test only with `common_test`. Clients that are labelled -1 or away are not evaluated. `method` is ignored; it is
    part of every evaluator's signature.

    ``ari``, ``ami``, ``homogeneity``, ``completeness``, ``purity`` are of the clients' clusters, absent without hidden
    ones; with soft clusters so are ``soft_ari`` and ``partition_coefficient``.

    ``personal_accuracy``, ``personal_f1``: mean over clients, each with the model of its cluster on its own test.
    ``client_accuracy``: the same per client in order of id, ``None`` where there is no model or no test.
    ``global_accuracy``, ``global_f1``: mean over clients of the model of their cluster on the common test; absent
    without `common_test`, and with more than `MAX_MODELS` models, as when every client has its own. ``learning_gap``:
    distance of the two F1. ``drifted_right``, ``newcomers_right``: fraction of the clients that drifted, or joined
    late, whose cluster is right; absent before that step. A cluster is right for a client if more than half of its
    members that did not drift, or were present from the start, are of the client's hidden cluster; all members count
    where that is a cluster of drifted clients only. ``drifted_accuracy``, ``newcomers_accuracy``: the personal one,
    mean over these clients; the former also before the drift. Scores of events that have not happened yet are absent.
    """
    known = state.labels.clone()
    present = set(fed.present)
    known[torch.tensor([i not in present for i in fed.ids], dtype=torch.bool)] = UNKNOWN
    labels = known.tolist()
    found = _agreement(population.clusters, state, known) | _rightly_placed(population, fed, known)
    if not models_too or not population.tests or max(labels, default=-1) < 0:
        return found
    quality = _quality(population, state, labels, common_test)
    return found | quality | _apart(population, quality["client_accuracy"])


def _changed(population: Population) -> dict[str, list[int]]:
    """Return the clients that drift at any step, and those that join late, where the scenario has any."""
    drift, arrivals = population.drift, population.arrivals
    return {
        "drifted": [] if drift is None else drift.clients.tolist(),
        "newcomers": [] if arrivals is None else arrivals.nonzero()[:, 0].tolist(),
    }


def _rightly_placed(population: Population, fed: Federation, labels: Tensor) -> dict[str, float]:
    if population.clusters is None or not (labels >= 0).any():
        return {}
    changed = _changed(population)
    if population.drift is None or not population.drift.happened:
        changed["drifted"] = []
    changed["newcomers"] = [i for i in changed["newcomers"] if i in fed.present]
    return {
        f"{name}_right": sum(_is_right(i, clients, population.clusters, labels) for i in clients) / len(clients)
        for name, clients in changed.items()
        if clients
    }


def _is_right(client: int, changed: Sequence[int], clusters: Tensor, labels: Tensor) -> bool:
    """Return whether most members of a client's cluster that never `changed` share its hidden cluster."""
    stayed = torch.ones_like(labels, dtype=torch.bool)
    stayed[changed] = False
    if not (clusters[stayed] == clusters[client]).any():
        stayed[:] = True
    company = clusters[stayed & (labels == labels[client])]
    return bool(labels[client] >= 0 and 2 * (company == clusters[client]).sum() > len(company))


def _apart(population: Population, scores: Sequence[float | None]) -> dict[str, float]:
    """Return the mean accuracy of drifting clients and of late joiners, separately."""
    found = {}
    for name, clients in _changed(population).items():
        own = [score for score in (scores[i] for i in clients) if score is not None]
        if own:
            found[f"{name}_accuracy"] = sum(own) / len(own)
    return found


def _agreement(clusters: Tensor | None, state: ClientMethodState, labels: Tensor) -> dict[str, float]:
    """Scores of the clients' clusters, and of their memberships, where there are some."""
    known = labels >= 0
    if clusters is None or not known.any():
        return {}
    true, found = clusters[known].numpy(), labels[known].numpy()
    soft = soft_scores(true, state.memberships[known]) if isinstance(state, SoftState) else {}
    return {name: score(true, found) for name, score in _AGREEMENT.items()} | soft


def _quality(
    population: Population, state: ClientMethodState, labels: Sequence[int], common_test: bool
) -> dict[str, Any]:
    clients = _tested(population, labels)
    common = _common(population, state, clients) if common_test and len(state.models) <= MAX_MODELS else {}
    if common and population.common_test is None and not isinstance(state, SoftState):
        parts = {cluster: found.split([len(y) for _, y in population.tests]) for cluster, found in common.items()}
        predicted = {i: parts[cluster][i] for cluster, members in clients.items() for i in members}
    else:
        predicted = predicted_classes(population, state, labels)
    personal = {i: _scores(population.tests[i][1], own) for i, own in predicted.items()}
    each = [personal.get(i) for i in range(len(labels))]
    found: dict[str, Any] = {"client_accuracy": [score and score[0] for score in each]}
    if personal:
        found |= _means("personal", list(personal.values()))
    if common:
        scores = {cluster: _scores(_common_test(population)[1], own) for cluster, own in common.items()}
        found |= _means("global", [scores[label] for label in labels if label in scores])
    if {"personal_f1", "global_f1"} <= found.keys():
        found["learning_gap"] = abs(found["personal_f1"] - found["global_f1"])
    return found


def predicted_classes(population: Population, state: ClientMethodState, labels: Sequence[int]) -> dict[int, Tensor]:
    """Predict the classes, int64 ``(n,)``, of each client's test by its cluster's model, by client id.

    Soft clusters predict by all models, weighted by the client's memberships. Clients without a cluster or a test are
    left out.
    """
    tests, clients = population.tests, _tested(population, labels)
    if isinstance(state, SoftState):
        mixed, models = Classifier.of(state.module).mixed_logits, state.models
        ids = sorted(i for members in clients.values() for i in members)
        return {i: mixed(models, state.memberships[i], tests[i][0]).argmax(1) for i in ids}
    predict, found = _predictor(state), dict[int, Tensor]()
    for cluster, members in clients.items():
        if members:
            together = predict(cluster, torch.cat([tests[i][0] for i in members]))
            found |= dict(zip(members, together.split([len(tests[i][1]) for i in members]), strict=True))
    return dict(sorted(found.items()))


def _predictor(state: ClientMethodState) -> PredictClasses:
    classifier = Classifier.of(state.module)
    return lambda cluster, x: classifier.logits(state.models[cluster], x).argmax(dim=1)


def _tested(population: Population, labels: Sequence[int]) -> dict[int, list[int]]:
    """Return the clients that have a test, by cluster."""
    return {
        cluster: [i for i, own in enumerate(labels) if own == cluster and len(population.tests[i][1])]
        for cluster in sorted({label for label in labels if label >= 0})
    }


def _common(population: Population, state: ClientMethodState, clusters: Iterable[int]) -> dict[int, Tensor]:
    """Predict the classes of the common test by the models of `clusters`, by cluster; empty without a test."""
    predict, (x, y) = _predictor(state), _common_test(population)
    return {cluster: predict(cluster, x) for cluster in clusters} if len(y) else {}


def _common_test(population: Population) -> tuple[Tensor, Tensor]:
    if population.common_test is not None:
        return population.common_test
    x, y = (torch.cat(parts) for parts in zip(*population.tests, strict=True))
    return x, y


def _scores(y: Tensor, predicted: Tensor) -> tuple[float, float]:
    true, found = y.numpy(), predicted.numpy()
    return accuracy(true, found), macro_f1(true, found)


def _means(kind: str, scores: Sequence[tuple[float, float]]) -> dict[str, float]:
    if not scores:
        return {}
    right, f1 = np.mean(scores, axis=0).tolist()
    return {f"{kind}_accuracy": right, f"{kind}_f1": f1}
