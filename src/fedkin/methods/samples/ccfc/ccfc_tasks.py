"""Tasks of CCFC's clients: one function per exchange of the algorithm in `ccfc`.

The state of a client holds Adam's moments, ``adam_mean``, ``adam_square`` and ``adam_steps``, during a phase;
``phase``, 0 for views and 1 for clusters; ``kingraph_clusters`` ``(n,)``, if the second phase learns from them; and at
the end ``clusters`` ``(n,)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from fedkin.clustering.k_means import k_means
from fedkin.clustering.margins import distance_margin
from fedkin.core import Client, Payload, client_task
from fedkin.core.replies import (
    Expected,
    Maybe,
    Several,
    counts_to,
    is_count,
    is_flag,
    is_list,
    is_number,
    is_seed,
    is_text,
    reals,
    updates,
)
from fedkin.methods.samples.ccfc.augmentation import augmentation_for
from fedkin.methods.samples.ccfc.contrastive_training import Contrastive, ContrastiveTraining
from fedkin.methods.samples.sample_method import assign_samples
from fedkin.nn.network_forms import CONTRASTIVE_TRAINING, DESIGN, MANY
from fedkin.nn.optimisers import AdamMoments

_VIEWS, _CLUSTERS = 0, 1

_TRAINED: Expected = {"model": updates(None), "samples": is_count}
_CENTROIDS = reals("clusters", "latent")
_COMMON: Expected = {
    "network": DESIGN, "n_clusters": counts_to(MANY), "restarts": counts_to(MANY), "model": Maybe(updates("size")),
    "begin": Maybe(is_seed),
}  # fmt: skip
_RESULT: Expected = {
    "network": DESIGN, "n_clusters": Maybe(is_count), "models": Several(updates("size")),
    "centroids": Several(reals(None, "latent")), "clients": Maybe(is_list(is_text)),
}  # fmt: skip


@client_task(
    takes={**_COMMON, "centroids": Maybe(_CENTROIDS), "training": CONTRASTIVE_TRAINING, "unit": is_flag},
    holds=_TRAINED,
    may_hold={"loss": is_number},
)
def learn_views(client: Client, payload: Payload) -> Payload:
    """Train the model on pairs of views; send the model, the number of samples and the loss, if any."""
    network, training = Contrastive.of(payload["network"]), ContrastiveTraining(**payload["training"])
    moments = _moments(client, _VIEWS, network)
    how = augmentation_for(network.shape, payload["unit"], training.views)
    model, loss = network.learn_views(initial_model(payload), client.x, client.rng, moments, how, training)
    moments.keep(client.state)
    return _trained(client, model, loss)


@client_task(
    takes={**_COMMON, "centroids": _CENTROIDS, "training": CONTRASTIVE_TRAINING, "unit": is_flag, "guided": is_flag},
    holds=_TRAINED,
    may_hold={"loss": is_number},
)
def learn_clusters(client: Client, payload: Payload) -> Payload:
    """Assign samples, train the model on the clusters, and send it with new centroids (algorithm 1, lines 6 to 11).

    With ``guided`` the clusters are those of kin-graph, if the client has them.
    """
    network, training = Contrastive.of(payload["network"]), ContrastiveTraining(**payload["training"])
    moments = _moments(client, _CLUSTERS, network)
    start = initial_model(payload)
    latents, anchors = network.anchors(start, client.x, training)
    clusters = _clusters(client, latents, payload)
    model, loss = network.learn_clusters(start, client.x, clusters, anchors, client.rng, moments, training)
    moments.keep(client.state)
    return _trained(client, model, loss) | {"centroids": _centroids(client, model, payload)}


def _clusters(client: Client, latents: Tensor, payload: Payload) -> Tensor:
    """Return the clusters that a client learns from, int64 ``(n,)``."""
    guides = client.state.get("kingraph_clusters")
    if payload["guided"] and guides is not None:
        return guides
    nearest: Tensor = (latents @ payload["centroids"].T).argmax(1)
    return nearest


@client_task(takes={**_COMMON, "centroids": Maybe(_CENTROIDS)}, holds={"centroids": reals(None, None)})
def locate(client: Client, payload: Payload) -> Payload:
    """Send k-means centroids of the samples' representations."""
    return {"centroids": _centroids(client, initial_model(payload), payload)}


@client_task(takes={"result": _RESULT, "first": is_count})
def finish(client: Client, payload: Payload) -> Payload:
    """Assign every sample to a cluster, numbered from ``first``, and delete Adam's moments."""
    AdamMoments.forget(client.state)
    client.state.pop("phase", None)
    reply = assign_samples(client, payload, predict_nearest, cosine_margin)
    client.state["clusters"] += payload["first"]
    return reply


def predict_nearest(result: Mapping[str, Any], x: Tensor) -> Tensor:
    """Return the centroid with the largest cosine to each sample ``(n, *shape)``, int64 ``(n,)``.

    Centroids are numbered through all networks.

    Eq. 3 has Euclidean distances; for vectors of length 1, as in the authors' code, the order is the same.
    """
    return _cosines(result, x).argmax(1)


def cosine_margin(result: Mapping[str, Any], x: Tensor) -> Tensor:
    """Return 1 - d1 / d2 with distances d1, d2 to the nearest and second nearest centroid, ``(n,)`` in [0, 1].

    Distances are those of vectors of length 1.
    """
    return distance_margin((2 - 2 * _cosines(result, x).double()).clamp_min(0).sqrt())


def _cosines(result: Mapping[str, Any], x: Tensor) -> Tensor:
    """Return cosines ``(n, k)`` between the samples' representations and the centroids of all networks."""
    network = Contrastive.of(result["network"])
    pairs = zip(result["models"], result["centroids"], strict=True)
    return torch.cat([network.latents(model, x) @ own.T for model, own in pairs], dim=1)


def initial_model(payload: Payload) -> Tensor:
    """Return the model in the payload, or the random one of the payload's seed."""
    if "model" in payload:
        model: Tensor = payload["model"]
        return model
    return Contrastive.of(payload["network"]).initial(torch.Generator().manual_seed(payload["begin"]))


def _moments(client: Client, phase: int, network: Contrastive) -> AdamMoments:
    """Return the client's Adam moments; every phase starts with new ones."""
    if int(client.state.get("phase", torch.tensor(-1))) != phase:
        AdamMoments.forget(client.state)
        client.state["phase"] = torch.tensor(phase)
    return AdamMoments.kept(client.state, network.parameters)


def _trained(client: Client, model: Tensor, loss: float | None) -> Payload:
    return {"model": model, "samples": len(client)} | ({} if loss is None else {"loss": loss})


def _centroids(client: Client, model: Tensor, payload: Payload) -> Tensor:
    latents = Contrastive.of(payload["network"]).latents(model, client.x)
    return k_means(latents, payload["n_clusters"], client.rng, payload["restarts"]).centres
