"""Data sets by name or path, and those in Hugging Face form: on the hub, in a directory, or in memory."""

from __future__ import annotations

import io
import sys
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fedkin.core.errors import FedkinError, no_column, refuse, require, unknown_name
from fedkin.core.files import ending_of
from fedkin.core.table import Table
from fedkin.data.dataset import Dataset, SplitError, encode_labels, lacking_labels, not_labels, usual_label
from fedkin.data.files import read_file
from fedkin.data.names import EMBEDDED, HUB, READ, below_fedkin_data, expanded, files_of_clients, missing, not_read
from fedkin.data.options import NO_LABELS, NO_OPTIONS, TableOptions
from fedkin.data.tables import frame_to_table

if TYPE_CHECKING:
    import pandas as pd

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
            f"'simulation.column' is '{column}', and is for one file that has the rows of all clients; "
            f"{f'{source!r} is a folder' if isinstance(source, str | Path) else 'here each client has its own'}."
        )
    whole = load(str(source), label, cluster=column, options=options)
    if label is None and (features := not_labels([whole])):
        whole = load(str(source), cluster=column, options=replace(options, features=[*options.features, *features]))
    assert whole.clusters is not None
    index, names = whole.clusters
    whole = replace(whole, clusters=None)
    return [replace(whole.rows(index == at), name=name) for at, name in enumerate(names)]


# Hugging Face form.


_GREY = ("1", "L", "LA")
_DEEP = ("I", "F", "I;16", "I;16B", "I;16L")


def read_huggingface(
    source: str, name: str, label: str | None, split: str, cluster: str | None, options: TableOptions
) -> Dataset:
    """Read one split of a data set that ``datasets.load_dataset`` can load, from a directory or by its name on the hub.

    If a column holds images, the first such column is `x` and all others but the label's and the cluster's are ignored.
    Else all columns but these are those of a table. By default the `label` is the column of a usual name, see
    `usual_label`, else the only ``ClassLabel`` column, else, with images, the only integer column, else none. `name` is
    the one that the user gave, `split` usually "train" or "test", and `cluster` a column for `Dataset.clusters`. Raises
    FedkinError if it cannot be found or loaded, or its contents are of no use.
    """
    require(f"Reading '{name}', a data set in Hugging Face layout,", "datasets", "datasets")
    import datasets

    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
    where = f"'{name}'"
    try:
        rows = datasets.load_dataset(source, split=split)
        table = rows.with_format("arrow")[:]
    except Exception as error:  # whatever the hub, the network or a reader inside `datasets` can raise
        reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        kind = SplitError if reason.startswith("Unknown split") else FedkinError
        raise kind(f"{where} cannot be loaded as split '{split}' of a Hugging Face data set ({reason}).") from error
    if len(rows) == 0:
        raise FedkinError(f"{where} is empty (0 rows in split '{split}').")
    dropped = [column for column in rows.features if column in options.drop]
    features = {column: kind for column, kind in rows.features.items() if column not in dropped}
    images = [column for column, kind in features.items() if isinstance(kind, datasets.Image)]
    if cluster is not None and cluster not in features:
        raise no_column(where, cluster, features)
    label = _label_column(features, label, cluster, where, bool(images))
    y, classes = (None, []) if label is None else _labels(table, features, label, where)
    clusters = None if cluster is None else _labels(table, features, cluster, where)
    if images:
        return Dataset(name, decode_images(table.column(images[0]).to_pylist(), where), y, classes, clusters=clusters)
    others = {column: kind for column, kind in features.items() if column not in (label, cluster)}
    frame = _with_named_classes(table.select(list(others)).to_pandas(), others)
    columns = frame_to_table(frame, where, options)
    return Dataset(name, columns.values, y, classes, columns, clusters, tuple(dropped))


def _with_named_classes(frame: pd.DataFrame, features: Mapping[str, Any]) -> pd.DataFrame:
    """Return a table whose ``ClassLabel`` columns hold the names of classes instead of their numbers."""
    import datasets

    for column, kind in features.items():
        if isinstance(kind, datasets.ClassLabel):
            frame[column] = frame[column].map(dict(enumerate(kind.names)))
    return frame


def decode_images(files: list[dict[str, Any]], where: str) -> Tensor:
    """Decode images of one size to float32 ``(n, channels, height, width)`` in [0, 1].

    Grey images have one channel; if any of them is in colour, all become RGB. Each file has its content as ``bytes``,
    or its ``path``. `where` names the source, at the beginning of error messages.
    """
    pixels = [_decode(file, row, where) for row, file in enumerate(files)]
    height, width = pixels[0].shape[:2]
    for row, image in enumerate(pixels):
        if image.shape[:2] != (height, width):
            sizes = f"{image.shape[0]} x {image.shape[1]} where row 0 is {height} x {width}"
            raise FedkinError(f"{where} has images of different sizes: row {row} is {sizes}.")
    if any(image.shape[2] == 3 for image in pixels):
        pixels = [np.broadcast_to(image, (height, width, 3)) for image in pixels]
    stacked = torch.from_numpy(np.stack(pixels))
    return stacked.permute(0, 3, 1, 2).to(torch.float32, memory_format=torch.contiguous_format).div_(255)


def _decode(file: dict[str, Any] | None, row: int, where: str) -> npt.NDArray[np.uint8]:
    from PIL import Image

    if file is None:
        raise FedkinError(f"{where} has no image in row {row}.")
    try:
        with Image.open(file["path"] if file["bytes"] is None else io.BytesIO(file["bytes"])) as image:
            if image.mode in _DEEP:
                raise FedkinError(
                    f"{where} has an image of more than 8 bits per channel in row {row} (mode {image.mode})."
                )
            mode = "L" if image.mode in _GREY else "RGB"
            pixels = np.asarray(image if image.mode == mode else image.convert(mode))
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise FedkinError(f"{where} has an image that cannot be decoded in row {row}.") from error
    return pixels[..., None] if pixels.ndim == 2 else pixels


def _label_column(
    features: dict[str, Any], label: str | None, cluster: str | None, where: str, images: bool
) -> str | None:
    """Return the name of the labels' column: the one given, a usual name, the only ``ClassLabel``, or ``None``.

    Raises FedkinError if there is none of the name given.
    """
    import datasets

    if label == NO_LABELS:
        return None
    if label is not None:
        if label not in features:
            raise no_column(where, label, features)
        return label
    features = {name: kind for name, kind in features.items() if name != cluster}
    if (named := usual_label(features)) is not None:
        return named
    candidates = [name for name, kind in features.items() if isinstance(kind, datasets.ClassLabel)]
    if not candidates and images:
        candidates = [name for name, kind in features.items() if "int" in str(getattr(kind, "dtype", ""))]
    return candidates[0] if len(candidates) == 1 else None


def _labels(table: Any, features: dict[str, Any], label: str, where: str) -> tuple[Tensor, list[str]]:
    import datasets

    column, kind = table.column(label), features[label]
    if not isinstance(kind, datasets.ClassLabel):
        return encode_labels(column.to_numpy(), f"Column '{label}' of {where}")
    y = torch.tensor(column.fill_null(-1).to_numpy(), dtype=torch.int64)
    missing = int((y < 0).sum())
    if missing:
        raise lacking_labels(f"Column '{label}' of {where}", missing, len(y))
    return y, list(kind.names)


def read_rows(rows: Any, where: str, label: str | None = None) -> tuple[Any, Any, str | None]:
    """Return samples, labels, and the name of the labels' column if the samples are a DataFrame that still has it.

    The first column of images is the samples, or the only column of lists; else all columns but the labels are a table.
    Labels are a column of a usual name, or the only ``ClassLabel``; of these, numbers. Raises FedkinError if it is
    empty, has no `label`, or images or lists differ in shape.
    """
    import datasets

    if len(rows) == 0:
        raise FedkinError(f"{where} is empty (0 rows).")
    table, features = rows.with_format("arrow")[:], dict(rows.features)
    images = [name for name, kind in features.items() if isinstance(kind, datasets.Image)]
    label = _label_column(features, label, None, where, bool(images))
    y = None if label is None else table.column(label).to_numpy()
    if images:
        return decode_images(table.column(images[0]).to_pylist(), where), y, None
    others = [name for name in features if name != label]
    if len(others) == 1 and not isinstance(features[others[0]], datasets.Value | datasets.ClassLabel):
        column = table.column(others[0])
        return _stacked(column.to_pylist(), others[0], where, _is_of_bytes(column.type)), y, None
    named = {name: kind for name, kind in features.items() if name != label}
    return _with_named_classes(table.to_pandas(), named), y, label


def _is_of_bytes(kind: Any) -> bool:
    """Return whether an Arrow type is one of lists in lists of uint8, as images are."""
    depth = 0
    while (inner := getattr(kind, "storage_type", None) or getattr(kind, "value_type", None)) is not None:
        depth += not hasattr(kind, "storage_type")
        kind = inner
    return depth > 1 and str(kind) == "uint8"


def _stacked(values: list[Any], column: str, where: str, of_bytes: bool = False) -> np.ndarray[Any, Any]:
    try:
        return np.array(values, dtype=np.uint8 if of_bytes else np.float32)
    except (TypeError, ValueError) as error:
        raise FedkinError(f"Column '{column}' of {where} holds lists of different lengths, or no numbers.") from error
