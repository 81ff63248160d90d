"""How fast is one FedCRef iteration, and where does the time go?

Runs one iteration on the local engine with synthetic images at the default size (25 clients of 2 to 5 clusters, 500
samples each) and prints every speed as a ratio measured in the same run: to the matrix-product rate the machine gives
at that moment, and to a plain PyTorch loop over the same models. Machines are shared and noisy: the rate is measured
before, between and after all exchanges, by the wall's clock and by the processor's, and loops are timed in alternation.

    python benchmarks/fedcref_iteration.py --json iteration.json
"""

from __future__ import annotations

import argparse
import json
import os
import resource
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter, process_time, thread_time
from timeit import timeit
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedkin.core import Client, Payload, Task
from fedkin.core.federation import Wanted
from fedkin.core.seeds import derive_generator
from fedkin.engines.local import LocalFederation
from fedkin.methods.samples.fedcref import fedcref_tasks
from fedkin.methods.samples.fedcref.association import MAX_HELD_OUT
from fedkin.methods.samples.fedcref.fedcref import FedCRefMethod
from fedkin.nn.stack import Autoencoder, StackTraining, widths_for

Pair = NDArray[np.float64]  # by the wall's clock, and by the processor's, which rests while a thread must wait


def clock(processor: Callable[[], float] = process_time) -> Pair:
    return np.array([perf_counter(), processor()])


def synthetic_clients(n_clients: int, samples: int, features: int) -> list[Client]:
    """Clients with 2 to 5 of ten classes, `samples` images of each, dark for the most part; they bring their labels."""
    rng, clients = derive_generator(0, "benchmark"), []
    means, bases = torch.randn(10, 1, features, generator=rng), torch.randn(10, 8, features, generator=rng)
    for client in range(n_clients):
        count = int(torch.randint(2, 6, (), generator=rng))
        classes = torch.randperm(10, generator=rng)[:count]
        codes = torch.randn(count, samples, 8, generator=rng) / 8**0.5
        x = (0.5 * (means[classes] + codes @ bases[classes]) - 0.2).clamp_(0.0, 1.0).flatten(0, 1)
        clients.append(Client(client, x, state={"given": torch.arange(count).repeat_interleave(samples)}))
    return clients


class MachineRate:
    """Float32 matrix products with as many single-threaded loops at once as the engine has workers."""

    def __init__(self, workers: int, seconds: float, size: int = 1024) -> None:
        self.workers, self.seconds, self.size = workers, seconds, size
        self.operands = torch.rand(2, size, size)
        torch.mm(*self.operands)  # the first product is slower
        self.measured: list[Pair] = []
        self.spent = np.zeros(2)

    def measure(self) -> Pair:
        """Operations per second, and per processor second, now; `spent` adds up what measuring takes."""
        start, threads = clock(), torch.get_num_threads()
        with ThreadPoolExecutor(self.workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            rates = np.array(list(pool.map(self._loop, range(self.workers))))
        torch.set_num_threads(threads)
        self.spent += clock() - start
        self.measured.append(np.array([rates[:, 0].sum(), rates[:, 1].mean()]))
        return self.measured[-1]

    def _loop(self, _: int) -> Pair:
        product, done, start = torch.empty(self.size, self.size), 0, clock(thread_time)
        while perf_counter() < start[0] + self.seconds:
            torch.mm(*self.operands, out=product)
            done += 2 * self.size**3
        return done / (clock(thread_time) - start)


def forward_operations(widths: Sequence[int]) -> int:
    """Operations to reconstruct one sample: a multiplication and an addition per weight."""
    return sum(2 * inputs * outputs for inputs, outputs in Autoencoder(tuple(widths)).layers)


def training_operations(widths: Sequence[int], samples: int, training: Payload) -> int:
    """Operations to train one model: 6 per weight and sample, 4 in the first layer, whose input needs no gradient."""
    plan = StackTraining(**training)
    samples *= plan.total_steps(samples) // plan.steps(samples)
    return samples * (3 * forward_operations(widths) - 2 * widths[0] * widths[1])


def operations(task: str, client: Client, payload: Payload) -> int:
    """Multiplications and additions in the matrix products of one client's reply; padding is not counted."""
    if task not in ("train_clusters", "train_community", "score", "refine"):
        return 0
    widths, sizes = payload["widths"], client.state["labels"].bincount().tolist()
    if task == "train_clusters":
        halves = [half for size in sizes for half in (size - size // 2, size // 2)]
        return sum(training_operations(widths, half, payload["training"]) for half in halves)
    if task == "train_community":
        return sum(training_operations(widths, sizes[cluster], payload["training"]) for cluster in payload["clusters"])
    asked = sum(min(size, MAX_HELD_OUT) if task == "score" else size for size in sizes)
    return int(asked * (len(sizes) + len(payload["models"])) * forward_operations(widths))


@dataclass
class Phase:
    """Exchanges of one task, added up; `rates` are the machine's, just before and after each of them."""

    rates: list[Pair]
    operations: int = 0
    seconds: Pair = field(default_factory=lambda: np.zeros(2))

    def report(self) -> dict[str, Any]:
        """Times, and the achieved shares of the machine's matrix-product rate."""
        shares = self.operations / self.seconds / np.median(self.rates, axis=0)
        return {"operations": self.operations, "seconds": self.seconds.tolist(), "shares": shares.tolist()}


class TimedFederation(LocalFederation):
    """The local engine with a clock on every exchange, and the machine's rate measured in between."""

    def __init__(self, clients: Sequence[Client], workers: int, rate: MachineRate) -> None:
        super().__init__(clients, workers=workers)
        self.rate, self.phases = rate, dict[str, Phase]()

    def ask(self, task: Task, payloads: Mapping[int, Payload], expected: Wanted | None = None) -> dict[int, Payload]:
        name = task.name.rpartition(".")[2]
        phase = self.phases.setdefault(name, Phase([self.rate.measure()]))
        phase.operations += sum(operations(name, self.clients[i], payload) for i, payload in payloads.items())
        start = clock()
        replies = super().ask(task, payloads, expected)
        phase.seconds += clock() - start
        phase.rates.append(self.rate.measure())
        return replies


def one_iteration(method: FedCRefMethod, clients: Sequence[Client], workers: int, rate: MachineRate) -> dict[str, Any]:
    """Time FedCRef's first iteration, the clients' first clustering excluded."""
    fed = TimedFederation(clients, workers, rate)
    state = method.init(fed)
    start = clock() - rate.spent
    state, _ = method.step(fed, state)
    seconds = clock() - rate.spent - start
    phases = {name: phase for name, phase in fed.phases.items() if phase.operations}
    phases["iteration"] = Phase(rate.measured, sum(phase.operations for phase in phases.values()), seconds)
    return {
        "clusters": len(state.nodes),
        "phases": {name: phase.report() for name, phase in phases.items()},
        "bytes_sent": fed.traffic.sent,
        "bytes_received": fed.traffic.received,
        "peak_memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,  # Linux counts in KiB
    }


def plain_loop(data: Sequence[Tensor], training: StackTraining, threads: int, fused: bool) -> None:
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


def ratios_to_plain_loops(method: FedCRefMethod, clients: Sequence[Client], workers: int, pairs: int) -> dict[str, Any]:
    """How many times longer than the exchange `train_clusters` plain loops over the same models take."""
    shape = Autoencoder(widths_for(clients[0].x.shape[1]))
    training = StackTraining(method.local_epochs // 2, 0, method.batch_size, method.learning_rate)  # enough for a ratio
    payload = {**method.start_options(), **fedcref_tasks.spec(shape), "training": asdict(training), "replicas": 2}
    payload["profiles"] = False

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
            loops[f"plain loop, torch threads: {threads}{adam}"] = partial(plain_loop, data, training, threads, fused)
    ratios: dict[str, list[float]] = {name: [] for name in loops}
    for _ in range(pairs):
        for name, loop in loops.items():
            ratios[name].append(timeit(loop, number=1) / timeit(partial(stacked, workers), number=1))
    return {"models": len(data), "ratios": ratios}


def print_report(report: Mapping[str, Any]) -> None:
    data = "{clients} clients, {clusters} clusters of {samples} samples, {features} features"
    print(f"{data}; {{workers}} workers, load {{load_before:.1f}} -> {{load_after:.1f}}".format(**report))
    spread = dict(zip(("GFLOP/s", "GFLOP per processor second"), np.transpose(report["rates"]) / 1e9, strict=True))
    spread |= {f"times as long: {name}": ratios for name, ratios in report["ratios"].items()}
    print(f"\n{'machine, and plain loops over fedkin':56}{'min':>10}{'median':>10}{'max':>10}")
    for name, values in spread.items():
        print(f"{name:56}{min(values):10.2f}{np.median(values):10.2f}{max(values):10.2f}")
    print(f"\n{'one iteration':26}{'GFLOP':>10}{'seconds':>10}{'processor':>10}{'share':>10}{'processor':>10}")
    for name, phase in report["phases"].items():
        print("{:26}{:10.1f}".format(name, phase["operations"] / 1e9), end="")
        print("{:10.2f}{:10.2f}{:10.1%}{:10.1%}".format(*phase["seconds"], *phase["shares"]))
    sent, received, memory = (report[name] >> 20 for name in ("bytes_sent", "bytes_received", "peak_memory"))
    print(f"\n{sent} MiB sent to clients, {received} MiB received; peak memory {memory} MiB")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=25)
    parser.add_argument("--samples", type=int, default=500, help="per cluster")
    parser.add_argument("--features", type=int, default=784)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--pairs", type=int, default=3, help="repetitions of each comparison with a plain loop")
    parser.add_argument("--quick", action="store_true", help="small defaults: does it work?")
    parser.add_argument("--json", type=Path, help="also write everything measured to this file")
    if parser.parse_args(arguments).quick:
        parser.set_defaults(clients=4, samples=40, features=64, pairs=1)
    options = parser.parse_args(arguments)

    method = FedCRefMethod("given", local_epochs=2, min_steps=0, rounds=2) if options.quick else FedCRefMethod("given")
    clients = synthetic_clients(options.clients, options.samples, options.features)
    rate = MachineRate(options.workers, seconds=0.02 if options.quick else 0.4)
    report: dict[str, Any] = {**vars(options), "load_before": os.getloadavg()[0]}
    report |= one_iteration(method, clients, options.workers, rate)
    report |= ratios_to_plain_loops(method, clients[:8], options.workers, options.pairs)
    report |= {"rates": np.array(rate.measured).tolist(), "load_after": os.getloadavg()[0]}
    print_report(report)
    if options.json:
        options.json.write_text(json.dumps(report, indent=1, default=str) + "\n")


if __name__ == "__main__":
    main()
