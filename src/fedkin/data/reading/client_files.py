"""Files of samples: one of them, or one for each client."""

from __future__ import annotations

import difflib
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from fedkin.core.errors import FedkinError, all_problems
from fedkin.data.reading.arrays import as_dataset, check_same_shape, read_npz
from fedkin.data.reading.dataset import Dataset, in_order
from fedkin.data.reading.names import EMBEDDED
from fedkin.data.reading.table_options import TableOptions
from fedkin.data.reading.tables import read_table

READERS = {".npz": read_npz, ".csv": read_table, ".tsv": read_table, ".parquet": read_table}
"""Functions that read a file, by its suffix."""

_OTHER_TABLES = (".xlsx", ".xls", ".ods", ".txt", ".dat", ".json", ".jsonl", ".feather", ".gz", ".zip", ".dta", ".sav")


def load_clients(
    source: str | Path | Sequence[Any] | Mapping[str, Any],
    label: str | None = None,
    options: TableOptions | None = None,
) -> list[Dataset]:
    """One data set per client, with their class indices made to agree.

    Columns of tables may differ from client to client, in their order, too; arrays are all of one shape.

    Parameters
    ----------
    source : str, Path, sequence or mapping
        A folder with ``.npz``, ``.csv``, ``.tsv`` and ``.parquet`` files, taken in order of file name; others are
        ignored; or what each client has, in order or by the client's name: the path of a file, a DataFrame, or an
        array as `fedkin.data.reading.arrays.as_tensor` takes it.
    label : str, optional
        The column or array of labels of every client. Without it, files may have a column of a usual name, and
        DataFrames have none.
    options : TableOptions, optional
        How columns of all clients are read.

    Raises
    ------
    FedkinError
        If there is no client, or any cannot be used, with a line for each problem of each client; if arrays differ in
        shape, or some clients have tables and others arrays; or if no client has a column that `options` name.
    """
    options = options or TableOptions()
    source, clients, problems = collected(source), [], []
    for name, where, given in _listed(source):
        try:
            if isinstance(given, str | Path):
                clients.append(replace(read_file(expanded(str(given)), label, None, options), name=name))
            else:
                clients.append(as_dataset(given, name, where, label, options))
        except FedkinError as error:
            problems += str(error).splitlines()
    if problems:
        raise all_problems(problems)
    _check_one_kind(clients)
    check_same_shape({_called(one): tuple(one.x.shape[1:]) for one in clients if one.table is None})
    check_named(clients, options, [label])
    return _with_common_classes(clients)


def collected(clients: Any) -> Any:
    """A list of what an iterator of clients gives, which can be gone through once alone; anything else as it is."""
    return list(clients) if isinstance(clients, Iterator) else clients


def _listed(source: str | Path | Sequence[Any] | Mapping[str, Any]) -> list[tuple[str, str, Any]]:
    """Name, place for sentences, and data or path of each client."""
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
    """A listed client: of a file its name, or where others are called alike its path."""
    if not isinstance(given, str | Path):
        return f"Client {at}", f"Client {at}", given
    name = Path(given).name
    return name if files[name] == 1 else str(given), f"'{given}'", given


def _files_in(source: str) -> list[Path]:
    folder = expanded(source)
    if not folder.is_dir():
        raise FedkinError(
            f"'{source}' is not a folder; "
            + (_meant(folder, {}) or f"give one with a file ({', '.join(READERS)}) per client.")
        )
    try:
        shown = [path for path in folder.iterdir() if not path.name.startswith(".")]  # as of other systems' copies
        paths = sorted(path for path in shown if path.suffix.lower() in READERS and path.is_file())
    except OSError as error:
        raise FedkinError(f"'{source}' cannot be listed ({error.strerror}).") from error
    if not paths:
        raise FedkinError(f"'{source}' has no {', '.join(READERS)} files; one per client is needed{_others(folder)}.")
    return paths


def _others(folder: Path) -> str:
    """What a folder without any file of data holds instead, for the end of a sentence."""
    there = sorted(_inside(folder))
    if not there:
        return ", and it is empty"
    more = f" and {len(there) - 3} more" if len(there) > 3 else ""
    return f", and it holds only {', '.join(there[:3])}{more}"


def ignored_in(source: object) -> list[str]:
    """Files beside those of the clients, in a folder of these, that could be a client's but cannot be read."""
    if not isinstance(source, str | Path) or not (folder := expanded(str(source))).is_dir():
        return []
    return sorted(name for name in _inside(folder) if name.lower().endswith(_OTHER_TABLES))


def read_file(
    path: Path, label: str | None = None, cluster: str | None = None, options: TableOptions | None = None
) -> Dataset:
    """A ``.npz``, ``.csv``, ``.tsv`` or ``.parquet`` file.

    Raises
    ------
    FedkinError
        If it is none of these, or cannot be used.
    """
    if path.suffix.lower() not in READERS:
        what = f"a {path.suffix or 'nameless'} file"
        raise FedkinError(f"'{path}' is {what}; allowed: {', '.join(READERS)}.")
    if not path.exists():
        raise missing(str(path), path)
    if not path.is_file():
        raise FedkinError(f"'{path}' is no regular file, but {'a directory' if path.is_dir() else 'a pipe or device'}.")
    return READERS[path.suffix.lower()](path, label, cluster, options)


def check_named(clients: Sequence[Dataset], options: TableOptions | None, labels: Sequence[str | None]) -> None:
    """Refuse options that name a column which none of the tables has.

    Raises
    ------
    FedkinError
        With a line for each such column.
    """
    if options is None or not options.named:
        return
    columns = {name for client in clients for name in (*client.features, *client.left_out)}
    if unknown := options.unknown({*columns, *(label for label in labels if label is not None)}):
        raise all_problems(unknown)


def expanded(source: str) -> Path:
    """The path, ``~`` being a home.

    Raises
    ------
    FedkinError
        If there is no such user.
    """
    try:
        return Path(source).expanduser()
    except RuntimeError as error:
        raise FedkinError(f"'{source}' begins with the home of a user that this machine does not know.") from error


def missing(source: str, path: Path) -> FedkinError:
    """An error for a name or path that is nowhere, with the nearest one there is."""
    root = os.environ.get("FEDKIN_DATA")
    near = _meant(path, {name: name for name in (*EMBEDDED, *(_inside(expanded(root)) if root else ()))})
    if path.suffix.lower() in READERS or path.is_absolute() or source.startswith((".", "~")) or source.count("/") > 1:
        wanted = near or "give a file, a directory or the name of a data set."
        return FedkinError(f"'{source}' does not exist; {wanted}")
    places = f"neither embedded ({', '.join(EMBEDDED)}) nor a path nor below FEDKIN_DATA"
    hub = f"data set of the Hugging Face hub is asked for by 'hf:{source}'."
    return FedkinError(f"'{source}' is {places}; {f'{near} A {hub}' if near else f'a {hub}'}")


def _meant(path: Path, names: Mapping[str, str]) -> str:
    """A question for the nearest path or other name that exists, or nothing."""
    parent, unknown = path, path.name
    while not parent.is_dir() and parent != parent.parent:
        unknown, parent = parent.name, parent.parent
    meant = {name: str(parent / name) for name in _inside(parent)}
    if parent == path.parent:
        meant |= names
    near = difflib.get_close_matches(unknown, meant, n=1, cutoff=0.7)
    return f"did you mean '{meant[near[0]]}'?" if near else ""


def _inside(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir() if not path.name.startswith(".")]
    except OSError:
        return []


def _called(client: Dataset) -> str:
    return client.name if client.name.startswith("Client ") else f"'{client.name}'"


def _check_one_kind(clients: Sequence[Dataset]) -> None:
    tables = [client.table is not None for client in clients]
    if len(set(tables)) > 1:
        table, array = clients[tables.index(True)], clients[tables.index(False)]
        raise FedkinError(
            f"{_called(table)} is a table and {_called(array)} is an array without names of columns; all clients need "
            "tables, or all arrays."
        )


def _with_common_classes(clients: list[Dataset]) -> list[Dataset]:
    classes = in_order(name for client in clients for name in client.classes)
    index = {name: i for i, name in enumerate(classes)}
    common = []
    for client in clients:
        own = torch.tensor([index[name] for name in client.classes], dtype=torch.int64)
        common.append(replace(client, y=None if client.y is None else own[client.y], classes=classes))
    return common
