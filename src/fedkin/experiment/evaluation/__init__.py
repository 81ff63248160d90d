"""Comparing what a method found with the truth that only a scenario knows."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

from fedkin.core import Federation
from fedkin.data.population import Population
from fedkin.experiment.evaluation.client_scores import evaluate_clusters
from fedkin.experiment.evaluation.representation import latents_of
from fedkin.experiment.evaluation.sample_scores import classes_of, evaluate_fedcref, evaluate_samples
from fedkin.methods.clients.client_method import ClientMethodState
from fedkin.methods.samples.fedcref.fedcref import FedCRefMethod
from fedkin.methods.samples.sample_method import SampleMethod

__all__ = [
    "Evaluator",
    "evaluate_clusters",
    "evaluate_fedcref",
    "evaluate_samples",
    "evaluator_for",
    "informed",
    "latents_of",
]

Evaluator = Callable[[Any, Population, Federation, Any], dict[str, Any]]


def evaluator_for(method: Any, models_too: bool = True) -> Evaluator | None:
    """The function ``(method, population, federation, state) -> metrics`` for a method; ``None`` if it has none.

    Parameters
    ----------
    method : Method
        Methods whose state is a `ClientMethodState` are judged by their clusters of clients, each `SampleMethod` and FedCRef by
        clusters of samples.
    models_too : bool
        Whether models are tried on test samples, too; it takes time, and clusters can be judged without.
    """
    if isinstance(method, FedCRefMethod):
        return evaluate_fedcref
    if isinstance(method, SampleMethod):
        return functools.partial(evaluate_samples, models_too=models_too)
    if issubclass(method.state_type, ClientMethodState):
        return functools.partial(evaluate_clusters, models_too=models_too)
    return None


def informed(method: Any, population: Population, fed: Federation) -> Any:
    """`method` with the oracle it asks for by name, if it is an upper bound; any other method as it is."""
    if isinstance(method, FedCRefMethod) and method.associations == "perfect" and population.truth is not None:
        truth = population.truth

        def classes(client: int) -> list[int]:
            labels = fed.clients[client].state["labels"]
            return classes_of(truth[client], labels)

        return dataclasses.replace(method, oracle=classes)
    return method
