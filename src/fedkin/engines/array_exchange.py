"""Exchange with clients of one array: a task does them a block at a time, and no reply is made for any of them."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from fedkin.core import FedkinError, Payload, Task
from fedkin.core.client_array import Block, BlockFunction, ClientArray, PerClient, ReplyArrays, single
from fedkin.core.federation import Replies
from fedkin.core.payload import payload_bytes
from fedkin.core.replies import Expected, Failure, extremes
from fedkin.core.seeds import derive_seeds

_DECLINED = Failure("declined", "its privacy budget allows it to send nothing")


def shared_payload(payloads: Mapping[int, Payload]) -> Payload | None:
    """Return the payload that all clients share; ``None`` if there is none."""
    first = next(iter(payloads.values()), None)
    return first if all(payload is first for payload in payloads.values()) else None


class ArrayExchange:
    """One exchange of a local federation with clients of one array, all sent the same payload."""

    def __init__(self, fed: Any, task: Task, payload: Payload, clients: Collection[int]) -> None:
        self.fed, self.task, self.payload = fed, task, payload
        self.clients: ClientArray = fed.clients
        fed.exchange += 1
        present = sorted(filter(fed.participation.has, clients))
        self.missing: dict[int, str] = dict.fromkeys(sorted(set(clients).difference(present)), "not there yet")
        self.missing |= {client: "lost on purpose" for client in present if fed.is_lost(client)}
        self.ids = torch.tensor([client for client in present if client not in self.missing], dtype=torch.int64)
        fed.requested += len(present)
        fed.traffic.sent += payload_bytes(payload) * len(present)

    def ask(self, expected: Expected | None) -> Replies[Payload]:
        """Return the usable replies."""
        if (reason := self.task.objection(self.payload)) is not None:
            raise FedkinError(f"Clients refuse task '{self.task.name}': {reason}.")
        parts = [self._usable(*replied, expected) for replied in self._replied(self.task.block[0])]
        arrays = ReplyArrays.join([part for part in parts if len(part)])
        self.fed.usable += len(arrays)
        self._end()
        return Replies(arrays, self.fed.missing)

    def pools(self, missing: dict[int, str]) -> Iterator[tuple[list[int], Payload]]:
        """Yield the clients of each block with their common reply; put into `missing` who is in none."""
        for ids, reply in self._replied(self.task.pool[0]):
            if len(ids):
                self.fed.traffic.received += payload_bytes(reply) * len(ids)
                self.fed.usable += len(ids)
                yield ids.tolist(), reply
        self._end()
        missing.update(self.missing)

    def _end(self) -> None:
        self.clients.settle()
        self.fed.note_missing(self.missing)

    def _replied(self, run: BlockFunction) -> Iterator[tuple[Tensor, dict[str, Any]]]:
        """Yield the clients of each block, in any order of these, and the entries of their replies."""

        def work(block: Block) -> tuple[dict[str, Any], float]:
            began = time.thread_time()
            entries = dict(run(block, self.payload))
            self.clients.keep(block.kept)
            return entries, time.thread_time() - began

        seeds = derive_seeds(self.fed.seed, "client", self.ids.numpy(), self.fed.exchange)
        replied = 0
        # With 64 numbers in each row 4 MB, which two cores' caches about hold beside what is computed of them.
        blocks = self.clients.blocks(self.ids, seeds, rows=2**14)
        for block, (entries, seconds) in self.fed.in_order(work, blocks):
            self.fed.seconds += seconds
            replied += len(block)
            if self.fed.on_progress:
                self.fed.on_progress(replied, len(self.ids))
            self.missing |= dict.fromkeys(block.ids[block.declined].tolist(), _DECLINED)
            yield block.ids[~block.declined], entries

    def _usable(self, ids: Tensor, entries: dict[str, Any], expected: Expected | None) -> ReplyArrays:
        """Count and check the replies of a block; return the usable ones."""
        entries = {name: PerClient(part) if isinstance(part, Tensor) else part for name, part in entries.items()}
        replies = ReplyArrays(ids, entries)
        if not len(ids):
            return replies
        self.fed.traffic.received += _bytes_of(entries, len(ids))
        if self.task.refusal(single(entries, 0), expected) is None and all(map(_is_small, entries.values())):
            return replies  # blocks have replies of one form, which the first one shows
        reasons = [self.task.refusal(single(entries, place), expected) for place in range(len(ids))]
        self.missing |= {i: reason for i, reason in zip(ids.tolist(), reasons, strict=True) if reason is not None}
        return replies.take(torch.tensor([reason is None for reason in reasons]).nonzero()[:, 0])


def _is_small(entry: Any) -> bool:
    """Return whether an entry needs no closer look: its numbers are finite, and none is near a bound of replies."""
    if not isinstance(entry, PerClient) or not entry.values.is_floating_point() or not entry.values.numel():
        return True
    lowest, highest = extremes(entry.values)
    return lowest >= -1e10 and highest <= 1e10  # the least bound of `fedkin.core.replies`; beyond, each is looked at


def _bytes_of(entries: Mapping[str, Any], clients: int) -> int:
    """Return the size of all replies when sent, as `payload_bytes` counts them."""
    total = payload_bytes(single(entries, 0)) * clients
    for entry in entries.values():
        if isinstance(entry, PerClient) and not entry.are_numbers:
            total += entry.values.nbytes - clients * entry[0].nbytes
        elif isinstance(entry, PerClient):  # as texts, of which each is made once
            numbers, counts = (part.tolist() for part in entry.values.unique(return_counts=True))
            digits = sum(len(str(number)) * count for number, count in zip(numbers, counts, strict=True))
            total += digits - clients * len(str(entry.values[0].item()))
        elif isinstance(entry, tuple):
            total += sum(map(len, map(json.dumps, entry))) - clients * len(json.dumps(entry[0]))
    return total
