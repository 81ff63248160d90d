"""One client of a federation, as a task sees it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

import torch
from torch import Tensor

from fedkin.core.seeds import Noise, Secret
from fedkin.core.table import Samples, Table

LASTING = "lasting_"
"""Prefix of names in a client's state that stay even when a run resumes from an earlier step."""


class Identity(Protocol):
    """Signing identity of a client: signs its keys for secure sums and checks the signatures of other clients."""

    def sign(self, key: bytes) -> dict[str, str]:
        """Return a signature of a public key, which proves that the key is this client's."""

    def objection(self, client: int, keys: Mapping[int, bytes], signed: Mapping[int, Mapping[str, str]]) -> str | None:
        """Return why a client of this id refuses a secure sum with these public keys; ``None`` if it accepts them."""


@dataclass
class Client:
    """A client's data and its private memory.

    Attributes
    ----------
    id : int
        Stable number of the client, ``0..n-1``; never a transport's node id.
    x : Tensor
        float32, ``(n, features)`` or ``(n, channels, height, width)``. Of a table, what its columns are encoded as;
        until it is prepared, `Table.values`.
    y : Tensor or None
        int64 ``(n,)`` labels the client itself holds and may use; ``None`` where data are unlabelled.
    state : dict of str to Tensor
        What tasks remember between exchanges; it never leaves the client. A run that resumes from an earlier step
        restores it, except names that begin with ``lasting_``, such as privacy accounts.
    rng : torch.Generator
        Derived by the engine for every exchange from (run seed, client id, exchange number).
    noise : Secret or torch.Generator
        Noise that stays secret from the server, which knows the seed; see `fedkin.core.seeds`. The local engine uses
        `rng`, since nothing is secret inside one process and runs must be reproducible.
    secret : callable
        Returns so many bytes that nobody else can guess; the local engine derives them from the seed.
    reserve : callable
        Called with mu of Gaussian differential privacy: whether a run may spend it over all exchanges with the client.
        A client with a budget records what it allows; a client without one allows everything.
    table : Table or None
        The client's table as it was read, in original units; ``None`` where data are no table with named columns.
    min_members : int
        Samples below which it reports no category, cell of a cluster or micro-cluster of its data, where the server
        asks for less; 0 if it leaves that to the server.
    identity : Identity or None
        Signing identity of a client in a real federation, see `fedkin.secure_aggregation.client_tasks`.
    samples : Samples or None
        The images, texts or series that `x` are embeddings of; ``None`` where data are numbers.
    """

    id: int
    x: Tensor
    y: Tensor | None = None
    state: dict[str, Tensor] = field(default_factory=dict)
    rng: torch.Generator = field(default_factory=torch.Generator, repr=False)
    noise: Noise = field(default_factory=Secret, repr=False)
    secret: Callable[[int], bytes] = field(default=os.urandom, repr=False)
    reserve: Callable[[float], bool] = field(default=lambda mu: True, repr=False)
    table: Table | None = field(default=None, repr=False)
    identity: Identity | None = field(default=None, repr=False)
    min_members: int = 0
    samples: Samples | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.x)

    def rows(self, index: Tensor) -> Client:
        """Return the same client with only the samples at int64 `index`."""
        y, table = None if self.y is None else self.y[index], None if self.table is None else self.table.rows(index)
        samples = None if self.samples is None else self.samples.rows(index)
        return replace(self, x=self.x[index], y=y, table=table, samples=samples)

    @classmethod
    def unseen(cls, x: Tensor, y: Tensor | None, rng: torch.Generator) -> Client:
        """Return a client outside of any federation; `rng` draws its noise, too, so that it is reproducible."""
        return cls(0, x, y, rng=rng, noise=rng)
