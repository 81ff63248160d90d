"""Samples before they are numbers: found in folders and lists, read, and encoded once.

A client may be a list of texts, of Pillow images, of paths or of series, or a folder of them; in a folder of folders
the inner ones are labels. They stay as they are until an encoder makes embeddings of them, which are kept beside the
data by the encoder's fingerprint and a hash of each sample.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save
from torch import Tensor

from fedkin.core.client import SampleEncoder, SampleKind, Samples, Table, TextColumn
from fedkin.core.errors import FedkinError, in_short, setting
from fedkin.core.files import FileError, write_secret
from fedkin.data.names import samples_in
from fedkin.data.options import NO_LABELS, TableOptions
from fedkin.data.tables import Dataset, encode_labels

KEPT = ".fedkin"
"""Folder of embeddings beside the samples."""
SUGGESTED: dict[SampleKind, str] = {
    "images": "timm:vit_small_patch14_dinov2.lvd142m",
    "texts": "sentence-transformers:all-MiniLM-L6-v2",
    "series": "rocket",
}
"""Encoder of each kind for those who have none."""


def folder_dataset(folder: Path, label: str | None = None) -> Dataset | None:
    """Return a folder's samples, still to be read, with the names of inner folders as labels; ``None`` if it has none.

    Raises FedkinError if it holds samples of several kinds.
    """
    by_kind = {kind: names for kind, names in samples_in(folder).items() if names}
    if len(by_kind) > 1:
        raise FedkinError(f"'{folder}' holds {' and '.join(by_kind)}; a client's samples are of one kind.")
    for kind, names in by_kind.items():
        labels = [Path(name).parent.name for name in names]
        y, classes = encode_labels(labels, f"'{folder}'") if all(labels) and label != NO_LABELS else (None, [])
        samples = Samples(kind, [folder / name for name in names])
        return Dataset(folder.name, torch.zeros(len(names), 0), y, classes, samples=samples)
    return None


# Encoding.


def with_embeddings(data: Dataset, options: TableOptions, origin: str) -> Dataset:
    """Return a data set whose samples, if they are to be encoded, are embeddings, float32 ``(n, width)``.

    Images of one small size, and arrays, stay what they are without an encoder. A table's rows of numbers are series
    where the encoder takes these. `origin` names the data at the beginning of error messages. Raises FedkinError if
    samples that are no numbers have no encoder, it is of other samples, or one cannot be read.
    """
    encoder, samples = options.encoder, data.samples
    if data.table is not None and data.table.texts:
        if encoder is None and not data.table.columns:
            return _without_encoder(data, next(iter(data.table.texts.values())).texts, origin)
        return _with_texts(data, data.table, encoder, origin)
    if encoder is None:
        return data if samples is None or samples.encoder else _without_encoder(data, samples, origin)
    if samples is None and encoder.fingerprint():  # a function of arrays is one of the method's features
        samples = _of_numbers(data, encoder.takes("images"))
    if samples is None or samples.encoder:
        return data
    if not encoder.takes(samples.kind):
        raise FedkinError(f"{origin} holds {samples.kind}, which features '{encoder.name}' are not of.")
    x = encoded(samples, encoder, origin)
    return replace(data, x=x, table=None, samples=replace(samples, encoder=encoder.fingerprint() or encoder.name))


def _with_texts(data: Dataset, table: Table, encoder: SampleEncoder | None, origin: str) -> Dataset:
    """Return a data set whose table has embeddings of its texts and files; of a single such column these alone."""
    columns = {} if encoder is None else {n: c for n, c in table.texts.items() if encoder.takes(c.texts.kind)}
    if encoder is None or not columns:
        return data
    how, texts = encoder.fingerprint() or encoder.name, dict(table.texts)
    for name, column in columns.items():
        filled = [row for row, text in enumerate(column.texts.items) if text]
        embeddings = encoded(column.texts.rows(torch.tensor(filled)), encoder, origin) if filled else torch.zeros(0, 1)
        rows = torch.full((len(column.texts), embeddings.shape[1]), torch.nan)
        rows[filled] = embeddings
        texts[name] = TextColumn(replace(column.texts, encoder=how), rows)
    if len(texts) == 1 and not table.columns and not bool(rows.isnan().any()):
        return replace(data, x=rows, table=None, samples=texts[name].texts)
    return replace(data, table=replace(table, texts=texts))


def _of_numbers(data: Dataset, may_be_images: bool) -> Samples | None:
    """Return arrays as images, if they may be, or series, and so a table of numbers."""
    if data.table is not None:
        plain = all(column.kind == "number" for column in data.table.columns)
        return Samples("series", list(data.table.values.float().numpy())) if plain else None
    if may_be_images and data.x.ndim == 4 and data.x.shape[1] in (1, 3, 4) and data.x.shape[2] > 1:
        return Samples("images", list(data.x.numpy()))
    return Samples("series", list((data.x.flatten(1, 2) if data.x.ndim == 4 else data.x).numpy()))


def _without_encoder(data: Dataset, samples: Samples, origin: str) -> Dataset:
    if samples.kind == "images":
        pictures = [pixels_of(content(item, "images", origin)) for item in samples.items]
        sizes = {picture.shape[1:] for picture in pictures}
        # Up to 64 pixels a side, as of handwriting and clothes, images are compared by their edges.
        if len(sizes) == 1 and max(*sizes.pop()) <= 64:
            return replace(data, x=stacked(pictures, origin), samples=None)
    how = setting("encode", SUGGESTED[samples.kind])
    raise FedkinError(f"{origin} holds {samples.kind}, which an encoder turns into numbers; {how}.")


def encoded(samples: Samples, encoder: SampleEncoder, origin: str) -> Tensor:
    """Return embeddings of samples, float32 ``(n, width)``; those made before are read from beside the data.

    Equal samples are encoded once. Raises FedkinError if a sample cannot be read, or the encoder fails.
    """
    how = encoder.fingerprint()
    hashes = [_hash_of(item, origin) for item in samples.items]
    path = _place(samples.items[0], encoder.folder, how)
    embeddings: dict[str, Tensor] = {}
    if path is not None and path.is_file():
        with suppress(Exception):  # a damaged file is made again
            embeddings = load_file(path)
    missing = {digest: item for digest, item in zip(hashes, samples.items, strict=True) if digest not in embeddings}
    if missing:
        try:
            rows = encoder.encode(samples.kind, (content(item, samples.kind, origin) for item in missing.values()))
        except FedkinError:
            raise
        except Exception as error:  # whatever a user's function raises
            raise FedkinError(
                f"Features '{encoder.name}' fail on {samples.kind} of {origin}: {in_short(error)}.",
                public=f"Features '{encoder.name}' fail on a site's {samples.kind}; its log says more.",
            ) from error
        if len(rows) != len(missing):
            raise FedkinError(f"Features '{encoder.name}' turned {len(missing)} {samples.kind} into {len(rows)} rows.")
        embeddings |= dict(zip(missing, rows, strict=True))
        if path is not None:
            with suppress(FileError):  # beside data that may only be read they are made again each time
                write_secret(path, save({name: row.contiguous().clone() for name, row in embeddings.items()}))
    return torch.stack([embeddings[digest] for digest in hashes])


def _place(first: Any, folder: str | None, how: str) -> Path | None:
    """Return the file of embeddings by the fingerprint `how`: beside the folder of the first sample, or in `folder`."""
    if not how or (folder is None and not isinstance(first, Path)):
        return None
    parent, client = (Path(folder), "samples") if folder else (first.parent.parent, first.parent.name)
    return parent / KEPT / f"{client}-{hashlib.sha256(how.encode()).hexdigest()[:16]}.safetensors"


def _hash_of(item: Any, origin: str) -> str:
    if isinstance(item, Path):
        content = _bytes(item, origin)
    elif hasattr(item, "getbands"):
        content = f"{item.mode} {item.size}".encode() + item.tobytes()
    elif isinstance(item, str):
        content = item.encode(errors="surrogatepass")
    else:
        array = np.ascontiguousarray(item)
        content = f"{array.dtype} {array.shape}".encode() + array.tobytes()
    return hashlib.sha256(content).hexdigest()


# Reading.


def _bytes(path: Path, origin: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise FedkinError(f"'{path}' of {origin} cannot be read ({error.strerror}).") from error


def content(item: Any, kind: SampleKind, origin: str) -> Any:
    """Return a sample as encoders take it: a colour or grey Pillow image, a text, or a series ``(channels, steps)``.

    Arrays of images stay arrays. Raises FedkinError if a file cannot be read as what it is.
    """
    if kind == "texts":
        return _bytes(item, origin).decode("utf-8", errors="replace") if isinstance(item, Path) else item
    if kind == "images":
        return opened_image(item, f"'{item}' of {origin}") if isinstance(item, Path) else item
    series = np.atleast_2d(np.array(_series(item, origin) if isinstance(item, Path) else item, dtype=np.float32))
    if series.ndim != 2 or not series.size or not np.isfinite(series).all():
        raise FedkinError(f"A series of {origin} has the shape {series.shape}; it should be numbers, all finite.")
    return series


def opened_image(file: Path | BytesIO, origin: str) -> Any:
    """Return an image of Pillow's, in colour or grey, the right way up; `origin` names it in error messages."""
    from PIL import Image, ImageOps

    try:
        with Image.open(file) as image:
            mode = image.mode
            image.load()  # what follows may need no copy, and the file is closed
            upright = ImageOps.exif_transpose(image) if "exif" in image.info else image
            colours = "L" if mode in ("1", "L", "LA") else "RGB"
            upright = upright if mode == colours else upright.convert(colours)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise FedkinError(f"{origin} is an image that cannot be decoded.") from error
    if mode[0] in "IF":  # of more bits conversion cuts off all but the darkest values
        raise FedkinError(f"{origin} is an image of more than 8 bits per channel (mode {mode}).")
    return upright


def pixels_of(image: Any) -> NDArray[Any]:
    """Return a Pillow image as uint8 ``(channels, height, width)``, three channels or one, and an array as float32."""
    if not hasattr(image, "convert"):
        return np.asarray(image, dtype=np.float32)
    mode = "L" if image.mode in ("1", "L", "LA") else "RGB"
    pixels = np.asarray(image if image.mode == mode else image.convert(mode))
    return pixels[None] if mode == "L" else pixels.transpose(2, 0, 1)


def stacked(pictures: Sequence[NDArray[Any]], origin: str) -> Tensor:
    """Return images of one size as float32 ``(n, channels, height, width)``, bytes as fractions.

    They have three channels if any has colours.
    """
    for row, picture in enumerate(pictures):
        if picture.shape[1:] != pictures[0].shape[1:]:
            sizes = "{} x {} where row 0 is {} x {}".format(*picture.shape[1:], *pictures[0].shape[1:])
            raise FedkinError(f"{origin} has images of different sizes: row {row} is {sizes}.")
    shape = (max(len(picture) for picture in pictures), *pictures[0].shape[1:])
    x = np.empty((len(pictures), *shape), dtype=pictures[0].dtype)  # numpy.stack would keep the channels last in memory
    for row, picture in zip(x, pictures, strict=True):
        row[:] = picture
    return torch.from_numpy(x).float().div_(255 if x.dtype == np.uint8 else 1)


def _series(path: Path, origin: str) -> NDArray[Any]:
    """Return the series in a file, ``(channels, steps)``: a recording, an array, or columns of numbers by step."""
    try:
        if path.suffix.lower() == ".wav":
            from scipy.io import wavfile

            return np.asarray(wavfile.read(path)[1], dtype=np.float32).T
        if path.suffix.lower() == ".npy":
            return np.asarray(np.load(path, allow_pickle=False))
        import pandas as pd

        frame = pd.read_csv(path, header=None)
        has_names = not pd.to_numeric(frame.iloc[0], errors="coerce").notna().all()
        return np.asarray(frame.iloc[int(has_names) :].to_numpy(dtype=np.float32).T)
    except (OSError, ValueError) as error:
        raise FedkinError(f"'{path}' of {origin} cannot be read as a series ({in_short(error)}).") from error


def thumbnails(samples: Samples, rows: Sequence[int], side: int) -> NDArray[Any]:
    """Return some images as float32 ``(n, side, side, 3)`` in [0, 1], cut to squares."""
    from PIL import Image, ImageOps

    squares = []
    for row in rows:
        pixels = pixels_of(content(samples.items[row], "images", "the data"))
        colours = np.broadcast_to(pixels[:3], (3, *pixels.shape[1:])).transpose(1, 2, 0)
        colours = colours if colours.dtype == np.uint8 else (255 * colours).astype(np.uint8)
        image = ImageOps.fit(Image.fromarray(np.ascontiguousarray(colours)), (side, side))
        squares.append(np.asarray(image, dtype=np.float32) / 255)
    return np.stack(squares)
