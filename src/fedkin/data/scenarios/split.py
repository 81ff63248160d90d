"""Partitioners: rules that allocate samples to clients, as indices, named as in flwr-datasets where it has them.

Every rule allocates a sample at most once, draws from the generator that it gets, and shuffles each client's indices.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from fedkin.core.errors import FedkinError
from fedkin.core.seeds import draw_seed


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
    capped: bool = False,
) -> list[Tensor]:
    """Partition each class in proportions drawn from a Dirichlet distribution; flwr-datasets' ``DirichletPartitioner``.

    `y` is int64 ``(n,)``, the class of each sample; all are allocated. The concentration `alpha`, one for all or one
    per part, is above 0: small values give every part few classes. Proportions are drawn anew, up to 1,000 times, until
    every part has `min_partition_size` samples. With `capped` a part that has reached the average size gets none of the
    classes that follow, as in the code of Prigent et al., so that the last classes miss in some parts even where
    `alpha` is large. Return each part's indices into `y`, int64. Raises FedkinError if there are too few samples, a
    concentration is not above 0, or no draw gave every part enough.
    """
    n, size = num_partitions, len(y) / num_partitions
    _check_partitions(len(y), n)
    alphas = np.full(n, alpha) if isinstance(alpha, int | float) else np.asarray(alpha, dtype=float)
    if alphas.shape != (n,) or not (alphas > 0).all():
        raise FedkinError(f"alpha is {alpha}; allowed: one number above 0, or one for each of the {n} clients.")
    if n * min_partition_size > len(y):
        raise FedkinError(f"{len(y)} samples are too few for {n} clients with at least {min_partition_size} each.")
    draws = np.random.default_rng(draw_seed(rng))
    for _ in range(1000):
        counts, sizes = [], torch.zeros(n, dtype=torch.int64)
        for members in torch.bincount(y).tolist():
            shares = torch.from_numpy(draws.dirichlet(alphas))
            if capped:
                full = sizes >= size
                rest = shares.masked_fill(full, 0)
                # Tiny concentrations can leave nothing of the shares.
                shares = rest if float(rest.sum()) > 0 else (~full).double()
            counts.append(_cut(members, shares))
            sizes = sizes + counts[-1]
        if int(sizes.min()) >= min_partition_size:
            return allocate(y, torch.stack(counts), rng)
    raise FedkinError(
        f"No Dirichlet split of 1,000 with alpha {alpha} gave each of {n} clients {min_partition_size} of {len(y)} "
        "samples; take fewer clients, a larger alpha or a smaller minimum size."
    )


def shard_split(y: Tensor, num_partitions: int, num_shards_per_partition: int, rng: torch.Generator) -> list[Tensor]:
    """Partition into random blocks of samples sorted by class (McMahan et al. 2017); the ``ShardPartitioner``.

    `y` is int64 ``(n,)``, the class of each sample. Shards are as large as the data allow; what is left over is no
    part's. Return each part's indices into `y`, int64. Raises FedkinError if there are too few samples.
    """
    used = num_partitions * num_shards_per_partition
    _check_partitions(len(y), num_partitions)
    if (size := len(y) // used) < 1:
        raise FedkinError(f"{num_partitions} clients with {num_shards_per_partition} shards each need {used} samples.")
    shards = len(y) // size  # can be one more than are used, and then a random one is left out
    owner_of_shard = torch.full((shards,), num_partitions)
    holder = torch.arange(num_partitions).repeat_interleave(num_shards_per_partition)
    owner_of_shard[torch.randperm(shards, generator=rng)[:used]] = holder
    mixed = torch.randperm(len(y), generator=rng)
    by_class = mixed[y[mixed].argsort(stable=True)][: shards * size]
    return _gather(by_class, owner_of_shard.repeat_interleave(size), num_partitions, rng)


def allocate(y: Tensor, counts: Tensor, rng: torch.Generator) -> list[Tensor]:
    """Allocate the given number of random samples of each class to each client; return indices into `y`.

    `y` is int64 ``(n,)`` in ``0..classes-1``, and `counts` int64 ``(classes, clients)``; no row may ask for more than
    its class has.
    """
    mixed = torch.randperm(len(y), generator=rng)
    by_class = mixed[y[mixed].argsort(stable=True)].split(torch.bincount(y, minlength=len(counts)).tolist())
    index = torch.cat([members[: int(row.sum())] for members, row in zip(by_class, counts, strict=True)])
    clients = torch.arange(counts.shape[1])
    return _gather(index, torch.cat([clients.repeat_interleave(row) for row in counts]), len(clients), rng)


def allocate_in_proportion(y: Tensor, held: Sequence[Tensor], rng: torch.Generator) -> list[Tensor]:
    """Allocate each class in the proportions in which clients have it already; for the tests of a partition.

    `y` is int64 ``(n,)``, the class of each sample to allocate, and `held` the classes of each client's samples;
    classes that no client has are allocated to none. Return each client's indices into `y`, int64; empty where it holds
    too little for one.
    """
    classes = 1 + max(int(each.max()) for each in (y, *held) if len(each))
    weights = torch.stack([torch.bincount(each, minlength=classes) for each in held], dim=1).double()
    sizes = torch.bincount(y, minlength=classes).tolist()
    return allocate(y, torch.stack([_cut(size, row) for size, row in zip(sizes, weights, strict=True)]), rng)


def apportion(total: int, weights: Sequence[float]) -> list[int]:
    """Split `total` into integers in proportion to `weights`, rounding up those with the largest remainders."""
    quotas = [total * weight / sum(weights) for weight in weights]
    parts = [int(quota) for quota in quotas]
    order = sorted(range(len(parts)), key=lambda i: parts[i] - quotas[i])
    for i in order[: total - sum(parts)]:
        parts[i] += 1
    return parts


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


def _check_partitions(n_samples: int, partitions: int) -> None:
    if not 1 <= partitions <= n_samples:
        raise FedkinError(f"The number of clients is {partitions}; allowed: 1 to {n_samples}, the number of samples.")
