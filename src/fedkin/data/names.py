"""What a source of data is, decided here without reading it; nothing heavy is imported, so that it costs nothing."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Literal

from fedkin.core.client import SampleKind
from fedkin.core.errors import FedkinError, nearest
from fedkin.core.files import similar_path

HUB = "hf:"
"""Before a name on the hub, which nothing else asks for."""

EMBEDDED = {
    "digits": "handwritten digits, 1,797 grey images of 8 x 8, 10 classes",
    "wine": "chemistry of 178 wines, 13 columns, 3 classes",
    "iris": "measures of 150 flowers, 4 columns, 3 classes",
    "breast-cancer": "cell nuclei of 569 biopsies, 30 columns, 2 classes",
    "blobs": "2,000 points in 20 columns around 5 centres, always the same",
}
"""Data sets that need no network and no file, by the name `fedkin.data.sources.load` knows them by."""

WORKBOOKS = (".xlsx", ".xlsm", ".xls")
READ = (".npz", ".csv", ".tsv", ".parquet", *WORKBOOKS)
"""Ends of the names of files that are read; those of text may be compressed, as ``.csv.gz``."""
IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")
KINDS: dict[str, SampleKind] = {
    **dict.fromkeys(IMAGES, "images"), ".txt": "texts", **dict.fromkeys((".wav", ".npy", ".csv"), "series")
}  # fmt: skip
"""What files of these ends hold in a folder with a sample in each."""
SPLIT = re.compile(r"(train|test|valid|validation|dev|eval)([-_.]|ing[-_.])", re.IGNORECASE)


def locate(source: str) -> tuple[Literal["embedded", "file", "folder", "hub"], Path]:
    """Return what a source is and where, without asking the hub; see `fedkin.data.sources.load` for the order.

    Raises FedkinError if no data set has this name and nothing is at this path.
    """
    if source in EMBEDDED:
        return "embedded", Path(source)
    path, name = expanded(source), source.removeprefix(HUB)
    if path.exists() and name == source:
        return ("folder" if path.is_dir() else "file"), path
    root = os.environ.get("FEDKIN_DATA")
    for spelling in (name, name.replace("-", "_")) if root else ():
        if (mirror := expanded(str(root)) / spelling).is_dir():
            return "folder", mirror
    if name == source:
        raise missing(source)
    return "hub", Path(name)


def expanded(source: str) -> Path:
    """Return the path with ``~`` replaced by the home directory; raise FedkinError if there is no such user."""
    try:
        return Path(source).expanduser()
    except RuntimeError as error:
        raise FedkinError(f"'{source}' begins with the home of a user that this machine does not know.") from error


def missing(source: str) -> FedkinError:
    """Return an error for a name or path that does not exist, which suggests the nearest one that does."""
    name = nearest(source, EMBEDDED)
    meant = f"did you mean '{name}'?" if name else similar_path(expanded(source))
    hub = f"a data set of the Hugging Face hub is '{HUB}{source}'."
    return FedkinError(f"'{source}' does not exist, and embedded are {', '.join(EMBEDDED)}; {meant or hub}")


def ending_of(name: str | Path) -> str:
    """Return a file's suffix in small letters; of a compressed file the one before: ``.csv`` of ``a.csv.gz``."""
    path = Path(name)
    return Path(path.stem if path.suffix.lower() == ".gz" else path).suffix.lower()


def stem_of(name: str | Path) -> str:
    """Return a file's name without the suffix, of a compressed file without both: ``a`` of ``a.csv.gz``."""
    path = Path(name)
    return Path(path.stem).stem if path.suffix.lower() == ".gz" else path.stem


# Folders of clients.


def files_in(source: str) -> list[Path]:
    """Return the files of a folder with one per client, in order of name, or its folders of samples.

    Raises FedkinError if it is no folder, or has neither.
    """
    folder = expanded(source)
    if names := _client_files(folder):
        return [folder / name for name in names]
    lacks = f"has no {', '.join(READ)} files" if folder.is_dir() else "is not a folder"
    meant = "" if folder.exists() else similar_path(folder)
    raise FedkinError(f"'{source}' {lacks}; {meant or 'give a folder with a file per client.'}")


def files_of_clients(source: str) -> list[str]:
    """Return the names of clients' files in a folder, or of their folders of samples; empty for any other source.

    Where all are called like splits, as ``train.csv``, they are those of one data set.
    """
    folder = expanded(source)
    names = _client_files(folder) if source not in EMBEDDED else []
    return names if any(not SPLIT.match(name) for name in names) else []


def _client_files(folder: Path) -> list[str]:
    """Return the names of a folder's data files, in order, or, without any, of its two or more folders of samples."""
    names = _shown_in(folder)
    if files := [name for name in names if ending_of(name) in READ and (folder / name).is_file()]:
        return files
    inner = [name for name in names if not SPLIT.match(f"{name}.") and samples_in(folder / name)]
    return inner if len(inner) > 1 else []


def _shown_in(folder: Path) -> list[str]:
    """Return the names in a folder, in order, but hidden ones and those that Excel makes; none if it cannot be read."""
    try:
        return sorted(path.name for path in folder.iterdir() if not path.name.startswith((".", "~$")))
    except OSError:
        return []


def samples_in(folder: Path) -> dict[SampleKind, list[str]]:
    """Return by kind the names of samples in a folder, in order, with their folders where it has folders of them alone.

    A single series is a table.
    """
    names = _shown_in(folder)
    if not any((folder / name).is_file() for name in names):
        names = [f"{inner}/{name}" for inner in names for name in _shown_in(folder / inner)]
    by_kind: dict[SampleKind, list[str]] = {}
    for name in names:
        if kind := KINDS.get(ending_of(name)):
            by_kind.setdefault(kind, []).append(name)
    return {kind: samples for kind, samples in by_kind.items() if kind != "series" or len(samples) > 1}
