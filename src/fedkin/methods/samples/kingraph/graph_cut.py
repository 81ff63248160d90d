"""Which clusters kin-graph's graph falls into.

Clusters are communities of that graph: sets of nodes with more links among them than chance would place there. How much
more, the resolution, decides how many there are. The one taken is the one whose communities change least if nodes are
left out at random: a clustering that hangs on who happened to be there is no property of the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from fedkin.clustering.louvain import CommunityLabels, condensed, louvain
from fedkin.core.errors import FedkinError
from fedkin.core.seeds import draw_seed
from fedkin.methods.samples.kingraph.community_joining import join_alike, join_to

RESOLUTIONS: tuple[float, ...] = tuple(float(r) for r in np.geomspace(0.05, 2.0, 17).round(4))
"""What is tried. At the lowest, clusters stay apart if they have less than a twentieth of the links chance gives them."""

_RESAMPLES, _OF_FEW, _FEW = 5, 20, 2_000
"""How often nodes are left out, and how often of so few nodes or less: with few, chance does more."""

_KEPT, _MOST_KEPT = 0.8, 8_000
"""Nodes that stay, as a share and at most."""

_FINE = 4.0
"""Resolution of the communities that are put together at every lower one: about 60 on images of ten classes."""

_CAUTION = 0.5
"""Standard deviations that are taken from a mean of twenty agreements: clusters that fall apart now and then are not
stable. Of five the deviation is too rough to go by."""

_AS_STABLE = 0.01
"""Differences in agreement that mean nothing; of such resolutions the lowest is taken, which has fewest clusters."""

_STABLE = 0.85
"""Agreement that resolutions of flat points are chosen by: communities that are mere stretches of a sheet have less."""

_APART = 4
"""Of flat points every fourth resolution is tried: joining takes time, and five find what all do."""

_ROUNDS = 4
"""How far around a node its order among the others is looked for."""


def communities(
    graph: Any, counts: Tensor, n_clusters: int | None, rng: torch.Generator, *, flat: bool = False
) -> tuple[Tensor, dict[str, Any]]:
    """Clusters of nodes, as many as the graph shows or as are asked for.

    Communities are found at every resolution of `RESOLUTIONS`, and again five times with a fifth of the nodes left out,
    of 2,000 nodes or fewer twenty times. The resolution is taken at which those agree best with these by the adjusted
    Rand index over samples, averaged with the resolutions next to it; of equally good ones the lowest. Of twenty
    agreements half their standard deviation is taken from the mean. A resolution that leaves every node alone is not
    among them, for that would agree with itself whatever is left out. Where a number is given it is the best resolution
    of those with as many clusters. If none has, the clusters of the lowest resolution that has more are joined, those first
    that have most links for their size. Where none is given, communities of `flat` points are joined as far as they are
    no further apart than halves of one, at every fourth resolution. If none of these five has an agreement of 0.85,
    that is taken whose clusters agree best with those of all five: stretches of a sheet are never the same, but join to
    the same clusters.

    The order of nodes changes nothing but the clusters' names, except among nodes that their links do not tell apart.
    Of more than 10,000 nodes 8,000 stay each time. 6,000 nodes take two seconds, 20,000 a few, and half a minute if
    they are flat; memory is some copies of the graph.

    Parameters
    ----------
    graph : scipy.sparse.csr_matrix
        float64 ``(m, m)``, symmetric, non-negative, with an empty diagonal; see `neighbour_graph`.
    counts : Tensor
        int64 ``(m,)``, samples in each node, at least 1.
    n_clusters : int or None
        Clusters to find, at least 1; None finds out. Fewer nodes are each a cluster of their own.
    rng : torch.Generator
        Draws who is left out, and the order in which nodes are looked at.
    flat : bool
        Whether points have at most three dimensions.

    Returns
    -------
    clusters : Tensor
        int64 ``(m,)``, from 0, the cluster with most samples first. A node without links is a cluster of its own, unless
        fewer clusters are asked for.
    evidence : dict
        "resolution", the one taken; "stability", the agreement it is taken for, 1 at most, both of what is then joined
        or, if more clusters are asked for than any resolution has, cut anew to get `n_clusters`; "modularity", links within
        clusters less those by chance, as shares of all; and lists "resolutions", "clusters_found", of flat points after
        joining, and "stabilities" of all tried.

    Raises
    ------
    FedkinError
        If `n_clusters` is less than 1.
    """
    if n_clusters is not None and n_clusters < 1:
        raise FedkinError(f"n_clusters is {n_clusters}; it must be 1 or more, or None.")
    size = counts.double().numpy()
    order = _order(graph, size)
    graph, size = graph[order][:, order].tocsr(), size[order]
    graph.sort_indices()
    numbers = np.random.default_rng(draw_seed(rng))
    ladder = _ladder(graph, numbers)
    stability = _stability(graph, size, ladder, numbers)
    resolutions = RESOLUTIONS
    if flat and n_clusters is None:
        resolutions, ladder = resolutions[::_APART], join_alike(graph, ladder[::_APART])
        stability = stability[::_APART]
        stability = stability if max(stability) >= _STABLE else _consensus(ladder, size)
    chosen = _choose([int(partition.max()) + 1 for partition in ladder], stability, n_clusters, len(size))
    labels = ladder[chosen]
    if n_clusters is not None:
        labels = _exactly(graph, ladder, chosen, min(n_clusters, len(size)), numbers)
    evidence = {
        "resolution": resolutions[chosen],
        "stability": stability[chosen],
        "modularity": _modularity(graph, labels),
        "resolutions": list(resolutions),
        "clusters_found": [int(partition.max()) + 1 for partition in ladder],
        "stabilities": stability,
    }
    clusters = torch.empty(len(size), dtype=torch.int64)
    clusters[torch.from_numpy(order)] = torch.from_numpy(_largest_first(labels, size))
    return clusters, evidence


def largest_client_share(clusters: Tensor, clients: Tensor, counts: Tensor) -> float:
    """How much of its cluster the client that holds most of it holds, as a mean over samples.

    Parameters
    ----------
    clusters, clients, counts : Tensor
        int64 ``(m,)``: of each small cluster its cluster, its client, numbered from 0, and its samples.

    Returns
    -------
    float
        In (0, 1]. Where all clients are alike, one over their number or little more; 1 where no cluster is at two clients.
    """
    table = torch.zeros(int(clusters.max()) + 1, int(clients.max()) + 1, dtype=torch.int64)
    table.index_put_((clusters, clients), counts, accumulate=True)
    return int(table.max(1).values.sum()) / int(counts.sum())


def _order(graph: Any, size: NDArray[np.float64]) -> CommunityLabels:
    """The nodes by what they are instead of by what they are called: strength, and that of those around them."""
    keys = [size]
    strength = np.ones(len(size))
    for _ in range(_ROUNDS):
        strength = graph @ strength
        strength = strength / max(float(strength.max()), np.finfo(float).tiny)
        keys.append(strength.round(9))
    order: CommunityLabels = np.lexsort(keys)
    return order


def _ladder(graph: Any, rng: np.random.Generator) -> list[CommunityLabels]:
    """Communities at every resolution, put together from the same fine ones."""
    fine = louvain(graph, _FINE, rng)
    coarse = condensed(graph, fine)
    return [louvain(coarse, resolution, rng)[fine] for resolution in RESOLUTIONS]


def _stability(
    graph: Any, size: NDArray[np.float64], ladder: Sequence[CommunityLabels], rng: np.random.Generator
) -> list[float]:
    """How well a resolution's communities, and its neighbours', agree with those found without some of the nodes."""
    kept = min(max(1, round(_KEPT * len(size))), _MOST_KEPT)
    often, caution = (_OF_FEW, _CAUTION) if len(size) <= _FEW else (_RESAMPLES, 0.0)
    agreements = np.zeros((often, len(ladder)))
    for agreement in agreements:
        stayed = np.sort(rng.permutation(len(size))[:kept])
        again = _ladder(graph[stayed][:, stayed].tocsr(), rng)
        agreement[:] = [_agreement(a[stayed], b, size[stayed]) for a, b in zip(ladder, again, strict=True)]
    sure = np.pad(agreements.mean(0) - caution * agreements.std(0), 1, mode="edge")
    return [float(value) for value in (sure[:-2] + sure[1:-1] + sure[2:]) / 3]


def _consensus(ladder: Sequence[CommunityLabels], size: NDArray[np.float64]) -> list[float]:
    """Mean agreement of every resolution's clusters with those of all."""
    return [float(np.mean([_agreement(clusters, others, size) for others in ladder])) for clusters in ladder]


def _agreement(a: CommunityLabels, b: CommunityLabels, size: NDArray[np.float64]) -> float:
    """Adjusted Rand index of two partitions of nodes that stand for `size` samples each; 1 if both have one cluster."""
    table = sparse.coo_matrix((size, (a, b))).tocsr()
    total = size.sum() ** 2
    both = float((table.data**2).sum())
    first, second = (float((np.bincount(part, weights=size) ** 2).sum()) for part in (a, b))
    if not total or first == second == total:
        return 1.0
    chance = first * second / total
    most = (first + second) / 2
    return (both - chance) / (most - chance) if most > chance else 1.0


def _choose(found: Sequence[int], stability: Sequence[float], n_clusters: int | None, nodes: int) -> int:
    """Which resolution to take."""
    fitting = list(range(len(found)))
    if n_clusters is None:
        fitting = [i for i in fitting if found[i] < nodes] or fitting
    else:
        exact = [i for i in fitting if found[i] == n_clusters]
        more = [i for i in fitting if found[i] > n_clusters][:1]
        fitting = exact or more or fitting[-1:]
    best = max(stability[i] for i in fitting)
    return next(i for i in fitting if stability[i] >= best - _AS_STABLE)


def _exactly(
    graph: Any, ladder: Sequence[CommunityLabels], chosen: int, n_clusters: int, rng: np.random.Generator
) -> CommunityLabels:
    """The chosen communities; if too few those of higher resolutions, if too many joined until there are `n_clusters`."""
    labels, resolution = ladder[chosen], RESOLUTIONS[-1]
    while labels.max() + 1 < n_clusters:
        resolution *= 2
        labels = louvain(graph, resolution, rng)
    return labels if labels.max() + 1 == n_clusters else join_to(graph, labels, n_clusters)


def _modularity(graph: Any, labels: CommunityLabels) -> float:
    """Share of links within clusters, less what chance would give with the nodes' strengths; 0 without links."""
    total = float(graph.sum())
    if not total:
        return 0.0
    strength = np.asarray(graph.sum(axis=1)).ravel()
    within = float(condensed(graph, labels).diagonal().sum()) / total
    return within - float(((np.bincount(labels, weights=strength) / total) ** 2).sum())


def _largest_first(labels: CommunityLabels, size: NDArray[np.float64]) -> CommunityLabels:
    """The same clusters, numbered by their samples, most first."""
    rank = np.argsort(np.argsort(-np.bincount(labels, weights=size), kind="stable"), kind="stable")
    named: CommunityLabels = rank[labels]
    return named
