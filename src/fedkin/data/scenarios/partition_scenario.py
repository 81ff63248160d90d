"""What scenarios share: labelled data, rules that allocate samples to clients, and the finished population.

Rules return indices, allocate every sample at most once, draw from the generator that they get, and shuffle each
client's indices.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from fedkin.core.client import Client
from fedkin.core.errors import FedkinError, option
from fedkin.core.method import Count, Fraction
from fedkin.core.replies import check_same_shape
from fedkin.core.seeds import derive_generator, draw_seed
from fedkin.data.checks import check_cells
from fedkin.data.dataset import Dataset, SplitError, check_are_classes, in_order
from fedkin.data.options import NO_OPTIONS, TableOptions
from fedkin.data.population import Population
from fedkin.data.sources import load

SampleTransform = Callable[[int, Tensor, Tensor], tuple[Tensor, Tensor]]
"""Transform of a client's samples, ``(client, x, y) -> (x, y)``, for training and test samples alike."""


@dataclass(frozen=True)
class Labelled(Dataset):
    """Labelled data set, with its official test split as `test` if it has one."""

    y: Tensor
    test: tuple[Tensor, Tensor] | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class DataSetScenario(ABC):
    """Base of scenarios of one labelled data set.

    Attributes
    ----------
    data : str
        Name or path, see `fedkin.data.sources.load`.
    label : str or None
        Column of labels, if it does not have a usual name.
    table : TableOptions
        Options for reading a table's columns.
    """

    data: str = "digits"
    label: str | None = None
    table: TableOptions = field(default=NO_OPTIONS, kw_only=True)

    @abstractmethod
    def build(self, seed: int) -> Population:
        """Build the clients and the ground truth; the same for the same seed.

        Raises FedkinError if the data cannot be loaded or have no labels, or an option does not suit them.
        """


@dataclass(frozen=True)
class PartitionScenario(DataSetScenario):
    """Base of scenarios that partition one labelled data set among clients, each with a training and a test part.

    Attributes
    ----------
    test_fraction : float
        Fraction of every client's samples that is held out, in [0, 1], if the data have no test split of their own
        that is partitioned like the training split; at least one sample remains to train on.
    samples_per_client : int or None
        Maximum number of training samples at each client, chosen at random; all by default.
    """

    test_fraction: Fraction = 0.2
    samples_per_client: Count | None = None

    def build(self, seed: int) -> Population:
        """Build the clients, with labels, tests and hidden clusters; see `DataSetScenario.build`."""
        return self.partition(load_labelled(self.data, self.label, self.table), seed)

    @abstractmethod
    def partition(self, data: Labelled, seed: int) -> Population:
        """Do the same as `build`, with data that are loaded already; `self.data` and `self.label` are ignored."""

    def populated(
        self, data: Labelled, parts: Sequence[Tensor], seed: int, *, tests: Sequence[Tensor] | None = None,
        clusters: Tensor | None = None, change: SampleTransform | None = None,
    ) -> Population:  # fmt: skip
        """Build the population from each client's int64 indices into the training samples, and into the test split.

        Without `tests` a `test_fraction` of every part is held out. `clusters`, int64 ``(n,)``, are the clients' hidden
        ones. A `change` is applied to every client's samples; without it, the official test split is everyone's. Raises
        FedkinError if a client would have nothing to train on.
        """
        clients, held_out = [], []
        for i, part in enumerate(parts):
            if len(part) == 0:
                raise FedkinError(
                    f"Client {i} of {len(parts)} would get no sample of '{data.name}'; take fewer clients."
                )
            if tests is not None and data.test is not None:
                test = (data.test[0][tests[i]], data.test[1][tests[i]])
            else:
                # A generator of its own for each client, so that more clients leave the first ones as they are.
                part, out = hold_out(part, self.test_fraction, derive_generator(seed, "test", i))
                test = (data.x[out], data.y[out])
            if self.samples_per_client is not None and len(part) > self.samples_per_client:
                order = torch.randperm(len(part), generator=derive_generator(seed, "bound", i))
                part = part[order[: self.samples_per_client]]
            client = client_of(i, data, part)
            client.y = data.y[part]
            if change is not None:
                (client.x, client.y), test = change(i, client.x, client.y), change(i, *test)
            clients.append(client)
            held_out.append(test)
        return Population(
            clients,
            [client.y for client in clients if client.y is not None],
            data.classes,
            data.features,
            tests=held_out if any(len(y) for _, y in held_out) else [],
            clusters=clusters,
            common_test=data.test if change is None else None,
            notes=() if data.table is None else tuple(check_cells({data.name: data.table})),
        )


def load_labelled(source: str, label: str | None = None, options: TableOptions = NO_OPTIONS) -> Labelled:
    """Load a data set with labels, and of arrays and images its split ``test`` if it has one.

    Raises FedkinError if it cannot be loaded, or has no labels, or those that are named are measured numbers.
    """
    train, test = load(source, label, options=options), None
    if label is not None:
        check_are_classes(train.classes, len(train), train.label)
    if train.table is None:  # columns of two tables would have to be brought together first
        with suppress(SplitError):
            test = load(source, label, split="test", options=options)
    if test is None:
        return Labelled(train.name, train.x, labels_of(train), train.classes, train.table)
    check_same_shape({f"'{source}'": train.x.shape[1:], f"The test split of '{source}'": test.x.shape[1:]})
    classes = in_order([*train.classes, *test.classes])
    if test.classes != train.classes:
        train, test = train.with_classes(classes), test.with_classes(classes)
    return Labelled(train.name, train.x, labels_of(train), train.classes, test=(test.x, labels_of(test)))


def client_of(number: int, data: Dataset, rows: Tensor | None = None) -> Client:
    """Return a client, without labels, with the samples of `data` at int64 `rows`, or with all of them."""
    data = data if rows is None else data.rows(rows)
    return Client(number, data.x, table=data.table, samples=data.samples if data.table is None else None)


def labels_of(data: Dataset) -> Tensor:
    """Return the labels of a data set; raise FedkinError if it has none."""
    if data.y is None:
        raise FedkinError(
            f"'{data.name}' has no labels, but clients of this scenario need them; name their column with "
            f"{option('label')}, or, to have each client's own rows, give a folder with one file per client, or the "
            f"column that names each row's client, as by {option('simulation.column', 'site')}."
        )
    return data.y


def unlabelled(data: Dataset, parts: Sequence[Tensor]) -> Population:
    """Return clients without labels or tests, whose classes only the evaluator knows."""
    y = labels_of(data)
    clients = [client_of(i, data, part) for i, part in enumerate(parts)]
    return Population(clients, [y[part] for part in parts], data.classes, data.features)


def hold_out(part: Tensor, share: float, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Split `part` into what remains and what is held out, both in their original order.

    With a share above 0, of two or more at least one is held out, and at least one always remains.
    """
    n = len(part)
    out = min(n - 1, max(1, round(share * n))) if share > 0 else 0
    is_out = torch.zeros(n, dtype=torch.bool)
    is_out[torch.randperm(n, generator=rng)[:out]] = True
    return part[~is_out], part[is_out]


# Rules that allocate samples.


def dirichlet_split(
    y: Tensor, n_clients: int, alpha: float | Sequence[float], rng: torch.Generator, *, least: int = 10,
    capped: bool = False,
) -> list[Tensor]:  # fmt: skip
    """Partition each class in proportions drawn from a Dirichlet distribution.

    `y` is int64 ``(n,)``, the class of each sample; all are allocated. The concentration `alpha`, one for all or one
    per client, is above 0. Proportions are drawn anew, up to 1,000 times, until every client has the `least` samples.
    With `capped` a client that has reached the average size gets none of the classes that follow, as in the code of
    Prigent et al. Return each client's indices into `y`, int64. Raises FedkinError if there are too few samples, a
    concentration is not above 0, or no draw gave every client enough.
    """
    alphas = np.full(n_clients, alpha) if isinstance(alpha, int | float) else np.asarray(alpha, dtype=float)
    if alphas.shape != (n_clients,) or not (alphas > 0).all():
        raise FedkinError(f"alpha is {alpha}; allowed: one number above 0, or one for each of the {n_clients} clients.")
    if not 1 <= n_clients * max(1, least) <= len(y):
        raise FedkinError(f"{len(y)} samples are too few for {n_clients} clients with at least {least} each.")
    draws = np.random.default_rng(draw_seed(rng))
    for _ in range(1000):
        counts, sizes = [], torch.zeros(n_clients, dtype=torch.int64)
        for members in torch.bincount(y).tolist():
            shares = torch.from_numpy(draws.dirichlet(alphas))
            if capped:
                full = sizes >= len(y) / n_clients
                rest = shares.masked_fill(full, 0)
                # Tiny concentrations can leave nothing of the shares.
                shares = rest if float(rest.sum()) > 0 else (~full).double()
            counts.append(_cut(members, shares))
            sizes = sizes + counts[-1]
        if int(sizes.min()) >= least:
            return allocate(y, torch.stack(counts), rng)
    raise FedkinError(
        f"No Dirichlet split of 1,000 with alpha {alpha} gave each of {n_clients} clients {least} of {len(y)} "
        "samples; take fewer clients, a larger alpha or a smaller minimum size."
    )


def allocate(y: Tensor, counts: Tensor, rng: torch.Generator) -> list[Tensor]:
    """Allocate the given number of random samples of each class to each client; return indices into `y`.

    `y` is int64 ``(n,)`` in ``0..classes-1``, and `counts` int64 ``(classes, clients)``; no row may ask for more than
    its class has.
    """
    mixed = torch.randperm(len(y), generator=rng)
    by_class = mixed[y[mixed].argsort(stable=True)].split(torch.bincount(y, minlength=len(counts)).tolist())
    index = torch.cat([members[: int(row.sum())] for members, row in zip(by_class, counts, strict=True)])
    owner = torch.cat([torch.arange(counts.shape[1]).repeat_interleave(row) for row in counts])
    mixed = torch.randperm(len(index), generator=rng)
    order = mixed[owner[mixed].argsort(stable=True)]
    return list(index[order].split(counts.sum(0).tolist()))


def allocate_in_proportion(y: Tensor, held: Sequence[Tensor], rng: torch.Generator) -> list[Tensor]:
    """Allocate each class in the proportions in which clients have it already; for the tests of a partition.

    `y` is int64 ``(n,)``, the class of each sample to allocate, and `held` the classes of each client's samples;
    classes that no client has are allocated to none.
    """
    classes = 1 + max(int(each.max()) for each in (y, *held) if len(each))
    weights = torch.stack([torch.bincount(each, minlength=classes) for each in held], dim=1).double()
    sizes = torch.bincount(y, minlength=classes).tolist()
    return allocate(y, torch.stack([_cut(size, row) for size, row in zip(sizes, weights, strict=True)]), rng)


def apportion(total: int, weights: Sequence[float]) -> list[int]:
    """Split `total` into integers in proportion to `weights`, rounding up those with the largest remainders."""
    quotas = [total * weight / sum(weights) for weight in weights]
    parts = [int(quota) for quota in quotas]
    for i in sorted(range(len(parts)), key=lambda i: parts[i] - quotas[i])[: total - sum(parts)]:
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
