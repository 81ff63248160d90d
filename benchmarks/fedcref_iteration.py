"""How fast is one FedCRef iteration, and where does the time go?

Runs one iteration on the local engine with synthetic images at the default size (25 sites of 2 to 5 clusters, 500
samples each) and prints every speed as a ratio measured in the same run: to the matrix-product rate the machine gives
at that moment, and to a plain PyTorch loop over the same models. Machines are shared and noisy, so the rate is measured
before, between and after all exchanges, once by the wall's clock and once by the processor's, which does not count
waiting for others; and the loops are timed in alternation.

    python benchmarks/fedcref_iteration.py --json iteration.json
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from time import perf_counter, process_time, thread_time
from timeit import timeit
from typing import Any

import torch
from torch import Tensor, nn

from fedkin.core import Client, Payload, Task
from fedkin.core.federation import Shapes
from fedkin.core.seeds import derive_generator
from fedkin.engines.local import LocalFederation
from fedkin.learning.stack import Training
from fedkin.methods.federated_clustering import fedcref_tasks
from fedkin.methods.federated_clustering.fedcref import FedCRef
from fedkin.methods.federated_clustering.kinship import JUDGES
from fedkin.models.autoencoder import Autoencoder, widths_for


def synthetic_clients(sites: int, samples: int, features: int) -> list[Client]:
    """Sites with 2 to 5 of ten classes, `samples` images of each, dark for the most part; they bring their labels."""
    rng, clients = derive_generator(0, "benchmark"), []
    means, bases = torch.randn(10, 1, features, generator=rng), torch.randn(10, 8, features, generator=rng)
    for site in range(sites):
        count = int(torch.randint(2, 6, (), generator=rng))
        classes = torch.randperm(10, generator=rng)[:count]
        codes = torch.randn(count, samples, 8, generator=rng) / 8**0.5
        x = (0.5 * (means[classes] + codes @ bases[classes]) - 0.2).clamp_(0.0, 1.0).flatten(0, 1)
        clients.append(Client(site, x, state={"given": torch.arange(count).repeat_interleave(samples)}))
    return clients


Rates = tuple[float, float]


class MachineRate:
    """Matrix products per second, float32, with as many single-threaded loops at once as the engine has workers."""

    def __init__(self, workers: int, seconds: float, size: int = 1024) -> None:
        self.workers, self.seconds, self.size = workers, seconds, size
        self.operands = torch.rand(2, size, size)
        self.measured: list[Rates] = []
        torch.mm(*self.operands)  # the first product is slower
        self.spent = 0.0

    def measure(self) -> Rates:
        """Operations per second of all loops, and per processor second; `spent` adds up what measuring takes."""
        start, threads = perf_counter(), torch.get_num_threads()
        torch.set_num_threads(1)
        with ThreadPoolExecutor(self.workers) as pool:
            all_rates, processor_rates = zip(*pool.map(self._loop, range(self.workers)), strict=True)
        self.measured.append((sum(all_rates), statistics.mean(processor_rates)))
        torch.set_num_threads(threads)
        self.spent += perf_counter() - start
        return self.measured[-1]

    def _loop(self, _: int) -> Rates:
        product, done, start, processor = torch.empty(self.size, self.size), 0, perf_counter(), thread_time()
        while perf_counter() < start + self.seconds:
            torch.mm(*self.operands, out=product)
            done += 2 * self.size**3
        return done / (perf_counter() - start), done / (thread_time() - processor)


def forward_operations(widths: Sequence[int]) -> int:
    """Operations to reconstruct one sample: a multiplication and an addition per weight."""
    return sum(2 * inputs * outputs for inputs, outputs in Autoencoder(tuple(widths)).layers)


def training_operations(widths: Sequence[int], samples: int, training: Payload) -> int:
    """Operations to train one model: 6 per weight and sample, 4 in the first layer, whose input needs no gradient."""
    plan = Training(**training)
    epochs = plan.total_steps(samples) // plan.steps(samples)
    return epochs * samples * (3 * forward_operations(widths) - 2 * widths[0] * widths[1])


def operations(task: str, client: Client, payload: Payload) -> int:
    """Multiplications and additions in the matrix products of one client's reply; padding is not counted."""
    if task not in ("train_clusters", "train_community", "score", "refine"):
        return 0
    widths: list[int] = payload["widths"]
    sizes: list[int] = client.state["labels"].bincount().tolist()
    if task == "train_clusters":
        halves = [half for size in sizes for half in (size - size // 2, size // 2)]
        return sum(training_operations(widths, half, payload["training"]) for half in halves)
    if task == "train_community":
        return sum(training_operations(widths, sizes[cluster], payload["training"]) for cluster in payload["clusters"])
    asked = sum(min(size, JUDGES) if task == "score" else size for size in sizes)
    return asked * (len(sizes) + len(payload["models"])) * forward_operations(widths)


@dataclass
class Phase:
    """Exchanges of one task, added up; `rates` are the machine's, just before and after each of them."""

    seconds: float
    processor_seconds: float
    operations: int
    rates: list[Rates]

    def report(self) -> dict[str, Any]:
        """All of it, and the achieved shares of the machine's matrix-product rate."""
        rate, processor_rate = (statistics.median(column) for column in zip(*self.rates, strict=True))
        shares = self.operations / self.seconds / rate, self.operations / self.processor_seconds / processor_rate
        return {**asdict(self), "share": shares[0], "processor_share": shares[1]}


class TimedFederation(LocalFederation):
    """The local engine with a clock on every exchange, and the machine's rate measured in between."""

    def __init__(self, clients: Sequence[Client], workers: int, rate: MachineRate) -> None:
        super().__init__(clients, workers=workers)
        self.rate = rate
        self.phases: dict[str, Phase] = {}

    def ask(self, task: Task, payloads: Mapping[int, Payload], shapes: Shapes | None = None) -> dict[int, Payload]:
        name = task.name.rpartition(".")[2]
        phase = self.phases.setdefault(name, Phase(0.0, 0.0, 0, [self.rate.measure()]))
        phase.operations += sum(operations(name, self.clients[i], payload) for i, payload in payloads.items())
        start, processor = perf_counter(), process_time()
        replies = super().ask(task, payloads, shapes)
        phase.seconds += perf_counter() - start
        phase.processor_seconds += process_time() - processor
        phase.rates.append(self.rate.measure())
        return replies


def one_iteration(method: FedCRef, clients: Sequence[Client], workers: int, rate: MachineRate) -> dict[str, Any]:
    """Time FedCRef's first iteration, the sites' first clustering excluded."""
    fed = TimedFederation(clients, workers, rate)
    state = method.init(fed)
    start, spent = (perf_counter(), process_time()), rate.spent
    state, _ = method.step(fed, state)
    return {
        "clusters": len(state.nodes),
        "phases": {name: {**asdict(p), "share": p.share} for name, p in [*phases.items(), ("iteration", whole)]},
        "bytes_sent": fed.traffic.sent,
        "bytes_received": fed.traffic.received,
        "peak_memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,  # Linux counts in KiB
    }


def plain_loop(data: Sequence[Tensor], training: Training, threads: int, fused: bool) -> None:
    """Train one autoencoder after another as PyTorch's tutorials do, on data held in memory."""
    torch.set_num_threads(threads)
    for x in data:
        layers = [part for i, o in Autoencoder(widths_for(x.shape[1])).layers for part in (nn.Linear(i, o), nn.ReLU())]
        model = nn.Sequential(*layers[:-1], nn.Sigmoid())
        adam = torch.optim.Adam(model.parameters(), training.learning_rate, eps=training.epsilon, fused=fused)
        for _ in range(training.total_steps(len(x)) // training.steps(len(x))):
            for rows in torch.randperm(len(x)).split(training.batch_size):
                batch = x[rows]
                loss = nn.functional.mse_loss(model(batch), batch)
                adam.zero_grad()
                loss.backward()
                adam.step()


def ratios_to_plain_loops(method: FedCRef, clients: Sequence[Client], workers: int, pairs: int) -> dict[str, Any]:
    """How many times longer than the exchange `train_clusters` plain loops over the same models take."""
    shape = Autoencoder(widths_for(clients[0].x.shape[1]))
    training = Training(method.local_epochs, method.min_steps, method.batch_size, method.learning_rate)
    payload = {**fedcref_tasks.spec(shape), "training": asdict(training), "replicas": 2}

    def stacked(count: int) -> None:
        fed = LocalFederation(clients, workers=count)
        fed.ask(fedcref_tasks.train_clusters, fed.all(**payload))

    for client in clients:
        client.state["labels"] = client.state["given"]
    stacked(workers)  # makes the halves the loops train on
    parts = [client.state["labels"] * 2 + client.state["halves"] for client in clients]
    data = [client.x[part == which] for client, part in zip(clients, parts, strict=True) for which in part.unique()]
    loops: dict[str, Callable[[], None]] = {"fedkin with 1 worker": partial(stacked, 1)}
    for threads in sorted({1, torch.get_num_threads()}):  # leaves torch's default behind
        for adam, fused in (("", False), (", fused Adam", True)):
            loops[f"plain loop, {threads} torch threads{adam}"] = partial(plain_loop, data, training, threads, fused)
    ratios: dict[str, list[float]] = {name: [] for name in loops}
    for _ in range(pairs):
        for name, loop in loops.items():
            ratios[name].append(timeit(loop, number=1) / timeit(partial(stacked, workers), number=1))
    return {"models": len(data), "ratios": ratios}


def spread(values: Sequence[float], scale: float = 1.0) -> str:
    """Minimum, median and maximum, as columns."""
    return "".join(f"{value / scale:10.2f}" for value in (min(values), statistics.median(values), max(values)))


def print_report(report: Mapping[str, Any]) -> None:
    data = "{sites} sites, {clusters} clusters of {samples} samples, {features} features"
    print(f"{data}; {{workers}} workers, load {{load_before:.1f}} -> {{load_after:.1f}}".format(**report))
    print(f"\n{'machine, GFLOP/s':36}{'min':>10}{'median':>10}{'max':>10}")
    print(f"{'float32 products, 1 thread x workers':36}{spread(report['rates'], 1e9)}")
    print(f"\n{'one iteration':36}{'seconds':>10}{'GFLOP':>10}{'share':>10}")
    for name, phase in report["phases"].items():
        print(f"{name:36}{phase['seconds']:10.2f}{phase['operations'] / 1e9:10.1f}{phase['share']:10.1%}")
    sent, received, memory = (report[name] >> 20 for name in ("bytes_sent", "bytes_received", "peak_memory"))
    print(f"{sent} MiB sent to sites, {received} MiB received; peak memory {memory} MiB")
    print(f"\n{'time over fedkin':36}{'min':>10}{'median':>10}{'max':>10}    ({report['models']} models)")
    for name, ratios in report["ratios"].items():
        print(f"{name:36}{spread(ratios)}")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sites", type=int, default=25)
    parser.add_argument("--samples", type=int, default=500, help="per cluster")
    parser.add_argument("--features", type=int, default=784)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--pairs", type=int, default=3, help="repetitions of each comparison with a plain loop")
    parser.add_argument("--loop-sites", type=int, default=8, help="sites whose models these comparisons train")
    parser.add_argument("--quick", action="store_true", help="small defaults: does it work?")
    parser.add_argument("--json", type=Path, help="also write everything measured to this file")
    if parser.parse_args(arguments).quick:
        parser.set_defaults(sites=4, samples=40, features=64, pairs=1, loop_sites=1)
    options = parser.parse_args(arguments)

    method = FedCRef("given", local_epochs=2, min_steps=0, rounds=2) if options.quick else FedCRef("given")
    clients = synthetic_clients(options.sites, options.samples, options.features)
    rate = MachineRate(options.workers, seconds=0.02 if options.quick else 0.4)
    report: dict[str, Any] = {**vars(options), "load_before": os.getloadavg()[0], "rates": rate.measured}
    report |= one_iteration(method, clients, options.workers, rate)
    report |= ratios_to_plain_loops(method, clients[: options.loop_sites], options.workers, options.pairs)
    report["load_after"] = os.getloadavg()[0]
    print_report(report)
    if options.json:
        options.json.write_text(json.dumps(report, indent=1, default=str) + "\n")


if __name__ == "__main__":
    main()
