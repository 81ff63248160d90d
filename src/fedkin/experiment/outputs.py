"""Results of a run as files, written and read: clusters, and models."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import tomli_w
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from fedkin.core import Client, FedkinError
from fedkin.core.client import Table
from fedkin.core.files import read_tables, similar_path, write_atomically
from fedkin.core.payload import owned, pack, unpack
from fedkin.data.options import AUTO, NO_LABELS, TableOptions
from fedkin.data.population import Population, short_names
from fedkin.data.preparation import Preparation, encoding_of
from fedkin.experiment import registry
from fedkin.experiment.config import encoder_named
from fedkin.experiment.run_folder import CLIENTS, FORMAT, MODELS, RESULT, check_format, check_sum

if TYPE_CHECKING:
    from fedkin.data.profile import ClusterProfile

READING = "reading.toml"
"""How a site's own table was read, in its share of a run, whatever the result says of the experiment."""

_AGAIN = "`fedkin resume` of a run writes its results again."

Columns = dict[str, list[Any]]
"""Cells by heading."""


def write_clients(folder: Path, labels: Tensor, names: Sequence[str] = (), memberships: Tensor | None = None) -> None:
    """Write ``clients.csv``: each client's cluster, int64 ``(n,)``, -1 unknown, name and `memberships` ``(n, k)``."""
    columns = {"client": list(range(len(labels))), "cluster": labels.tolist()}
    columns |= {"name": list(names)} if names else {}
    write_atomically(folder / CLIENTS, as_csv(rows_of(columns | cluster_columns(labels, None, memberships))))


def remove_result(folder: Path) -> list[str]:
    """Remove a method's result from `folder`; return the names of the files that were there."""
    names = [name for name in (RESULT, MODELS) if (folder / name).is_file()]
    for name in names:
        (folder / name).unlink()
    return names


def write_result(
    folder: Path,
    method: str,
    result: dict[str, Any],
    preparation: Preparation,
    population: Population,
    profile: ClusterProfile | None = None,
    words: Sequence[Sequence[str]] = (),
    reading: Mapping[str, Any] | None = None,
) -> None:
    """Write a method's result: readable values to ``result.json``, tensors to ``models.safetensors``.

    ``result.json`` also names clients and classes, and has the clusters' `profile` and `words`, if any, and the options
    by which the data were read, `reading`, with ``label`` and otherwise as `TableOptions.of_files`.
    """
    tree = {
        "format": FORMAT, "method": method, "preparation": preparation.tree(), "reading": dict(reading or {}),
        "result": result, "clients": population.names, "classes": population.classes,
        "profile": None if profile is None else profile.tree(),
        **({"words": [list(each) for each in words]} if words else {}),
    }  # fmt: skip
    tensors, text = pack(owned(tree))
    write_atomically(folder / MODELS, save(tensors))
    write_atomically(folder / RESULT, json.dumps(json.loads(text), indent=2, sort_keys=True) + "\n")


def write_reading(folder: Path, options: TableOptions) -> None:
    """Write how a site's table was read to ``reading.toml``, so that `fedkin predict` reads its new rows alike."""
    write_atomically(folder / READING, tomli_w.dumps({"data": options.of_files}))


@dataclass(frozen=True)
class SavedResult:
    """Result of a finished run, ready to predict new samples and new clients.

    `name` is the method's, and `method` its class, whose static functions take `result`, which `Method.result`
    returned. `label` is the column of labels that the experiment names, if it does. Names may be empty.
    """

    folder: Path
    name: str
    method: type[Any]
    result: dict[str, Any]
    preparation: Preparation
    label: str | None
    classes: list[str]
    clients: list[str]


def load_found(folder: Path) -> SavedResult:
    """Load the result of a run, or of a client's share of one; raise FedkinError if there is none for this version."""
    if not folder.exists():
        raise FedkinError(f"'{folder}' does not exist; {similar_path(folder) or 'give the folder of a run.'}")
    from fedkin.data.profile import ClusterProfile

    tree = _read_result(folder) or {}
    check_sum(folder, READING)
    shared = read_tables(path).get("data", {}) if (path := folder / READING).is_file() else {}
    try:
        reading = {**(shared or tree["reading"]), "label": tree["reading"].get("label", AUTO)}
        label, spec = reading.pop("label"), reading.pop("encode", None)
        files = {**reading, "encoder": encoder_named(spec)}
        TableOptions(**files)
        preparation = replace(Preparation.from_tree(tree["preparation"]), files=files)
        if tree["profile"] is not None and preparation.table is not None:
            centres = ClusterProfile.from_tree(tree["profile"]).centres(preparation.encoding)
            preparation = replace(preparation, centres=centres)
        name, result, classes, clients = (tree[key] for key in ("method", "result", "classes", "clients"))
    except FedkinError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        check_format(folder, tree or {"format": FORMAT})
        raise FedkinError(
            f"{folder} holds no result to predict with; give the folder of a finished run, with {RESULT} and {MODELS} "
            "as it wrote them, or finish it by `fedkin resume`."
        ) from error
    check_format(folder, tree)
    method = registry.resolve("method", name)
    named = None if label in (AUTO, NO_LABELS) else label
    return SavedResult(folder, name, method, result, preparation, named, list(classes), list(clients))


def load_description(folder: Path) -> tuple[ClusterProfile | None, list[list[str]]]:
    """Load a run's profile of its clusters and their words, ``None`` and empty without, unless damaged."""
    from fedkin.data.profile import ClusterProfile

    if (tree := _read_result(folder)) is None:
        return None, []
    try:
        profile = None if tree["profile"] is None else ClusterProfile.from_tree(tree["profile"])
        return profile, [[str(word) for word in words] for words in tree.get("words", [])]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FedkinError(f"{folder / RESULT} is damaged; {_AGAIN}") from error


def _read_result(folder: Path) -> dict[str, Any] | None:
    """Read the tree of a result, unchecked; ``None`` if there is none, or its files are damaged."""
    for name in (RESULT, MODELS):
        check_sum(folder, name, _AGAIN)
    try:
        tree: dict[str, Any] = unpack(load_file(folder / MODELS), (folder / RESULT).read_text(encoding="utf-8"))
    except (OSError, SafetensorError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return tree


# CSV files with the cluster of each sample, one file per client, named after the client's data file.


FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")
"""How formulas begin; wide signs do so in some spreadsheets, too."""
_RESERVED = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³])( *\..*)?", re.IGNORECASE)
"""Names of devices, which Windows opens in place of a file, whatever the ending."""
_PLAIN = re.compile(r"[\w@+-]([\w.@+ -]{0,58}[\w@+-])?")  # 60 letters have at most 240 bytes, and systems allow 255
"""Names that every system takes for a file's."""


def label_file(folder: Path, client: int, names: Sequence[str] = ()) -> Path:
    """Return the path of a client's clusters in the run's `folder`: ``labels/north.csv`` for ``north.csv``.

    It is ``labels/client-3.csv``, or ``_client-3.csv``, if clients have no names, or where this one's makes no file
    name that every system holds and no other client has.
    """
    # Composed letters, for macOS has files' names decomposed, and two names may differ in nothing else.
    short = [unicodedata.normalize("NFC", name) for name in short_names(names)]
    stem = short[client] if client < len(short) else ""
    taken = Counter(map(str.casefold, short))  # file systems of Windows and macOS do not tell cases apart
    if not _PLAIN.fullmatch(stem) or _RESERVED.fullmatch(stem) or taken[stem.casefold()] > 1:
        stem = f"client-{client}"
        while stem in taken:  # another client is called so
            stem = f"_{stem}"
    return folder / "labels" / f"{stem}.csv"


def write_labels(folder: Path, clients: Iterable[Client], names: Sequence[str] = ()) -> None:
    """Write the cluster of every row, for each client with ``state["clusters"]``."""
    for client in clients:
        if (text := labels_of(client.table, client.state)) is not None:
            write_atomically(label_file(folder, client.id, names), text)


def labels_of(table: Table | None, state: Mapping[str, Tensor]) -> str | None:
    """Return a client's clusters as CSV text; ``None`` if it has none.

    Columns are ``row``, the id of the `table`, ``cluster``, ``confidence`` and ``membership_0`` and so on, as far as
    they are known of these rows.
    """
    if (clusters := state.get("clusters")) is None:
        return None
    fitting = {name: value for name, value in state.items() if len(value.shape) and len(value) == len(clusters)}
    encoding = encoding_of(state)
    columns = row_names(len(clusters), table, None if encoding is None else encoding.schema.id)
    columns |= cluster_columns(clusters, fitting.get("confidence"), fitting.get("memberships"))
    return as_csv(rows_of(columns))


def read_labels(folder: Path) -> dict[str, pd.Series[Any]]:
    """Read the clusters that a run has written, int64 by client: those of rows, or ``{"": those of clients}``.

    Their index are ids, or numbers of rows where ids are absent or not unique. Raises FedkinError if a file is damaged.
    """
    labels = {}
    for path in [folder / CLIENTS, *sorted((folder / "labels").glob("*.csv"))]:
        if not path.is_file():
            continue
        is_of_clients = path.name == CLIENTS and path.parent == folder
        check_sum(folder, path.relative_to(folder).as_posix())
        try:
            frame = pd.read_csv(path, dtype=str, keep_default_na=False)
            values = frame["cluster"].astype("int64").to_numpy()
            names = [name for name in (["name"] if is_of_clients else frame.columns[1:2]) if name in frame]
            ids = frame[names[0]] if names and names[0] != "cluster" else frame.iloc[:, 0].astype("int64")
        except (ValueError, KeyError) as error:
            raise FedkinError(f"{path} is damaged; {_AGAIN}") from error
        if not ids.is_unique:
            ids = pd.Series(range(len(ids)), name="row")
        labels["" if is_of_clients else path.stem] = pd.Series(values, index=pd.Index(ids, name=str(ids.name)))
    return labels


def cluster_columns(clusters: Tensor, confidence: Tensor | None = None, memberships: Tensor | None = None) -> Columns:
    """Return the columns of clusters and, if known, confidence and memberships ``(n, k)``."""
    columns: Columns = {"cluster": clusters.tolist()}
    parts = {} if confidence is None else {"confidence": confidence}
    parts |= {} if memberships is None else {f"membership_{i}": part for i, part in enumerate(memberships.T)}
    return columns | {name: [f"{value:.4f}" for value in part.tolist()] for name, part in parts.items()}


def row_names(rows: int, table: Table | None, id_column: str | None) -> Columns:
    """Return the columns that name rows: their numbers, and ids if the `table` has them."""
    columns: Columns = {"row": list(range(rows))}
    if table is not None and id_column in table.names and len(table) == rows:
        is_taken = id_column in ("row", "client", "cluster", "class", "confidence")
        columns[f"{id_column} (id)" if is_taken else str(id_column)] = id_texts(table, str(id_column))
    return columns


def id_texts(table: Table, name: str) -> list[str]:
    """Return the values of a column as texts: whole numbers without decimals, empty cells as empty texts."""
    column, cells = next(column for column in table.columns if column.name == name), table.of(name).tolist()
    if column.is_coded:
        return ["" if math.isnan(cell) else column.categories[int(cell)] for cell in cells]
    return ["" if math.isnan(cell) else str(int(cell)) if cell == int(cell) else repr(cell) for cell in cells]


def rows_of(columns: Columns) -> Iterator[tuple[object, ...]]:
    """Yield the rows of columns, below their heading."""
    yield tuple(columns)
    yield from zip(*columns.values(), strict=True)


def as_csv(rows: Iterable[Sequence[object]]) -> str:
    """Write rows as CSV text, with quotes around cells that contain commas, quotes or line breaks.

    A text that a spreadsheet would take for a formula is written behind an apostrophe.
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([_no_formula(cell) for cell in row] for row in rows)
    return text.getvalue()


def _no_formula(cell: object) -> object:
    if not isinstance(cell, str) or not cell.startswith(FORMULA_SIGNS):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell
