"""How many local clusters FedCRef's own rule leaves unmatched, by its threshold: the first association, no refinement.

    python benchmarks/fedcref_threshold.py --seeds 0 1 2

25 clients of MNIST with two to five classes each, as in the paper's section 5.2, and a model of 20 epochs per local
cluster. `samples` of a class at a client are drawn from a range: always 500, the paper's text; 50 to 500, its authors'
example of a configuration; 500 to 600, their default. Local clusters are the true classes, or have a share of
`dirtiness` moved. A statistic per pair decides, so one training serves all thresholds. Printed are means over seeds of
unmatched clusters, communities and wrong links, in percent; `first` links a cluster with the first one of another
client that qualifies, as the authors' code does, and not with all.
"""

from __future__ import annotations

import argparse
from itertools import groupby, product
from statistics import mean

import torch
from torch import Tensor

from fedkin.core import Client
from fedkin.core.seeds import derive_generator
from fedkin.data.reading.sources import load
from fedkin.data.scenarios.label_skew import dirty, label_skew
from fedkin.engines.local import LocalFederation
from fedkin.methods.samples.fedcref.association import AssociationGraph, LocalCluster, by_threshold
from fedkin.methods.samples.fedcref.fedcref import FedCRefMethod
from grid import spread

CLIENTS, CLASSES = 25, (2, 5)
SAMPLES = ((500, 500), (50, 500), (500, 600))
THRESHOLDS = (0.15, 0.175, 0.2, 0.225, 0.25, 0.3)
LINKS = ("all", "first")


def main() -> None:
    """Train, associate and print a row per kind of clients and threshold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="mnist")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--samples", type=_range, nargs="+", default=SAMPLES, metavar="LOW-HIGH")
    parser.add_argument("--dirtiness", type=float, nargs="+", default=[0.0, 0.3])
    parser.add_argument("--thresholds", type=float, nargs="+", default=THRESHOLDS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    given = parser.parse_args()
    x, y = _images(given.data)
    head = "samples", "dirtiness", "clusters", "theta", "links", "unmatched", "communities", "wrong, %"
    print(f"| {' | '.join(head)} |\n{'|---' * len(head)}|")
    for (low, high), dirtiness in product(given.samples, given.dirtiness):
        scored = [first_association(x, y, (low, high), dirtiness, given.epochs, seed) for seed in given.seeds]
        clusters = spread([len(nodes) for nodes, _, _ in scored], 0)
        for threshold, links in product(given.thresholds, LINKS):
            graphs = [graph_of(nodes, statistics, threshold, links) for nodes, statistics, _ in scored]
            unmatched = spread([len(graph.unmatched) for graph in graphs], 1)
            found = mean(len(graph.communities) for graph in graphs)
            wrong = mean(_wrong(graph, classes) for graph, (_, _, classes) in zip(graphs, scored, strict=True))
            row = f"{low}–{high}", dirtiness, clusters, threshold, links, unmatched, f"{found:.1f}", f"{wrong:.1f}"
            print("| " + " | ".join(map(str, row)) + " |", flush=True)


def first_association(
    x: Tensor, y: Tensor, samples: tuple[int, int], dirtiness: float, epochs: int, seed: int
) -> tuple[list[LocalCluster], Tensor, list[int]]:
    """Local clusters, the statistic of each pair ``(clusters, clusters)``, and the prevailing class of each."""
    clients, classes = partitioned(x, y, samples, dirtiness, seed)
    method = FedCRefMethod(
        initial="given", n_clusters="given", associations="paper", min_steps=0, local_epochs=epochs,
        rounds=1, first_epochs=1, round_epochs=1, max_iterations=1,
    )  # fmt: skip
    fed = LocalFederation(clients, seed, workers=1)
    state, _ = method.step(fed, method.init(fed))
    return state.nodes, state.statistics, [classes[client][local_cluster] for client, local_cluster in state.nodes]


def partitioned(
    x: Tensor, y: Tensor, samples: tuple[int, int], dirtiness: float, seed: int
) -> tuple[list[Client], list[list[int]]]:
    """The clients with their first labels, and the classes of each."""
    rng = derive_generator(seed, "partition")
    low, high = samples
    parts = label_skew(y, CLIENTS, classes_per_client=CLASSES, samples_per_class=high, rng=rng)
    clients, classes = [], []
    for i, part in enumerate(parts):
        kept = torch.cat([_some(part[y[part] == held], low, rng) for held in y[part].unique()])
        held, given = y[kept].unique(return_inverse=True)
        if dirtiness:
            given = dirty(given, dirtiness, derive_generator(seed, "dirty", i))
        clients.append(Client(i, x[kept], state={"n_clusters": torch.tensor(len(held)), "given": given}))
        classes.append(held.tolist())
    return clients, classes


def graph_of(nodes: list[LocalCluster], statistics: Tensor, threshold: float, links: str) -> AssociationGraph:
    """The graph by the paper's rule, with all links or, client by client, the first of each local cluster."""
    if links == "all":
        return by_threshold(nodes, statistics, threshold)
    near = statistics <= threshold
    near &= near.T.clone()
    kept = torch.full_like(statistics, torch.inf)
    of_client = [list(own) for _, own in groupby(range(len(nodes)), lambda a: nodes[a][0])]
    for earlier, later in product(of_client, of_client):
        if earlier[0] < later[0]:
            for a in earlier:
                first = next((b for b in later if near[a, b]), None)
                if first is not None:
                    kept[a, first] = kept[first, a] = 0.0
    return by_threshold(nodes, kept, threshold)


def _wrong(graph: AssociationGraph, classes: list[int]) -> float:
    return 100 * mean(classes[a] != classes[b] for a, b in graph.edges) if graph.edges else 0.0


def _some(rows: Tensor, low: int, rng: torch.Generator) -> Tensor:
    """A random part of `rows`, of `low` to all of them."""
    count = int(torch.randint(low, len(rows) + 1, (), generator=rng))
    return rows[torch.randperm(len(rows), generator=rng)[:count]]


def _images(data: str) -> tuple[Tensor, Tensor]:
    dataset = load(data)
    if dataset.y is None:
        raise SystemExit(f"'{data}' has no labels.")
    return dataset.x.flatten(1), dataset.y


def _range(text: str) -> tuple[int, int]:
    low, _, high = text.partition("-")
    return int(low), int(high or low)


if __name__ == "__main__":
    main()
