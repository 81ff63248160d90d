"""kin-graph on the standard suite of clustering algorithms, its samples allocated at random to 1, 3 and 10 clients.

    FEDKIN_DATA=... python benchmarks/kin_graph_suite.py run CSV [--seeds 0 1 2 3 4] [--sets fcps/atom ...]
    FEDKIN_DATA=... python benchmarks/kin_graph_suite.py run PARTS --part 0.9 --most 6000 --floors 2 --methods common \
        --numbers found
    python benchmarks/kin_graph_suite.py show CSV

`run` appends a line per cell as soon as it is known, and skips those that the file has. A cell is a data set, a seed, a
number of clients, a minimum of samples in a micro-cluster, whether micro-clusters are common to all clients, and
whether the number of clusters is given; beside them k-means, a Gaussian mixture and HDBSCAN of all samples
together. Data sets of at most 20,000 samples count; columns are standardised;
samples that the suite calls noise are clustered with the others and not scored. Common micro-clusters of all samples
hardly depend on the seed; with ``--part`` every seed draws that part of them, and a file should have one part. `show`
prints the mean adjusted Rand index over data sets, and its standard deviation over seeds; a data set counts where all
cells of all seeds are known.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture

import fedkin
from sources import add, known_cells

Rows = NDArray[np.float64]
Labels = NDArray[np.int64]

CLIENTS, FLOORS = (1, 3, 10), (5, 2)


POOLED: dict[str, tuple[bool, Callable[[Rows, int, int], Labels]]] = {
    "k-means": (True, lambda x, k, seed: KMeans(k, n_init=10, random_state=seed).fit_predict(x)),
    "Gaussian mixture": (True, lambda x, k, seed: GaussianMixture(k, n_init=5, random_state=seed).fit_predict(x)),
    "HDBSCAN": (False, lambda x, _, __: HDBSCAN(copy=True).fit_predict(x)),
}
"""Methods of all samples together: whether they are given the number of clusters, and how they are called."""


@dataclass(frozen=True)
class Cell:
    """One way to cluster one data set; `clients` and `floor` are 0 for methods of all samples together."""

    data: str
    method: str
    seed: int
    clients: int
    floor: int
    given: bool


def main(arguments: Sequence[str] | None = None) -> None:
    """Run cells, or print what is known."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "show"])
    parser.add_argument("csv", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--sets", nargs="+", default=None, help="data sets, as battery/name; all by default")
    parser.add_argument("--most", type=int, default=20_000, help="samples of a data set at most")
    parser.add_argument("--part", type=float, default=1.0, help="part of the samples that a seed draws")
    parser.add_argument("--floors", type=int, nargs="+", choices=FLOORS, default=FLOORS)
    parser.add_argument("--methods", nargs="+", default=["own", "common", *POOLED])
    parser.add_argument("--numbers", nargs="+", choices=["found", "given"], default=["found", "given"])
    given = parser.parse_args(arguments)
    if given.what == "run":
        run(given)
    else:
        print(summary(pd.read_csv(given.csv, keep_default_na=False)))


def names() -> list[str]:
    """Data sets of ``$FEDKIN_DATA/clustering``, as battery/name."""
    folder = Path(os.environ["FEDKIN_DATA"]) / "clustering"
    return sorted(f"{path.parent.name}/{path.name.removesuffix('.data.gz')}" for path in folder.rglob("*.data.gz"))


def data(name: str) -> tuple[Rows, Labels]:
    """Standardised samples ``(n, d)`` and labels ``(n,)``, of which 0 is noise."""
    path = Path(os.environ["FEDKIN_DATA"]) / "clustering" / name
    x = np.loadtxt(f"{path}.data.gz", ndmin=2)
    spread = x.std(0)
    return (x - x.mean(0)) / np.where(spread > 0, spread, 1.0), np.loadtxt(f"{path}.labels0.gz").astype(np.int64)


def cells(name: str, seed: int) -> Iterator[Cell]:
    """All cells of a data set and a seed."""
    for method, (given, _) in POOLED.items():
        yield Cell(name, method, seed, 0, 0, given)
    for floor in FLOORS:
        for clients in CLIENTS:
            for method in ("own", "common"):
                for given in (False, True):
                    yield Cell(name, method, seed, clients, floor, given)


def run(given: argparse.Namespace) -> None:
    """Append the lines of cells that the file does not have."""
    known = known_cells(given.csv, [field.name for field in fields(Cell)])
    for seed in given.seeds:
        for name in given.sets or names():
            x, truth = data(name)
            for cell in cells(name, seed) if len(x) <= given.most else ():
                wanted = cell.method in given.methods and cell.floor in (0, *given.floors)
                wanted = wanted and ("given" if cell.given else "found") in given.numbers
                if wanted and tuple(str(value) for value in asdict(cell).values()) not in known:
                    add(given.csv, asdict(cell) | line_of(cell, x, truth, given.part))


def line_of(cell: Cell, x: Rows, truth: Labels, part: float = 1.0) -> dict[str, object]:
    """Run a cell on a part of the samples, drawn and dealt by its seed; return what came of it."""
    order = np.random.default_rng(cell.seed).permutation(len(x))[: int(part * len(x))]
    x, truth = x[order], truth[order]
    counted, began, failure = truth > 0, time.perf_counter(), ""
    k, clusters = len(np.unique(truth[counted])), np.zeros(len(x), np.int64)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            clusters = clustered(cell, x, k)
    except fedkin.FedkinError as error:
        failure = str(error)
    return {
        "ari": 0.0 if failure else float(adjusted_rand_score(truth[counted], clusters[counted])),
        "found": 0 if failure else len(np.unique(clusters)),
        "truth": k,
        "samples": len(x),
        "seconds": round(time.perf_counter() - began, 2),
        "failure": failure,
    }


def clustered(cell: Cell, x: Rows, k: int) -> Labels:
    """Clusters of samples ``(n, d)``: int64 ``(n,)``."""
    if cell.method in POOLED:
        return POOLED[cell.method][1](x, k, cell.seed).astype(np.int64)
    model = fedkin.KinGraph(
        n_clusters=k if cell.given else "auto",
        min_members=cell.floor,
        common_micro_clusters=cell.method == "common",
        scaling="none",
        random_state=cell.seed,
    )
    return np.concatenate(model.fit(np.array_split(x, cell.clients)).labels_)


def summary(lines: pd.DataFrame) -> str:
    """Mean index over data sets, with the standard deviation over seeds, and what failed."""
    known = lines.groupby("data")["ari"].transform("size")
    lines = lines[known == known.max()]
    by = ["given", "floor", "method", "clients"]
    seeds = lines.groupby([*by, "seed"])["ari"].mean()
    shown = seeds.groupby(by).agg(mean="mean", deviation="std", seeds="size").round(3)
    failed = lines[lines.failure != ""].groupby(["method", "clients", "floor"]).size()
    text = f"{lines.data.nunique()} data sets\n{shown.to_string()}"
    return text if failed.empty else f"{text}\n\nfailures, counted as 0\n{failed.to_string()}"


if __name__ == "__main__":
    main()
