"""Label-skew partition of FedCRef, and simulated starting labels."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from fedkin.core.errors import FedkinError


def label_skew(
    y: Tensor,
    n_clients: int,
    *,
    classes_per_client: tuple[int, int],
    samples_per_class: int,
    rng: torch.Generator,
    overlap: float = 0.0,
) -> list[Tensor]:
    """Partition samples so that each client has a few classes with the same number of samples (FedCRef, section 5.2).

    Client after client, the number of classes K is drawn uniformly from `classes_per_client`, the minimum and the
    maximum (see `class_range`), then K distinct classes. The set of classes must be one that no earlier client has,
    until all sets of that size are taken; from then on sets of that size may be taken once more. Samples of a class are
    allocated without replacement, `samples_per_class` to a client, at most the size of the smallest class. When too few
    are left for a client, that class (and no other) is allocated anew, the remaining samples first; so two clients may
    share a sample, but no client ever holds one twice.

    With an `overlap` of p, in [0, 1], each of the n holders of a class gives its first ``p q / (n + p - n p)`` of q
    samples to a common pot and then holds its remaining ones and the whole pot, so that the pot is a share p of what it
    holds.

    `y` is int64 ``(n,)``, the class of each sample; what is returned are each client's indices into it, int64,
    shuffled. Raises FedkinError if a number is out of its range, such as `n_clients` below 1.
    """
    classes, sizes = torch.unique(y, return_counts=True)
    low, high = class_range(len(classes), *classes_per_client)
    _check_at_least_one("clients", n_clients)
    _check_at_least_one("samples_per_class", samples_per_class)
    check_fraction("overlap", overlap)
    if samples_per_class > int(sizes.min()):
        smallest = int(sizes.min())
        raise FedkinError(
            f"samples_per_class is {samples_per_class}, but the smallest class has only {smallest} samples."
        )
    members = {int(c): (y == c).nonzero()[:, 0] for c in classes}
    remaining = {c: members[c][:0] for c in members}
    used: dict[int, set[tuple[int, ...]]] = {}
    holdings = []
    for _ in range(n_clients):
        size = int(torch.randint(low, high + 1, (), generator=rng))
        held = {}
        for c in _new_set(sorted(members), size, used.setdefault(size, set()), rng):
            held[c], remaining[c] = _allocate(members[c], remaining[c], samples_per_class, rng)
        holdings.append(held)
    if overlap > 0:
        _share(holdings, overlap, samples_per_class)
    together = [torch.cat(list(held.values())) for held in holdings]
    return [index[torch.randperm(len(index), generator=rng)] for index in together]


def class_range(n_classes: int, low: int | None = None, high: int | None = None) -> tuple[int, int]:
    """Return the minimum and maximum number of classes per client; by default 2 and half of all.

    Raises FedkinError unless ``1 <= low <= high <= n_classes``.
    """
    usual = min(n_classes, max(2, n_classes // 2))
    if high is None:
        high = max(usual, low or 0)
    if low is None:
        low = min(2, high)
    if high > n_classes:
        raise FedkinError(f"A client would have up to {max(low, high)} classes, but the data have only {n_classes}.")
    if not 1 <= low <= high:
        raise FedkinError(f"Classes per client are {low} to {high}; allowed: 1 <= minimum <= maximum <= {n_classes}.")
    return low, high


def fitting_samples_per_class(y: Tensor, n_clients: int, classes_per_client: tuple[int, int]) -> int:
    """Return how many samples of a class each client gets so that the smallest class is about used up; at most 500.

    Rounded to tens, where it is ten or more; never more than the smallest class has.
    """
    _check_at_least_one("clients", n_clients)
    sizes = torch.unique(y, return_counts=True)[1]
    holders = max(1.0, n_clients * sum(classes_per_client) / 2 / len(sizes))
    fitting = int(sizes.min()) / holders
    rounded = round(fitting, -1) if fitting >= 10 else max(1, fitting)
    return min(500, int(rounded), int(sizes.min()))


def dirty(labels: Tensor, dirtiness: float, rng: torch.Generator) -> Tensor:
    """Corrupt starting labels: each sample moves to another cluster with probability `dirtiness`.

    `labels` are int64 ``(n,)`` in ``0..K-1``; a sample moves to one of the client's other clusters with equal
    probability. With K = 1 there is no other, and all stay. Raises FedkinError if `dirtiness` is out of range.
    """
    check_fraction("dirtiness", dirtiness)
    n_clusters = int(labels.max()) + 1 if len(labels) else 0
    if n_clusters < 2:
        return labels.clone()
    moves = torch.rand(labels.shape, generator=rng) < dirtiness
    distance = torch.randint(1, n_clusters, labels.shape, generator=rng)
    return torch.where(moves, (labels + distance) % n_clusters, labels)


def check_fraction(name: str, value: float) -> None:
    """Check that a value is in [0, 1]."""
    if not 0 <= value <= 1:
        raise FedkinError(f"{name} is {value}; allowed: 0 to 1.")


def _check_at_least_one(name: str, value: int) -> None:
    if value < 1:
        raise FedkinError(f"{name} is {value}; allowed: 1 or more.")


def _new_set(classes: list[int], size: int, used: set[tuple[int, ...]], rng: torch.Generator) -> tuple[int, ...]:
    if len(used) == math.comb(len(classes), size):
        used.clear()
    while True:
        order = torch.randperm(len(classes), generator=rng)[:size].tolist()
        chosen = tuple(sorted(classes[position] for position in order))
        if chosen not in used:
            used.add(chosen)
            return chosen


def _allocate(members: Tensor, remaining: Tensor, count: int, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    if len(remaining) < count:
        others = members[~torch.isin(members, remaining)]
        remaining = torch.cat([remaining, others[torch.randperm(len(others), generator=rng)]])
    return remaining[:count], remaining[count:]


def _share(holdings: list[dict[int, Tensor]], overlap: float, count: int) -> None:
    for c in sorted({c for held in holdings for c in held}):
        holders = [held for held in holdings if c in held]
        given = round(overlap * count / (len(holders) + overlap - len(holders) * overlap))
        pot = torch.cat([held[c][:given] for held in holders])
        for held in holders:
            held[c] = torch.unique(torch.cat([held[c][given:], pot]))
