"""Names and paths of data sets, looked at without reading them; nothing heavy is imported, so that it costs nothing."""

from __future__ import annotations

import os
import re
from pathlib import Path

from fedkin.core.client import SampleKind
from fedkin.core.errors import FedkinError, listing
from fedkin.core.files import ending_of, shown_in, similar_path

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


def check_source(source: str) -> None:
    """Raise FedkinError if no data set has this name and nothing is at this path; the hub is not asked."""
    if source not in EMBEDDED and not source.startswith(HUB) and below_fedkin_data(source) is None:
        path = expanded(source)
        if not path.exists():
            raise missing(source, path)


def expanded(source: str) -> Path:
    """Return the path with ``~`` replaced by the home directory; raise FedkinError if there is no such user."""
    try:
        return Path(source).expanduser()
    except RuntimeError as error:
        raise FedkinError(f"'{source}' begins with the home of a user that this machine does not know.") from error


def missing(source: str, path: Path) -> FedkinError:
    """Return an error for a name or path that does not exist, which suggests the nearest one that does."""
    root = os.environ.get("FEDKIN_DATA")
    near = similar_path(path, {name: name for name in (*EMBEDDED, *(shown_in(expanded(root)) if root else ()))})
    hub = f"a data set of the Hugging Face hub is '{HUB}{source}'."
    return FedkinError(f"'{source}' does not exist, and embedded are {', '.join(EMBEDDED)}; {near or hub}")


def below_fedkin_data(name: str) -> Path | None:
    """Return the folder of a data set below the directory that ``FEDKIN_DATA`` names, with - or _, if it is there."""
    if not (root := os.environ.get("FEDKIN_DATA")):
        return None
    candidates = [expanded(root) / spelling for spelling in (name, name.replace("-", "_"))]
    return next((path for path in candidates if path.is_dir()), None)


def not_read(source: str, more: str = "") -> FedkinError:
    """Return the error for a file of a kind that is not read; `more` is what may be given beside files that are."""
    suffix = Path(source).suffix
    advice = "; call it .csv, if it is text" if suffix in (".txt", ".dat", ".data") else "; read it with pandas"
    return FedkinError(f"'{source}' is a {suffix or 'nameless'} file; allowed: {', '.join(READ)}{more}{advice}.")


def files_in(source: str) -> list[Path]:
    """Return the files of a folder with one per client, in order of name, or its folders of samples.

    Raises FedkinError if it is no folder, or has neither.
    """
    folder = expanded(source)
    if not folder.is_dir():
        advice = f"give one with a file ({', '.join(READ)}) per client."
        meant = "" if folder.exists() else similar_path(folder)
        raise FedkinError(f"'{source}' is {'a file and ' if folder.is_file() else ''}not a folder; {meant or advice}")
    names = holds_clients(source) or folders_of_samples(folder)
    if not names:
        holds = listing(sorted(shown_in(folder)), 3) or "nothing"
        raise FedkinError(f"'{source}' has no {', '.join(READ)} files; one per client is needed, and it holds {holds}.")
    return [folder / name for name in names]


def holds_clients(source: str) -> list[str]:
    """Return the names of data files directly in a folder, each perhaps one client's; empty if there is no folder."""
    folder = expanded(source)
    names = shown_in(folder) if folder.is_dir() else []
    return sorted(name for name in names if ending_of(name) in READ and (folder / name).is_file())


def files_of_clients(source: str) -> list[str]:
    """Return the names of clients' files in a folder, or of their folders of samples.

    There are none in data sets that are embedded, on the hub, or have splits.
    """
    if source in EMBEDDED or source.startswith(HUB):
        return []
    names = holds_clients(source) or folders_of_samples(source)
    return names if any(not SPLIT.match(name) for name in names) else []


def samples_in(folder: Path) -> dict[SampleKind, list[str]]:
    """Return by kind the names of samples in a folder, in order, with their folders where it has folders of them alone.

    A single series is a table.
    """
    names = sorted(shown_in(folder))
    if not any((folder / name).is_file() for name in names):
        names = [f"{inner}/{name}" for inner in names for name in sorted(shown_in(folder / inner))]
    by_kind: dict[SampleKind, list[str]] = {}
    for name in names:
        if kind := KINDS.get(ending_of(name)):
            by_kind.setdefault(kind, []).append(name)
    return {kind: samples for kind, samples in by_kind.items() if kind != "series" or len(samples) > 1}


def folders_of_samples(source: str | Path) -> list[str]:
    """Return the subfolders of a folder without data files that hold samples, two or more of them, else none."""
    folder = expanded(str(source))
    if not folder.is_dir() or holds_clients(str(source)):
        return []
    inner = [name for name in sorted(shown_in(folder)) if (folder / name).is_dir() and not SPLIT.match(f"{name}.")]
    folders = [name for name in inner if samples_in(folder / name)]
    return folders if len(folders) > 1 else []
