"""What FedCRef's comparison of candidates costs and loses, by the number of clients, beside that of all local clusters.

    python benchmarks/fedcref_candidates.py --clients 12 25 50 100 --seeds 0 1 2
    python benchmarks/fedcref_candidates.py --clients 300 1000 --candidates 8
    python benchmarks/fedcref_candidates.py --clients 12 25 50 100 --iterations 2

MNIST averaged to 7 x 7 pixels, so that a thousand clients fit into one process; two to five classes at each client, 16
samples of each, of whose first labels 30 % are wrong. By default clients train once, and the same models are compared
by each rule: processor seconds and MB of that exchange; communities, unmatched local clusters, and the adjusted Rand
index over samples if each had the cluster of its first local cluster, which dirt limits. With `--iterations` each is
run to its end: seconds, MB and the index of all of it.
"""

from __future__ import annotations

import argparse
import resource
from collections.abc import Sequence
from time import process_time

import torch
from sklearn.metrics import adjusted_rand_score
from torch import Tensor

from fedkin.core import Client
from fedkin.core.seeds import derive_generator
from fedkin.data.reading.sources import load
from fedkin.data.scenarios.label_skew import dirty, label_skew
from fedkin.engines.local import LocalFederation
from fedkin.methods.samples.fedcref.fedcref import FedCRefMethod
from grid import spread

SAMPLES, CLASSES, DIRTINESS, POOLED = 16, (2, 5), 0.3, 4
Figures = tuple[float, ...]


def main() -> None:
    """Print a row per number of clients and rule."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, nargs="+", default=[12, 25, 50, 100])
    parser.add_argument("--candidates", nargs="+", default=["all", "4", "8", "16"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--iterations", type=int, help="run so many iterations instead of one comparison")
    given = parser.parse_args()
    dataset = load("mnist")
    assert dataset.y is not None
    x, y = torch.nn.functional.avg_pool2d(dataset.x, POOLED).flatten(1), dataset.y
    head = ("clients", "candidates", "seconds", "MB sent", "MB received", "communities", "unmatched", "ARI", "GB")
    print(f"| {' | '.join(head)} |\n{'|---' * len(head)}|", flush=True)
    for clients in given.clients:
        seen: dict[str, list[Figures]] = {name: [] for name in given.candidates}
        for seed in given.seeds:
            for name, figures in measured(x, y, clients, given.candidates, given.iterations, seed).items():
                seen[name].append(figures)
        for name, rows in seen.items():
            digits = (1, 1, 1, 1, 1, 3)
            cells = [spread(column, d) for column, d in zip(zip(*rows, strict=True), digits, strict=True)]
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
            print(f"| {clients:,} | {name} | {' | '.join(cells)} | {peak:.1f} |", flush=True)


def measured(
    x: Tensor, y: Tensor, clients: int, candidates: Sequence[str], iterations: int | None, seed: int
) -> dict[str, Figures]:
    """By candidates, the figures of a row."""
    if iterations is not None:
        return {
            name: whole_run(*partitioned(x, y, clients, seed), method(name, iterations), seed) for name in candidates
        }
    people, truth = partitioned(x, y, clients, seed)
    fed = LocalFederation(people, seed, workers=1)
    state = method("8", 1).init(fed)
    work = method("8", 1)._train_clusters(fed, state)
    found = {}
    for name in candidates:
        sent, received, began = fed.traffic.sent, fed.traffic.received, process_time()
        graph, _ = method(name, 1)._associate(work)
        seconds = process_time() - began
        clusters = graph.clusters()
        labels = [torch.tensor(clusters[client.id])[client.state["labels"]] for client in people]
        megabytes = (fed.traffic.sent - sent) / 1e6, (fed.traffic.received - received) / 1e6
        found[name] = (seconds, *megabytes, len(graph.communities), len(graph.unmatched), ari(truth, labels))
    return found


def whole_run(people: list[Client], truth: list[Tensor], chosen: FedCRefMethod, seed: int) -> Figures:
    """Seconds, MB, communities, unmatched and the index of a whole run."""
    fed, began = LocalFederation(people, seed, workers=1), process_time()
    state = chosen.init(fed)
    while not state.finished:
        state, _ = chosen.step(fed, state)
    megabytes = fed.traffic.sent / 1e6, fed.traffic.received / 1e6
    labels = [client.state["clusters"] for client in people]
    counts = len(state.communities), len(state.unmatched)
    return (process_time() - began, *megabytes, *counts, ari(truth, labels))


def method(candidates: str, iterations: int) -> FedCRefMethod:
    """FedCRef with the given first labels, a third of the rounds of averaging, and these candidates."""
    number = "all" if candidates == "all" else int(candidates)
    return FedCRefMethod(
        initial="given",
        n_clusters="given",
        candidates=number,
        rounds=5,
        max_iterations=iterations,  # type: ignore[arg-type]
    )


def partitioned(x: Tensor, y: Tensor, clients: int, seed: int) -> tuple[list[Client], list[Tensor]]:
    """The clients with their first labels, and the classes of their samples."""
    rng = derive_generator(seed, "partition")
    parts = label_skew(y, clients, classes_per_client=CLASSES, samples_per_class=SAMPLES, rng=rng)
    people = []
    for i, part in enumerate(parts):
        held, own = y[part].unique(return_inverse=True)
        labels = dirty(own, DIRTINESS, derive_generator(seed, "dirty", i))
        people.append(Client(i, x[part], state={"n_clusters": torch.tensor(len(held)), "given": labels}))
    return people, [y[part] for part in parts]


def ari(truth: list[Tensor], labels: list[Tensor]) -> float:
    """Adjusted Rand index over all samples."""
    return float(adjusted_rand_score(torch.cat(truth).numpy(), torch.cat(labels).numpy()))


if __name__ == "__main__":
    main()
