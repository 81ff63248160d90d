"""Seconds and memory of clustering many clients by made-up embeddings.

``python benchmarks/clustering.py 3550 10000 50000 --ways exact bayes paper``

Embeddings are random bits per hidden cluster, flipped with a probability. ``exact``, ``gap`` and ``bayes`` are
fedkin's; ``paper`` is the procedure as published: scikit-learn's agglomerative clustering fitted anew at each of 35
thresholds, and its Calinski-Harabasz index where a cut is admissible. `--refits` times only so many of the 35 and
multiplies, which the table says. Every way runs in a process of its own; its memory is the most that process held, less
what it held with the embeddings loaded. Ratios are to ``exact`` of the same run.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from sklearn.cluster import AgglomerativeClustering
from sklearn.metrics import adjusted_rand_score, calinski_harabasz_score

from fedkin.core.seeds import derive_generator
from fedkin.methods.clients.one_shot.tree_cuts import cluster

THRESHOLDS = 35  # 30 random, 5 by the upper confidence bound


def main() -> None:
    """Print one line per number of clients and way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clients", type=int, nargs="+")
    parser.add_argument("--ways", nargs="+", choices=["exact", "gap", "bayes", "paper"], default=["exact", "bayes"])
    parser.add_argument("--bits", type=int, default=1240)
    parser.add_argument("--clusters", type=int, default=4)
    parser.add_argument("--flips", type=float, default=0.1)
    parser.add_argument("--min-size", type=int, default=100)
    parser.add_argument("--refits", type=int, default=THRESHOLDS)
    options = parser.parse_args()
    print("| clients | way | seconds | to exact | more memory, MB | clusters | ARI |")
    print("|---|---|---|---|---|---|---|")
    start = multiprocessing.get_context("spawn")
    for clients in options.clients:
        reference = None
        for way in options.ways:
            with start.Pool(1) as pool:
                seconds, memory, clusters, score = pool.apply(timed, (way, clients, vars(options)))
            reference = seconds if way == "exact" else reference
            ratio = f"{seconds / reference:.1f}" if reference else ""
            name = f"{way}, {options.refits} of 35 fits" if way == "paper" and options.refits < THRESHOLDS else way
            figures = f"{seconds:.2f} | {ratio} | {memory:.0f} | {clusters} | {score:.3f}"
            print(f"| {clients} | {name} | {figures} |", flush=True)


def timed(way: str, clients: int, options: dict[str, Any]) -> tuple[float, float, int, float]:
    """Seconds, megabytes, number of clusters and adjusted Rand index."""
    draws = derive_generator(0, "grouping", clients)
    truth = torch.randint(options["clusters"], (clients,), generator=draws)
    centres = torch.rand(options["clusters"], options["bits"], generator=draws) < 0.5
    bits = (centres[truth] ^ (torch.rand(clients, options["bits"], generator=draws) < options["flips"])).to(torch.uint8)
    run: Callable[[], Any]
    if way == "paper":
        run = lambda: as_published(bits.numpy().astype(np.float64), options["min_size"], options["refits"])  # noqa: E731
    else:
        run = lambda: cluster(bits, way, options["min_size"], draws).labels.numpy()  # type: ignore[arg-type] # noqa: E731
    cluster(bits[:200], "exact", 20, draws)  # compiles and loads what the first call would
    before = held()
    begin = time.perf_counter()
    labels = run()
    seconds = time.perf_counter() - begin
    if way == "paper":
        seconds *= THRESHOLDS / options["refits"]
    return seconds, held() - before, len(np.unique(labels)), float(adjusted_rand_score(truth, labels))


def as_published(points: np.ndarray, min_size: int, refits: int) -> np.ndarray:
    """Labels of the best of the first `refits` thresholds; the search's own arithmetic, a matter of milliseconds, is
    left out.
    """
    thresholds = np.random.RandomState(1).uniform(1, 100, THRESHOLDS)[:refits]
    best, found = -np.inf, np.zeros(len(points), dtype=np.int64)
    for threshold in thresholds:
        labels = AgglomerativeClustering(None, distance_threshold=float(threshold), linkage="ward").fit_predict(points)
        score = -500.0
        if labels.max() >= 2 and np.bincount(labels).min() >= min_size:
            score = -float(calinski_harabasz_score(points, labels))
        if score > best:
            best, found = score, labels
    return found


def held() -> float:
    """The most memory that this process has held, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
