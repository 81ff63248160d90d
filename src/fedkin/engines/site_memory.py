"""Memory of a client between exchanges, on the disk of the machine it runs on.

A site keeps its memory in one file per exchange that changed it. A server that was killed resumes from its last
checkpoint and repeats the exchanges after it; the site then starts from the memory it had at that moment and discards
what it wrote since. So resuming is exact, and a site that was killed finds its memory. What it must never forget, such
as the noisy answers it has given, lasts: otherwise a server could repeat a request to get new noise.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from fedkin.core import Client
from fedkin.core.client import LASTING
from fedkin.core.files import FileError, file_lock, make_private, write_atomically, write_secret
from fedkin.core.noise import KEY
from fedkin.core.trees import load_tree, owned, to_bytes, with_checksum
from fedkin.engines.site_request import Request

ACCOUNTS = "accounts"
"""Folder beside those of runs, which may be deleted, for what must outlive them."""
_KEY, _LASTING_FILE, _HELD = "key", "lasting.safetensors", "held"


class Memory:
    """Private state of a client in a folder, one file ``memory-<exchange>.safetensors`` per exchange that changed it.

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
        for name in (_KEY, _LASTING_FILE):  # earlier versions had them in the run's folder
            if (self.folder / name).exists() and not (self.account / name).exists():
                os.replace(self.folder / name, self.account / name)
        return self

    def __exit__(self, *error: Any) -> None:
        self._lock.__exit__(*error)

    def exchanges(self) -> list[int]:
        """Return the exchanges that changed the state, in order, including discarded ones."""
        names = (re.fullmatch(r"memory-(\d+)\.safetensors", path.name) for path in self.folder.glob("memory-*"))
        return sorted(int(name[1]) for name in names if name)

    def state(self) -> dict[str, Tensor] | None:
        """Return the latest state; ``None`` if there is none."""
        kept = self.exchanges()
        return dict(load_tree(self._path(kept[-1]))) | self._lasting() if kept else None

    def hold(self) -> None:
        """Keep the latest state for good, unless one is held already: that which the run has ended with.

        A server that cuts the run again, or forgets a site, begins there, and may do so more than once.
        """
        kept = self.exchanges()
        if kept and self._held() not in kept:
            write_atomically(self.folder / _HELD, str(kept[-1]))

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
        key = path.read_bytes()
        if len(key) != KEY:
            raise FileError(f"{path} is damaged; put it back, or nothing may leave the site in this run.")
        return key

    def recalled(self, client: Client, request: Request) -> Client:
        """Return `client` with its state before this exchange; later states are deleted, except what must last."""
        before = []
        for exchange in self.exchanges():
            if exchange < request.exchange:
                before.append(exchange)
            else:
                self._path(exchange).unlink()
        if before:
            client.state = dict(load_tree(self._path(before[-1])))
            settled = [exchange for exchange in before if exchange <= request.settled]
            for exchange in set(settled[:-1]).difference({self._held()}):
                self._path(exchange).unlink()
        self._content = to_bytes(owned(client.state)) if before else b""
        client.state |= self._lasting()
        return client

    def keep(self, client: Client, request: Request) -> None:
        """Save the client's state if the exchange changed it, and before it what must last."""
        state, lasting = owned(client.state), {}
        for name in [name for name in state if name.startswith(LASTING)]:
            lasting[name] = state.pop(name)
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
        self._raw = {client: (one.x, one.y) for client, one in clients.items()}
        self._read: dict[int, int] = {}

    def refresh(self) -> None:
        """Load the states that have changed."""
        for number, client in self.clients.items():
            memory = self._memories[number]
            latest = max(memory.exchanges(), default=0)
            if latest and self._read.get(number) != latest:
                client.state = memory.state() or {}
                client.x, client.y = self._raw[number]
                self.prepare(client)
                self._read[number] = latest
