"""What scenarios share: labelled data, samples that are held out, and the finished population."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fedkin.core.client import Client
from fedkin.core.errors import FedkinError, option
from fedkin.core.method import Count, Fraction
from fedkin.core.replies import check_same_shape
from fedkin.core.seeds import derive_generator
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
        self,
        data: Labelled,
        parts: Sequence[Tensor],
        seed: int,
        *,
        tests: Sequence[Tensor] | None = None,
        clusters: Tensor | None = None,
        change: SampleTransform | None = None,
    ) -> Population:
        """Build the population from the samples allocated to each client.

        `parts` are int64 indices into the training samples, and `tests` into the test split; without these
        `test_fraction` of every part is held out. `clusters`, int64 ``(n,)``, are the clients' hidden ones. A `change`
        is applied to every client's training and test samples; without it, the official test split is everyone's.
        Raises FedkinError if a client would have nothing to train on.
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
    train = load(source, label, options=options)
    if label is not None:
        check_are_classes(train.classes, len(train), train.label)
    try:
        # Columns of two tables would have to be brought together first; of those a part is held out instead.
        test = load(source, label, split="test", options=options) if train.table is None else None
    except SplitError:
        test = None
    if test is None:
        return Labelled(train.name, train.x, labels_of(train), train.classes, train.table)
    check_same_shape({f"'{source}'": train.x.shape[1:], f"The test split of '{source}'": test.x.shape[1:]})
    if test.classes != train.classes:
        classes = in_order([*train.classes, *test.classes])
        train, test = train.with_classes(classes), test.with_classes(classes)
    return Labelled(train.name, train.x, labels_of(train), train.classes, test=(test.x, labels_of(test)))


def client_of(number: int, data: Dataset, rows: Tensor | None = None) -> Client:
    """Return a client, without labels, with the samples of `data` at int64 `rows`, or with all of them."""
    if data.table is None:
        client = Client(number, data.x, samples=data.samples)
        return client if rows is None else client.rows(rows)
    table = data.table if rows is None else data.table.rows(rows)
    return Client(number, table.values, table=table)


def labels_of(dataset: Dataset) -> Tensor:
    """Return the labels of a data set, after checking that it has some."""
    if dataset.y is None:
        raise FedkinError(
            f"'{dataset.name}' has no labels, but clients of this scenario need them; name their column with "
            f"{option('label')}, or, to have each client's own rows, give a folder with one file per client, or the "
            f"column that names each row's client, as by {option('simulation.column', 'site')}."
        )
    return dataset.y


def unlabelled(data: Labelled | Dataset, parts: Sequence[Tensor]) -> Population:
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


def clients_or_default(clients: int | None, n_samples: int, paper: int) -> int:
    """Return `clients`, or by default the paper's number; 20 for data of fewer than 10,000 samples."""
    if clients is not None:
        return clients
    return paper if n_samples >= 10_000 else 20
