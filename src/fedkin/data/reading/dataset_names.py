"""Names and paths of data sets, checked without reading them; nothing heavy is imported, so that it costs nothing."""

from __future__ import annotations

import os
from pathlib import Path

from fedkin.core.errors import FedkinError
from fedkin.core.files import shown_in, similar_path

HUB = "hf:"
"""Before a name on the hub, which nothing else asks for."""

EMBEDDED = {
    "digits": "handwritten digits, 1,797 grey images of 8 x 8, 10 classes",
    "wine": "chemistry of 178 wines, 13 columns, 3 classes",
    "iris": "measures of 150 flowers, 4 columns, 3 classes",
    "breast-cancer": "cell nuclei of 569 biopsies, 30 columns, 2 classes",
    "blobs": "2,000 points in 20 columns around 5 centres, always the same",
}
"""Data sets that need no network and no file, by the name `fedkin.data.reading.sources.load` knows them by."""


def check_source(source: str) -> None:
    """Raise FedkinError if no data set has this name and nothing is at this path; the hub is not asked."""
    if source in EMBEDDED or source.startswith(HUB) or below_fedkin_data(source) is not None:
        return
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
    if path.suffix or path.is_absolute() or source.startswith((".", "~")) or source.count("/") > 1:
        wanted = near or "give a file, a directory or the name of a data set."
        return FedkinError(f"'{source}' does not exist; {wanted}")
    places = f"neither embedded ({', '.join(EMBEDDED)}) nor a path nor below FEDKIN_DATA"
    hub = f"data set of the Hugging Face hub is asked for by 'hf:{source}'."
    return FedkinError(f"'{source}' is {places}; {f'{near} A {hub}' if near else f'a {hub}'}")


def below_fedkin_data(name: str) -> Path | None:
    """Return the folder of a data set below the directory that ``FEDKIN_DATA`` names, if it is there."""
    root = os.environ.get("FEDKIN_DATA")
    if not root:
        return None
    candidates = [expanded(root) / spelling for spelling in (name, name.replace("-", "_"))]
    return next((path for path in candidates if path.is_dir()), None)
