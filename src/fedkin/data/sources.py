"""Loading of data sets by name or path."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fedkin.core.errors import FedkinError, refuse, unknown_name
from fedkin.core.files import ending_of
from fedkin.core.table import Table
from fedkin.data.dataset import Dataset, SplitError, not_labels
from fedkin.data.files import read_file
from fedkin.data.huggingface import read_huggingface
from fedkin.data.names import EMBEDDED, HUB, READ, below_fedkin_data, expanded, files_of_clients, missing, not_read
from fedkin.data.options import NO_LABELS, NO_OPTIONS, TableOptions

_KEPT: OrderedDict[tuple[str, str | None, str, str | None, str], Dataset] | None = None
_MAX_KEPT = 4


def keep_read() -> None:
    """Cache the last few data sets in Hugging Face layout in this process, since decoding them takes long.

    This is for a process that runs several experiments, while nobody changes the data.
    """
    global _KEPT
    _KEPT = OrderedDict()


def load(
    source: str,
    label: str | None = None,
    split: str = "train",
    cluster: str | None = None,
    options: TableOptions = NO_OPTIONS,
    must_have: bool = True,
) -> Dataset:
    """Load a data set by name or path.

    Parameters
    ----------
    source : str
        In this order: the name of an embedded data set (`fedkin.data.names.EMBEDDED`); a ``.npz``,
        ``.csv``, ``.tsv`` or ``.parquet`` file, or a workbook such as ``.xlsx``; a directory in Hugging Face layout;
        the name of one below the directory in the environment variable ``FEDKIN_DATA``, with ``-`` or ``_``. With
        ``hf:`` before it, such a name is looked for on the Hugging Face hub where it is not there.
    label : str, optional
        The column or array of labels, where it does not have a usual name; "none" if there are no labels.
    split : str
        Split of a Hugging Face data set; everything else has only ``"train"``.
    cluster : str, optional
        A column or array for `Dataset.clusters`, which is then neither a feature nor taken for labels.
    options : TableOptions, optional
        Options for reading a table's columns.
    must_have : bool
        Whether a table must have the columns that `options` name.

    Raises
    ------
    FedkinError
        If there is no such data set, it cannot be used, or it has no column that `options` name.
    """
    read = _load(source, label, split, cluster, options)
    if must_have and read.table is not None:
        refuse(options.unknown({*read.features, *read.left_out, *filter(None, (label, cluster))}))
    return read


def _load(source: str, label: str | None, split: str, cluster: str | None, options: TableOptions) -> Dataset:
    if source in EMBEDDED:
        _only_train(source, split)
        if label not in (None, NO_LABELS):
            raise FedkinError(f"'{source}' is embedded, with labels of its own; label = '{label}' is for other data.")
        if cluster is not None:
            raise FedkinError(f"'{source}' is embedded and has no column '{cluster}'.")
        read = _embedded(source, options)
        return replace(read, y=None, classes=[]) if label == NO_LABELS else read
    if source.startswith(HUB):
        name = source.removeprefix(HUB)
        return _read_kept(str(below_fedkin_data(name) or name), source, label, split, cluster, options)
    path = expanded(source)
    if path.is_dir():
        try:
            return _read_kept(str(path), source, label, split, cluster, options)
        except FedkinError as error:
            if not any(path.rglob("*")):
                raise FedkinError(
                    f"'{source}' holds no files; one ({', '.join(READ)}) per client is needed."
                ) from error
            if not (names := files_of_clients(source)):
                raise
            advice = "If it has one file per client, scenario 'files' reads it as such; else give one file, such as"
            raise type(error)(f"{error} {advice} '{path / names[0]}'.") from error
    if ending_of(path) in READ:
        _only_train(source, split)
        return read_file(path, label, cluster, options)
    if path.exists():
        if path.is_file():
            raise not_read(source, ", or a directory")
        raise FedkinError(f"'{source}' is no regular file; allowed: {', '.join(READ)}, or a directory.")
    mirrored = below_fedkin_data(source)
    if mirrored is not None:
        return _read_kept(str(mirrored), source, label, split, cluster, options)
    raise missing(source, path)


def _embedded(name: str, options: TableOptions) -> Dataset:
    """Load a data set that comes with scikit-learn: digits as images, the others as tables of float32 numbers."""
    from sklearn import datasets

    if name == "blobs":
        x, y = datasets.make_blobs(n_samples=2000, n_features=20, centers=5, random_state=0)
        return _table(name, x, y, [str(i) for i in range(5)], [f"x{i}" for i in range(20)], options)
    bunch = getattr(datasets, f"load_{name.replace('-', '_')}")()
    classes = [str(target) for target in bunch.target_names]
    if name == "digits":
        return Dataset(name, _float(bunch.images)[:, None] / 16, torch.from_numpy(bunch.target).long(), classes)
    return _table(name, bunch.data, bunch.target, classes, [str(feature) for feature in bunch.feature_names], options)


def _table(name: str, x: Any, y: Any, classes: list[str], features: list[str], options: TableOptions) -> Dataset:
    dropped = [feature for feature in features if feature in options.drop]
    kept = [at for at, feature in enumerate(features) if feature not in dropped]
    table = replace(Table.of_numbers(_float(x)[:, kept], [features[at] for at in kept]), id=options.id)
    return Dataset(name, table.values, torch.from_numpy(y).long(), classes, table, left_out=tuple(dropped))


def _float(array: Any) -> Tensor:
    return torch.tensor(array, dtype=torch.float32)


def _read_kept(
    place: str, source: str, label: str | None, split: str, cluster: str | None, options: TableOptions
) -> Dataset:
    """Read a data set in Hugging Face layout, or copy it from the cache."""
    if _KEPT is None:
        return read_huggingface(place, source, label, split, cluster, options)
    key = (place, label, split, cluster, repr(options))
    if key not in _KEPT:
        _KEPT[key] = read_huggingface(place, source, label, split, cluster, options)
    _KEPT.move_to_end(key)
    while len(_KEPT) > _MAX_KEPT:
        _KEPT.popitem(last=False)
    kept = _KEPT[key]
    clusters = None if kept.clusters is None else (kept.clusters[0].clone(), kept.clusters[1])
    table = None if kept.table is None else replace(kept.table, values=kept.table.values.clone())
    x = kept.x.clone() if table is None else table.values
    return replace(kept, name=source, x=x, y=None if kept.y is None else kept.y.clone(), table=table, clusters=clusters)


def _only_train(source: str, split: str) -> None:
    if split != "train":
        raise SplitError(str(unknown_name(f"split of '{source}'", split, ["train"])))


def clients_in_one(
    source: Any, column: str, label: str | None = None, options: TableOptions = NO_OPTIONS
) -> list[Dataset]:
    """Load one file, and return a data set per client, in order of the names in `column`, which is then no feature.

    `source`, `label` and `options` are as for `load`. Raises FedkinError if it cannot be used, is a folder, or has no
    such column, or if a row has no name of a client.
    """
    if not isinstance(source, str | Path) or expanded(str(source)).is_dir():
        raise FedkinError(
            f"'scenario.column' is '{column}', and is for one file that has the rows of all clients; "
            f"{f'{source!r} is a folder' if isinstance(source, str | Path) else 'here each client has its own'}."
        )
    whole = load(str(source), label, cluster=column, options=options)
    if label is None and (features := not_labels([whole])):
        whole = load(str(source), cluster=column, options=replace(options, features=[*options.features, *features]))
    assert whole.clusters is not None
    index, names = whole.clusters
    whole = replace(whole, clusters=None)
    return [replace(whole.rows(index == at), name=name) for at, name in enumerate(names)]
