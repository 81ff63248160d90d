"""Predictions of a finished run's models for new samples and new clients."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from fedkin.core import Client, FedkinError
from fedkin.core.errors import listing, refuse
from fedkin.core.method import CanPredict
from fedkin.core.runner import predicted_clusters
from fedkin.core.seeds import derive_generator
from fedkin.core.tasks import trusted_packages
from fedkin.data.dataset import Dataset, are_whole
from fedkin.data.names import expanded, files_of_clients, folders_of_samples, samples_in
from fedkin.data.population import client_name, position_of, short_names
from fedkin.data.preparation import Preparation
from fedkin.experiment.outputs import (
    SavedResult,
    as_csv,
    as_objects,
    cluster_columns,
    load_found,
    membership_columns,
    row_names,
)
from fedkin.nn.modules import Classifier


def predict(
    folder: Path,
    source: str,
    label: str | None = None,
    client: int | str | None = None,
    cluster: int | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    sheet: str | None = None,
    memberships: bool = False,
    as_json: bool = False,
    warn: Callable[[str], None] | None = None,
) -> str:
    """Predict new samples by the models of the run in `folder`, as CSV or JSON text.

    `source` is a name or path, see `fedkin.data.sources.load`, or a folder with one file per client; `label` is
    its column of labels, which is ignored, where that has no usual name. `decimal`, `encoding` and `sheet` are by
    default those of the run's data.

    `client` or `cluster` say whose samples they are, where a method has a model per cluster of clients: a client of the
    run, by its name or position, or the cluster of a client unseen in training, as `assign` returns it. By default a
    file in a folder is the client's that it is called after.

    Columns are ``row``, the table's id if the clients' had it, ``cluster`` and, if known, ``confidence``, and with
    `memberships` one for each cluster; or ``class`` in place of these, where a method clusters clients. Before them is
    ``client``, where `source` is a folder. JSON is a list with an object per sample.

    `warn` is called with a sentence on each column in which the samples are unlike those of the run. Raises FedkinError
    if the run has no result, its method cannot be applied to new samples, or the data do not fit; of a folder, with a
    line for each problem.
    """
    saved = load_found(folder)
    if memberships and not getattr(saved.method, "soft", False):
        raise FedkinError(f"Method '{saved.name}' of {folder} has no memberships; leave --memberships out.")
    is_one = saved.preparation.encoder and samples_in(expanded(source))  # whose series are perhaps CSV
    files = (
        []
        if is_one and not folders_of_samples(source)
        else [expanded(source) / name for name in files_of_clients(source)]
    )
    how = {"decimal": decimal, "encoding": encoding, "sheet": sheet}
    written = as_objects if as_json else as_csv
    if not files:
        rows = _columns(saved, source, label, _whose(saved, client, cluster), how, memberships, warn)
        return written(zip(*rows, strict=True))
    columns: dict[str, list[list[object]]] = {}
    problems: list[str] = []
    for path, name in zip(files, short_names([path.name for path in files]), strict=True):
        try:
            is_open = client is None and cluster is None and "cluster" not in saved.result
            is_named = is_open and saved.method.traits.clusters == "clients"
            whose = _whose(saved, name if is_named else client, cluster)
            columns[name] = _columns(saved, str(path), label, whose, how, memberships, warn)
        except FedkinError as error:
            problems += [text if str(path) in text else f"'{path}': {text}" for text in str(error).splitlines()]
    refuse(problems)
    return written(_stacked(columns))


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
    if not saved.result["module"]:
        raise FedkinError(
            f"Clients of {saved.folder} had no labels, so there are clusters but no models to predict with."
        )
    if None not in (client, cluster):
        raise FedkinError("--client and --cluster were both given; give one of them, which says whose model predicts.")
    if cluster is None:
        is_share = client is None and "cluster" in saved.result  # which has its client's model alone
        return {"client": _known_client(saved, 0 if is_share else client)}
    clusters = len(saved.result["models"])
    if not 0 <= cluster < clusters:
        raise FedkinError(f"{saved.folder} has no cluster {cluster}; allowed: 0 to {clusters - 1}.")
    return {"cluster": cluster}


def _columns(
    saved: SavedResult,
    source: str,
    label: str | None,
    whose: Mapping[str, int],
    how: Mapping[str, str | None],
    memberships: bool,
    warn: Callable[[str], None] | None,
) -> list[list[object]]:
    """Predict the samples of one source, as columns that each begin with their heading."""
    data = saved.read(source, label, **how)
    x = saved.prepared(data, source)
    if warn is not None:
        for note in saved.preparation.notes_on(data, f"'{source}'"):
            warn(note)
    predicted = predicted_clusters(saved.method, saved.result, x, **whose)
    columns = row_names(len(predicted), data.table, saved.preparation.id)
    if whose:
        names = [saved.classes[number] if saved.classes else number for number in predicted.tolist()]
        return [*columns, ["class", *names]]
    confident = getattr(saved.method, "confidence", None)  # a method of one's own may have none
    parts = saved.method.memberships(saved.result, x) if memberships else None
    if memberships and parts is None:
        raise FedkinError(f"The clusters of {saved.folder} are hard, without memberships; leave --memberships out.")
    confidence = None if confident is None else confident(saved.result, x)
    return [*columns, *cluster_columns(predicted, confidence), *membership_columns(parts)]


def _stacked(columns: Mapping[str, list[list[object]]]) -> list[list[object]]:
    """Stack the rows of all clients below one heading; a client without a column gets empty cells."""
    heads = list(dict.fromkeys(column[0] for each in columns.values() for column in each))
    rows: list[list[object]] = [["client", *heads]]
    for name, each in columns.items():
        by_head = {column[0]: column[1:] for column in each}
        empty: list[object] = [""] * (len(each[0]) - 1)
        rows += [[name, *cells] for cells in zip(*(by_head.get(head, empty) for head in heads), strict=True)]
    return rows


def assign(
    folder: Path,
    source: str,
    label: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    sheet: str | None = None,
) -> int:
    """Assign an unseen client to a cluster of the run in `folder`, by its samples in `source`.

    They need labels, unless the run describes clients without labels: by prototypes of codes, or by one style of all
    samples. Their column is `label`, or the one that the run's data name; truth values may be called otherwise than in
    the run. `decimal`, `encoding` and `sheet` are by default those of the run's data. Raises FedkinError if the run has
    no result, its method does not cluster clients, `folder` is a client's part of a run, or the data do not fit or lack
    labels that the run needs.
    """
    saved = load_found(folder)
    if saved.method.traits.clusters != "clients":
        raise FedkinError(f"Method '{saved.name}' of {folder} clusters samples, not clients; use `fedkin predict`.")
    if "cluster" in saved.result:
        raise FedkinError(
            f"{folder} is a client's share, the model of one cluster; assign with the run's folder instead."
        )
    by_labels = saved.method.assigns_by_labels(saved.result)
    how = {"decimal": decimal, "encoding": encoding, "sheet": sheet}
    data = saved.read(source, label or (saved.label if by_labels else None), **how)
    y = _labels(saved, data, source) if by_labels else None
    unseen = Client.unseen(saved.prepared(data, source), y, derive_generator(0, "assign"))
    return int(saved.method.assign(saved.result, unseen))


def _labels(saved: SavedResult, data: Dataset, source: str) -> Tensor:
    """Return the labels of a new client, numbered as the run's classes."""
    if data.y is None:
        raise FedkinError(
            f"'{source}' has no labels, by which a client finds its cluster; name their column with --label."
        )
    number = {name: position for position, name in enumerate(saved.classes[: saved.result["module"]["classes"]])}
    for label in data.y.unique().tolist():
        if data.classes[label] not in number:
            raise FedkinError(f"'{source}' has the class '{data.classes[label]}', which the run does not know.")
    return torch.tensor([number.get(name, -1) for name in data.classes])[data.y]  # -1 where a class has no sample


def _known_client(saved: SavedResult, client: int | str | None) -> int:
    clients, short = len(saved.result["labels"]), short_names(saved.clients)
    position = position_of(client, saved.clients, clients)
    if position is None:
        lacks = (
            "has a model for each cluster of clients; say by --client whose model predicts"
            if client is None
            else f"has no client {client}"
        )
        names = f", or {listing(short)}" if short else ""
        new = "" if "cluster" in saved.result else "; for a new client give --cluster, which `fedkin assign` finds"
        raise FedkinError(f"{saved.folder} {lacks}; allowed: 0 to {clients - 1}{names}{new}.")
    if int(saved.result["labels"][position]) < 0:
        raise FedkinError(
            f"The cluster of client {client_name(position, saved.clients)} in {saved.folder} is not known, because "
            "it has not replied since clusters were last formed."
        )
    return position


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
    """Load the models of a run's folder, or of a site's share of one, as torch modules.

    Parameters
    ----------
    folder : str or Path
        The folder that ``fedkin run`` wrote, with its ``result.json`` and ``models.safetensors``; or a site's
        ``results/RUN``, which has one model.
    packages : sequence of str
        Packages beside fedkin that the run's module may be imported from, where it is a dotted path. Importing runs
        their code.

    Returns
    -------
    ClusterModels

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
            raise FedkinError(
                f"Method '{saved.name}' of {folder} clusters samples and has no models of clusters; `fedkin predict` "
                "finds the clusters of new samples."
            )
        if not saved.result["module"]:
            raise FedkinError(f"Clients of {folder} had no labels, so there are clusters but no models.")
        classifier = Classifier.of(saved.result["module"])
        models = [classifier.module(model) for model in saved.result["models"]]
    names = saved.classes[: classifier.classes] or [str(number) for number in range(classifier.classes)]
    labels = enumerate(saved.result["labels"].tolist())
    return ClusterModels(
        models,
        dataclasses.replace(saved.preparation, files=saved.how_it_was_read()),
        [int(name) for name in names] if are_whole(names) else names,
        {client_name(position, saved.clients): cluster for position, cluster in labels if cluster >= 0},
    )
