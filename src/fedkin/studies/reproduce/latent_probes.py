"""Probes of latent representations: how well they separate the true classes, also after local training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from sklearn.metrics import calinski_harabasz_score
from torch import Tensor

from fedkin.core import Client, Federation, FedkinError
from fedkin.core.progress import Progress
from fedkin.core.seeds import derive_generator
from fedkin.data.preparing.prepare import prepare
from fedkin.engines.local import one_thread
from fedkin.experiment.outputs import load_found
from fedkin.experiment.run import open_federation
from fedkin.experiment.run_folder import run_config
from fedkin.methods.samples.ccfc import ccfc
from fedkin.methods.samples.ccfc.contrastive import Contrastive, ContrastiveTraining
from fedkin.methods.samples.sample_method import describe_clients

_OF_A_CLASS = 100


def separation(folder: Path) -> dict[str, float]:
    """Return Calinski-Harabasz scores of the true classes; higher is better separated (CCFC, figures 3 to 5).

    ``samples`` and ``latents`` are of the samples of all clients, as they are and as the method represents them. For
    CCFC's networks there are more. Local networks are those of clients that train alone; else they are the common
    network after another round of local training by clusters, with new moments of Adam, before averaging:

    * ``client-samples``, ``client-common`` and ``client-local`` are of the first client's samples, as they are, in the
      common network and in its local one, where that client has two classes or more;
    * ``local`` and ``common`` are of up to 100 samples of each of two classes, drawn by the run's seed from those of
      all clients, in their clients' local networks and in the common one.

    Raises FedkinError if the run's data have no classes.
    """
    config, found = run_config(folder), load_found(folder)
    with open_federation(config, folder, Progress()) as (population, fed), one_thread():
        if population.truth is None:
            raise FedkinError(f"{folder} has no classes to be separated.")
        prepare(fed, config.data.preparing)
        clients, truth = population.clients, population.truth
        x, y = torch.cat([client.x for client in clients]), torch.cat(truth)
        figures = {"samples": _score(x.flatten(1), y), "latents": _score(found.method.embed(found.result, x), y)}
        if "network" in found.result:
            rows = _of_two_classes(y, derive_generator(config.seed, "two classes"))
            figures |= _of_networks(config.method, found.result, fed, clients, y, rows)
    return {name: score for name, score in figures.items() if score is not None}


def _of_networks(
    method: Any, result: Mapping[str, Any], fed: Federation, clients: Sequence[Client], y: Tensor, rows: Tensor
) -> dict[str, float | None]:
    """Return the scores that need the networks; `rows` are of two classes, `y` are the classes of all samples."""
    network, sizes = Contrastive.of(result["network"]), [len(client) for client in clients]
    local = result["models"] if method.standalone else _after_another_round(method, result, fed)
    pairs = list(zip(local, clients, strict=True))
    own = torch.cat([network.latents(model, client.x) for model, client in pairs])
    first = slice(0, sizes[0])
    scores = {
        "client-samples": _score(clients[0].x.flatten(1), y[first]),
        "client-local": _score(own[first], y[first]),
        "local": _score(own[rows], y[rows]),
    }
    if not method.standalone:
        common = torch.cat([network.latents(result["models"][0], client.x) for client in clients])
        scores |= {"client-common": _score(common[first], y[first]), "common": _score(common[rows], y[rows])}
    return scores


def _after_another_round(method: Any, result: Mapping[str, Any], fed: Federation) -> list[Tensor]:
    """Train the common network locally for another round, and return each client's network."""
    training = {field.name: getattr(method, field.name) for field in fields(ContrastiveTraining)}
    payload = {
        "network": result["network"], "model": result["models"][0], "centroids": result["centroids"][0],
        "n_clusters": method.n_clusters, "restarts": 1, "training": training, "unit": describe_clients(fed).unit,
        "guided": False,
    }  # fmt: skip
    replies = fed.ask(ccfc.learn_clusters, fed.all(**payload))
    return [replies[client]["model"] for client in sorted(replies)]


def _of_two_classes(y: Tensor, rng: torch.Generator) -> Tensor:
    """Draw up to 100 rows of each of two classes of `y`; of all classes if there are fewer than two."""
    classes = y.unique()
    chosen = classes[torch.randperm(len(classes), generator=rng)[:2]]
    drawn = [(y == one).nonzero()[:, 0] for one in chosen]
    return torch.cat([rows[torch.randperm(len(rows), generator=rng)[:_OF_A_CLASS]] for rows in drawn])


def _score(points: Tensor, y: Tensor) -> float | None:
    """Return the Calinski-Harabasz score; ``None`` with fewer than two classes or too few samples."""
    count = len(y.unique())
    return float(calinski_harabasz_score(points.numpy(), y.numpy())) if 1 < count < len(y) else None
