"""Class sums with Gaussian noise, in place of randomised bits: tasks of the clients, budget, centre and clusters.

A sample contributes the direction of its code, a vector of length 1. What leaves a client are sums over samples, whose
sensitivity to one sample is bounded, with noise charged to a privacy account; see `fedkin.privacy.budget`. As the noise
is known, two clients are enough for a cluster.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.cluster.hierarchy import fcluster, linkage
from torch import Tensor
from torch.nn.functional import normalize

from fedkin.clustering.matching import renumbered
from fedkin.clustering.tree_cuts import MARGIN, OWN_VARIANCE, Floats, Integers, divided, tree_splits, ward_tree
from fedkin.core import Client, Federation, FedkinError, Payload, client_task
from fedkin.core.federation import Replies
from fedkin.core.payload import MAX_CLASSES, Expected, counts_to, positive, reals, updates
from fedkin.core.seeds import draw_seed
from fedkin.methods.clients.local_work import labels_of
from fedkin.nn.encoder import ENCODER, Encoder
from fedkin.privacy.budget import clipped, released

COUNTED = 0.5
"""Contribution of a sample to its count, besides the vector of length 1 that it adds to its sum; counts may be noisier
than sums, since a client with few samples of a class has an inaccurate sum of it anyway."""
SENSITIVITY = math.hypot(1.0, COUNTED)
EPSILON = 8.0
"""Default budget of a sample."""
_CENTRE_FRACTION = 0.05
"""Fraction of the squared budget for the sum over all samples of all clients, which needs little."""

_SHARED: Expected = {"encoder": ENCODER, "vector": updates("size"), "deviation": positive, "budget": positive}


@client_task(
    takes=_SHARED,
    holds={"total": reals(None)},
    may_be_empty=True,
    sends="A sum of all rows as a network sees them, with noise",
    fewest="noise",
)
def send_code_total(client: Client, payload: Payload) -> Payload:
    """Send the noisy sum of the directions of a client's codes, and half the number of samples: ``(width + 1,)``.

    The reply is empty if the client's budget does not suffice.
    """
    rows = _counted(clipped(_directions(client.x, payload)))
    sums = released(client, [rows.sum(0)], SENSITIVITY, payload)
    return {} if sums is None else {"total": sums[0].float()}


@client_task(
    takes={**_SHARED, "centre": reals(None), "radius": positive, "segments": counts_to(MAX_CLASSES)},
    holds={"sums": reals(None, None)},
    may_be_empty=True,
    sends="For each class a sum of rows as a network sees them, with noise",
    fewest="noise",
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
    rows = _counted(clipped((_directions(client.x, how) - how["centre"].double()) / how["radius"]))
    inside = y < how["segments"]
    exact = torch.zeros(how["segments"], rows.shape[1], dtype=torch.float64).index_add_(0, y[inside], rows[inside])
    sums = released(client, [exact], SENSITIVITY, how)
    return None if sums is None else sums[0].float()


def _directions(x: Tensor, how: Mapping[str, Any]) -> Tensor:
    """Return the samples' codes scaled to length 1: float64 ``(n, width)``; codes of zero stay zero."""
    codes = Encoder.of(how["encoder"]).codes(how["vector"], x).double().nan_to_num(0.0, 0.0, 0.0)
    return normalize(codes, dim=1)


def _counted(rows: Tensor) -> Tensor:
    return torch.cat([rows, rows.new_full((len(rows), 1), COUNTED)], 1)


def deviation_of(budget: float) -> float:
    """Return the standard deviation of the noise of every number of class sums, by mu of the budget."""
    return SENSITIVITY / (budget * math.sqrt(1 - _CENTRE_FRACTION))


def find_centre(fed: Federation, how: Payload) -> tuple[Tensor, float, Replies[Tensor]]:
    """Ask all clients for the noisy sum of their codes' directions; return their mean, a radius, and who answered.

    `how` has ``encoder``, ``vector`` and ``budget``. The mean is float32 ``(width,)``, empty if no client replied. The
    radius, in (0, 1], is the distance from it that directions are clipped to: 0.8 times their root mean square
    distance.
    """
    payload = how | {"deviation": SENSITIVITY / (how["budget"] * math.sqrt(_CENTRE_FRACTION))}
    expected = {"total": reals(Encoder.of(how["encoder"]).width + 1)}
    totals = _sent(fed.ask(send_code_total, dict.fromkeys(fed.present, payload), expected), "total")
    if not totals:
        return torch.zeros(0), 1.0, totals
    total = torch.stack(list(totals.values())).double().sum(0)
    centre = total[:-1] / (total[-1] / COUNTED).clamp_min(1.0)
    centre = centre / centre.norm().clamp_min(1.0)  # a mean of unit vectors is no longer than 1
    radius = 0.8 * math.sqrt(max(0.01, 1 - float(centre.square().sum())))
    return centre.float(), radius, totals


def ask_class_sums(fed: Federation, how: Payload, clients: Sequence[int]) -> Replies[Tensor]:
    """Ask clients for their messages ``(segments * (width + 1),)``; those without enough budget are left out."""
    expected = {"sums": reals(how["segments"], Encoder.of(how["encoder"]).width + 1)}
    return _sent(fed.ask(send_class_sums, dict.fromkeys(clients, how), expected), "sums")


def _sent(replies: Replies[Payload], name: str) -> Replies[Tensor]:
    """Return what clients with enough budget sent, flat; raise FedkinError if all answered, and nobody has enough."""
    sent = Replies({i: reply[name].flatten() for i, reply in replies.items() if reply}, replies.missing)
    if not sent and not sent.missing:
        raise FedkinError(
            "All clients have less left of their own budgets than method.epsilon, so none sends anything."
        )
    return sent


def unseen_class_sums(client: Client, result: Mapping[str, Any]) -> Tensor:
    """Return the message of an unseen client; raise FedkinError if its own budget does not allow it."""
    sums = class_sums_of(client, result)
    if sums is None:
        raise FedkinError("The client's own budget is smaller than that of the run, so it sends nothing.")
    return sums.flatten()


# Class sums: clusters of clients by noisy sums of their classes' vectors, cut above the noise, which is known.
#
# Clients are first divided by their classes: two differ if more classes belong to only one of them than to both. Inside
# each part, a Ward tree of the class means is cut at the height that the tree would have if there were nothing but
# noise. The noise of a mean has two parts: the noise that was added, and the sampling of the client's data, whose
# variance is bounded since vectors have a length of at most 1. Clients of one cluster also differ otherwise, so the
# variance of sampling is multiplied by 1.8, as that of bits is.


def nearest_by_class_means(result: Mapping[str, Any], messages: Tensor) -> Tensor:
    """Return the cluster of a result whose class means are nearest to each of messages ``(m, d)``, int64 ``(m,)``.

    Only clusters with a similar set of classes count: their Jaccard similarity to the message's classes is at least
    half the greatest one.
    """
    segments, deviation = result["segments"], result["deviation"]
    rows, clusters = (ClassMeans.of(sums, segments, deviation) for sums in (messages, result["centroids"]))
    nearest = []
    for means, variances, present in zip(rows.means, rows.variances, rows.present, strict=True):
        common = present & clusters.present
        overlap = common.sum(1) / np.maximum((present | clusters.present).sum(1), 1)
        squares = ((means - clusters.means) ** 2).sum(-1) / np.maximum(variances, 1e-12)
        distance = (squares * common).sum(1) / np.maximum(common.sum(1), 1)
        distance[(overlap < overlap.max() / 2) | ~common.any(1)] = np.inf
        nearest.append(int(distance.argmin()))
    return torch.tensor(nearest)


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
        present = counts > _above(2 * noise)
        divisor = np.where(present, counts, 1.0)
        means = np.where(present[..., None], sums / divisor[..., None], 0.0)
        added = deviation**2 / divisor**2
        width = sums.shape[-1]
        spread = np.clip(1 - (means**2).sum(-1) + width * added, 0.0, 1.0)
        return cls(means, added + (1 + OWN_VARIANCE) * spread / (width * divisor), counts, noise)

    @property
    def present(self) -> np.ndarray:
        """Whether a client has a class, by a count of two standard deviations: bool ``(n, classes)``."""
        return self.counts > _above(2 * self.noise)

    def of_clients(self, rows: np.ndarray) -> ClassMeans:
        """Return the class means of the clients at `rows`."""
        return ClassMeans(self.means[rows], self.variances[rows], self.counts[rows], self.noise)


def _above(count: float) -> float:
    """Return the threshold for a noisy count: `count`, but at least 0.5."""
    return max(count, 0.5)


def cluster_class_means(means: ClassMeans, min_size: int, rng: torch.Generator) -> Tensor:
    """Cluster clients by their classes and by the means of the classes they have in common: labels, int64 ``(n,)``.

    A cluster has `min_size` clients or more; `rng` simulates the noise that heights are compared with. Raises
    FedkinError if there are more than 5,000 clients.
    """
    n = len(means.counts)
    if n > 5_000:  # tables of all pairs of clients take too much memory beyond
        raise FedkinError(f"There are {n:,} messages of sums to cluster; at most 5,000 can be.")
    draws = np.random.default_rng(draw_seed(rng))
    parts = _by_classes(means, min_size)
    labels, clusters = np.zeros(n, dtype=np.int64), 0
    for part in range(int(parts.max()) + 1):
        rows = np.flatnonzero(parts == part)
        labels[rows] = _by_means(means.of_clients(rows), min_size, draws) + clusters
        clusters = int(labels[rows].max()) + 1
    return torch.from_numpy(renumbered(labels))


def _by_classes(means: ClassMeans, min_size: int) -> Integers:
    """Divide clients by average linkage into parts with similar sets of classes: 0..p-1 ``(n,)``."""
    n = len(means.counts)
    if n < 2 * min_size:
        return np.zeros(n, dtype=np.int64)
    similar = _similarities(means)
    tree = linkage(1 - similar[np.triu_indices(n, 1)], "average")
    labels = fcluster(tree, (1 - 1e-9) / 2, "distance").astype(np.int64) - 1  # half of the classes are common
    while True:
        kinds, sizes = np.unique(labels, return_counts=True)
        if len(kinds) == 1 or sizes.min() >= min_size:
            return np.unique(labels, return_inverse=True)[1].astype(np.int64)
        small = labels == kinds[sizes.argmin()]
        larger = [kind for kind in kinds if kind != kinds[sizes.argmin()]]
        labels[small] = max(larger, key=lambda kind: float(similar[np.ix_(small, labels == kind)].mean()))


def _similarities(means: ClassMeans) -> Floats:
    """Return the fraction of two clients' classes that both have, ``(n, n)``; 1 where noise hides all.

    A client lacks a class of another if that one clearly has it, by a count of four standard deviations, and by the
    other's proportions it would have six.
    """
    totals = np.maximum(means.counts.sum(1), 1.0)
    both, single = np.zeros((2, len(totals), len(totals)))
    for counts, present in zip(means.counts.T, means.present.T, strict=True):
        expected = (counts / totals)[:, None] * totals[None]  # count expected in the other client's data
        lacks = (counts > _above(4 * means.noise))[:, None] & ~present[None] & (expected > _above(6 * means.noise))
        both += present[:, None] & present[None]
        single += lacks | lacks.T
    return np.where(both + single > 0, both / np.maximum(both + single, 1), 1.0)


def _by_means(means: ClassMeans, min_size: int, draws: np.random.Generator) -> Integers:
    """Cluster clients with similar sets of classes by a Ward tree of class means, cut above the noise."""
    whole = np.zeros(len(means.means), dtype=np.int64)
    if len(whole) < max(2, 2 * min_size):
        return whole
    points, deviations = _points(means)
    tree = ward_tree(points)
    noise = (draws.standard_normal(points.shape) * deviations for _ in range(20))
    level = max(MARGIN * max(ward_tree(part)[-1, 2] for part in noise), 1e-6 * float(tree[-1, 2]))
    splits = tree_splits(tree, min_size)
    above = splits[tree[splits, 2] > level]
    return divided(points, tree, above, min_size) if len(above) else whole


def _points(means: ClassMeans) -> tuple[Floats, Floats]:
    """Return centred class means and the standard deviations of their noise: ``(n, classes * width)`` each.

    Class means are taken relative to the mean of all clients; for a class that a client lacks they are 0, without
    noise.
    """
    n, _, width = means.means.shape
    weights = np.where(means.present, 1 / np.maximum(means.variances, 1e-12), 0.0)
    centre = np.einsum("nc,ncw->cw", weights, means.means) / np.maximum(weights.sum(0), 1e-12)[:, None]
    points = np.where(means.present[..., None], means.means - centre, 0.0)
    deviations = np.repeat(np.sqrt(np.where(means.present, means.variances, 0.0)), width, axis=1)
    return points.reshape(n, -1), deviations
