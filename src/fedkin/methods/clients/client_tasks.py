"""Tasks of clients that all methods of clustered federated learning share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from fedkin.core import Client, FedkinError, Payload, client_task, task
from fedkin.core.noise import uniform
from fedkin.core.replies import candidates, is_amount, is_classes, is_number, is_shape, reals, updates
from fedkin.nn.classifier import Classifier
from fedkin.nn.client_stack import Job, descend_all
from fedkin.nn.descent import Descent
from fedkin.nn.network_forms import CLASSIFIER, DESCENT


@client_task(takes={}, holds={"shape": is_shape, "classes": is_classes})
def describe(client: Client, payload: Payload) -> Payload:
    """Report the shape of a sample and the number of classes, one more than the largest label; 0 without labels."""
    return {"shape": list(client.x.shape[1:]), "classes": 0 if client.y is None else int(client.y.max()) + 1}


@task(
    takes={"module": CLASSIFIER, "model": updates("size"), "training": DESCENT},
    holds={"update": updates(None), "samples": is_amount, "loss": is_number},
)
def train(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """Train the model on the client's data; report the update, the number of samples and the training loss."""
    pairs = zip(clients, payloads, strict=True)
    return trained_updates([training_of(client, payload, payload["model"]) for client, payload in pairs])


def trained_updates(jobs: Sequence[Job]) -> list[Payload]:
    """Train, and return for each job the update, the number of samples and the training loss."""
    return [
        {"update": model.sub_(job.start), "samples": len(job.x), "loss": loss}
        for job, (model, loss) in zip(jobs, descend_all(jobs), strict=True)
    ]


def training_of(client: Client, payload: Payload, start: Tensor) -> Job:
    """Return the job of training a model on all of the client's data, as ``module`` and ``training`` say."""
    classifier, descent = Classifier.of(payload["module"]), Descent(**payload["training"])
    return Job(classifier, start, client.x, labels_of(client), client.rng, descent)


@client_task(
    takes={"module": CLASSIFIER, "models": candidates("models", "size")}, holds={"losses": reals(None, minimum=0)}
)
def losses(client: Client, payload: Payload) -> Payload:
    """Report the mean loss of each model ``(K, size)`` on all of the client's data, as ``losses`` ``(K,)``."""
    classifier, y = Classifier.of(payload["module"]), labels_of(client)
    return {"losses": torch.tensor([classifier.loss(model, client.x, y) for model in payload["models"]])}


def lowest_loss(losses: Tensor) -> int:
    """Return the index of the lowest of `losses` ``(K,)``; a model that has diverged, whose loss is NaN, comes last."""
    return int(losses.nan_to_num(nan=torch.inf).argmin())


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
    known = client.state.get(key)
    return uniform((rows, width), client.noise, torch.float32) if known is None else known


def means_by_class(client: Client, filling: Tensor, describe: Callable[[Tensor], Tensor]) -> Tensor:
    """Return the mean feature vector of every class ``(classes, width)``; classes without samples get their `filling`.

    Later classes, which no client had when clusters were formed, are left out.
    """
    means, y = filling.clone(), labels_of(client)
    for label in y.unique().tolist():
        if label < len(means):
            means[label] = describe(client.x[y == label]).mean(0)
    return means
