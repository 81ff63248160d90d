"""Server side of class sums with Gaussian noise: their privacy budget, centre and clusters."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy.cluster.hierarchy import fcluster, linkage
from torch import Tensor
from torch.nn.functional import normalize

from fedkin.clustering.nearest_means import joined, refined
from fedkin.clustering.ward import Floats, Integers, top_height, ward_tree
from fedkin.core import Client, Federation, FedkinError, Payload, client_task
from fedkin.core.replies import MAX_CLASSES, Expected, counts_to, positive, reals, updates
from fedkin.core.seeds import draw_seed
from fedkin.methods.clients.client_method import labels_of, renumbered
from fedkin.methods.clients.one_shot.tree_cuts import Clustering, reported
from fedkin.nn.encoder import Encoder
from fedkin.nn.network_forms import ENCODER
from fedkin.privacy.budget import clipped, released
from fedkin.privacy.gaussian import gaussian_mu

#
# Tasks of clients that describe their data by class sums with Gaussian noise, instead of randomised bits.
#
# A sample contributes the direction of its code, a vector of length 1. What leaves a client are sums over samples,
# whose sensitivity to one sample is bounded, with noise charged to a privacy account; see `fedkin.privacy.budget`.


COUNTED = 0.5
"""Contribution of a sample to its count, besides the vector of length 1 that it adds to its sum; counts may be noisier
than sums, since a client with few samples of a class has an inaccurate sum of it anyway."""
SENSITIVITY = math.hypot(1.0, COUNTED)

_SHARED: Expected = {"encoder": ENCODER, "vector": updates("size"), "deviation": positive, "budget": positive}


@client_task(takes=_SHARED, holds={"total": reals(None)}, may_be_empty=True)
def send_code_total(client: Client, payload: Payload) -> Payload:
    """Send the noisy sum of the directions of a client's codes, and half the number of samples: ``(width + 1,)``.

    The reply is empty if the client's budget does not suffice.
    """
    rows = _counted(clipped(directions(client.x, payload)))
    found = released(client, [rows.sum(0)], SENSITIVITY, payload)
    return {} if found is None else {"total": found[0].float()}


@client_task(
    takes={**_SHARED, "centre": reals(None), "radius": positive, "segments": counts_to(MAX_CLASSES)},
    holds={"sums": reals(None, None)},
    may_be_empty=True,
)
def send_class_sums(client: Client, payload: Payload) -> Payload:
    """Send each class's noisy sum of directions and half its number of samples: ``(classes, width + 1)``.

    The reply is empty if the client's budget does not suffice.
    """
    sums = class_sums_of(client, payload)
    return {} if sums is None else {"sums": sums}


def class_sums_of(client: Client, how: Mapping[str, Any]) -> Tensor | None:
    """Return a client's noisy sums, float32 ``(segments, width + 1)``; ``None`` if its budget does not suffice.

    Labels beyond the segments are left out. `how` has ``encoder`` and ``vector``; ``centre`` ``(width,)`` of all
    directions and ``radius``, the distance from it that is scaled to 1 in these sums; ``segments``; ``deviation`` of
    the noise, and the ``budget`` of the run.
    """
    y = labels_of(client)
    rows = _counted(clipped((directions(client.x, how) - how["centre"].double()) / how["radius"]))
    known = y < how["segments"]
    sums = torch.zeros(how["segments"], rows.shape[1], dtype=torch.float64).index_add_(0, y[known], rows[known])
    found = released(client, [sums], SENSITIVITY, how)
    return None if found is None else found[0].float()


def directions(x: Tensor, how: Mapping[str, Any]) -> Tensor:
    """Return the samples' codes scaled to length 1: float64 ``(n, width)``; codes of zero stay zero."""
    codes = Encoder.of(how["encoder"]).codes(how["vector"], x).double().nan_to_num(0.0, 0.0, 0.0)
    return normalize(codes, dim=1)


def _counted(rows: Tensor) -> Tensor:
    return torch.cat([rows, rows.new_full((len(rows), 1), COUNTED)], 1)


#
# Clustering of clients by noisy class means whose noise level is known.
#
# If the noise of messages is known, two clients are enough for a cluster: they are similar if they differ by no more
# than their noise. A rule that estimates the noise from the variance inside clusters needs clusters of several
# clients.
#
# Clients are first divided by their classes: two differ if more classes belong to only one of them than to both.
# Inside each part, a Ward tree of the class means is cut at the height that the tree would have if there were nothing
# but noise. The noise of a mean has two parts: the noise that was added, and the sampling of the client's data, whose
# variance is bounded since vectors have a length of at most 1. Clients of one cluster also differ otherwise, so the
# variance of sampling is multiplied by 1.8.


MAX_CLIENTS = 5_000
"""Maximum number of clients, as tables of all pairs of clients take too much memory beyond."""

_PRESENT, _CLEARLY, _SHOWN = 2.0, 4.0, 6.0
"""Thresholds in standard deviations of a count. Above the first a class is taken to be present, above the second it is
clearly present; a client without it counts as different if, by the other's proportions, it would have more than the
third."""
_DIFFERENT = 0.5  # fraction of two clients' classes that must be common to both
_OWN = 0.8  # added factor of the variance of sampling
_DRAWS, _MARGIN = 20, 1.02  # number of trees of noise alone, and factor of their greatest height


@dataclass(frozen=True)
class ClassMeans:
    """Mean codes of each class of each client, with the noise of each, from noisy sums; in float64.

    `means` ``(n, classes, width)`` are zero where the class is not present; `variances` ``(n, classes)`` are of the
    noise of each number of a mean. `counts` ``(n, classes)`` are noisy numbers of samples, with standard deviation
    `noise`.
    """

    means: Floats
    variances: Floats
    counts: Floats
    noise: float

    @classmethod
    def of(cls, messages: Tensor, segments: int, deviation: float) -> ClassMeans:
        """Read class means from messages ``(n, segments * (width + 1))``, whose noise has this standard deviation."""
        parts = messages.detach().cpu().double().numpy().reshape(len(messages), segments, -1)
        sums, counts, noise = parts[..., :-1], parts[..., -1] / COUNTED, deviation / COUNTED
        present = counts > _above(_PRESENT * noise)
        divisor = np.where(present, counts, 1.0)
        means = np.where(present[..., None], sums / divisor[..., None], 0.0)
        added = deviation**2 / divisor**2
        width = sums.shape[-1]
        spread = np.clip(1 - (means**2).sum(-1) + width * added, 0.0, 1.0)
        return cls(means, added + (1 + _OWN) * spread / (width * divisor), counts, noise)

    @property
    def present(self) -> np.ndarray:
        """Whether a client has a class: bool ``(n, classes)``."""
        return self.counts > _above(_PRESENT * self.noise)

    def of_clients(self, rows: np.ndarray) -> ClassMeans:
        """Return the class means of the clients at `rows`."""
        return ClassMeans(self.means[rows], self.variances[rows], self.counts[rows], self.noise)


def cluster_class_means(found: ClassMeans, min_size: int, rng: torch.Generator) -> Clustering:
    """Cluster clients by their classes and by the means of the classes they have in common.

    A cluster has `min_size` clients or more; `rng` simulates the noise that heights are compared with. The heights, the
    cut and the noise level are those of the tree if all clients have about the same classes; otherwise there is more
    than one tree, and none is reported. Raises FedkinError if there are more than 5,000 clients.
    """
    n = len(found.counts)
    if n > MAX_CLIENTS:
        raise FedkinError(f"There are {n:,} messages of sums to cluster; at most {MAX_CLIENTS:,} can be.")
    draws = np.random.default_rng(draw_seed(rng))
    parts = _by_classes(found, min_size)
    labels, clusters, trees = np.zeros(n, dtype=np.int64), 0, []
    for part in range(int(parts.max()) + 1):
        rows = np.flatnonzero(parts == part)
        trees.append(_by_means(found.of_clients(rows), min_size, draws))
        labels[rows] = trees[-1].labels.numpy() + clusters
        clusters = int(labels[rows].max()) + 1
    numbers = torch.tensor(renumbered(labels.tolist()))
    return replace(trees[0], labels=numbers) if len(trees) == 1 else Clustering(numbers, True, None, [])


def nearest_by_class_means(centroids: Tensor, message: Tensor, segments: int, deviation: float) -> int:
    """Return the cluster whose class means are nearest to a message ``(segments * (width + 1),)``.

    Only clusters with a similar set of classes count: their Jaccard similarity to the message's classes is at least
    half the greatest one. `centroids` ``(K, ...)`` are the mean messages of the clusters, and `deviation` the standard
    deviation of the noise of one message.
    """
    own, clusters = (ClassMeans.of(one, segments, deviation) for one in (message[None], centroids))
    common = own.present & clusters.present
    overlap = common.sum(1) / np.maximum((own.present | clusters.present).sum(1), 1)
    squares = ((own.means - clusters.means) ** 2).sum(-1) / np.maximum(own.variances, 1e-12)
    distance = (squares * common).sum(1) / np.maximum(common.sum(1), 1)
    distance[(overlap < overlap.max() / 2) | ~common.any(1)] = np.inf
    return int(distance.argmin())


def _above(count: float) -> float:
    """Return the threshold for a noisy count: `count`, but at least 0.5."""
    return max(count, 0.5)


def _by_classes(found: ClassMeans, min_size: int) -> Integers:
    """Divide clients by average linkage into parts with similar sets of classes: 0..p-1 ``(n,)``."""
    n = len(found.counts)
    labels = np.zeros(n, dtype=np.int64)
    if n < 2 * min_size:
        return labels
    alike = _alike(found)
    pairs = np.triu_indices(n, 1)
    labels = fcluster(linkage(1 - alike[pairs], "average"), (1 - 1e-9) * _DIFFERENT, "distance").astype(np.int64) - 1
    while True:
        kinds, sizes = np.unique(labels, return_counts=True)
        if len(kinds) == 1 or sizes.min() >= min_size:
            return np.unique(labels, return_inverse=True)[1].astype(np.int64)
        least = labels == kinds[sizes.argmin()]
        others = [kind for kind in kinds if kind != kinds[sizes.argmin()]]
        labels[least] = max(others, key=lambda kind: float(alike[np.ix_(least, labels == kind)].mean()))


def _alike(found: ClassMeans) -> Floats:
    """Return the fraction of two clients' classes that both have, ``(n, n)``; 1 where noise hides all."""
    totals = np.maximum(found.counts.sum(1), 1.0)
    both, one = np.zeros((2, len(totals), len(totals)))
    for counts, present in zip(found.counts.T, found.present.T, strict=True):
        expected = (counts / totals)[:, None] * totals[None]  # count expected in the other client's data
        lacks = (counts > _above(_CLEARLY * found.noise))[:, None] & ~present[None]
        lacks &= expected > _above(_SHOWN * found.noise)
        both += present[:, None] & present[None]
        one += lacks | lacks.T
    return np.where(both + one > 0, both / np.maximum(both + one, 1), 1.0)


def _by_means(found: ClassMeans, min_size: int, draws: np.random.Generator) -> Clustering:
    """Cluster clients with similar sets of classes by a Ward tree of class means, cut above the noise."""
    one = torch.zeros(len(found.means), dtype=torch.int64)
    if len(one) < max(2, 2 * min_size):
        return Clustering(one, False, None, [])
    points, deviations = _points(found)
    tree = ward_tree(points)
    noise = (draws.standard_normal(points.shape) * deviations for _ in range(_DRAWS))
    level = max(_MARGIN * max(top_height(one) for one in noise), 1e-6 * float(tree.heights[-1]))
    splits = tree.splits(min_size)
    above = splits[tree.heights[splits] > level]
    heights = reported(tree.heights)
    if not len(above):
        return Clustering(one, False, None, heights, level)
    labels = torch.from_numpy(refined(points, joined(points, tree.divided(above, min_size)), min_size))
    return Clustering(labels, int(labels.max()) > 0, (float(tree.heights[above[-1]]) + level) / 2, heights, level)


def _points(found: ClassMeans) -> tuple[Floats, Floats]:
    """Return centred class means and the standard deviations of their noise: ``(n, classes * width)`` each.

    Class means are taken relative to the mean of all clients; for a class that a client lacks they are 0, without
    noise.
    """
    n, _, width = found.means.shape
    weights = np.where(found.present, 1 / np.maximum(found.variances, 1e-12), 0.0)
    centre = np.einsum("nc,ncw->cw", weights, found.means) / np.maximum(weights.sum(0), 1e-12)[:, None]
    points = np.where(found.present[..., None], found.means - centre, 0.0)
    deviations = np.repeat(np.sqrt(np.where(found.present, found.variances, 0.0)), width, axis=1)
    return points.reshape(n, -1), deviations


EPSILON = 8.0
"""Default budget of a sample."""

_CENTRE_FRACTION = 0.05
"""Fraction of the squared budget for the sum over all samples of all clients, which needs little."""
_RADIUS = 0.8
"""Distance from the centre beyond which directions are clipped, relative to their root mean square distance."""
_SMALLEST = 0.01


_NEEDED = {
    "form": ("classes", "a prototype depends on all samples"),
    "batch_statistics": (False, "a code must depend on its sample alone"),
    "refresh": (0, "the budget is spent by the first message"),
    "flips": ([], "sums have noise in place of flips"),
    "clustering": ("exact", "sums are cut above their known noise"),
}
"""Required values of settings with class sums, and the reasons."""


def check_settings(method: Any) -> None:
    """Raise an error for settings that have no effect with class sums."""
    for name, (needed, reason) in _NEEDED.items():
        value = getattr(method, name)
        if value != needed:
            raise FedkinError(f"{name} is {value!r}, but with message = 'sums' it must be {needed!r}: {reason}.")


@dataclass(frozen=True)
class ClassSums:
    """Collects clients' noisy class sums under a privacy budget per sample, and clusters them.

    `epsilon` and `delta` are the budget of each sample for both releases of its client together. `segments` is the
    number of classes, and `width` the length of a code.
    """

    epsilon: float
    delta: float
    segments: int
    width: int

    @property
    def budget(self) -> float:
        """The budget as mu of Gaussian differential privacy."""
        return gaussian_mu(self.epsilon, self.delta)

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise on every number of the class sums."""
        return SENSITIVITY / (self.budget * math.sqrt(1 - _CENTRE_FRACTION))

    def centre(self, fed: Federation, how: Payload) -> tuple[Tensor, float, list[int]]:
        """Ask all clients for the noisy sum of their codes' directions; return their mean, a radius, and who answered.

        The mean is float32 ``(width,)``, empty if no client replied. The radius, in (0, 1], is the distance from it
        that directions are clipped to.
        """
        deviation = SENSITIVITY / (self.budget * math.sqrt(_CENTRE_FRACTION))
        asked = how | {"deviation": deviation, "budget": self.budget}
        replies = fed.ask(send_code_total, dict.fromkeys(fed.present, asked), {"total": reals(self.width + 1)})
        sent = {client: reply["total"].double() for client, reply in replies.items() if reply}
        if not sent:
            self._check_budgets(fed)
            return torch.zeros(0), 1.0, []
        total = torch.stack(list(sent.values())).sum(0)
        centre = total[:-1] / (total[-1] / COUNTED).clamp_min(1.0)
        centre = centre / centre.norm().clamp_min(1.0)  # a mean of unit vectors is no longer than 1
        radius = _RADIUS * math.sqrt(max(_SMALLEST, 1 - float(centre.square().sum())))
        return centre.float(), radius, sorted(sent)

    def ask(self, fed: Federation, how: Payload, clients: Sequence[int]) -> dict[int, Tensor]:
        """Ask clients for class sums ``(segments * (width + 1),)``; clients without enough budget are left out."""
        asked = how | {"deviation": self.deviation, "budget": self.budget}
        expected = {"sums": reals(self.segments, self.width + 1)}
        replies = fed.ask(send_class_sums, dict.fromkeys(clients, asked), expected)
        sent = {client: reply["sums"].flatten() for client, reply in replies.items() if reply}
        if not sent:
            self._check_budgets(fed)
        return sent

    def clustered(self, messages: Tensor, min_size: int, rng: torch.Generator) -> tuple[Clustering, dict[str, Any]]:
        """Return clusters of messages ``(m, segments * (width + 1))``, and plain values for the record."""
        found = cluster_class_means(ClassMeans.of(messages, self.segments, self.deviation), min_size, rng)
        return found, {
            "mode": "sums",
            "separable": found.separable,
            "cut": found.cut,
            "heights": found.heights,
            "noise": found.noise,
            "numbers": messages.shape[1],
            "epsilon": self.epsilon,
            "delta": self.delta,
        }

    def nearest(self, centroids: Tensor, messages: Tensor) -> Tensor:
        """Return the nearest cluster of each message ``(m, d)``, int64 ``(m,)``, by the mean messages ``(K, d)``."""
        found = [nearest_by_class_means(centroids, one, self.segments, self.deviation) for one in messages]
        return torch.tensor(found, dtype=torch.int64)

    def described(self) -> dict[str, Any]:
        """Return the noise parameters that an unseen client needs for its message."""
        return {"message": "sums", "deviation": self.deviation, "budget": self.budget}

    def _check_budgets(self, fed: Federation) -> None:
        if not fed.missing:
            raise FedkinError(
                f"All clients have less left of their own budgets than method.epsilon = {self.epsilon:g}, so none "
                "sends anything."
            )


def assigned(result: Mapping[str, Any], unseen: Client) -> int:
    """Return the cluster of an unseen client by its noisy class sums, for a run with ``message="sums"``.

    Raises FedkinError if the client's own budget does not allow the message.
    """
    sums = class_sums_of(unseen, result)
    if sums is None:
        raise FedkinError("The client's own budget is smaller than that of the run, so it sends nothing.")
    return nearest_by_class_means(result["centroids"], sums.flatten(), result["segments"], result["deviation"])
