"""Checksums of the files in a run's folder, which reveal damaged files before they are used.

They are in the form of ``sha256sum``, so that ``sha256sum -c SHA256SUMS`` checks a folder as well.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from fedkin.core import FedkinError
from fedkin.core.files import check_regular, write_atomically

SUMS = "SHA256SUMS"


def write_sums(folder: Path, names: Iterable[str]) -> None:
    """Write the checksums of the files in `folder` that match these names or patterns, replacing earlier ones."""
    paths = sorted({path for name in names for path in folder.glob(name) if path.is_file()})
    lines = [f"{sha256_of(path)}  {path.relative_to(folder).as_posix()}\n" for path in paths]
    write_atomically(folder / SUMS, "".join(lines))


def check_sum(folder: Path, name: str, remedy: str = "") -> None:
    """Check the file `name` in `folder` against its checksum; a file without a checksum, or an absent one, passes.

    `folder` is a run's, or a client's share of one, and `name` the path from there. `remedy` says what to do about a
    damaged file, at the end of the error message. Raises FedkinError if the checksum differs, or the checksums cannot
    be read.
    """
    path, known = folder / name, _sums_of(folder).get(name)
    if known is None or not path.is_file():
        return
    try:
        digest = sha256_of(path)
    except OSError as error:
        raise FedkinError(f"Cannot read {path}: {error.strerror}.") from error
    if digest != known:
        raise FedkinError(f"{path} is damaged: its checksum is not the one in {SUMS}{f'; {remedy}' if remedy else '.'}")


def _sums_of(folder: Path) -> dict[str, str]:
    """Read the checksums by file name; empty without a file of checksums, as in folders of earlier versions."""
    path = folder / SUMS
    check_regular(path)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise _unreadable(path) from error
    found = [re.fullmatch(r"([0-9a-f]{64})  (.+)", line) for line in lines]
    if not all(found):
        raise _unreadable(path)
    return {line[2]: line[1] for line in found if line is not None}


def _unreadable(path: Path) -> FedkinError:
    return FedkinError(f"{path} is damaged; remove it if the other files are known to be whole.")


def sha256_of(path: Path) -> str:
    """Return the SHA-256 digest of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
