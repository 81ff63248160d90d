"""kin-graph on images whose pixels are the columns of a table: recognised as images, and by the columns.

    FEDKIN_DATA=... python benchmarks/pixel_columns.py [--samples 4000] [--clients 4] [--seed 0]

Prints adjusted Rand index and normalised mutual information, with the number of clusters found and given; samples are
spread at random, or each class is at a client of its own (p = 1). *Standardised* is each column by itself.
"""

from __future__ import annotations

import argparse
import os
import warnings

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.preprocessing import StandardScaler

import fedkin
from fedkin.data.reading.sources import load

NAMES = ("digits", "mnist", "fashion_mnist", "cifar10")


def main() -> None:
    """Print a row per data set and way to give it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--samples", type=int, default=4_000)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| data | | p | images recognised: ARI found / given, NMI found | by columns |\n|---|---|---|---|---|")
    for name in given.data:
        x, y = pixels(name, given.samples)
        for standardised in (False, True):
            rows = StandardScaler().fit_transform(x) if standardised else x
            for p in (0, 1):
                cells = [scores(rows, y, features, p, given.clients, given.seed) for features in ("auto", "raw")]
                print(f"| {name} | {'standardised' * standardised} | {p} | {' | '.join(cells)} |", flush=True)


def pixels(name: str, samples: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The last samples as rows of pixels in grey, and their classes."""
    if name == "digits":
        x, y = load_digits(return_X_y=True)
        return x.astype(np.float32), y
    data = load(f"{os.environ['FEDKIN_DATA']}/{name}")
    assert data.y is not None
    return data.x[-samples:].mean(1).flatten(1).numpy(), data.y[-samples:].numpy()


def scores(x: NDArray[np.float32], y: NDArray[np.int64], features: str, p: int, clients: int, seed: int) -> str:
    """Indices of the clusters found and given, and the number found."""
    order = np.random.default_rng(seed).permutation(len(x))
    parts = [np.flatnonzero(y == own) for own in np.unique(y)] if p else np.array_split(order, clients)
    truth = np.concatenate([y[part] for part in parts])
    model = fedkin.KinGraph(features=features, random_state=seed).fit([x[own] for own in parts])
    found = [np.concatenate(one.labels_) for one in (model, model.cut(len(np.unique(y))))]
    ari, given = (adjusted_rand_score(truth, own) for own in found)
    nmi = normalized_mutual_info_score(truth, found[0])
    return f"{ari:.2f} / {given:.2f}, {nmi:.2f} ({len(np.unique(found[0]))})"


if __name__ == "__main__":
    main()
