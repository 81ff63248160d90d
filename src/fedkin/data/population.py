"""The clients of a federation, and the ground truth, which only the evaluator gets."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from fedkin.core.client import Client
from fedkin.core.seeds import derive_generator
from fedkin.core.table import Column


class SamplePreparation(Protocol):
    """What makes of samples what a model was trained on, such as `fedkin.data.preparing.preparation.Preparation`."""

    def apply(self, x: Tensor, columns: Sequence[Column] | None = None, where: str = ...) -> Tensor:
        """Prepared samples, of a table under `columns`; `x` itself is not changed."""
        ...


@dataclass(frozen=True)
class Drift:
    """Some clients begin to see things differently in the middle of a run.

    Attributes
    ----------
    step : int
        The first step that sees the change; steps count from 1.
    clients : Tensor
        int64, ids of those it happens to, in order.
    change : callable
        ``(client, x, y) -> (x, y)``, for training and test samples alike. They may be scaled by then, so it must give
        the same before and after an affine scaling per column or channel, as turning images and relabelling do.
    clusters : Tensor
        int64 ``(n,)``, the hidden cluster of each client from then on.
    happened : bool
        Whether the population that holds this is the one after the change.
    """

    step: int
    clients: Tensor
    change: Callable[[int, Tensor, Tensor], tuple[Tensor, Tensor]]
    clusters: Tensor
    happened: bool = False


@dataclass(frozen=True)
class Population:
    """Clients, and what is known about them apart from their data.

    Attributes
    ----------
    clients : list of Client
        Ids are ``0..n-1``. `y` is int64, indices into `classes`, in supervised scenarios, and ``None`` where samples
        are unlabelled to every method.
    truth : list of Tensor or None
        Per client, the int64 class of each training sample; for the evaluator alone.
    classes : list of str
        Names of the true classes; empty if there are none.
    features : list of str
        Column names of all clients' tables; empty where there are none.
    names : list of str
        What the clients are called, such as their file's name; empty where ids are all there is.
    tests : list of (Tensor, Tensor)
        Per client, held-out samples and classes (int64) of its own distribution, of which there may be none at a
        client with hardly any samples; an empty list where nothing is held out. Samples are float32; of tables, until
        they are prepared, values under the columns of the client's own table. For the evaluator alone.
    clusters : Tensor or None
        int64 ``(n,)``, the hidden cluster of each client; for the evaluator alone.
    common_test : (Tensor, Tensor) or None
        The data set's official test split, untouched, in scenarios that leave images and labels as they are.
    drift : Drift or None
        What changes in the middle of a run; see `fedkin.data.scenarios.drift.population_at`.
    arrivals : Tensor or None
        int64 ``(n,)``, the step before which each client joins: it takes part from this step on, and from the very
        start where it is 0. ``None`` if all are there from the start.
    absent : tuple of int
        Clients that never take part, in order; only the evaluator knows their samples.
    notes : tuple of str
        What a user should know of how the data were read, in sentences.
    """

    clients: list[Client]
    truth: list[Tensor] | None
    classes: list[str]
    features: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    tests: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    clusters: Tensor | None = None
    common_test: tuple[Tensor, Tensor] | None = None
    drift: Drift | None = None
    arrivals: Tensor | None = None
    absent: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """``"image"`` or ``"table"``."""
        return "table" if self.image_shape is None else "image"

    @property
    def image_shape(self) -> tuple[int, int, int] | None:
        """Channels, height and width of images; ``None`` for tables."""
        x = self.clients[0].x
        return (x.shape[1], x.shape[2], x.shape[3]) if x.ndim == 4 else None

    def away(self, step: int) -> set[int]:
        """Clients that do not take part in this step; 0 is what comes before the first."""
        late = [] if self.arrivals is None else (self.arrivals > step).nonzero()[:, 0].tolist()
        return {*self.absent, *late}

    def without(self, absent: float, seed: int) -> Population:
        """The same population, of which a fraction `absent` in [0, 1) never takes part; at least one client does."""
        count = min(len(self.clients) - 1, round(absent * len(self.clients)))
        drawn = torch.randperm(len(self.clients), generator=derive_generator(seed, "absent"))[:count]
        return dataclasses.replace(self, absent=tuple(sorted(drawn.tolist())))

    def prepared(self, preparation: SamplePreparation) -> Population:
        """The same population with `tests` and `common_test` prepared; clients prepare their own data themselves."""
        columns = [None if client.table is None else client.table.columns for client in self.clients]
        tests = [
            (preparation.apply(x, own, f"The test part of client {i}"), y)
            for i, ((x, y), own) in enumerate(zip(self.tests, columns, strict=False))
        ]
        common = self.common_test and (preparation.apply(self.common_test[0], columns[0]), self.common_test[1])
        return dataclasses.replace(self, tests=tests, common_test=common)
