"""Data sets by name or path, and those in Hugging Face form: on the hub, in a directory, or in memory."""

from __future__ import annotations

import io
import sys
from collections import OrderedDict
from collections.abc import Mapping, Sequence
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
from fedkin.data.samples import folder_dataset, with_embeddings
from fedkin.data.tables import frame_to_dataset

if TYPE_CHECKING:
    import pandas as pd

_CACHE: OrderedDict[tuple[str, ...], Dataset] | None = None


def keep_read() -> None:
    """Cache the last four data sets in Hugging Face layout in this process, since decoding them takes long.

    This is for a process that runs several experiments, while nobody changes the data.
    """
    global _CACHE
    _CACHE = OrderedDict()


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
        ``hf:`` before it, such a name is looked for on the Hugging Face hub if it is not below that.
    label : str, optional
        The column or array of labels, if it does not have a usual name; "none" if there are no labels.
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
    data = with_embeddings(_load(source, label, split, cluster, options), options, f"'{source}'")
    if must_have and data.table is not None:
        refuse(options.unknown({*data.features, *data.left_out, *filter(None, (label, cluster))}))
    return data


def _load(source: str, label: str | None, split: str, cluster: str | None, options: TableOptions) -> Dataset:
    path, mirrored = expanded(source), below_fedkin_data(source.removeprefix(HUB))
    if source in EMBEDDED or (ending_of(path) in READ and not path.is_dir() and not source.startswith(HUB)):
        if split != "train":
            raise SplitError(str(unknown_name(f"split of '{source}'", split, ["train"])))
        if source not in EMBEDDED:
            return read_file(path, label, cluster, options)
        if label not in (None, NO_LABELS) or cluster is not None:
            raise FedkinError(
                f"'{source}' is embedded, with labels of its own, and has no column '{label or cluster}'."
            )
        data = _embedded(source, options)
        return replace(data, y=None, classes=[]) if label == NO_LABELS else data
    if path.is_dir() and not source.startswith(HUB):
        listed = folder_dataset(path, label) if split == "train" else None
        if listed is not None and listed.samples and (options.encoder or listed.samples.kind != "series"):
            return replace(listed, name=source)
        try:
            return _read_cached(str(path), source, label, split, cluster, options)
        except FedkinError as error:
            if not any(path.rglob("*")):
                raise FedkinError(
                    f"'{source}' holds no files; one ({', '.join(READ)}) per client is needed."
                ) from error
            if not (names := files_of_clients(source)):
                raise
            advice = "If it has one file per client, scenario 'files' reads it as such; else give one file, such as"
            raise type(error)(f"{error} {advice} '{path / names[0]}'.") from error
    if path.is_file():
        raise not_read(source, ", or a directory")
    if path.exists():
        raise FedkinError(f"'{source}' is no regular file; allowed: {', '.join(READ)}, or a directory.")
    if mirrored is None and not source.startswith(HUB):
        raise missing(source, path)
    return _read_cached(str(mirrored or source.removeprefix(HUB)), source, label, split, cluster, options)


def _embedded(name: str, options: TableOptions) -> Dataset:
    """Load a data set that comes with scikit-learn: digits as images, the others as tables of float32 numbers."""
    from sklearn import datasets

    if name == "blobs":
        x, y = datasets.make_blobs(n_samples=2000, n_features=20, centers=5, random_state=0)
        classes, features = [str(i) for i in range(5)], [f"x{i}" for i in range(20)]
    else:
        bunch = getattr(datasets, f"load_{name.replace('-', '_')}")()
        classes, features = ([str(text) for text in texts] for texts in (bunch.target_names, bunch.feature_names))
        x, y = bunch.images if name == "digits" else bunch.data, bunch.target
    samples, labels = torch.tensor(x, dtype=torch.float32), torch.from_numpy(y).long()
    if name == "digits":
        return Dataset(name, samples[:, None] / 16, labels, classes)
    columns = [i for i, feature in enumerate(features) if feature not in options.drop]
    table = replace(Table.of_numbers(samples[:, columns], [features[i] for i in columns]), id=options.id)
    dropped = tuple(feature for feature in features if feature in options.drop)
    return Dataset(name, table.values, labels, classes, table, left_out=dropped)


def _read_cached(
    place: str, source: str, label: str | None, split: str, cluster: str | None, options: TableOptions
) -> Dataset:
    """Read a data set in Hugging Face layout, or copy it from the cache."""
    if _CACHE is None:
        return read_huggingface(place, source, label, split, cluster, options)
    key = (place, str(label), split, str(cluster), repr(options))
    if key not in _CACHE:
        _CACHE[key] = read_huggingface(place, source, label, split, cluster, options)
    _CACHE.move_to_end(key)
    while len(_CACHE) > 4:
        _CACHE.popitem(last=False)
    return replace(_CACHE[key].rows(torch.ones(len(_CACHE[key]), dtype=torch.bool)), name=source)


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
            f"{f'{source!r} is a folder' if isinstance(source, str | Path) else 'each client has its own'}."
        )
    data = load(str(source), label, cluster=column, options=options)
    if label is None and (features := not_labels([data])):
        data = load(str(source), cluster=column, options=replace(options, features=[*options.features, *features]))
    assert data.clusters is not None
    index, names = data.clusters
    return [replace(data.rows(index == i), name=name, clusters=None) for i, name in enumerate(names)]


# Hugging Face form.


def read_huggingface(
    source: str, name: str, label: str | None, split: str, cluster: str | None, options: TableOptions
) -> Dataset:
    """Read one split of a data set that ``datasets.load_dataset`` can load, from a directory or by its name on the hub.

    If a column holds images, the first such column is `x` and all others but the label's and the cluster's are ignored.
    Else all columns but these are those of a table. By default the `label` is the column of a usual name, see
    `usual_label`, else the only ``ClassLabel`` column, else, with images, the only integer column, else none. `name` is
    the one that the user knows, `split` usually "train" or "test", and `cluster` a column for `Dataset.clusters`.
    Raises FedkinError if it cannot be found or loaded, or its contents are of no use.
    """
    require(f"Reading '{name}', a data set in Hugging Face layout,", "datasets", "datasets")
    import datasets

    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
    origin = f"'{name}'"
    try:
        rows = datasets.load_dataset(source, split=split)
        table = rows.with_format("arrow")[:]
    except Exception as error:  # whatever the hub, the network or a reader inside `datasets` can raise
        reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        kind = SplitError if reason.startswith("Unknown split") else FedkinError
        raise kind(f"{origin} cannot be loaded as split '{split}' of a Hugging Face data set ({reason}).") from error
    if len(rows) == 0:
        raise FedkinError(f"{origin} is empty (0 rows in split '{split}').")
    features = {column: kind for column, kind in rows.features.items() if column not in options.drop}
    images = _images(features)
    if cluster is not None and cluster not in features:
        raise no_column(origin, cluster, features)
    label = _label_column(features, label, cluster, origin, bool(images))
    if not images:
        frame = _with_named_classes(table.to_pandas(), rows.features)
        return frame_to_dataset(frame, name, origin, label or NO_LABELS, cluster, options)
    y, classes = (None, []) if label is None else _labels(table, features, label, origin)
    clusters = None if cluster is None else _labels(table, features, cluster, origin)
    return Dataset(name, decode_images(table.column(images[0]).to_pylist(), origin), y, classes, clusters=clusters)


def read_rows(rows: Any, origin: str, label: str | None = None) -> tuple[Any, Any, str | None]:
    """Return samples, labels, and the name of the labels' column if the samples are a DataFrame that still has it.

    The first column of images is the samples, or the only column of lists; else all columns but the labels are a table.
    Labels are a column of a usual name, or the only ``ClassLabel``; of these, numbers. Raises FedkinError if it is
    empty, has no `label`, or images or lists differ in shape.
    """
    import datasets

    if len(rows) == 0:
        raise FedkinError(f"{origin} is empty (0 rows).")
    table, features = rows.with_format("arrow")[:], dict(rows.features)
    images = _images(features)
    label = _label_column(features, label, None, origin, bool(images))
    y = None if label is None else table.column(label).to_numpy()
    if images:
        return decode_images(table.column(images[0]).to_pylist(), origin), y, None
    names = [name for name in features if name != label]
    if len(names) == 1 and not isinstance(features[names[0]], datasets.Value | datasets.ClassLabel):
        column = table.column(names[0])
        try:
            kind = np.uint8 if _is_of_bytes(column.type) else np.float32
            return np.array(column.to_pylist(), dtype=kind), y, None
        except (TypeError, ValueError) as error:
            raise FedkinError(
                f"Column '{names[0]}' of {origin} holds lists of different lengths, or no numbers."
            ) from error
    return _with_named_classes(table.to_pandas(), {name: features[name] for name in names}), y, label


def _is_of_bytes(kind: Any) -> bool:
    """Return whether an Arrow type is one of lists in lists of uint8, as images are."""
    depth = 0
    while (inner := getattr(kind, "storage_type", None) or getattr(kind, "value_type", None)) is not None:
        depth += not hasattr(kind, "storage_type")
        kind = inner
    return depth > 1 and str(kind) == "uint8"


def _images(features: Mapping[str, Any]) -> list[str]:
    import datasets

    return [name for name, kind in features.items() if isinstance(kind, datasets.Image)]


def _with_named_classes(frame: pd.DataFrame, features: Mapping[str, Any]) -> pd.DataFrame:
    """Return a table whose ``ClassLabel`` columns hold the names of classes instead of their numbers."""
    import datasets

    for column, kind in features.items():
        if isinstance(kind, datasets.ClassLabel):
            frame[column] = frame[column].map(dict(enumerate(kind.names)))
    return frame


def _label_column(
    features: Mapping[str, Any], label: str | None, cluster: str | None, origin: str, images: bool
) -> str | None:
    """Return the name of the labels' column: `label`, a usual name, the only ``ClassLabel``, or ``None``."""
    import datasets

    if label is not None:
        if label not in (NO_LABELS, *features):
            raise no_column(origin, label, features)
        return None if label == NO_LABELS else label
    features = {name: kind for name, kind in features.items() if name != cluster}
    if (usual := usual_label(features)) is not None:
        return usual
    candidates = [name for name, kind in features.items() if isinstance(kind, datasets.ClassLabel)]
    if not candidates and images:
        candidates = [name for name, kind in features.items() if "int" in str(getattr(kind, "dtype", ""))]
    return candidates[0] if len(candidates) == 1 else None


def _labels(table: Any, features: Mapping[str, Any], label: str, origin: str) -> tuple[Tensor, list[str]]:
    import datasets

    column, kind, called = table.column(label), features[label], f"Column '{label}' of {origin}"
    if not isinstance(kind, datasets.ClassLabel):
        return encode_labels(column.to_numpy(), called)
    y = torch.tensor(column.fill_null(-1).to_numpy(), dtype=torch.int64)
    if lacking := int((y < 0).sum()):
        raise lacking_labels(called, lacking, len(y))
    return y, list(kind.names)


def decode_images(files: Sequence[Mapping[str, Any] | None], origin: str) -> Tensor:
    """Decode images of one size to float32 ``(n, channels, height, width)`` in [0, 1].

    Grey images have one channel; if any of them is in colour, all become RGB. Each file has its content as ``bytes``,
    or its ``path``. `origin` names the source, at the beginning of error messages.
    """
    pixels = [_decode(file, row, origin) for row, file in enumerate(files)]
    height, width = pixels[0].shape[:2]
    for row, image in enumerate(pixels):
        if image.shape[:2] != (height, width):
            sizes = f"{image.shape[0]} x {image.shape[1]} where row 0 is {height} x {width}"
            raise FedkinError(f"{origin} has images of different sizes: row {row} is {sizes}.")
    if any(image.shape[2] == 3 for image in pixels):
        pixels = [np.broadcast_to(image, (height, width, 3)) for image in pixels]
    stacked = torch.from_numpy(np.stack(pixels))
    return stacked.permute(0, 3, 1, 2).to(torch.float32, memory_format=torch.contiguous_format).div_(255)


def _decode(file: Mapping[str, Any] | None, row: int, origin: str) -> npt.NDArray[np.uint8]:
    from PIL import Image

    if file is None:
        raise FedkinError(f"{origin} has no image in row {row}.")
    try:
        with Image.open(file["path"] if file["bytes"] is None else io.BytesIO(file["bytes"])) as image:
            if image.mode[:1] in ("I", "F"):
                raise FedkinError(
                    f"{origin} has an image of more than 8 bits per channel in row {row} (mode {image.mode})."
                )
            mode = "L" if image.mode in ("1", "L", "LA") else "RGB"
            pixels = np.asarray(image if image.mode == mode else image.convert(mode))
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise FedkinError(f"{origin} has an image that cannot be decoded in row {row}.") from error
    return pixels[..., None] if pixels.ndim == 2 else pixels
