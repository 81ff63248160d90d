"""Clients that are one array: the rows of all, one after another, and the offset at which each client's begin.

An engine hands such clients to a task a block at a time where the task has a function for blocks, and one by one
otherwise. What clients reply and keep stays an array for each name, until somebody asks for one client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, wraps
from itertools import chain
from threading import Lock
from typing import Any

import torch
from torch import Tensor

from fedkin.core.client import LASTING, Client
from fedkin.core.errors import FedkinError
from fedkin.core.federation import Replies
from fedkin.core.payload import Payload
from fedkin.core.tasks import BlockFunction, Task, client_task


@dataclass(frozen=True)
class PerClient:
    """Tensors of several clients that differ in length, as one: `values` ``(total, ...)``, and the `sizes` of each.

    Those are int64 ``(clients,)``.
    """

    values: Tensor
    sizes: Tensor

    @classmethod
    def where(cls, values: Tensor, mask: Tensor) -> PerClient:
        """Return the `values` ``(clients, k, ...)`` at which `mask`, bool ``(clients, k)``, is true."""
        return cls(values[mask], mask.sum(1))

    @cached_property
    def starts(self) -> Tensor:
        """Where each client's tensor begins."""
        return self.sizes.cumsum(0) - self.sizes

    def __getitem__(self, place: int) -> Tensor:
        return self.values.narrow(0, int(self.starts[place]), int(self.sizes[place]))

    def take(self, places: Tensor) -> PerClient:
        """Return the tensors of the clients at int64 `places`, in this order."""
        sizes = self.sizes[places]
        return PerClient(self.values[_runs(self.starts[places], sizes)], sizes)


def _runs(starts: Tensor, sizes: Tensor) -> Tensor:
    """Return the numbers ``start, ..., start + size - 1`` of each run, int64 ``(total,)``."""
    return torch.arange(int(sizes.sum())) + (starts - sizes.cumsum(0) + sizes).repeat_interleave(sizes)


@dataclass
class Block:
    """Clients with the same number of rows, which a task does at once.

    Attributes
    ----------
    ids : Tensor
        int64 ``(clients,)``.
    rows : Tensor
        float32 ``(clients * n, *shape)``; of a file in memory only while the block is at work.
    min_members : int
        As of `Client`.
    client : Client or None
        The only client of a block `of` one, which draws and keeps what it does by itself.
    array : ClientArray or None
        Otherwise the array that the clients are of.
    places : Tensor or slice
        Where their rows are in the array.
    seeds : list of int
        Seed of each client's generator in this exchange.
    declined : Tensor
        bool ``(clients,)``, set by a task for those that send nothing; replies are those of the others.
    """

    ids: Tensor
    rows: Tensor
    min_members: int
    client: Client | None = None
    array: Any = None
    places: Any = None
    seeds: Sequence[int] = ()

    def __post_init__(self) -> None:
        self.declined = torch.zeros(len(self.ids), dtype=torch.bool)

    @classmethod
    def of(cls, client: Client) -> Block:
        """Return the block of a single client."""
        return cls(torch.tensor([client.id]), client.x, client.min_members, client)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def size(self) -> int:
        """Number of rows of each client."""
        return len(self.rows) // len(self)

    @property
    def x(self) -> Tensor:
        """The rows by client, ``(clients, n, *shape)``."""
        return self.by_client(self.rows)

    def by_client(self, values: Tensor) -> Tensor:
        """Return what belongs to `rows` ``(clients * n, ...)`` by client, ``(clients, n, ...)``."""
        shaped: Tensor = values.unflatten(0, (len(self), self.size))
        return shaped

    def as_one(self) -> Client:
        """Return one client with the rows of all, which keeps nothing."""
        return Client(int(self.ids[0]), self.rows, min_members=self.min_members)

    def clients(self) -> list[Client]:
        """Return the single clients, of whose states `ClientArray.keep_of` may take over what they keep."""
        if self.client is not None:
            return [self.client]
        each = zip(self.ids.tolist(), self.x, self.rngs(), strict=True)
        return [Client(i, x, state=self.array.state_of(i), rng=rng, noise=rng) for i, x, rng in each]

    def rngs(self) -> list[torch.Generator]:
        """Return each client's generator."""
        if self.client is not None:
            return [self.client.rng]
        return [torch.Generator().manual_seed(seed) for seed in self.seeds]

    def state(self, name: str) -> Tensor:
        """Return what its clients keep of each row ``(clients, n, ...)``; KeyError if one of them keeps nothing."""
        if self.client is not None:
            return self.client.state[name][None]
        values, has = self.array.by_row[name]
        if not bool(has[self.ids].all()):
            raise KeyError(name)
        return self.by_client(values[self.places])

    def keep(self, name: str, values: Tensor) -> None:
        """Have all clients keep `values` ``(clients, n, ...)`` of each of their rows from now on."""
        if self.client is not None:
            self.client.state[name] = values[0]
        else:
            self.array.keep(name, self.ids, self.places, values.flatten(0, 1))


class ClientArray(Mapping[int, Client]):
    """Clients 0 to n - 1 of one array.

    Parameters
    ----------
    rows : Tensor
        float32 ``(rows, *shape)``, all finite; may be a file that is mapped into memory, see
        `fedkin.data.sources`.
    offsets : sequence of int
        ``(clients + 1,)``: client i has ``rows[offsets[i]:offsets[i + 1]]``, at least one row.
    min_members : int
        As of `Client`, the same for all.
    names : sequence of str
        Names of the clients, by default their numbers.
    """

    def __init__(
        self, rows: Tensor, offsets: Tensor | Sequence[int], min_members: int = 0, names: Sequence[str] = ()
    ) -> None:
        self.rows, self.min_members = rows, min_members
        self.offsets = torch.as_tensor(offsets, dtype=torch.int64)
        self.sizes = self.offsets.diff()
        ends = self.offsets[[0, -1]].tolist() if len(self.offsets) > 1 else []
        if ends != [0, len(rows)] or int(self.sizes.min()) < 1 or rows.dtype != torch.float32:
            raise FedkinError(
                f"Offsets of clients grow by 1 or more from 0 to the number of rows, here {len(rows)} of {rows.dtype}; "
                "rows are float32."
            )
        self.names = names or [f"Client {i}" for i in range(len(self))]
        self.encode: Callable[[Tensor], Tensor] = lambda x: x
        """What rows go through whenever they are read, such as a scaling; kept, they would be in memory twice."""
        self.by_row: dict[str, tuple[Tensor, Tensor]] = {}
        """What clients keep of each row, by name: ``(rows, ...)``, and bool ``(clients,)``, who keeps it."""
        self.others: dict[int, dict[str, Tensor]] = {}
        """What else each client keeps."""
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self.sizes)

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self)))

    def __getitem__(self, client: int) -> Client:
        """Return a client, which nothing else knows of: what it is to keep is handed back by `keep_of`."""
        if not 0 <= client < len(self):
            raise KeyError(client)
        x = self.encode(self.rows[self._rows_of(client)])
        return Client(client, x, state=self.state_of(client), min_members=self.min_members)

    def _rows_of(self, client: int) -> slice:
        return slice(*self.offsets[client : client + 2].tolist())

    def state_of(self, client: int) -> dict[str, Tensor]:
        """Return what a client keeps."""
        rows = self._rows_of(client)
        return self.others.get(client, {}) | {
            name: values[rows] for name, (values, has) in self.by_row.items() if has[client]
        }

    def as_one(self) -> Client:
        """Return one client with all rows, not encoded, and with what all clients keep of each of theirs."""
        state = {name: values for name, (values, has) in self.by_row.items() if bool(has.all())}
        return Client(0, self.rows, state=state, min_members=self.min_members)

    def blocks(self, ids: Tensor, seeds: Sequence[int], rows: int) -> Iterator[Block]:
        """Yield `ids` in blocks of up to so many `rows`, of clients with the same number; `seeds` are by id."""
        order = self.sizes[ids].argsort(stable=True)
        counts = self.sizes[ids[order]].unique_consecutive(return_counts=True)
        for size, part in zip(counts[0].tolist(), order.split(counts[1].tolist()), strict=True):
            for places in part.split(max(1, rows // size)):
                members = ids[places]
                starts = self.offsets[members]
                first, last = int(starts[0]), int(starts[-1]) + size
                are_beside = last - first == len(members) * size
                where = slice(first, last) if are_beside else _runs(starts, torch.full_like(members, size))
                drawn = [seeds[place] for place in places.tolist()]
                yield Block(members, self.rows[where], self.min_members, None, self, where, drawn)

    def keep(self, name: str, ids: Tensor, places: Tensor | slice, values: Tensor) -> None:
        """Have clients `ids` keep `values` of each of their rows, which are at `places`."""
        with self._lock:
            whole, has = self.by_row.get(name, (values[:0], torch.zeros(0)))
            if not len(has) or (whole.shape[1:], whole.dtype) != (values.shape[1:], values.dtype):
                whole = values.new_empty(len(self.rows), *values.shape[1:])
                has = torch.zeros(len(self), dtype=torch.bool)
                self.by_row[name] = whole, has
        whole[places] = values
        has[ids] = True

    def keep_of(self, client: Client) -> None:
        """Take over what a single client keeps."""
        for name, value in client.state.items():
            if value.shape[:1] == client.x.shape[:1] and not name.startswith(LASTING):
                self.keep(name, torch.tensor([client.id]), self._rows_of(client.id), value)
            else:
                self.others.setdefault(client.id, {})[name] = value


class ArrayReplies(Replies[Payload]):
    """Replies of many clients, which become single ones when asked for.

    `ids` are int64 ``(clients,)`` in order. Of `entries` by name each is a tensor ``(clients, ...)``, of which one of
    one dimension holds a plain number of each client; a `PerClient`; a tuple with a plain value of each client; or
    anything else, which is the same in every reply.
    """

    def __init__(self, ids: Tensor, entries: dict[str, Any], missing: Mapping[int, str] | None = None) -> None:
        super().__init__({}, missing or {})
        self.ids, self.entries = ids, entries

    @classmethod
    def join(cls, parts: Sequence[ArrayReplies], missing: Mapping[int, str]) -> ArrayReplies:
        """Return the replies of several groups of clients, in order of id.

        Entries are taken out of the parts, so that no more than one of them is in memory twice.
        """
        ids = torch.cat([torch.zeros(0, dtype=torch.int64), *(part.ids for part in parts)])
        names = list(parts[0].entries) if parts else []
        replies = cls(ids, {name: _joined([part.entries.pop(name) for part in parts]) for name in names}, missing)
        return replies if bool((ids.diff() > 0).all()) else replies.take(ids.argsort())

    def take(self, places: Tensor) -> ArrayReplies:
        """Return the replies of the clients at int64 `places`."""
        entries = {name: _taken(part, places) for name, part in self.entries.items()}
        return ArrayReplies(self.ids[places], entries, self.missing)

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[int]:
        return iter(self.ids.tolist())

    def __getitem__(self, client: int) -> Payload:
        place = int(torch.searchsorted(self.ids, client))
        if place >= len(self.ids) or int(self.ids[place]) != client:
            raise KeyError(client)
        return single(self.entries, place)

    def each(self, name: str) -> list[Any]:
        part = self.entries[name]
        if isinstance(part, PerClient):
            return list(part.values.split(part.sizes.tolist()))
        if isinstance(part, Tensor):
            return part.tolist() if part.ndim == 1 else list(part)
        return list(part) if isinstance(part, tuple) else [part] * len(self)

    def cat(self, name: str) -> Tensor:
        return _ragged(self.entries[name]).values

    def owners(self, name: str) -> Tensor:
        return self.ids.repeat_interleave(_ragged(self.entries[name]).sizes)


def _ragged(part: Tensor | PerClient) -> PerClient:
    if isinstance(part, PerClient):
        return part
    return PerClient(part.flatten(0, 1), torch.full((len(part),), part.shape[1]))


def _joined(parts: Sequence[Any]) -> Any:
    """Return an entry of several groups of clients, in their order."""
    first = parts[0]
    if isinstance(first, tuple):
        return tuple(chain(*parts))
    if not isinstance(first, Tensor | PerClient):
        return first
    if isinstance(first, Tensor) and len({part.shape[1:] for part in parts}) == 1:
        return torch.cat(list(parts))
    ragged = list(map(_ragged, parts))
    return PerClient(torch.cat([part.values for part in ragged]), torch.cat([part.sizes for part in ragged]))


def _taken(part: Any, places: Tensor) -> Any:
    """Return an entry of the clients at int64 `places`."""
    if isinstance(part, tuple):
        return tuple(part[place] for place in places.tolist())
    return part.take(places) if isinstance(part, PerClient) else part[places] if isinstance(part, Tensor) else part


def single(entries: Mapping[str, Any], place: int) -> Payload:
    """Return the reply of the client at a `place` among those of `entries`."""
    reply = {}
    for name, part in entries.items():
        item = part[place] if isinstance(part, Tensor | PerClient | tuple) else part
        reply[name] = item.item() if isinstance(part, Tensor) and part.ndim == 1 else item
    return reply


def block_task(*, pools: bool = False, **declared: Any) -> Callable[[BlockFunction], Task]:
    """As `fedkin.core.client_task`, of a function of a `Block`: clients of one array at once, others one by one.

    With `pools` the function returns the sum of its clients' replies, see `Task.pool`.
    """

    def registered(run: BlockFunction) -> Task:
        def of_one(client: Client, payload: Payload) -> Payload:
            block = Block.of(client)
            entries = run(block, payload)
            if block.declined.any():
                return {}
            return dict(entries) if pools else single(entries, 0)

        functions = {"pool": run} if pools else {"block": run}
        return client_task(**declared, **functions)(wraps(run)(of_one))

    return registered
