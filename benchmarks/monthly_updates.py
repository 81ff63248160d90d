"""How many rows `KinGraph.update` doubts in a month without a change and in one with a change.

Random three fifths of a data set are at three clients in the first month, and the others are the second month's new
rows: as they are, with one class that the first month lacks, or with every column one standard deviation higher.

    python benchmarks/monthly_updates.py [SEEDS]
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_blobs

import fedkin
from fedkin.experiment.numbering import ANEW

DATA = {
    "wine": load_wine, "breast cancer": load_breast_cancer, "iris": load_iris, "digits": load_digits,
    "blobs": lambda **_: make_blobs(600, 6, centers=5, random_state=3),
}  # fmt: skip


def clients_of(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Deal rows out to three clients."""
    return {f"client {i}": frame[i::3].reset_index(drop=True) for i in range(3)}


def doubt(name: str, change: str, seed: int) -> float:
    """Return the share of rows in doubt after an update."""
    rng = np.random.default_rng(seed)
    x, y = DATA[name](return_X_y=True)
    order = rng.permutation(len(x))
    first, second = order[: len(x) * 3 // 5], order[len(x) * 3 // 5 :]
    if change == "new class":
        first = first[y[first] != rng.integers(y.max() + 1)]
    frame = pd.DataFrame(x, columns=[f"c{i}" for i in range(x.shape[1])]).assign(id=[f"row {i}" for i in range(len(x))])
    later = frame.iloc[second].copy()
    if change == "shift":
        later.iloc[:, :-1] += x.std(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = fedkin.KinGraph(
            features="raw", n_clusters=int(y.max()) + 1 - (change == "new class"), random_state=seed
        )
        return model.fit(clients_of(frame.iloc[first])).update(clients_of(later)).changes_.doubt


if __name__ == "__main__":
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    for change in ("none", "new class", "shift"):
        for name in DATA:
            shares = sorted(doubt(name, change, seed) for seed in range(seeds))
            quantiles = np.quantile(shares, [0, 0.05, 0.5, 0.95, 1])
            above = f"{sum(share > ANEW for share in shares)} of {seeds} above {ANEW}"
            print(f"{change:10} {name:14}", *(f"{value:.2f}" for value in quantiles), above, flush=True)
