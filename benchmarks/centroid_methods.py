"""Seconds, share of the matrix-product rate and memory of k-FED and FFCM.

``python benchmarks/centroid_methods.py`` takes 100 clients with 10,000 samples and 1,000 with 700, of 784 numbers each:
ten clusters with much noise, made once and held by all clients together. FFCM runs a few rounds.

The arithmetic counted is that of products and sums over all samples: subspace iteration and Lloyd's algorithm of k-FED,
the products of fuzzy c-means. It is divided by the processor time of all clients together, and that by the rate at
which one thread multiplies square matrices, measured before and after; so the share hardly depends on what else the
machine does, while seconds do. Memory is the most that was held while the method ran, beyond the data.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fedkin.core import Client, Federation
from fedkin.core.seeds import derive_generator
from fedkin.engines.local import LocalFederation, one_thread
from fedkin.methods.samples import kfed
from fedkin.methods.samples.ffcm import FFCMMethod
from fedkin.methods.samples.kfed import KFedMethod

CLUSTERS, WIDTH, NOISE = 10, 784, 0.5


def main() -> None:
    """Print one line per population and method."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--populations", nargs="+", default=["100x10000", "1000x700"], metavar="CLIENTSxSAMPLES")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print("| clients x samples | method | rounds | seconds | processor seconds | of product rate | more memory, MB |")
    print("|---|---|---|---|---|---|---|")
    sites: list[Client] = []
    for population in options.populations:
        sites.clear()  # before there are others
        clients, samples = (int(number) for number in population.split("x"))
        sites.extend(made(clients, samples))
        for method in (
            KFedMethod(n_clusters=CLUSTERS, features="raw"),
            FFCMMethod(n_clusters=CLUSTERS, rounds=options.rounds),
        ):
            name = type(method).__name__
            steps, seconds, busy, share, memory = timed(method, sites)
            figures = f"{steps} | {seconds:.1f} | {busy:.1f} | {share:.0%} | {memory:.0f}"
            print(f"| {clients:,} x {samples:,} | {name} | {figures} |", flush=True)


def made(clients: int, samples: int) -> list[Client]:
    """Clients with samples around ten points, of which each has its own shares."""
    points = torch.rand(CLUSTERS, WIDTH, generator=derive_generator(0, "points"))
    sites: list[Client] = []
    for i in range(clients):
        rng = derive_generator(0, "client", i)
        shares = torch.rand(CLUSTERS, generator=rng)
        x = torch.randn(samples, WIDTH, generator=rng).mul_(NOISE)
        x += points[torch.multinomial(shares, samples, replacement=True, generator=rng)]
        sites.append(Client(i, x))
    return sites


def timed(method: Any, sites: list[Client]) -> tuple[int, float, float, float, float]:
    """Steps, seconds, processor seconds, share of the product rate, and megabytes."""
    for client in sites:
        client.state.clear()
    fed = LocalFederation(sites, seed=0)
    state = method.init(fed)
    held = forget_peak()
    rate, work, busy, began = product_rate(), 0.0, fed.seconds, time.perf_counter()
    while not state.finished:
        state, record = method.step(fed, state)
        work += arithmetic(method, fed, record.values["iterations"])
    seconds, busy = time.perf_counter() - began, fed.seconds - busy
    return state.steps, seconds, busy, work / busy / ((rate + product_rate()) / 2), peak() - held


def arithmetic(method: Any, fed: Federation, iterations: dict[str, int]) -> float:
    """Operations on samples in one step; an addition and a multiplication are two."""
    work = 0.0
    for i, count in iterations.items():
        numbers = fed.clients[int(i)].x.numel()  # type: ignore[attr-defined]
        if isinstance(method, KFedMethod):
            wide = CLUSTERS + kfed._SPARE_DIRECTIONS
            subspace = (2 * kfed._PASSES + 1) * 2 * numbers * wide
            work += subspace + count * 4 * numbers * CLUSTERS
        else:
            work += count * 4 * numbers * CLUSTERS
    return work


def product_rate(size: int = 1500, times: int = 5) -> float:
    """Operations per second of processor time in a product of square matrices, on one thread."""
    with one_thread():
        a: Tensor = torch.rand(size, size)
        torch.mm(a, a)
        began = time.thread_time()
        for _ in range(times):
            torch.mm(a, a)
        return 2 * size**3 * times / (time.thread_time() - began)


def forget_peak() -> float:
    """Forget the most memory held so far (on Linux); megabytes held now."""
    Path("/proc/self/clear_refs").write_text("5")
    return peak()


def peak() -> float:
    """Most megabytes held since `forget_peak`."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


if __name__ == "__main__":
    main()
