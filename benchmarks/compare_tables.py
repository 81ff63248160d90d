"""How far behind the best candidate the recommendation of a comparison is, on tables with irrelevant columns.

    FEDKIN_DATA=... python benchmarks/compare_tables.py OUT --seeds 0 1

compares cheap methods on tables held by three clients, partitioned at random and by label skew, with nothing given. The
truth has no part in what is recommended. *Regret* is the ARI of the best candidate, a method with a number of clusters,
less that of the recommended one. A line of OUT/regret.csv follows each comparison; one
that was stopped resumes, and finished runs are used again: after a change of the rule, `--again` judges the same runs.
The rule was chosen on the tables of CHOOSE alone. Without FEDKIN_DATA only scikit-learn's tables are compared.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_iris, load_wine

from fedkin.experiment.run_folder import is_finished
from fedkin.studies.compare import Comparison
from fedkin.studies.compare.compare_arrays import compare
from grid import records

SKLEARN = {"wine": load_wine, "iris": load_iris, "breast-cancer": load_breast_cancer}
IRRELEVANT = ("", "+1 number", "+4 number", "+1 boolean", "+4 boolean", "+1 category", "+4 category")
CHOOSE = ("wine", "fcps/lsun", "fcps/chainlink", "sipu/aggregation", "sipu/flame", "fcps/engytime", "sipu/s1")
JUDGE = ("breast-cancer", "iris", "fcps/hepta", "fcps/tetra", "sipu/jain", "graves/dense", "fcps/twodiamonds",
         "graves/fuzzyx", "sipu/unbalance")  # fmt: skip
PARTITIONS = ("random", "label-skew")
METHODS = ("kfed", "ffcm", "kin-graph", "kmeans", "fuzzy-cmeans")
_ROWS, _CLIENTS, _FEWEST = 1000, 3, 20
"""Rows of a table at most, clients, and rows of a client at least."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--tables", nargs="+", default=tables(), help="Such as wine or 'wine +4 category'.")
    parser.add_argument("--partitions", nargs="+", choices=PARTITIONS, default=list(PARTITIONS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1], help="Of columns, rows and who holds what.")
    parser.add_argument("--runs", type=int, default=2, help="Runs of each method.")
    parser.add_argument("--budget", default="5m")
    parser.add_argument("--again", action="store_true", help="Judge what was judged before.")
    given = parser.parse_args()
    path = given.out / "regret.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    if given.again:
        path.unlink(missing_ok=True)
    known = pd.read_csv(path).to_dict("records") if path.exists() else []
    done = {(row["table"], row["partition"], row["seed"]) for row in known}
    for seed in given.seeds:
        for table in given.tables:
            for partition in given.partitions:
                if (table, partition, seed) in done:
                    continue
                frame, truth = read_table(table, seed)
                parts = partitioned(truth, partition, seed)
                name = f"{table}-{partition}-{seed}".replace("/", "-").replace(" ", "-")
                found = compare(
                    [frame.iloc[part].reset_index(drop=True) for part in parts],
                    [truth[part] for part in parts],
                    methods=METHODS,
                    budget=given.budget,
                    seeds=given.runs,
                    out=given.out / name,
                )
                row = {"table": table, "partition": partition, "seed": seed, **figures(found)}
                pd.DataFrame([row]).to_csv(path, mode="a", header=not path.exists(), index=False)
                print(row, flush=True)
    print(summary(pd.read_csv(path)))


def tables() -> list[str]:
    """Names of all tables that are there."""
    others = [name for name in (*CHOOSE, *JUDGE) if "/" in name] if os.environ.get("FEDKIN_DATA") else []
    return [f"{name} {more}".strip() for more in IRRELEVANT for name in SKLEARN] + others


def read_table(name: str, seed: int) -> tuple[pd.DataFrame, NDArray[np.int64]]:
    """A table, and the class of each row; irrelevant columns and rows that are left out are drawn by `seed`."""
    rng = np.random.default_rng([seed, *name.encode()])
    table, _, more = name.partition(" +")
    if table in SKLEARN:
        x, y = SKLEARN[table](return_X_y=True)
    else:
        file = Path(os.environ["FEDKIN_DATA"]) / "clustering" / table
        x, y = np.loadtxt(f"{file}.data.gz"), np.loadtxt(f"{file}.labels0.gz", dtype=np.int64)
    kept = np.sort(rng.permutation(len(x))[:_ROWS])
    frame = pd.DataFrame(x[kept], columns=[f"column {i}" for i in range(x.shape[1])])
    count, _, kind = more.partition(" ")
    for i in range(int(count or 0)):
        frame[f"irrelevant {i}"] = irrelevant(kind, len(frame), rng)
    return frame, y[kept]


def irrelevant(kind: str, rows: int, rng: np.random.Generator) -> pd.Series:
    """A column that has nothing to do with the others."""
    if kind == "number":
        return pd.Series(rng.standard_normal(rows))
    if kind == "boolean":
        return pd.Series(rng.random(rows) < 0.5)
    return pd.Series(rng.choice(["a", "b", "c", "d"], rows))


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


def figures(found: Comparison) -> dict[str, object]:
    """What was recommended, and the best of all that was tried: methods that leave the data where they are."""
    known = candidates(found)
    best = max(known, key=lambda name: known[name])
    taken = next((line for line in found.lines if line.method == found.recommended), None)
    ari = taken.truth["ari"] if taken else 0.0
    return {
        "recommended": taken.name if taken else "",
        "ari": ari,
        "best": best,
        "best_ari": known[best],
        "regret": max(0.0, known[best] - ari),
        "seconds": round(found.spent, 1),
    }


def candidates(found: Comparison) -> dict[str, float]:
    """ARI of every candidate that may be recommended, mean over its runs, by the name of its folder."""
    able = [line.method for line in found.lines if line.role == ""]
    aris = {
        folder.name: mean(records(run)[-1]["metrics"]["ari"] for run in folder.glob("seed-*") if is_finished(run))
        for folder in sorted((found.out / "runs").iterdir())
        if any(is_finished(run) for run in folder.glob("seed-*"))
    }
    return {name: ari for name, ari in aris.items() if any(name == own or name.startswith(f"{own}-") for own in able)}


def summary(rows: pd.DataFrame) -> str:
    """Mean, standard deviation and maximum of the regret, on the tables of the choice and on those of the test."""
    rows = rows.assign(part=["choose" if name.split(" +")[0] in CHOOSE else "judge" for name in rows["table"]])
    rows["base"] = [name.split(" +")[0] for name in rows["table"]]
    lines = [_line(part, own["regret"]) for part, own in rows.groupby("part")]
    lines += [_line(f"{part}: {base}", own["regret"]) for (part, base), own in rows.groupby(["part", "base"])]
    return "\n".join([*lines, _line("all", rows["regret"])])


def _line(name: str, values: Sequence[float]) -> str:
    spread = stdev(values) if len(values) > 1 else 0.0
    return f"{name}: {mean(values):.3f} ± {spread:.3f} behind the best, at most {max(values):.3f} ({len(values)} runs)"


if __name__ == "__main__":
    main()
