"""Clusters of photographs, by features that need no training and by encoders that the same clients train together.

    FEDKIN_DATA=... python benchmarks/photographs.py run CSV --data cifar10 pacs --seeds 0
    python benchmarks/photographs.py show CSV

The samples are those of one data set, partitioned at random over ten clients (p = 0), or a class at each (p = 1); of
PACS, whose images are halved to 32 x 32, classes or domains are the truth. Features are the pixels as they are, edges
("gradients", kin-graph's own), codes of an autoencoder (that of `Embedding`, without labels), and representations of a
Siamese network (that of `CCFC`, without rounds by clusters, with small convolutions). kin-graph clusters each, with the
number of clusters found and given. Beside it is k-means of the same features of all clients together, number given.

`run` appends a line per features, partition and seed as soon as it is known, and skips those that the file has.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import avg_pool2d

import fedkin
from fedkin.data.sources import load
from fedkin.features.extractors import extract
from sources import add, clustered, known_cells, means

Images = NDArray[np.float32]
Labels = NDArray[np.int64]

CLIENTS, SIDE = 10, 32
FEATURES = ("raw", "gradients", "autoencoder", "siamese")
CELL = ["data", "p", "seed", "features"]
TRUTHS = {"cifar10": ["label"], "pacs": ["label", "domain"]}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["run", "show"])
    parser.add_argument("csv", type=Path)
    parser.add_argument("--data", nargs="+", default=list(TRUTHS))
    parser.add_argument("--features", nargs="+", choices=FEATURES, default=list(FEATURES))
    parser.add_argument("--p", nargs="+", type=int, choices=[0, 1], default=[0, 1])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=30, help="Rounds in which an encoder is trained.")
    given = parser.parse_args(arguments)
    if given.command == "run":
        run(given)
    print(means(given.csv, ["data", "truth", "p", "features"]))


def run(given: argparse.Namespace) -> None:
    """Append the cells that the file does not have."""
    known = known_cells(given.csv, CELL)
    for seed in given.seeds:
        for data in given.data:
            images, truths = photographs(data, given.samples, seed)
            for p in given.p:
                parts = partitioned(truths["label"], p, seed)
                for features in given.features:
                    if (data, str(p), str(seed), features) in known:
                        continue
                    began = time.monotonic()
                    clients, order = [images[part] for part in parts], np.concatenate(parts)
                    of = FITTED[features](clients, given.rounds, seed)
                    x = torch.from_numpy(images[order])
                    rows = extract(of, x).numpy() if isinstance(of, str) else np.asarray(of(x.numpy()))
                    trained = round(time.monotonic() - began)
                    for truth, labels in truths.items():
                        row = {"data": data, "p": p, "seed": seed, "features": features, "truth": truth}
                        scores = clustered(clients, labels[order], rows, labels[order], of, seed)
                        add(given.csv, row | scores | {"trained_s": trained})


def photographs(data: str, samples: int, seed: int) -> tuple[Images, dict[str, Labels]]:
    """Some images of a data set, float32 ``(n, 3, 32, 32)``, and what may be their clusters."""
    split = "test" if data == "cifar10" else "train"
    loaded = [load(data, name, split) for name in TRUTHS.get(data, ["label"])]
    x = loaded[0].x
    kept = np.sort(np.random.default_rng([seed, 7]).permutation(len(x))[:samples])
    images = x[torch.from_numpy(kept)]
    if (factor := images.shape[-1] // SIDE) > 1:
        images = avg_pool2d(images, factor)
    names = TRUTHS.get(data, ["label"])
    truths = {name: one.y.numpy()[kept] for name, one in zip(names, loaded, strict=True) if one.y is not None}
    return images.numpy(), truths


def partitioned(labels: Labels, p: int, seed: int) -> list[NDArray[np.int64]]:
    """The rows of each client: at random, or of one class."""
    if p == 1:
        return [np.flatnonzero(labels == label) for label in np.unique(labels)]
    rows = np.random.default_rng([seed, 8]).permutation(len(labels))
    return [np.sort(part) for part in np.array_split(rows, CLIENTS)]


def autoencoder(clients: list[Images], rounds: int, seed: int) -> Callable[[Any], Any]:
    """Codes of an autoencoder that all clients trained, with one pass in each round as the Siamese network has."""
    model = fedkin.Embedding(
        form="prototypes",
        pretraining_rounds=rounds,
        pretraining_participation=1.0,
        pretraining_epochs=1,
        pretraining_steps=1,
        rounds=1,
        random_state=seed,
    )
    return model.fit(clients).transform


def siamese(clients: list[Images], rounds: int, seed: int) -> Callable[[Any], Any]:
    """Representations of a Siamese network that all clients trained with two views of each image."""
    model = fedkin.CCFC(
        pretrain_rounds=rounds, cluster_rounds=0, backbone="convolutions", batch_size=64, latent=128, random_state=seed
    )
    return model.fit(clients).transform


FITTED: dict[str, Callable[[list[Images], int, int], Any]] = {
    "raw": lambda clients, rounds, seed: "raw",
    "gradients": lambda clients, rounds, seed: "gradients",
    "autoencoder": autoencoder,
    "siamese": siamese,
}
"""What makes features, from the clients' images, rounds and seed: a name or a function of samples."""


if __name__ == "__main__":
    main()
