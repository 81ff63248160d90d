"""FedDP-KMeans on its paper's mixture of Gaussians, with and without samples of the server.

``python benchmarks/private_mixture.py --seeds 3``

Ten Gaussians in 100 dimensions, their means uniform in the unit cube and their variance 0.5; the server has 20 samples
of each and 100 uniform ones. Costs are multiples of that of k-means of all samples.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd
import torch
from sklearn.cluster import KMeans, kmeans_plusplus
from sklearn.metrics import adjusted_rand_score
from torch import Tensor

import fedkin

CLUSTERS, WIDTH, BOUND = 10, 100, 11.0


def main() -> None:
    """Print mean and standard deviation over seeds by epsilon."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--samples", type=int, default=1000, help="of each client")
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.5, 1.0, 2.0, 4.0])
    options = parser.parse_args()
    lines = [line for seed in range(options.seeds) for line in costs(seed, options)]
    table = pd.DataFrame(lines).groupby(["way", "epsilon"], dropna=False)[["cost", "ari"]].agg(["mean", "std"])
    print(table.round(3).to_string())


def costs(seed: int, options: argparse.Namespace) -> list[dict[str, object]]:
    """A line per way and epsilon: cost and adjusted Rand index."""
    rng = np.random.default_rng(seed)
    means = rng.random((CLUSTERS, WIDTH))
    truth = rng.integers(CLUSTERS, size=(options.clients, options.samples))
    x = (means[truth] + 0.5**0.5 * rng.standard_normal((*truth.shape, WIDTH))).astype(np.float32)
    near = np.repeat(means, 20, 0) + 0.5**0.5 * rng.standard_normal((20 * CLUSTERS, WIDTH))
    server = np.concatenate([near, rng.random((100, WIDTH))]).astype(np.float32)
    pooled = torch.from_numpy(x.reshape(-1, WIDTH))
    best = KMeans(CLUSTERS, n_init=3, random_state=seed).fit(pooled.numpy())
    optimum = cost(pooled, torch.from_numpy(best.cluster_centers_).float())

    def line(way: str, epsilon: float, centroids: Tensor) -> dict[str, object]:
        found = torch.cdist(pooled, centroids).argmin(1)
        ratio, ari = cost(pooled, centroids) / optimum, adjusted_rand_score(truth.ravel(), found)
        return {"way": way, "epsilon": epsilon, "seed": seed, "cost": ratio, "ari": ari}

    alone = KMeans(CLUSTERS, n_init=10, random_state=seed).fit(server).cluster_centers_
    lines = [
        line("server's k-means++", np.nan, torch.from_numpy(kmeans_plusplus(server, CLUSTERS, random_state=seed)[0])),
        line("server's k-means", np.nan, torch.from_numpy(alone).float()),
    ]
    for epsilon in options.epsilons:
        for way, own in (("server's samples", server), ("no samples", None)):
            model = fedkin.FedDPKMeans(
                n_clusters=CLUSTERS,
                epsilon=epsilon,
                delta=1e-6,
                bound=BOUND,
                scaling="none",
                random_state=seed,
                server_data=own,
            )
            found = model.fit(list(x)).result_["centroids"]
            lines.append(line(way, epsilon, found))
    return lines


def cost(x: Tensor, centroids: Tensor) -> float:
    """Sum of squared distances to the nearest centroid."""
    return float(torch.cdist(x, centroids).min(1).values.square().sum())


if __name__ == "__main__":
    main()
