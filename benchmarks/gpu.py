"""Speeds of a GPU, beside its machine's processor and a plain PyTorch loop on the same GPU.

    python benchmarks/gpu.py [PART ...] [--device cuda] [--results benchmarks/gpu.jsonl]

It measures the parts named, or all that the results file does not have of this device, and appends a line for each as
soon as it ends: commit, device, versions, seconds and what it measured. With ``--device cpu --tiny`` parts run at a
small size, which shows that they work and measures nothing. Every method on the device is tested by ``make test-gpu``,
and the papers' tables are those of ``fedkin reproduce --device cuda``.

Speeds are seconds of the same work on the device, on the processor and, where there is one, in a plain loop on the
device with torch's own settings, which on a GPU round convolutions to TF32; and how many times as long the others take.
Where either would take minutes, some of the clients or models are timed, and the time multiplied; on the processor so
many that all cores are busy. Work that pays for starting comes first and is left out; the least of two times is kept.
"""

from __future__ import annotations

import argparse
import copy
import json
import platform
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import nn

from fedkin.core import Client, Method
from fedkin.core.device import device_named, on
from fedkin.core.seeds import derive_generator
from fedkin.engines.local import LocalFederation, cores
from fedkin.methods.clients.fedavg import FedAvgMethod
from fedkin.methods.samples.ccfc.ccfc import CCFCMethod
from fedkin.methods.samples.fedcref import tasks
from fedkin.methods.samples.fedcref.fedcref import FedCRefMethod
from fedkin.nn.modules import build
from fedkin.nn.stack import Autoencoder, StackTraining, widths_for

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "gpu.jsonl"
CLASSES, BATCH = 10, 32

Values = dict[str, Any]


def rate(device: torch.device, tiny: bool) -> Values:
    """Products of two large matrices in TFLOP/s."""
    size, values = 256 if tiny else 8192, {}
    left, right = torch.rand(2, size, size, device=device)
    for name, precision in (("float32", "highest"), ("TF32", "high")):
        torch.set_float32_matmul_precision(precision)
        values[f"TFLOP/s, {name}"] = 2 * size**3 / min(timed(lambda: left @ right, device) for _ in range(5)) / 1e12
    torch.set_float32_matmul_precision("highest")
    return values


def fedcref(device: torch.device, tiny: bool) -> Values:
    """The first exchange of models of 25 clients' clusters, and the same models in a plain loop."""
    clients, samples = (3, 40) if tiny else (25, 500)
    method, shape = FedCRefMethod(), Autoencoder(widths_for(784))
    training = StackTraining(1 if tiny else 20, 0, method.batch_size, method.learning_rate)
    payload = {
        "initial": method.initial,
        "n_clusters": method.n_clusters,
        **tasks.spec(shape),
        "training": asdict(training),
        "replicas": 2,
    }
    halves = []
    for client in synthetic_clients(clients, samples, 784):
        labels = client.state["given"]
        for cluster in labels.unique():
            members = client.x[labels == cluster]
            halves += members.split((len(members) + 1) // 2)

    def exchange(place: torch.device, some: int = clients) -> Callable[[], object]:
        with on(place):
            fed = LocalFederation(synthetic_clients(clients, samples, 784)[:some], device=place)
        return lambda: fed.ask(tasks.train_clusters, fed.all(**payload))

    def plain(some: int) -> None:
        for x in halves[:some]:
            layers = [part for i, o in shape.layers for part in (nn.Linear(i, o), nn.ReLU())]
            model = nn.Sequential(*layers[:-1], nn.Sigmoid()).to(device)
            adam, resident = torch.optim.Adam(model.parameters(), training.learning_rate), x.to(device)
            for _ in range(training.epochs):
                for rows in torch.randperm(len(x), device=device).split(training.batch_size):
                    adam.zero_grad()
                    nn.functional.mse_loss(model(resident[rows]), resident[rows]).backward()
                    adam.step()

    return compared(exchange, device, (clients, clients), plain, (min(5, len(halves)), len(halves)))


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


def fedavg(device: torch.device, tiny: bool) -> Values:
    """A round of FedAvg of 100 clients with LeNet-5, and the same round by hand, client after client."""
    count, each, shape = 3 if tiny else 100, 40 if tiny else 500, (1, 28, 28)
    rng = derive_generator(0, "benchmark")
    x, y = torch.rand(count, each, *shape, generator=rng), torch.arange(count * each).view(count, -1) % CLASSES
    clients = [Client(i, x[i], y[i]) for i in range(count)]
    method = FedAvgMethod(module="lenet5", rounds=100, local_epochs=1, batch_size=BATCH)
    network = build("lenet5", shape, CLASSES)

    def plain(some: int) -> None:
        everyone, sums = copy.deepcopy(network).to(device), None
        for client in range(some):
            images, labels = x[client].to(device), y[client].to(device)
            model = copy.deepcopy(everyone)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
            for rows in torch.randperm(each, device=device).split(BATCH):
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(images[rows]), labels[rows]).backward()
                optimizer.step()
            values = [parameter.detach() for parameter in model.parameters()]
            sums = values if sums is None else [total + value for total, value in zip(sums, values, strict=True)]

    busy = min(max(count, 2 * cores()), count)
    return compared(steps_of(method, clients), device, (busy, count), plain, (min(20, count), count))


def ccfc(device: torch.device, tiny: bool) -> Values:
    """A round of views of ten clients with images."""
    x = torch.rand(10, 32 if tiny else 512, 1, 28, 28, generator=derive_generator(0, "benchmark"))
    method = CCFCMethod(pretrain_rounds=100, cluster_rounds=1, batch_size=16 if tiny else 128)
    return compared(steps_of(method, [Client(i, part) for i, part in enumerate(x)]), device, (10, 10))


def steps_of(method: Method[Any], clients: list[Client]) -> Callable[..., Callable[[], object]]:
    """What makes, for a place and the first of the clients, a function that takes the method's next step there."""

    def work(place: torch.device, some: int = len(clients)) -> Callable[[], object]:
        with on(place):
            fed = LocalFederation(clients[:some], device=place)
        state = method.init(fed)

        def step() -> None:
            nonlocal state
            state, _ = method.step(fed, state)

        return step

    return work


def compared(
    work: Callable[..., Callable[[], object]],
    device: torch.device,
    on_processor: tuple[int, int],
    plain: Callable[[int], None] | None = None,
    in_loop: tuple[int, int] = (1, 1),
) -> Values:
    """Seconds there, on the processor, and of a plain loop there; and the ratios.

    `on_processor` and `in_loop` are how many clients or models of how many are timed.
    """
    values = {"seconds": least(work(device), device)}
    processor, (some, of) = torch.device("cpu"), on_processor
    values["seconds, processor"] = least(work(processor, some), processor) * of / some
    if plain is not None:
        with as_torch_is_set():
            values["seconds, plain loop"] = least(lambda: plain(in_loop[0]), device) * in_loop[1] / in_loop[0]
    ratios = {
        f"times as long{name.removeprefix('seconds')}": value / values["seconds"]
        for name, value in values.items()
        if name != "seconds"
    }
    return values | ratios


@contextmanager
def as_torch_is_set() -> Iterator[None]:
    """Torch's own settings, without determinism and with TF32 in convolutions."""
    before = torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.allow_tf32
    torch.use_deterministic_algorithms(False)
    torch.backends.cudnn.allow_tf32 = True
    yield
    torch.use_deterministic_algorithms(before[0], warn_only=True)
    torch.backends.cudnn.allow_tf32 = before[1]


def least(work: Callable[[], object], device: torch.device) -> float:
    """The least seconds of two times, or of one if it takes two seconds, after one that is not counted."""
    work()
    first = timed(work, device)
    return first if first > 2 else min(first, timed(work, device))


def timed(work: Callable[[], object], device: torch.device) -> float:
    """Seconds until the device is done."""
    began = time.perf_counter()
    work()
    if device.type != "cpu":
        torch.accelerator.synchronize()
    return time.perf_counter() - began


PARTS: dict[str, tuple[str, Callable[[torch.device, bool], Values]]] = {
    "rate": ("matrix products per second, float32 and with TF32", rate),
    "fedcref": ("FedCRef's first iteration of 25 clients, 784 columns", fedcref),
    "fedavg-lenet": ("a round of FedAvg, 100 clients with LeNet-5", fedavg),
    "ccfc": ("a round of CCFC's views, ten clients", ccfc),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--tiny", action="store_true", help="at a small size; measures nothing")
    options = parser.parse_args(arguments)
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no part is called {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    facts = described(options.device) | {"tiny": options.tiny, "seeds": [0]}
    finished = [
        line["part"]
        for line in lines_of(options.results)
        if (line["device"], line["tiny"]) == (facts["device"], options.tiny)
    ]
    for name in options.parts or [name for name in PARTS if name not in finished]:
        began = time.monotonic()
        values = PARTS[name][1](device_named(options.device, "--device"), options.tiny)
        line = {"part": name, **facts, "seconds": time.monotonic() - began, "values": values}
        with options.results.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(f"{name}: {line['seconds']:.0f} s", flush=True)


def described(device: str) -> Values:
    """Commit, device and versions."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    name = torch.cuda.get_device_name(device) if device.startswith("cuda") else platform.processor() or "processor"
    return {
        "commit": commit.stdout.strip(), "device": f"{device}: {name}", "torch": torch.__version__,
        "python": platform.python_version(), "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }  # fmt: skip


def lines_of(results: Path) -> list[Values]:
    """The lines so far."""
    return [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []


if __name__ == "__main__":
    main()
