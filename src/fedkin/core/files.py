"""Files that are whole or absent."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedkin.core.errors import FedkinError


def write_atomically(path: Path, content: bytes | str) -> None:
    """Write `content` to a temporary sibling of `path`, then move it into place; parents are made.

    Raises
    ------
    FedkinError
        If the disk is full or the folder cannot be written; nothing half-written is left.
    """
    partial = path.with_name(path.name + ".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with partial.open("wb") as file:
                file.write(content.encode() if isinstance(content, str) else content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)
    except OSError as error:
        raise FedkinError(f"Cannot write {path}: {error.strerror}; nothing half-written was left there.") from error


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Keep other processes that ask the same out, for as long as the context lasts; the system ends it with us.

    Raises
    ------
    FedkinError
        If another process holds `path`.
    """
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FedkinError(f"Another process is at work in {path.parent}; wait for it, or stop it first.") from None
        yield


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
