"""kin-graph with and without clusters by density, on simulated samples of one to three columns at three clients.

    python benchmarks/kin_graph_density.py --families shapes clouds single --draws 40 --first 0
    python benchmarks/kin_graph_density.py --families line answers single-line --draws 40 --first 0
    python benchmarks/kin_graph_density.py --families shapes clouds single --draws 80 --first 800 --rule valleys

On a line, clusters by density are modes. With ``--rule valleys`` what is left out is the search for valleys alone. For
every family and minimum of samples in a micro-cluster it prints, with the number of clusters found and given, the mean
adjusted Rand index without and with clusters by density, and the mean difference with its standard error. Of single
clusters it prints the fraction found as one. Draw i is made from seed i.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score

import fedkin

Rows = NDArray[np.float64]
Labels = NDArray[np.int64]
Drawn = tuple[Rows, Labels]

CLIENTS, FLOORS, SIZES = 3, (5, 2), (150, 300, 600, 1_500)
BY_DENSITY = patch("fedkin.clustering.graph.graph_cut.density_clusters", lambda points, size: None)
BY_MODES = patch("fedkin.clustering.graph.node_clusters.on_a_line", lambda points: False)
VALLEYS = patch("fedkin.clustering.graph.node_clusters.clusters_by_valleys", lambda *given: given[2:4])
RULES = {"density": (BY_DENSITY, BY_MODES, VALLEYS), "valleys": (VALLEYS,)}
"""What leaves out each rule; that for valleys came after those for density."""


def main() -> None:
    """Print a row per family, minimum, and whether the number is given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", nargs="+", choices=[*FAMILIES], default=[*FAMILIES])
    parser.add_argument("--draws", type=int, default=40)
    parser.add_argument("--first", type=int, default=0, help="seed of the first draw")
    parser.add_argument("--rule", choices=[*RULES], default="density")
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # one cluster of few micro-clusters is warned of
    print("| family | `min_members` | number | without | with | difference |\n|---|---|---|---|---|---|")
    for family in given.families:
        for floor in FLOORS:
            for number in ("found",) if found_alone(family, given.rule) else ("found", "given"):
                pairs = [
                    both(family, seed, floor, number, given.rule)
                    for seed in range(given.first, given.first + given.draws)
                ]
                print(row(family, floor, number, np.array(pairs)), flush=True)


def found_alone(family: str, rule: str) -> bool:
    """Return whether a given number makes no difference."""
    return family.startswith("single") or rule == "valleys"


def both(family: str, seed: int, floor: int, number: str, rule: str) -> tuple[float, float]:
    """Return the score without and with a rule."""
    rng = np.random.default_rng([seed, list(FAMILIES).index(family)])
    x, truth = FAMILIES[family](seed, int(rng.choice(SIZES)), rng)
    order = rng.permutation(len(x))
    parts = np.array_split(((x - x.mean(0)) / x.std(0))[order], CLIENTS)
    classes = len(np.unique(truth))
    model = fedkin.KinGraph(
        n_clusters=classes if number == "given" else "auto", min_members=floor, scaling="none", random_state=seed
    )
    with ExitStack() as left_out:
        for each in RULES[rule]:
            left_out.enter_context(each)
        without = score(model.fit(parts), truth[order])
    return without, score(model.fit(parts), truth[order])


def score(model: fedkin.KinGraph, truth: Labels) -> float:
    """Return the adjusted Rand index; where all samples are one cluster, it is 1 if one is found and 0 if not."""
    return float(adjusted_rand_score(truth, np.concatenate(model.labels_)))


def row(family: str, floor: int, number: str, scores: Rows) -> str:
    """Return a line of the table."""
    without, found = scores.mean(0)
    change = scores[:, 1] - scores[:, 0]
    error = change.std(ddof=1) / np.sqrt(len(change)) if len(change) > 1 else float("nan")
    return f"| {family} | {floor} | {number} | {without:.3f} | {found:.3f} | {change.mean():+.3f} ± {error:.3f} |"


SHARES = ([1, 1], [1, 2], [1, 1, 1], [1, 1, 1, 1], [1, 1, 1], [2, 1, 1], [1, 3], [3, 7])
"""Relative sizes of the clusters of each shape."""


def shapes(seed: int, n: int, rng: np.random.Generator) -> Drawn:
    """Draw moons, rings, stripes, squares, spirals, blocks, a ball beside a bar, or arcs of different density."""
    kind = seed % len(SHARES)
    truth = rng.choice(len(SHARES[kind]), n, p=np.array(SHARES[kind]) / sum(SHARES[kind]))
    x = shape(kind, truth, rng)
    return x + rng.uniform(0.02, 0.12) * rng.standard_normal((n, 2)), truth


def shape(kind: int, truth: Labels, rng: np.random.Generator) -> Rows:
    """Draw samples of a shape without noise, at most four clusters."""
    n, first, turn = len(truth), truth[:, None] == 0, rng.uniform(0, np.pi, len(truth))
    square, arc = rng.random((n, 2)), np.c_[np.cos(turn), np.sin(turn)]
    if kind == 0:
        return np.where(first, arc, [1.0, 0.5] - arc)
    if kind == 1:
        return np.c_[np.cos(2 * turn), np.sin(2 * turn)] * np.where(first, rng.uniform(0.3, 0.55), 1.0)
    if kind == 2:
        return np.c_[3 * square[:, 0], truth * rng.uniform(0.5, 0.8)]
    if kind == 3:
        return np.c_[truth % 2, truth // 2] * rng.uniform(1.15, 1.5) + square
    if kind == 4:
        along = np.sqrt(square[:, 0]) * 2.1 * np.pi + 0.8
        return np.c_[np.cos(along + truth * 2.1), np.sin(along + truth * 2.1)] * along[:, None] / 4
    if kind == 5:
        sides, corners = np.array([[0.5, 2.0], [1.5, 0.5], [0.5, 0.5]]), np.array([[0.0, 0.0], [0.7, 0.0], [1.4, 1.4]])
        return square * sides[truth] + corners[truth]
    if kind == 6:
        return np.where(first, rng.normal([0, 1.2], 0.2, (n, 2)), rng.normal(0, [0.9, 0.18], (n, 2)))
    return np.where(first, arc * [1, 0.8], [1, 0.4] - arc * [1, 1.2])


def clouds(seed: int, n: int, rng: np.random.Generator) -> Drawn:
    """Draw two to eight normal clouds of any direction, in two or three columns, at least 2.5 to 6 deviations apart."""
    columns, number, apart = 2 + seed % 2, int(rng.integers(2, 9)), rng.uniform(2.5, 6)
    middles: list[Rows] = []
    width = apart * number ** (1 / columns)
    while len(middles) < number:
        middle = rng.uniform(0, width, columns)
        width *= 1.02
        if all(np.linalg.norm(middle - other) > apart for other in middles):
            middles.append(middle)
    truth = rng.choice(number, n, p=rng.dirichlet(np.full(number, 4.0)))
    turned = [np.linalg.qr(rng.standard_normal((columns, columns)))[0] for _ in middles]
    stretched = np.stack([rng.uniform(0.5, 1.3, columns)[:, None] * turn for turn in turned])
    return np.array(middles)[truth] + np.einsum(
        "nc,ncd->nd", rng.standard_normal((n, columns)), stretched[truth]
    ), truth


def single(seed: int, n: int, rng: np.random.Generator) -> Drawn:
    """Draw a single cloud, box, ball, bar or bent sheet in two or three columns."""
    columns = 2 + seed // 8 % 2
    normal, turn = rng.standard_normal((n, columns)), rng.uniform(0, np.pi, n)
    length = np.linalg.norm(normal, axis=1, keepdims=True)
    drawn = (
        normal,
        normal @ rng.standard_normal((columns, columns)),
        rng.random((n, columns)),
        normal / length * rng.random((n, 1)) ** (1 / columns),
        rng.exponential(size=(n, columns)),
        rng.standard_t(4, size=(n, columns)),
        np.c_[np.cos(turn), np.sin(turn)] + 0.1 * normal[:, :2],
        rng.random((n, 2)) * [8, 1],
    )[seed % 8]
    return drawn, np.zeros(n, dtype=np.int64)


def line(seed: int, n: int, rng: np.random.Generator) -> Drawn:
    """Draw two to five normal or lognormal clusters in one column, 3.5 to 7 deviations apart."""
    number = int(rng.integers(2, 6))
    middles = np.cumsum(rng.uniform(3.5, 7, number))
    truth = rng.choice(number, n, p=rng.dirichlet(np.full(number, 6.0)))
    x = middles[truth] + rng.uniform(0.5, 1.2, number)[truth] * rng.standard_normal(n)
    return (np.exp(x / 8) if seed % 3 == 2 else x)[:, None], truth


def answers(seed: int, n: int, rng: np.random.Generator) -> Drawn:
    """Draw the number of times that two kinds of people say yes, of 12 to 40 questions."""
    truth = rng.choice(2, n, p=rng.dirichlet(np.full(2, 6.0)))
    chance = np.array([rng.uniform(0.1, 0.4), rng.uniform(0.6, 0.9)])
    return rng.binomial(int(rng.integers(12, 41)), chance[truth])[:, None].astype(np.float64), truth


def single_line(seed: int, n: int, rng: np.random.Generator) -> Drawn:
    """Draw a single column with one mode: normal, even, exponential, gamma, beta, heavy-tailed, or counts."""
    drawn = (
        rng.standard_normal(n),
        rng.random(n),
        rng.exponential(size=n),
        rng.gamma(3, size=n),
        rng.beta(2, 5, n),
        rng.standard_t(5, size=n),
        rng.poisson(9, n).astype(np.float64),
    )[seed % 7]
    return drawn[:, None], np.zeros(n, dtype=np.int64)


FAMILIES: dict[str, Callable[[int, int, np.random.Generator], Drawn]] = {
    "shapes": shapes, "clouds": clouds, "single": single, "line": line, "answers": answers, "single-line": single_line,
}  # fmt: skip

if __name__ == "__main__":
    main()
