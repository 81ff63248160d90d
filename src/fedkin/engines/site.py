"""Site of a federation: its policy, data and private folder, and how it runs tasks; independent of the transport."""

from __future__ import annotations

import json
import os
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar

import torch
from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, TypeAdapter
from torch import Tensor

from fedkin.core import Client, FedkinError, Payload, Task
from fedkin.core.client import LASTING, Samples, Table
from fedkin.core.device import on
from fedkin.core.errors import RefusalError, option
from fedkin.core.files import FileError, file_lock, make_private, write_atomically, write_secret
from fedkin.core.payload import is_name, load_tree, owned, to_bytes, with_checksum
from fedkin.core.seeds import KEY, Secret, derive_generator
from fedkin.core.tasks import known_task, run_task, trusted_packages
from fedkin.data.options import MIN_MEMBERS
from fedkin.privacy.budget import Account
from fedkin.secure_aggregation.client_tasks import SiteIdentity, own_public_text

SUMS = "fedkin.secure_aggregation."
"""Begin of the names of a secure sum's own tasks; the task whose replies are summed is checked, too."""


class Policy(BaseModel):
    """Rules of a site, each of which may be absent; the server learns of them by refusals that name the rule alone.

    Attributes
    ----------
    min_members : int or None
        As in the site's file; the stricter of both holds, as it does with what the server asks for.
    messages : list of str or None
        The only tasks that are done, by name, in which a star stands for anything.
    extremes : bool
        If false, no exact minimum and maximum of a column leave, see `fedkin.core.client.Client`.
    epsilon, epsilon_per_run : float or None
        Budget of all runs together, of which the smaller of this and the site's file holds, and that of each run.
    valid_until : date or None
        The last day, in UTC, on which anything is answered.
    """

    model_config = ConfigDict(strict=True, extra="forbid")
    min_members: int | None = Field(default=None, ge=MIN_MEMBERS)
    messages: list[str] | None = None
    extremes: bool = True
    epsilon: PositiveFloat | None = Field(default=None, allow_inf_nan=False)
    epsilon_per_run: PositiveFloat | None = Field(default=None, allow_inf_nan=False)
    valid_until: date | None = None

    def check_day(self) -> None:
        """Raise RefusalError if the policy is over."""
        if self.valid_until is not None and datetime.now(UTC).date() > self.valid_until:
            raise refusal_by("valid_until")

    def check_allowed(self, task: Task) -> None:
        """Raise RefusalError if the task is not to be done at all, also not for a secure sum."""
        patterns = [*(["*"] if self.messages is None else self.messages), f"{SUMS}*"]
        if not any(fnmatchcase(task.name, pattern) for pattern in patterns):
            raise refusal_by("messages")


def refusal_by(rule: str) -> RefusalError:
    """Return the error of a site whose rule of this name forbids something."""
    return RefusalError(f"The site's policy refuses this: {rule}.", public=True)


# What a site is asked, and what it remembers.


@dataclass(frozen=True)
class Request:
    """Request of a server to a site, independent of the transport and without the payload.

    `run` is the token of the run, lower-case hexadecimal; a site keeps a memory for each. `client` is the site's number
    in the run. Exchanges count from 1; `settled` is the one that the server's last checkpoint was made after, beyond
    which it never goes back. `task` is ``module.function``; empty where none is to be done. `classes` are as the run
    numbers them; empty where samples are unlabelled.
    """

    run: Annotated[str, Field(pattern="^[0-9a-f]{1,64}$")]
    client: Annotated[int, Field(ge=0)]
    seed: Annotated[int, Field(ge=0)]
    exchange: Annotated[int, Field(ge=0)]
    settled: Annotated[int, Field(ge=0)]
    task: str
    classes: list[str] = field(default_factory=list)
    __pydantic_config__: ClassVar = ConfigDict(strict=True, extra="forbid")

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Request:
        """Parse a request from JSON; raise FedkinError if the text is no request. Parts become names of files."""
        try:
            request = TypeAdapter(cls).validate_json(text)
            if request.task and not is_name(request.task):
                raise ValueError
        except ValueError as error:
            raise FedkinError("The request is not one of fedkin's.", public=True) from error
        return request


# A site keeps its memory in one file per exchange that changed it. A server that was killed resumes from its last
# checkpoint and repeats the exchanges after it; the site then starts from the memory it had at that moment and
# discards what it wrote since. So resuming is exact, and a site that was killed finds its memory. What it must never
# forget, such as the noisy answers it has given, lasts: otherwise a server could repeat a request to get new noise.


ACCOUNTS = "accounts"
"""Folder beside those of runs, which may be deleted, for what must outlive them."""
_KEY, _LASTING_FILE, _HELD = "key", "lasting.safetensors", "held"


class Memory:
    """Memory of a client between exchanges: one file ``memory-<exchange>.safetensors`` per exchange that changed it.

    The folder is that of one site and one run. What must never be forgotten is elsewhere, so that who deletes the
    folder resets no privacy account: ``key``, from which noise is made, and ``lasting.safetensors``, in
    ``accounts/<run>`` beside it. ``held`` names the exchange that a run ended with. As a context manager it locks out
    other processes.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.account = folder, folder.parent / ACCOUNTS / folder.name
        self._content = b""

    def __enter__(self) -> Memory:
        make_private(self.folder)
        self._lock = file_lock(self.folder / "lock")
        self._lock.__enter__()
        make_private(self.account.parent)
        make_private(self.account)
        return self

    def __exit__(self, *error: Any) -> None:
        self._lock.__exit__(*error)

    def exchanges(self) -> list[int]:
        """Return the exchanges that changed the state, in order, including discarded ones."""
        names = (re.fullmatch(r"memory-(\d+)\.safetensors", path.name) for path in self.folder.glob("memory-*"))
        return sorted(int(name[1]) for name in names if name)

    def state(self) -> dict[str, Tensor] | None:
        """Return the latest state; ``None`` if there is none."""
        exchanges = self.exchanges()
        return dict(load_tree(self._path(exchanges[-1]))) | self._lasting() if exchanges else None

    def hold(self) -> None:
        """Keep the latest state for good, unless one is held already: that which the run has ended with.

        A server that cuts the run again, or forgets a site, begins there, and may do so more than once.
        """
        exchanges = self.exchanges()
        if exchanges and self._held() not in exchanges:
            write_atomically(self.folder / _HELD, str(exchanges[-1]))

    def _held(self) -> int:
        path = self.folder / _HELD
        text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else 0

    def key(self) -> bytes:
        """Return the site's secret key for noise in this run, made once.

        Raises FileError if its file is damaged: from a key that others can guess they know the noise.
        """
        path = self.account / _KEY
        if not path.exists():
            write_secret(path, os.urandom(KEY))
        if len(key := path.read_bytes()) != KEY:
            raise FileError(f"{path} is damaged; put it back, or nothing may leave the site in this run.")
        return key

    def recalled(self, client: Client, request: Request) -> Client:
        """Return `client` with its state before this exchange; later states are deleted, except what must last."""
        exchanges = self.exchanges()
        before = [exchange for exchange in exchanges if exchange < request.exchange]
        if before:
            client.state = dict(load_tree(self._path(before[-1])))
        settled = [exchange for exchange in before if exchange <= request.settled]
        needless = set(settled[:-1]) - {self._held()}  # the server goes back to its last checkpoint at most
        for exchange in needless.union(exchanges[len(before) :]):
            self._path(exchange).unlink()
        self._content = to_bytes(owned(client.state)) if before else b""
        client.state |= self._lasting()
        return client

    def keep(self, client: Client, request: Request) -> None:
        """Save the client's state if the exchange changed it, and before it what must last."""
        state = owned(client.state)
        lasting = {name: state.pop(name) for name in list(state) if name.startswith(LASTING)}
        if lasting and to_bytes(lasting) != to_bytes(owned(self._lasting())):
            write_secret(self.account / _LASTING_FILE, with_checksum(lasting))
        if to_bytes(state) != self._content:
            write_secret(self._path(request.exchange), with_checksum(state))

    def _lasting(self) -> dict[str, Tensor]:
        path = self.account / _LASTING_FILE
        return dict(load_tree(path)) if path.exists() else {}

    def _path(self, exchange: int) -> Path:
        return self.folder / f"memory-{exchange}.safetensors"


class WatchedSites:
    """Copies of clients that run in other processes, updated from the folders of their memories.

    `prepare` is as in `Site`; it is called with a copy once there is a state.
    """

    def __init__(
        self, clients: dict[int, Client], folders: Mapping[int, Path], prepare: Callable[[Client], None]
    ) -> None:
        self.clients, self.prepare = clients, prepare
        self._memories = {client: Memory(folder) for client, folder in folders.items()}
        self._raw = {number: (client.x, client.y) for number, client in clients.items()}
        self._read: dict[int, int] = {}

    def refresh(self) -> None:
        """Load the states that have changed."""
        for number, memory in self._memories.items():
            latest = max(memory.exchanges(), default=0)
            if latest and self._read.get(number) != latest:
                client = self.clients[number]
                client.state = memory.state() or {}
                client.x, client.y = self._raw[number]
                self.prepare(client)
                self._read[number] = latest


_IDENTITY = "identity"
_WHY = "so this client does not run it; a site's own file lists packages that it trusts, in 'packages'"


@dataclass(frozen=True)
class Site:
    """A site's data and private folder, and how it runs tasks on them.

    Names are unique in a federation. The private `folder` has its memory, identity and results; it is made its owner's
    alone, and no one else writes there. Samples `x` are as in `Client`; `y`, int64 ``(n,)``, are indices into
    `classes`, and `features` names of a table's columns; both may be empty. `table` is as it was read; how, `reading`
    says, which is for whoever keeps results.

    Its client has the state `begins_with` before the first exchange. `prepare` is called with the client before a task,
    whenever its state has been loaded, to repeat what the state says was done to the data, such as scaling.

    If it is `simulated`, noise follows from the run's seed; at a real site it must not, for the server knows the seed.
    There it follows from a secret, so that the same question always gets the same answer. From trusted `packages`,
    ``None`` for all, it imports tasks, models and features that the server names. A site with a privacy budget has an
    `account`, and refuses tasks whose release is not accounted for. `key` is the file of the private key that Flower
    authenticates the site's node with, and `listed` are public keys of the only sites that it shares a secure sum
    with, by name; if empty, any site. `min_members` and `samples` are as in `Client`. The `policy` is checked before
    anything leaves.
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
    account: Account | None = None
    table: Table | None = None
    reading: Any = None
    key: Path | None = None
    listed: Mapping[str, str] = field(default_factory=dict)
    min_members: int = 0
    samples: Samples | None = None
    policy: Policy = field(default_factory=Policy)

    @property
    def identity(self) -> str:
        """Random token, made once and kept in the folder, which distinguishes sites of the same name.

        Raises FileError if its file is damaged.
        """
        make_private(self.folder)
        path = self.folder / _IDENTITY
        if not path.exists():
            write_secret(path, secrets.token_hex(16).encode())
        token = path.read_text(encoding="utf-8", errors="replace")
        if not re.fullmatch("[0-9a-f]{32}", token):
            raise FileError(f"{path} is damaged; put it back, or remove it to take part in new runs as another site.")
        return token

    def introduction(self, labels: bool) -> Payload:
        """Return what a server needs to know before a run begins; names of classes only if it asks for `labels`.

        They are never sent under a privacy budget: a class may be that of a single sample. Raises RefusalError if
        the site's policy is over.
        """
        self.policy.check_day()
        return {
            "name": self.name,
            "identity": self.identity,
            "key": own_public_text(self.key) if self.key else "",
            "features": self.features,
            "classes": self.classes if labels and self.account is None else [],
        }

    def answer(self, request: Request, payload: Payload) -> tuple[Payload, float]:
        """Run a task on this site's data; return the reply and the seconds of computing.

        Raises RefusalError if the site's policy forbids the task, the task moves data, releases what a
        privacy budget does not account for, or does not take this payload; FedkinError if it is not known here or fails
        with this payload, or the folder is in use by another process, or cannot be written.
        """
        self.policy.check_day()
        with trusted_packages(self.packages, _WHY, self.policy.check_allowed):
            task = known_task(request.task)
        reason = None
        if task.moves_data and not self.simulated:
            reason = "would have the site's samples sent away, so it is not done here"
        elif self.account is not None and not task.accounted:
            reason = (
                "is not accounted for, and this site has a privacy budget; what is, is kin-graph with epsilon and "
                f"feddp-kmeans, with {option('scaling', 'none')} and columns of complete numbers"
            )
        elif (fault := task.objection(payload)) is not None:
            reason = f"is not done with this request: {fault}"
        if reason is not None:
            raise RefusalError(f"Task '{task.name}' {reason}.", public=True)
        with self.memory(request.run) as memory:
            client = memory.recalled(self.client(request), request)
            if not self.simulated:
                client.noise = Secret(memory.key()).stream_for(request.task.encode() + to_bytes(owned(payload)))
            self.prepare(client)
            began = time.thread_time()
            with trusted_packages(self.packages, _WHY, self.policy.check_allowed), on(self.device):
                (reply,) = run_task(task, [client], [payload])
            seconds = time.thread_time() - began
            memory.keep(client, request)
        return reply, seconds

    def client(self, request: Request) -> Client:
        """Return the client that a task works on, with its state before the first exchange."""
        rng = derive_generator(request.seed, "client", request.client, request.exchange)
        client = Client(
            request.client,
            self.x,
            self._labels(request.classes),
            dict(self.begins_with),
            rng,
            table=self.table,
            min_members=self.min_members,
            extremes=self.policy.extremes,
            samples=self.samples,
        )
        if self.simulated:
            client.noise = rng
        else:
            client.identity = SiteIdentity(request.run, self.key, self.listed)
        if self.account is not None:
            client.reserve = partial(self.account.reserve, request.run)
        return client

    def memory(self, run: str) -> Memory:
        """Return the memory in which the site keeps its state of a run, within its private folder."""
        make_private(self.folder)
        return Memory(self.folder / run)

    def _labels(self, classes: Sequence[str]) -> Tensor | None:
        """Return labels as indices into the run's classes; ``None`` where it does not ask for any.

        Truth values may be called otherwise there. Under a privacy budget there are none: no task that is accounted for
        uses them, and which names are refused would tell those of the site's classes.
        """
        if self.y is None or not classes or self.account is not None:
            return None
        if list(classes) == self.classes:
            return self.y
        index = {name: i for i, name in enumerate(classes)}
        unknown = [name for name in self.classes if name not in index]
        if unknown:
            what = f"Site '{self.name}' has a class that the run does not know"
            raise FedkinError(f"{what}: '{unknown[0]}'.", public=f"{what}.")
        return self.y.new_tensor([index[name] for name in self.classes])[self.y]
