"""kin-graph where all clients together have few samples: the digits, and data without clusters.

    python benchmarks/kin_graph_few.py digits --samples 18 36 72 --clients 10 --seeds 0 1 2 3 4
    python benchmarks/kin_graph_few.py null --seeds 0 1 2 3 4 5 6 7

`digits` prints the adjusted Rand index with the number of clusters found and with ten given, mean and standard
deviation over seeds, which also draw the samples. `null` counts in how many data sets without clusters one is found:
230 to 340 rows of 5, 10 and 20 columns at three clients, normal, correlated, uniform, and with heavy tails.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score

import fedkin
from grid import spread

KINDS, COLUMNS, CLIENTS = ("normal", "correlated", "uniform", "t"), (5, 10, 20), 3


def main() -> None:
    """Print a row per number of samples, or how many data sets are one cluster."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("digits", "null"))
    parser.add_argument("--samples", type=int, nargs="+", default=[18, 36, 72], help="samples of a client")
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # one cluster of few micro-clusters is warned of
    if given.what == "null":
        numbers = [found_in_null(kind, columns, s) for s in given.seeds for columns in COLUMNS for kind in KINDS]
        print(f"one cluster in {numbers.count(1)} of {len(numbers)}")
        return
    print("| samples at a client | number found | 10 given | micro-clusters |\n|---|---|---|---|")
    for samples in given.samples:
        runs = [digits(samples, given.clients, seed) for seed in given.seeds]
        found, ten, nodes = zip(*runs, strict=True)
        print(f"| {samples} | {spread(found, 3)} | {spread(ten, 3)} | {min(nodes)} to {max(nodes)} |", flush=True)


def digits(samples: int, clients: int, seed: int) -> tuple[float, float, int]:
    """Return the indices with the number found and given, and the number of micro-clusters."""
    x, y = load_digits(return_X_y=True)
    rows = np.random.default_rng(seed).permutation(len(x))[: samples * clients]
    parts = np.array_split(x[rows].reshape(-1, 8, 8) / 16, clients)
    found, ten = (fedkin.KinGraph(n_clusters=k, random_state=seed).fit(parts) for k in ("auto", 10))
    index = [float(adjusted_rand_score(y[rows], np.concatenate(model.labels_))) for model in (found, ten)]
    return index[0], index[1], found.records_[-1]["nodes"]


def found_in_null(kind: str, columns: int, seed: int) -> int:
    """Return the number of clusters found in data without any."""
    x = null(kind, columns, np.random.default_rng([seed, columns, len(kind)]))
    model = fedkin.KinGraph(random_state=seed, scaling="none").fit(np.array_split(x, CLIENTS))
    return int(model.n_clusters_)


def null(kind: str, columns: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw rows of a single cluster."""
    rows = int(rng.integers(230, 340))
    if kind == "uniform":
        return rng.random((rows, columns))
    if kind == "t":
        return rng.standard_t(6, size=(rows, columns))
    x = rng.normal(size=(rows, columns))
    return x @ rng.normal(size=(columns, columns)) if kind == "correlated" else x


if __name__ == "__main__":
    main()
