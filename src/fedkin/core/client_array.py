"""Clients that are one array: the rows of all, one after another, and the offset at which each client's begin.

An engine hands such clients to a task a block at a time where the task has a function for blocks, and one by one
otherwise. What clients reply and keep stays an array for each name, until somebody asks for one client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from fedkin.core.client import Client
from fedkin.core.errors import FedkinError
from fedkin.core.federation import Replies
from fedkin.core.payload import Payload
from fedkin.core.tasks import BlockFunction, Task, client_task


@dataclass(frozen=True)
class PerClient:
    """A tensor of each of several clients, as one: `values` ``(clients, ...)``.

    With `offsets`, int64 ``(clients + 1,)``, the tensors differ in length: that of client i is
    ``values[offsets[i]:offsets[i + 1]]``.
    """

    values: Tensor
    offsets: Tensor | None = None

    @classmethod
    def of(cls, tensors: Sequence[Tensor]) -> PerClient:
        """Return clients' tensors as one; they differ in the first dimension at most."""
        if len({tensor.shape for tensor in tensors}) == 1:
            return cls(torch.stack(list(tensors)))
        return cls(torch.cat(list(tensors)), _offsets(torch.tensor([len(tensor) for tensor in tensors])))

    @classmethod
    def where(cls, values: Tensor, mask: Tensor) -> PerClient:
        """Return the `values` ``(clients, k, ...)`` at which `mask`, bool ``(clients, k)``, is true."""
        return cls(values[mask], _offsets(mask.sum(1)))

    @classmethod
    def join(cls, parts: Sequence[PerClient]) -> PerClient:
        """Return the tensors of several groups of clients, in their order."""
        if len(parts) == 1:
            return parts[0]
        if all(part.offsets is None for part in parts) and len({part.values.shape[1:] for part in parts}) == 1:
            return cls(_joined([part.values for part in parts]))
        flat = [part.values if part.offsets is not None else part.values.flatten(0, 1) for part in parts]
        return cls(_joined(flat), _offsets(torch.cat([part.sizes for part in parts])))

    @property
    def sizes(self) -> Tensor:
        """Lengths of the clients' tensors, int64 ``(clients,)``."""
        if self.offsets is not None:
            return self.offsets.diff()
        return torch.full((len(self.values),), self.values.shape[1] if self.values.ndim > 1 else 1)

    @property
    def are_numbers(self) -> bool:
        """Whether each client has a plain number."""
        return self.offsets is None and self.values.ndim == 1

    def __len__(self) -> int:
        return len(self.values) if self.offsets is None else len(self.offsets) - 1

    def __getitem__(self, place: int) -> Tensor:
        if self.offsets is None:
            return self.values[place]
        return self.values[int(self.offsets[place]) : int(self.offsets[place + 1])]

    def take(self, places: Tensor) -> PerClient:
        """Return the tensors of the clients at int64 `places`, in this order."""
        if self.offsets is None:
            return PerClient(self.values[places])
        sizes = self.sizes[places]
        return PerClient(self.values[_runs(self.offsets[places], sizes)], _offsets(sizes))


def _joined(parts: Sequence[Tensor]) -> Tensor:
    """Return tensors joined along the first dimension, without a copy where they lie one after another in memory."""
    first, storage = parts[0], parts[0].untyped_storage().data_ptr()
    follow = all(after.data_ptr() == before.data_ptr() + before.nbytes for before, after in pairwise(parts))
    if follow and all(part.is_contiguous() and part.untyped_storage().data_ptr() == storage for part in parts):
        return first.as_strided((sum(map(len, parts)), *first.shape[1:]), first.stride())
    return torch.cat(list(parts))


def _offsets(sizes: Tensor) -> Tensor:
    """Return where runs of these `sizes` ``(clients,)`` begin, one after another, and where the last ends."""
    return torch.nn.functional.pad(sizes.cumsum(0), (1, 0))


def _runs(starts: Tensor, sizes: Tensor) -> Tensor:
    """Return the numbers ``start, ..., start + size - 1`` of each run, int64 ``(total,)``."""
    return torch.arange(int(sizes.sum())) + (starts - _offsets(sizes)[:-1]).repeat_interleave(sizes)


@dataclass
class Block:
    """Clients with the same number of rows, which a task does at once.

    Attributes
    ----------
    ids : Tensor
        int64 ``(clients,)``.
    x : Tensor
        float32 ``(clients, rows, *shape)``; of a file in memory only while the block is at work.
    seeds : list of int
        Seed of each client's generator in this exchange.
    array : ClientArray or None
        The array that they are of; ``None`` of a block `of` one client.
    declined : Tensor
        bool ``(clients,)``, set by a task for those that send nothing; replies are those of the others.
    client : Client or None
        The only client of a block `of` one.
    """

    ids: Tensor
    x: Tensor
    seeds: list[int]
    array: Any = None
    client: Client | None = None

    def __post_init__(self) -> None:
        self.declined = torch.zeros(len(self.ids), dtype=torch.bool)

    @classmethod
    def of(cls, client: Client) -> Block:
        """Return the block of a single client, which draws and keeps what it does by itself."""
        return cls(torch.tensor([client.id]), client.x[None], [], client=client)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def min_members(self) -> int:
        """As of `Client`."""
        least: int = (self.array if self.client is None else self.client).min_members
        return least

    @property
    def rows(self) -> Tensor:
        """Rows of all its clients, ``(clients * rows, *shape)``; of a single client the tensor that it has."""
        return self.x.flatten(0, 1) if self.client is None else self.client.x

    def as_one(self) -> Client:
        """Return one client with the rows of all, which keeps nothing."""
        return Client(int(self.ids[0]), self.rows, min_members=self.min_members)

    def by_client(self, values: Tensor) -> Tensor:
        """Return what belongs to `rows` ``(clients * rows, ...)`` by client, ``(clients, rows, ...)``."""
        shaped: Tensor = values.unflatten(0, self.x.shape[:2])
        return shaped

    def state(self, name: str) -> PerClient:
        """Return what its clients keep under a name; raise KeyError if one of them keeps nothing."""
        place, part = self.array.kept[name]
        if int(place[self.ids].min()) < 0:
            raise KeyError(name)
        kept: PerClient = part.take(place[self.ids])
        return kept

    def keep(self, name: str, values: Tensor | PerClient, places: Tensor | None = None) -> None:
        """Have clients at int64 `places` of the block, by default all, keep their part of `values` from now on."""
        part = values if isinstance(values, PerClient) else PerClient(values)
        if self.client is not None:
            self.client.state[name] = part[0]
        else:
            self.array.written.append((self.ids if places is None else self.ids[places], name, part))

    def rngs(self) -> list[torch.Generator]:
        """Return each client's generator."""
        if self.client is not None:
            return [self.client.rng]
        return [torch.Generator().manual_seed(seed) for seed in self.seeds]

    def rngs_in_turn(self) -> Iterator[torch.Generator]:
        """Yield each client's generator: one object, seeded anew for every client, which is a third of the work."""
        if self.client is not None:
            yield self.client.rng
        rng = torch.Generator()
        yield from (rng.manual_seed(seed) for seed in self.seeds)


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
        self.kept: dict[str, tuple[Tensor, PerClient]] = {}
        """What clients keep, by name, and the place there of each client, -1 of those without it."""
        self.written: list[tuple[Tensor, str, PerClient]] = []
        """What clients are to keep once `settle` is called: their ids, its name, and their parts."""

    def __len__(self) -> int:
        return len(self.sizes)

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self)))

    def __getitem__(self, client: int) -> Client:
        """Return a client, which nothing else knows of: what it is to keep is handed back by `keep_of`."""
        if not 0 <= client < len(self):
            raise KeyError(client)
        x = self.encode(self.rows[int(self.offsets[client]) : int(self.offsets[client + 1])])
        return Client(client, x, state=self.state_of(client), min_members=self.min_members)

    def state_of(self, client: int) -> dict[str, Tensor]:
        """Return what a client keeps."""
        return {name: part[int(place[client])] for name, (place, part) in self.kept.items() if place[client] >= 0}

    def as_one(self) -> Client:
        """Return one client with all rows, not encoded, and with what all clients keep of each of theirs."""
        values = {}
        for name, (place, part) in self.kept.items():
            if int(place.min()) >= 0 and torch.equal(part.sizes[place], self.sizes):
                ordered = part if torch.equal(place, torch.arange(len(place))) else part.take(place)
                values[name] = ordered.values if ordered.offsets is not None else ordered.values.flatten(0, 1)
        return Client(0, self.rows, state=values, min_members=self.min_members)

    def blocks(self, ids: Tensor, seeds: Sequence[int], rows: int) -> Iterator[Block]:
        """Yield `ids` in blocks of up to so many `rows`, of clients with the same number; `seeds` are by id."""
        order = self.sizes[ids].argsort(stable=True)
        counts = self.sizes[ids[order]].unique_consecutive(return_counts=True)
        begun = 0
        for size, count in zip(*(part.tolist() for part in counts), strict=True):
            for places in order[begun : begun + count].split(max(1, rows // size)):
                part = ids[places]
                starts = self.offsets[part]
                first, last = int(starts[0]), int(starts[-1]) + size
                are_beside = last - first == len(part) * size
                x = self.rows[first:last] if are_beside else self.rows[_runs(starts, torch.full_like(part, size))]
                shaped = x.unflatten(0, (len(part), size))
                drawn = [seeds[place] for place in places.tolist()]
                yield Block(part, shaped, drawn, self)
            begun += count

    def keep_of(self, clients: Sequence[Client], before: Sequence[Mapping[str, Tensor]]) -> None:
        """Take over what single clients keep, if it is not what they had `before`."""
        for client, had in zip(clients, before, strict=True):
            changed = {name: value for name, value in client.state.items() if value is not had.get(name)}
            self.written += [(torch.tensor([client.id]), name, PerClient(part[None])) for name, part in changed.items()]

    def settle(self) -> None:
        """Put what clients have kept in this exchange in place of what they kept before."""
        for name in {name for _, name, _ in self.written}:
            parts = [(ids, part) for ids, written, part in self.written if written == name]
            parts.sort(key=lambda part: int(part[0][0]))  # mostly the order of all rows, then
            place = torch.full((len(self),), -1)
            ids = torch.cat([ids for ids, _ in parts])
            place[ids] = torch.arange(len(ids))
            part = PerClient.join([part for _, part in parts])
            if name in self.kept and (others := (place < 0) & (self.kept[name][0] >= 0)).any():
                before = self.kept[name][1].take(self.kept[name][0][others])
                place[others] = len(ids) + torch.arange(len(before))
                part = PerClient.join([part, before])
            self.kept[name] = place, part
        self.written = []


class ArrayReplies(Replies[Payload]):
    """Replies of many clients, which become single ones when asked for.

    `ids` are int64 ``(clients,)`` in order. Of `entries` by name each is a `PerClient`, a tuple with a plain value of
    each client, or anything else, which is the same in every reply.
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
        order = None if bool((ids.diff() > 0).all()) else ids.argsort()
        entries: dict[str, Any] = {}
        for name in list(parts[0].entries) if parts else ():
            several = [part.entries.pop(name) for part in parts]
            whole = several[0]
            if isinstance(whole, PerClient):
                whole = PerClient.join(several)
            elif isinstance(whole, tuple):
                whole = tuple(value for values in several for value in values)
            entries[name] = whole if order is None else _taken(whole, order)
        return cls(ids if order is None else ids[order], entries, missing)

    def take(self, places: Tensor) -> ArrayReplies:
        """Return the replies of the clients at int64 `places`."""
        return ArrayReplies(self.ids[places], {name: _taken(part, places) for name, part in self.entries.items()})

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
        if not isinstance(part, PerClient):
            return list(part) if isinstance(part, tuple) else [part] * len(self)
        if part.are_numbers:
            numbers: list[Any] = part.values.tolist()
            return numbers
        return list(part.values.split(part.sizes.tolist()) if part.offsets is not None else part.values)

    def cat(self, name: str) -> Tensor:
        part: PerClient = self.entries[name]
        return part.values if part.offsets is not None else part.values.flatten(0, 1)

    def owners(self, name: str) -> Tensor:
        return self.ids.repeat_interleave(self.entries[name].sizes)


def _taken(part: Any, places: Tensor) -> Any:
    """Return an entry of the clients at int64 `places`."""
    if isinstance(part, PerClient):
        return part.take(places)
    return tuple(part[place] for place in places.tolist()) if isinstance(part, tuple) else part


def single(entries: Mapping[str, Any], place: int) -> Payload:
    """Return the reply of the client at a `place` among those of `entries`."""
    reply = {}
    for name, part in entries.items():
        part = PerClient(part) if isinstance(part, Tensor) else part
        item = part[place] if isinstance(part, PerClient | tuple) else part
        reply[name] = item.item() if isinstance(part, PerClient) and part.are_numbers else item
    return reply


def block_task(*, pools: bool = False, **declared: Any) -> Callable[[BlockFunction], Task]:
    """As `fedkin.core.client_task`, of a function of a `Block`: clients of one array at once, others one by one.

    With `pools` the function returns the sum of its clients' replies, see `Task.on_pools`.
    """

    def registered(run: BlockFunction) -> Task:
        def of_one(client: Client, payload: Payload) -> Payload:
            block = Block.of(client)
            entries = run(block, payload)
            if block.declined.any():
                return {}
            return dict(entries) if pools else single(entries, 0)

        task = client_task(**declared)(wraps(run)(of_one))
        (task.on_pools if pools else task.on_blocks)(run)
        return task

    return registered


def some_rows(sizes: Sequence[int], most: int) -> list[Tensor]:
    """Return int64 rows of each client, as many clients as `sizes`: at most so many in all, evenly over all rows."""
    rows = torch.linspace(0, sum(sizes) - 1, min(most, sum(sizes)), dtype=torch.float64).round().long()
    ends = torch.tensor([0, *sizes]).cumsum(0)
    return [rows[(rows >= start) & (rows < stop)] - start for start, stop in pairwise(ends)]
