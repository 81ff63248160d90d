"""Newcomers: how often they come to the right cluster, and how long the server takes.

``python benchmarks/newcomers.py mnist fashion.safetensors``: of 100 clients in 4 hidden clusters, 80 are clustered and
20 come later, each with one message. Every seed has its own clients; every repetition its own flips. The right cluster
is the one that most of the clustered clients of the newcomer's hidden cluster are in.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fedkin.core.seeds import derive_generator
from fedkin.data.scenarios.partition_scenario import load_labelled
from fedkin.data.scenarios.planted import LabelFlip, Rotation
from fedkin.methods.clients.embedding.embedding import EmbeddingMethod
from fedkin.methods.clients.one_shot.one_shot import circles, nearest_cluster
from fedkin.methods.clients.one_shot.tree_cuts import cluster
from fedkin.privacy.randomised_response import flipped
from flip_rates import clean_bits

CLIENTS, LATE = 100, 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data")
    parser.add_argument("encoder", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--flips", type=float, nargs="+", default=[0.0, 0.1, 0.2])
    options = parser.parse_args()
    data = load_labelled(options.data)
    right: dict[float, list[bool]] = {flip: [] for flip in options.flips}
    seconds: list[float] = []
    for seed in options.seeds:
        scenario = Rotation(clients=CLIENTS) if data.x.shape[1] == 1 else LabelFlip(clients=CLIENTS)
        population = scenario.partition(data, seed)
        assert population.clusters is not None
        bits = clean_bits(population, EmbeddingMethod(encoder=str(options.encoder)), seed)
        for flip in options.flips:
            for repetition in range(options.repetitions):
                rng = derive_generator(seed, "flips", repetition)
                sent = torch.stack([flipped(own, flip, rng) for own in bits]).flatten(1)
                judged, took = placed(sent, population.clusters, flip, derive_generator(seed, "grouping", repetition))
                right[flip] += judged
                seconds += took
    for flip, judged in right.items():
        print(f"P = {flip:.2f}: {np.mean(judged):.2%} of {len(judged):,} newcomers right")
    median, worst = 1000 * np.median(seconds), 1000 * np.percentile(seconds, 99)
    print(f"server time per newcomer, with the message unpacked: median {median:.3f} ms, 99 % below {worst:.3f} ms")


def placed(sent: Tensor, hidden: Tensor, flip: float, rng: torch.Generator) -> tuple[Sequence[bool], Sequence[float]]:
    """Whether each newcomer is right, and the seconds it took."""
    known, late = sent[:-LATE], sent[-LATE:]
    found = cluster(known, "exact", len(known) // 10, rng, flips=flip)
    centroids, _ = circles(known, found.labels, int(found.labels.max()) + 1)
    right, seconds = [], []
    for message, own in zip(late, hidden[-LATE:].tolist(), strict=True):
        began = time.perf_counter()
        label = nearest_cluster(centroids, message)
        seconds.append(time.perf_counter() - began)
        right.append(label == int(found.labels[hidden[:-LATE] == own].mode().values))
    return right, seconds


if __name__ == "__main__":
    main()
