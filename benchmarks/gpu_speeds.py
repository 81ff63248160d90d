"""Speeds of a device beside the processor and a plain loop on the same device; the parts of ``gpu.py`` that time.

    python benchmarks/gpu_speeds.py fedavg-lenet --device cuda

Prints values as one line of JSON: seconds of the same work on the device, there without recorded steps, on the
processor and, where there is one, in a plain PyTorch loop on the device with torch's own settings, which on a GPU round
convolutions to TF32; and how many times as long the others take. Of FedAvg there are also clients in turn instead of as
a stack. Of FedCRef and FedAvg there is also the speed of their products and convolutions, and its share of that of one
large float32 product in the same process; those of CCFC are not counted.
Where the processor or the loop would take minutes, some of the clients or models are timed, and the time multiplied; on
the processor so many that all cores are busy. Work that pays for starting comes first and is left out; the least of two
times is kept.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from fedkin.core import Client, Method
from fedkin.core.device import Execution, device_named, on
from fedkin.core.seeds import derive_generator
from fedkin.engines.local import LocalFederation, cores
from fedkin.methods.clients.fedavg import FedAvgMethod
from fedkin.methods.samples.ccfc.ccfc import CCFCMethod
from fedkin.methods.samples.fedcref import tasks
from fedkin.methods.samples.fedcref.fedcref import FedCRefMethod
from fedkin.nn.modules import build
from fedkin.nn.stack import Autoencoder, StackTraining, widths_for

Values = dict[str, float]
CLASSES = 10
LONG = 2.0
"""Seconds of what is timed once."""
BATCH = 32
FEW = 40
"""Samples of a client where it is to be tiny."""


def rate(device: torch.device, tiny: bool) -> Values:
    """Matrix products in TFLOP/s."""
    found = {}
    for name, precision in (("float32", "highest"), ("TF32", "high")):
        torch.set_float32_matmul_precision(precision)
        found[f"TFLOP/s, {name}"] = products(device, tiny)
    torch.set_float32_matmul_precision("highest")
    return found


def products(device: torch.device, tiny: bool) -> float:
    """TFLOP/s of the device's products of two large matrices, as torch is set."""
    size = 256 if tiny else 8192
    left, right = torch.rand(2, size, size, device=device)
    return 2 * size**3 / min(timed(lambda: left @ right, device) for _ in range(5)) / 1e12


def with_share(found: Values, operations: float, device: torch.device, tiny: bool) -> Values:
    """The same with the speed of work of so many operations, and its share of that of matrix products, measured now."""
    speed, most = operations / found["seconds"] / 1e12, products(device, tiny)
    return found | {"TFLOP/s": speed, "TFLOP/s, matrix products": most, "share of matrix products": speed / most}


def fedcref(device: torch.device, tiny: bool) -> Values:
    """The first exchange of models of 25 clients' clusters, and the same models in a plain loop."""
    clients, samples = (3, 40) if tiny else (25, 500)
    method = FedCRefMethod()
    training = StackTraining(1 if tiny else 20, 0, method.batch_size, method.learning_rate)
    shape = Autoencoder(widths_for(784))
    payload = {**method.start_options(), **tasks.spec(shape), "training": asdict(training), "replicas": 2}
    payload["profiles"] = False

    made = synthetic_clients(clients, samples, 784)
    halves = [part for client in made for one in _clusters(client) for part in one.split((len(one) + 1) // 2)]

    def exchange(where: torch.device, some: int = clients) -> Callable[[], object]:
        with on(where):
            fed = LocalFederation(synthetic_clients(clients, samples, 784)[:some])
        return lambda: fed.ask(tasks.train_clusters, fed.all(**payload))

    def plain(some: int) -> None:
        plain_autoencoders(halves[:some], shape, training, device)

    found = compared(exchange, device, Share(clients, clients), plain, Share(min(5, len(halves)), len(halves)))
    operations = sum(training_operations(shape, len(half), training) for half in halves)
    return with_share(found, operations, device, tiny)


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


def training_operations(shape: Autoencoder, samples: int, training: StackTraining) -> int:
    """Operations to train one model: 6 per weight and sample, 4 in the first layer, whose input needs no gradient."""
    samples *= training.total_steps(samples) // training.steps(samples)
    return samples * (6 * sum(i * o for i, o in shape.layers) - 2 * shape.widths[0] * shape.widths[1])


def _clusters(client: Client) -> list[Tensor]:
    given = client.state["given"]
    return [client.x[given == cluster] for cluster in given.unique()]


def plain_autoencoders(data: list[Tensor], shape: Autoencoder, training: StackTraining, device: torch.device) -> None:
    """One autoencoder after another, as tutorials train them, the data on the device."""
    for x in data:
        layers = [part for i, o in shape.layers for part in (nn.Linear(i, o), nn.ReLU())]
        model = nn.Sequential(*layers[:-1], nn.Sigmoid()).to(device)
        adam, there = torch.optim.Adam(model.parameters(), training.learning_rate), x.to(device)
        for _ in range(training.epochs):
            for rows in torch.randperm(len(x), device=device).split(training.batch_size):
                adam.zero_grad()
                nn.functional.mse_loss(model(there[rows]), there[rows]).backward()
                adam.step()


def fedavg(
    module: str, shape: tuple[int, ...], clients: int, samples: int, on_processor: int | None = None
) -> Callable[[torch.device, bool], Values]:
    """A round of FedAvg; on the processor of so many of the clients at least."""

    def part(device: torch.device, tiny: bool) -> Values:
        count, each = (3, min(FEW, samples)) if tiny else (clients, samples)
        made, method = fedavg_work(module, shape, count, each)

        def round_of(where: torch.device, some: int = count, chunk: int | None = None) -> Callable[[], object]:
            return next_step(method, made[:some], where, chunk)

        network = build(module, shape, CLASSES)

        def plain(some: int) -> None:
            there = [(client.x.to(device), client.y.to(device)) for client in made[:some] if client.y is not None]
            plain_fedavg(network, there, device)

        few, busy = Share(min(20, count), count), max(on_processor or count, 2 * cores())
        found = compared(round_of, device, Share(min(busy, count), count), plain, few)
        found["seconds, in turn"] = least(round_of(device, few.some, 1), device) * few.times
        return with_share(with_ratios(found), count * each * operations_per_sample(network, shape), device, tiny)

    return part


def fedavg_work(module: str, shape: tuple[int, ...], count: int, each: int) -> tuple[list[Client], Method]:
    """Clients with so many samples each, and FedAvg for them."""
    rng = derive_generator(0, "benchmark")
    x, y = torch.rand(count, each, *shape, generator=rng), torch.arange(count * each).view(count, -1) % CLASSES
    method = FedAvgMethod(module=module, rounds=100, local_epochs=1, batch_size=BATCH)
    return [Client(i, x[i], y[i]) for i in range(count)], method


def operations_per_sample(network: nn.Module, shape: tuple[int, ...]) -> float:
    """Operations of products and convolutions, forth and back, that train a network on a sample."""
    with FlopCounterMode(display=False) as counter:
        nn.functional.cross_entropy(network(torch.rand(BATCH, *shape)), torch.arange(BATCH) % CLASSES).backward()
    return counter.get_total_flops() / BATCH


def plain_fedavg(network: nn.Module, data: list[tuple[Tensor, Tensor]], device: torch.device) -> None:
    """A round by hand, client after client, the data on the device."""
    everyone, sums = copy.deepcopy(network).to(device), None
    for x, y in data:
        model = copy.deepcopy(everyone)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        for rows in torch.randperm(len(x), device=device).split(BATCH):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
            optimizer.step()
        values = [parameter.detach() for parameter in model.parameters()]
        sums = values if sums is None else [total + value for total, value in zip(sums, values, strict=True)]


def ccfc(device: torch.device, tiny: bool) -> Values:
    """A round of views."""
    clients, method = ccfc_work(tiny)

    def round_of(where: torch.device, some: int = 10) -> Callable[[], object]:
        return next_step(method, clients[:some], where)

    return compared(round_of, device, Share(len(clients), len(clients)))


def ccfc_work(tiny: bool) -> tuple[list[Client], Method]:
    """Ten clients with images, and CCFC for them."""
    x = torch.rand(10, 32 if tiny else 512, 1, 28, 28, generator=derive_generator(0, "benchmark"))
    method = CCFCMethod(pretrain_rounds=100, cluster_rounds=1, batch_size=16 if tiny else 128)
    return [Client(i, part) for i, part in enumerate(x)], method


def next_step(
    method: Method,
    clients: list[Client],
    where: torch.device,
    chunk: int | None = None,
    execution: Execution | None = None,
) -> Callable[[], object]:
    """What takes a method's next step there, each time it is called, so many clients at a time."""
    with on(where, execution=execution):
        fed = LocalFederation(clients, chunk=chunk)
    state = method.init(fed)

    def step() -> None:
        nonlocal state
        state, _ = method.step(fed, state)

    return step


@dataclass(frozen=True)
class Share:
    """Some clients or models `of` all, whose time stands for that of all."""

    some: int
    of: int

    @property
    def times(self) -> float:
        """What their time is multiplied by."""
        return self.of / self.some


def compared(
    work: Callable[..., Callable[[], object]],
    device: torch.device,
    on_processor: Share,
    plain: Callable[[int], None] | None = None,
    in_loop: Share | None = None,
) -> Values:
    """Seconds there, there without recorded steps, on the processor, and of a plain loop there; and the ratios."""
    found = {"seconds": least(work(device), device)}
    if device.type == "cuda":
        with on(device, execution=Execution(cuda_graphs=False)):
            found["seconds, not recorded"] = least(work(device), device)
    processor = torch.device("cpu")
    found["seconds, processor"] = least(work(processor, on_processor.some), processor) * on_processor.times
    if plain is not None and in_loop is not None:
        with as_torch_is_set():
            found["seconds, plain loop"] = least(lambda: plain(in_loop.some), device) * in_loop.times
    return with_ratios(found)


def with_ratios(found: Values) -> Values:
    """The same with how many times as long the others take."""
    others = {name: value for name, value in found.items() if name.startswith("seconds, ")}
    ratios = {
        f"times as long{name.removeprefix('seconds')}": value / found["seconds"] for name, value in others.items()
    }
    return found | ratios


@contextmanager
def as_torch_is_set() -> Iterator[None]:
    """Torch's own settings, without determinism and with TF32 in convolutions."""
    was = torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.allow_tf32
    torch.use_deterministic_algorithms(False)
    torch.backends.cudnn.allow_tf32 = True
    yield
    torch.use_deterministic_algorithms(was[0], warn_only=True)
    torch.backends.cudnn.allow_tf32 = was[1]


def least(work: Callable[[], object], device: torch.device) -> float:
    """The least seconds of two times, or of one if it takes long, after one that is not counted."""
    work()
    first = timed(work, device)
    return first if first > LONG else min(first, timed(work, device))


def timed(work: Callable[[], object], device: torch.device) -> float:
    """Seconds until the device is done."""
    began = time.perf_counter()
    work()
    if device.type != "cpu":
        torch.accelerator.synchronize()
    return time.perf_counter() - began


PARTS: dict[str, Callable[[torch.device, bool], Values]] = {
    "rate": rate,
    "fedcref": fedcref,
    "fedavg-lenet": fedavg("lenet5", (1, 28, 28), 100, 500),
    "ccfc": ccfc,
}


def main() -> None:
    """Print the values of a part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true")
    given = parser.parse_args()
    print(json.dumps(PARTS[given.part](device_named(given.device, "--device"), given.tiny)))


if __name__ == "__main__":
    main()
