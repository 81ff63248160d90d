"""Predictions of a finished run's models for new samples and new clients, and why a row is in its cluster.

With distances d from the clusters' means, where a method compares samples, a row is nearer to its own than to the next
by the difference of their squares. That is a sum over features, in which each has its part, and over the indicators of
a category together. Nothing is asked and nothing leaves: a row's owner computes it from the
row, the result and the profile of the clusters.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn

from fedkin.core import Client, FedkinError
from fedkin.core.client import Table
from fedkin.core.errors import listing
from fedkin.core.method import CanPredict
from fedkin.core.runner import NUMBERS, predicted_clusters, predicted_memberships
from fedkin.core.seeds import derive_generator
from fedkin.core.tasks import trusted_packages
from fedkin.data.names import expanded, files_of_clients, samples_in
from fedkin.data.population import client_name, position_of, short_names
from fedkin.data.preparation import Preparation
from fedkin.data.profile import ClusterProfile
from fedkin.data.sources import load
from fedkin.data.tables import Dataset, are_whole
from fedkin.experiment.run_folder import (
    Columns,
    SavedResult,
    as_csv,
    cluster_columns,
    load_found,
    read_names,
    row_names,
)
from fedkin.nn.modules import Classifier
from fedkin.report.words import NOTHING, described


def predict(
    folder: Path,
    source: str,
    label: str | None = None,
    client: int | str | None = None,
    cluster: int | None = None,
    memberships: bool = False,
    explain: bool = False,
    **how: str | None,
) -> str:
    """Predict new samples by the models of the run in `folder`, as CSV text.

    `source` is a name or path, see `fedkin.data.sources.load`, or a folder with one file per client; `label` is
    its column of labels, which is ignored, where that has no usual name. `how` it is read are `decimal`, `encoding` and
    `sheet`, by default those of the run's data.

    `client` or `cluster` say whose samples they are, where a method has a model per cluster of clients: a client of the
    run, by its name or position, or the cluster of a client unseen in training, as `assign` returns it. By default a
    file in a folder is the client's that it is called after.

    Columns are ``row``, the table's id if the clients' had it, ``cluster``, ``cluster_name`` where clusters have names,
    if known ``confidence``, with `memberships` one for each cluster, and with `explain` ``next_cluster``, the next best
    one, and ``why``, the columns that put a row into its cluster rather than that; or ``class`` in place of these,
    where a method clusters clients. Before them is ``client``, where `source` is a folder.

    Raises FedkinError if the run has no result, its method cannot be applied to new samples, or the data do not fit.
    """
    saved = load_found(folder)
    if explain and saved.method.traits.clusters != "samples":
        raise FedkinError(f"Method '{saved.name}' of {folder} clusters clients, not samples; leave --explain out.")

    def columns(place: str, client: int | str | None) -> Columns:
        data, x = _read(saved, place, label, how)
        return _columns(saved, data, x, _whose(saved, client, cluster), memberships, explain)

    # Folders of samples are clients', but a folder of series, which may be CSV files, is one source.
    files, folder = files_of_clients(source), expanded(source)
    is_one = saved.preparation.encoder and samples_in(folder) and not all((folder / name).is_dir() for name in files)
    if not files or is_one:
        return as_csv(columns(source, client))
    is_named = saved.method.traits.clusters == "clients" and client is cluster is None and "cluster" not in saved.result
    parts: list[Columns] = []
    for name, short in zip(files, short_names(files), strict=True):
        part = columns(str(folder / name), short if is_named else client)
        parts.append({"client": [short] * len(part["row"]), **part})
    stacked = pd.concat([pd.DataFrame(part, dtype=object) for part in parts])
    return as_csv(stacked.where(stacked.notna(), ""))


def _read(saved: SavedResult, source: str, label: str | None, how: Mapping[str, str | None]) -> tuple[Dataset, Tensor]:
    """Read new samples as the clients' were read, unless `how` says otherwise, and prepare them."""
    named: dict[str, Any] = {name: value for name, value in how.items() if value is not None}
    data = load(source, label, options=replace(saved.preparation.reading, **named), must_have=False)
    saved.preparation.check_encoder(data, f"'{source}'")
    return data, saved.preparation.prepared(data.x, data.table, f"'{source}'")


def _whose(saved: SavedResult, client: int | str | None, cluster: int | None) -> dict[str, int]:
    """Return the client or cluster whose model predicts, for methods that cluster clients.

    Raises FedkinError if the run cannot predict, or the options do not suit its method.
    """
    if saved.method.traits.clusters != "clients":
        what = f"Method '{saved.name}' of {saved.folder}"
        if client is not None or cluster is not None:
            raise FedkinError(f"{what} clusters samples, not clients; leave --client and --cluster out.")
        if not isinstance(saved.method, CanPredict):
            raise FedkinError(f"{what} does not assign new samples to clusters.")
        return {}
    if client is not None and cluster is not None:
        raise FedkinError("--client and --cluster were both given; give one of them, which says whose model predicts.")
    clients, clusters, short = len(saved.result["labels"]), len(saved.result["models"]), short_names(saved.clients)
    if cluster is not None:
        if not 0 <= cluster < clusters:
            raise FedkinError(f"{saved.folder} has no cluster {cluster}; allowed: 0 to {clusters - 1}.")
        return {"cluster": cluster}
    # A client's share of a run has its own model alone.
    position = 0 if client is None and "cluster" in saved.result else position_of(client, saved.clients, clients)
    if position is None:
        lacks = "has a model for each cluster of clients" if client is None else f"has no client {client}"
        raise FedkinError(
            f"{saved.folder} {lacks}; give --client, 0 to {clients - 1}{f', or {listing(short)}' if short else ''}, "
            "or for a new client --cluster, which `fedkin assign` finds."
        )
    if int(saved.result["labels"][position]) < 0:
        raise FedkinError(
            f"The cluster of client {client_name(position, saved.clients)} in {saved.folder} is not known, because "
            "it has not replied since clusters were last formed."
        )
    return {"client": position}


def _columns(
    saved: SavedResult, data: Dataset, x: Tensor, whose: Mapping[str, int], memberships: bool, with_reasons: bool
) -> Columns:
    """Return the columns of the predictions for samples `data`, of which `x` are prepared."""
    predicted = predicted_clusters(saved.method, saved.result, x, **whose)
    columns = row_names(len(predicted), data.table, saved.preparation.encoding.schema.id)
    if whose:
        numbers = predicted.tolist()
        return columns | {"class": [saved.classes[number] for number in numbers] if saved.classes else numbers}
    is_soft = memberships and getattr(saved.method, "soft", False)
    parts = predicted_memberships(saved.method, saved.result, x) if is_soft else None
    if memberships and parts is None:
        raise FedkinError(f"The clusters of {saved.folder} are hard, without memberships; leave --memberships out.")
    confident = getattr(saved.method, "confidence", None)  # a method of one's own may have none
    columns["cluster"] = predicted.tolist()
    if names := read_names(saved.folder):
        columns["cluster_name"] = [names.get(cluster, "") for cluster in columns["cluster"]]
    columns |= cluster_columns(predicted, None if confident is None else confident(saved.result, x), parts)
    if with_reasons:
        columns["next_cluster"], columns["why"] = [""] * len(predicted), [""] * len(predicted)
        for row, reasons in why(saved.method, saved.result, saved.preparation, data, x, saved.profile).groupby("row"):
            texts = [
                f"{each.column} {each.value}{f' ({each.here}; next {each.there})' if each.here and each.there else ''}"
                for each in reasons.itertuples()
            ]
            columns["next_cluster"][row], columns["why"][row] = int(reasons["next"].iloc[0]), "; ".join(texts)
    return columns


def assign(folder: Path, source: str, label: str | None = None, **how: str | None) -> int:
    """Assign an unseen client to a cluster of the run in `folder`, by its samples in `source`.

    They need labels, unless the run describes clients without labels, such as by one style of all samples. Their column
    is `label`, or the one that the run's data name; truth values may be called otherwise than in the run. `how` they
    are read is as of `predict`. Raises FedkinError if the run has no result, its method does not cluster clients,
    `folder` is a client's part of a run, or the data do not fit or lack labels that the run needs.
    """
    saved = load_found(folder)
    if saved.method.traits.clusters != "clients":
        raise FedkinError(f"Method '{saved.name}' of {folder} clusters samples, not clients; use `fedkin predict`.")
    if "cluster" in saved.result:
        raise FedkinError(
            f"{folder} is a client's share, the model of one cluster; assign with the run's folder instead."
        )
    by_labels = saved.method.assigns_by_labels(saved.result)
    data, x = _read(saved, source, label or (saved.label if by_labels else None), how)
    y = _labels(saved, data, source) if by_labels else None
    unseen = Client.unseen(x, y, derive_generator(0, "assign"))
    return int(saved.method.assign(saved.result, unseen))


def _labels(saved: SavedResult, data: Dataset, source: str) -> Tensor:
    """Return the labels of a new client, numbered as the run's classes."""
    if data.y is None:
        raise FedkinError(
            f"'{source}' has no labels, by which a client finds its cluster; name their column with --label."
        )
    number = {name: position for position, name in enumerate(saved.classes[: saved.result["module"]["classes"]])}
    names = [data.classes[label] for label in data.y.tolist()]
    if unknown := [name for name in names if name not in number]:
        raise FedkinError(f"'{source}' has the class '{unknown[0]}', which the run does not know.")
    return torch.tensor([number[name] for name in names])


# Models of a finished run that clusters clients, as torch modules.


@dataclass(frozen=True)
class ClusterModels:
    """Models of the clusters of clients that a run found, and how samples become what they take.

    Attributes
    ----------
    models : list of nn.Module
        One per cluster, in evaluation mode, from prepared samples to logits ``(n, classes)``.
    preparation : Preparation
        ``preparation.apply(x)`` prepares samples, a DataFrame, an array, a tensor or a file, and returns the tensor
        that a model takes.
    classes : list of int or list of str
        The classes, in the order of logits: integers if all are, as `classes_` of estimators has them, else names.
    clusters : dict of str to int
        The position in `models` of each client's model, by the client's name, or its number where clients have no
        names. A client whose cluster is not known is absent.
    """

    models: list[nn.Module]
    preparation: Preparation
    classes: list[int] | list[str]
    clusters: dict[str, int]


def load_models(folder: str | Path, packages: Sequence[str] = ()) -> ClusterModels:
    """Load the models of a run's folder, or of a site's ``results/RUN``, which has one, as torch modules.

    Parameters
    ----------
    folder : str or Path
        With ``result.json`` and ``models.safetensors``.
    packages : sequence of str
        Packages beside fedkin that the run's module may be imported from, where it is a dotted path. Importing runs
        their code.

    Raises
    ------
    FedkinError
        If there is no result, it is damaged or has no models, or its module is of another package.

    Examples
    --------
    >>> import fedkin
    >>> found = fedkin.load_models("runs/ocfl")  # doctest: +SKIP
    >>> logits = found.models[0](found.preparation.apply(x))  # doctest: +SKIP
    """
    why = "so it is not imported; packages=[...] allows another package that you trust"
    with trusted_packages(["fedkin", *packages], why):
        saved = load_found(Path(folder).expanduser())
        if saved.method.traits.clusters != "clients":
            raise FedkinError(f"{folder} has no models of clusters: its method clusters samples.")
        classifier = Classifier.of(saved.result["module"])
        models = [classifier.module(model) for model in saved.result["models"]]
    names = saved.classes[: classifier.classes] or [str(number) for number in range(classifier.classes)]
    labels = enumerate(saved.result["labels"].tolist())
    return ClusterModels(
        models,
        saved.preparation,
        [int(name) for name in names] if are_whole(names) else names,
        {client_name(position, saved.clients): cluster for position, cluster in labels if cluster >= 0},
    )


# Why a row is in its cluster.


REASONS = 3  # columns that are named of each row, as many as sentences on clusters can hold
_EMPTY = "empty"


def why(
    method: Any, result: Mapping[str, Any], preparation: Preparation, data: Dataset, x: Tensor,
    profile: ClusterProfile | None,
) -> pd.DataFrame:  # fmt: skip
    """Return the columns that put rows, `data` as read and `x` ``(n, *shape)`` prepared, into clusters by a `result`.

    They are one row each, the strongest reason first: ``row``, ``cluster``, ``next``, the next best cluster or -1;
    ``column``; ``value``, the row's own; ``here`` and ``there``, what is usual in both clusters, in original units,
    empty where the clusters have no `profile`; and ``share``, in (0, 1], of what speaks for the cluster. Raises
    FedkinError if the method does not compare rows by distances in features.
    """
    clusters = predicted_clusters(method, result, x)
    if (contrast := getattr(method, "contrast", lambda *_: None)(result, x)) is None:
        raise FedkinError("Why rows are in their clusters is not known: the method compares them by a network.")
    after, parts = contrast
    numbers = result.get(NUMBERS, torch.arange(int(result["n_clusters"])))
    after = torch.where(after < 0, after, numbers[after.clamp_min(0)])
    names, totals = _by_column(preparation, parts)
    shares = torch.where(after[:, None] < 0, 0.0, totals.clamp_min(0))
    shares /= shares.sum(1, keepdim=True).clamp_min(1e-300)
    usual = {column.name: column.cells for column in described(profile)} if profile is not None else {}
    table, raw = data.table if preparation.table is not None else None, data.x.flatten(1)
    is_raw = table is None and raw.shape[1] == len(names) and not preparation.encoder
    reasons = []
    for row, (cluster, other) in enumerate(zip(clusters.tolist(), after.tolist(), strict=True)):
        named = 0
        for place in shares[row].argsort(descending=True, stable=True).tolist():
            name, share = names[place], float(shares[row, place])
            if named == REASONS or share <= 0:
                break
            value = f"{float(raw[row, place]):.4g}" if is_raw else cell_text(table, name, row) if table else ""
            if value == _EMPTY:  # it is filled like the rows of its cluster, and so would speak for any
                continue
            cells = usual.get(name, [])
            here, there = (cells[c] if c < len(cells) and cells[c] != NOTHING else "" for c in (cluster, other))
            reasons.append((row, cluster, other, name, value, here, there, share))
            named += 1
    return pd.DataFrame(reasons, columns=["row", "cluster", "next", "column", "value", "here", "there", "share"])


def _by_column(preparation: Preparation, parts: Tensor) -> tuple[list[str], Tensor]:
    """Return the names of columns, and the parts of each ``(n, columns)``; of features where these are no columns."""
    encoding, width = preparation.table, parts.shape[1]
    if encoding is None or width not in (encoding.width, len(encoding.mean)):
        is_of_samples = width == torch.Size(preparation.shape).numel() and not preparation.encoder
        return [f"{'column' if is_of_samples else 'feature'} {place}" for place in range(width)], parts
    spans = [(name, start, end) for name, start, end in encoding.blocks]
    each, texts = len(encoding.mean), len(encoding.text_names)
    size = (width - each) // texts if texts else 0
    spans += [(name, each + i * size, each + (i + 1) * size) for i, name in enumerate(encoding.text_names) if size]
    return [name for name, _, _ in spans], torch.stack([parts[:, a:b].sum(1) for _, a, b in spans], 1)


def cell_text(table: Table, name: str, row: int) -> str:
    """Return a cell of a table as a text, in the units of the data; "empty" without a value."""
    column = next((each for each in table.columns if each.name == name), None)
    if column is None:
        return "" if name in table.texts else _EMPTY
    value = float(table.of(name)[row])
    if value != value:
        return _EMPTY
    if column.is_coded:
        return str(column.categories[int(value)])
    if column.kind == "date":
        return (datetime.datetime(1970, 1, 1) + datetime.timedelta(days=value)).date().isoformat()
    return f"{value:,.6g}"
