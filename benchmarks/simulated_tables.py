"""Clusters of simulated tables as sites hold them: categories, truth values, empty cells, outliers, irrelevant columns.

    python benchmarks/simulated_tables.py --rows 600 2400 --draws 5 --first 100

Four clusters (unless a kind says otherwise) at three clients, rows at random. Prints, by kind and number of rows, mean
adjusted Rand index and mean number of clusters of kin-graph with the number found and given, of k-FED, and, of all rows
together, of k-means by silhouette and k-means and a Gaussian mixture with the number given. Where there is one cluster,
1 means that one is found and 0 that more are. Draw i is made from seed i.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score

import fedkin
from tables import POOLED, by_silhouette, prepared

Labels = NDArray[np.int64]
Rng = np.random.Generator
Drawn = tuple[pd.DataFrame, Labels]

CLIENTS, CLUSTERS = 3, 4
METHODS = ("kin-graph, found", "kin-graph", "k-FED", "k-means, silhouette", "k-means", "Gaussian mixture")


def main() -> None:
    """Print a row per kind and number of rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="+", choices=[*KINDS], default=[*KINDS])
    parser.add_argument("--rows", nargs="+", type=int, default=[600])
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--first", type=int, default=100, help="seed of the first draw")
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # one cluster of few micro-clusters is warned of
    print(f"| table | rows | {' | '.join(METHODS)} |\n|{'---|' * (len(METHODS) + 2)}")
    for kind in given.kinds:
        for rows in given.rows:
            runs = [scores(kind, rows, seed) for seed in range(given.first, given.first + given.draws)]
            means = np.mean(runs, axis=0)
            cells = [f"{ari:.2f} ({found:.1f})" for ari, found in means]
            print(f"| {kind} | {rows} | {' | '.join(cells)} |", flush=True)


def scores(kind: str, rows: int, seed: int) -> list[tuple[float, int]]:
    """Return adjusted Rand index and number of clusters of each method."""
    rng = np.random.default_rng([seed, list(KINDS).index(kind)])
    frame, truth = KINDS[kind](rows, rng)
    number = len(np.unique(truth))
    order = rng.permutation(rows)
    clients = [frame.iloc[part].reset_index(drop=True) for part in np.array_split(order, CLIENTS)]
    x = prepared(frame)
    models = (
        fedkin.KinGraph(random_state=seed),
        fedkin.KinGraph(n_clusters=number, random_state=seed),
        fedkin.KFed(n_clusters=number, random_state=seed),
    )
    federated = [(truth[order], np.concatenate(model.fit(clients).labels_)) for model in models]
    pooled = [by_silhouette(x, number, seed), *(POOLED[name, True](x, number, seed) for name in METHODS[4:])]
    pairs = [*federated, *((truth, labels) for labels in pooled)]
    return [(adjusted_rand_score(own, labels), len(np.unique(labels))) for own, labels in pairs]


def mixture(rows: int, rng: Rng, numbers: int, categories: int, shares: list[float] | None = None) -> Drawn:
    """Draw normal clusters in columns of any unit, and categories whose frequencies depend on the cluster alone."""
    truth = rng.choice(CLUSTERS, rows, p=shares)
    x = rng.normal(size=(CLUSTERS, numbers))[truth] * 3 / np.sqrt(2) + rng.normal(size=(rows, numbers))
    x = x * 10 ** rng.uniform(-2, 3, numbers) + rng.uniform(-100, 100, numbers)
    frame = pd.DataFrame(x, columns=[f"number {at}" for at in range(numbers)])
    for at in range(categories):
        levels = np.array([f"level {level}" for level in range(int(rng.integers(2, 7)))])
        odds = rng.dirichlet(np.full(len(levels), 0.35), CLUSTERS)
        frame[f"category {at}"] = [rng.choice(levels, p=odds[own]) for own in truth]
    return frame, truth


def truth_values(rows: int, rng: Rng) -> Drawn:
    """Draw fourteen columns of yes and no."""
    truth = rng.choice(CLUSTERS, rows)
    odds = rng.beta(0.4, 0.4, (CLUSTERS, 14))[truth]
    return pd.DataFrame(np.where(rng.random(odds.shape) < odds, "yes", "no")).add_prefix("question "), truth


def ratings(rows: int, rng: Rng) -> Drawn:
    """Draw ten columns of answers from 1 to 5."""
    truth = rng.choice(CLUSTERS, rows)
    answers = rng.uniform(1.5, 4.5, (CLUSTERS, 10))[truth] + rng.normal(scale=5 / 6, size=(rows, 10))
    return pd.DataFrame(np.clip(np.rint(answers), 1, 5).astype(int)).add_prefix("question "), truth


def counts(rows: int, rng: Rng) -> Drawn:
    """Draw eight columns of counts."""
    truth = rng.choice(CLUSTERS, rows)
    return pd.DataFrame(rng.poisson(np.exp(rng.normal(1, 1, (CLUSTERS, 8)))[truth])).add_prefix("count "), truth


def irrelevant(rows: int, rng: Rng) -> Drawn:
    """Draw five numbers, a category, and eight numbers, two truth values and two categories that tell nothing."""
    frame, truth = mixture(rows, rng, 5, 1)
    for at in range(8):
        frame[f"random number {at}"] = rng.normal(size=rows)
    for at in range(2):
        frame[f"random truth {at}"] = rng.choice(["yes", "no"], rows)
        frame[f"random category {at}"] = rng.choice(list("pqrs"), rows)
    return frame, truth


def incomplete(rows: int, rng: Rng) -> Drawn:
    """Draw five numbers and three categories with 15 % of empty cells."""
    frame, truth = mixture(rows, rng, 5, 3)
    return frame.mask(rng.random(frame.shape) < 0.15), truth


def outlying(rows: int, rng: Rng) -> Drawn:
    """Draw six numbers, two values of each a hundred times as far from 0 as the farthest."""
    frame, truth = mixture(rows, rng, 6, 0)
    for name in frame:
        frame.loc[rng.choice(rows, 2, replace=False), name] = frame[name].abs().max() * 100
    return frame, truth


def skewed(rows: int, rng: Rng) -> Drawn:
    """Draw six columns whose logarithms are normal in each cluster."""
    frame, truth = mixture(rows, rng, 6, 0)
    return np.exp(1.2 * (frame - frame.mean()) / frame.std()) * 10, truth


def one_cloud(rows: int, rng: Rng) -> Drawn:
    """Draw five numbers of a normal distribution and three random categories: a single cluster."""
    frame = pd.DataFrame(rng.normal(size=(rows, 5)) @ rng.normal(size=(5, 5))).add_prefix("number ")
    for at in range(3):
        frame[f"category {at}"] = rng.choice(list("abcd"), rows)
    return frame, np.zeros(rows, dtype=np.int64)


def random_categories(rows: int, rng: Rng) -> Drawn:
    """Draw eight independent categories: a single cluster."""
    columns = {f"category {at}": rng.choice(list("abcdef")[: int(rng.integers(2, 7))], rows) for at in range(8)}
    return pd.DataFrame(columns), np.zeros(rows, dtype=np.int64)


KINDS: dict[str, Callable[[int, Rng], Drawn]] = {
    "numbers": lambda rows, rng: mixture(rows, rng, 6, 0),
    "numbers and categories": lambda rows, rng: mixture(rows, rng, 4, 4),
    "categories": lambda rows, rng: mixture(rows, rng, 0, 10),
    "yes or no": truth_values,
    "answers from 1 to 5": ratings,
    "counts": counts,
    "clusters of 70, 15, 10 and 5 %": lambda rows, rng: mixture(rows, rng, 5, 2, [0.7, 0.15, 0.1, 0.05]),
    "irrelevant columns": irrelevant,
    "15 % of cells empty": incomplete,
    "outliers": outlying,
    "skewed": skewed,
    "one cloud, random categories": one_cloud,
    "random categories alone": random_categories,
}

if __name__ == "__main__":
    main()
