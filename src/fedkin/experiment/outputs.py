"""Results of a run as files, written and read: clusters of clients, and models."""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tomli_w
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from fedkin.core import Client, FedkinError
from fedkin.core.files import check_regular, read_tables, similar_path, write_atomically
from fedkin.core.payload import owned, pack, unpack
from fedkin.core.table import Table
from fedkin.data.dataset import Dataset
from fedkin.data.options import AUTO, NO_LABELS, TableOptions
from fedkin.data.population import Population, short_names
from fedkin.data.preparation import Preparation, id_of
from fedkin.data.profile import ClusterProfile
from fedkin.data.sources import load
from fedkin.experiment import registry
from fedkin.experiment.checkpoint import FORMAT, check_format
from fedkin.experiment.config import encoding_features
from fedkin.experiment.run_folder import ENCODER, MODELS, RESULT, check_sum
from fedkin.experiment.sections import encoder_named
from fedkin.nn.encoder import Pretrained

READING = "reading.toml"
"""How a site's table was read, in its share of a run, which has no ``config.toml``."""


def write_clients(folder: Path, labels: Tensor, names: Sequence[str] = (), memberships: Tensor | None = None) -> None:
    """Write ``clients.csv``: the cluster of every client (int64 `labels` ``(n,)``; -1 unknown), with names if any.

    For soft clusters, `memberships` ``(n, K)`` are added as columns ``membership_0`` and so on.
    """
    clusters = labels.tolist()
    columns = [("client", *range(len(clusters))), ("cluster", *clusters)]
    if names:
        columns.append(("name", *names))
    columns += [tuple(column) for column in membership_columns(memberships)]
    write_atomically(folder / "clients.csv", as_csv(zip(*columns, strict=True)))


def remove_result(folder: Path) -> list[str]:
    """Remove a method's result from `folder`; return the names of the files that were there."""
    names = [name for name in (RESULT, MODELS, ENCODER) if (folder / name).is_file()]
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
) -> None:
    """Write a method's result: readable values to ``result.json``, tensors to ``models.safetensors``.

    ``result.json`` also names the clients, in order of id, and the classes, where there are names; and has the
    `profile` of the clusters, where clients have tables, or the `words` of each, where they have texts.
    """
    tree = {
        "format": FORMAT,
        "method": method,
        "preparation": preparation.tree(),
        "result": result,
        "clients": population.names,
        "classes": population.classes,
        "profile": None if profile is None else profile.tree(),
        **({"words": [list(own) for own in words]} if words else {}),
    }
    tensors, text = pack(owned(tree))
    write_atomically(folder / MODELS, save(tensors))
    write_atomically(folder / RESULT, json.dumps(json.loads(text), indent=2, sort_keys=True) + "\n")


def write_reading(folder: Path, options: TableOptions) -> None:
    """Write how a site's table was read to ``reading.toml``, so that `fedkin predict` reads its new rows alike."""
    write_atomically(folder / READING, tomli_w.dumps({"data": options.of_files}))


def write_encoder(folder: Path, result: Mapping[str, Any]) -> None:
    """Write a result's ``encoder`` and its ``vector``, if any, to ``encoder.safetensors`` for use in other runs."""
    if {"encoder", "vector"} <= result.keys():
        Pretrained(result["encoder"], result["vector"], {}).save(folder / ENCODER)


@dataclass(frozen=True)
class SavedResult:
    """Result of a finished run, ready to predict new samples and new clients.

    `name` is the method's, and `method` its class, whose static functions take `result`, which `Method.result`
    returned. `preparation` says how samples were prepared. Names of `classes` and `clients` may be empty.
    """

    folder: Path
    name: str
    method: type[Any]
    result: dict[str, Any]
    preparation: Preparation
    classes: list[str]
    clients: list[str]

    def read(self, source: str, label: str | None, **options: str | None) -> Dataset:
        """Read new samples, with column types and `na_values` as in the clients' data, and what else is not given."""
        how = self.how_it_was_read() | {name: value for name, value in options.items() if value is not None}
        return load(source, label, options=replace(self.preparation.reading, **how), must_have=False)

    @property
    def label(self) -> str | None:
        """The column of labels that the run's configuration names; ``None`` if it names none."""
        tables = read_tables(path) if (path := self.folder / "config.toml").is_file() else {}
        label = tables["data"].get("label") if isinstance(tables.get("data"), dict) else None
        return label if isinstance(label, str) and label not in (AUTO, NO_LABELS) else None

    def how_it_was_read(self) -> dict[str, Any]:
        """Return the options for reading new rows that a client's share of a run has, or the run's folder."""
        for path in (self.folder / READING, self.folder / "config.toml"):
            check_sum(self.folder, path.name)
            if path.is_file():
                section = read_tables(path).get("data", {})
                if not isinstance(section, dict):
                    raise FedkinError(f"data is {section!r} in {path}; it should be a section of options.")
                names = ("decimal", "encoding", "header", "sheet", "na_values", "dayfirst")
                how = {name: section[name] for name in names if name in section}
                spec = section.get("encode", "none")
                features = read_tables(path).get("method", {}).get("features") if spec == "none" else spec
                how["encoder"] = encoder_named(encoding_features(features))
                how["dayfirst"] = None if how.get("dayfirst") == "none" else how.get("dayfirst")  # as TOML has None
                try:
                    TableOptions(**how)
                except FedkinError as error:
                    raise FedkinError(f"{path} cannot be used: {error}") from error
                return how
        return {}

    def prepared(self, data: Dataset, source: str) -> Tensor:
        """Prepare new samples, read from `source`, as the method needs them."""
        self.preparation.check_encoder(data, f"'{source}'")
        return self.preparation.prepared(data.x, data.table, f"'{source}'")


def load_found(folder: Path) -> SavedResult:
    """Load the result of the run in `folder`.

    Raises FedkinError if there is no result, or it is damaged or of another version.
    """
    _check_result(folder)
    try:
        tree = _read_result(folder)
        name, result, prepared, classes = (tree[key] for key in ("method", "result", "preparation", "classes"))
        clients, preparation = list(tree["clients"]), Preparation.from_tree(prepared)
        if tree["profile"] is not None and preparation.encoding is not None:
            centres = ClusterProfile.from_tree(tree["profile"]).centres(preparation.encoding)
            preparation = replace(preparation, centres=centres)
    except (OSError, SafetensorError, ValueError, KeyError, TypeError, AttributeError) as error:
        if not folder.exists():
            meant = similar_path(folder) or "give the folder of a finished run."
            raise FedkinError(f"'{folder}' does not exist; {meant}") from error
        raise FedkinError(f"{folder} holds no result to predict with; {_where_results_are(folder)}.") from error
    check_format(folder, tree)
    method = registry.resolve("method", name)
    return SavedResult(folder, name, method, result, preparation, classes, clients)


def _where_results_are(folder: Path) -> str:
    """Say where a result may be, for a folder that has none: of a stopped run, above runs, or neither."""
    if (folder / "config.toml").is_file():
        return "`fedkin resume` may finish it"
    if (folder / RESULT).exists():
        return f"its {RESULT} or {MODELS} is damaged"
    below = [path.parent for depth in ("*", "*/*") for path in folder.glob(f"{depth}/{RESULT}")]
    if complete := [path for path in below if (path / MODELS).is_file()]:
        return f"'{max(complete, key=lambda path: (path / RESULT).stat().st_mtime)}' does"
    if (folder / "labels").is_dir():
        return f"put {RESULT} and {MODELS} of the server's folder beside its labels"
    return f"give a finished run's, or one with its {RESULT} and {MODELS}"


def load_profile(folder: Path) -> ClusterProfile | None:
    """Load the profile of the clusters of the run in `folder`; ``None`` without one or if the run is not finished.

    Raises FedkinError if its result is damaged.
    """
    _check_result(folder)
    try:
        tree = _read_result(folder)
        return None if tree["profile"] is None else ClusterProfile.from_tree(tree["profile"])
    except (OSError, SafetensorError, ValueError, KeyError):
        return None


def load_words(folder: Path) -> list[list[str]]:
    """Load the words of clusters of texts of the run in `folder`; empty without any."""
    try:
        return [[str(word) for word in own] for own in _read_result(folder).get("words", [])]
    except (OSError, SafetensorError, ValueError):
        return []


def _check_result(folder: Path) -> None:
    for name in (RESULT, MODELS):
        check_regular(folder / name)
        check_sum(folder, name, "`fedkin resume` of a run writes its results again.")


def _read_result(folder: Path) -> dict[str, Any]:
    tree: dict[str, Any] = unpack(load_file(folder / MODELS), (folder / RESULT).read_text(encoding="utf-8"))
    return tree


# CSV files with the cluster of each sample, one file per client, named after the client's data file.


FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")
"""How formulas begin; wide signs do so in some spreadsheets, too."""
_UNSAFE = re.compile(r"[^\w.@+ -]")
_RESERVED = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³])( *\..*)?", re.IGNORECASE)
"""Names of devices, which Windows opens in place of a file, whatever the ending."""
_LONGEST = 255 - len(".csv.partial")
"""Bytes of a name: file systems hold 255, also of a file that is being written."""


def label_file(folder: Path, client: int, names: Sequence[str] = ()) -> Path:
    """Return the path of a client's clusters in the run's `folder`: ``labels/north.csv`` for ``north.csv``.

    It is ``labels/client-3.csv``, or ``_client-3.csv``, if clients have no names, or where this one's makes no file
    name that every system holds and no other client has. Characters that a file name cannot hold become underscores.
    """
    safe = [_UNSAFE.sub("_", unicodedata.normalize("NFC", name)).strip(". ") for name in short_names(names)]
    stem = safe[client] if client < len(safe) else ""
    taken = Counter(map(str.casefold, safe))
    too_long = len(stem.encode(errors="replace")) > _LONGEST
    if not stem or too_long or _RESERVED.fullmatch(stem) or taken[stem.casefold()] > 1:
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

    Columns are ``row``, that of the id of the `table` under its own name, ``cluster``, ``confidence`` with four
    decimals and ``membership_0`` and so on, as far as they are known of these rows.
    """
    if (clusters := state.get("clusters")) is None:
        return None
    fitting = {name: value for name, value in state.items() if len(value.shape) and len(value) == len(clusters)}
    columns = row_names(len(clusters), table, id_of(state)) + cluster_columns(clusters, fitting.get("confidence"))
    return as_csv(zip(*columns, *membership_columns(fitting.get("memberships")), strict=True))


def cluster_columns(clusters: Tensor, confidence: Tensor | None) -> list[list[object]]:
    """Return the columns of clusters and, if known, confidence, each beginning with its heading."""
    columns: list[list[object]] = [["cluster", *clusters.tolist()]]
    if confidence is not None:
        columns.append(["confidence", *(f"{value:.4f}" for value in confidence.tolist())])
    return columns


def membership_columns(memberships: Tensor | None) -> list[list[object]]:
    """Return a column per cluster of `memberships` ``(n, k)``, each beginning with its heading; empty without."""
    if memberships is None:
        return []
    return [
        [f"membership_{cluster}", *(f"{value:.4f}" for value in values)]
        for cluster, values in enumerate(memberships.T.tolist())
    ]


def row_names(rows: int, table: Table | None, id_column: str | None) -> list[list[object]]:
    """Return the columns that name rows, each beginning with its heading: numbers, and ids if the `table` has them."""
    columns: list[list[object]] = [["row", *range(rows)]]
    if table is not None and id_column in table.names and len(table) == rows:
        is_taken = id_column in ("row", "client", "cluster", "class", "confidence")
        name = f"{id_column} (id)" if is_taken else id_column
        columns.append([name, *id_texts(table, str(id_column))])
    return columns


def id_texts(table: Table, name: str) -> list[str]:
    """Return the values of a column as texts: whole numbers without decimals, empty cells as empty texts."""
    column = next(column for column in table.columns if column.name == name)
    texts = []
    for value in table.of(name).tolist():
        if value != value:
            texts.append("")
        elif column.is_coded:
            texts.append(column.categories[int(value)])
        else:
            texts.append(str(int(value)) if value == int(value) else repr(value))
    return texts


def as_objects(rows: Iterable[Sequence[object]]) -> str:
    """Write rows below a heading as JSON text: a list of objects, with ``null`` for empty cells."""
    head, *below = rows
    fractions = [str(name) == "confidence" or str(name).startswith("membership_") for name in head]
    objects = [
        {
            str(name): None if cell == "" else float(str(cell)) if fraction else cell
            for name, cell, fraction in zip(head, row, fractions, strict=True)
        }
        for row in below
    ]
    return json.dumps(objects, indent=2, ensure_ascii=False) + "\n"


def as_csv(rows: Iterable[Sequence[object]]) -> str:
    """Write rows as CSV text, with quotes around names that contain commas, quotes or line breaks.

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
