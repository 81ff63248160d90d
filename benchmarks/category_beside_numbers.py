"""Do categories beside a few numbers outweigh clusters that the numbers show?

    python benchmarks/category_beside_numbers.py --draws 3

prints the adjusted Rand index of kin-graph, mean over draws, with its second space for categories and without, beside
k-means of all rows. Three clusters lie in some numbers, and each category of three levels agrees with the cluster in a
part of 500 rows at three clients; in the last cases the numbers show no clusters.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from statistics import mean

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score

import fedkin
from fedkin.methods.samples.kingraph import kingraph
from tables import POOLED, prepared

CASES = (
    (2, 1, 0.6, True), (2, 1, 0.8, True), (2, 1, 0.95, True), (2, 2, 0.8, True), (4, 1, 0.8, True), (3, 3, 0.8, True),
    (2, 4, 0.7, True), (2, 4, 0.8, False), (2, 3, 0.9, False),
)  # fmt: skip
"""Numbers, categories, agreement of these with the clusters, and whether the numbers show clusters."""
MEANS = np.array([[0, 5, 0, 3], [3, 0, 0, 0], [6, 5, 4, 0]])
CLUSTERS, CLIENTS = 3, 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="the first draw")
    parser.add_argument("--rows", type=int, default=500)
    given = parser.parse_args()
    print("| numbers, categories, agreement | one space, found | found | one space, given | given | k-means, given |")
    print("|---|---|---|---|---|---|")
    for case in CASES:
        draws = range(given.first, given.first + given.draws)
        found = zip(*(scores(*drawn(given.rows, draw, *case), draw) for draw in draws), strict=True)
        print(f"| {named(*case)} | {' | '.join(f'{mean(each):.2f}' for each in found)} |", flush=True)


def drawn(
    rows: int, draw: int, numbers: int, categories: int, agreement: float, clear: bool
) -> tuple[pd.DataFrame, NDArray[np.int64]]:
    """Return a table and its clusters; numbers that show none are normal."""
    rng = np.random.default_rng([draw, numbers, categories])
    truth = rng.integers(0, CLUSTERS, rows)
    x = MEANS[truth, :numbers] * clear + rng.normal(size=(rows, numbers))
    frame = pd.DataFrame(x).add_prefix("number ")
    for at in range(categories):
        level = np.where(rng.random(rows) < agreement, truth, (truth + 1) % CLUSTERS)
        frame[f"category {at}"] = np.array(list("uvw"))[level]
    return frame, truth


def scores(frame: pd.DataFrame, truth: NDArray[np.int64], draw: int) -> list[float]:
    """Return the index in one space and in both, found and given, and of k-means of all rows."""
    parts = np.array_split(np.arange(len(frame)), CLIENTS)
    labels = []
    for number in ("auto", CLUSTERS):
        for rule in (one_space, nullcontext):
            with rule():
                model = fedkin.KinGraph(n_clusters=number, random_state=draw).fit([frame.iloc[rows] for rows in parts])
            labels.append(np.concatenate(model.labels_))
    labels.append(POOLED["k-means", True](prepared(frame), CLUSTERS, draw))
    return [float(adjusted_rand_score(truth, own)) for own in labels]


@contextmanager
def one_space() -> Iterator[None]:
    """Take no clusters of the second space."""
    usual = kingraph.are_better_separated
    kingraph.are_better_separated = lambda *given: False
    try:
        yield
    finally:
        kingraph.are_better_separated = usual


def named(numbers: int, categories: int, agreement: float, clear: bool) -> str:
    """Return the name of a case."""
    return f"{numbers}{'' if clear else ' without clusters'}, {categories}, {agreement:.0%}".replace("%", " %")


if __name__ == "__main__":
    main()
