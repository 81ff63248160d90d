"""FLUX and clients that it has never seen, with and without labels: digits turned by four angles.

    python benchmarks/unlabelled_newcomers.py --seeds 0 1 2

Twelve clients of 100 digits, three for each angle, train a perceptron for 15 rounds; eight others of about 75 digits
are assigned afterwards. Accuracies are means over the eight: by the model of the cluster that they are assigned to with
labels, without, and by federated averaging.
"""

from __future__ import annotations

import argparse
from statistics import mean

import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score

import fedkin
from fedkin.estimators import ClientClusterer

CLIENTS, NEWCOMERS, TRAINING, ANGLES = 12, 8, 1200, 4


def main() -> None:
    """Print a line for each seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    for seed in parser.parse_args().seeds:
        found, clients, newcomers = fedkin.FLUX(**settings(seed)), *divided(seed)
        found.fit(clients)
        common = fedkin.FedAvg(**settings(seed)).fit(clients)
        with_labels = [found.assign(x, y) for x, y in newcomers]
        without = [found.assign(x) for x, _ in newcomers]
        ari = adjusted_rand_score(np.arange(CLIENTS) % ANGLES, found.client_labels_)
        alike = mean(one == other for one, other in zip(with_labels, without, strict=True))
        print(
            f"seed {seed}: ARI {ari:.2f}, {found.n_clusters_} clusters; assigned alike {alike:.2f}; accuracy "
            f"{accuracy(found, newcomers, with_labels):.3f} with labels, {accuracy(found, newcomers, without):.3f} "
            f"without, fedavg {accuracy(common, newcomers, [0] * NEWCOMERS):.3f}",
            flush=True,
        )


def settings(seed: int) -> dict[str, object]:
    """Return the parameters of both estimators."""
    return {"rounds": 15, "module": "perceptron", "random_state": seed}


def divided(seed: int) -> list[list[tuple[np.ndarray, np.ndarray]]]:
    """Return the clients, and the newcomers."""
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(x))
    x, y = x[order], y[order]
    parts = [(slice(0, TRAINING), CLIENTS), (slice(TRAINING, None), NEWCOMERS)]
    return [[(turned(x[rows][i::n], i % ANGLES), y[rows][i::n]) for i in range(n)] for rows, n in parts]


def turned(x: np.ndarray, quarters: int) -> np.ndarray:
    """Return digits turned by so many quarters."""
    return np.ascontiguousarray(np.rot90(x.reshape(-1, 8, 8), quarters, axes=(1, 2)).reshape(-1, 64))


def accuracy(model: ClientClusterer, newcomers: list, clusters: list[int]) -> float:
    """Return the mean accuracy by the models of these clusters."""
    return mean(float(model.score(x, y, cluster=k)) for (x, y), k in zip(newcomers, clusters, strict=True))


if __name__ == "__main__":
    main()
