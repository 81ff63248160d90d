"""Clusters of tables: kin-graph and other methods over clients, beside methods that see all rows together.

    python benchmarks/tables.py run CSV --tables wine heart --seeds 0 1 2
    python benchmarks/tables.py run CSV --rivals

It appends a line per cell as soon as it is known, and skips those that the file has: a run that was stopped goes on.
A cell is a table, a seed, for federated methods a partition, and a method, with the number of clusters given
or found. What fails is a line, too.

With ``--rivals``, kin-graph, its nearest rivals and FedDP-KMeans cluster the same samples at the same clients, three
seeds: digits and MNIST's tenth as images, wine, breast cancer, and eight sets of the suite. Methods with an epsilon run
on the images, spread at random. The server of FedDP-KMeans has a random twentieth of the rows, which clients have, too.

    python benchmarks/tables.py run CSV --uci --clients 3 --seeds 0 1

Tables and partitions are those of `sources`; with ``FEDKIN_DATA`` unset, scikit-learn's alone. With
``--uci`` they are those of ``FEDKIN_ARFF``.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.cluster import HDBSCAN, AgglomerativeClustering, KMeans
from sklearn.metrics import adjusted_rand_score, silhouette_score
from sklearn.mixture import GaussianMixture

import fedkin
from fedkin.data.inputs import ClientFiles
from fedkin.data.preparation import prepare
from fedkin.engines.local import LocalFederation
from sources import (
    IMAGES,
    Labels,
    add,
    arff_sources,
    generator,
    known_cells,
    partition,
    sources,
    table,
)

Rows = NDArray[np.float64]

TOGETHER = "together"
"""The place of methods that see all rows."""

Model = fedkin.KinGraph | fedkin.KFed | fedkin.FFCM | fedkin.MUFC | fedkin.AFCL | fedkin.FedDPKMeans

FEDERATED: dict[tuple[str, bool], Callable[[int, int], Model]] = {
    ("kin-graph", False): lambda k, seed: fedkin.KinGraph(random_state=seed),
    ("kin-graph", True): lambda k, seed: fedkin.KinGraph(n_clusters=k, random_state=seed),
    ("k-FED", True): lambda k, seed: fedkin.KFed(n_clusters=k, random_state=seed),
    ("ffcm", True): lambda k, seed: fedkin.FFCM(n_clusters=k, random_state=seed),
}
"""Methods over clients by name and whether the number of clusters is options."""

SERVER = "FedDP-KMeans"
"""Methods whose name begins so are given the server's rows."""

RIVALS: dict[tuple[str, bool], Callable[[int, int], Model]] = {
    ("MUFC", True): lambda k, seed: fedkin.MUFC(n_clusters=k, random_state=seed),
    ("AFCL", False): lambda k, seed: fedkin.AFCL(seeds=2 * k, random_state=seed),
    ("FedDP-KMeans, epsilon 4", True): lambda k, seed: fedkin.FedDPKMeans(n_clusters=k, epsilon=4.0, random_state=seed),
}
"""More methods over clients, which ``--rivals`` compares; AFCL begins with twice as many seeds as there are classes."""

PRIVATE: dict[tuple[str, bool], Callable[[int, int], Model]] = {
    (f"{name}, epsilon {epsilon:g}", True): lambda k, seed, kind=kind, epsilon=epsilon: kind(  # type: ignore[misc]
        n_clusters=k, epsilon=epsilon, random_state=seed
    )
    for epsilon in (1.0, 4.0, 10.0)
    for name, kind in (
        ("kin-graph", fedkin.KinGraph), (SERVER, fedkin.FedDPKMeans), ("without server's rows", fedkin.FedDPKMeans)
    )
}  # fmt: skip
"""Methods with differential privacy, on images."""

RIVAL_TABLES = [
    "digit-images", "mnist-tenth", "wine", "breast-cancer", "atom", "hepta", "lsun", "target", "aggregation", "jain",
    "r15", "spiral",
]  # fmt: skip
RIVAL_METHODS = {"kin-graph", "k-FED", *(name for name, _ in [*RIVALS, *PRIVATE])}

NUMBERS = (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 20, 25, 30, 40, 50)
"""Numbers of clusters among which silhouette and BIC choose."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run cells."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run"])
    parser.add_argument("csv", type=Path)
    parser.add_argument("--tables", nargs="+", default=list(sources()), choices=list(sources()), metavar="TABLE")
    parser.add_argument("--clients", nargs="+", type=int, default=[3, 10])
    parser.add_argument("--partitions", nargs="+", default=["random", "skew"], choices=["random", "skew"])
    parser.add_argument("--seeds", nargs="+", type=int, default=list(range(5)))
    parser.add_argument("--methods", nargs="+", help="all unless named, such as kin-graph k-means")
    parser.add_argument("--rivals", action="store_true", help="kin-graph and its rivals, three seeds")
    parser.add_argument("--uci", action="store_true", help="the tables of FEDKIN_ARFF alone")
    options = parser.parse_args(arguments)
    if options.uci:
        options.tables = list(arff_sources())
    if options.rivals:
        options.tables = [name for name in options.tables if name in RIVAL_TABLES]
        options.seeds = [seed for seed in options.seeds if seed < 3]
        options.methods = options.methods or sorted(RIVAL_METHODS)
    run(options)


KEYS = ["table", "seed", "clients", "partition", "method", "k_given"]
"""Columns that name a cell; `clients` is 0 and `partition` "together" for a method that sees all rows."""


def run(options: argparse.Namespace) -> None:
    """Compute all cells that the file lacks."""
    known = known_cells(options.csv, KEYS)
    places = [(0, TOGETHER), *product(options.clients, options.partitions)]
    for seed, name in product(options.seeds, options.tables):
        frame, labels = table(name, seed)
        classes = len(np.unique(labels[labels >= 0]))
        everything = {**FEDERATED, **RIVALS, **(PRIVATE if name in IMAGES else {})}
        wanted = [key for key in {**everything, **POOLED} if key[0] in (options.methods or [key[0]])]
        if not options.methods:
            wanted = [*FEDERATED, *POOLED]
        server = generator(seed, name, "server").permutation(len(frame))[: max(1, len(frame) // 20)]
        for clients, how in places:
            of_place: Mapping[tuple[str, bool], Any] = everything if clients else POOLED
            for key in wanted:
                cell = dict(zip(KEYS, (name, seed, clients, how, *key), strict=True))
                if key not in of_place or tuple(map(str, cell.values())) in known:
                    continue
                if how == "skew" and key in PRIVATE and key not in RIVALS:
                    continue
                if clients:
                    parts = partition(labels, clients, how, generator(seed, name, clients, how))
                    model, data = of_place[key](classes, seed), [rows_of(frame, part, name) for part in parts]
                    if isinstance(model, fedkin.FedDPKMeans) and key[0].startswith(SERVER):
                        model.set_params(server_data=rows_of(frame, server, name))
                    find = partial(fitted, model, data)
                    truth = labels[np.concatenate(parts)]
                else:
                    find, truth = partial(of_place[key], prepared(frame), classes, seed), labels
                add(options.csv, cell | outcome(find, truth))


def prepared(frame: pd.DataFrame) -> Rows:
    """A table as methods see it: encoded, filled and scaled as fedkin does for clients."""
    clients = ClientFiles([frame]).build().clients
    prepare(LocalFederation(clients, seed=0))
    return np.asarray(clients[0].x, dtype=np.float64)


def rows_of(frame: pd.DataFrame, rows: Labels, name: str) -> pd.DataFrame | NDArray[np.float32]:
    """Some rows of a table, as images if it holds these."""
    part = frame.iloc[rows]
    return part.to_numpy(np.float32).reshape(len(part), *IMAGES[name]) if name in IMAGES else part


def fitted(model: Model, clients: list[Any]) -> Labels:
    """Clusters of all clients' rows, in order of client."""
    return np.concatenate(model.fit(clients).labels_)


def outcome(find: Callable[[], Labels], labels: Labels) -> dict[str, object]:
    """The score of what is found for rows with these classes, noise left out, or why there is none."""
    began, classes, counted = time.perf_counter(), len(np.unique(labels[labels >= 0])), labels >= 0
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            clusters = find()
    except ValueError as error:
        failure = str(error).replace("\n", " ")
        return {"ari": np.nan, "clusters": 0, "classes": classes, "seconds": 0.0, "failure": failure}
    ari, seconds = adjusted_rand_score(labels[counted], clusters[counted]), round(time.perf_counter() - began, 2)
    figures = {"ari": round(ari, 4), "clusters": len(np.unique(clusters)), "classes": classes}
    return {**figures, "seconds": seconds, "failure": ""}


def by_silhouette(x: Rows, classes: int, seed: int) -> Labels:
    """k-means with the number of clusters of the greatest silhouette."""
    found = [KMeans(k, n_init=3, random_state=seed).fit_predict(x) for k in NUMBERS if k < len(np.unique(x, axis=0))]
    return max(found, key=lambda labels: silhouette_score(x, labels))


def by_bic(x: Rows, classes: int, seed: int) -> Labels:
    """A Gaussian mixture with the number of components of the lowest BIC, in which each has a sample per column."""
    numbers = [k for k in (1, *NUMBERS) if k * (x.shape[1] + 1) <= len(x)]
    models = [GaussianMixture(k, reg_covar=1e-4, random_state=seed).fit(x) for k in numbers]
    return min(models, key=lambda model: model.bic(x)).predict(x)


POOLED: dict[tuple[str, bool], Callable[[Rows, int, int], Labels]] = {
    ("k-means", True): lambda x, k, seed: KMeans(k, n_init=10, random_state=seed).fit_predict(x),
    ("Gaussian mixture", True): lambda x, k, seed: GaussianMixture(
        k, reg_covar=1e-4, n_init=3, random_state=seed
    ).fit_predict(x),
    ("Ward", True): lambda x, k, seed: AgglomerativeClustering(k).fit_predict(x),
    ("HDBSCAN", False): lambda x, k, seed: HDBSCAN(copy=True).fit_predict(x),
    ("k-means, silhouette", False): by_silhouette,
    ("Gaussian mixture, BIC", False): by_bic,
}
"""Methods of all rows together."""


if __name__ == "__main__":
    main()
