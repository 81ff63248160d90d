"""How often the test of a comparison says that clusters are no better than chance, with clusters and without.

    FEDKIN_DATA=... python benchmarks/compare_chance.py --seeds 1 2

tests the clusters of k-means with seven numbers on tables of at most 300 rows at three clients:
real tables, whose clusters should be better than chance, and made-up ones without clusters, whose should not. Every
other table of both kinds took part in choosing the test (``chosen``); the rest only judges it (``judged``). Without
FEDKIN_DATA only scikit-learn's tables are real.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from fedkin.studies.compare.better_than_chance import TIMES, ChanceTest, chance_test
from fedkin.studies.compare.spaces import points_of
from table_sources import generator, sources, table

Numbers = NDArray[np.float64]
REAL = (
    "iris", "wine", "hepta", "tetra", "chainlink", "digits", "lsun", "atom", "target", "twodiamonds", "wingnut",
    "engytime", "aggregation", "compound", "flame", "jain", "pathbased", "r15", "spiral", "s1", "s3", "a1", "d31",
    "unbalance", "dense", "fuzzyx", "line", "parabolic", "ring", "zigzag", "breast-cancer", "heart", "ten-blobs",
    "unequal-blobs",
)  # fmt: skip
_ROWS, _CLIENTS = 300, 3
_NUMBERS = (2, 3, 4, 6, 8, 12, 20)


def _correlated(rng: np.random.Generator, width: int) -> Numbers:
    return rng.standard_normal((_ROWS, width)) @ rng.standard_normal((width, width))


def _heavy(rng: np.random.Generator, width: int) -> Numbers:
    """Normal columns, and one of Student's t with 1.5 degrees of freedom."""
    x = rng.standard_normal((_ROWS, width))
    x[:, 0] = rng.standard_t(1.5, _ROWS)
    return x


def _mixed(rng: np.random.Generator, width: int) -> Numbers:
    """Normal columns, the last two thirds of them rounded to counts or cut to 0 and 1."""
    x = _correlated(rng, width)
    x[:, width // 3 :: 2] = np.round(x[:, width // 3 :: 2])
    x[:, width // 3 + 1 :: 2] = x[:, width // 3 + 1 :: 2] > 0
    return x


SHAPES: dict[str, Callable[[np.random.Generator, int], Numbers]] = {
    "normal": lambda rng, width: rng.standard_normal((_ROWS, width)),
    "correlated": _correlated,
    "uniform": lambda rng, width: rng.uniform(size=(_ROWS, width)),
    "exponential": lambda rng, width: rng.exponential(size=(_ROWS, width)),
    "lognormal, correlated": lambda rng, width: np.exp(0.7 * _correlated(rng, width) / np.sqrt(width)),
    "one heavy tail": _heavy,
    "counts": lambda rng, width: rng.poisson(2.0, (_ROWS, width)).astype(np.float64),
    "mixed": _mixed,
    "multivariate t": lambda rng, width: _correlated(rng, width) / np.sqrt(rng.chisquare(3, (_ROWS, 1)) / 3),
}
WITHOUT = tuple(f"{shape}, {width} columns" for shape in SHAPES for width in (2, 4, 10))
"""Tables without clusters: of one peak, whatever their shape."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=[*REAL, *WITHOUT])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0], help="Of the rows, and of who holds what.")
    given = parser.parse_args()
    there = set(sources()) | set(WITHOUT)
    rows = []
    for seed in given.seeds:
        for name in [name for name in given.tables if name in there]:
            found = tested(numbers(name, seed))
            row = {"table": name, "half": half(name), "clusters": name in REAL, "seed": seed, "passed": found.passed}
            rows.append(row)
            beside = f"{found.as_good} of {TIMES} reach it, {found.by_chance:.3f} on the mean"
            print(f"{name}, seed {seed}: cohesion {found.reached:.3f}, {beside}", flush=True)
    print(summary(pd.DataFrame(rows)))


def half(name: str) -> str:
    """Whether a table took part in choosing the test."""
    kind = REAL if name in REAL else WITHOUT
    return "judged" if kind.index(name) % 2 else "chosen"


def numbers(name: str, seed: int) -> Numbers:
    """The rows of a table, standardised; of digits as images."""
    rng = generator(seed, name, "chance")
    if name in WITHOUT:
        shape, _, columns = name.rpartition(", ")
        x = SHAPES[shape](rng, int(columns.split()[0]))
    else:
        frame = table(name, "plain", seed)[0].select_dtypes("number")
        x = frame.fillna(frame.median()).to_numpy(float)[rng.permutation(len(frame))[:_ROWS]]
    if name == "digits":
        return points_of(torch.from_numpy(x.reshape(-1, 1, 8, 8)).float() / 16)
    spread = x.std(axis=0)
    return (x - x.mean(axis=0)) / np.where(spread > 0, spread, 1.0)


def tested(x: Numbers) -> ChanceTest:
    """The test of the clusters of k-means."""
    sizes = [len(part) for part in np.array_split(np.arange(len(x)), _CLIENTS)]
    blocks = [(str(i), i, i + 1) for i in range(x.shape[1])]
    found = [KMeans(k, n_init=2, random_state=0).fit_predict(x).astype(np.int64) for k in _NUMBERS]
    return chance_test(x, blocks, sizes, [[labels] for labels in found])


def summary(rows: pd.DataFrame) -> str:
    """Both errors, by half."""
    lines = []
    for part, own in rows.groupby("half"):
        real, without = own[own["clusters"]], own[~own["clusters"]]
        lines.append(
            f"{part}: of {len(real)} tests of tables with clusters {(~real['passed']).sum()} say chance; "
            f"of {len(without)} of tables without {without['passed'].sum()} do not."
        )
    wrong = rows[rows["clusters"] != rows["passed"]]
    return "\n".join([*lines, *(f"  wrong: {row.table}, seed {row.seed} ({row.half})" for row in wrong.itertuples())])


if __name__ == "__main__":
    main()
