"""Clusters that kin-graph's graph alone does not show: many small ones, and those of few categories.

    python benchmarks/beyond_the_graph.py OUT --seeds 31 32

Appends to OUT a line of JSON per table and seed that it lacks, and prints the mean adjusted Rand index and number of
clusters of kin-graph at three clients, with and without `small_clusters`, `compact_clusters` and `clusters_by_valleys`
of `fedkin.clustering`, and of k-means of all rows, with the number found and given. *Clouds* are normal or uniform, of
the same or of different sizes and widths, in 2, 4, 7 and 15 columns; *categories* are two to six latent classes, of
which each has its own frequent ones, with no, one or two numbers; *beside* are two to four clusters that lie three
standard deviations apart in one, two or four numbers, beside one to three categories that name the cluster of 70 or 90
% of the rows; *touching* are two to four normal clusters in two or three columns, three to four standard deviations
from the nearest; *none* are samples of one distribution, of which the index is 1 where one cluster is found; *suite*,
where FEDKIN_DATA is set, are parts of the sets with fifteen clusters or more of the standard suite. k-means is tried
with up to 50 clusters.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score

import fedkin
from fedkin.clustering.graph import node_clusters
from tables import POOLED, by_silhouette, prepared

Drawn = tuple[NDArray[np.float64] | pd.DataFrame, NDArray[np.int64]]

METHODS = ("with, found", "without, found", "with, given", "without, given", "k-means, silhouette", "k-means, given")
GROUPS = ("clouds", "categories", "beside", "touching", "none", "suite")
FORMS = ("round", "unequal", "stretched", "uniform")
COLUMNS, CLUSTERS, ROWS_EACH = (2, 4, 7, 15), (10, 20, 40), (20, 35)
CLASSES, CATEGORIES, NUMBERS, PURITY, CATEGORY_ROWS = (2, 3, 4, 6), (3, 5, 10), (0, 1, 2), (0.75, 0.9), (450, 1500)
BESIDE = ((2, 3, 4), (1, 2, 3), (1, 2, 4), (0.7, 0.9), (300, 900))
"""Clusters, categories, numbers, the fraction of rows whose category is their cluster's, and rows."""
TOUCHING = ((3.0, 3.5, 4.0), (2, 3), (2, 3, 4), (500, 2000))
"""Standard deviations between nearest centres, columns, clusters, and rows."""
RHOMBUS = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.5, 0.75**0.5, 0.0], [0.5, -(0.75**0.5), 0.0]])
NONE, NONE_ROWS = ("normal", "uniform", "correlated", "lognormal", "ring", "answers"), (300, 900)
SETS = ("a1", "a2", "a3", "birch1", "birch2", "d31", "r15", "s1", "s2", "s3", "s4", "worms_2")
SET_ROWS = (500, 1000)
CLIENTS = 3
RULES = ("small_clusters", "compact_clusters", "clusters_by_valleys")


def main() -> None:
    """Run what OUT lacks, and print a row per group."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", nargs="+", type=int, default=[31, 32])
    parser.add_argument("--groups", nargs="+", choices=GROUPS, default=GROUPS)
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # one cluster of few micro-clusters is warned of
    lines = [json.loads(line) for line in given.out.read_text().splitlines()] if given.out.exists() else []
    known = {(line["table"], line["seed"]) for line in lines}
    with given.out.open("a") as file:
        for seed, group in product(given.seeds, given.groups):
            for name, draw in tables(group):
                if (name, seed) not in known:
                    lines.append({"group": group, "table": name, "seed": seed, "found": scores(*draw(seed), seed)})
                    print(json.dumps(lines[-1]), file=file, flush=True)
    print("\n".join(shown(lines)))


def tables(group: str) -> Iterator[tuple[str, Callable[[int], Drawn]]]:
    """Yield the tables of a group by name, each from a seed."""
    if group == "clouds":
        for form, width, number, each in product(FORMS, COLUMNS, CLUSTERS, ROWS_EACH):
            yield f"{form}, {width}, {number}, {each}", partial(clouds, form, width, number, each)
    elif group == "categories":
        for of in product(CLASSES, CATEGORIES, NUMBERS, PURITY, CATEGORY_ROWS):
            yield ", ".join(map(str, of)), partial(latent_classes, *of)
    elif group == "beside":
        for of in product(*BESIDE):
            yield "beside, " + ", ".join(map(str, of)), partial(numbers_beside, *of)
    elif group == "touching":
        for of in product(*TOUCHING):
            yield "touching, " + ", ".join(map(str, of)), partial(touching, *of)
    elif group == "none":
        for form, width, rows in product(NONE, COLUMNS, NONE_ROWS):
            yield f"{form}, {width}, {rows}", partial(without_clusters, form, width, rows)
    elif "FEDKIN_DATA" in os.environ:
        for name, rows in product(SETS, SET_ROWS):
            yield f"{name}, {rows}", partial(of_suite, name, rows)


def clouds(form: str, width: int, number: int, each: int, seed: int) -> Drawn:
    """Draw clusters whose centres are 4 to 7 standard deviations from the nearest on average."""
    rng = np.random.default_rng([seed, width, number, each, *form.encode()])
    centres = rng.random((number, width))
    apart = np.linalg.norm(centres[:, None] - centres, axis=2)
    centres *= rng.uniform(4, 7) / (apart + np.diag(np.full(number, np.inf))).min(axis=1).mean()
    sizes = rng.dirichlet(np.full(number, 3.0)) if form == "unequal" else np.full(number, 1 / number)
    truth = rng.choice(number, number * each, p=sizes)
    x = rng.standard_normal((number * each, width))
    if form == "unequal":
        x *= rng.uniform(0.5, 1.5, number)[truth, None]
    elif form == "stretched":
        axes = np.linalg.qr(rng.standard_normal((number, width, width)))[0]
        x = np.einsum("nd,nde->ne", x * np.linspace(1.6, 0.6, width), axes[truth])
    elif form == "uniform":
        x = rng.uniform(-np.sqrt(3), np.sqrt(3), x.shape)
    return x + centres[truth], truth


def latent_classes(classes: int, categories: int, numbers: int, purity: float, rows: int, seed: int) -> Drawn:
    """Draw columns that vary independently within classes; `purity` is the probability of a class's own category."""
    rng = np.random.default_rng([classes, categories, numbers, int(purity * 100), rows, seed])
    truth = rng.choice(classes, rows, p=rng.dirichlet(np.full(classes, 8.0)))
    columns = {}
    for at in range(categories):
        levels = int(rng.integers(2, 6))
        own = rng.permutation(np.resize(np.arange(levels), classes))[truth]
        other = (own + rng.integers(1, levels, rows)) % levels
        drawn = np.where(rng.random(rows) < purity, own, other)
        columns[f"category {at}"] = np.array(list("abcde"))[drawn]
    for at in range(numbers):
        columns[f"number {at}"] = rng.normal(0, 2, classes)[truth] + rng.standard_normal(rows)
    return pd.DataFrame(columns), truth


def numbers_beside(clusters: int, categories: int, numbers: int, own: float, rows: int, seed: int) -> Drawn:
    """Draw numbers whose clusters lie three standard deviations apart, and categories that mostly tell the cluster."""
    rng = np.random.default_rng([clusters, categories, numbers, int(own * 100), rows, seed, 3])
    truth = rng.integers(0, clusters, rows)
    columns = {}
    for at in range(categories):
        drawn = np.where(rng.random(rows) < own, rng.permutation(clusters)[truth], rng.integers(0, clusters, rows))
        columns[f"category {at}"] = np.array(list("abcd"))[drawn]
    for at in range(numbers):
        columns[f"number {at}"] = 3 * rng.permutation(clusters)[truth] + rng.standard_normal(rows)
    return pd.DataFrame(columns), truth


def touching(apart: float, width: int, clusters: int, rows: int, seed: int) -> Drawn:
    """Draw normal clusters with variance 1, each so far from the nearest."""
    rng = np.random.default_rng([int(10 * apart), width, clusters, rows, seed, 4])
    truth = rng.integers(0, clusters, rows)
    return rng.standard_normal((rows, width)) + apart * RHOMBUS[truth, :width], truth


def without_clusters(form: str, width: int, rows: int, seed: int) -> Drawn:
    """Draw samples of one distribution; *answers* are whole numbers from 1 to 7."""
    rng = np.random.default_rng([seed, width, rows, *form.encode()])
    x = rng.standard_normal((rows, width))
    if form == "uniform":
        x = rng.random(x.shape)
    elif form == "correlated":
        x = x @ rng.standard_normal((width, width))
    elif form == "lognormal":
        x = np.exp(x)
    elif form == "ring":
        x = x / np.linalg.norm(x, axis=1)[:, None] + 0.05 * rng.standard_normal(x.shape)
    elif form == "answers":
        x = rng.integers(1, 8, x.shape).astype(float)
    return x, np.zeros(rows, dtype=np.int64)


def of_suite(name: str, rows: int, seed: int) -> Drawn:
    """Return rows of a set of the standard suite."""
    file = Path(os.environ["FEDKIN_DATA"]) / "clustering" / "sipu" / name
    x, truth = np.loadtxt(f"{file}.data.gz"), np.loadtxt(f"{file}.labels0.gz", dtype=np.int64)
    kept = np.random.default_rng([seed, rows]).permutation(len(x))[:rows]
    return x[kept], truth[kept]


def scores(x: NDArray[np.float64] | pd.DataFrame, truth: NDArray[np.int64], seed: int) -> list[tuple[float, int]]:
    """Return index and number of clusters of each method."""
    order, number = np.random.default_rng(seed).permutation(len(x)), len(np.unique(truth))
    frame, truth = pd.DataFrame(x).iloc[order], truth[order]
    parts = [frame.iloc[rows] for rows in np.array_split(np.arange(len(frame)), CLIENTS)]
    clients = [part.reset_index(drop=True) if isinstance(x, pd.DataFrame) else part.to_numpy() for part in parts]
    labels = []
    for wanted in ("auto", number):
        for rules in (nullcontext, graph_alone):
            with rules():
                labels.append(
                    np.concatenate(fedkin.KinGraph(n_clusters=wanted, random_state=seed).fit(clients).labels_)
                )
    rows = prepared(frame.rename(columns=str).reset_index(drop=True))
    labels += [by_silhouette(rows, number, seed), POOLED["k-means", True](rows, number, seed)]
    return [(round(adjusted_rand_score(truth, found), 4), len(np.unique(found))) for found in labels]


@contextmanager
def graph_alone() -> Iterator[None]:
    """Leave out what kin-graph does for small and for compact clusters, and for those that touch."""
    usual = {rule: getattr(node_clusters, rule) for rule in RULES}
    for rule in RULES:
        setattr(node_clusters, rule, lambda *given: given[-3:-1])
    try:
        yield
    finally:
        for rule, own in usual.items():
            setattr(node_clusters, rule, own)


def shown(lines: Sequence[dict]) -> list[str]:
    """Return a Markdown table: means over tables, ± over seeds, and the mean numbers of clusters."""
    texts = [f"| tables | number | {' | '.join(METHODS)} |", "|---" * (len(METHODS) + 2) + "|"]
    rows: dict[str, dict[int, list]] = defaultdict(lambda: defaultdict(list))
    for line in lines:
        rows[part_of(line)][line["seed"]].append(line["found"])
    for part, by_seed in rows.items():
        means = np.array([np.mean(found, axis=0) for found in by_seed.values()])
        spread = means[:, :, 0].std(axis=0, ddof=1) if len(means) > 1 else np.zeros(len(METHODS))
        cells = [f"{a:.2f} ± {s:.2f} ({k:.1f})" for (a, k), s in zip(means.mean(axis=0), spread, strict=True)]
        texts.append(f"| {part} | {len(next(iter(by_seed.values())))} | {' | '.join(cells)} |")
    return texts


def part_of(line: dict) -> str:
    """Return the row of a line: clouds by their number and rows, categories by theirs, the others by rows."""
    *_, number, each = of = line["table"].split(", ")
    if line["group"] == "categories":
        return f"{of[1]} categories, {of[2] if int(of[2]) else 'no'} number{'s' * (of[2] != '1')}"
    if line["group"] == "beside":
        return f"{of[3]} number{'s' * (of[3] != '1')} beside {of[2]} categor{'y' if of[2] == '1' else 'ies'}"
    if line["group"] == "touching":
        return f"{of[1]} standard deviations apart, {each} rows"
    return f"{number} clouds of {each} rows" if line["group"] == "clouds" else f"{line['group']}, {each} rows"


if __name__ == "__main__":
    main()
