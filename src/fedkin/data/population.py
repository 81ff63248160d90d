"""Population of a federation: the clients, their names, and the ground truth, which only the evaluator gets."""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from fedkin.core.client import Client
from fedkin.core.errors import FedkinError
from fedkin.core.seeds import derive_generator
from fedkin.data.names import READ, ending_of, stem_of


@dataclass(frozen=True)
class Drift:
    """Concept drift: from `step` on, which counts from 1, some clients have data of another cluster.

    `clients`, int64, are the ids of those that drift, in order, and `clusters`, int64 ``(n,)``, the hidden cluster of
    each client from then on. `change` is ``(client, x, y) -> (x, y)``, for training and test samples alike. It must
    commute with an affine scaling per column or channel, since samples may be scaled by then; rotating images and
    relabelling do. `happened` is whether the population is already the one after the change.
    """

    step: int
    clients: Tensor
    change: Callable[[int, Tensor, Tensor], tuple[Tensor, Tensor]]
    clusters: Tensor
    happened: bool = False


@dataclass(frozen=True)
class Population:
    """Clients of a federation, and what is known about them apart from their data.

    Ids of `clients` are ``0..n-1``, and `names` are theirs, such as their file's; empty if they have only ids. `y` of a
    client is int64, indices into `classes`, in supervised scenarios, and ``None`` if samples are unlabelled to every
    method. `classes` are the names of the true ones, and `features` the columns of all clients' tables; either may be
    empty. From the step in `arrivals`, int64 ``(n,)``, a client takes part, from the very start if it is 0; ``None`` if
    all are there from the start. Those `absent` never take part, and only the evaluator knows their samples; those
    `forgotten` do not either, and their data are not here; both are in order. `drift` is what changes in the middle of
    a run, see `at`, and `notes` say for the user how the data were read, in sentences. Of clients' own data,
    `questions` are the notes on what looks wrong, and `guesses` those on columns that are labels, or are none, by their
    name alone.

    For the evaluator alone are `truth`, by client the int64 class of each training sample; `clusters`, int64 ``(n,)``,
    the hidden cluster of each; and `tests`, by client held-out samples and classes (int64) of its own distribution, of
    which there may be none at a client with hardly any samples; the list is empty if nothing is held out. Samples are
    float32; of tables, until they are prepared, values under the columns of the client's own table. `common_test` is
    the data set's official test split, untouched, in scenarios that leave images and labels as they are.
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
    forgotten: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()
    guesses: tuple[str, ...] = ()

    def away(self, step: int) -> set[int]:
        """Return the clients that do not take part in this step; step 0 is what comes before the first."""
        late = [] if self.arrivals is None else (self.arrivals > step).nonzero()[:, 0].tolist()
        return {*self.absent, *self.forgotten, *late}

    def at(self, step: int) -> Population:
        """Return the population at `step`, from the population at an earlier step, of which 0 is before the first.

        Clients that drift get their new samples in place, one after another, to save memory; this population, scaled or
        not, must not be used afterwards.
        """
        drift = self.drift
        if drift is None or drift.happened or step < drift.step:
            return self
        tests, truth = list(self.tests), None if self.truth is None else list(self.truth)
        for i in drift.clients.tolist():
            client = self.clients[i]
            client.x, client.y = drift.change(i, *self.samples(i))
            if tests:
                tests[i] = drift.change(i, *tests[i])
            if truth is not None:
                truth[i] = client.y
        return replace(self, tests=tests, truth=truth, clusters=drift.clusters, drift=replace(drift, happened=True))

    def samples(self, client: int) -> tuple[Tensor, Tensor]:
        """Return the samples and labels of a client, which must have labels."""
        y = self.clients[client].y
        if y is None:
            raise ValueError(f"Client {client} has no labels, so it cannot drift or join late.")
        return self.clients[client].x, y

    def without(self, absent: float, seed: int) -> Population:
        """Return the population with a random fraction `absent` in [0, 1) of clients that never take part.

        At least one client takes part.
        """
        count = min(len(self.clients) - 1, round(absent * len(self.clients)))
        drawn = torch.randperm(len(self.clients), generator=derive_generator(seed, "absent"))[:count]
        return replace(self, absent=tuple(sorted(set(drawn.tolist()) - set(self.forgotten))))

    def forgetting(self, clients: Sequence[int | str]) -> Population:
        """Return the population without the data of some clients, whose positions remain taken.

        They are positions or names. A name that is absent, as of a file that has been deleted, gets the position that
        it had in the order of names. Raises FedkinError if there is no such client, nobody else is left, or a client's
        place cannot be made up.
        """
        if not clients:
            return self
        population = self
        for name in sorted(name for name in clients if isinstance(name, str) and name not in self.names):
            population = population._with_place_of(name)
        count = max(len(population.names), len(population.clients))
        gone = sorted({population.names.index(client) if isinstance(client, str) else client for client in clients})
        if unknown := [client for client in gone if not 0 <= client < count]:
            raise FedkinError(f"'federation.forgotten' names client {unknown[0]}; allowed: 0 to {count - 1}.")
        if len(gone) == count:
            raise FedkinError("'federation.forgotten' names all clients; at least one must be left.")
        drift, arrivals, index = population.drift, population.arrivals, torch.tensor(gone, dtype=torch.int64)
        return replace(
            population,
            clients=[_empty(client) if client.id in gone else client for client in population.clients],
            truth=population.truth and [y[:0] if i in gone else y for i, y in enumerate(population.truth)],
            tests=[(x[:0], y[:0]) if i in gone else (x, y) for i, (x, y) in enumerate(population.tests)],
            drift=drift and replace(drift, clients=drift.clients[~torch.isin(drift.clients, index)]),
            arrivals=None if arrivals is None else arrivals.index_fill(0, index, 0),
            forgotten=tuple(gone),
        )

    def _with_place_of(self, name: str) -> Population:
        """Insert an empty client of this name at its place in the order of names."""
        if not self.names or self.names != sorted(self.names) or self.tests:
            raise FedkinError(f"'federation.forgotten' names client '{name}', which has no place among the others.")
        place, clients, truth = bisect(self.names, name), list(self.clients), self.truth
        clients[place:] = [replace(client, id=client.id + 1) for client in clients[place:]]
        if self.clients:
            clients.insert(place, replace(_empty(self.clients[0]), id=place))
        if truth:
            truth = [*truth[:place], truth[0][:0], *truth[place:]]
        return replace(self, clients=clients, names=[*self.names[:place], name, *self.names[place:]], truth=truth)


def _empty(client: Client) -> Client:
    """Return a client of the same kind without samples or state."""
    return replace(client.rows(torch.zeros(0, dtype=torch.int64)), state={})


def hold_out(part: Tensor, share: float, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Split `part` into what remains and what is held out, both in their original order.

    With a share above 0, of two or more at least one is held out, and at least one always remains.
    """
    n = len(part)
    out = min(n - 1, max(1, round(share * n))) if share > 0 else 0
    is_out = torch.zeros(n, dtype=torch.bool)
    is_out[torch.randperm(n, generator=rng)[:out]] = True
    return part[~is_out], part[is_out]


def short_names(names: Sequence[str]) -> list[str]:
    """Shorten the clients' names to file names without suffix, except if two would become equal."""
    short = [stem_of(name) if ending_of(name) in READ else name for name in names]
    times = Counter(name.lower() for name in short)
    return [stem if stem and times[stem.lower()] == 1 else name for stem, name in zip(short, names, strict=True)]


def client_name(client: int, names: Sequence[str]) -> str:
    """Return a client's name for charts and tables: its short name, or its id if clients have no names."""
    return short_names(names)[client] if client < len(names) else str(client)


def position_of(client: int | str | None, names: Sequence[str], count: int) -> int | None:
    """Find a client's position among `count` by name, short name or number; ``None`` if there is no such client."""
    short = short_names(names)
    if isinstance(client, str) and client in (*names, *short):
        return (list(names) if client in names else short).index(client)
    if isinstance(client, str) and client.isdecimal():
        client = int(client)
    return client if isinstance(client, int) and 0 <= client < count else None
