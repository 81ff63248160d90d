"""Reading of files of samples: single files, and folders with one file per client."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedkin.core.errors import FedkinError, listing, raised_by
from fedkin.core.files import HIDDEN, ending_of, shown_in, similar_path
from fedkin.core.replies import check_same_shape
from fedkin.data.reading.alike_clients import said_once
from fedkin.data.reading.arrays import as_dataset, read_npz
from fedkin.data.reading.dataset import Dataset, in_order
from fedkin.data.reading.dataset_names import EMBEDDED, HUB, expanded, missing
from fedkin.data.reading.huggingface import IMAGES, decode_images
from fedkin.data.reading.image_ranges import mixed_images
from fedkin.data.reading.label_columns import no_labels_after_all
from fedkin.data.reading.table_errors import ClientsError, ReadSoFar, TableError, problems_of
from fedkin.data.reading.table_options import NO_OPTIONS, TableOptions
from fedkin.data.reading.tables import read_table
from fedkin.data.reading.workbook import WORKBOOKS

READERS = {".npz": read_npz, **dict.fromkeys((".csv", ".tsv", ".parquet", *WORKBOOKS), read_table)}
"""Functions that read a file, by its suffix."""

SPLIT = re.compile(r"(train|test|valid|validation|dev|eval)([-_.]|ing[-_.])", re.IGNORECASE)
OTHER_TABLES = (
    ".txt", ".dat", ".data", ".dta", ".sav", ".feather", ".numbers", ".xlsb", ".json", ".jsonl", ".gz", ".zip"
)  # fmt: skip
"""Ends of the names of files that could be tables, in formats that are not read."""
_ADVICE = {
    (".txt", ".data", ".dat"): "; call it .csv, if it is text",
    (".numbers", ".xlsb"): "; save its sheet as .xlsx or .csv",
    (".npy",): "; save it as .npz, with an array x, and labels y",
    (".gz", ".zip", ".bz2", ".xz"): "; unpack it",
}
_WITH_PANDAS = "; read it with pandas, and give its DataFrame or save it as .parquet"
"""What to do with a table of a kind that is not read, by its suffix."""


def load_clients(
    source: str | Path | Sequence[Any] | Mapping[str, Any],
    label: str | None = None,
    options: TableOptions = NO_OPTIONS,
) -> list[Dataset]:
    """Load one data set per client, with class indices that mean the same at all of them.

    Columns of tables may differ from client to client, in their order, too; arrays are all of one shape.

    Parameters
    ----------
    source : str, Path, sequence or mapping
        A folder with ``.npz``, ``.csv``, ``.tsv`` and ``.parquet`` files, those of text perhaps compressed, as
        ``.csv.gz``, and workbooks such as ``.xlsx``, taken in order of file name; others are
        ignored, but tables in other formats are refused; or the data of each client, in order or by the client's name:
        the path of a file, a DataFrame, or an array as `fedkin.data.reading.arrays.as_tensor` takes it.
    label : str, optional
        The column or array of labels of every client, or "none". Without it, a column of a usual name that can
        hold labels is taken for them, see `fedkin.data.reading.label_columns`.
    options : TableOptions, optional
        Options for reading the columns of all clients.

    Raises
    ------
    FedkinError
        If there is no client, or any cannot be used, with a line for each problem of each client; if arrays differ in
        shape, or some clients have tables and others arrays; or if no client has a column that `options` name.
    """
    clients: list[Dataset] = []
    problems: list[str] = []
    read: dict[str, ReadSoFar] = {}
    source = list(source) if isinstance(source, Iterator) else source  # which can be read only once
    complete = True
    for name, where, given in _listed(source):
        try:
            if isinstance(given, Path) and given.is_dir() and _images_in(given):
                clients.append(_read_images(given))
            elif isinstance(given, str | Path):
                clients.append(replace(read_file(expanded(str(given)), label, None, options), name=name))
            else:
                clients.append(as_dataset(given, name, where, label, options))
            if clients[-1].table is not None:
                read[name] = ReadSoFar(clients[-1].table, left_out=clients[-1].left_out)
        except TableError as error:
            problems += error.problems
            read[name] = error.read
        except FedkinError as error:
            problems += problems_of(error)
            complete = False
    problems += _at_odds(clients, read, options, label, complete)
    if problems:
        raise ClientsError(_with_advice(said_once(problems), clients, label), read)
    if label is None and (features := no_labels_after_all(clients)):
        return load_clients(source, None, replace(options, features=[*options.features, *features]))
    classes = in_order(name for client in clients for name in client.classes)
    return [client.with_classes(classes) for client in clients]


def _at_odds(
    clients: Sequence[Dataset], read: Mapping[str, ReadSoFar], options: TableOptions, label: str | None, complete: bool
) -> list[str]:
    """Return a sentence for each contradiction among clients, or between their tables and the options.

    What options name is looked for only where the names of all columns are known.
    """
    arrays = {_called(one.name): tuple(one.x.shape[1:]) for one in clients if one.table is None}
    problems = _mixed(list(read), list(arrays)) + raised_by(check_same_shape, arrays)
    problems += mixed_images({_called(one.name): one.x for one in clients if one.table is None and one.x.ndim == 4})
    names = {name for one in read.values() for name in one.names}
    return problems + (options.unknown({*names, *([label] if label is not None else [])}) if complete else [])


def _with_advice(problems: list[str], clients: Sequence[Dataset], label: str | None) -> list[str]:
    """Return the problems, and what to do about clients without labels where `clients` have them."""
    with_labels = sum(label is not None and client.label == label for client in clients)
    if not with_labels or not any(f" no column '{label}';" in problem for problem in problems):
        return problems
    have = "1 client has" if with_labels == 1 else f"{with_labels} clients have"
    return [*problems, f"Every client needs labels, or none; {have} some, so leave out those without, or the labels."]


def _listed(source: str | Path | Sequence[Any] | Mapping[str, Any]) -> list[tuple[str, str, Any]]:
    """Return the name, the name for error messages, and the data or path of each client."""
    if isinstance(source, str | Path):
        paths = _files_in(str(source))
        return [(path.name, f"'{path}'", path) for path in paths]
    if isinstance(source, Mapping):
        listed = [(str(name), f"Client '{name}'", given) for name, given in source.items()]
    else:
        files = Counter(Path(given).name for given in source if isinstance(given, str | Path))
        listed = [_named(i, given, files) for i, given in enumerate(source)]
    if not listed:
        raise FedkinError("The list of clients is empty; at least one is needed.")
    return listed


def _named(at: int, given: Any, files: Counter[str]) -> tuple[str, str, Any]:
    """Return a client in a list under a name: of a file its file name, or its path if others have the same."""
    if not isinstance(given, str | Path):
        return f"Client {at}", f"Client {at}", given
    name = Path(given).name
    return name if files[name] == 1 else str(given), f"'{given}'", given


def _files_in(source: str) -> list[Path]:
    folder = expanded(source)
    if not folder.is_dir():
        wanted = f"give one with a file ({', '.join(READERS)}) per client."
        meant = "" if folder.exists() else similar_path(folder)
        raise FedkinError(f"'{source}' is {'a file and ' if folder.is_file() else ''}not a folder; {meant or wanted}")
    try:
        shown = [path for path in folder.iterdir() if not path.name.startswith(HIDDEN)]
        paths = sorted(path for path in shown if ending_of(path) in READERS and path.is_file())
    except OSError as error:
        raise FedkinError(f"'{source}' cannot be listed ({error.strerror}).") from error
    if not paths and (folders := folders_of_images(folder)):
        return [folder / name for name in folders]
    if not paths:
        raise FedkinError(
            f"'{source}' has no {', '.join(READERS)} files; one per client is needed, and it "
            f"{f'holds only {listing(sorted(shown_in(folder)), 3)}' if shown_in(folder) else 'is empty'}."
        )
    return paths


def folders_of_images(source: str | Path) -> list[str]:
    """Return the subfolders of a folder without data files that hold images, two or more of them, else none."""
    folder = expanded(str(source))
    if not folder.is_dir() or holds_clients(str(source)):
        return []
    found = [
        name
        for name in sorted(shown_in(folder))
        if (folder / name).is_dir() and not SPLIT.match(f"{name}.") and _images_in(folder / name)
    ]
    return found if len(found) > 1 else []


def _images_in(folder: Path) -> list[str]:
    return sorted(name for name in shown_in(folder) if ending_of(name) in IMAGES)


def _read_images(folder: Path) -> Dataset:
    """Read the images of a client, without labels."""
    files = [{"bytes": None, "path": str(folder / name)} for name in _images_in(folder)]
    return Dataset(folder.name, decode_images(files, f"'{folder}'"), None, [])


def ignored_in(source: object) -> list[str]:
    """Return what in a folder of clients' files could hold a client's data and is not read.

    That is files in an unsupported format, and subfolders with files; runs and what belongs to a site, which have a
    TOML file, are none.
    """
    if not isinstance(source, str | Path) or not (folder := expanded(str(source))).is_dir():
        return []
    found = []
    for name in sorted(shown_in(folder)):
        inside = {ending_of(one) for one in shown_in(folder / name)} if (folder / name).is_dir() else set()
        is_other = (folder / name).is_dir() if ending_of(name) in READERS else name.lower().endswith(OTHER_TABLES)
        if is_other or (inside & READERS.keys() and ".toml" not in inside):
            found.append(name)
    return found


def not_read(source: str, more: str = "") -> FedkinError:
    """Return the error for a file of a kind that is not read; `more` is what may be given beside files that are."""
    suffix = Path(source).suffix
    return FedkinError(
        f"'{source}' is a {suffix or 'nameless'} file; allowed: {', '.join(READERS)}{more}{_advice(suffix)}."
    )


def _advice(suffix: str) -> str:
    """Return what to do with a file in a format that is not read, as the end of a sentence."""
    is_table = suffix.lower() in (".json", ".jsonl", ".feather", ".dta", ".sav", ".sas7bdat")
    known = (way for suffixes, way in _ADVICE.items() if suffix.lower() in suffixes)
    return next(known, _WITH_PANDAS if is_table else "")


def holds_clients(source: str) -> list[str]:
    """Return the names of data files directly in a folder, each perhaps one client's; empty if there is no folder."""
    folder = expanded(source)
    names = shown_in(folder) if folder.is_dir() else []
    return sorted(name for name in names if ending_of(name) in READERS and (folder / name).is_file())


def files_of_clients(source: str) -> list[str]:
    """Do the same as `holds_clients`, but return none for data sets that are embedded, on the hub, or have splits."""
    if source in EMBEDDED or source.startswith(HUB):
        return []
    names = holds_clients(source)
    return names if any(not SPLIT.match(name) for name in names) else []


def read_file(
    path: Path, label: str | None = None, cluster: str | None = None, options: TableOptions = NO_OPTIONS
) -> Dataset:
    """Read a ``.npz``, ``.csv``, ``.tsv`` or ``.parquet`` file, or a workbook such as ``.xlsx``.

    Those of text may be compressed, as ``.csv.gz``.

    Raises FedkinError if it is none of these, or cannot be used.
    """
    if ending_of(path) not in READERS:
        raise not_read(str(path))
    if not path.exists():
        raise missing(str(path), path)
    if not path.is_file():
        raise FedkinError(f"'{path}' is no regular file, but {'a directory' if path.is_dir() else 'a pipe or device'}.")
    return READERS[ending_of(path)](path, label, cluster, options)


def _called(client: str) -> str:
    return client if client.startswith("Client ") else f"'{client}'"


def _mixed(tables: Sequence[str], arrays: Sequence[str]) -> list[str]:
    if not tables or not arrays:
        return []
    return [
        f"{_called(tables[0])} is a table and {arrays[0]} is an array without names of columns; all clients need "
        "tables, or all arrays."
    ]
