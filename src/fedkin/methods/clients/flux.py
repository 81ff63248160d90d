"""FLUX: clustering clients by descriptors of their data's distribution (Fenoglio et al. 2025; NeurIPS).

Descriptors are the mean and standard deviation of samples' latents in a common model, over all samples and over each
class; distances between these approximate Wasserstein distances between distributions. Clusters are dense regions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

import numpy as np
import torch
from annotated_types import Ge
from sklearn.cluster import DBSCAN
from torch import Tensor

from fedkin.clustering.k_means import pairwise_distances
from fedkin.clustering.matching import renumbered
from fedkin.core import Client, Federation, Payload, Record, client_task
from fedkin.core.federation import Replies
from fedkin.core.method import Count, Positive
from fedkin.core.payload import Optional, one_of, reals, updates
from fedkin.methods.clients.client_method import ClientMethod, round_record
from fedkin.methods.clients.local_work import labels_of
from fedkin.methods.clients.one_shot import OneShotMethod, OneShotState, least_clients
from fedkin.nn.modules import CLASSIFIER, Classifier

_ABSENT = -1.0  # in place of the moments of a class with fewer than two samples, as in the authors' code


@dataclass(frozen=True)
class FLUXState(OneShotState):
    """State of FLUX: the model, projection and ranges that descriptors are made with.

    `reference` ``(size,)`` is the common model at the time of the descriptors; empty before. `projection` ``(width,
    dimensions)`` has orthonormal columns. `lowest` and `highest` ``(segments,)`` are the range of each segment of
    descriptors over the clients that were clustered. All are float32.
    """

    reference: Tensor = field(default_factory=lambda: torch.zeros(0))
    projection: Tensor = field(default_factory=lambda: torch.zeros(0, 0))
    lowest: Tensor = field(default_factory=lambda: torch.zeros(0))
    highest: Tensor = field(default_factory=lambda: torch.zeros(0))


@dataclass(frozen=True)
class FLUXMethod(OneShotMethod):
    """Clusters clients once by moments of their samples' latents, after some rounds of one common model.

    Attributes
    ----------
    warm_up : int
        Rounds of training one common model before descriptors are sent; they count as rounds of training, and at least
        one round follows. The authors' code takes three or more.
    dimensions : int
        Number of directions that latents are projected on, at most the width of latents; the authors' code takes the
        number of classes.
    radius : float or None
        Clients within this distance of each other are in one cluster (DBSCAN's eps), for descriptors scaled to [0, 1].
        None finds it at the knee of the sorted distances to the nearest client (Kneedle; Satopaa et al. 2011).
    latents : {"last", "first"}
        Which linear layer's inputs latents are: the last one's, or the first one's, as in the authors' code.
    min_size : int or None
        Minimum number of clients in a cluster; smaller ones join the nearest. By default a tenth of all, and at least
        two. With 1, a client with none within the radius is a cluster by itself, as in the authors' code.
    """

    warm_up: Annotated[int, Ge(0)] = 3
    dimensions: Count = 10
    radius: Positive | None = None
    latents: Literal["last", "first"] = "last"
    min_size: Count | None = None

    traits = OneShotMethod.traits.replace(paper={"latents": "first", "min_size": 1})
    state_type = FLUXState

    def init(self, fed: Federation) -> FLUXState:
        """Return one new model, all clients in one cluster, and random directions."""
        state: FLUXState = ClientMethod.init(self, fed)
        classifier = Classifier.of(state.module)
        width = classifier.latents(state.models[0], torch.zeros(1, *classifier.shape), self.latents).shape[1]
        drawn = torch.randn(width, min(self.dimensions, width), generator=fed.rng("projection"), dtype=torch.float64)
        return replace(state, projection=torch.linalg.qr(drawn).Q.float())

    def step(self, fed: Federation, state: Any) -> tuple[FLUXState, Record]:
        """Do a round of warm-up while any is left, then proceed as `OneShotMethod.step`."""
        if state.steps >= min(self.warm_up, self.rounds - 1):
            return super().step(fed, state)
        trained, means = self.averaged(fed, state)
        record = round_record(fed, trained, state.labels, phase="warm-up")
        return self.after_round(state, means, rounds=state.rounds + 1), record

    def messages(self, fed: Federation, state: FLUXState, clients: Sequence[int]) -> Replies[Tensor]:
        how = self.how(state)
        shape = (1 + how["module"]["classes"], state.projection.shape[1])
        expected = {"means": reals(*shape), "deviations": reals(*shape, minimum=_ABSENT)}
        replies = fed.ask(describe_distribution, dict.fromkeys(clients, how), expected)
        messages = replies.map(lambda reply: descriptor_of(reply["means"], reply["deviations"]))
        if state.lowest.numel():
            messages = messages.map(lambda row: scaled(row, state.lowest, state.highest))
        return messages

    def aligned(self, state: FLUXState, messages: Tensor) -> tuple[FLUXState, Tensor]:
        segments = messages.view(len(messages), 2 * (1 + state.module["classes"]), -1)
        lowest, highest = segments.amin((0, 2)), segments.amax((0, 2))
        state = replace(state, reference=state.models[0].clone(), lowest=lowest, highest=highest)
        return state, scaled(messages, lowest, highest)

    def clustered(self, fed: Federation, state: FLUXState, messages: Tensor) -> tuple[Tensor, dict[str, Any]]:
        radius = self.radius or knee(nearest_distances(messages))
        labels = dense(messages, radius)
        means = torch.stack([messages[labels == region].double().mean(0) for region in range(int(labels.max()) + 1)])
        distances = pairwise_distances(messages.double(), means)
        labels = without_small(labels, least_clients(self.min_size, len(messages)), distances)
        return labels, {"mode": "descriptors", "radius": radius}

    def result(self, state: FLUXState) -> dict[str, Any]:
        more = {"lowest": state.lowest, "highest": state.highest}
        return super().result(state) | more

    def how(self, state: FLUXState) -> dict[str, Any]:
        """Return the settings of descriptors: the model (before the first, that of all clients) and the projection."""
        reference = state.reference if state.reference.numel() else state.models[0]
        how = {"module": state.module, "reference": reference, "projection": state.projection}
        return how if self.latents == "last" else how | {"latents": self.latents}

    @staticmethod
    def unseen_message(client: Client, result: Mapping[str, Any]) -> Tensor:
        means, deviations = moments_of(client, result)
        descriptor = scaled(descriptor_of(means, deviations), result["lowest"], result["highest"])
        return descriptor if client.y is not None else descriptor[: 2 * means.shape[1]]

    @staticmethod
    def assigns_by_labels(result: Mapping[str, Any]) -> bool:
        return False


@client_task(
    takes={
        "module": CLASSIFIER, "reference": updates("size"), "projection": reals("width", "dimensions"),
        "latents": Optional(one_of("first")),
    },
    holds={"means": reals("segments", "dimensions"), "deviations": reals("segments", "dimensions", minimum=_ABSENT)},
    sends="The mean and the spread of rows as a network sees them, of all and of each class",
)  # fmt: skip
def describe_distribution(client: Client, payload: Payload) -> Payload:
    """Report ``means`` and ``deviations`` of projected latents, over all samples and by class."""
    labels_of(client)
    means, deviations = moments_of(client, payload)
    return {"means": means, "deviations": deviations}


def moments_of(client: Client, how: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
    """Return means and standard deviations of a client's projected latents, float32 ``(1 + classes, dimensions)``.

    The first row is that of all samples, others are those of each class; a class with fewer than two samples has -1,
    and so has every class of a client without labels. ``module``, ``reference`` and ``projection`` are as in
    `FLUXState`.
    """
    classifier = Classifier.of(how["module"])
    latents = classifier.latents(how["reference"], client.x, how.get("latents", "last"))
    latents = latents.double() @ how["projection"].double()
    means = torch.full((1 + classifier.classes, latents.shape[1]), _ABSENT)
    deviations = means.clone()
    parts = {0: latents}
    if client.y is not None:
        y = client.y
        parts |= {1 + k: latents[y == k] for k in y.unique().tolist() if k < classifier.classes}
    for row, part in parts.items():
        if row == 0 or len(part) > 1:
            means[row], deviations[row] = part.mean(0).float(), part.std(0, correction=0).float()
    return means, deviations


def without_small(labels: Tensor, smallest: int, distances: Tensor) -> Tensor:
    """Return `labels` ``(n,)`` with clients of clusters below the `smallest` size moved to the nearest large one.

    `distances` ``(n, K)`` are those of every client from every cluster. Unchanged if no cluster is large enough.
    """
    large = labels.bincount() >= smallest
    if large.all() or not large.any():
        return labels
    nearest = distances.masked_fill(~large, torch.inf).argmin(1)
    return torch.from_numpy(renumbered(torch.where(large[labels], labels, nearest)))


def descriptor_of(means: Tensor, deviations: Tensor) -> Tensor:
    """Return the descriptor vector of moments ``(segments, dimensions)``: those of all samples, then those by class."""
    return torch.cat([means[0], deviations[0], means[1:].flatten(), deviations[1:].flatten()])


def scaled(descriptors: Tensor, lowest: Tensor, highest: Tensor) -> Tensor:
    """Return descriptors ``(..., d)`` with every segment mapped from ``lowest`` to ``highest`` to [0, 1]."""
    parts = descriptors.unflatten(-1, (len(lowest), -1)).double()
    low, spread = lowest.double()[:, None], (highest.double() - lowest.double())[:, None]
    unit: Tensor = ((parts - low) / torch.where(spread > 0, spread, 1.0)).flatten(-2).float()
    return unit


# Dense regions, and the radius that they are found by.


def nearest_distances(points: Tensor) -> list[float]:
    """Return the distance of each point ``(n, d)`` to its nearest neighbour, in ascending order."""
    if len(points) < 2:
        return []
    distances = pairwise_distances(points.double(), points.double()).fill_diagonal_(torch.inf)
    nearest: list[float] = distances.min(1).values.sort().values.tolist()
    return nearest


def knee(heights: Sequence[float]) -> float:
    """Return the knee of a rising curve, the height at which it bends up (Kneedle; Satopaa et al. 2011; sensitivity 1).

    Heights ascend. The knee is, of the points farthest below the straight line from the first to the last, the last one
    that the following points confirm: the last height if all are equal or there are fewer than three; 0 for none.
    """
    if len(heights) < 3 or heights[-1] <= heights[0]:
        return heights[-1] if heights else 0.0
    last = len(heights) - 1
    below = [rank / last - (height - heights[0]) / (heights[-1] - heights[0]) for rank, height in enumerate(heights)]
    peak: int | None = None
    for rank in range(last - 1, 0, -1):
        neighbours = below[rank - 1], below[rank + 1]
        if below[rank] >= max(neighbours):
            peak = rank
        elif below[rank] <= min(neighbours):
            peak = None
        if peak is not None and below[rank - 1] < below[peak] - 1 / last:
            return heights[peak]
    return heights[below.index(max(below))]


def dense(points: Tensor, radius: float) -> Tensor:
    """Return the dense region of each point ``(n, d)``, int64 ``(n,)``; a point in none is a region by itself."""
    reach = radius * (1 + 1e-9)  # a radius that was found is a distance between two points, up to rounding
    distances = pairwise_distances(points.double(), points.double())  # of equal points 0, unlike scikit-learn's
    labels = DBSCAN(eps=max(reach, 1e-9), min_samples=2, metric="precomputed").fit_predict(distances.numpy())
    return torch.from_numpy(renumbered(np.where(labels < 0, -1 - np.arange(len(labels)), labels)))
