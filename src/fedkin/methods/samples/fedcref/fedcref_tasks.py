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
from fedkin.core import replies as forms
from fedkin.core.seeds import derive_generator, draw_seed
from fedkin.methods.samples.fedcref import association
from fedkin.methods.samples.fedcref.first_clusters import initial_labels
from fedkin.methods.samples.sample_method import own_count
from fedkin.nn.network_forms import OUTPUT, STACK_TRAINING, WIDTHS
from fedkin.nn.stack import Autoencoder, StackTraining, fit

MIN_FRACTION = 0.5
"""Minimum size of a local cluster whose number is free, as a fraction of the average one."""
_SMALLER = 0.25
"""Factor on the minimum size of clusters of a client that has most of kin-graph's. Refined once, digits of all classes
at each of 12 clients have ARI 0.909 and 0.863 by the usual minimum (seeds 0 and 1), and 0.916 and 0.901 by a fifth of
it."""

_SPEC: forms.Expected = {"widths": WIDTHS, "output": OUTPUT}
_START: forms.Expected = {
    "initial": forms.one_of("auto", "given", "kmeans", "embedding", "dec", "kin-graph"),
    "n_clusters": forms.count_or("auto", "given"), "hold": forms.within(0, 1), "total": forms.is_count,
}  # fmt: skip


@client_task(takes=_START, holds={"clusters": forms.is_count})
def start(client: Client, payload: Payload) -> Payload:
    """Find the client's first local clusters (line 3); labels stay at the client."""
    _begin(client, payload)
    return {"clusters": _n_clusters(client)}


@task(
    takes={**_START, **_SPEC, "training": STACK_TRAINING, "replicas": forms.counts_to(2)},
    holds={"models": forms.updates("clusters", None, None), "samples": forms.int64("clusters")},
)
def train_clusters(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """Train a model per local cluster (lines 7-9), or one on each half of it, all of them as one stack.

    Models are initialised anew, or from those that the client selected in its last refinement, its ``start``.
    """
    model, replicas = _model(payloads[0]), payloads[0]["replicas"]
    data, rows, rngs = [], [], []
    for client, payload in zip(clients, payloads, strict=True):
        if "labels" not in client.state:  # the client missed the first exchange
            _begin(client, payload)
        labels = client.state["labels"]
        client.state["halves"] = association.split_halves(labels, client.rng)
        for cluster in range(_n_clusters(client)):
            for replica in range(replicas):
                members = labels == cluster
                half = members & (client.state["halves"] == replica)
                data.append(client.x)
                rows.append((half if replicas > 1 and half.any() else members).nonzero()[:, 0])
                rngs.append(derive_generator(draw_seed(client.rng)))
    models = model.initial(rngs)
    counts = [_n_clusters(client) * replicas for client in clients]
    for client, part in zip(clients, models.split(counts), strict=True):
        if "start" in client.state:
            part.copy_(client.state["start"].repeat_interleave(replicas, dim=0))
    stack = fit(model, models, data, rngs, StackTraining(**payloads[0]["training"]), rows=rows)
    for client, part in zip(clients, stack.split(counts), strict=True):
        client.state["models"] = part.unflatten(0, (-1, replicas)).clone()
    return [{"models": client.state["models"], "samples": client.state["labels"].bincount()} for client in clients]


@client_task(
    takes={
        **_SPEC, "rule": forms.one_of("held-out", "paper"), "percentile": forms.within(0, 100),
        "models": forms.updates(None, None, None),
    },
    holds={"statistics": forms.reals(None, None, minimum=0, maximum=1)},
)  # fmt: skip
def score(client: Client, payload: Payload) -> Payload:
    """Score foreign models on the client's samples; only a statistic per pair of local clusters leaves the client."""
    model, labels, x = _model(payload), client.state["labels"], client.x.flatten(1)
    models, foreign_models = client.state["models"], payload["models"]
    if payload["rule"] == "held-out":
        halves = client.state["halves"]
        rows = association.held_out_rows(labels, halves)
        x, labels, halves = x[rows], labels[rows], halves[rows]
        errors = association.held_out_errors(model, models, x, halves).gather(0, labels[None])[0]
        foreign = association.held_out_errors(model, foreign_models, x, halves)
        return {"statistics": association.loss_rates(errors, foreign, labels, len(models))}
    errors, foreign = model.errors(models[:, 0], x), model.errors(foreign_models[:, 0], x)
    statistics = [
        association.percentile_difference(errors[q, labels == q], foreign[:, labels == q], payload["percentile"])
        for q in range(len(errors))
    ]
    return {"statistics": torch.stack(statistics)}


@client_task(takes={}, holds={"clusters": forms.int64(None)})
def tally(client: Client, payload: Payload) -> Payload:
    """Send the kin-graph cluster of most samples of each local cluster."""
    clusters, labels = client.state["first_clusters"], client.state["labels"]
    return {"clusters": torch.stack([clusters[labels == q].mode().values for q in range(_n_clusters(client))])}


@task(
    takes={
        **_SPEC, "training": STACK_TRAINING, "models": forms.updates(None, "size"),
        "clusters": forms.is_list(forms.is_count),
    },
    holds={"models": forms.updates("clusters", None), "samples": forms.int64("clusters")},
)  # fmt: skip
def train_community(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """Train each community's model on the client's local cluster in it, for one round of federated averaging."""
    data, rows, rngs = [], [], []
    for client, payload in zip(clients, payloads, strict=True):
        for cluster in payload["clusters"]:
            data.append(client.x)
            rows.append((client.state["labels"] == cluster).nonzero()[:, 0])
            rngs.append(derive_generator(draw_seed(client.rng)))
    models = torch.cat([payload["models"] for payload in payloads])
    stack = fit(_model(payloads[0]), models, data, rngs, StackTraining(**payloads[0]["training"]), rows=rows)
    counts = [len(payload["clusters"]) for payload in payloads]
    samples = torch.tensor([len(chosen) for chosen in rows])
    return [{"models": m, "samples": n} for m, n in zip(stack.split(counts), samples.split(counts), strict=True)]


@client_task(
    takes={
        **_SPEC, "free": forms.is_flag, "continuity": forms.is_flag, "models": forms.updates(None, "size"),
        "own": forms.is_list(forms.is_count), "hold": forms.within(0, 1), "current": forms.is_list(forms.is_count),
        "renumbered": forms.is_flag,
    },
    holds={"unchanged": forms.within(0, 1), "selected": forms.is_list(forms.is_count, 1)},
)  # fmt: skip
def refine(client: Client, payload: Payload) -> Payload:
    """Assign the client's samples to the best of its own models and the communities' (Algorithm 2)."""
    model, x, before = _model(payload), client.x.flatten(1), client.state["labels"]
    models = client.state["models"]
    if models.shape[1] == 2:
        errors = association.held_out_errors(model, models, x, client.state["halves"])
    else:
        errors = model.errors(models[:, 0], x)
    n_clusters, min_fraction = len(errors), MIN_FRACTION if payload["free"] else None
    errors = torch.cat([errors[payload["own"]], model.errors(payload["models"], x)])
    compared = errors
    if client.state.get("holds_most", False):
        compared = held_errors(errors, before, payload["current"], payload["hold"])
        min_fraction = None if min_fraction is None else min_fraction * _SMALLER
    labels, selected = cluster_refine(compared, n_clusters, min_fraction, renumbered=payload["renumbered"])
    if payload["continuity"]:
        client.state["start"] = torch.cat([models[payload["own"], 0], payload["models"]])[selected]
    client.state.update(labels=labels, previous=before, errors=errors[selected])
    del client.state["models"]  # they belong to the previous labels
    return {"unchanged": clustering_accuracy(before.numpy(), labels.numpy()), "selected": selected}


@client_task(
    takes={
        "widths": forms.Optional(WIDTHS), "output": forms.Optional(OUTPUT),
        "models": forms.Optional(forms.updates(None, "size")),
        "clusters": forms.Optional(forms.is_list(forms.is_count)),
    }
)  # fmt: skip
def finish(client: Client, payload: Payload) -> Payload:
    """Assign every sample to its cluster, at the client: by the clusters of its local clusters, or by all models."""
    errors = client.state.pop("errors", None)
    if "clusters" in payload:
        clusters = torch.tensor(payload["clusters"])
        assigned = clusters[client.state["labels"]]
    else:
        errors = _model(payload).errors(payload["models"], client.x.flatten(1))
        assigned, clusters = errors.argmin(dim=0), torch.arange(len(errors))
    client.state["clusters"] = assigned
    if errors is not None and len(errors) == len(clusters):
        distinct, position = clusters.unique(return_inverse=True)
        lowest = torch.full((len(distinct), errors.shape[1]), torch.inf).scatter_reduce(
            0, position[:, None].expand_as(errors), errors.float(), "amin"
        )
        client.state["confidence"] = distance_margin(lowest.T, torch.searchsorted(distinct, assigned))
    return {}


# Refinement of local clusters (Algorithm 2), by the models' errors alone.


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

    With `renumbered` samples that chose no selected model are assigned as in the authors' code. It repeats the choice
    among the selected models for these samples, and numbers clusters anew by how many of them choose each. So a sample
    gets the cluster of the model that has the same rank among all samples, which is rarely the model that it chose.
    """
    choices = errors.argmin(dim=0)
    wins = torch.bincount(choices, minlength=len(errors))
    order = torch.argsort(wins, descending=True, stable=True)
    if min_fraction is None:
        by_wins = order[:n_clusters][wins[order[:n_clusters]] > 0]
    else:
        enough = wins[order] >= max(1.0, min_fraction * errors.shape[1] / n_clusters)
        by_wins = order[: max(1, int(enough.sum()))]
    selected, places = by_wins.sort()
    if not renumbered:
        return errors[selected].argmin(dim=0), selected.tolist()
    labels = errors[by_wins].argmin(dim=0)
    rest = ~torch.isin(choices, by_wins)
    ranks = torch.bincount(labels[rest], minlength=len(by_wins)).argsort(descending=True, stable=True).argsort()
    labels[rest] = ranks[labels[rest]]
    return places.argsort()[labels], selected.tolist()


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


def _begin(client: Client, payload: Payload) -> None:
    """Set the client's first ``labels``, and whether it has most of kin-graph's clusters: two thirds or more."""
    initial, x = payload["initial"], client.x.flatten(1)
    if initial == "auto":
        initial = "given" if "given" in client.state else "embedding"
    if initial == "given":
        if "given" not in client.state:
            raise FedkinError(f"method.initial = 'given', but client {client.id} has no given labels.", public=True)
        client.state["labels"] = client.state["given"].clone()
    elif initial == "kin-graph":
        clusters = client.state["first_clusters"]
        labels = _without_small(x, clusters, MIN_FRACTION)
        holds_most = payload["hold"] > 0 and int(labels.max()) + 1 >= 2 / 3 * payload["total"]
        client.state["labels"] = _without_small(x, clusters, MIN_FRACTION * _SMALLER) if holds_most else labels
        client.state["holds_most"] = torch.tensor(holds_most)
    else:
        count = payload["n_clusters"]
        count = None if count == "auto" else own_count(client, count, "n_clusters")
        client.state["labels"] = initial_labels(x, initial, count, client.rng)


def _without_small(x: Tensor, clusters: Tensor, min_fraction: float) -> Tensor:
    """Return clusters without those below `min_fraction` of the average size; their samples join the nearest mean."""
    labels, sizes = clusters.unique(return_inverse=True, return_counts=True)[1:]
    large = (sizes >= min_fraction * len(x) / len(sizes)).nonzero()[:, 0]
    means = torch.stack([x[labels == cluster].mean(0) for cluster in large])
    renumbered = torch.full((len(sizes),), -1)
    renumbered[large] = torch.arange(len(large))
    return torch.where(renumbered[labels] >= 0, renumbered[labels], nearest_centroids(x, means))


def _n_clusters(client: Client) -> int:
    return int(client.state["labels"].max()) + 1


def spec(model: Autoencoder) -> Payload:
    return {"widths": list(model.widths), "output": model.output}


def _model(payload: Payload) -> Autoencoder:
    return Autoencoder(tuple(payload["widths"]), payload["output"])
