"""Judging groups of clients, and the models that the groups share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedkin.data.population import Population
from fedkin.engines.local import LocalFederation
from fedkin.learning.classifier import Classifier
from fedkin.methods.clustered_fl.common import GroupState
from fedkin.metrics import (
    accuracy,
    adjusted_mutual_information,
    adjusted_rand,
    completeness,
    homogeneity,
    macro_f1,
    purity,
)

MOST_MODELS = 32
"""With more models than this, none is tried on the common test."""

_AGREEMENT = {
    "ari": adjusted_rand,
    "ami": adjusted_mutual_information,
    "homogeneity": homogeneity,
    "completeness": completeness,
    "purity": purity,
}

Predict = Callable[[int, Tensor], Tensor]
"""Classes, int64 ``(n,)``, that the model of a group gives to samples."""


def evaluate_groups(
    method: Any, population: Population, fed: LocalFederation, state: GroupState, models_too: bool = True
) -> dict[str, Any]:
    """Agreement of the groups with the hidden ones, and how good their models are.

    A model is tried once on the tests of all its clients together, and once on the common test: the official one, or
    where there is none, the tests of all clients together.

    Parameters
    ----------
    method, fed
        Not looked at; every evaluator takes them.
    population : Population
        Knows the hidden groups and the tests.
    state : GroupState
        The groups and their models; clients labelled -1 are left out of everything.
    models_too : bool
        Whether to try the models; it takes time.

    Returns
    -------
    dict
        ``ari``, ``ami``, ``homogeneity``, ``completeness``, ``purity``: of the clients' groups, absent without hidden
        ones. ``personal_accuracy``, ``personal_f1``: mean over clients, each with the model of its group on its own
        test. ``client_accuracy``: the same per client in order of id, ``None`` where there is no model or no test.
        ``global_accuracy``, ``global_f1``: mean over clients of the model of their group on the common test; absent
        with more than `MOST_MODELS` models, as when every client has its own. ``learning_gap``: distance of the two
        F1. Absent is also what nobody has come to yet.
    """
    labels = state.labels.tolist()
    found = _agreement(population.groups, state.labels)
    if not models_too or not population.tests or max(labels, default=-1) < 0:
        return found
    return found | _quality(population, state, labels)


def _agreement(groups: Tensor | None, labels: Tensor) -> dict[str, float]:
    known = labels >= 0
    if groups is None or not known.any():
        return {}
    true, found = groups[known].numpy(), labels[known].numpy()
    return {name: score(true, found) for name, score in _AGREEMENT.items()}


def _quality(population: Population, state: GroupState, labels: Sequence[int]) -> dict[str, Any]:
    classifier = Classifier.of(state.module)

    def predict(group: int, x: Tensor) -> Tensor:
        return classifier.logits(state.models[group], x).argmax(dim=1)

    clients = {
        group: [i for i, own in enumerate(labels) if own == group and len(population.tests[i][1])]
        for group in sorted({label for label in labels if label >= 0})
    }
    personal = _personal(predict, population.tests, clients)
    each = [personal.get(i) for i in range(len(labels))]
    found: dict[str, Any] = {"client_accuracy": [score and score[0] for score in each]}
    if personal:
        found |= _means("personal", list(personal.values()))
    if len(state.models) <= MOST_MODELS:
        scores = _common(predict, population, clients)
        found |= _means("global", [scores[label] for label in labels if label in scores])
    if {"personal_f1", "global_f1"} <= found.keys():
        found["learning_gap"] = abs(found["personal_f1"] - found["global_f1"])
    return found


def _personal(
    predict: Predict, tests: Sequence[tuple[Tensor, Tensor]], clients: Mapping[int, Sequence[int]]
) -> dict[int, tuple[float, float]]:
    """Accuracy and F1 by client, in order of id."""
    scores: dict[int, tuple[float, float]] = {}
    for group, members in clients.items():
        if members:
            together = predict(group, torch.cat([tests[i][0] for i in members]))
            parts = together.split([len(tests[i][1]) for i in members])
            scores |= {i: _scores(tests[i][1], part) for i, part in zip(members, parts, strict=True)}
    return dict(sorted(scores.items()))


def _common(predict: Predict, population: Population, groups: Mapping[int, Any]) -> dict[int, tuple[float, float]]:
    """Accuracy and F1 by group, on the common test."""
    if population.common_test is None:
        x, y = (torch.cat(parts) for parts in zip(*population.tests, strict=True))
    else:
        x, y = population.common_test
    return {group: _scores(y, predict(group, x)) for group in groups} if len(y) else {}


def _scores(y: Tensor, predicted: Tensor) -> tuple[float, float]:
    true, found = y.numpy(), predicted.numpy()
    return accuracy(true, found), macro_f1(true, found)


def _means(kind: str, scores: Sequence[tuple[float, float]]) -> dict[str, float]:
    if not scores:
        return {}
    right, f1 = np.mean(scores, axis=0).tolist()
    return {f"{kind}_accuracy": right, f"{kind}_f1": f1}
