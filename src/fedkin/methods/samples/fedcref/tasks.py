"""Tasks of FedCRef's clients: one function per exchange of the algorithm in `fedcref`.

The state of a client holds ``labels`` ``(n,)`` int64, its local clusters; ``previous``, those before the last
refinement; ``halves`` ``(n,)``, the half of its local cluster that each sample is in; ``models`` ``(local clusters,
replicas, size)``, while they belong to the current labels; ``errors`` ``(local clusters, n)``, of the models that the
last refinement has selected; ``clusters`` and ``confidence`` ``(n,)``, the result. It may begin with ``given`` labels
and with ``n_clusters``, the number of local clusters.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.cluster.hierarchy import linkage
from sklearn.cluster import AgglomerativeClustering, KMeans
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE
from sklearn.neighbors import KNeighborsClassifier
from threadpoolctl import threadpool_limits
from torch import Tensor

from fedkin.clustering.k_means import distance_margin
from fedkin.clustering.metrics import clustering_accuracy
from fedkin.core import Client, FedkinError, Payload, client_task, task
from fedkin.core import payload as forms
from fedkin.core.seeds import derive_generator, draw_seed
from fedkin.methods.samples.fedcref import association
from fedkin.nn.deep_clustering import DeepEmbeddedClustering
from fedkin.nn.encoder import OUTPUT
from fedkin.nn.stack import STACK_TRAINING, WIDTHS, Autoencoder, StackTraining, fit

Matrix = NDArray[np.float32]

MIN_FRACTION = 0.5
"""Minimum size of a local cluster whose number is free, as a fraction of the average one."""

_SPEC: forms.Expected = {"widths": WIDTHS, "output": OUTPUT}
_START: forms.Expected = {
    "initial": forms.one_of("auto", "given", "kmeans", "embedding", "dec"),
    "n_clusters": lambda value: value in ("auto", "given") or (forms.is_count(value) and value > 0),
}  # fmt: skip


@client_task(
    takes=_START,
    holds={"clusters": forms.is_count},
    sends="How many groups of rows the client has found",
    fewest="none",
)
def start(client: Client, payload: Payload) -> Payload:
    """Find the client's first local clusters (line 3); labels stay at the client."""
    _begin(client, payload)
    return {"clusters": _n_clusters(client)}


@task(
    takes={**_START, **_SPEC, "training": STACK_TRAINING, "replicas": forms.counts_to(2)},
    holds={"models": forms.updates("clusters", None, None), "samples": forms.int64("clusters")},
    sends="A network trained on each group of rows, and how many rows each has",
)
def train_clusters(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """Train a model per local cluster (lines 7-9), or one on each half of it, all of them as one stack.

    Models are initialised anew in every iteration, as in the authors' code.
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
    sends="How wrong the networks of other clients are on each group of rows",
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


@task(
    takes={
        **_SPEC, "training": STACK_TRAINING, "models": forms.updates(None, "size"),
        "clusters": forms.ListOf(forms.is_count),
    },
    holds={"models": forms.updates("clusters", None), "samples": forms.int64("clusters")},
    sends="A network trained on each group of rows, and how many rows each has",
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
        **_SPEC, "free": forms.is_flag, "models": forms.updates(None, "size"), "own": forms.ListOf(forms.is_count),
    },
    holds={"unchanged": forms.within(0, 1), "selected": forms.ListOf(forms.is_count, 1)},
    sends="Which clusters the client's rows are in now, and whether that has changed",
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
    labels, selected = cluster_refine(errors, n_clusters, min_fraction)
    client.state.update(labels=labels, previous=before, errors=errors[selected])
    del client.state["models"]  # they belong to the previous labels
    return {"unchanged": clustering_accuracy(before.numpy(), labels.numpy()), "selected": selected}


@client_task(
    takes={
        "widths": forms.Optional(WIDTHS), "output": forms.Optional(OUTPUT),
        "models": forms.Optional(forms.updates(None, "size")),
        "clusters": forms.Optional(forms.ListOf(forms.is_count)),
    }
)  # fmt: skip
def finish(client: Client, payload: Payload) -> Payload:
    """Assign every sample to its cluster: by the clusters of its local clusters, or by all models."""
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


def cluster_refine(errors: Tensor, n_clusters: int, min_fraction: float | None = None) -> tuple[Tensor, list[int]]:
    """Refine clusters by an error matrix ``(models, n)`` (Algorithm 2): labels ``(n,)`` and the models selected.

    The paper selects the model that most samples choose, removes it with these samples, and repeats. That changes no
    other sample's choice, so the `n_clusters` most chosen models can be selected at once (ties: lowest index), and
    every sample assigned to the best of them. Models without samples are not selected. Clusters are numbered in the
    order of their models, so that ties do not move a sample.

    With `min_fraction` the number is free: all models are selected that are chosen by at least this fraction of an
    average cluster's samples, and the most chosen one in any case.
    """
    wins = torch.bincount(errors.argmin(dim=0), minlength=len(errors))
    order = torch.argsort(wins, descending=True, stable=True)
    if min_fraction is None:
        by_wins = order[:n_clusters][wins[order[:n_clusters]] > 0]
    else:
        enough = wins[order] >= max(1.0, min_fraction * errors.shape[1] / n_clusters)
        by_wins = order[: max(1, int(enough.sum()))]
    selected = by_wins.sort().values
    return errors[selected].argmin(dim=0), selected.tolist()


def _begin(client: Client, payload: Payload) -> None:
    """Set the client's first ``labels``."""
    initial = payload["initial"]
    if initial == "auto":
        initial = "given" if "given" in client.state else "embedding"
    if initial == "given":
        if "given" not in client.state:
            raise FedkinError(f"method.initial = 'given', but client {client.id} has no given labels.", public=True)
        client.state["labels"] = client.state["given"].clone()
    else:
        count = payload["n_clusters"]
        if count == "given" and "n_clusters" not in client.state:
            raise FedkinError(f"method.n_clusters = 'given', but client {client.id} has no such number.", public=True)
        count = {"auto": None, "given": client.state.get("n_clusters")}.get(count, count)
        client.state["labels"] = initial_labels(client.x, initial, None if count is None else int(count), client.rng)


def _n_clusters(client: Client) -> int:
    return int(client.state["labels"].max()) + 1


def spec(model: Autoencoder) -> Payload:
    return {"widths": list(model.widths), "output": model.output}


def _model(payload: Payload) -> Autoencoder:
    return Autoencoder(tuple(payload["widths"]), payload["output"])


# First local clusters (line 3).
#
# ``embedding`` maps the samples to the plane (t-SNE, stopped during its early exaggeration, which keeps clusters
# compact) and cuts the tree of Ward's method over that map. It follows curved clusters that k-means on pixels splits.
# If the number of clusters is not given, it is estimated from the same tree.

PERPLEXITY = 10
SAMPLES_PER_CLUSTER = 5
"""Minimum, where the number of clusters is estimated."""


def initial_labels(x: Tensor, how: str, n_clusters: int | None, rng: torch.Generator, max_clusters: int = 10) -> Tensor:
    """Cluster one client's samples ``(n, ...)``, n >= 1, into local clusters; return labels ``0..k-1``, none empty.

    Three samples or fewer, and identical samples, are one cluster. `how` is ``"embedding"``, Ward's method on a map of
    neighbours; ``"kmeans"``, on principal components; or ``"dec"``, Deep Embedded Clustering, which may end with fewer
    clusters than asked for. `n_clusters` is at most the number of distinct samples. ``None`` estimates it from the map:
    a merge of Ward's tree joins two clusters if it is taller than 0.3 of the tallest and both have at least 5 samples.
    The estimate is 2 or more unless samples are very few, at most `max_clusters`, and tends to be too low above six.
    """
    rows = x.detach().flatten(1).numpy()
    limit = min(max_clusters, len(rows) // SAMPLES_PER_CLUSTER) if n_clusters is None else n_clusters
    limit = min(limit, len(np.unique(rows, axis=0)))
    if len(rows) <= 3 or limit <= 1:
        return torch.zeros(len(rows), dtype=torch.int64)
    labels = _cluster(rows, how, n_clusters, limit, rng)
    return torch.from_numpy(np.unique(labels, return_inverse=True)[1])


def _cluster(rows: Matrix, how: str, n_clusters: int | None, limit: int, rng: torch.Generator) -> NDArray[np.int64]:
    """Cluster rows into at most `limit` clusters, and exactly `limit` if `n_clusters` is given."""
    with threadpool_limits(1, user_api="openmp"):  # with several threads the order of sums varies
        # The first principal components nearly preserve distances.
        search = PCA(min(50, *rows.shape), random_state=draw_seed(rng))
        points = np.asarray(search.fit_transform(rows), dtype=np.float32)
        # Of many samples some are on the map, and others are classified by their nearest neighbours there.
        mapped = torch.randperm(len(points), generator=rng)[:3000].sort().values.numpy()
        if how == "embedding" or n_clusters is None:
            plane = _map(points[mapped], rng)
        if n_clusters is None:
            limit = _count(plane, limit)
        labels: NDArray[np.int64]
        if how == "kmeans":
            labels = KMeans(limit, n_init=10, random_state=draw_seed(rng)).fit_predict(points)
            return labels
        if how == "embedding":
            labels = AgglomerativeClustering(limit).fit_predict(plane)
            if len(mapped) < len(points):
                labels = KNeighborsClassifier(PERPLEXITY).fit(points[mapped], labels).predict(points)
            return labels
    x = torch.from_numpy(rows)
    return DeepEmbeddedClustering().train(x, limit, rng).memberships(x).argmax(1).numpy()


def _map(points: Matrix, rng: torch.Generator) -> Matrix:
    """Map samples to the plane by t-SNE; few samples, too few for it, or a single feature, stay unchanged."""
    if len(points) < 30 or points.shape[1] < 2:
        return points
    search = TSNE(
        perplexity=min(PERPLEXITY, len(points) / 4),
        early_exaggeration=4,
        max_iter=250,  # all in early exaggeration
        init="pca",
        random_state=draw_seed(rng),
    )
    return np.asarray(search.fit_transform(points), dtype=np.float32)


def _count(plane: Matrix, limit: int) -> int:
    """Return the number of clusters: tall merges of Ward's tree, and one."""
    tree = linkage(plane, "ward")
    heights, sizes = tree[:, 2], np.concatenate([np.ones(len(plane)), tree[:, 3]])
    smaller_side = sizes[tree[:, :2].astype(np.int64)].min(axis=1)
    heights = heights[smaller_side >= SAMPLES_PER_CLUSTER]  # a single outlier is not a cluster
    tall = int((heights > 0.3 * heights.max(initial=0.0)).sum())
    return min(tall + 1, limit)
