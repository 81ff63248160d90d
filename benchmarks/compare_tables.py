"""How far behind the best candidate the recommendation of a comparison is, on tables whose classes are known.

    FEDKIN_DATA=... python benchmarks/compare_tables.py OUT --seeds 0 1

judges kin-graph, and k-FED and kin-graph with the true number and each of a ladder, by one split, on tables held by
three clients, partitioned at random for even seeds and by label skew for odd ones, as `fedkin compare` does with
nothing given. The classes have no part in what is recommended. *Regret* is the ARI of the best candidate less that of
the recommended one. A line of OUT/regret.csv follows each table; what is there is not made again.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_iris, load_wine, make_moons

from fedkin.clustering.metrics import adjusted_rand
from fedkin.core.runner import Callback
from fedkin.data.inputs import ClientFiles
from fedkin.experiment.config import load_config
from fedkin.studies.compare import run_cell
from fedkin.studies.comparison import CHANCE, Candidate, Score, best_numbers, recommend
from sources import add, known_cells

SKLEARN = {"wine": load_wine, "iris": load_iris, "breast-cancer": load_breast_cancer}
CHOSEN_ON = (
    "wine", "iris", "breast-cancer", "fcps/lsun", "fcps/chainlink", "sipu/aggregation", "sipu/flame", "fcps/engytime",
    "sipu/s1", "fcps/hepta", "fcps/tetra", "sipu/jain", "graves/dense", "fcps/twodiamonds", "graves/fuzzyx",
    "sipu/unbalance", "sipu/compound", "fcps/target", "sipu/r15", "sipu/spiral", "fcps/wingnut", "graves/parabolic",
    "sipu/pathbased", "sipu/a1", "fcps/atom", "graves/zigzag", "sipu/s3", "graves/ring", "sipu/d31", "graves/line",
)  # fmt: skip
FRESH = (
    "sipu/a2", "sipu/a3", "sipu/s2", "sipu/s4", "sipu/birch1", "sipu/birch2", "sipu/worms_2", "heart/all",
    "made/moons", "made/blobs-3-4", "made/blobs-6-2", "made/blobs-8-10", "made/blobs-12-3", "made/stretched-4-3",
    "made/unequal-3-2", "made/unequal-5-6", "made/mixed-4",
)  # fmt: skip
METHODS = ("kfed", "kin-graph")
NUMBERS = (2, 3, 4, 6, 8, 12, 20)
_ROWS, _CLIENTS, _FEWEST, _PER_CLUSTER = 1000, 3, 20, 10
"""Rows of a table at most, clients, rows of a client at least, and rows per cluster at least."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--tables", nargs="+", default=[*CHOSEN_ON, *FRESH], help="Such as wine or sipu/s1.")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1], help="Of columns, rows and who holds what.")
    given = parser.parse_args()
    path = given.out / "regret.csv"
    known = known_cells(path, ["table", "seed"])
    for seed in given.seeds:
        for table in given.tables:
            if (table, str(seed)) not in known:
                add(path, {"table": table, "seed": seed, **judged(table, seed)})


def judged(table: str, seed: int) -> dict[str, object]:
    """What is recommended on a table, and the best of all that was tried."""
    frame, truth = read_table(table, seed)
    parts = partitioned(truth, "label-skew" if seed % 2 else "random", seed)
    population = ClientFiles([frame.iloc[part].reset_index(drop=True) for part in parts], "none").build()
    numbers = sorted({*NUMBERS, len(np.unique(truth))})
    numbers = [number for number in numbers if number * _PER_CLUSTER <= len(truth)]
    scores, classes = [], np.concatenate([truth[part] for part in parts])
    for candidate in [Candidate("kin-graph"), *(Candidate(name, number) for name in METHODS for number in numbers)]:
        settings = [] if candidate.number is None else [f"method.n_clusters={candidate.number}"]
        config = load_config(candidate.method, ["simulation.scenario=files", "data.source=table", *settings])
        run = run_cell(config, population, Callback())
        ari = adjusted_rand(classes, np.array(run.labels))
        scores.append(Score(candidate.method, candidate.number, (replace(run, metrics={"ari": ari}),)))
    choice = recommend(list(best_numbers(scores).values()))
    best = max(scores, key=lambda score: score.measures["ari"])
    taken = choice.score.measures["ari"] if choice else 0.0
    return {
        "recommended": choice.score.name if choice else "",
        # As `Comparison.confident` is with one seed: decided, better than chance, and more than one cluster is found.
        "confident": bool(
            choice and not choice.undecided and choice.score.value > CHANCE and scores[0].clusters[0] > 1
        ),
        "found again": round(choice.score.value, 3) if choice else 0.0,
        "ari": round(taken, 3),
        "best": best.candidate.name,
        "regret": round(best.measures["ari"] - taken, 3),
    }


def read_table(table: str, seed: int) -> tuple[pd.DataFrame, NDArray[np.int64]]:
    """A table, and the class of each row; rows that are left out are drawn by `seed`."""
    rng = np.random.default_rng([seed, *table.encode()])
    if table == "heart/all":
        whole = pd.concat(map(pd.read_csv, sorted((Path(os.environ["FEDKIN_DATA"]) / "heart").glob("*.csv"))))
        y = whole.pop("disease").to_numpy().astype(np.int64)
    elif table.startswith("made/"):
        whole, y = made(table.removeprefix("made/"), rng)
    else:
        if table in SKLEARN:
            x, y = SKLEARN[table](return_X_y=True)
        else:
            file = Path(os.environ["FEDKIN_DATA"]) / "clustering" / table
            x, y = np.loadtxt(f"{file}.data.gz"), np.loadtxt(f"{file}.labels0.gz", dtype=np.int64)
        whole = pd.DataFrame(x, columns=[f"column {i}" for i in range(x.shape[1])])
    kept = np.sort(rng.permutation(len(whole))[:_ROWS])
    return whole.iloc[kept].reset_index(drop=True), y[kept]


def made(name: str, rng: np.random.Generator) -> tuple[pd.DataFrame, NDArray[np.int64]]:
    """A made-up table of 600 rows: ``KIND-CLUSTERS-COLUMNS``, or moons."""
    kind, *numbers = name.split("-")
    if kind == "moons":
        x, y = make_moons(600, noise=0.1, random_state=int(rng.integers(1000)))
        return pd.DataFrame(x, columns=["east", "north"]), y.astype(np.int64)
    clusters, columns = int(numbers[0]), int(numbers[-1])
    sizes = rng.dirichlet(np.full(clusters, 3.0)) if kind == "unequal" else np.full(clusters, 1 / clusters)
    y = rng.choice(clusters, 600, p=sizes).astype(np.int64)
    centres = rng.uniform(-6, 6, (clusters, columns))
    widths = rng.uniform(0.4, 1.6, clusters) if kind == "unequal" else np.ones(clusters)
    x = rng.standard_normal((600, columns)) * widths[y, None]
    if kind == "stretched":
        shapes = np.stack([np.linalg.qr(rng.standard_normal((columns, columns)))[0] for _ in range(clusters)])
        x = np.einsum("nd,nde->ne", x * np.linspace(2, 0.5, columns), shapes[y])
    frame = pd.DataFrame(x + centres[y], columns=[f"column {i}" for i in range(columns)])
    if kind == "mixed":  # beside numbers, categories of which each cluster has its own frequent one
        for i in range(3):
            habit = rng.integers(4, size=clusters)[y]
            frame[f"category {i}"] = np.array(list("abcd"))[
                np.where(rng.random(600) < 0.7, habit, rng.integers(4, size=600))
            ]
    return frame, y


def partitioned(truth: NDArray[np.int64], partition: str, seed: int) -> list[NDArray[np.int64]]:
    """Rows of each client: as many at random, or of each class by Dirichlet(0.5)."""
    rng = np.random.default_rng([seed, *partition.encode()])
    if partition == "random":
        return list(np.array_split(rng.permutation(len(truth)), _CLIENTS))
    while True:
        holder = np.zeros(len(truth), dtype=np.int64)
        for label in np.unique(truth):
            rows = np.flatnonzero(truth == label)
            holder[rows] = rng.choice(_CLIENTS, len(rows), p=rng.dirichlet([0.5] * _CLIENTS))
        if np.bincount(holder, minlength=_CLIENTS).min() >= min(_FEWEST, len(truth) // (2 * _CLIENTS)):
            return [np.flatnonzero(holder == client) for client in range(_CLIENTS)]


if __name__ == "__main__":
    main()
