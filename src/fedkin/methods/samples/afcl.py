"""AFCL: federated clustering by seeds that merge, so that the number of clusters is found (Zhang et al., AAAI 2025).

The server has more seeds than there are clusters. In each round, clients send means of a few samples each. Every mean
pulls the nearest seed, its winner, and all seeds nearer to the winner than the mean is: seeds in one cluster come
together, seeds in different clusters do not. Seeds that have met are one cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar

import numpy as np
import torch
from annotated_types import Gt, Le
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from sklearn.metrics import davies_bouldin_score
from torch import Tensor

from fedkin.clustering.k_means import kmeans_plusplus_seeds, nearest_centroids, pairwise_distances
from fedkin.core import Client, Federation, Payload, Record, State, Task, client_task
from fedkin.core.federation import MAX_ATTEMPTS
from fedkin.core.method import Count
from fedkin.core.payload import MANY, Expected, counts_to, features, int64, is_name, reals
from fedkin.features.extractors import cached_features
from fedkin.methods.samples.centroid_method import (
    CentroidMethod,
    CentroidState,
    assign_to_centroids,
    features_for,
    scaled_like_features,
)
from fedkin.methods.samples.sample_method import SampleMethod, describe_clients, reasons, repeat_step

Points = NDArray[np.float64]


@dataclass(frozen=True)
class AFCLState(CentroidState):
    """State of AFCL: the seeds, and the last means of each client, in units of the range of the first seeds.

    `seeds` are ``(k, width)``, and `lowest` and `span` ``(width,)`` the range of the first ones, all float32; float64
    `weights` ``(width,)`` of the features sum to 1. By client id as text: `means` ``(g, width)`` that the client sent
    last, int64 `counts` ``(g,)`` of samples in each, and `times`, the number of rounds in which they have moved seeds.
    `score` is the Davies-Bouldin index of the means by their nearest seeds, before the last round.
    """

    seeds: Tensor = field(default_factory=lambda: torch.zeros(0, 0))
    lowest: Tensor = field(default_factory=lambda: torch.zeros(0))
    span: Tensor = field(default_factory=lambda: torch.zeros(0))
    weights: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.float64))
    means: dict[str, Tensor] = field(default_factory=dict)
    counts: dict[str, Tensor] = field(default_factory=dict)
    times: dict[str, int] = field(default_factory=dict)
    score: float = -1.0


@dataclass(frozen=True)
class AFCLMethod(SampleMethod):
    """Clusters samples by seeds that compete for them and cooperate; seeds that meet become one cluster.

    Attributes
    ----------
    seeds : int
        Initial number of seeds, the maximum number of clusters; the paper uses one to two times the true number.
    features : str
        Features between which distances are measured: "raw", the samples; "unit", samples scaled to length 1; other
        names of `fedkin.features.extractors`, or a dotted path to a torch module. "auto" is "unit" for images and "raw"
        for tables.
    rounds : int
        Maximum number of communication rounds.
    learning_rate : float
        Fraction of their distance by which a sample pulls a seed, in (0, 1]; for features of equal weight and one
        client.
    members : int
        Minimum number of samples in a mean; a client with fewer samples sends nothing. With 1, single samples are sent.
    """

    seeds: Count = 20
    features: str = "auto"
    rounds: Count = 100
    learning_rate: Annotated[float, Gt(0), Le(1)] = 0.001
    members: Count = 3

    traits = SampleMethod.traits.replace(finds_k=True, takes_k=False, cost="cheap")
    state_type: ClassVar[type[State]] = AFCLState
    assign_task: ClassVar[Task] = assign_to_centroids

    predict = staticmethod(CentroidMethod.predict)
    confidence = staticmethod(CentroidMethod.confidence)
    embed = staticmethod(CentroidMethod.embed)
    ready, result = CentroidMethod.ready, CentroidMethod.result

    def init(self, fed: Federation) -> AFCLState:
        """Choose the features for the clients' samples, and return the first state."""
        return AFCLState(**features_for(self.features, describe_clients(fed).shape))

    def step(self, fed: Federation, state: AFCLState) -> tuple[AFCLState, Record]:
        """Draw the first seeds, or move seeds by the means of all clients."""
        return self._move_seeds(fed, state) if len(state.seeds) else self._first_seeds(fed, state)

    def _first_seeds(self, fed: Federation, state: AFCLState) -> tuple[AFCLState, Record]:
        """Choose the first seeds among those that clients propose."""
        payloads = fed.all(features=state.features, seeds=self.seeds, members=self.members)
        replies = fed.ask(propose_seeds, payloads, {"means": features("groups", state.width)})
        record = Record(answered=list(replies), missing=replies.missing)
        proposed = torch.cat([torch.zeros(0, state.width), *(reply["means"] for reply in replies.values())])
        if not len(proposed):
            why = f"{reasons(record.missing)}; a client needs {self.members} samples"
            return repeat_step(fed, state, record, f"No client sent AFCL a seed in {MAX_ATTEMPTS} attempts ({why}).")
        lowest, highest = proposed.amin(0), proposed.amax(0)
        span = torch.where(highest > lowest, highest - lowest, 1.0)
        seeds = kmeans_plusplus_seeds((proposed - lowest) / span, self.seeds, fed.rng("seeds"))
        weights = torch.full((state.width,), 1 / state.width, dtype=torch.float64)
        return state.next(seeds=seeds, lowest=lowest, span=span, weights=weights), record

    def _move_seeds(self, fed: Federation, state: AFCLState) -> tuple[AFCLState, Record]:
        payloads = fed.all(
            features=state.features, members=self.members, seeds=state.seeds, lowest=state.lowest, span=state.span
        )
        replies = fed.ask(send_group_means, payloads, {"means": features("groups", state.width)})
        record = Record(answered=list(replies), missing=replies.missing)
        means = {**state.means, **{str(client): reply["means"] for client, reply in replies.items()}}
        counts = {**state.counts, **{str(client): reply["counts"] for client, reply in replies.items()}}
        moving = _balanced(state.times, [str(client) for client in replies if len(replies[client]["counts"])])
        if not moving:
            return repeat_step(fed, state, record, f"No client sent a mean to AFCL ({reasons(record.missing)}).")
        before = state.seeds.double()
        seeds, rates = before.numpy().copy(), self.learning_rate * len(state.weights) * state.weights.numpy()
        for name, share in moving.items():
            pull(seeds, means[name].double().numpy(), counts[name].numpy(), np.minimum(rates * share, 1.0))
        used = torch.cat([means[name] for name in moving]).double()
        everything = torch.cat(list(means.values()))
        near = nearest_centroids(everything, state.seeds)
        score = float(davies_bouldin_score(everything, near)) if 1 < len(near.unique()) < len(everything) else 0.0
        after = state.next(
            seeds=torch.from_numpy(seeds).float(),
            weights=feature_weights(used - before[nearest_centroids(used, before)], state.weights),
            means=means,
            counts=counts,
            times={name: state.times.get(name, 0) + (name in moving) for name in {**state.times, **moving}},
            score=score,
            finished=abs(score - state.score) <= 1e-4 or state.steps >= self.rounds,
        )
        after = replace(after, centroids=centroids_of(after))
        record.values["clusters"] = len(after.centroids)
        if after.finished:
            self.conclude(fed, after)
        return after, record


def centroids_of(state: AFCLState) -> Tensor:
    """Return the centroids of a state: one for seeds that have met, none for seeds without a nearest mean.

    Seeds have met if all coordinates differ by less than a thousandth of the range of the first seeds. Centroids are
    float32 ``(k, width)``, in units of the features.
    """
    seeds = state.seeds.double()
    near = (seeds[:, None] - seeds[None]).abs().amax(2) < 1e-3
    number, labels = connected_components(near.numpy(), directed=False)
    met = torch.stack([seeds[torch.from_numpy(labels == label)].mean(0) for label in range(number)])
    won = nearest_centroids(torch.cat(list(state.means.values())).double(), met).unique()
    return scaled_like_features(state.features, (met[won] * state.span + state.lowest).float())


def _balanced(times: Mapping[str, int], answered: Sequence[str]) -> dict[str, float]:
    """Return the weight of each client's means, by rounds in which they moved seeds: rare clients' are used again."""
    so_far = {**times, **{name: times.get(name, 0) + 1 for name in answered}}
    total = max(1, sum(so_far.values()))
    shares = {name: 1 / (1 + count / total) for name, count in so_far.items()}
    mean = sum(shares.values()) / max(1, len(shares))
    rare = [name for name in times if name not in answered and shares[name] > mean]
    return {name: shares[name] for name in sorted([*answered, *rare], key=int)}


def pull(seeds: Points, means: Points, counts: NDArray[np.int64], rates: Points) -> None:
    """Move `seeds` ``(k, width)``, in place, towards each of `means` ``(g, width)`` in turn.

    The winner of a mean is the nearest seed, where squared distances are multiplied by the seed's number of wins. All
    seeds that are at most as far from the winner as the mean move, and those within a thousandth of it: by `rates`
    ``(width,)``, fractions of the distance in [0, 1], and as often as `counts` ``(g,)`` say, at once.
    """
    wins = np.ones(len(seeds))
    for mean, count in zip(means, counts, strict=True):
        gaps = mean - seeds
        distances = np.square(gaps).sum(1)
        winner = int(np.argmin(wins * distances))
        wins[winner] += count
        together = np.square(seeds - seeds[winner]).sum(1) <= max(distances[winner], 1e-3**2)
        seeds[together] += (1 - (1 - rates) ** float(count)) * gaps[together]


def feature_weights(gaps: Tensor, weights: Tensor) -> Tensor:
    """Return weights of features, with sum 1: larger for features in which samples are closer to their seeds.

    They are spreads to the power of -1 / 7. `gaps`, float64 ``(g, width)``, are means minus their nearest seeds, and
    `weights` ``(width,)`` those so far. The new ones are 0 for features in which samples do not differ, and equal if
    samples differ in none.
    """
    spread = (gaps * weights).abs().sum(0)
    differs = spread > 0
    if not bool(differs.any()):
        return torch.full_like(weights, 1 / len(weights))
    parts = torch.where(differs, spread.clamp_min(1e-300).pow(-1 / 7), 0.0)
    return parts / parts.sum()


# Tasks of AFCL's clients: send means of small groups of samples that have the same nearest seed.


_ORDER = "sample_order"
"""Key in a client's state of the order in which samples are grouped, the same in all rounds."""
_GROUPS: Expected = {"means": features("groups", None), "counts": int64("groups")}


@client_task(
    takes={"features": is_name, "seeds": counts_to(MANY), "members": counts_to(MANY)},
    holds=_GROUPS,
    sends="Groups of rows: their middle, and how many rows each has",
    fewest="members",
)
def propose_seeds(client: Client, payload: Payload) -> Payload:
    """Send the mean of the samples nearest to each k-means++ seed, of ``members`` or more, and their ``counts``."""
    client.state[_ORDER] = torch.randperm(len(client), generator=client.rng)
    points = cached_features(payload["features"], client.x)
    near = _nearest(points, kmeans_plusplus_seeds(points, payload["seeds"], client.rng), payload["members"])
    return _means(points, near if len(points) >= payload["members"] else near[:0])


@client_task(
    takes={
        "features": is_name, "seeds": reals("seeds", "width"), "lowest": reals("width"),
        "span": reals("width", minimum=1e-30), "members": counts_to(MANY),
    },
    holds=_GROUPS,
    sends="Groups of rows: their middle, and how many rows each has", fewest="members",
)  # fmt: skip
def send_group_means(client: Client, payload: Payload) -> Payload:
    """Send means of small groups of samples with the same nearest seed, and the groups' ``counts``."""
    points = (cached_features(payload["features"], client.x) - payload["lowest"]) / payload["span"]
    if _ORDER not in client.state:  # it has come later
        client.state[_ORDER] = torch.randperm(len(client), generator=client.rng)
    order, members = client.state[_ORDER], payload["members"]
    near = _nearest(points, payload["seeds"], members)[order]
    return _means(points[order], groups_of(near, members))


def _nearest(points: Tensor, seeds: Tensor, members: int) -> Tensor:
    """Return the nearest seed of each point ``(n,)``, among seeds nearest to `members` points or more; 0 if none is."""
    near = nearest_centroids(points, seeds)
    large = near.bincount(minlength=len(seeds)) >= members
    if not bool(large.any()):
        return torch.zeros_like(near)
    small = ~large[near]
    distances = pairwise_distances(points[small], seeds).masked_fill(~large, torch.inf)
    return near.masked_scatter(small, distances.argmin(1))


def groups_of(labels: Tensor, members: int) -> Tensor:
    """Divide points of equal label into groups, in the order of the points; return the group of each, int64 ``(n,)``.

    Each of the `labels`, int64 ``(n,)``, that occurs does so `members` times or more, unless there are fewer points.
    Groups have `members` to ``2 * members - 1`` points; there are none if there are too few points.
    """
    if len(labels) < members:
        return labels[:0]
    groups, first = torch.zeros_like(labels), 0
    for label in labels.unique().tolist():
        rows = (labels == label).nonzero()[:, 0]
        parts = max(1, len(rows) // members)
        groups[rows] = first + torch.arange(len(rows)) * parts // len(rows)
        first += parts
    return groups


def _means(points: Tensor, groups: Tensor) -> Payload:
    """Return the mean and the size of each group; nothing if `groups` is empty."""
    if not len(groups):
        return {"means": points[:0], "counts": groups}
    groups = groups.unique(return_inverse=True)[1]
    counts = groups.bincount()
    sums = torch.zeros(len(counts), points.shape[1], dtype=torch.float64).index_add_(0, groups, points.double())
    return {"means": (sums / counts[:, None]).float(), "counts": counts}
