"""A site: its data, its private folder, and how it does tasks; independent of the transport.

A site keeps its memory on its own disk, one file per exchange that changed it. A server that was killed resumes from
its last checkpoint and repeats the exchanges after it; the site then starts from the memory it had at that moment and
discards what it wrote since. So resuming is exact, and a site that was killed finds its memory. What it must never
forget, such as the noisy answers it has given, lasts: otherwise a server could repeat a request to get new noise.
"""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fedkin.core import Client, FedkinError, Payload
from fedkin.core.client import LASTING
from fedkin.core.device import on
from fedkin.core.errors import RefusalError
from fedkin.core.files import file_lock, write_secret
from fedkin.core.noise import KEY, Secret
from fedkin.core.seeds import derive_generator
from fedkin.core.table import Table
from fedkin.core.task import known_task
from fedkin.core.trees import load_tree, owned, to_bytes
from fedkin.core.trusted_packages import trusted_packages

_IDENTITY, _KEY, _LASTING_FILE = "identity", "key", "lasting.safetensors"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Request:
    """A server's request to a site, without the payload.

    Attributes
    ----------
    run : str
        Token of the run, lower-case hexadecimal; a site keeps a memory for each.
    client : int
        The site's number in the run.
    seed : int
        Seed of the run.
    exchange : int
        Number of the exchange; counts from 1.
    settled : int
        The exchange that the server's last checkpoint was made after; it never goes back beyond.
    task : str
        Name of the task, ``module.function``.
    classes : list of str
        Names of the classes as the run numbers them; empty where samples are unlabelled.
    """

    run: str
    client: int
    seed: int
    exchange: int
    settled: int
    task: str
    classes: list[str] = field(default_factory=list)

    def to_json(self) -> str:
        """The request as text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Request:
        """The inverse of `to_json`.

        Raises
        ------
        FedkinError
            If the text is no request.
        """
        try:
            request = cls(**json.loads(text))
        except (RecursionError, TypeError, ValueError) as error:
            raise FedkinError("The request is not one of fedkin's.") from error
        if not request._is_typed():
            raise FedkinError("The request is not one of fedkin's.")
        if not re.fullmatch("[0-9a-f]{1,64}", request.run):
            raise FedkinError("The request's run is not a token of hexadecimal digits.")
        return request

    def _is_typed(self) -> bool:
        """Whether all is of its type; numbers become names of files."""
        numbers = (self.client, self.seed, self.exchange, self.settled)
        words = [self.run, self.task, *(self.classes if isinstance(self.classes, list) else [None])]
        return all(type(number) is int and number >= 0 for number in numbers) and all(
            isinstance(word, str) for word in words
        )


@dataclass(frozen=True)
class Site:
    """One site's data and folder.

    Attributes
    ----------
    name : str
        Its name in the federation; names are unique.
    folder : Path
        Its private folder: memory, identity and results. Nobody else writes there.
    x : Tensor
        Samples, see `Client.x`.
    y : Tensor or None
        int64 ``(n,)``, indices into `classes`.
    classes, features : list of str
        Names of the classes and of a table's columns; may be empty.
    begins_with : dict of str to Tensor
        Its memory before the first exchange.
    prepare : callable
        Called with the client whenever its memory has been put back, before a task: what was done to the data and is
        remembered, such as scaling, is done again.
    simulated : bool
        Whether noise follows from the run's seed; at a real site it must not, for the server knows the seed. There it
        follows from a secret, so that the same question always gets the same answer.
    packages : tuple of str or None
        Where tasks, models and features that the server names may come from; ``None`` where all are trusted.
    device : torch.device
        What its networks compute on.
    reserve : callable or None
        Of a site with a privacy budget: whether a run, by its token, may spend so much on it, see `Client.reserve`.
        Then it refuses tasks whose release is not accounted for.
    table : Table or None
        The site's table as it was read; ``None`` where data are no table.
    """

    name: str
    folder: Path
    x: Tensor
    y: Tensor | None = None
    classes: list[str] = field(default_factory=list)
    features: list[str] = field(default_factory=list)
    begins_with: Mapping[str, Tensor] = field(default_factory=dict)
    prepare: Callable[[Client], None] = lambda client: None
    simulated: bool = False
    packages: tuple[str, ...] | None = ("fedkin",)
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    reserve: Callable[[str, float], bool] | None = None
    table: Table | None = None

    @property
    def identity(self) -> str:
        """A random token, made once and kept in the folder; another site of the same name has a different one."""
        path = self.folder / _IDENTITY
        if not path.exists():
            write_secret(path, secrets.token_hex(16).encode())
        return path.read_text()

    def introduction(self, labels: bool) -> Payload:
        """Return what a server needs before a run begins; names of classes only if it needs `labels`.

        With a privacy budget never: a class may be that of a single sample.
        """
        return {
            "name": self.name,
            "identity": self.identity,
            "shape": list(self.x.shape[1:]),
            "features": self.features,
            "classes": self.classes if labels and self.reserve is None else [],
        }

    def answer(self, request: Request, payload: Payload) -> tuple[Payload, float]:
        """Do a task on this site's data: the reply, and the seconds of computing.

        Raises
        ------
        RefusalError
            If the task moves data, releases what a privacy budget does not account for, or does not take this payload.
        FedkinError
            If the task is not known here, or the folder is in use by another process, or cannot be written.
        """
        with trusted_packages(self.packages):
            task = known_task(request.task)
        if task.moves_data and not self.simulated:
            raise RefusalError(f"Task '{task.name}' would have the site's samples sent away, so it is not done here.")
        if self.reserve is not None and not task.accounted:
            raise RefusalError(
                f"Site '{self.name}' has a privacy budget, and task '{task.name}' is not accounted for; "
                "docs/privacy.md says what is."
            )
        if (reason := task.objection(payload)) is not None:
            raise RefusalError(f"Task '{task.name}' is not done with this request: {reason}.")
        with self.memory(request.run) as memory:
            client = memory.recalled(self.client(request), request)
            if not self.simulated:
                client.noise = Secret(memory.key()).about(request.task.encode() + to_bytes(owned(payload)))
            self.prepare(client)
            began = time.thread_time()
            with trusted_packages(self.packages), on(self.device):
                (reply,) = task.run([client], [payload])
            seconds = time.thread_time() - began
            memory.keep(client, request)
        return reply, seconds

    def client(self, request: Request) -> Client:
        """Return the site as the client that a task works on, before the first exchange."""
        rng = derive_generator(request.seed, "client", request.client, request.exchange)
        client = Client(
            request.client, self.x, self._labels(request.classes), dict(self.begins_with), rng, table=self.table
        )
        if self.simulated:
            client.noise = rng
        if self.reserve is not None:
            client.reserve = partial(self.reserve, request.run)
        return client

    def memory(self, run: str) -> Memory:
        """Return the site's memory of a run."""
        return Memory(self.folder / run)

    def _labels(self, classes: Sequence[str]) -> Tensor | None:
        """Labels as the run numbers the classes; ``None`` where it does not ask for any."""
        if self.y is None or not classes:
            return None
        if list(classes) == self.classes:
            return self.y
        index = {name: at for at, name in enumerate(classes)}
        unknown = [name for name in self.classes if name not in index]
        if unknown:
            raise FedkinError(f"Site '{self.name}' has the class '{unknown[0]}', which the run does not know.")
        return self.y.new_tensor([index[name] for name in self.classes])[self.y]


class Memory:
    """A client's private state in a folder, one file ``memory-<exchange>.safetensors`` per exchange that changed it.

    What lasts is in ``lasting.safetensors``. Used as a context, it keeps other processes out meanwhile.

    Parameters
    ----------
    folder : Path
        Folder of one site and one run.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._content = b""

    def __enter__(self) -> Memory:
        with suppress(OSError):  # the lock says what is wrong
            self.folder.mkdir(parents=True, exist_ok=True)
            self.folder.chmod(0o700)
        self._lock = file_lock(self.folder / "lock")
        self._lock.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._lock.__exit__(*error)

    def exchanges(self) -> list[int]:
        """Exchanges that changed it, in order; discarded ones among them."""
        names = (re.fullmatch(r"memory-(\d+)\.safetensors", path.name) for path in self.folder.glob("memory-*"))
        return sorted(int(name[1]) for name in names if name)

    def state(self) -> dict[str, Tensor] | None:
        """The latest state; ``None`` if there is none."""
        kept = self.exchanges()
        return dict(load_tree(self._path(kept[-1]))) | self._lasting() if kept else None

    def key(self) -> bytes:
        """A secret of the site's in this run, made once, that its noise follows from."""
        path = self.folder / _KEY
        if not path.exists():
            write_secret(path, os.urandom(KEY))
        return path.read_bytes()

    def recalled(self, client: Client, request: Request) -> Client:
        """Return `client` with its state before this exchange; later states are deleted, but for what lasts."""
        before = []
        for exchange in self.exchanges():
            if exchange < request.exchange:
                before.append(exchange)
            else:
                self._path(exchange).unlink()
        if before:
            client.state = dict(load_tree(self._path(before[-1])))
            settled = [exchange for exchange in before if exchange <= request.settled]
            for exchange in settled[:-1]:
                self._path(exchange).unlink()
        self._content = to_bytes(owned(client.state)) if before else b""
        client.state |= self._lasting()
        return client

    def keep(self, client: Client, request: Request) -> None:
        """Save the state if the exchange changed it; first what lasts."""
        state, lasting = owned(client.state), {}
        for name in [name for name in state if name.startswith(LASTING)]:
            lasting[name] = state.pop(name)
        if lasting and to_bytes(lasting) != to_bytes(owned(self._lasting())):
            write_secret(self.folder / _LASTING_FILE, to_bytes(lasting))
        if to_bytes(state) != self._content:
            write_secret(self._path(request.exchange), to_bytes(state))

    def _lasting(self) -> dict[str, Tensor]:
        path = self.folder / _LASTING_FILE
        return dict(load_tree(path)) if path.exists() else {}

    def _path(self, exchange: int) -> Path:
        return self.folder / f"memory-{exchange}.safetensors"


class WatchedSites:
    """Clients whose folders this process can see, though others do the work.

    Parameters
    ----------
    clients : dict of int to Client
        Copies, whose state is brought up to date.
    folders : mapping of int to Path
        Folders of the clients' memories.
    prepare : callable
        See `Site`; called with a copy once there is a state.
    """

    def __init__(
        self, clients: dict[int, Client], folders: Mapping[int, Path], prepare: Callable[[Client], None]
    ) -> None:
        self.clients, self.prepare = clients, prepare
        self._memories = {client: Memory(folder) for client, folder in folders.items()}
        self._raw = {client: (one.x, one.y) for client, one in clients.items()}
        self._read: dict[int, int] = {}

    def refresh(self) -> None:
        """Read the states that have changed."""
        for number, client in self.clients.items():
            memory = self._memories[number]
            latest = max(memory.exchanges(), default=0)
            if latest and self._read.get(number) != latest:
                client.state = memory.state() or {}
                client.x, client.y = self._raw[number]
                self.prepare(client)
                self._read[number] = latest
