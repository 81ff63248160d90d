"""Held-out labelled samples on which a fit is evaluated as it goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fedkin.core import Client, FedkinError
from fedkin.core.errors import unknown_name
from fedkin.core.seeds import derive_generator
from fedkin.core.table import Table
from fedkin.data.inputs.client_input import ClientInput, dimensions, is_pair
from fedkin.data.inputs.federation_input import as_given, holds_several, is_named, labels_beside, named_data
from fedkin.data.population import Population
from fedkin.data.preparing.preparation import Preparation
from fedkin.data.reading.client_files import holds_clients
from fedkin.data.reading.dataset_names import expanded
from fedkin.estimators.labelled_clients import labelled_data

Samples = tuple[Callable[[Preparation], Tensor], Tensor]
"""What prepares samples as methods see them, and their classes, int64 ``(n,)``."""


@dataclass(frozen=True)
class HeldOut:
    """Samples of one held-out split, which is named in metrics, such as ``"test"``.

    `clients` has the samples of each client, ``None`` where it has none; it is empty where all clients share `common`,
    samples of no client, on which every cluster's model is evaluated.
    """

    split: str
    clients: list[Samples | None]
    common: Samples | None = None

    def population(self, clients: Sequence[Client], preparation: Preparation) -> Population:
        """Return the clients with these samples, prepared, as their tests."""
        nothing = torch.zeros(0, *clients[0].x.shape[1:]), torch.zeros(0, dtype=torch.int64)
        own = self.clients or [None] * len(clients)
        tests = [nothing if one is None else (one[0](preparation), one[1]) for one in own]
        common = None if self.common is None else (self.common[0](preparation), self.common[1])
        return Population(list(clients), None, [], tests=tests, common_test=common)


Reader = Callable[[ClientInput, str], Samples]
"""Reads one client's data; the second argument is whose they are, for errors' sentences."""


def held_out_of(
    given: Any, split: str, entrance: str, names: Sequence[str], label: str | None, read: Reader
) -> HeldOut:
    """Read the held-out samples that a user gives: labelled samples by client, or one data set for all.

    Clients are given as in ``fit``, by name or as many in a list; one client's form of data is for all. `split` and
    `entrance` are the names of the split and of the argument of ``fit``; `names` are the clients of ``fit``; `label` is
    the column or field of labels. Raises FedkinError if clients are unknown or their number differs, or data cannot be
    used or have no labels.
    """

    def samples(value: Any, where: str) -> Samples:
        data = labelled_data(value, where, label)
        if data.y is None:
            raise FedkinError(f"{where} has no labels, and {entrance} is to be compared with them; give pairs (x, y).")
        return read(data, where)

    if isinstance(given, tuple) and len(given) == 2 and holds_several(given[0]) and not is_pair(given[0]):
        given = _with_labels_beside(*given, entrance)
    if isinstance(given, str | Path) and (files := holds_clients(str(given))):
        given = {name: expanded(str(given)) / name for name in files}
    if not holds_several(given):
        return HeldOut(split, [], samples(given, f"The data given as {entrance}"))
    by_key = by_client(named_data(given, entrance), names, entrance)
    return HeldOut(
        split, [samples(by_key[at], f"{name} in {entrance}") if at in by_key else None for at, name in enumerate(names)]
    )


def _with_labels_beside(x: Any, y: Any, entrance: str) -> Any:
    """Convert a pair of all clients' samples and all their labels to pairs by client; else return both as given."""
    named = named_data(x, entrance)
    labels = list(y.values()) if isinstance(y, Mapping) else y
    if not isinstance(labels, list | tuple) or any(dimensions(own) != 1 for own in labels):
        return x, y
    beside = labels_beside(y, list(named), is_named(x))
    return as_given({key: (own, beside[key]) for key, own in named.items()}, x)


def by_client(given: Mapping[Any, Any], names: Sequence[str], entrance: str) -> dict[int, Any]:
    """Convert items given by name or in a list to a dict by position of the clients of ``fit``.

    Raises FedkinError if a name is unknown, or a list does not have one item per client.
    """
    if not all(isinstance(key, int) for key in given):
        for key in given:
            if key not in names:
                raise unknown_name(f"client in {entrance}", str(key), names)
        return {names.index(key): value for key, value in given.items()}
    if len(given) != len(names):
        raise FedkinError(
            f"{entrance} lists {len(given)} clients where fit has {len(names)}; give as many, or a dict by name."
        )
    return dict(given)


def split_off(
    clients: Sequence[Client], fraction: float, seed: int, split: str, entrance: str
) -> tuple[list[Client], HeldOut]:
    """Split a fraction off each client's samples at random, and return the remaining clients and the split.

    A client keeps at least one sample; one with a single sample has none held out. Raises FedkinError if the fraction
    is not between 0 and 1.
    """
    if not 0 < fraction < 1:
        raise FedkinError(f"{entrance} is {fraction}; a fraction of every client's samples is between 0 and 1.")
    kept, out = [], []
    for client in clients:
        order = torch.randperm(len(client), generator=derive_generator(seed, split, client.id))
        count = min(len(client) - 1, max(1, round(fraction * len(client))))
        kept.append(client.rows(order[count:].sort().values))
        out.append(_samples_of(client.rows(order[:count].sort().values), kept[-1].table) if count else None)
    return kept, HeldOut(split, out)


def _samples_of(client: Client, donors: Table | None) -> Samples:
    columns = None if client.table is None else client.table.columns
    assert client.y is not None
    return lambda preparation: preparation.prepared(client.x, columns, f"Client {client.id}", donors), client.y
