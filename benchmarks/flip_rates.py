"""ARI of the client clusters against the flip rate (Prigent et al. 2024, figure 4).

``python benchmarks/flip_rates.py mnist fashion.safetensors``, or ``cifar10``, or ``federated`` for the encoder:
clients of the scenario `rotation` (grey images) or `label-flip` (colour) encode their data once per seed, as the
method `embedding` has them do, or of `domain` for PACS; bits are then flipped and clustered for every flip rate and
mode. Prints a table of the mean ARI, and writes one JSON line per seed as it goes.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.cluster import KMeans
from torch import Tensor

from fedkin.clustering.metrics import adjusted_rand
from fedkin.core import Client
from fedkin.core.seeds import derive_generator
from fedkin.data.population import Population
from fedkin.data.scenarios.partition_scenario import load_labelled
from fedkin.data.scenarios.planted import Domain, LabelFlip, Rotation
from fedkin.engines.local import LocalFederation, one_thread
from fedkin.methods.clients.embedding.embedding import EmbeddingMethod, matched, true_bits
from fedkin.methods.clients.one_shot.tree_cuts import cluster
from fedkin.privacy.randomised_response import flipped

RATES = [at / 20 for at in range(11)]

Clusterer = Callable[[Tensor, float, torch.Generator], Tensor]


def modes(known: int, least: int) -> dict[str, Clusterer]:
    """Ways to cluster messages, by name, clusters of `least` clients; the last is given the number of clusters."""
    return {
        "bayes": lambda x, rate, rng: cluster(x, "bayes", least, rng).labels,
        "bayes, clusters of 2 allowed": lambda x, rate, rng: cluster(x, "bayes", 2, rng).labels,
        "exact, paper's objective": lambda x, rate, rng: cluster(x, "exact", least, rng, objective="paper").labels,
        "exact": lambda x, rate, rng: cluster(x, "exact", least, rng, flips=rate).labels,
        "gap": lambda x, rate, rng: cluster(x, "gap", least, rng, flips=rate).labels,
        f"k-means, {known} given": lambda x, rate, rng: torch.from_numpy(
            KMeans(known, n_init=10, random_state=0).fit_predict(x.numpy())
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data")
    parser.add_argument("encoder", help="file of an encoder, or 'federated'")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--least", type=int, default=10, help="clients of a cluster")
    parser.add_argument("--form", choices=["classes", "prototypes"], default="classes")
    parser.add_argument("--set", action="append", default=[], help="a hyper-parameter of the method, name=JSON value")
    parser.add_argument("--out", type=Path, help="file for one JSON line per seed")
    options = parser.parse_args()
    method = EmbeddingMethod(
        encoder=None if options.encoder == "federated" else options.encoder,
        form=options.form,
        batch_size=32,
        **{name: json.loads(value) for name, _, value in (one.partition("=") for one in options.set)},
    )
    partition = partitioner(options.data, options.clients)
    lines = []
    for seed in options.seeds:
        began = time.perf_counter()
        line = {"seed": seed, **of_seed(partition(seed), method, options.least, seed)}
        lines.append(line)
        print(f"seed {seed}: {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
        if options.out:
            options.out.parent.mkdir(parents=True, exist_ok=True)
            with options.out.open("a") as file:
                file.write(json.dumps(vars(options) | {"out": None} | line) + "\n")
    print(table(lines))


def partitioner(name: str, clients: int) -> Callable[[int], Population]:
    """What partitions a data set by seed; PACS always to ten for each of its domains."""
    if name == "pacs":
        return Domain(name).build
    data = load_labelled(name)
    scenario = Rotation(clients=clients) if data.x.shape[1] == 1 else LabelFlip(clients=clients)
    return lambda seed: scenario.partition(data, seed)


def of_seed(population: Population, method: EmbeddingMethod, least: int, seed: int) -> dict[str, Any]:
    """ARI and number of clusters of every mode at every flip rate."""
    bits = clean_bits(population, method, seed)
    clusters = population.clusters
    assert clusters is not None
    found: dict[str, Any] = {}
    for at, rate in enumerate(RATES):
        rng = derive_generator(seed, "flips", at)
        sent = torch.stack([flipped(own, rate, rng) for own in bits])
        points = sent.flatten(1)
        if method.form == "prototypes":
            points = matched(points, sent.shape[1])[1]
        for name, clusterer in modes(len(clusters.unique()), least).items():
            labels = clusterer(points, rate, derive_generator(seed, "grouping", at))
            scores = found.setdefault(name, {"ari": [], "clusters": []})
            scores["ari"].append(adjusted_rand(clusters.numpy(), labels.numpy()))
            scores["clusters"].append(int(labels.max()) + 1)
    return found


def clean_bits(population: Population, method: EmbeddingMethod, seed: int) -> list[Tensor]:
    """Every client's bits before any is flipped, ``(segments, width)``, after pre-training if there is any."""
    federation = LocalFederation(population.clients, seed)
    with one_thread():
        state = method.init(federation)
        while state.steps < method.pretraining:
            state, _ = method.step(federation, state)
    how = {**dataclasses.asdict(method), "encoder": state.encoder, "vector": state.vector, "segments": state.segments}
    return [
        true_bits(Client.unseen(c.x, c.y, derive_generator(seed, "filling", c.id)), how)[0] for c in population.clients
    ]


def table(lines: list[dict[str, Any]]) -> str:
    """Mean ARI over seeds, and the range of the number of clusters at a flip rate of 0.1, as Markdown."""
    rows = [f"| mode | {' | '.join(f'{rate:.2f}' for rate in RATES)} | clusters at 0.10 |", "|---" * 13 + "|"]
    for name in (name for name in lines[0] if name != "seed"):
        means = np.mean([line[name]["ari"] for line in lines], axis=0)
        counts = [line[name]["clusters"][2] for line in lines]
        cells = " | ".join(f"{mean:.2f}" for mean in means)
        rows.append(f"| {name} | {cells} | {min(counts)}-{max(counts)} |")
    return "\n".join(rows)


if __name__ == "__main__":
    main()
