"""Scenario of CCFC and SDA-FC: one client for every class, with a given fraction of samples of that class."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import torch
from annotated_types import Interval
from torch import Tensor

from fedkin.core.errors import FedkinError
from fedkin.core.method import Fraction
from fedkin.core.seeds import derive_generator
from fedkin.data.population import Population
from fedkin.data.scenarios.partition_scenario import DataSetScenario, Labelled, client_of, load_labelled
from fedkin.data.scenarios.split import apportion


@dataclass(frozen=True)
class OwnClass(DataSetScenario):
    """One unlabelled client per class, a fraction of whose samples is of that class (CCFC, section 4.1).

    The paper draws a client's other samples from the entire data; here as in the authors' code they are what the
    others leave, so that every sample is at exactly one client. With a `heterogeneity` of 1 client c holds all of class
    c and nothing else. A class too small for its client's fraction goes to it whole. The splits for training
    and test are taken together.

    Attributes
    ----------
    heterogeneity : float
        The paper's p: from 0, all samples allocated at random, to 1, each client a class.
    fraction : float
        Fraction of the data that is used, chosen at random; in (0, 1].
    """

    heterogeneity: Fraction = 0.5
    fraction: Annotated[float, Interval(gt=0, le=1)] = 1.0

    def build(self, seed: int) -> Population:
        """Build the clients, without labels, and the truth; see `DataSetScenario.build`."""
        data = self._pooled(seed)
        y = data.y
        classes = len(data.classes)
        if len(y) < classes:
            raise FedkinError(
                f"'{self.data}' has {len(y)} samples for {classes} clients, one per class; scenario.fraction is "
                f"{self.fraction:g}, and a larger one is needed."
            )
        parts = own_class(y, classes, self.heterogeneity, derive_generator(seed, "partition"))
        for held, name in zip(parts, data.classes, strict=True):
            if not len(held):
                raise FedkinError(f"With scenario.fraction = {self.fraction:g} no sample of class '{name}' is left.")
        clients = [client_of(i, data, part) for i, part in enumerate(parts)]
        return Population(clients, [y[part] for part in parts], data.classes, data.features)

    def _pooled(self, seed: int) -> Labelled:
        """Return training and test samples together, or the fraction of them that takes part."""
        data = load_labelled(self.data, self.label, self.table)
        x, y = data.x, data.y
        if data.test is not None:
            x, y = torch.cat([x, data.test[0]]), torch.cat([y, data.test[1]])
        if self.fraction < 1.0:
            count = round(self.fraction * len(y))
            kept = torch.randperm(len(y), generator=derive_generator(seed, "fraction"))[:count].sort().values
            x, y = x[kept], y[kept]
        table = None if data.table is None else replace(data.table, values=x)
        return replace(data, x=x, y=y, table=table, test=None)


def own_class(y: Tensor, clients: int, heterogeneity: float, rng: torch.Generator) -> list[Tensor]:
    """Partition samples so that a fraction `heterogeneity`, in [0, 1], of client c's samples is of class c.

    `y` is int64 ``(n,)``, classes in ``0..clients-1``. Every row is in exactly one of the clients' rows, int64. Below a
    heterogeneity of 1 all have ``n / clients`` samples, or one more: the first of the client's class in the order of
    `y`, then others at random.
    """
    members = [(y == label).nonzero()[:, 0] for label in range(clients)]
    if heterogeneity == 1.0:
        return members
    sizes = apportion(len(y), [1] * clients)
    own = [rows[: round(heterogeneity * size)] for rows, size in zip(members, sizes, strict=True)]
    free = torch.ones(len(y), dtype=torch.bool)
    free[torch.cat(own)] = False
    rest = free.nonzero()[:, 0]
    rest = rest[torch.randperm(len(rest), generator=rng)]
    others = rest.split([size - len(rows) for rows, size in zip(own, sizes, strict=True)])
    return [torch.cat(pair) for pair in zip(own, others, strict=True)]
