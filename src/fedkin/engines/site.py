"""Site of a federation: its data, its private folder, and how it runs tasks; independent of the transport."""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fedkin.core import Client, FedkinError, Payload
from fedkin.core.contract import carried_out
from fedkin.core.device import on
from fedkin.core.errors import RefusalError
from fedkin.core.files import FileError, make_private, write_secret
from fedkin.core.noise import Secret
from fedkin.core.refusals import failed_there
from fedkin.core.seeds import derive_generator
from fedkin.core.table import Table
from fedkin.core.tasks import Task, known_task
from fedkin.core.trees import owned, to_bytes
from fedkin.core.trusted_packages import trusted_packages
from fedkin.data.reading.asked_columns import check_asked
from fedkin.data.reading.label_codes import as_called
from fedkin.data.reading.table_options import TableOptions
from fedkin.engines.site_memory import Memory
from fedkin.engines.site_request import Request
from fedkin.secure_aggregation.signatures import SiteIdentity, own_public_text

_IDENTITY = "identity"
_WHY = "so this client does not run it; a site's own file lists packages that it trusts, in 'packages'"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Site:
    """A site's data and private folder, and how it runs tasks on them.

    Names are unique in a federation. The private `folder` has its memory, identity and results; it is made its owner's
    alone, and no one else writes there. Samples `x` are as in `Client`; `y`, int64 ``(n,)``, are indices into
    `classes`, and `features` names of a table's columns; both may be empty. `table` is as it was read, as `reading`
    says.

    Its client has the state `begins_with` before the first exchange. `prepare` is called with the client before a task,
    whenever its state has been loaded, to repeat what the state says was done to the data, such as scaling.

    If it is `simulated`, noise follows from the run's seed; at a real site it must not, for the server knows the seed.
    There it follows from a secret, so that the same question always gets the same answer. From trusted `packages`,
    ``None`` for all, it imports tasks, models and features that the server names. `reserve` is for a site with a
    privacy budget: called with a run's token and mu, whether the run may spend it, see `Client.reserve`; the site then
    refuses tasks whose release is not accounted for. `key` is the file of the private key that Flower authenticates the
    site's node with, and `listed` are public keys of the only sites that it shares a secure sum with, by name; if
    empty, any site. `lacks` is called with what an experiment says of columns, and returns lines that the site's own
    file lacks to agree with it, see `fedkin.data.reading.asked_columns.lines_lacking`. `min_members` is as in `Client`.
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
    reading: TableOptions = field(default_factory=TableOptions)
    key: Path | None = None
    listed: Mapping[str, str] = field(default_factory=dict)
    lacks: Callable[[Mapping[str, Any]], list[str]] = lambda asked: []
    min_members: int = 0

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

    def introduction(self, labels: bool, asked: Mapping[str, Any] | None = None) -> Payload:
        """Return what a server needs to know before a run begins; names of classes only if it asks for `labels`.

        They are never sent under a privacy budget: a class may be that of a single sample. `asked` is what the
        experiment says of columns; it never changes how the site reads them. Raises FedkinError if the site's own file
        is ignorant of it.
        """
        check_asked(self.lacks(asked or {}), self.name)
        return {
            "name": self.name,
            "identity": self.identity,
            "key": own_public_text(self.key) if self.key else "",
            "shape": list(self.x.shape[1:]),
            "features": self.features,
            "classes": self.classes if labels and self.reserve is None else [],
        }

    def answer(self, request: Request, payload: Payload) -> tuple[Payload, float]:
        """Run a task on this site's data; return the reply and the seconds of computing.

        Raises RefusalError if the task moves data, releases what a privacy budget does not account for, or does not
        take this payload; FedkinError if it is not known here or fails with this payload, or the folder is in use by
        another process, or cannot be written.
        """
        with trusted_packages(self.packages, _WHY):
            task = known_task(request.task)
        if task.moves_data and not self.simulated:
            raise RefusalError(
                f"Task '{task.name}' would have the site's samples sent away, so it is not done here.",
                public=True,
            )
        if self.reserve is not None and not task.accounted:
            raise RefusalError(
                f"Site '{self.name}' has a privacy budget, and task '{task.name}' is not accounted for; what is, is "
                "kin-graph with epsilon and feddp-kmeans, with data.scaling = 'none' and columns of complete numbers.",
                public=True,
            )
        if (reason := task.objection(payload)) is not None:
            raise RefusalError(f"Task '{task.name}' is not done with this request: {reason}.", public=True)
        with self.memory(request.run) as memory:
            client = memory.recalled(self.client(request), request)
            if not self.simulated:
                client.noise = Secret(memory.key()).about(request.task.encode() + to_bytes(owned(payload)))
            self.prepare(client)
            began = time.thread_time()
            with trusted_packages(self.packages, _WHY), on(self.device):
                reply = _done(task, client, payload)
            seconds = time.thread_time() - began
            memory.keep(client, request)
        return reply, seconds

    def client(self, request: Request) -> Client:
        """Return the client that a task works on, with its state before the first exchange."""
        rng = derive_generator(request.seed, "client", request.client, request.exchange)
        client = Client(
            request.client, self.x, self._labels(request.classes), dict(self.begins_with), rng, table=self.table
        )
        client.min_members = self.min_members
        if self.simulated:
            client.noise = rng
        else:
            client.identity = SiteIdentity(request.run, self.key, self.listed)
        if self.reserve is not None:
            client.reserve = partial(self.reserve, request.run)
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
        if self.y is None or not classes or self.reserve is not None:
            return None
        if list(classes) == self.classes:
            return self.y
        index, called = {name: at for at, name in enumerate(classes)}, as_called(self.classes, classes)
        unknown = [name for name in called if name not in index]
        if unknown:
            what = f"Site '{self.name}' has a class that the run does not know"
            raise FedkinError(f"{what}: '{unknown[0]}'.", public=f"{what}.")
        return self.y.new_tensor([index[name] for name in called])[self.y]


def _done(task: Task, client: Client, payload: Payload) -> Payload:
    """Run a task whose payload has the right form; an error is reported without details, which may hold samples."""
    try:
        (reply,) = carried_out(task, [client], [payload])
    except FedkinError:
        raise
    except Exception as error:  # its message may hold samples, so that it stays in the site's log
        _log.exception("fedkin: Task '%s' could not be done", task.name)
        raise FedkinError(failed_there(error), public=True) from error
    return reply
