"""Data by name or path."""

from __future__ import annotations

import os
from collections import OrderedDict
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from fedkin.core.errors import FedkinError, unknown_name
from fedkin.data.reading.arrays import check_same_shape, read_npz
from fedkin.data.reading.dataset import Dataset, SplitError, in_order
from fedkin.data.reading.hub import read_huggingface
from fedkin.data.reading.names import EMBEDDED
from fedkin.data.reading.tables import read_table

_READERS = {".npz": read_npz, ".csv": read_table, ".parquet": read_table}


_KEPT: OrderedDict[tuple[str, str | None, str, str | None], Dataset] | None = None
_MOST_KEPT = 4


def keep_read() -> None:
    """Keep the last few data sets in Hugging Face layout for as long as this process lives: decoding them takes long.

    For a process that works on one experiment after another, while nobody changes the data.
    """
    global _KEPT
    _KEPT = OrderedDict()


def load(source: str, label: str | None = None, split: str = "train", cluster: str | None = None) -> Dataset:
    """A data set by name or path.

    Parameters
    ----------
    source : str
        In this order: the name of an embedded data set (`fedkin.data.reading.names.EMBEDDED`); a ``.npz``, ``.csv`` or
        ``.parquet`` file; a directory in Hugging Face layout; the name of one below the directory in the environment
        variable ``FEDKIN_DATA``, with ``-`` or ``_``; a name on the Hugging Face hub.
    label : str, optional
        The column or array of labels, where it does not have a usual name.
    split : str
        Which split of a Hugging Face data set; everything else has only ``"train"``.
    cluster : str, optional
        A column or array for `Dataset.clusters`, which is then neither a feature nor taken for labels.

    Raises
    ------
    FedkinError
        If there is no such data set, or it holds anything that is not a finite number or an image.
    """
    if source in EMBEDDED:
        _only_train(source, split)
        if label is not None:
            raise FedkinError(f"'{source}' is embedded and knows its labels; label = '{label}' is for other data.")
        if cluster is not None:
            raise FedkinError(f"'{source}' is embedded and has no column '{cluster}'.")
        return _embedded(source)
    path = Path(source).expanduser()
    if path.is_dir():
        return _read_kept(str(path), source, label, split, cluster)
    if path.suffix.lower() in _READERS:
        _only_train(source, split)
        return _read_file(path, label, cluster)
    if path.exists():
        raise FedkinError(
            f"'{source}' is a {path.suffix or 'nameless'} file; allowed: {', '.join(_READERS)}, or a directory."
        )
    mirrored = _below_fedkin_data(source)
    if mirrored is not None:
        return _read_kept(str(mirrored), source, label, split, cluster)
    if path.is_absolute() or source.startswith((".", "~")) or source.count("/") > 1:
        raise FedkinError(f"'{source}' does not exist; give a file, a directory or the name of a data set.")
    try:
        return _read_kept(source, source, label, split, cluster)
    except SplitError:
        raise
    except FedkinError as error:
        places = f"neither embedded ({', '.join(EMBEDDED)}) nor a path nor below FEDKIN_DATA"
        raise FedkinError(f"{str(error).rstrip('.')}, and it is {places}.") from error.__cause__


def load_clients(source: str, label: str | None = None) -> list[Dataset]:
    """One data set per file of a folder, in order of file name, with their class indices made to agree.

    Parameters
    ----------
    source : str
        A folder with ``.npz``, ``.csv`` and ``.parquet`` files; others in it are ignored.
    label : str, optional
        The column or array of labels in every file.

    Raises
    ------
    FedkinError
        If there is no such file, one cannot be used, or they differ in their features (in their order, too).
    """
    folder = Path(source).expanduser()
    if not folder.is_dir():
        raise FedkinError(f"'{source}' is not a folder; give one with a file ({', '.join(_READERS)}) per client.")
    paths = sorted(path for path in folder.iterdir() if path.suffix.lower() in _READERS and path.is_file())
    if not paths:
        raise FedkinError(f"'{source}' has no {', '.join(_READERS)} files; one per client is needed.")
    clients = [_read_file(path, label) for path in paths]
    _check_same_features(paths, clients)
    return _with_common_classes(clients)


def _read_kept(place: str, source: str, label: str | None, split: str, cluster: str | None) -> Dataset:
    """A data set in Hugging Face layout, read or remembered; what is remembered is the receiver's to change."""
    if _KEPT is None:
        return read_huggingface(place, source, label, split, cluster)
    key = (place, label, split, cluster)
    if key not in _KEPT:
        _KEPT[key] = read_huggingface(place, source, label, split, cluster)
    _KEPT.move_to_end(key)
    while len(_KEPT) > _MOST_KEPT:
        _KEPT.popitem(last=False)
    kept = _KEPT[key]
    clusters = None if kept.clusters is None else (kept.clusters[0].clone(), kept.clusters[1])
    return replace(kept, x=kept.x.clone(), y=None if kept.y is None else kept.y.clone(), clusters=clusters)


def _read_file(path: Path, label: str | None, cluster: str | None = None) -> Dataset:
    if not path.exists():
        raise FedkinError(f"'{path}' does not exist.")
    return _READERS[path.suffix.lower()](path, label, cluster)


def _check_same_features(paths: list[Path], clients: list[Dataset]) -> None:
    check_same_shape({f"'{path}'": tuple(client.x.shape[1:]) for path, client in zip(paths, clients, strict=True)})
    named = [(path, client.features) for path, client in zip(paths, clients, strict=True) if client.features]
    for path, features in named:
        for here, there in zip(features, named[0][1], strict=True):
            if here != there:
                raise FedkinError(
                    f"'{path}' has column '{here}' where '{named[0][0]}' has '{there}'; all need the same."
                )


def _with_common_classes(clients: list[Dataset]) -> list[Dataset]:
    classes = in_order(name for client in clients for name in client.classes)
    index = {name: i for i, name in enumerate(classes)}
    common = []
    for client in clients:
        own = torch.tensor([index[name] for name in client.classes], dtype=torch.int64)
        y = None if client.y is None else own[client.y]
        common.append(Dataset(client.name, client.x, y, classes, client.features))
    return common


def _below_fedkin_data(name: str) -> Path | None:
    root = os.environ.get("FEDKIN_DATA")
    if not root:
        return None
    candidates = [Path(root).expanduser() / spelling for spelling in (name, name.replace("-", "_"))]
    return next((path for path in candidates if path.is_dir()), None)


def _only_train(source: str, split: str) -> None:
    if split != "train":
        raise SplitError(str(unknown_name(f"split of '{source}'", split, ["train"])))


def _embedded(name: str) -> Dataset:
    from sklearn import datasets

    if name == "blobs":
        x, y = datasets.make_blobs(n_samples=2000, n_features=20, centers=5, random_state=0)
        return Dataset(
            name, _float(x), torch.from_numpy(y).long(), [str(i) for i in range(5)], [f"x{i}" for i in range(20)]
        )
    bunch = getattr(datasets, f"load_{name.replace('-', '_')}")()
    y, classes = torch.from_numpy(bunch.target).long(), [str(target) for target in bunch.target_names]
    if name == "digits":
        return Dataset(name, _float(bunch.images)[:, None] / 16, y, classes)
    return Dataset(name, _float(bunch.data), y, classes, [str(feature) for feature in bunch.feature_names])


def _float(array: Any) -> torch.Tensor:
    return torch.tensor(array, dtype=torch.float32)
