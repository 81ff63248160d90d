"""Tasks of FedCRef's clients: one function per exchange of the algorithm in `fedcref`.

The state of a client holds ``labels`` ``(n,)`` int64, its local clusters; ``previous``, those before the last
refinement; ``holds_most``, whether it has most of kin-graph's clusters; ``halves`` ``(n,)``, the half of its local
cluster that each sample is in; ``models`` ``(local clusters, replicas, size)``, while they belong to the current
labels; ``errors`` ``(local clusters, n)``, of the models that the last refinement has selected; ``clusters`` and
``confidence`` ``(n,)``, the result. It may begin with ``given`` labels and with ``n_clusters``, the number of local
clusters.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fedkin.clustering.margins import distance_margin
from fedkin.clustering.metrics import clustering_accuracy
from fedkin.clustering.nearest import nearest_centroids
from fedkin.core import Client, FedkinError, Payload, client_task, task
from fedkin.core.replies import (
    Expected,
    Nullable,
    Optional,
    count_or,
    counts_to,
    features,
    int64,
    is_count,
    is_flag,
    is_list,
    is_nonempty_list,
    one_of,
    reals,
    updates,
    within,
)
from fedkin.core.seeds import derive_generator, draw_seed
from fedkin.methods.samples.fedcref import association
from fedkin.methods.samples.fedcref.association import percentile_difference
from fedkin.methods.samples.fedcref.first_clusters import initial_labels
from fedkin.methods.samples.sample_method import own_count
from fedkin.nn.network_forms import MANY, OUTPUT, STACK_TRAINING, WIDTHS
from fedkin.nn.stack import Autoencoder, StackTraining, fit

# Refinement of local clusters (FedCRef, Algorithm 2), by the models' errors alone.


def cluster_refine(
    errors: Tensor, n_clusters: int, min_fraction: float | None = None, *, renumbered: bool = False
) -> tuple[Tensor, list[int]]:
    """Refine clusters by an error matrix ``(models, n)`` (Algorithm 2): labels ``(n,)`` and the models selected.

    The paper selects the model that most samples choose, removes it with these samples, and repeats. That changes no
    other sample's choice, so the `n_clusters` most chosen models can be selected at once (ties: lowest index), and
    every sample assigned to the best of them. Models without samples are not selected. Clusters are numbered in the
    order of their models, so that ties do not move a sample.

    With `min_fraction` the number is free: all models are selected that are chosen by at least this fraction of an
    average cluster's samples, and the most chosen one in any case.

    With `renumbered` samples that chose no selected model are assigned as in the authors' code, see `_renumbered`.
    """
    wins = torch.bincount(errors.argmin(dim=0), minlength=len(errors))
    order = torch.argsort(wins, descending=True, stable=True)
    if min_fraction is None:
        selected = order[:n_clusters][wins[order[:n_clusters]] > 0]
    else:
        enough = wins[order] >= max(1.0, min_fraction * errors.shape[1] / n_clusters)
        selected = order[: max(1, int(enough.sum()))]
    by_wins, (selected, places) = selected, selected.sort()
    if renumbered:
        return places.argsort()[_renumbered(errors, by_wins)], selected.tolist()
    return errors[selected].argmin(dim=0), selected.tolist()


def _renumbered(errors: Tensor, by_wins: Tensor) -> Tensor:
    """Return labels ``(n,)``, places in `by_wins`, the selected models from the most chosen on, as the code has them.

    It repeats the choice among the selected models for the samples that are left, and numbers clusters anew by how many
    of these choose them. So a sample gets the cluster of the model that has the same rank among all samples, which is
    rarely the model that it chose.
    """
    labels = errors[by_wins].argmin(dim=0)
    left = ~torch.isin(errors.argmin(dim=0), by_wins)
    ranks = torch.bincount(labels[left], minlength=len(by_wins)).argsort(descending=True, stable=True).argsort()
    labels[left] = ranks[labels[left]]
    return labels


def held_errors(errors: Tensor, labels: Tensor, current: list[int], hold: float) -> Tensor:
    """Return errors ``(models, n)`` with those of each sample's present model reduced by the fraction `hold`.

    A sample then stays unless another model's error is lower by that fraction. `labels` ``(n,)`` are the samples' local
    clusters, and `current` the model of each of these. Raises FedkinError if a local cluster has no model.
    """
    if len(current) <= int(labels.max()) or max(current) >= len(errors):
        raise FedkinError("The models of the client's local clusters are not among those it received.")
    held = errors.clone()
    held[torch.tensor(current)[labels], torch.arange(len(labels))] *= 1 - hold
    return held


_MOST_FRACTION = 2 / 3
"""Fraction of kin-graph's clusters that a client must have to count as having most of them."""
_SMALLER = 0.25
"""Factor on the minimum size of such a client's clusters. Refined once, digits of all classes at each of 12 clients
have ARI 0.909 and 0.863 by the usual minimum (seeds 0 and 1), and 0.916 and 0.901 by a fifth of it."""

_SPEC: Expected = {"widths": WIDTHS, "output": OUTPUT}
_START: Expected = {
    "initial": one_of("auto", "given", "kmeans", "embedding", "dec", "kin-graph"),
    "n_clusters": count_or("auto", "given"),
    "max_clusters": counts_to(MANY, 2), "min_fraction": within(0, 1), "hold": within(0, 1), "total": is_count,
}  # fmt: skip


@client_task(takes=_START, holds={"clusters": is_count})
def start(client: Client, payload: Payload) -> Payload:
    """Find the client's first local clusters; labels stay at the client."""
    _begin(client, payload)
    return {"clusters": _n_clusters(client)}


@task(
    takes={**_START, **_SPEC, "training": STACK_TRAINING, "replicas": counts_to(2), "profiles": is_flag},
    holds={"models": updates("clusters", None, None), "samples": int64("clusters")},
    may_hold={"profiles": features("clusters", None)},
)
def train_clusters(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """Train a model per local cluster, or per half of one, all of them as one stack.

    Models are initialised anew, or from those that the client selected in its last refinement, its ``start``. The reply
    has the clusters' profiles (`profiles_of`) if the server asks for them.
    """
    model, replicas = _model(payloads[0]), payloads[0]["replicas"]
    data: list[Tensor] = []
    rows: list[Tensor] = []
    rngs: list[torch.Generator] = []
    for client, payload in zip(clients, payloads, strict=True):
        if "labels" not in client.state:  # the client missed the first exchange
            _begin(client, payload)
        labels = client.state["labels"]
        client.state["halves"] = association.split_halves(labels, client.rng)
        for local_cluster in range(_n_clusters(client)):
            for replica in range(replicas):
                chosen = labels == local_cluster
                half = chosen & (client.state["halves"] == replica)
                data.append(client.x)
                rows.append((half if replicas > 1 and half.any() else chosen).nonzero()[:, 0])
                rngs.append(derive_generator(draw_seed(client.rng)))
    models = model.initial(rngs)
    counts = [_n_clusters(client) * replicas for client in clients]
    for client, part in zip(clients, models.split(counts), strict=True):
        if "start" in client.state:
            part.copy_(client.state["start"].repeat_interleave(replicas, dim=0))
    stack = fit(model, models, data, rngs, StackTraining(**payloads[0]["training"]), rows=rows)
    for client, part in zip(clients, stack.split(counts), strict=True):
        client.state["models"] = part.unflatten(0, (-1, replicas)).clone()
    return [_trained(client, payload["profiles"]) for client, payload in zip(clients, payloads, strict=True)]


@client_task(
    takes={
        **_SPEC, "rule": one_of("held-out", "paper"), "percentile": within(0, 100), "models": updates(None, None, None),
    },
    holds={"statistics": reals(None, None, minimum=0, maximum=1)},
)  # fmt: skip
def score(client: Client, payload: Payload) -> Payload:
    """Score foreign models on the client's samples; only a statistic per pair of local clusters leaves the client."""
    rule = _held_out_statistic if payload["rule"] == "held-out" else _paper_statistic
    return {"statistics": rule(client, payload)}


@client_task(takes={}, holds={"clusters": int64(None)})
def tally(client: Client, payload: Payload) -> Payload:
    """Send the kin-graph cluster of most samples of each local cluster."""
    clusters, labels = client.state["first_clusters"], client.state["labels"]
    return {"clusters": torch.stack([clusters[labels == q].mode().values for q in range(_n_clusters(client))])}


@task(
    takes={**_SPEC, "training": STACK_TRAINING, "models": updates(None, "size"), "clusters": is_list(is_count)},
    holds={"models": updates("clusters", None), "samples": int64("clusters")},
)
def train_community(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """Train each community's model on the client's local cluster in it, for one round of federated averaging."""
    pairs = zip(clients, payloads, strict=True)
    parts = [(client, cluster) for client, payload in pairs for cluster in payload["clusters"]]
    data = [client.x for client, _ in parts]
    rows = [(client.state["labels"] == cluster).nonzero()[:, 0] for client, cluster in parts]
    counts = [len(payload["clusters"]) for payload in payloads]
    rngs = [
        derive_generator(draw_seed(client.rng))
        for client, count in zip(clients, counts, strict=True)
        for _ in range(count)
    ]
    models = torch.cat([payload["models"] for payload in payloads])
    training = StackTraining(**payloads[0]["training"])
    stack = fit(_model(payloads[0]), models, data, rngs, training, rows=rows)
    samples = torch.tensor([len(chosen) for chosen in rows])
    return [{"models": m, "samples": n} for m, n in zip(stack.split(counts), samples.split(counts), strict=True)]


@client_task(
    takes={
        **_SPEC, "min_fraction": Nullable(within(0, 1)), "continuity": is_flag, "models": updates(None, "size"),
        "own": is_list(is_count), "hold": within(0, 1), "current": is_list(is_count), "renumbered": is_flag,
    },
    holds={"unchanged": within(0, 1), "selected": is_nonempty_list(is_count)},
)  # fmt: skip
def refine(client: Client, payload: Payload) -> Payload:
    """Assign the client's samples to the best of its own models and the communities' (Algorithm 2)."""
    model, x, before = _model(payload), client.x.flatten(1), client.state["labels"]
    models = client.state["models"]
    if models.shape[1] == 2:
        own = association.held_out_errors(model, models, x, client.state["halves"])
    else:
        own = model.errors(models[:, 0], x)
    errors = torch.cat([own[payload["own"]], model.errors(payload["models"], x)])
    min_fraction = payload["min_fraction"]
    compared = errors
    if client.state.get("holds_most", False):
        compared = held_errors(errors, before, payload["current"], payload["hold"])
        min_fraction = None if min_fraction is None else min_fraction * _SMALLER
    labels, selected = cluster_refine(compared, len(own), min_fraction, renumbered=payload["renumbered"])
    if payload["continuity"]:
        client.state["start"] = torch.cat([models[payload["own"], 0], payload["models"]])[selected]
    client.state.update(labels=labels, previous=before, errors=errors[selected])
    del client.state["models"]  # they belong to the previous labels
    unchanged = clustering_accuracy(before.numpy(), labels.numpy())
    return {"unchanged": unchanged, "selected": selected}


@client_task(
    takes={
        "widths": Optional(WIDTHS), "output": Optional(OUTPUT), "models": Optional(updates(None, "size")),
        "clusters": Optional(is_list(is_count)),
    }
)  # fmt: skip
def finish(client: Client, payload: Payload) -> Payload:
    """Assign every sample to its cluster, at the client."""
    errors = client.state.pop("errors", None)
    if "clusters" in payload:
        clusters = torch.tensor(payload["clusters"])
        found = clusters[client.state["labels"]]
    else:
        errors = _model(payload).errors(payload["models"], client.x.flatten(1))
        found, clusters = errors.argmin(dim=0), torch.arange(len(errors))
    client.state["clusters"] = found
    if errors is not None and len(errors) == len(clusters):
        client.state["confidence"] = _margin(errors, clusters, found)
    return {}


def _margin(errors: Tensor, clusters: Tensor, found: Tensor) -> Tensor:
    """Return the `distance_margin` by the errors ``(models, n)`` of models of these `clusters` ``(models,)``."""
    known, position = clusters.unique(return_inverse=True)
    lowest = torch.full((len(known), errors.shape[1]), torch.inf).scatter_reduce(
        0, position[:, None].expand_as(errors), errors.float(), "amin"
    )
    return distance_margin(lowest.T, torch.searchsorted(known, found))


def profiles_of(x: Tensor, labels: Tensor) -> Tensor:
    """Return each cluster's mean and standard deviation of every feature: ``(clusters, 2 * features)``."""
    parts = [x[labels == cluster] for cluster in range(int(labels.max()) + 1)]
    return torch.stack([torch.cat([part.mean(0), part.std(0, correction=0)]) for part in parts])


def _trained(client: Client, with_profiles: bool) -> Payload:
    labels = client.state["labels"]
    reply = {"models": client.state["models"], "samples": labels.bincount()}
    return reply | {"profiles": profiles_of(client.x.flatten(1), labels)} if with_profiles else reply


def _begin(client: Client, payload: Payload) -> None:
    how, wanted = payload["initial"], payload["n_clusters"]
    if how == "given" or (how == "auto" and "given" in client.state):
        if "given" not in client.state:
            raise FedkinError(f"method.initial = 'given', but client {client.id} has no given labels.", public=True)
        client.state["labels"] = client.state["given"].clone()
        return
    count = None if wanted == "auto" else own_count(client, wanted, "n_clusters")
    if how == "kin-graph":
        x, clusters, minimum = client.x.flatten(1), client.state["first_clusters"], payload["min_fraction"]
        labels = _without_small(x, clusters, minimum)
        holds_most = payload["hold"] > 0 and int(labels.max()) + 1 >= _MOST_FRACTION * payload["total"]
        client.state["labels"] = _without_small(x, clusters, minimum * _SMALLER) if holds_most else labels
        client.state["holds_most"] = torch.tensor(holds_most)
        return
    how = "embedding" if how == "auto" else how
    client.state["labels"] = initial_labels(client.x.flatten(1), how, count, client.rng, payload["max_clusters"])


def _without_small(x: Tensor, clusters: Tensor, min_fraction: float) -> Tensor:
    """Return clusters without those below `min_fraction` of the average size; their samples join the nearest mean."""
    labels, sizes = clusters.unique(return_inverse=True, return_counts=True)[1:]
    kept = (sizes >= min_fraction * len(x) / len(sizes)).nonzero()[:, 0]
    means = torch.stack([x[labels == cluster].mean(0) for cluster in kept])
    renumbered = torch.full((len(sizes),), -1)
    renumbered[kept] = torch.arange(len(kept))
    return torch.where(renumbered[labels] >= 0, renumbered[labels], nearest_centroids(x, means))


def _paper_statistic(client: Client, payload: Payload) -> Tensor:
    model, x, labels = _model(payload), client.x.flatten(1), client.state["labels"]
    own, foreign = model.errors(client.state["models"][:, 0], x), model.errors(payload["models"][:, 0], x)
    return torch.stack(
        [
            percentile_difference(own[q, labels == q], foreign[:, labels == q], payload["percentile"])
            for q in range(len(own))
        ]
    )


def _held_out_statistic(client: Client, payload: Payload) -> Tensor:
    model, labels, halves = _model(payload), client.state["labels"], client.state["halves"]
    rows = association.held_out_rows(labels, halves)
    x, labels, halves = client.x.flatten(1)[rows], labels[rows], halves[rows]
    own = association.held_out_errors(model, client.state["models"], x, halves)
    foreign = association.held_out_errors(model, payload["models"], x, halves)
    return association.loss_rates(own.gather(0, labels[None])[0], foreign, labels, len(own))


def _n_clusters(client: Client) -> int:
    return int(client.state["labels"].max()) + 1


def spec(model: Autoencoder) -> Payload:
    return {"widths": list(model.widths), "output": model.output}


def _model(payload: Payload) -> Autoencoder:
    return Autoencoder(tuple(payload["widths"]), payload["output"])
