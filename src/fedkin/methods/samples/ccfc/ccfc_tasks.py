"""What CCFC asks a client to do: one function per exchange of the algorithm in `ccfc`.

A client keeps in its private state what Adam remembers, ``adam_mean``, ``adam_square`` and ``adam_steps``, while a phase
lasts; ``phase``, 0 for views and 1 for clusters; and ``clusters`` ``(n,)`` in the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from fedkin.clustering.k_means import k_means
from fedkin.core import Client, Payload, task
from fedkin.core.replies import Expected, is_count, is_number
from fedkin.methods.samples.sample_method import assign_samples
from fedkin.nn.augmentation import augmentation_for
from fedkin.nn.contrastive_training import Contrastive, ContrastiveTraining
from fedkin.nn.optimisers import AdamMoments

_VIEWS, _CLUSTERS = 0, 1


_TRAINED: Expected = {"samples": is_count}


@task(holds=_TRAINED, may_hold={"loss": is_number})
def learn_views(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """Train the model that came by pairs of views; the model, the number of samples and the loss, if any."""
    replies: list[Payload] = []
    for client, payload in zip(clients, payloads, strict=True):
        network, training = Contrastive.of(payload["network"]), ContrastiveTraining(**payload["training"])
        moments = _moments(client, _VIEWS, network)
        how = augmentation_for(network.shape, payload["unit"])
        model, loss = network.learn_views(begun(payload), client.x, client.rng, moments, how, training)
        moments.keep(client.state)
        replies.append(_trained(client, model, loss))
    return replies


@task(holds=_TRAINED, may_hold={"loss": is_number})
def learn_clusters(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """Lines 6 to 11 of algorithm 1: clusters by the model that came, training by them, and centroids of what it gives."""
    replies: list[Payload] = []
    for client, payload in zip(clients, payloads, strict=True):
        network, training = Contrastive.of(payload["network"]), ContrastiveTraining(**payload["training"])
        moments = _moments(client, _CLUSTERS, network)
        start = begun(payload)
        latents, anchors = network.anchors(start, client.x, training)
        clusters = (latents @ payload["centroids"].T).argmax(1)
        model, loss = network.learn_clusters(start, client.x, clusters, anchors, client.rng, moments, training)
        moments.keep(client.state)
        replies.append(_trained(client, model, loss) | {"centroids": _centroids(client, model, payload)})
    return replies


@task
def locate(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """Centroids of the client's samples as the model that came represents them."""
    pairs = zip(clients, payloads, strict=True)
    return [{"centroids": _centroids(client, begun(payload), payload)} for client, payload in pairs]


@task
def finish(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """Write down the cluster of every sample, numbered from ``first``; what training remembered has served."""
    for client in clients:
        AdamMoments.forget(client.state)
        client.state.pop("phase", None)
    replies = assign_samples(clients, payloads, nearest)
    for client, payload in zip(clients, payloads, strict=True):
        client.state["clusters"] += payload["first"]
    return replies


def nearest(result: Mapping[str, Any], x: Tensor) -> Tensor:
    """Centroid with the largest cosine to each sample of ``(n, *shape)``, counted through all networks: int64 ``(n,)``.

    Eq. 3 takes Euclidean distances; between vectors of length 1, as in the authors' code, that is the same.
    """
    network = Contrastive.of(result["network"])
    pairs = zip(result["models"], result["centroids"], strict=True)
    return torch.cat([network.latents(model, x) @ own.T for model, own in pairs], dim=1).argmax(1)


def begun(payload: Payload) -> Tensor:
    """The model that came, or the one of the seed that came."""
    if "model" in payload:
        model: Tensor = payload["model"]
        return model
    return Contrastive.of(payload["network"]).initial(torch.Generator().manual_seed(payload["begin"]))


def _moments(client: Client, phase: int, network: Contrastive) -> AdamMoments:
    """What Adam remembers at this client: every phase begins with an optimiser that is new."""
    if int(client.state.get("phase", torch.tensor(-1))) != phase:
        AdamMoments.forget(client.state)
        client.state["phase"] = torch.tensor(phase)
    return AdamMoments.kept(client.state, network.parameters)


def _trained(client: Client, model: Tensor, loss: float | None) -> Payload:
    return {"model": model, "samples": len(client)} | ({} if loss is None else {"loss": loss})


def _centroids(client: Client, model: Tensor, payload: Payload) -> Tensor:
    latents = Contrastive.of(payload["network"]).latents(model, client.x)
    return k_means(latents, payload["n_clusters"], client.rng, payload["restarts"]).centres
