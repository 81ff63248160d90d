"""A client's own work in methods that cluster clients: training of models, and what describes its classes."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import wraps
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from fedkin.core import Client, FedkinError, Payload, task
from fedkin.core.payload import Expected, is_amount, is_number, updates
from fedkin.core.seeds import uniform
from fedkin.core.tasks import Task
from fedkin.nn.client_stack import Job, train_all
from fedkin.nn.descent import LOCAL_TRAINING, LocalTraining
from fedkin.nn.modules import CLASSIFIER, Classifier

TRAINING: Expected = {"module": CLASSIFIER, "model": updates("size"), "training": LOCAL_TRAINING}
"""What a task takes that trains a model."""
TRAINED: Expected = {"update": updates(None), "samples": is_amount, "loss": is_number}
"""What it replies."""

Training = Generator[list[Job], list[tuple[Tensor, float]], Payload]
"""A client's work in a round: it yields models to train, is sent each with its mean loss, and returns the reply."""


def training_task(
    also: Expected | None = None, **declared: Any
) -> Callable[[Callable[[Client, Payload], Training]], Task]:
    """As `fedkin.core.client_task`, of a client's `Training`: what many clients train meanwhile trains together.

    That is faster on an accelerator, and changes no client's reply. By default it takes a model, and what it takes
    `also`, and replies what training has changed.
    """
    declared = {
        "takes": {**TRAINING, **(also or {})}, "holds": TRAINED,
        "sends": "What training has changed in a network, the number of rows, and how wrong it was", **declared,
    }  # fmt: skip

    def registered(run: Callable[[Client, Payload], Training]) -> Task:
        @wraps(run)
        def together(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
            works = [run(client, payload) for client, payload in zip(clients, payloads, strict=True)]
            replies: dict[int, Payload] = {}
            models: dict[int, Any] = dict.fromkeys(range(len(works)))
            while models:
                jobs: dict[int, list[Job]] = {}
                for row, trained in models.items():
                    try:
                        jobs[row] = works[row].send(trained)
                    except StopIteration as end:
                        replies[row] = end.value
                results = iter(train_all([job for part in jobs.values() for job in part]))
                models = {row: list(islice(results, len(part))) for row, part in jobs.items()}
            return [replies[row] for row in range(len(works))]

        return task(**declared)(together)

    return registered


def trained_update(job: Job) -> Training:
    """Train a model; the reply is its ``update``, the number of ``samples`` and the training ``loss``."""
    ((model, loss),) = yield [job]
    # In place: the trained model is nobody else's, and a second one per client would be half of a round's memory.
    return {"update": model.sub_(job.start), "samples": len(job.x), "loss": loss}


def training_of(client: Client, payload: Payload, start: Tensor) -> Job:
    """Return the job of training a model on all of the client's data, as ``module`` and ``training`` say."""
    classifier, training = Classifier.of(payload["module"]), LocalTraining(**payload["training"])
    return Job(classifier, start, client.x, labels_of(client), client.rng, training)


def labels_of(client: Client) -> Tensor:
    """Return the client's labels.

    Raises FedkinError if it has none.
    """
    if client.y is None:
        raise FedkinError(
            f"Client {client.id} has no labels; a method of clustered federated learning needs them.", public=True
        )
    return client.y


def filling_of(client: Client, key: str, rows: int, width: int) -> Tensor:
    """Return random values ``(rows, width)`` that stand for the classes a client lacks; they are drawn once and kept.

    They must stay unknown to the server, which would otherwise learn which classes are missing.
    """
    filling = client.state.get(key)
    return uniform((rows, width), client.noise, torch.float32) if filling is None else filling


def means_by_class(client: Client, filling: Tensor, features: Callable[[Tensor], Tensor]) -> Tensor:
    """Return the mean feature vector of every class ``(classes, width)``; classes without samples get their `filling`.

    Later classes, which no client had when clusters were formed, are left out.
    """
    means, y = filling.clone(), labels_of(client)
    for label in y.unique().tolist():
        if label < len(means):
            means[label] = features(client.x[y == label]).mean(0)
    return means


def singular_vectors(client: Client, segments: int, count: int, by_class: bool = True) -> Tensor:
    """Return a client's first singular vectors, of length 1 or 0: float32 ``(segments, count, features)``.

    Segments are classes, of which later ones are left out; or, unless `by_class`, the first has the vectors of all
    samples. What has fewer vectors is filled up with zeros.
    """
    x = client.x.flatten(1)
    sets = torch.zeros(segments, count, x.shape[1])
    parts = [(0, x)]
    if by_class:
        y = labels_of(client)
        parts = [(label, x[y == label]) for label in y.unique().tolist() if label < segments]
    for segment, samples in parts:
        _, values, vectors = torch.linalg.svd(samples.double(), full_matrices=False)
        vectors = vectors[values > 1e-6 * values[0]][:count]  # beyond is rounding
        sets[segment, : len(vectors)] = vectors.float()
    return sets
