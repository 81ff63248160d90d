"""Encoders: pretrained networks, and random convolutions of series, that turn samples into embeddings.

An encoder is named by a spec: ``"rocket"``, ``"timm:NAME"``, ``"sentence-transformers:NAME"``, ``"hf:OWNER/NAME"`` for
either of Hugging Face's hub, ``"onnx:FILE"`` or ``"torch:FILE"``; or it is a function or a module. It runs once, where
samples are read, so that methods see embeddings alone, under the name ``"embedded"``: rows of length 1, which clusters
compare by cosine, and whose columns are not scaled. Images are brought to a network's size, the shorter side first,
and standardised by the mean and deviation of ImageNet, unless the spec says otherwise, as
``"torch:FILE?size=128&mean=0.5&std=0.5"`` does.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import conv1d, interpolate, normalize, pad

from fedkin.core.client import SampleKind
from fedkin.core.device import device
from fedkin.core.errors import FedkinError, in_short, require
from fedkin.features.extractors import ROCKET, TEXTS

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Encoder:
    """Encoder of a client's samples, see `fedkin.core.client.SampleEncoder`.

    `source` is a spec; or a function of a list of samples, of the kind that its attribute ``takes`` names; or a module
    of images ``(n, 3, 224, 224)``, or of what it ``takes``. Embeddings are kept in `folder` instead of beside the data.
    """

    source: str | Callable[..., Any]
    folder: str | None = None

    @property
    def name(self) -> str:
        spec = isinstance(self.source, str)
        return str(self.source if spec else getattr(self.source, "__name__", type(self.source).__name__))

    def takes(self, kind: SampleKind) -> bool:
        if not isinstance(self.source, str):
            usual = "images" if isinstance(self.source, nn.Module) else kind
            return bool(getattr(self.source, "takes", usual) == kind)
        if self.source == ROCKET:
            return kind == "series"
        library = _parts(self.source)[0]
        if library == TEXTS[:-1]:
            return kind == "texts"
        return kind == "images" or (kind == "series" and library != "timm")

    def fingerprint(self) -> str:
        if not isinstance(self.source, str):
            return ""
        if self.source == ROCKET:
            return ROCKET
        kind, name, options = _parts(self.source)
        is_file = kind in ("onnx", "torch")
        weights = _digest(_file(kind, name)) if is_file else _network(self.source).weights
        return " ".join([kind, weights, *(f"{option}={value}" for option, value in sorted(options.items()))])

    def encode(self, kind: SampleKind, contents: Iterable[Any]) -> Tensor:
        if self.source == ROCKET:
            rows: Any = _rocket_by_length(contents)
        elif isinstance(self.source, str):
            rows = _encoded_by(_network(self.source), contents)
        elif isinstance(self.source, nn.Module):
            module = self.source.eval()
            place = next((value.device for value in module.parameters()), torch.device("cpu"))
            preprocessing = Preprocessing() if kind == "images" else Preprocessing(())
            rows = _encoded_by(Network(lambda batch: module(batch.to(place)), preprocessing), contents)
        else:
            rows = self.source(list(contents))
        return self._checked(rows)

    def _checked(self, rows: Any) -> Tensor:
        """Return embeddings scaled to length 1; raise FedkinError if they are no finite numbers ``(n, ...)``."""
        try:
            rows = rows.toarray() if hasattr(rows, "toarray") else rows  # sparse, as of words
            embeddings = torch.as_tensor(rows if isinstance(rows, Tensor) else np.asarray(rows, dtype=np.float32))
        except (TypeError, ValueError) as error:
            raise FedkinError(f"Features '{self.name}' are {type(rows).__name__}, not numbers (n, width).") from error
        embeddings = embeddings.detach().cpu().float()
        if embeddings.ndim < 2 or not bool(embeddings.isfinite().all()):
            shape = tuple(embeddings.shape)
            raise FedkinError(f"Features '{self.name}' have the shape {shape}; they should be (n, width), all finite.")
        return normalize(embeddings.flatten(1), dim=1)


@dataclass(frozen=True)
class Preprocessing:
    """How images become what a network takes: ``(3, *side)``, minus `mean`, divided by `std`; by default ImageNet's.

    Most networks were trained on 224 x 224; without a `side`, ``()``, samples are no images and stay as they are.
    """

    side: tuple[int, ...] = (224, 224)
    mean: tuple[float, ...] = (0.485, 0.456, 0.406)
    std: tuple[float, ...] = (0.229, 0.224, 0.225)

    def with_options(self, options: Mapping[str, str], spec: str) -> Preprocessing:
        """Return the same with the options of a spec, ``size``, ``mean`` and ``std``; raise FedkinError if wrong."""
        changes: dict[str, Any] = {}
        for name, text in options.items():
            try:
                numbers = tuple(map(int if name == "size" else float, text.split(",")))
            except ValueError:
                numbers = ()
            if len(numbers) not in {"size": (1,), "mean": (1, 3), "std": (1, 3)}.get(name, ()):
                raise FedkinError(
                    f"Features '{spec}' have {name}={text}; allowed: size=128, mean=0.5 or a,b,c, std alike."
                )
            changes |= {"side": numbers * 2} if name == "size" else {name: numbers}
        return replace(self, **changes)

    def apply(self, image: Any) -> Tensor:
        """Return an image of Pillow's, or an array ``(channels, height, width)`` in [0, 1], as the network takes it."""
        if self.side == () or (not hasattr(image, "convert") and np.ndim(image) != 3):
            return torch.as_tensor(image, dtype=torch.float32)
        side = self.side
        if hasattr(image, "convert"):
            x = torch.from_numpy(np.asarray(image.convert("RGB")).copy()).permute(2, 0, 1) / 255
        else:
            x = torch.as_tensor(image, dtype=torch.float32)[:3]
            x = x if len(x) == 3 else x[:1].expand(3, -1, -1)
        scale = max(side[0] / x.shape[1], side[1] / x.shape[2])
        if scale != 1:
            size = [max(new, round(old * scale)) for old, new in zip(x.shape[1:], side, strict=True)]
            x = interpolate(x[None], size, mode="bicubic", antialias=True, align_corners=False)[0].clamp(0, 1)
        top, first = ((old - new) // 2 for old, new in zip(x.shape[1:], side, strict=True))
        x = x[:, top : top + side[0], first : first + side[1]]
        mean, std = (torch.tensor(value).expand(3)[:, None, None] for value in (self.mean, self.std))
        return (x - mean) / std


# Networks.


@dataclass(frozen=True)
class Network:
    """A loaded network: `run` maps a batch to embeddings, of texts if there is no `preprocessing`.

    `weights` is a hash of these, where they are in no file that was named.
    """

    run: Callable[[Any], Any]
    preprocessing: Preprocessing | None = None
    weights: str = ""


def _encoded_by(network: Network, contents: Iterable[Any]) -> Tensor:
    if network.preprocessing is None:
        return torch.as_tensor(network.run(list(contents)))
    rows = []
    with torch.no_grad():
        for batch in _batches(contents, 32):  # images of 224 x 224 take some 20 MB each inside a network
            parts = [network.preprocessing.apply(item) for item in batch]
            if len({part.shape for part in parts}) > 1:
                raise FedkinError("A network takes series of one length; these differ.")
            x = torch.stack(parts)
            x = x[:, 0] if x.ndim == 3 and x.shape[1] == 1 else x  # rows of a table
            form = torch.channels_last if x.ndim == 4 else torch.contiguous_format  # half the time on a processor
            rows.append(torch.as_tensor(network.run(x.contiguous(memory_format=form))).cpu())
    return torch.cat(rows)


@lru_cache(maxsize=2)  # networks are large, and a run has one
def _network(spec: str) -> Network:
    """Load the network of a spec; weights by name are downloaded once."""
    kind, name, options = _parts(spec)
    try:
        network = {"timm": _timm, "onnx": _onnx, "torch": _torch, TEXTS[:-1]: _sentence_transformer}[kind](name)
    except FedkinError:
        raise
    except Exception as error:  # whatever a download, a wrong name or a damaged file ends in
        raise FedkinError(f"Features '{spec}' cannot be loaded: {in_short(error)}.") from error
    if options:
        usual = network.preprocessing or Preprocessing(())
        network = replace(network, preprocessing=usual.with_options(options, spec))
    return network


def _parts(spec: str) -> tuple[str, str, dict[str, str]]:
    """Return the kind, the name or file, and the options of a spec; of a repository the library that loads it."""
    rest, _, query = spec.partition("?")
    kind, _, name = rest.partition(":")
    if kind == "hf":
        kind, name = ("timm", f"hf-hub:{name}") if _is_of_timm(name) else (TEXTS[:-1], name)
    return kind, name, dict(parse_qsl(query))


@lru_cache
def _is_of_timm(repository: str) -> bool:
    """Return whether a repository of the hub is a network of timm; any other is taken for one of texts."""
    from huggingface_hub import hf_hub_download

    announce_download(repository)  # which looks whether the file below is here
    try:
        configuration = json.loads(Path(hf_hub_download(repository, "config.json")).read_bytes())
    except Exception as error:  # of the network, the hub or a wrong name
        raise FedkinError(f"Features 'hf:{repository}' cannot be loaded: {in_short(error)}.") from error
    return "architecture" in configuration  # transformers has "architectures"


def announce_download(repository: str) -> None:
    """Warn in the log, before a download from Hugging Face's hub, of its size and licence; not if it is here.

    `repository` is ``OWNER/NAME``, or the name alone of a model of sentence-transformers.
    """
    from huggingface_hub import model_info, try_to_load_from_cache

    repository = repository if "/" in repository else f"sentence-transformers/{repository}"
    if isinstance(try_to_load_from_cache(repository, "config.json"), str):
        return
    try:
        info = model_info(repository, files_metadata=True, timeout=10)
    except Exception:  # of the network, the hub or a wrong name: loading says why it fails
        return
    weights = max((file.size or 0 for file in info.siblings or ()), default=0)
    licence = getattr(info.card_data, "license", None) or "none that its page names"
    _log.warning("Downloads %s once: %.0f MB; its licence: %s.", repository, weights / 1e6, licence)


def _sentence_transformer(name: str) -> Network:
    require(f"Features '{TEXTS}...'", "sentence_transformers", "text")
    from sentence_transformers import SentenceTransformer

    if not Path(name).expanduser().exists():
        announce_download(name)
    model: Any = SentenceTransformer(name, device=str(device()))
    return Network(lambda texts: model.encode(texts, show_progress_bar=False), weights=_hash_of(model))


def _timm(name: str) -> Network:
    """Load a network of timm, or as ``hf-hub:OWNER/NAME`` of the hub, without its classifier."""
    require("Features 'timm:...'", "timm", "images")
    import timm

    hub = name.removeprefix("hf-hub:") if name.startswith("hf-hub:") else timm.get_pretrained_cfg(name).hf_hub_id
    if hub:
        announce_download(hub)
    network: Any = timm.create_model(name, pretrained=True, num_classes=0).eval()
    config, place = timm.data.resolve_model_data_config(network), device()
    network.to(place, memory_format=torch.channels_last)
    usual = Preprocessing(tuple(config["input_size"][-2:]), tuple(config["mean"]), tuple(config["std"]))
    return Network(lambda x: network(x.to(place)), usual, _hash_of(network))


def _onnx(name: str) -> Network:
    """Load an ONNX file: one input ``(n, ...)`` and one output; images are brought to its fixed height and width."""
    require("Features 'onnx:...'", "onnxruntime", "onnx")
    import onnxruntime

    path = _file("onnx", name)
    session = onnxruntime.InferenceSession(str(path), providers=onnxruntime.get_available_providers())
    first, *more = session.get_inputs()
    if more:
        raise FedkinError(f"Features 'onnx:{name}' take {1 + len(more)} inputs; an encoder of samples takes one.")

    def run(x: Tensor) -> Tensor:
        if len(first.shape) == 4 and first.shape[1] == 1:
            x = x.mean(1, keepdim=True)
        return torch.from_numpy(session.run(None, {first.name: x.numpy()})[0])

    return _for_shape(run, first.shape)


def _torch(name: str) -> Network:
    """Load a network that `torch.export.save` has written."""
    from torch.export.passes import move_to_device_pass

    path, place = _file("torch", name), device()
    program = torch.export.load(str(path))
    if place.type != "cpu":
        program = move_to_device_pass(program, place)
    network = program.module()
    inputs = set(program.graph_signature.user_inputs)
    shapes = [
        node.meta["val"].shape for node in program.graph.nodes if node.op == "placeholder" and node.name in inputs
    ]
    return _for_shape(lambda x: network(x.to(place)), shapes[0])


def _for_shape(run: Callable[[Tensor], Tensor], shape: Iterable[Any]) -> Network:
    """Return a network of a file by the shape of its input; what is no integer in it is any size, of batches, too."""
    sizes = [size if isinstance(size, int) else None for size in shape]
    side = tuple(size or Preprocessing.side[0] for size in sizes[2:]) if len(sizes) == 4 else ()
    count = sizes[0] if sizes else None
    return Network(lambda x: torch.cat([run(part) for part in x.split(count or len(x))]), Preprocessing(side))


def _file(kind: str, name: str) -> Path:
    path = Path(name).expanduser()
    if not path.is_file():
        raise FedkinError(f"Features '{kind}:{name}' are a file that does not exist.")
    return path


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def _hash_of(network: nn.Module) -> str:
    """Return a hash of a network's weights, which is the same wherever they were stored."""
    digest = hashlib.sha256()
    for name, value in sorted(network.state_dict().items()):
        digest.update(name.encode())
        digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]


def _batches(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch


# Random convolutions.


def _rocket_by_length(contents: Iterable[Any]) -> Tensor:
    """Return `rocket` of series that may differ in length, those of one length together."""
    series = [torch.as_tensor(item, dtype=torch.float32) for item in contents]
    if len(channels := {item.shape[:-1] for item in series}) > 1:
        raise FedkinError(f"Features 'rocket' are of series with as many channels each; these have {sorted(channels)}.")
    by_length: dict[int, list[int]] = {}
    for row, item in enumerate(series):
        by_length.setdefault(item.shape[-1], []).append(row)
    embeddings: dict[int, Tensor] = {}
    for rows in by_length.values():
        for batch in _batches(rows, 512):  # which bounds what convolutions take
            embeddings |= zip(batch, rocket(torch.stack([series[row] for row in batch])), strict=True)
    return torch.stack([embeddings[row] for row in range(len(series))])


def rocket(x: Tensor, kernels: int = 500, lengths: tuple[int, ...] = (7, 9, 11)) -> Tensor:
    """Return features of series by random convolutions (ROCKET, Dempster, Petitjean and Webb 2020): ``(n, 1000)``.

    Samples are float32 ``(n, *channels, steps)``; each channel of a series is standardised. Of every convolution these
    are the share of positive values and the greatest value. Kernels are the same everywhere; how far they reach is a
    part of a series' length. Of 100 to 10,000 `kernels` that the paper tried a few hundred lose little; `lengths` are
    its section 3.1's. Raises FedkinError for series of fewer than 7 steps.
    """
    series = x.flatten(1, -2) if x.ndim > 2 else x[:, None]
    steps = series.shape[-1]
    if steps < lengths[0]:
        raise FedkinError(f"Features 'rocket' are of series of at least {lengths[0]} steps; these have {steps}.")
    series = series - series.mean(-1, keepdim=True)
    series = series / series.std(-1, keepdim=True, correction=0).clamp(min=1e-8)
    rng = torch.Generator().manual_seed(kernels)
    shares, peaks = [], []
    possible = [length for length in lengths if length <= steps]
    for kernel in range(kernels):
        length = possible[kernel % len(possible)]
        weights = torch.randn(1, series.shape[1], length, generator=rng)
        weights = weights - weights.mean(-1, keepdim=True)
        bias, reach, padded = torch.rand(3, generator=rng).tolist()
        dilation = int(2 ** (reach * math.log2(max(1.0, (steps - 1) / (length - 1)))))
        around = (length - 1) * dilation // 2 if padded < 0.5 else 0
        waves = conv1d(pad(series, (around, around)), weights, dilation=dilation)[:, 0] + 2 * bias - 1
        shares.append((waves > 0).float().mean(-1))
        peaks.append(waves.amax(-1) / math.sqrt(length * series.shape[1]))
    return normalize(torch.cat([torch.stack(shares, 1), torch.stack(peaks, 1)], 1), dim=1)
