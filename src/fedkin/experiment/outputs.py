"""Results of a run as files, written and read: clusters of clients, and models."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tomli_w
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from fedkin.core import FedkinError
from fedkin.core.files import check_regular, read_tables, similar_path, write_atomically
from fedkin.core.payload import owned, pack, unpack
from fedkin.data.dataset import Dataset
from fedkin.data.options import AUTO, NO_LABELS, TableOptions
from fedkin.data.population import Population
from fedkin.data.preparation import Preparation
from fedkin.data.profile import ClusterProfile
from fedkin.data.sources import load
from fedkin.experiment import registry
from fedkin.experiment.checkpoint import FORMAT, check_format
from fedkin.experiment.checksums import check_sum
from fedkin.experiment.label_files import as_csv, membership_columns
from fedkin.nn.encoder import Pretrained

RESULT, MODELS, ENCODER = "result.json", "models.safetensors", "encoder.safetensors"
RESULTS = (RESULT, MODELS, ENCODER, "clients.csv", "labels/*.csv")
"""Files of what was found, as patterns."""
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
) -> None:
    """Write a method's result: readable values to ``result.json``, tensors to ``models.safetensors``.

    ``result.json`` also names the clients, in order of id, and the classes, where there are names; and has the
    `profile` of the clusters, where clients have tables.
    """
    tree = {
        "format": FORMAT,
        "method": method,
        "preparation": preparation.tree(),
        "result": result,
        "clients": population.names,
        "classes": population.classes,
        "profile": None if profile is None else profile.tree(),
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
        own = read_tables(path) if (path := self.folder / "config.toml").is_file() else {}
        label = own["data"].get("label") if isinstance(own.get("data"), dict) else None
        return label if isinstance(label, str) and label not in (AUTO, NO_LABELS) else None

    def how_it_was_read(self) -> dict[str, Any]:
        """Return the options for reading new rows that a client's share of a run has, or the run's folder."""
        for path in (self.folder / READING, self.folder / "config.toml"):
            check_sum(self.folder, path.name)
            if path.is_file():
                own = read_tables(path).get("data", {})
                if not isinstance(own, dict):
                    raise FedkinError(f"data is {own!r} in {path}; it should be a section of options.")
                names = ("decimal", "encoding", "header", "sheet", "na_values", "dayfirst")
                how = {name: own[name] for name in names if name in own}
                how["dayfirst"] = None if how.get("dayfirst") == "none" else how.get("dayfirst")  # as TOML has None
                try:
                    TableOptions(**how)
                except FedkinError as error:
                    raise FedkinError(f"{path} cannot be used: {error}") from error
                return how
        return {}

    def prepared(self, data: Dataset, source: str) -> Tensor:
        """Prepare new samples, read from `source`, as the method needs them."""
        columns = None if data.table is None else data.table.columns
        return self.preparation.prepared(data.x, columns, f"'{source}'")


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


def _check_result(folder: Path) -> None:
    for name in (RESULT, MODELS):
        check_regular(folder / name)
        check_sum(folder, name, "`fedkin resume` of a run writes its results again.")


def _read_result(folder: Path) -> dict[str, Any]:
    tree: dict[str, Any] = unpack(load_file(folder / MODELS), (folder / RESULT).read_text(encoding="utf-8"))
    return tree
