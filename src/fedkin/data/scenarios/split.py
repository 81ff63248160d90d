"""Partitioners: rules that allocate samples to clients, as indices, with the names and parameters of flwr-datasets.

Every rule allocates a sample at most once and draws from the generator it is given. Where clients get samples in a
random order, their indices are shuffled.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from fedkin.core.errors import FedkinError
from fedkin.core.seeds import draw_seed

_ATTEMPTS = 1000


def iid_split(n_samples: int, num_partitions: int, rng: torch.Generator) -> list[Tensor]:
    """Partition samples at random, in parts whose sizes differ by at most one; flwr-datasets' ``IidPartitioner``.

    Raises FedkinError unless there is a sample for each part.
    """
    _check_partitions(n_samples, num_partitions)
    return list(torch.randperm(n_samples, generator=rng).tensor_split(num_partitions))


def dirichlet_split(
    y: Tensor,
    num_partitions: int,
    alpha: float | Sequence[float],
    rng: torch.Generator,
    *,
    min_partition_size: int = 10,
    self_balancing: bool = False,
) -> list[Tensor]:
    """Partition each class in proportions drawn from a Dirichlet distribution; flwr-datasets' ``DirichletPartitioner``.

    `y` is int64 ``(n,)``, the class of each sample; all are allocated. The concentration `alpha`, one for all or one
    per part, is above 0: small values give every part few classes. Proportions are drawn anew, up to 1,000 times, until
    every part has `min_partition_size` samples. With `self_balancing` a part with more samples than the average gets
    none of the classes that follow. Return each part's indices into `y`, int64, shuffled. Raises FedkinError if a
    parameter is out of its range, such as less than one part, or if no draw gave every part enough.
    """
    full = operator.gt if self_balancing else None
    return allocate(y, _dirichlet_counts(y, num_partitions, alpha, rng, min_partition_size, full), rng)


def capped_dirichlet(y: Tensor, n_clients: int, alpha: float, rng: torch.Generator, min_size: int = 10) -> list[Tensor]:
    """Dirichlet partition of Prigent et al. (their code): clients that have reached the average size get no more.

    As `dirichlet_split` with `self_balancing`, except that the average itself is enough to be left out. The last
    classes therefore miss at some clients even where `alpha` is large.
    """
    return allocate(y, _dirichlet_counts(y, n_clients, alpha, rng, min_size, operator.ge), rng)


def shard_split(
    y: Tensor,
    num_partitions: int,
    rng: torch.Generator,
    *,
    num_shards_per_partition: int | None = None,
    shard_size: int | None = None,
    keep_incomplete_shard: bool = False,
) -> list[Tensor]:
    """Partition into random blocks of samples sorted by class (McMahan et al. 2017); the ``ShardPartitioner``.

    `y` is int64 ``(n,)``, the class of each sample. Without `num_shards_per_partition` all shards are allocated, and
    the first parts get one more where they do not divide evenly; without `shard_size` shards are as large as the data
    allow. One of the two must be given. With `keep_incomplete_shard` the samples left over at the end make a smaller
    shard, unless both are. Return each part's indices into `y`, int64, shuffled. Raises FedkinError if a number is
    missing, out of its range, such as less than one part, or asks for more samples than there are.
    """
    n, per = len(y), num_shards_per_partition
    _check_partitions(n, num_partitions)
    size = _shard_size(n, num_partitions, per, shard_size)
    both = per is not None and shard_size is not None
    shards = -(-n // size) if keep_incomplete_shard and not both else n // size
    if shards < num_partitions:
        raise FedkinError(f"{n} samples make {shards} shards of {size}, too few for {num_partitions} clients.")
    used = shards if per is None else num_partitions * per
    shares = torch.tensor(apportion(used, [1] * num_partitions))
    holder = torch.arange(num_partitions).repeat_interleave(shares)
    owner_of_shard = torch.full((shards,), num_partitions)
    owner_of_shard[torch.randperm(shards, generator=rng)[:used]] = holder
    mixed = torch.randperm(n, generator=rng)
    by_class = mixed[y[mixed].argsort(stable=True)][: shards * size]
    return _gather(by_class, owner_of_shard[torch.arange(len(by_class)) // size], num_partitions, rng)


def allocate(y: Tensor, counts: Tensor, rng: torch.Generator) -> list[Tensor]:
    """Allocate the given number of random samples of each class to each client; return indices into `y`, shuffled.

    `y` is int64 ``(n,)`` in ``0..classes-1``, and `counts` int64 ``(classes, clients)``; no row may ask for more than
    its class has.
    """
    mixed = torch.randperm(len(y), generator=rng)
    by_class = mixed[y[mixed].argsort(stable=True)].split(torch.bincount(y, minlength=len(counts)).tolist())
    index = torch.cat([members[: int(row.sum())] for members, row in zip(by_class, counts, strict=True)])
    clients = torch.arange(counts.shape[1])
    owner = torch.cat([clients.repeat_interleave(row) for row in counts])
    return _gather(index, owner, counts.shape[1], rng)


def allocate_in_proportion(y: Tensor, held: Sequence[Tensor], rng: torch.Generator) -> list[Tensor]:
    """Allocate each class in the proportions in which clients have it already; for the tests of a partition.

    `y` is int64 ``(n,)``, the class of each sample to allocate, and `held` the classes of each client's samples;
    classes that no client has are allocated to none. Return each client's indices into `y`, int64, shuffled; empty
    where it holds too little for one.
    """
    classes = 1 + max(int(classes_of.max()) for classes_of in (y, *held) if len(classes_of))
    weights = torch.stack([torch.bincount(classes_of, minlength=classes) for classes_of in held], dim=1).double()
    sizes = torch.bincount(y, minlength=classes)
    return allocate(y, torch.stack([_cut(size, row) for size, row in zip(sizes.tolist(), weights, strict=True)]), rng)


def apportion(total: int, weights: Sequence[float]) -> list[int]:
    """Split `total` into integers in proportion to `weights`, rounding up those with the largest remainders."""
    quotas = [total * weight / sum(weights) for weight in weights]
    parts = [int(quota) for quota in quotas]
    order = sorted(range(len(parts)), key=lambda i: parts[i] - quotas[i])
    for i in order[: total - sum(parts)]:
        parts[i] += 1
    return parts


def _dirichlet_counts(
    y: Tensor,
    n: int,
    alpha: float | Sequence[float],
    rng: torch.Generator,
    minimum: int,
    full: Callable[[Tensor, float], Tensor] | None,
) -> Tensor:
    """Draw the samples per class and client; `full` maps sizes and their average to the clients that get no more."""
    _check_partitions(len(y), n)
    alphas = np.full(n, alpha) if isinstance(alpha, int | float) else np.asarray(alpha, dtype=float)
    if alphas.shape != (n,) or not (alphas > 0).all():
        raise FedkinError(f"alpha is {alpha}; allowed: one number above 0, or one for each of the {n} clients.")
    if n * minimum > len(y):
        raise FedkinError(f"{len(y)} samples are too few for {n} clients with at least {minimum} each.")
    sizes = torch.bincount(y).tolist()
    draws = np.random.default_rng(draw_seed(rng))
    for _ in range(_ATTEMPTS):
        counts, held = [], torch.zeros(n, dtype=torch.int64)
        for size in sizes:
            shares = torch.from_numpy(draws.dirichlet(alphas))
            if full is not None:
                shares = _without(shares, full(held, len(y) / n))
            counts.append(_cut(size, shares))
            held = held + counts[-1]
        if int(held.min()) >= minimum:
            return torch.stack(counts)
    raise FedkinError(
        f"No Dirichlet split with alpha {alpha} gave each of {n} clients {minimum} of {len(y)} samples in {_ATTEMPTS} "
        "attempts; take fewer clients, a larger alpha or a smaller minimum size."
    )


def _without(shares: Tensor, left_out: Tensor) -> Tensor:
    rest = shares.masked_fill(left_out, 0)
    return rest if float(rest.sum()) > 0 else (~left_out).double()  # tiny alphas can leave nothing to renormalise


def _cut(total: int, weights: Tensor) -> Tensor:
    """Split `total` samples at the rounded-down partial sums of `weights`; all parts are zero if all weights are."""
    sums = weights.cumsum(0)
    if float(sums[-1]) == 0:
        return torch.zeros(len(weights), dtype=torch.int64)
    ends = (sums * total / sums[-1]).long()
    ends[-1] = total  # whatever rounding made of it
    return ends.diff(prepend=ends.new_zeros(1))


def _gather(index: Tensor, owner: Tensor, n: int, rng: torch.Generator) -> list[Tensor]:
    """Return the indices of each owner in ``0..n-1``, shuffled; those of owner `n` are dropped."""
    mixed = torch.randperm(len(index), generator=rng)
    order = mixed[owner[mixed].argsort(stable=True)]
    return list(index[order].split(torch.bincount(owner, minlength=n + 1).tolist())[:n])


def _shard_size(n: int, partitions: int, per: int | None, size: int | None) -> int:
    for name, value in (("num_shards_per_partition", per), ("shard_size", size)):
        if value is not None and value < 1:
            raise FedkinError(f"{name} is {value}; allowed: 1 or more.")
    if per is None:
        if size is None:
            raise FedkinError("Shards need num_shards_per_partition, shard_size or both; neither is given.")
        return size
    if n < partitions * per * (size or 1):
        what = f"{per} shards of {size or 1} for each of {partitions} clients"
        raise FedkinError(f"{what} are {partitions * per * (size or 1)} samples, but there are only {n}.")
    return size or n // (partitions * per)


def _check_partitions(n_samples: int, partitions: int) -> None:
    if not 1 <= partitions <= n_samples:
        raise FedkinError(f"The number of clients is {partitions}; allowed: 1 to {n_samples}, the number of samples.")
