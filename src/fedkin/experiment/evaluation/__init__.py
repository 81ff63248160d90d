"""Evaluation of clusters and models against the ground truth that only a scenario knows."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from torch import Tensor

from fedkin.core import Federation, Method
from fedkin.core.method import LinksLocalClusters
from fedkin.data.population import Population
from fedkin.experiment.evaluation.client_scores import evaluate_clusters
from fedkin.experiment.evaluation.sample_scores import classes_of, evaluate_associations, evaluate_samples

__all__ = [
    "Evaluator",
    "evaluate_associations",
    "evaluate_clusters",
    "evaluate_samples",
    "evaluator_for",
    "with_oracle",
]

Evaluator = Callable[[Any, Population, Federation, Any], dict[str, Any]]


def evaluator_for(method: Method[Any], models_too: bool = True, common_test: bool = True) -> Evaluator | None:
    """Return the function ``(method, population, federation, state) -> metrics`` for a method; ``None`` without one.

    What the method clusters is evaluated. `models_too` says whether models are evaluated on test samples, too, which
    takes time; `common_test`, whether clusters' models are evaluated on the common test besides those of their clients.
    """
    if isinstance(method, LinksLocalClusters):
        return evaluate_associations
    if method.traits.clusters == "samples":
        return functools.partial(evaluate_samples, models_too=models_too)
    if method.traits.clusters == "clients":
        return functools.partial(evaluate_clusters, models_too=models_too, common_test=common_test)
    return None


def with_oracle(method: Method[Any], truth: Callable[[int], Tensor], fed: Federation) -> Method[Any]:
    """Give an upper-bound method the true classes of local clusters; other methods are returned unchanged.

    `truth` returns the current true classes, int64 ``(n,)``, of a client's samples by its id.
    """
    if not isinstance(method, LinksLocalClusters):
        return method

    def oracle(client: int) -> list[int]:
        return classes_of(truth(client), fed.clients[client].state["labels"])

    made: Method[Any] = method.with_oracle(oracle)
    return made
