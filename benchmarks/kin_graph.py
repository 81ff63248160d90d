"""Seconds, bytes and peak memory of kin-graph as the federation grows, what privacy costs, few samples, and shapes.

    python benchmarks/kin_graph.py growth --sites 10 100 1000 --samples 10000
    python benchmarks/kin_graph.py privacy --data mnist --epsilons 1 2 4 10
    python benchmarks/kin_graph.py few --data digits --fractions 0.1 0.2 0.4 1
    python benchmarks/kin_graph.py shapes --samples 1000 3000 10000
    python benchmarks/kin_graph.py tables
    python benchmarks/kin_graph.py latents RUN

`growth` makes clients with so many samples of 784 numbers each, of ten clusters. Their samples are made anew, always
the same, whenever a client is asked, so that 1,000 clients with ten million samples need no more memory than the few
that are at work; peak memory is that of the server, of those few, and of what each client keeps: two numbers per
sample. Making them is part of the seconds. Each size is a process of its own.

`privacy` clusters a data set partitioned at random to ten clients, 10 clusters given, with each epsilon.

`few` clusters a part of a data set partitioned at random to ten clients, by how many samples a small cluster has at
least, and by whether clients are sent all nodes.

`shapes` clusters made-up samples of few columns at two clients or more, the number of clusters not given.

`tables` clusters scikit-learn's tables, and one of which most columns are noise, at three clients, with and without the
step that finds out how neighbours differ.

`latents` clusters the samples of a finished run, which is that of a method with a representation, by their usual
features and by this representation.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from statistics import mean, pstdev
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_wine,
    make_blobs,
    make_circles,
    make_moons,
    make_s_curve,
)
from torch import Tensor

import fedkin
from fedkin.clustering.metrics import adjusted_rand, normalized_mutual_information, pooled
from fedkin.core import Client
from fedkin.core.seeds import derive_generator
from fedkin.data.population import Population
from fedkin.data.scenarios.own_class import OwnClass
from fedkin.engines.local import LocalFederation
from fedkin.experiment.config import load_config
from fedkin.experiment.outputs import load_found
from fedkin.experiment.run_folder import CONFIG
from fedkin.features import extractors
from fedkin.methods.samples.kingraph.kingraph import KinGraphMethod, KinGraphState

Shape = Callable[[int, int], tuple[NDArray[Any], NDArray[Any]]]
"""From size and seed to samples and the cluster of each."""

GROUPS, WIDTH, NOISE = 10, 784, 0.12
_OWN_PAGES = 12_000
"""Samples whose memory goes back to the system when they are forgotten, rather than being cut up by what is kept."""


class Made(Client):
    """A client whose samples are made when they are looked at."""

    def __init__(self, i: int, samples: int) -> None:
        self.samples = samples
        super().__init__(i, torch.empty(0))

    @property
    def x(self) -> Tensor:  # type: ignore[override]
        return made(self.id, self.samples)[0]

    @property
    def truth(self) -> Tensor:
        return made(self.id, self.samples)[1]

    @x.setter
    def x(self, value: Tensor) -> None:
        """Nothing is kept."""

    def __len__(self) -> int:
        return self.samples


@lru_cache(maxsize=4)
def made(i: int, samples: int) -> tuple[Tensor, Tensor]:
    """Samples of a client and their clusters, always the same."""
    rng = derive_generator(0, "client", i)
    truth = torch.multinomial(torch.rand(GROUPS, generator=rng), samples, replacement=True, generator=rng)
    points = torch.rand(GROUPS, WIDTH, generator=derive_generator(0, "points"))
    x = torch.empty(max(samples, _OWN_PAGES), WIDTH)[:samples].normal_(generator=rng)
    return x.mul_(NOISE).add_(points[truth]).clamp_(0, 1), truth


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    growth = commands.add_parser("growth")
    growth.add_argument("--sites", nargs="+", type=int, default=[10, 100, 1000])
    growth.add_argument("--samples", type=int, default=10_000)
    growth.add_argument("--one", action="store_true", help="run the first size in this process, print its figures")
    privacy = commands.add_parser("privacy")
    privacy.add_argument("--data", default="mnist")
    privacy.add_argument("--epsilons", nargs="+", type=float, default=[1, 2, 4, 10])
    privacy.add_argument(
        "--heterogeneity",
        "-p",
        "--share",
        dest="share",
        type=float,
        default=0.0,
        help="fraction of a client's samples from its own class",
    )
    privacy.add_argument("--seeds", type=int, default=3)
    few = commands.add_parser("few")
    few.add_argument("--data", default="digits")
    few.add_argument("--fractions", nargs="+", type=float, default=[0.1, 0.2, 0.4, 1])
    few.add_argument(
        "--heterogeneity",
        "-p",
        "--share",
        dest="share",
        type=float,
        default=0.0,
        help="fraction of a client's samples from its own class",
    )
    few.add_argument("--seeds", type=int, default=6)
    shapes = commands.add_parser("shapes")
    shapes.add_argument("--samples", nargs="+", type=int, default=[1000, 3000, 10_000])
    shapes.add_argument("--seeds", type=int, default=10)
    shapes.add_argument("--sites", type=int, default=2)
    tables = commands.add_parser("tables")
    tables.add_argument("--seeds", type=int, default=5)
    latents = commands.add_parser("latents")
    latents.add_argument("run", type=Path)
    latents.add_argument("--seeds", type=int, default=1)
    given = parser.parse_args()
    if given.command == "latents":
        print_latents(given.run, given.seeds)
    elif given.command == "tables":
        print_tables(given.seeds)
    elif given.command == "shapes":
        print_shapes(given.samples, given.seeds, given.sites)
    elif given.command == "few":
        print_few(given.data, given.fractions, given.share, given.seeds)
    elif given.command == "privacy":
        print_privacy(given.data, given.epsilons, given.share, given.seeds)
    elif given.one:
        print(json.dumps(grown(given.sites[0], given.samples)))
    else:
        print_growth(given.sites, given.samples)


def print_growth(sizes: list[int], samples: int) -> None:
    """One line per number of clients."""
    print("| clients | samples | components, s | differences, s | graph, s | processor s | of clients | nodes "
          "| clusters "
          "| ARI | MB received | MB sent | peak memory, MB |")  # fmt: skip
    print("|---" * 13 + "|")
    for sites in sizes:
        command = [sys.executable, __file__, "growth", "--sites", str(sites), "--samples", str(samples), "--one"]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found = json.loads(text.splitlines()[-1])
        print(
            f"| {sites:,} | {sites * samples:,} | {found['components']:.1f} | {found['differences']:.1f} "
            f"| {found['graph']:.1f} | {found['processor']:.1f} | {found['busy']:.1f} | {found['nodes']:,} "
            f"| {found['clusters']} | {found['ari']:.3f} | {found['received']:.1f} | {found['sent']:.1f} "
            f"| {found['memory']:.0f} |",
            flush=True,
        )


def grown(sites: int, samples: int) -> dict[str, Any]:
    """Figures of one size."""
    from sklearn.metrics import adjusted_rand_score

    clients = [Made(i, samples) for i in range(sites)]
    fed, method = LocalFederation(clients, seed=0), KinGraphMethod()
    state = method.init(fed)
    seconds, processor = [], time.process_time()
    while not state.finished:
        began = time.perf_counter()
        state, record = method.step(fed, state)
        seconds.append(time.perf_counter() - began)
    processor = time.process_time() - processor
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    truth = torch.cat([client.truth for client in clients])
    clusters = torch.cat([client.state["clusters"] for client in clients])
    return {
        **dict(zip(("components", "differences", "graph"), seconds, strict=True)),
        "processor": processor, "busy": fed.seconds,
        "nodes": record.values["nodes"], "clusters": record.values["clusters"],
        "ari": adjusted_rand_score(truth, clusters),
        "received": fed.traffic.received / 1e6, "sent": fed.traffic.sent / 1e6, "memory": memory,
    }  # fmt: skip


def print_privacy(data: str, epsilons: list[float], share: float, seeds: int) -> None:
    """One line per epsilon: mean and standard deviation of NMI."""
    print("| epsilon | NMI | centres kept | components | MB received |")
    print("|---|---|---|---|---|")
    for epsilon in [None, *sorted(epsilons, reverse=True)]:
        found = []
        for seed in range(seeds):
            population = OwnClass(data, heterogeneity=share).build(seed)
            fed, state = _clustered(KinGraphMethod(n_clusters=GROUPS, epsilon=epsilon), population, seed)
            found.append(_agreement(normalized_mutual_information, population))
        spread = f"{mean(found):.3f} ± {pstdev(found):.3f}"
        sizes = f"{len(state.counts):,} | {len(state.variances)} | {fed.traffic.received / 1e6:.1f}"
        print(f"| {'none' if epsilon is None else f'{epsilon:g}'} | {spread} | {sizes} |", flush=True)


def print_few(data: str, fractions: list[float], share: float, seeds: int) -> None:
    """One line per fraction and floor: mean ARI with the number of clusters found and given, nodes broadcast or not."""
    kinds = [(broadcast, wanted) for broadcast in (True, False) for wanted in ("auto", GROUPS)]
    print("| samples at a client | `min_members` | nodes | clusters found | " + " | ".join(
        f"ARI, {'sent' if broadcast else 'not sent'}, {wanted}" for broadcast, wanted in kinds) + " |")  # fmt: skip
    print("|---" * 8 + "|")
    for fraction in fractions:
        for least in (5, 2, 1):
            cells, clusters, nodes, size = [], [], 0, 0
            for broadcast, wanted in kinds:
                found = []
                for seed in range(seeds):
                    population = OwnClass(data, heterogeneity=share, fraction=fraction).build(seed)
                    method = KinGraphMethod(n_clusters=wanted, min_members=least, broadcast_nodes=broadcast)
                    _, state = _clustered(method, population, seed)
                    found.append(_agreement(adjusted_rand, population))
                    size, nodes = len(population.clients[0]), len(state.counts)
                    clusters += [int(state.clusters.max()) + 1] if broadcast and wanted == "auto" else []
                cells.append(f"{mean(found):.2f} ± {pstdev(found):.2f}")
            print(
                f"| {size} | {least} | {nodes} | {min(clusters)} to {max(clusters)} | {' | '.join(cells)} |", flush=True
            )


def print_tables(seeds: int) -> None:
    """One line per table: mean ARI with the number of clusters found and given, with and without differences."""
    kinds = [(power, given) for power in (0.0, 1.0) for given in (False, True)]
    heads = [f"`local_whitening` {power:g}, {'given' if given else 'found'}" for power, given in kinds]
    print(f"| ARI | {' | '.join(heads)} |")
    print("|---" * 5 + "|")
    for name, load in TABLES.items():
        cells = []
        for power, given in kinds:
            found = []
            for seed in range(seeds):
                x, truth = load(seed)
                parts = np.array_split(np.random.default_rng(seed).permutation(len(x)), 3)
                clusters = len(set(truth.tolist())) if given else "auto"
                model = fedkin.KinGraph(n_clusters=clusters, local_whitening=power, random_state=seed)
                model.fit([x[part].astype(np.float32) for part in parts])
                found.append(adjusted_rand(truth[np.concatenate(parts)], np.concatenate(model.labels_)))
            cells.append(f"{mean(found):.2f} ± {pstdev(found):.2f}")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def _noisy(seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    x, truth = make_blobs(1500, 5, centers=6, cluster_std=1.6, random_state=seed)[:2]
    return np.column_stack([x, np.random.default_rng(seed).normal(size=(len(x), 15))]), truth


TABLES: dict[str, Callable[[int], tuple[NDArray[Any], NDArray[Any]]]] = {
    "wine, 13 columns": lambda _: load_wine(return_X_y=True),
    "breast cancer, 30 columns": lambda _: load_breast_cancer(return_X_y=True),
    "digits as 64 columns": lambda _: load_digits(return_X_y=True),
    "six round clusters in 5 columns, 15 of noise": _noisy,
    "five round clusters in 8 columns": lambda seed: make_blobs(1500, 8, centers=5, random_state=seed)[:2],
}


def print_latents(run: Path, seeds: int) -> None:
    """One line per kind of features: clusters found and NMI, with the number of clusters found and given."""
    found, scenario = load_found(run), load_config(run / CONFIG).scenario
    extractors.register("latents", lambda x: found.method.embed(found.result, found.scaling.apply(x)))
    print("| features | clusters found | NMI | NMI, number given |\n|---|---|---|---|")
    for name in ("auto", "latents"):
        clusters, cells = set(), []
        for given in (False, True):
            agreements = []
            for seed in range(seeds):
                population = scenario.build(seed)
                wanted = len(np.unique(pooled(population.truth))) if given else "auto"
                _, state = _clustered(KinGraphMethod(n_clusters=wanted, features=name), population, seed)
                agreements.append(_agreement(normalized_mutual_information, population))
                clusters |= set() if given else {int(state.clusters.max()) + 1}
            cells.append(f"{mean(agreements):.3f} ± {pstdev(agreements):.3f}")
        print(f"| {name} | {', '.join(map(str, sorted(clusters)))} | {' | '.join(cells)} |", flush=True)


def _clustered(method: KinGraphMethod, population: Population, seed: int) -> tuple[LocalFederation, KinGraphState]:
    """The federation after the method has run, and its last state."""
    fed = LocalFederation(population.clients, seed)
    state = method.init(fed)
    while not state.finished:
        state, _ = method.step(fed, state)
    return fed, state


def _agreement(measure: Callable[..., float], population: Population) -> float:
    return measure(pooled(population.truth), pooled([client.state["clusters"] for client in population.clients]))


def print_shapes(sizes: list[int], seeds: int, sites: int) -> None:
    """One line per shape: with how many seeds the number was right, all numbers found, and mean ARI, of each size."""
    from sklearn.metrics import adjusted_rand_score

    print("| shape | clusters | " + " | ".join(f"{size:,}: right; found | ARI" for size in sizes) + " |")
    print("|---|---|" + "---|---|" * len(sizes))
    for name, make in SHAPES.items():
        cells, clusters = [], 0
        for size in sizes:
            found, agreement = [], []
            for seed in range(seeds):
                x, truth = make(size, seed)
                parts = np.array_split(np.random.default_rng(seed).permutation(size), sites)
                model = fedkin.KinGraph(random_state=seed).fit([x[part].astype(np.float32) for part in parts])
                found.append(model.n_clusters_)
                agreement.append(adjusted_rand_score(truth[np.concatenate(parts)], np.concatenate(model.labels_)))
                clusters = len(set(truth.tolist()))
            right = f"{found.count(clusters)} of {seeds}; {min(found)} to {max(found)}"
            cells.append(f"{right} | {sum(agreement) / seeds:.2f}")
        print(f"| {name} | {clusters} | " + " | ".join(cells) + " |", flush=True)


def _cloud(columns: int) -> Shape:
    return lambda size, seed: (np.random.default_rng(seed).normal(size=(size, columns)), np.zeros(size, dtype=int))


SHAPES: dict[str, Shape] = {
    "two moons": lambda size, seed: make_moons(size, noise=0.06, random_state=seed),
    "two moons that touch": lambda size, seed: make_moons(size, noise=0.15, random_state=seed),
    "ring within ring": lambda size, seed: make_circles(size, noise=0.05, factor=0.5, random_state=seed),
    "a bent sheet in space": lambda size, seed: (make_s_curve(size, noise=0.05, random_state=seed)[0], np.zeros(size)),
    "four round clusters, two columns": lambda size, seed: make_blobs(size, 2, centers=4, random_state=1 + seed)[:2],
    "a square": lambda size, seed: (np.random.default_rng(seed).random((size, 2)), np.zeros(size, dtype=int)),
    **{f"a cloud, columns: {columns}": _cloud(columns) for columns in (1, 2, 3, 5, 20)},
}


if __name__ == "__main__":
    main()
