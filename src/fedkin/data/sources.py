"""Data sets by name or path, and those in Hugging Face form: on the hub, in a directory, or in memory."""

from __future__ import annotations

import io
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from fedkin.core.client import Table
from fedkin.core.errors import FedkinError, no_column, refuse, require, unknown_name
from fedkin.core.files import ending_of
from fedkin.data.dataset import Dataset, SplitError, encode_labels, lacking_labels, not_labels, usual_label
from fedkin.data.files import read_file
from fedkin.data.names import EMBEDDED, HUB, READ, below_fedkin_data, expanded, missing, not_read
from fedkin.data.options import NO_LABELS, NO_OPTIONS, TableOptions
from fedkin.data.samples import folder_dataset, opened_image, pixels_of, stacked, with_embeddings
from fedkin.data.tables import as_frame, as_tensor, frame_to_dataset

if TYPE_CHECKING:
    import pandas as pd

_cache: dict[tuple[str, ...], Dataset] | None = None


def keep_read() -> None:
    """Cache the last four data sets in Hugging Face layout in this process, since decoding them takes long.

    This is for a process that runs several experiments, while nobody changes the data.
    """
    global _cache
    _cache = {}


def load(
    source: str,
    label: str | None = None,
    split: str = "train",
    cluster: str | None = None,
    options: TableOptions = NO_OPTIONS,
    must_have: bool = True,
) -> Dataset:
    """Load a data set by name or path; `label` is the column or array of labels, or "none", by default a usual name's.

    `source` is, in this order, the name of an embedded data set (`fedkin.data.names.EMBEDDED`); a ``.npz``, ``.csv``,
    ``.tsv`` or ``.parquet`` file, or a workbook; a directory in Hugging Face layout; the name of one below the
    directory in the environment variable ``FEDKIN_DATA``; or, after ``hf:``, that of one on the Hugging Face hub. It is
    the `split` of a Hugging Face data set; everything else has only ``"train"``. `cluster` is a column or array for
    `Dataset.clusters`, which is then no feature. If it `must_have` them, a table needs the columns that `options` name.
    Raises FedkinError if there is no such data set, it cannot be used, or it lacks such a column.
    """
    data = with_embeddings(_load(source, label, split, cluster, options), options, f"'{source}'")
    if must_have and data.table is not None:
        refuse(options.unknown({*data.features, *data.left_out, *filter(None, (label, cluster))}))
    return data


def _load(source: str, label: str | None, split: str, cluster: str | None, options: TableOptions) -> Dataset:
    path, is_hub = expanded(source), source.startswith(HUB)
    if source in EMBEDDED or (ending_of(path) in READ and not path.is_dir() and not is_hub):
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
    if is_hub or not path.exists():
        mirror = below_fedkin_data(source.removeprefix(HUB))
        if mirror is None and not is_hub:
            raise missing(source, path)
        return _read_huggingface(str(mirror or source.removeprefix(HUB)), source, label, split, cluster, options)
    if not path.is_dir():
        raise not_read(source, ", or a directory")
    samples = folder_dataset(path, label) if split == "train" else None
    if samples is not None and samples.samples and (options.encoder or samples.samples.kind != "series"):
        return replace(samples, name=source)
    if not any(path.rglob("*")):
        raise FedkinError(f"'{source}' holds no files; one ({', '.join(READ)}) per client is needed.")
    return _read_huggingface(str(path), source, label, split, cluster, options)


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


def clients_in_one(
    source: Any, column: str, label: str | None = None, options: TableOptions = NO_OPTIONS
) -> list[Dataset]:
    """Load one file, and return a data set per client, in order of the names in `column`, which is then no feature.

    `source`, `label` and `options` are as for `load`. Raises FedkinError if it cannot be used, is a folder, or has no
    such column, or if a row has no name of a client.
    """
    if not isinstance(source, str | Path) or expanded(str(source)).is_dir():
        what = f"{source!r} is a folder" if isinstance(source, str | Path) else "each client has its own"
        raise FedkinError(f"'simulation.column' is '{column}', and is for one file of all clients; {what}.")
    data = load(str(source), label, cluster=column, options=options)
    if label is None and (features := not_labels([data])):
        data = load(str(source), cluster=column, options=replace(options, features=[*options.features, *features]))
    assert data.clusters is not None
    index, names = data.clusters
    return [replace(data.rows(index == i), name=name, clusters=None) for i, name in enumerate(names)]


# Hugging Face form.


def _read_huggingface(
    place: str, source: str, label: str | None, split: str, cluster: str | None, options: TableOptions
) -> Dataset:
    """Read a data set in Hugging Face layout, or copy it from the cache."""
    if _cache is None:
        return read_huggingface(place, source, label, split, cluster, options)
    key = (place, str(label), split, str(cluster), repr(options))
    data = _cache.pop(key, None) or read_huggingface(place, source, label, split, cluster, options)
    _cache[key] = data  # the last one read is the last to go
    while len(_cache) > 4:
        _cache.pop(next(iter(_cache)))
    return replace(data.rows(torch.ones(len(data), dtype=torch.bool)), name=source)


def read_huggingface(
    source: str, name: str, label: str | None, split: str, cluster: str | None, options: TableOptions
) -> Dataset:
    """Read one split of a data set that ``datasets.load_dataset`` can load, from a directory or by its name on the hub.

    Samples are those of `read_rows`. `name` is the one that the user knows, `split` usually "train" or "test", and
    `cluster` a column for `Dataset.clusters`. Raises FedkinError if it cannot be found or loaded, or its contents are
    of no use.
    """
    require(f"Reading '{name}', a data set in Hugging Face layout,", "datasets", "datasets")
    import datasets

    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
    origin = f"'{name}'"
    try:
        rows = datasets.load_dataset(source, split=split)
    except Exception as error:  # whatever the hub, the network or a reader inside `datasets` can raise
        reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        kind = SplitError if reason.startswith("Unknown split") else FedkinError
        raise kind(f"{origin} cannot be loaded as split '{split}' of a Hugging Face data set ({reason}).") from error
    if cluster is not None and cluster not in rows.features:
        raise no_column(origin, cluster, rows.features)
    # Labels of a directory are read below by the names of classes, also of those that this split lacks.
    x, _, label = read_rows(rows, origin, label, {*options.drop, cluster})
    if (frame := as_frame(x)) is not None:
        for column in filter(None, (label, cluster)):
            frame[column] = _named(frame[column], rows.features[column])
        return frame_to_dataset(frame, name, origin, label or NO_LABELS, cluster, options)
    y, classes = (None, []) if label is None else _labels(rows, label, origin)
    clusters = None if cluster is None else _labels(rows, cluster, origin)
    x = x if isinstance(x, Tensor) else as_tensor(x, origin)  # pictures are as clients hold them
    return Dataset(name, x, y, classes, clusters=clusters)


def read_rows(
    rows: Any, origin: str, label: str | None = None, excluded: Collection[str | None] = ()
) -> tuple[Any, Any, str | None]:
    """Return samples, labels, and the name of the labels' column, which is among the samples if they are a DataFrame.

    The first column of images is the samples, or the only column of lists; else all columns are a table. Labels are
    `label`, else a column of a usual name, else the only ``ClassLabel``, else, beside images, the only integers; those
    of a ``ClassLabel`` are numbers. Columns of `excluded` are neither labels nor the only ones. Raises FedkinError
    if it is empty, has no `label`, or images or lists differ in shape.
    """
    import datasets

    if len(rows) == 0:
        raise FedkinError(f"{origin} is empty (0 rows).")
    table, features = rows.with_format("arrow")[:], dict(rows.features)
    kinds = {name: kind for name, kind in features.items() if name not in excluded}
    images = [name for name, kind in kinds.items() if isinstance(kind, datasets.Image)]
    if label not in (None, NO_LABELS, *features):
        raise no_column(origin, str(label), features)
    if label is None and (label := usual_label(kinds)) is None:
        named = [name for name, kind in kinds.items() if isinstance(kind, datasets.ClassLabel)]
        numbers = [name for name, kind in kinds.items() if images and "int" in str(getattr(kind, "dtype", ""))]
        label = next((names[0] for names in (named, numbers) if len(names) == 1), None)
    label = None if label == NO_LABELS else label
    y = None if label is None else table.column(label).to_numpy()
    if images:
        return decode_images(table.column(images[0]).to_pylist(), origin), y, label
    names = [name for name in kinds if name != label]
    if len(names) == 1 and not isinstance(kinds[names[0]], datasets.Value | datasets.ClassLabel):
        kind = np.uint8 if "uint8" in str(kinds[names[0]]) else np.float32  # images of bytes become fractions
        try:
            return np.array(table.column(names[0]).to_pylist(), dtype=kind), y, label
        except (TypeError, ValueError) as error:
            raise FedkinError(
                f"Column '{names[0]}' of {origin} holds lists of different lengths, or no numbers."
            ) from error
    frame = table.to_pandas()
    for name in names:
        frame[name] = _named(frame[name], features[name])
    return frame, y, label


def _named(cells: pd.Series, kind: Any) -> pd.Series:
    """Return a column, of a ``ClassLabel`` with the names of classes instead of their numbers."""
    names = getattr(kind, "names", None)
    return cells if names is None else cells.map(dict(enumerate(names)))


def _labels(rows: Any, column: str, origin: str) -> tuple[Tensor, list[str]]:
    """Return labels as indices into the names of classes; of a ``ClassLabel`` in its order, also those without rows."""
    cells = rows.select_columns([column]).with_format("arrow")[:].column(column)
    names = getattr(rows.features[column], "names", None)
    if names is None:
        return encode_labels(cells.to_numpy(), f"Column '{column}' of {origin}")
    y = torch.tensor(cells.fill_null(-1).to_numpy(), dtype=torch.int64)
    if missing := int((y < 0).sum()):
        raise lacking_labels(f"Column '{column}' of {origin}", missing, len(y))
    return y, list(names)


def decode_images(files: Sequence[Mapping[str, Any] | None], origin: str) -> Tensor:
    """Decode images of one size to float32 ``(n, channels, height, width)`` in [0, 1].

    Grey images have one channel; if any of them is in colour, all become RGB. Each file has its content as ``bytes``,
    or its ``path``. `origin` names the source, at the beginning of error messages.
    """
    pictures = []
    for row, file in enumerate(files):
        if file is None:
            raise FedkinError(f"{origin} has no image in row {row}.")
        content = Path(file["path"]) if file["bytes"] is None else io.BytesIO(file["bytes"])
        pictures.append(pixels_of(opened_image(content, f"Row {row} of {origin}")))
    return stacked(pictures, origin)
