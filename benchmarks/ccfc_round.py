"""How fast is a round of CCFC, compared with the code of its authors?

    git clone https://github.com/Jarvisyan/CCFC-pytorch theirs
    python benchmarks/ccfc_round.py --theirs theirs --samples 512 --repeats 3

Both train the same network on the same images of random blobs, so many at each of ten clients, in batches of 128, on
one thread; each measurement is a process of its own, and the two take turns. Times are processor time of the process,
so that other work on the machine counts little: of the second round, whole, and of the training of one client in it.
Both phases are measured: by views, and by clusters (``main.py`` of the authors, given a model that is trained already).
In a round of either phase theirs clusters all samples; fedkin does so where the method needs it, which is by clusters.

Theirs runs unchanged but for what it imports: a stand-in for MNIST holds the images, data are loaded in the process
itself, and the few transforms of torchvision it uses are written here as torchvision does them, with Pillow, so that
torchvision need not be installed. Without ``--theirs`` only fedkin is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib.machinery import ModuleSpec
from math import exp, isnan, log, nan, sqrt
from pathlib import Path
from statistics import median
from time import process_time
from types import ModuleType
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

SITES, BATCH, LATENT = 10, 128, 256
PHASES = ("views", "clusters")

Seconds = dict[str, float]
"""Of a whole ``round``, and of one client's ``training`` in it."""


def images(samples: int) -> np.ndarray[Any, Any]:
    """uint8 ``(10 * samples, 28, 28)``: a bright blob each, somewhere."""
    rng = np.random.default_rng(0)
    at = np.arange(28)
    row, column, width = rng.uniform(8, 20, (3, SITES * samples, 1))
    blobs = np.exp(-((at - row) ** 2) / width)[:, :, None] * np.exp(-((at - column) ** 2) / width)[:, None, :]
    return (255 * blobs).astype(np.uint8)


def ours(samples: int, phase: str, precision: str) -> Seconds:
    """Seconds of processor time that fedkin takes."""
    from fedkin.core import Client
    from fedkin.engines.local import LocalFederation
    from fedkin.methods.samples.ccfc.ccfc import CCFCMethod

    x = torch.from_numpy(images(samples)).float().div(255)[:, None].split(samples)
    fed = LocalFederation([Client(i, part) for i, part in enumerate(x)], workers=1)
    before = 2 if phase == "views" else 0
    method = CCFCMethod(pretrain_rounds=2 * before, cluster_rounds=2, batch_size=BATCH, precision=precision)  # type: ignore[arg-type]
    state = method.init(fed)
    state, _ = method.step(fed, state)
    began, trained = process_time(), fed.seconds
    method.step(fed, state)
    whole = process_time() - began
    # By clusters a task also clusters and clusters the client's samples; at the authors' that is not part of the
    # training.
    return {"round": whole, "training": (fed.seconds - trained) / SITES if phase == "views" else nan}


def theirs(folder: Path, samples: int, phase: str) -> Seconds:
    """The same for the code of the authors, as it is in `folder`."""
    watch = _Watch()
    sys.modules |= {"tqdm": _module("tqdm", tqdm=watch.through), **_torchvision(samples)}
    sys.path.insert(0, str(folder))
    with tempfile.TemporaryDirectory() as outputs:
        if phase == "clusters":  # with a model that it finds there is nothing left to do by views
            import model as code  # type: ignore[import-not-found]

            sizes = {"proj_hidden_dim": 256, "num_proj_layers": 2, "latent_dim": LATENT, "pre_hidden_dim": 16}
            (Path(outputs) / "v0").mkdir()
            torch.save(
                code.SimSiam(argparse.Namespace(**sizes)).state_dict(), Path(outputs) / "v0" / "model_pretrain_0.pt"
            )
        sys.argv = ["main.py", "--exp_dir", outputs, "--data_root", outputs, "--num_workers", "0"]
        with suppress(_EnoughError):
            runpy.run_path(str(folder / "main.py"), run_name="__main__")
    second, third = watch.begun[SITES], watch.begun[2 * SITES]
    return {"round": third - second, "training": median(watch.seconds[SITES:])}


class _EnoughError(Exception):
    """Two rounds have been seen."""


class _Watch:
    """Takes the place of the progress bar that every training of a client runs through."""

    def __init__(self) -> None:
        self.begun: list[float] = []
        self.seconds: list[float] = []

    def through(self, batches: Iterable[Any]) -> _Watched:
        """What a training goes through; the first one of the third round ends it all."""
        self.begun.append(process_time())
        if len(self.begun) > 2 * SITES:
            raise _EnoughError
        return _Watched(batches, self.seconds)


class _Watched:
    def __init__(self, batches: Iterable[Any], seconds: list[float]) -> None:
        self.batches, self.seconds = batches, seconds

    def __iter__(self) -> Iterator[Any]:
        began = process_time()
        yield from self.batches
        self.seconds.append(process_time() - began)

    def set_description(self, text: str) -> None:
        """Nobody looks."""


def _module(name: str, **members: Any) -> ModuleType:
    made = ModuleType(name)
    made.__spec__ = ModuleSpec(name, loader=None)
    made.__dict__.update(members)
    return made


def _torchvision(samples: int) -> dict[str, ModuleType]:
    """What the authors' code imports of torchvision."""
    data = images(samples)
    labels = torch.arange(len(data)) % SITES

    class MNIST(torch.utils.data.Dataset[Any]):
        """Six sevenths of the images, or the rest."""

        def __init__(self, root: str, train: bool, download: bool, transform: Callable[[Image.Image], Any]) -> None:
            cut = len(data) * 6 // 7
            self.data, self.targets = (data[:cut], labels[:cut]) if train else (data[cut:], labels[cut:])
            self.transform = transform

        def __len__(self) -> int:
            return len(self.data)

        def __getitem__(self, at: int) -> tuple[Any, int]:
            return self.transform(Image.fromarray(self.data[at], mode="L")), int(self.targets[at])

    parts = (Compose, RandomApply, RandomResizedCrop, RandomRotation, ToTensor)
    transforms = _module("torchvision.transforms", **{part.__name__: part for part in parts})
    datasets = _module("torchvision.datasets", MNIST=MNIST)
    return {
        "torchvision": _module("torchvision", transforms=transforms, datasets=datasets),
        "torchvision.transforms": transforms,
        "torchvision.datasets": datasets,
    }


class Compose:
    """One transform after another."""

    def __init__(self, parts: list[Callable[[Any], Any]]) -> None:
        self.parts = parts

    def __call__(self, image: Any) -> Any:
        for part in self.parts:
            image = part(image)
        return image


class RandomApply(Compose):
    """All of them, or none."""

    def __init__(self, parts: list[Callable[[Any], Any]], p: float) -> None:
        super().__init__(parts)
        self.p = p

    def __call__(self, image: Any) -> Any:
        return super().__call__(image) if random.random() < self.p else image


class RandomResizedCrop:
    """Part of an image, enlarged by Pillow's bilinear interpolation."""

    def __init__(self, size: int, scale: tuple[float, float]) -> None:
        self.size, self.scale = size, scale

    def __call__(self, image: Image.Image) -> Image.Image:
        width, height = self._sides(image)
        left, top = random.randint(0, image.width - width), random.randint(0, image.height - height)
        box = (left, top, left + width, top + height)
        return image.crop(box).resize((self.size, self.size), Image.Resampling.BILINEAR)

    def _sides(self, image: Image.Image) -> tuple[int, int]:
        for _ in range(10):
            area, ratio = random.uniform(*self.scale) * image.width * image.height, random.uniform(-1, 1) * log(4 / 3)
            width, height = round(sqrt(area * exp(ratio))), round(sqrt(area / exp(ratio)))
            if width <= image.width and height <= image.height:
                return width, height
        return image.width, image.height


class RandomRotation:
    """A turn, with the nearest pixel's value."""

    def __init__(self, degrees: float) -> None:
        self.degrees = degrees

    def __call__(self, image: Image.Image) -> Image.Image:
        return image.rotate(random.uniform(-self.degrees, self.degrees), Image.Resampling.NEAREST)


class ToTensor:
    """float32 ``(1, height, width)`` in [0, 1]."""

    def __call__(self, image: Image.Image) -> Tensor:
        return torch.from_numpy(np.array(image)).view(1, image.height, image.width).float().div(255)


def measured(contestant: str, phase: str, options: argparse.Namespace) -> Seconds:
    """What a contestant takes, in a process of its own."""
    given = ["--contestant", contestant, "--phase", phase, "--samples", str(options.samples)]
    given += ["--theirs", str(options.theirs)] if options.theirs else []
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    command = [sys.executable, __file__, *given]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{contestant} failed:\n{done.stderr}")
    seconds: Seconds = json.loads(done.stdout.splitlines()[-1])
    return seconds


def print_phase(phase: str, contestants: list[str], options: argparse.Namespace) -> None:
    """Measure in turn, and print one row per contestant."""
    taken: dict[str, list[Seconds]] = {name: [] for name in contestants}
    for _ in range(options.repeats):
        for name in contestants:
            taken[name].append(measured(name, phase, options))
    for name in contestants:
        whole, alone = ([seconds[what] for seconds in taken[name]] for what in ("round", "training"))
        row = [f"{1000 * median(whole) / (SITES * options.samples):.2f}"]
        row.append(f"{1000 * (max(whole) - min(whole)) / (SITES * options.samples):.2f}")
        row.append("" if isnan(alone[0]) else f"{1000 * median(alone) / options.samples:.2f}")
        row.append(f"{median(one['round'] for one in taken[contestants[0]]) / median(whole):.2f}")
        print(f"| {phase} | {name} | {' | '.join(row)} |", flush=True)


def main() -> None:
    """Print one row per phase and contestant, times in milliseconds per sample."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--theirs", type=Path, help="folder with the authors' code")
    parser.add_argument("--samples", type=int, default=512, help="of each of ten clients")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--contestant", help=argparse.SUPPRESS)
    parser.add_argument("--phase", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.contestant:
        torch.set_num_threads(1)
        if options.contestant == "theirs":
            print(json.dumps(theirs(options.theirs.resolve(), options.samples, options.phase)))
        else:
            print(json.dumps(ours(options.samples, options.phase, options.contestant)))
        return
    contestants = [*(["theirs"] if options.theirs else []), "float32", "bfloat16"]
    print(f"| phase | contestant | round, ms | spread | training, ms | times as fast as {contestants[0]} |")
    print("|---|---|---|---|---|---|")
    for phase in PHASES:
        print_phase(phase, contestants, options)


if __name__ == "__main__":
    main()
