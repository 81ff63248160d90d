"""Atomic writes, durable appends and file locks."""

from __future__ import annotations

import difflib
import os
import stat
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar

from fedkin.core.errors import FedkinError

T = TypeVar("T")

LOCK = ".fedkin.lock"
"""Lock file of a folder that a process works in."""

_held: ContextVar[frozenset[Path]] = ContextVar("held", default=frozenset())
"""Folders that this thread has locked and may lock again."""


class FileError(FedkinError):
    """Error about a file of this machine; its sentence may contain a path or content, so clients do not send it."""


def write_atomically(path: Path, content: bytes | str) -> None:
    """Write a file atomically: to a temporary file beside it, which then replaces it; missing parents are made.

    Raises FileError if the disk is full or the folder cannot be written; nothing half-written is left.
    """
    partial = path.with_name(path.name + ".partial")
    with _explained(path):
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
        if os.name != "nt":  # Windows flushes a folder's list of files itself
            handle = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn the system's error on writing a file into a FileError; a context manager."""
    try:
        yield
    except OSError as error:
        raise FileError(f"Cannot write {path}: {error.strerror}; nothing half-written was left there.") from error


def write_secret(path: Path, content: bytes) -> None:
    """Write a file atomically that only its owner can read, see `write_atomically`."""
    before = os.umask(0o077)
    try:
        write_atomically(path, content)
    finally:
        os.umask(before)


def make_private(folder: Path) -> None:
    """Make a folder if it is absent, with its parents, and let nobody but its owner into it: mode 0700.

    Errors are left to what is then written there. A folder that all may write to, such as ``/tmp``, keeps its mode.
    """
    with suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not folder.stat().st_mode & stat.S_ISVTX:
            folder.chmod(0o700)


def append_durably(path: Path, text: str) -> None:
    """Append `text` to a file and flush it to disk; the file is made if it is absent.

    A process that is killed meanwhile may leave a part of `text`; one that fails takes its part away again. Raises
    FileError if the disk is full or the file cannot be written.
    """
    content = text.encode()
    check_regular(path)
    with _explained(path), path.open("ab", buffering=0) as file:
        handle, size = file.fileno(), os.fstat(file.fileno()).st_size
        try:
            while content:
                content = content[os.write(handle, content) :]
            os.fsync(handle)
        except OSError:
            file.truncate(size)
            raise


@contextmanager
def file_lock(path: Path, *, waits: bool = False) -> Iterator[None]:
    """Lock `path` against other processes; the system releases the lock when this process ends.

    The file is made if it is absent, and its folder with it, and may be removed afterwards. It holds nothing: Windows
    lets no other process read it meanwhile. Raises FileError if the file cannot be made, or if another process has the
    lock, unless this one `waits` for it.
    """
    from filelock import FileLock, Timeout

    # For a moment a lock is tried for at least: a process that ends removes the file, and it is made anew.
    lock = FileLock(path, timeout=-1 if waits else 0.1, poll_interval=0.02, thread_local=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        raise FileError(f"Another process is at work in {path.parent}; wait for it, or stop it first.") from None
    except OSError as error:
        raise FileError(f"Cannot write {path}: {error.strerror}.") from error
    try:
        yield
    finally:
        lock.release()


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Lock a folder against other processes; it is made if it is absent.

    This thread may lock the folder again meanwhile. Nothing is left afterwards: neither the file ``.fedkin.lock`` nor a
    folder that was made and has stayed empty. Raises FileError if another process is at work there, or it cannot be
    written.
    """
    held, path = _held.get(), folder.resolve()
    if path in held:
        yield
        return
    absent = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        with file_lock(folder / LOCK):
            token = _held.set(held | {path})
            try:
                yield
            finally:
                _held.reset(token)
                # While it is locked: a process that has opened it meanwhile sees that it is gone.
                with suppress(PermissionError):  # of Windows, where the lock removes it when it is released
                    (folder / LOCK).unlink(missing_ok=True)
    finally:
        for each in absent:
            with suppress(OSError):
                each.rmdir()


@contextmanager
def environment(**defaults: str) -> Iterator[None]:
    """Set variables of the environment that the user has not set, for a while; a context manager and decorator."""
    absent = {name: value for name, value in defaults.items() if name not in os.environ}
    os.environ.update(absent)
    try:
        yield
    finally:
        for name in absent:
            os.environ.pop(name, None)


def similar_path(path: Path) -> str:
    """Return a hint for a path that does not exist, such as ``did you mean 'north.csv'?``; empty if none is similar."""
    names: list[str] = []
    with suppress(OSError):  # there is no such folder, or it may not be read
        names = os.listdir(path.parent)
    near = difflib.get_close_matches(path.name, names, n=1, cutoff=0.7)
    return f"did you mean '{path.parent / near[0]}'?" if near else ""


def check_empty(folder: Path, remedy: str = "give another --out") -> None:
    """Check that a folder is absent, or empty but for a lock and half-written files, which a killed process leaves.

    `remedy` ends the error message.
    """
    if folder.exists() and not (
        folder.is_dir() and all(file.suffix == ".partial" or file.name == LOCK for file in folder.iterdir())
    ):
        raise FedkinError(f"{folder} is not an empty folder; {remedy}.")


def check_regular(path: Path) -> None:
    """Raise FileError if a path is a directory, a pipe or a device, from which reading would block."""
    if path.exists() and not path.is_file():
        raise FileError(f"Cannot read {path}: it is no regular file.")


def read_tables(path: Path) -> dict[str, Any]:
    """Return the tables of a TOML file, unchecked; raise FedkinError if it cannot be read."""
    check_regular(path)
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        meant = "" if path.exists() else similar_path(path)
        raise FedkinError(f"Cannot read {path}: {error.strerror}{f'; {meant}' if meant else '.'}") from error
    except ValueError as error:
        raise FedkinError(f"{path} is not a TOML file: {error}.") from error


def read_json(path: Path, kind: type[T], remedy: str = "") -> T:
    """Read a JSON file that fedkin wrote, and check its type.

    `kind` is the type of the content, such as ``dict[str, float]`` or a dataclass of its entries; nothing is converted.
    `remedy` is the consequence of a damaged file, the end of the error message. Raises FileError if it cannot be read,
    is no JSON, or holds anything else.
    """
    from pydantic import TypeAdapter, ValidationError

    check_regular(path)
    try:
        return TypeAdapter(kind).validate_json(path.read_bytes(), strict=True)
    except (OSError, ValidationError) as error:
        raise FileError(f"{path} is not as fedkin wrote it{remedy}.") from error


def room() -> int:
    """Return how many bytes a file may take in memory: half of what the machine has, or 4 GiB on Windows."""
    has_sizes = hasattr(os, "sysconf")
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2 if has_sizes else 1 << 32


def check_room(origin: str, size: int) -> None:
    """Raise FedkinError if a file, `origin`, needs more bytes in memory than there is `room` for."""
    if size > room():
        raise FedkinError(
            f"{origin} needs {size / 1e9:,.0f} GB once unpacked, more than the {room() / 1e9:,.1f} GB that this "
            "machine has for it; give fewer rows or columns, or a machine with more memory."
        )
