"""Data sets by name, from files, and in Hugging Face form: on the hub, in a directory, or in memory.

Tables are read by pandas: CSV, Parquet and workbooks; arrays are in ``.npz``.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from fedkin.core.errors import FedkinError, in_short, listing, no_column, refuse, require, setting, unknown_name
from fedkin.core.files import check_room, room
from fedkin.data.names import READ, WORKBOOKS, ending_of, locate, missing
from fedkin.data.options import NO_LABELS, NO_OPTIONS, TableOptions
from fedkin.data.samples import folder_dataset, opened_image, pixels_of, stacked, with_embeddings
from fedkin.data.tables import (
    Dataset,
    SplitError,
    as_tensor,
    encode_labels,
    frame_to_dataset,
    usual_label,
)

if TYPE_CHECKING:
    import pandas as pd

_TEXT_COPIES = 6
"""Copies of a text that are in memory while it becomes a table: bytes, characters, and pandas' cells, 50 bytes each."""


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
    kind, path = locate(source)
    if kind in ("embedded", "file") and split != "train":
        raise SplitError(str(unknown_name(f"split of '{source}'", split, ["train"])))
    if kind == "embedded":
        data = _embedded(source, label, cluster, options)
    elif kind == "file":
        data = read_file(path, label, cluster, options)
    else:
        samples = folder_dataset(path, label) if kind == "folder" and split == "train" else None
        if samples is not None and samples.samples and (options.encoder or samples.samples.kind != "series"):
            data = replace(samples, name=source)
        else:
            data = read_huggingface(str(path), source, label, split, cluster, options)
    data = with_embeddings(data, options, f"'{source}'")
    if must_have and data.table is not None:
        refuse(options.unknown({*data.features, *data.left_out, *filter(None, (label, cluster))}))
    return data


def _embedded(name: str, label: str | None, cluster: str | None, options: TableOptions) -> Dataset:
    """Load a data set that comes with scikit-learn: digits as images, the others as tables of float32 numbers."""
    import pandas as pd
    from sklearn import datasets

    if label not in (None, NO_LABELS) or cluster is not None:
        raise FedkinError(f"'{name}' is embedded, with labels of its own, and has no column '{label or cluster}'.")

    if name == "blobs":
        x, y = datasets.make_blobs(n_samples=2000, n_features=20, centers=5, random_state=0)
        classes, features = [str(i) for i in range(5)], [f"x{i}" for i in range(20)]
    else:
        bunch = getattr(datasets, f"load_{name.replace('-', '_')}")()
        classes, features = ([str(text) for text in texts] for texts in (bunch.target_names, bunch.feature_names))
        x, y = bunch.images if name == "digits" else bunch.data, bunch.target
    samples = torch.tensor(x, dtype=torch.float32)
    labels, classes = (None, []) if label == NO_LABELS else (torch.from_numpy(y).long(), classes)
    if name == "digits":
        return Dataset(name, samples[:, None] / 16, labels, classes)
    frame = pd.DataFrame(samples.numpy(), columns=features)
    return replace(frame_to_dataset(frame, name, f"'{name}'", NO_LABELS, options=options), y=labels, classes=classes)


# Hugging Face form.


def read_huggingface(
    source: str, name: str, label: str | None, split: str, cluster: str | None, options: TableOptions
) -> Dataset:
    """Read one split of a data set that ``datasets.load_dataset`` can load, from a directory or by its name on the hub.

    `name` is the one that the user knows, `split` usually "train" or "test"; the rest is as for `rows_to_dataset`.
    Raises FedkinError if it cannot be found or loaded, or its contents are of no use.
    """
    require(f"Reading '{name}', a data set in Hugging Face layout,", "datasets", "datasets")
    import datasets

    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
    try:
        splits = datasets.load_dataset(source)  # all, which are downloaded and read together anyway
    except Exception as error:  # whatever the hub, the network or a reader inside `datasets` can raise
        reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        raise FedkinError(f"'{name}' cannot be loaded as a Hugging Face data set ({reason}).") from error
    if split not in splits:
        raise SplitError(str(unknown_name(f"split of '{name}'", split, map(str, splits))))
    return rows_to_dataset(splits[split], name, f"'{name}'", label, cluster, options)


def rows_to_dataset(
    rows: Any,
    name: str,
    origin: str,
    label: str | None = None,
    cluster: str | None = None,
    options: TableOptions = NO_OPTIONS,
    names_classes: bool = True,
) -> Dataset:
    """Convert the rows of a ``datasets.Dataset``.

    The first column of images is the samples, or the only column of lists; else all columns are a table. Labels are
    `label`, else a column of a usual name, else the only ``ClassLabel``, whose classes are those of all splits by name,
    or numbers, as who has them in memory knows them. Columns to drop and `cluster` are neither labels nor the only
    ones. Raises FedkinError if it is empty, has no such column, or images or lists differ in shape.
    """
    import datasets

    if len(rows) == 0:
        raise FedkinError(f"{origin} is empty (0 rows).")
    table, features = rows.with_format("arrow")[:], dict(rows.features)
    for column in (label, cluster):
        if column not in (None, NO_LABELS, *features):
            raise no_column(origin, str(column), features)
    kinds = {column: kind for column, kind in features.items() if column not in {*options.drop, cluster}}
    if label is None and (label := usual_label(kinds)) is None:
        of_classes = [column for column, kind in kinds.items() if isinstance(kind, datasets.ClassLabel)]
        label = of_classes[0] if len(of_classes) == 1 else None
    label = None if label == NO_LABELS else label
    names = {column: getattr(kind, "names", None) for column, kind in features.items()}
    names |= {} if label is None or names_classes else {label: None}
    images = [column for column, kind in kinds.items() if isinstance(kind, datasets.Image)]
    inputs = [column for column in kinds if column != label]
    if images:
        x = decode_images(table.column(images[0]).to_pylist(), origin)
    elif len(inputs) == 1 and not isinstance(kinds[inputs[0]], datasets.Value | datasets.ClassLabel):
        dtype = np.uint8 if "uint8" in str(kinds[inputs[0]]) else np.float32  # images of bytes become fractions
        try:
            array = np.array(table.column(inputs[0]).to_pylist(), dtype=dtype)
        except (TypeError, ValueError) as error:
            what = f"Column '{inputs[0]}' of {origin} holds lists of different lengths, or no numbers."
            raise FedkinError(what) from error
        x = as_tensor(array, origin)
    else:
        frame = table.to_pandas()
        for column, classes in names.items():
            frame[column] = frame[column] if classes is None else frame[column].map(dict(enumerate(classes)))
        return frame_to_dataset(frame, name, origin, label or NO_LABELS, cluster, options)
    coded: dict[str | None, tuple[Tensor | None, list[str]]] = {None: (None, [])}
    for column in filter(None, (label, cluster)):
        values, classes = table.column(column).to_numpy(), names[column]
        values = values if classes is None else np.where(values < 0, np.nan, values)  # -1 is no class
        y, distinct = encode_labels(values, f"Column '{column}' of {origin}")
        # Classes are in their own order, also those without rows.
        coded[column] = (y, distinct) if classes is None else (torch.tensor([*map(int, distinct)])[y], list(classes))
    are_texts = not names_classes and label is not None and str(features[label].dtype) == "string"
    clusters: Any = None if cluster is None else coded[cluster]
    return Dataset(name, x, *coded[label], clusters=clusters, are_texts=are_texts)


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


# Files.


@contextmanager
def _reading(origin: str, ending: str, reason: str = "") -> Iterator[None]:
    """Raise FedkinError with the reason, by default the library's, for whatever a library raises over damaged bytes."""
    try:
        yield
    except FedkinError:
        raise
    except Exception as error:
        raise FedkinError(f"{origin} cannot be read as {ending}{reason or f' ({in_short(error)}).'}") from error


def read_file(
    path: Path, label: str | None = None, cluster: str | None = None, options: TableOptions = NO_OPTIONS
) -> Dataset:
    """Read a ``.npz``, ``.csv``, ``.tsv`` or ``.parquet`` file, or a workbook such as ``.xlsx``.

    Those of text may be compressed, as ``.csv.gz``. `label` and `cluster` are columns or arrays of labels and clusters;
    a ``.npz`` has no names of columns, so `options` say nothing about it. Raises FedkinError if it is none of these, or
    cannot be used, with a line for each column that cannot.
    """
    ending, origin = ending_of(path), f"'{path}'"
    if ending not in READ:
        raise FedkinError(f"{origin} is a {ending or 'nameless'} file; allowed: {', '.join(READ)}.")
    if not path.is_file():
        raise FedkinError(f"{origin} is no regular file.") if path.exists() else missing(str(path))
    if ending == ".npz":
        return _read_npz(path, label, cluster)
    if ending == ".parquet":
        frame = _read_parquet(path, origin)
    elif ending in WORKBOOKS:
        frame = read_sheet(path, origin, options.sheet)
    else:
        frame = read_csv(path, origin, options.encoding)
    frame.attrs["folder"] = path.parent  # for columns that name files
    return frame_to_dataset(frame, path.name, origin, label, cluster, options)


# Text.


def read_csv(path: Path, origin: str, encoding: str = "utf-8") -> pd.DataFrame:
    """Read a CSV file, all cells as texts; the frame's ``attrs["separator"]`` has what separates them.

    Raises FedkinError if the file is no text in UTF-8, in UTF-16 with a byte order mark, or in the `encoding`; if its
    first line is no header, or rows are longer than that.
    """
    import pandas as pd

    text = _text(path, origin, encoding)
    separator = max(",;\t|", key=lambda sign: _width(text, sign))
    try:
        cells = pd.read_csv(
            io.StringIO(text), sep=separator, header=None, dtype=object, na_filter=False, skipinitialspace=True
        ).fillna("")
    except (ValueError, csv.Error) as error:
        reason = (str(error).splitlines() or ["empty"])[0].rstrip(".")  # with numbers of lines and cells, and no cell
        advice = "lines above the names of columns, or a quotation mark without an end, are the usual reasons"
        raise FedkinError(f"{origin} cannot be read as {ending_of(path)} ({reason}); {advice}.") from error
    frame = _with_names(cells, origin)
    frame.attrs["separator"] = separator
    return frame


def _width(text: str, separator: str) -> tuple[float, int]:
    """Return the share of the first rows that have as many cells as the first line, and that number; 0 for one cell."""
    widths: list[int] = []
    with suppress(csv.Error):
        rows = csv.reader(io.StringIO(text[: 1 << 20], newline=""), delimiter=separator, skipinitialspace=True)
        widths = [len(row) for row in islice(filter(None, rows), 200)]
    return (widths.count(widths[0]) / len(widths), widths[0]) if widths and widths[0] > 1 else (0.0, 1)


def _text(path: Path, origin: str, encoding: str) -> str:
    """Return the text of a file, unpacked if it is a gzip archive, whatever it is called."""
    with _reading(origin, ending_of(path)):
        check_room(origin, _TEXT_COPIES * path.stat().st_size)
        content = path.read_bytes()
        if content.startswith(b"\x1f\x8b"):
            with gzip.open(path) as packed:  # a small one may unpack to gigabytes
                content = packed.read(room() // _TEXT_COPIES + 1)
            check_room(origin, _TEXT_COPIES * len(content))
    is_utf16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    for name in ("utf-16",) if is_utf16 else ("utf-8-sig", encoding):
        with suppress(UnicodeError, LookupError):
            if "\0" not in (text := content.decode(name)):  # as in UTF-16 without a byte order mark
                return text
    raise FedkinError(
        f"{origin} cannot be read as {ending_of(path)}, for it is no text in {encoding.upper()}; "
        f"{setting('encoding', 'cp1252')} or what it is in, or save it as UTF-8, in Excel 'CSV UTF-8'."
    )


def _with_names(cells: pd.DataFrame, origin: str) -> pd.DataFrame:
    """Return cells as a table whose first row names the columns.

    What spreadsheets leave behind is dropped: empty rows, and empty columns without a name. A first column without a
    name, as R writes those of rows, is called ``index``. Raises FedkinError if the first row is no header.
    """
    import pandas as pd

    names, cells = cells.iloc[0].astype(str).str.strip(), cells.iloc[1:]
    numbers = pd.to_numeric(names.str.replace(",", "."), errors="coerce").dropna()
    are_counted = numbers.is_monotonic_increasing and numbers.is_unique  # 0, 1, 2, and years beside names, may be names
    if 2 * len(numbers) > len(names) and not (are_counted and (len(numbers) < len(names) or numbers.iloc[0] == 0)):
        raise FedkinError(f"The first line of {origin} holds numbers; it must name the columns.")
    if len(names) > 1:
        empty = (cells == "").to_numpy(dtype=bool)
        kept = (names != "").to_numpy() | ~empty.all(0)
        cells, names = cells.loc[~empty.all(1), kept], names[kept]
    of_rows = "Unnamed: 0" if "index" in set(names) else "index"  # as pandas calls it
    columns = [name or of_rows * (i == 0) for i, name in enumerate(names)]
    return cells.set_axis(columns, axis=1).reset_index(drop=True)


# Workbooks.


def read_sheet(path: Path, origin: str, name: str | None = None) -> pd.DataFrame:
    """Read a sheet of a workbook, by `name` or the only one that holds anything.

    Empty rows and columns around cells are left out. Formulas have the value they had when the file was saved; errors
    such as ``#DIV/0!`` are empty cells. Raises FedkinError if the file cannot be read, has no such sheet, or several to
    choose from.
    """
    require(f"Reading {origin}", "python_calamine", "excel")
    import pandas as pd

    with _reading(origin, ending_of(path), " (it is damaged, protected by a password, or no workbook)."):
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                check_room(origin, sum(member.file_size for member in archive.infolist()))
        sheets = pd.read_excel(path, sheet_name=None, header=None, dtype=object, engine="calamine", na_filter=False)
    cells = {key: frame.loc[(frame != "").any(axis=1), (frame != "").any()] for key, frame in sheets.items()}
    filled = {key: frame for key, frame in cells.items() if frame.size and name in (None, key)}
    if len(filled) != 1:
        holds = f"no sheet '{name}'" if name else f"{len(filled)} sheets that hold anything"
        choice = setting("sheet", next(iter(filled), "NAME"))
        listed = listing([f"'{key}'" for key in cells], 5)
        raise FedkinError(f"{origin} has {holds}, of {listed}; {choice}, for one is read.")
    frame = _with_names(next(iter(filled.values())), origin)
    return frame.mask(frame == "", None)


# Parquet and NumPy.


def _read_parquet(path: Path, origin: str) -> pd.DataFrame:
    require(f"Reading {origin}", "pyarrow", "parquet")
    import pandas as pd
    from pyarrow import parquet

    with _reading(origin, ".parquet"):  # also with two columns of one name
        about = parquet.read_metadata(path)
        unpacked = sum(about.row_group(i).total_byte_size for i in range(about.num_row_groups))
        check_room(origin, max(about.num_rows * about.num_columns * 8, unpacked))
        frame = pd.read_parquet(path)
    named = [name for name in frame.index.names if name is not None and name not in frame.columns]
    return frame.reset_index(named) if named else frame  # they are columns of the file


def _read_npz(path: Path, label: str | None, cluster: str | None) -> Dataset:
    """Read a ``.npz`` file: its array ``x``, or its only one with two or more dimensions, and labels if it has any."""
    origin = f"'{path}'"
    form = "; it must hold plain numeric arrays, as numpy.savez(path, x=..., y=...) saves them."
    with _reading(origin, ".npz", form), path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
        check_room(origin, 2 * sum(member.file_size for member in file.zip.infolist()))  # as saved, and as float32
        arrays = {name: file[name] for name in file.files}
    for name in (label, cluster):
        if name not in (None, NO_LABELS) and name not in arrays:
            raise unknown_name(f"array of labels in {origin}", name, arrays)
    label = label or usual_label(name for name in arrays if name != cluster)
    wide = [name for name, array in arrays.items() if array.ndim >= 2 and name not in (label, cluster)]
    if "x" not in arrays and len(wide) != 1:
        raise FedkinError(f"{origin} holds the arrays {', '.join(arrays) or 'none'}; name the samples' array 'x'.")
    x = as_tensor(arrays["x" if "x" in arrays else wide[0]], origin)
    coded = {}
    for name in {label, cluster} - {None, NO_LABELS}:
        coded[name] = encode_labels(arrays[str(name)], f"Array '{name}' of {origin}")
        if len(coded[name][0]) != len(x):
            raise FedkinError(f"{origin} holds {len(x)} samples, but {len(coded[name][0])} labels in '{name}'.")
    y, classes = coded.get(label, (None, []))
    return Dataset(path.name, x, y, classes, clusters=coded.get(cluster))
