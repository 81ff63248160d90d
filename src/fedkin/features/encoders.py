"""Encoders: pretrained networks, and random convolutions of series, that turn samples into embeddings.

An encoder is named by a spec: ``"rocket"``, ``"timm:NAME"``, ``"sentence-transformers:NAME"``, ``"onnx:FILE"`` or
``"torch:FILE"``; ``"embedded"`` is for samples that are embeddings already. Embeddings are rows of length 1, which
clusters compare by cosine; samples reach an encoder as they are, so their columns are not scaled before. A real site
computes only by encoders that its own file lists.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import conv1d, interpolate, normalize, pad

from fedkin.core.errors import FedkinError, in_short, require
from fedkin.core.tasks import check_listed

Encoder = Callable[[Tensor], Tensor]
"""From samples float32 ``(n, *shape)`` to float32 ``(n, width)``."""

ROCKET, EMBEDDED = "rocket", "embedded"
TEXTS = "sentence-transformers:"
_PREFIXES = ("timm:", "onnx:", "torch:", TEXTS)
_BATCH = 32
"""Samples that a network encodes at once: images of 224 x 224 take some 20 MB each inside a network."""
_KERNELS = 500
"""Random convolutions; of 100 to 10,000 that were tried by Dempster et al. (2020), a few hundred lose little."""
_LENGTHS = (7, 9, 11)
"""Lengths of kernels (Dempster et al. 2020, section 3.1)."""


def is_encoder(name: str) -> bool:
    """Return whether features of this name are an encoder's."""
    return name in (ROCKET, EMBEDDED) or name.startswith(_PREFIXES)


def encoder_of(spec: str) -> Encoder:
    """Return the encoder that a spec names; it is loaded once in a process.

    Raises FedkinError if its library is not installed, its file is absent or cannot be read, or, at a site, the site's
    own file does not list the spec.
    """
    if spec == ROCKET:
        return rocket
    if spec == EMBEDDED:
        return lambda x: normalize(x.flatten(1), dim=1)
    if spec.startswith(TEXTS):
        raise FedkinError(f"Features '{spec}' are of texts; give each client as a list of them.")
    check_listed(spec)
    return _loaded(spec)


@lru_cache(maxsize=2)  # networks are large, and a run has one
def _loaded(spec: str) -> Encoder:
    kind, _, name = spec.partition(":")
    load = {"timm": _timm, "onnx": _onnx, "torch": _torch}[kind]
    return _in_batches(load(name))


def encode_texts(spec: str, texts: Sequence[str]) -> Any:
    """Return the embeddings of texts, ``(n, width)``, by a network of sentence-transformers.

    Its weights are downloaded once, or read from a folder that is named instead. Raises FedkinError if the library is
    not installed, or the network cannot be loaded.
    """
    require(f"Features '{spec}'", "sentence_transformers", "text")
    check_listed(spec)
    return _text_network(spec).encode(list(texts), show_progress_bar=False)


@lru_cache(maxsize=1)
def _text_network(spec: str) -> Any:
    from sentence_transformers import SentenceTransformer

    try:
        return SentenceTransformer(spec.removeprefix(TEXTS))
    except Exception as error:  # whatever the download or the name ends in
        raise FedkinError(f"Features '{spec}' cannot be loaded: {in_short(error)}.") from error


def _in_batches(encode: Encoder) -> Encoder:
    def encoded(x: Tensor) -> Tensor:
        with torch.no_grad():
            rows = [encode(batch.float()) for batch in x.split(_BATCH)]
        return normalize(torch.cat(rows).flatten(1).float(), dim=1)

    return encoded


def _timm(name: str) -> Encoder:
    """Load a network of timm without its classifier; weights are downloaded once, and images prepared as for it."""
    require("Features 'timm:...'", "timm", "images")
    import timm

    try:
        network: Any = timm.create_model(name, pretrained=True, num_classes=0).eval()
    except Exception as error:  # timm raises whatever the download or the name ends in
        raise FedkinError(f"Features 'timm:{name}' cannot be loaded: {in_short(error)}.") from error
    config = timm.data.resolve_model_data_config(network)
    side = config["input_size"][-2:]
    mean, deviation = (torch.tensor(config[key])[:, None, None] for key in ("mean", "std"))
    network.to(memory_format=torch.channels_last)  # half the time of the usual order on a processor

    def encode(x: Tensor) -> Tensor:
        images = (as_images(x, side, len(mean)) - mean) / deviation
        rows: Tensor = network(images.contiguous(memory_format=torch.channels_last))
        return rows

    return encode


def _onnx(name: str) -> Encoder:
    """Load an ONNX file: one input ``(n, ...)``, whose fixed height and width images are brought to, one output."""
    require("Features 'onnx:...'", "onnxruntime", "onnx")
    import onnxruntime

    path = _file("onnx", name)
    try:
        session = onnxruntime.InferenceSession(str(path), providers=onnxruntime.get_available_providers())
    except Exception as error:  # onnxruntime has errors of its own for every kind of damage
        raise FedkinError(f"Features 'onnx:{name}' cannot be read: {in_short(error)}.") from error
    wanted, *others = session.get_inputs()
    if others:
        raise FedkinError(f"Features 'onnx:{name}' take {1 + len(others)} inputs; an encoder of samples takes one.")
    sizes = [size if isinstance(size, int) else None for size in wanted.shape]

    def encode(x: Tensor) -> Tensor:
        if len(sizes) == 4:
            x = as_images(x, (sizes[2] or x.shape[-2], sizes[3] or x.shape[-1]), sizes[1] or x.shape[1])
        parts = x.split(sizes[0]) if sizes[0] else [x]
        rows = [torch.from_numpy(session.run(None, {wanted.name: part.numpy()})[0]) for part in parts]
        return torch.cat(rows)

    return encode


def _torch(name: str) -> Encoder:
    """Load a network that `torch.export.save` has written, with any number of samples."""
    path = _file("torch", name)
    try:
        network: nn.Module = torch.export.load(str(path)).module()
    except Exception as error:  # torch raises RuntimeError, ValueError and others
        raise FedkinError(f"Features 'torch:{name}' cannot be read: {in_short(error)}.") from error
    return network


def _file(kind: str, name: str) -> Path:
    path = Path(name).expanduser()
    if not path.is_file():
        raise FedkinError(f"Features '{kind}:{name}' are a file that does not exist.")
    return path


def as_images(x: Tensor, side: tuple[int, ...], channels: int) -> Tensor:
    """Return images ``(n, c, h, w)`` of another size and number of channels, by bilinear interpolation.

    One channel is repeated. Raises FedkinError if samples are no images, or have other channels.
    """
    if x.ndim != 4:
        raise FedkinError(f"These features are of images (channels, height, width); samples are {tuple(x.shape[1:])}.")
    if x.shape[1] == 1 and channels > 1:
        x = x.expand(-1, channels, -1, -1)
    if x.shape[1] != channels:
        raise FedkinError(f"These features are of images with {channels} channels; samples have {x.shape[1]}.")
    if tuple(x.shape[2:]) == tuple(side):
        return x
    return interpolate(x, tuple(side), mode="bilinear", antialias=True, align_corners=False)


def rocket(x: Tensor) -> Tensor:
    """Return features of series by random convolutions (ROCKET, Dempster, Petitjean and Webb 2020): ``(n, 1000)``.

    Samples are float32 ``(n, *channels, steps)``; each channel of a series is standardised. Of every convolution these
    are the share of positive values and the greatest value, standardised over the kernels of a length so that neither
    outweighs the other. Kernels are the same everywhere. Raises FedkinError for series of fewer than 7 steps.
    """
    series = x.flatten(1, -2) if x.ndim > 2 else x[:, None]
    steps = series.shape[-1]
    if steps < _LENGTHS[0]:
        raise FedkinError(f"Features 'rocket' are of series of at least {_LENGTHS[0]} steps; these have {steps}.")
    series = series - series.mean(-1, keepdim=True)
    series = series / series.std(-1, keepdim=True, correction=0).clamp(min=1e-8)
    rng = torch.Generator().manual_seed(_KERNELS)
    shares, peaks = [], []
    lengths = [length for length in _LENGTHS if length <= steps]
    for at in range(_KERNELS):
        length = lengths[at % len(lengths)]
        weights = torch.randn(1, series.shape[1], length, generator=rng)
        weights = weights - weights.mean(-1, keepdim=True)
        bias, reach, padded = torch.rand(3, generator=rng).tolist()
        dilation = int(2 ** (reach * math.log2(max(1.0, (steps - 1) / (length - 1)))))
        around = (length - 1) * dilation // 2 if padded < 0.5 else 0
        waves = conv1d(pad(series, (around, around)), weights, dilation=dilation)[:, 0] + 2 * bias - 1
        shares.append((waves > 0).float().mean(-1))
        peaks.append(waves.amax(-1) / math.sqrt(length * series.shape[1]))
    return normalize(torch.cat([torch.stack(shares, 1), torch.stack(peaks, 1)], 1), dim=1)
