"""Clusters of a table described in words: distinguishing columns, a sentence per cluster, and texts of table cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from fedkin.data.population import client_name, short_names
from fedkin.data.profile import ClusterProfile
from fedkin.experiment.measure_titles import join_words
from fedkin.experiment.report_content.column_words import DescribedColumn, contrasted, described
from fedkin.report.cluster_descriptions import ClusterDescriptions
from fedkin.report.numbers import all_of, pluralize

MIN_EFFECT = 0.06
"""Share of a column's variance between clusters from which it is named: a medium effect in Cohen's words."""
_EXPLAINS = 0.8
"""Effect from which one column explains the clusters, where no other is named."""
_ALONE, _AT_LEAST = 0.9, 0.6
"""Minimum share of one client in a cluster's reported samples, and in all that there may be, for a remark on it."""
_SURELY = 0.8
"""Share of all samples that there may be below which the remark speaks of reported samples only."""
_MOSTLY = 0.8
"""Share of the reported samples from which the sentence on a cluster gives the share of its largest client."""
_CLEARLY, _BY_CHANCE = 0.5, 1.0
"""Others have at most this part of the samples that their share of all samples lets expect, less `_BY_CHANCE`."""
_NAMED = 4
_CLIENTS, _NAMED_CLUSTERS, _COLUMNS = 5, 10, 8


def sentences(
    profile: ClusterProfile, names: Sequence[str] = (), columns: Sequence[DescribedColumn] | None = None
) -> list[str]:
    """Describe each cluster in a sentence: its size, what distinguishes it, and the clients with samples in it.

    Clusters with the same description, but for the numbers, are also distinguished from one another.
    `names` are the clients', in order of id; by default their ids. `columns` are those of the profile, where they are
    known already.
    """
    distinguishing = [one for one in columns or described(profile) if one.effect >= MIN_EFFECT]
    clusters = range(len(profile.samples))
    said = [_phrases(distinguishing, cluster) for cluster in clusters]
    like = alike(said, [cluster for cluster in clusters if profile.samples[cluster]])
    return [_sentence(profile, said[cluster], cluster, like.get(cluster, []), names) for cluster in clusters]


def remarks(
    profile: ClusterProfile, names: Sequence[str] = (), columns: Sequence[DescribedColumn] | None = None
) -> list[str]:
    """Return caveats of the profile as sentences.

    They are on one column or client that explains clusters, on geometric means, on samples and categories that clients
    do not report, and on missing clients.
    """
    alone = [one for one in (columns or described(profile))[:2] if one.effect >= MIN_EFFECT]
    explains = len(profile.columns) > 2 and len(alone) == 1 and alone[0].effect >= _EXPLAINS
    explaining = [
        f"Column '{one.name}' alone explains the clusters; if it is not what you look for, leave it out."
        for one in (alone if explains else ())
    ]
    called = dict(enumerate(short_names(names)))
    return (
        explaining
        + _of_one_client(profile, names)
        + _not_reported(profile)
        + [
            f"The descriptions of clusters are without {called.get(client, f'client {client}')} ({reason.rstrip('.')})."
            for client, reason in profile.missing.items()
        ]
    )


def _not_reported(profile: ClusterProfile) -> list[str]:
    """Say how many samples are in no description, because too few of a client show it."""
    if not profile.withheld:
        return []
    return [
        f"{profile.withheld:,} of {pluralize(profile.rows, 'sample')} are in no description: a client does not report "
        f"fewer than {profile.min_members} samples of a cluster, nor some of its largest cluster from which they could "
        "be inferred."
    ]


def _of_one_client(profile: ClusterProfile, names: Sequence[str]) -> list[str]:
    """Name the clusters that nearly all come from one client of several, since its way to measure may be the reason.

    Its part of the cluster is then clearly above its part of all samples, as a client that holds nearly all has anyway.
    Samples that others do not report may be there: they leave it most of the cluster, but need not leave nearly all.
    """
    if len(profile.members) < 2 or len(profile.samples) < 2:
        return []
    found: dict[int, list[str]] = {}
    hidden = False
    for cluster in range(len(profile.samples)):
        client, known = _largest_holder(profile, cluster)
        most = known + _unreported(profile, cluster)
        own = int(profile.members[client][cluster])
        if own >= max(_ALONE * known, _AT_LEAST * most) > 0 and _is_clearly_more(profile, client, own, most):
            found.setdefault(client, []).append(str(cluster))
            hidden |= own < _SURELY * most
    if not found:
        return []
    said = [
        f"of {'cluster' if len(clusters) == 1 else 'clusters'} {join_words(clusters, _NAMED_CLUSTERS)}"
        f"{'' if at else ' come'} from {client_name(client, names)}"
        for at, (client, clusters) in enumerate(found.items())
    ]
    return [
        f"Nearly all {'reported ' if hidden else ''}samples {join_words(said, _CLIENTS)}: where a client measures or "
        "codes differently, its samples look like a cluster."
    ]


def _largest_holder(profile: ClusterProfile, cluster: int) -> tuple[int, int]:
    """Return the client with most samples of a cluster, and how many all clients report."""
    own = {client: int(members[cluster]) for client, members in profile.members.items()}
    return max(own, key=lambda each: own[each]), sum(own.values())


def _is_clearly_more(profile: ClusterProfile, client: int, own: int, most: int) -> bool:
    """Return whether a client has far more of a cluster of `most` samples than its share of all samples."""
    of_all = {client: int(members.sum()) for client, members in profile.members.items()}
    others = 1 - of_all[client] / max(1, sum(of_all.values()))
    return most - own <= _CLEARLY * others * most - _BY_CHANCE


def _unreported(profile: ClusterProfile, cluster: int) -> int:
    """Return how many samples of a cluster there may be at most at the clients that report none."""
    silent = sum(int(members[cluster]) == 0 for members in profile.members.values())
    most = silent * (profile.min_members - 1)
    return min(most, profile.withheld) if profile.rows else most


def descriptions(profile: ClusterProfile, names: Sequence[str] = ()) -> ClusterDescriptions:
    """Return the descriptions of a profile's clusters for a run's page."""
    columns = described(profile)
    return ClusterDescriptions(
        range(len(profile.samples)),
        sentences(profile, names, columns),
        [column.name for column in columns],
        [column.effect for column in columns],
        [column.cells for column in columns],
        [column.shifts for column in columns],
        remarks(profile, names, columns),
        MIN_EFFECT,
        [column.typical for column in columns] if profile.has_typical else (),
        profile.typical_filled.amax(1).tolist() if profile.has_typical else (),
    )


def _phrases(columns: Sequence[DescribedColumn], cluster: int) -> list[str]:
    phrases = sorted((column.phrases[cluster] for column in columns), key=lambda phrase: -phrase[0])
    return [words for weight, words in phrases if weight > 0][:_NAMED]


def _sentence(
    profile: ClusterProfile, said: Sequence[str], cluster: int, like: Sequence[int], names: Sequence[str]
) -> str:
    samples = int(profile.samples[cluster])
    if not samples:
        return f"Cluster {cluster}: too few samples at any one client to be described."
    alone = "the only cluster" if len(profile.samples) == 1 else "no column by itself distinguishes it from the others"
    parts = [", ".join(said) or alone, _unlike(profile, cluster, like, bool(said)), _held_by(profile, cluster, names)]
    return f"Cluster {cluster} ({pluralize(samples, 'sample')}): {'; '.join(filter(None, parts))}."


def _unlike(profile: ClusterProfile, cluster: int, like: Sequence[int], is_described: bool) -> str:
    """Describe how a cluster differs from those with the same description; an empty text if that is clear already."""
    described = int((profile.samples > 0).sum())
    if not like or (not is_described and len(like) == described - 1):
        return ""
    others = f"{'cluster' if len(like) == 1 else 'clusters'} {join_words([str(one) for one in like], _CLIENTS)}"
    phrases = [words for effect, words in contrasts(profile, cluster, like) if words and effect >= MIN_EFFECT]
    if phrases:
        return f"unlike {others}: {', '.join(phrases[:_NAMED])}"
    return f"no column by itself distinguishes it from {others}"


def _held_by(profile: ClusterProfile, cluster: int, names: Sequence[str]) -> str:
    """List the clients with samples in a cluster, the largest number first; an empty text where that is not known."""
    own = {client: int(members[cluster]) for client, members in profile.members.items()}
    holders = sorted((client for client, count in own.items() if count), key=lambda client: -own[client])
    if not holders:
        return ""
    short = [name.removeprefix("Client ") for name in short_names(names)]
    called = [short[client] if client < len(short) else str(client) for client in holders]
    most, known = own[holders[0]], sum(own.values())
    weighs = _MOSTLY * known <= most < known and _is_clearly_more(profile, holders[0], most, known)
    if weighs:
        called[0] += f" ({most / known:.0%})"
    if len(holders) == len(own) > 1:
        return f"{all_of(len(own), 'clients')}{f', mostly {called[0]}' if weighs else ''}"
    few = ", few or none at others" if _unreported(profile, cluster) else ""
    return f"{'client' if len(holders) == 1 else 'clients'} {join_words(called, _CLIENTS)}{few}"


def contrasts(profile: ClusterProfile, cluster: int, others: Sequence[int]) -> list[tuple[float, str]]:
    """Return by column how a cluster differs from `others` taken together: an effect size and a phrase.

    Columns in which they differ little have an empty phrase; those that distinguish them most come first.
    """
    return contrasted(_pair(profile, cluster, others))


def alike(said: Sequence[Sequence[str]], described: Sequence[int]) -> dict[int, list[int]]:
    """Return for each cluster the others with the same description, but for numbers; clusters without any are left out.

    `said` has the phrases of each cluster's sentence; `described` are the clusters that have one.
    """
    words = {cluster: frozenset(phrase.rpartition(" (")[0] for phrase in said[cluster]) for cluster in described}
    others = {
        cluster: [one for one in described if one != cluster and words[one] == words[cluster]] for cluster in words
    }
    return {cluster: own for cluster, own in others.items() if own}


def _pair(profile: ClusterProfile, cluster: int, others: Sequence[int]) -> ClusterProfile:
    """Return the profile of two clusters: `cluster`, and `others` as one."""

    def two(of_clusters: Tensor) -> Tensor:
        return torch.stack([of_clusters[cluster], of_clusters[list(others)].sum(0)])

    pair = ClusterProfile(
        profile.columns, two(profile.samples), two(profile.filled), profile.around, two(profile.sum),
        two(profile.squares), two(profile.counts),
    )  # fmt: skip
    if not profile.has_limits:
        return pair
    return replace(pair, limited_sum=two(profile.limited_sum), limited_squares=two(profile.limited_squares))
