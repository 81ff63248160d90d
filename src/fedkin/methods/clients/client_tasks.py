"""What clients do for every method of clustered federated learning."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from fedkin.core import Client, FedkinError, Payload, task
from fedkin.core.noise import uniform
from fedkin.core.replies import is_amount, is_count, is_number, is_shape
from fedkin.nn.classifier import Classifier
from fedkin.nn.descent import Descent, descend


@task(holds={"shape": is_shape, "classes": is_count})
def describe(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """Shape of a sample, and one more than the greatest label; 0 classes where there are no labels."""
    return [
        {"shape": list(client.x.shape[1:]), "classes": 0 if client.y is None else int(client.y.max()) + 1}
        for client in clients
    ]


@task(holds={"samples": is_amount, "loss": is_number})
def train(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """Train the model that came on the client's own data; its change, the number of samples and the training loss."""
    replies: list[Payload] = []
    for client, payload in zip(clients, payloads, strict=True):
        classifier = Classifier.of(payload["module"])
        model, loss = descend(
            classifier, payload["model"], client.x, labels_of(client), client.rng, Descent(**payload["training"])
        )
        replies.append({"update": model.sub_(payload["model"]), "samples": len(client), "loss": loss})
    return replies


@task
def losses(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """Mean loss of each model that came ``(K, size)`` on all of the client's data, as ``losses`` ``(K,)``."""
    return [
        {"losses": losses_of(payload["models"], Classifier.of(payload["module"]), client.x, labels_of(client))}
        for client, payload in zip(clients, payloads, strict=True)
    ]


def losses_of(models: Tensor, classifier: Classifier, x: Tensor, y: Tensor) -> Tensor:
    """Mean loss of every model ``(K, size)`` on the same samples: ``(K,)``."""
    return torch.tensor([classifier.loss(model, x, y) for model in models])


def least(losses: Tensor) -> int:
    """Number of the model with the least of `losses` ``(K,)``; one that has diverged, whose loss is NaN, comes last."""
    return int(losses.nan_to_num(nan=torch.inf).argmin())


def labels_of(client: Client) -> Tensor:
    """The client's labels."""
    if client.y is None:
        raise FedkinError(f"Client {client.id} has no labels; a method of clustered federated learning needs them.")
    return client.y


def filling_of(client: Client, key: str, rows: int, width: int) -> Tensor:
    """What stands for classes that a client does not have, uniform ``(rows, width)``: as it remembers, or drawn now.

    The server must not know it, or it could tell which classes these are.
    """
    known = client.state.get(key)
    return uniform((rows, width), client.noise, torch.float32) if known is None else known


def means_by_class(client: Client, filling: Tensor, describe: Callable[[Tensor], Tensor]) -> Tensor:
    """Mean description of every class ``(classes, width)``; classes without samples keep their `filling`.

    A class beyond them, which nobody had when clusters were formed, has no place.
    """
    means, y = filling.clone(), labels_of(client)
    for label in y.unique().tolist():
        if label < len(means):
            means[label] = describe(client.x[y == label]).mean(0)
    return means
