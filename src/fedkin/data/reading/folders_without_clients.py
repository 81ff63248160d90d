"""Folders without a file that is read: of tables in other formats, or of folders with files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fedkin.core.errors import listing
from fedkin.core.files import shown_in, stem_of
from fedkin.data.reading.client_files import (
    READERS,
    SPLIT,
    UNREAD_TABLES,
    folders_of_tables,
    held_instead,
    holds_clients,
)
from fedkin.data.reading.dataset_names import expanded

_LIKELY_CLIENTS = (*UNREAD_TABLES, ".csv.zip", ".npy")
_ADVICE = {".npy": "save each as .npz, with an array x, and labels y"}
_ADVICE |= dict.fromkeys((".gz", ".zip", ".bz2", ".xz"), "unpack them")
_ADVICE[".numbers"] = "save their sheets as .xlsx or .csv"
"""What to do with tables that are all there is in a folder, by their suffix."""
_PAPERS = (".md", ".pdf", ".docx")


def only_other_tables(folder: Path, likely: Sequence[str] = _LIKELY_CLIENTS) -> str | None:
    """Return a sentence on a folder of nothing but tables in formats that are not read, else ``None``.

    Their names end like those that are `likely`. ``None``, too, if files are called like splits, as those of a data set
    in Hugging Face layout.
    """
    names = [name for name in sorted(shown_in(folder)) if not name.lower().endswith(_PAPERS)]
    tables = [name for name in names if name.lower().endswith(tuple(likely))]
    if not tables or len(tables) < len(names) or any(map(SPLIT.match, names)):
        return None
    ways = dict.fromkeys(_ADVICE.get(Path(name).suffix.lower(), "save them as .csv or .parquet") for name in tables)
    needed = f"'{folder}' has no {', '.join(READERS)} files; one per client is needed"
    return f"{needed}{held_instead(folder)}; {', or '.join(ways)}."


def only_folders_of_tables(source: str) -> str | None:
    """Return a sentence on a folder that holds no data files itself, but two folders or more that do, else ``None``.

    ``None``, too, for a data set in Hugging Face layout, which has a card or information in JSON, or splits.
    """
    folder, found = expanded(source), folders_of_tables(source)
    names = shown_in(folder)
    has_layout = "data" in names or any(name.endswith((".json", ".arrow")) or name == "README.md" for name in names)
    files = [name for one in found for name in holds_clients(str(folder / one))]
    has_splits = any(map(SPLIT.match, files)) or any(SPLIT.match(f"{name}.") for name in found)
    if len(found) < 2 or has_layout or has_splits or holds_clients(source):
        return None
    one = folder / f"{found[0].rpartition('=')[2]}{files[0].removeprefix(stem_of(files[0]))}"
    return (
        f"'{source}' has no file of a client itself, but folders with some: {listing(found, 3)}; put one file per "
        f"client into one folder, such as '{one}'."
    )
