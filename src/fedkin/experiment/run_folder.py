"""Files of a run's folder: their names, and how checkpoints, records, results and clusters are written and read."""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_origin, get_type_hints

import numpy as np
import pandas as pd
from torch import Tensor

from fedkin.core import Federation, FedkinError, State
from fedkin.core.client import Table
from fedkin.core.files import append_durably, check_regular, read_json, read_tables, similar_path, write_atomically
from fedkin.core.payload import load_tree, owned, pack, save_tree
from fedkin.core.runner import Callback, RecordLine, Timing
from fedkin.data.columns import id_texts
from fedkin.data.options import AUTO, NO_LABELS, TableOptions
from fedkin.data.population import Population, short_names
from fedkin.data.preparation import Preparation, encoding_of
from fedkin.engines.local import LocalFederation
from fedkin.experiment import registry
from fedkin.experiment.config import SECTIONS, Config, encoder_named, flat, load_config

if TYPE_CHECKING:
    from fedkin.data.profile import ClusterProfile

CONFIG, RECORDS, TIMING, CHECKPOINT = "config.toml", "records.jsonl", "timing.jsonl", "checkpoint.safetensors"
RESULT, MODELS, CLIENTS = "result.json", "models.safetensors", "clients.csv"
REPORT, MESSAGES, CLUSTER_NAMES = "report.html", "messages.json", "cluster_names.json"
READING = "reading.toml"
"""How a site's own table was read, in its share of a run, whatever the result says of the experiment."""
CLIENT_FOLDERS = "clients"
"""Folder with the private folders of clients in Flower's simulation."""
LEDGER = "federation.json"
"""Only in the folder of a real federation, whose clients only its server can reach."""
FORMAT = 3
"""Format of a run's folder; it grows when a version of fedkin cannot use what earlier ones wrote."""

_FIELDS = {"step", "answered", "missing", "values", "metrics", "sent", "received"}
"""What a record has at least."""

S = TypeVar("S", bound=State)


# Checkpoints: each is one safetensors file, replaced in one move, so that a killed run finds the last complete one.


def snapshot(fed: Federation, state: State) -> dict[str, Any]:
    """Return everything a run needs to resume, as a tree that shares no memory with it (`owned`).

    Of clients that is what those of this process remember; others keep it on their own disks.
    """
    clients = fed.clients if isinstance(fed, LocalFederation) else {}
    memories = {str(client): dict(each.state) for client, each in clients.items()}
    return dict(owned({"format": FORMAT, "state": state.tree(), **fed.tree(), "clients": memories}))


def load_checkpoint(path: Path) -> dict[str, Any] | None:
    """Load the checkpoint at `path` as a tree, ``None`` without a file; raise FedkinError for another version's."""
    if not path.exists():
        return None
    tree: dict[str, Any] = load_tree(path)
    check_format(path.parent, tree)
    return tree


def check_format(folder: Path, tree: Mapping[str, Any]) -> None:
    """Raise FedkinError if `tree`, the content of a file in `folder`, is not of this version's format."""
    if (number := tree.get("format", 1)) != FORMAT:
        raise FedkinError(
            f"{folder} was written by another version of fedkin (format {number}; this version needs {FORMAT}); use "
            "the version that wrote it, or run the experiment again."
        )


def restore_checkpoint(fed: Federation, state_type: type[S], tree: Mapping[str, Any]) -> S:
    """Restore `fed` to the snapshot `tree`, and return the method's state; both take over the tree's tensors.

    A run calls it after every step, not only when it resumes. Each step then starts from exactly what a checkpoint
    gives back, including order of keys and memory layout, and resuming is exact by construction.
    """
    fed.restore(tree)
    if isinstance(fed, LocalFederation):  # on Flower each site has its own state
        for number, client in fed.clients.items():
            client.state = tree["clients"][str(number)]
    return restore(state_type, tree["state"])


def restore(state_type: type[S], tree: Mapping[str, Any]) -> S:
    """Build a state of class `state_type` from the tree of its fields; raise FedkinError if it has others."""
    names = {field.name for field in dataclasses.fields(state_type)}
    if names != tree.keys():
        raise FedkinError(
            f"The checkpoint's fields differ from {state_type.__name__}'s in {', '.join(sorted(names ^ tree.keys()))}; "
            "resume it with the version of fedkin that wrote it."
        )
    kinds = get_type_hints(state_type)
    values: dict[str, Any] = {
        name: tuple(value) if get_origin(kinds[name]) is tuple else value for name, value in tree.items()
    }
    return state_type(**values)


# Records, one line per step.


class RunFiles(Callback):
    """Callback that writes a run's records, timing and checkpoints to its folder; its cost per step is constant.

    `steps` are those of the checkpoint that the run resumes from; ``None`` if it starts from the beginning.
    """

    def __init__(self, folder: Path, steps: int | None) -> None:
        self.folder, self.last = folder, -1 if steps is None else steps

    def begin(self) -> None:
        """Remove what was written after the checkpoint; raise FedkinError if records are missing."""
        read_records(self.folder, self.last)
        for name in (RECORDS, TIMING):
            if (path := self.folder / name).exists():
                write_atomically(
                    path, b"".join(text for text, line in _lines(path) if line and line["step"] <= self.last)
                )

    def checkpoint(self, tree: Mapping[str, Any], timing: Timing, line: RecordLine | None) -> None:
        # The checkpoint comes last: a record too many is cut off when the run resumes, one too few cannot be made up.
        for name, entry in ((RECORDS, line), (TIMING, timing)):
            if entry is not None:
                append_durably(self.folder / name, json.dumps(entry) + "\n")
        save_tree(self.folder / CHECKPOINT, tree)


def read_lines(path: Path, last: int | None = None) -> list[dict[str, Any]]:
    """Read the lines of ``records.jsonl``, up to step `last` and without one that a killed process left half written.

    Raises FedkinError if a line is not JSON or has no step.
    """
    lines = []
    for number, (_, line) in enumerate(_lines(path), 1):
        if line is None:
            raise FedkinError(f"Line {number} of {path} is damaged: it is not a JSON object with the number of a step.")
        lines.append(line)
    return lines if last is None else [line for line in lines if line["step"] <= last]


def read_timing(folder: Path) -> list[Timing]:
    """Read the seconds of the steps of the run in `folder`, as far as they are intact."""
    lines = (line for _, line in _lines(folder / TIMING) if line is not None and "seconds" in line)
    return [line for line in lines if all(type(value) in (int, float) for value in line.values())]


def read_records(folder: Path, steps: int) -> list[RecordLine]:
    """Read the records of the first `steps` steps of a run; raise FedkinError if there are fewer, or one is damaged."""
    records = read_lines(folder / RECORDS, steps)
    if len(records) < steps:
        raise FedkinError(
            f"{folder / RECORDS} has {len(records)} lines where the checkpoint has {steps} steps; "
            "the run cannot be resumed."
        )
    for number, line in enumerate(records, 1):
        if not line.keys() >= _FIELDS or line["step"] != number:
            raise FedkinError(f"Line {number} of {folder / RECORDS} is damaged: it is not what a run writes.")
    return records


def _lines(path: Path) -> Iterator[tuple[bytes, dict[str, Any] | None]]:
    """Yield each whole line of a file, and the JSON object with the number of a step that it is; ``None`` if none."""
    check_regular(path)
    for text in path.read_bytes().splitlines(keepends=True) if path.exists() else []:
        if not text.endswith(b"\n"):
            return
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):  # damaged, perhaps nested beyond what the parser takes
            line = None
        is_step = isinstance(line, dict) and type(line.get("step")) is int and line["step"] >= 0
        yield text, line if is_step else None


# A run's experiment.


def write_config(folder: Path, config: Config) -> None:
    """Write ``config.toml``, before the first step."""
    write_atomically(folder / CONFIG, config.to_toml())


def experiment_of(config: Config) -> dict[str, Any]:
    """Return what a run may not change once it has begun: all settings but those of the device."""
    return dict(owned({**config.tables, "device": None}))


def run_config(folder: Path, overrides: Sequence[str] = ()) -> Config:
    """Read a run's complete configuration; raise FedkinError if it is absent, damaged or of another version."""
    path = folder / CONFIG
    if not path.is_file():
        raise no_run(folder)
    tables = read_tables(path)
    paths = {path for path, _ in flat(tables)}
    if tables.keys() != {"seed", *SECTIONS} or not {"seed", "method.name", "simulation.scenario"} <= paths:
        raise FedkinError(f"{path} is damaged, or of another version of fedkin; run the experiment again.")
    return load_config(path, overrides)


def is_finished(folder: Path) -> bool:
    """Return whether the run in `folder` has ended; the report alone is no sign, as unfinished runs may have one."""
    return all((folder / name).is_file() for name in (RESULT, REPORT))


def check_finished(folder: Path) -> None:
    """Raise FedkinError if the run in `folder` has not ended."""
    if not is_finished(folder):
        raise FedkinError(f"{folder} has not finished; `fedkin resume {folder}` finishes it.")


def no_run(folder: Path) -> FedkinError:
    """Return the error for a `folder` without a run."""
    meant = "" if folder.exists() else similar_path(folder)
    return FedkinError(f"{folder} holds no run: {CONFIG} is absent{f'; {meant}' if meant else '.'}")


# Results.


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
    """Write a method's result to ``models.safetensors``, and what of it people can read to ``result.json``, too.

    It also names clients and classes, and has the clusters' `profile` and `words`, if any, and the options by which the
    data were read, `reading`, with ``label`` and otherwise as `TableOptions.of_files`.
    """
    tree = {
        "format": FORMAT, "method": method, "preparation": preparation.tree(), "reading": dict(reading or {}),
        "result": result, "clients": population.names, "classes": population.classes,
        "profile": None if profile is None else profile.tree(),
        **({"words": [list(each) for each in words]} if words else {}),
    }  # fmt: skip
    save_tree(folder / MODELS, owned(tree))
    write_atomically(folder / RESULT, json.dumps(json.loads(pack(tree)[1]), indent=2, sort_keys=True) + "\n")


@dataclass(frozen=True)
class SavedResult:
    """Result of a finished run, ready to predict new samples and new clients.

    `name` is the method's, and `method` its class, whose static functions take `result`, which `Method.result`
    returned. `label` is the column of labels that the experiment names, if it does. Names may be empty. `profile`
    describes the clusters of tables, and `words` distinguish those of texts, if there are any.
    """

    folder: Path
    name: str
    method: type[Any]
    result: dict[str, Any]
    preparation: Preparation
    label: str | None
    classes: list[str]
    clients: list[str]
    profile: ClusterProfile | None
    words: list[list[str]]


def load_found(folder: Path) -> SavedResult:
    """Load the result of a run, or of a client's share of one; raise FedkinError if there is none for this version."""
    if not folder.exists():
        raise FedkinError(f"'{folder}' does not exist; {similar_path(folder) or 'give the folder of a run.'}")
    from fedkin.data.profile import ClusterProfile

    if not (folder / MODELS).is_file():
        raise FedkinError(
            f"{folder} holds no result to predict with; give the folder of a finished run, with {MODELS}, or finish it "
            "by `fedkin resume`."
        )
    tree: dict[str, Any] = load_tree(folder / MODELS)
    check_format(folder, tree)
    shared = read_tables(path).get("data", {}) if (path := folder / READING).is_file() else {}
    reading = {**(shared or tree["reading"]), "label": tree["reading"].get("label", AUTO)}
    label, spec = reading.pop("label"), reading.pop("encode", None)
    try:
        files = {**reading, "encoder": encoder_named(spec)}
        TableOptions(**files)
    except TypeError as error:
        raise FedkinError(f"{path} is damaged, or of another version of fedkin; remove it.") from error
    preparation = replace(Preparation.from_tree(tree["preparation"]), files=files)
    profile = None if tree["profile"] is None else ClusterProfile.from_tree(tree["profile"])
    if profile is not None and preparation.table is not None:
        preparation = replace(preparation, centres=profile.centres(preparation.encoding))
    words = [[str(word) for word in each] for each in tree.get("words", [])]
    name, result, classes, clients = (tree[key] for key in ("method", "result", "classes", "clients"))
    method = registry.resolve("method", name)
    named = None if label in (AUTO, NO_LABELS) else label
    return SavedResult(folder, name, method, result, preparation, named, list(classes), list(clients), profile, words)


def read_names(folder: Path) -> dict[int, str]:
    """Read the names that users gave clusters of the run in `folder`; empty without any.

    Raises FedkinError if the file is damaged.
    """
    path = folder / CLUSTER_NAMES
    if not path.is_file():
        return {}
    tree = read_json(path, dict[str, str])
    if not all(key.isdecimal() for key in tree):
        raise FedkinError(f"{path} is damaged: its keys should be numbers of clusters; remove it and give names again.")
    return {int(key): name for key, name in tree.items()}


# Clusters as CSV files: of each sample, one file per client, named after the client's data file; and of each client.


Columns = dict[str, list[Any]]
"""Cells by heading."""
FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")
"""How formulas begin; wide signs do so in some spreadsheets, too."""
_PLAIN = re.compile(r"(?!client-\d)[\w@+-]([\w.@+ -]{0,58}[\w@+-])?")
"""Names that systems take for a file's, of at most 240 bytes, and that no client without such a name has."""


def label_file(folder: Path, client: int, names: Sequence[str] = ()) -> Path:
    """Return the path of a client's clusters in the run's `folder`: ``labels/north.csv`` for ``north.csv``.

    It is ``labels/client-3.csv`` if clients have no names, or where this one's makes no file name that every system
    holds and no other client has.
    """
    short = short_names(names)
    stem = short[client] if client < len(short) else ""
    taken = Counter(map(str.casefold, short))  # file systems of Windows and macOS do not tell cases apart
    is_plain = _PLAIN.fullmatch(stem) and taken[stem.casefold()] == 1
    return folder / "labels" / f"{stem if is_plain else f'client-{client}'}.csv"


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
    return as_csv(columns)


def sizes_of(labels: Iterable[Any]) -> dict[int, int]:
    """Return the number of members of each cluster by the clusters of each client's rows; -1 is none."""
    values, counts = np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *labels]), return_counts=True)
    return {int(cluster): int(count) for cluster, count in zip(values, counts, strict=True) if cluster >= 0}


def read_sizes(folder: Path, saved: SavedResult) -> dict[int, int]:
    """Return the number of members of each cluster as a run has written them; raise FedkinError if a file is damaged.

    Where a real federation's samples are clustered, they are as far as sites report them.
    """
    labels = []
    for path in [folder / CLIENTS, *sorted((folder / "labels").glob("*.csv"))]:
        if path.is_file():
            try:
                labels.append(pd.read_csv(path, usecols=["cluster"])["cluster"].to_numpy(np.int64))
            except ValueError as error:
                raise FedkinError(f"{path} is damaged; `fedkin resume` of a run writes its results again.") from error
    reported = {} if saved.profile is None else dict(enumerate(saved.profile.samples.tolist()))
    return sizes_of(labels) or {cluster: size for cluster, size in reported.items() if size}


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


def as_csv(columns: Columns | pd.DataFrame) -> str:
    """Write columns as CSV text; a text that a spreadsheet would take for a formula is behind an apostrophe."""
    frame = pd.DataFrame(columns, dtype=object)
    text: str = frame.rename(columns=_no_formula).map(_no_formula).to_csv(index=False, lineterminator="\n")
    return text


def _no_formula(cell: Any) -> Any:
    if not isinstance(cell, str) or not cell.startswith(FORMULA_SIGNS):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell
