"""What every contestant of ``benchmarks/engines.py`` has to do: the models, the data and the plan of local training.

Only torch is needed here, since Flower may live in an environment without fedkin.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor, nn

CLASSES = 10
SHAPE = (1, 28, 28)
PIXELS = math.prod(SHAPE)


def perceptron() -> nn.Sequential:
    """784-200-10 with ReLU: 159,010 parameters."""
    return nn.Sequential(nn.Flatten(), nn.Linear(PIXELS, 200), nn.ReLU(), nn.Linear(200, CLASSES))


def lenet5() -> nn.Sequential:
    """The LeNet-5 with tanh and maxima of 85,822 parameters; it gives logits."""
    convolutions = [nn.Conv2d(1, 16, 5), nn.Tanh(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 5), nn.Tanh(), nn.MaxPool2d(2)]
    dense = [nn.Linear(512, 120), nn.Tanh(), nn.Linear(120, 84), nn.Tanh(), nn.Linear(84, CLASSES)]
    return nn.Sequential(*convolutions, nn.Flatten(), *dense)


@dataclass(frozen=True)
class Regime:
    """A model and how long a client trains it: `steps`, or `epochs` over its data. `name` is the model's in fedkin."""

    name: str
    model: Callable[[], nn.Sequential]
    steps: int | None = None
    epochs: int | None = None


REGIMES = {
    "overhead": Regime("perceptron", perceptron, steps=5),
    "compute": Regime("lenet5", lenet5, epochs=5),
}


@dataclass(frozen=True)
class Workload:
    """One task for all contestants; plain values only, so that it can cross as JSON and as Flower's configuration.

    Attributes
    ----------
    regime : str
        ``"overhead"`` or ``"compute"``, a key of `REGIMES`.
    data : str
        File of float32 images, `write_data` makes it; labels are in the file of the same name with ``.labels``.
    """

    regime: str
    data: str
    clients: int = 100
    rounds: int = 10
    samples: int = 600
    batch_size: int = 32
    learning_rate: float = 0.01
    seed: int = 0

    @property
    def local_steps(self) -> int:
        """Optimizer steps of one client in one round; an epoch ends with an incomplete batch if need be."""
        regime = REGIMES[self.regime]
        return regime.steps or (regime.epochs or 0) * math.ceil(self.samples / self.batch_size)

    def model(self) -> nn.Sequential:
        """The regime's model, freshly initialised from torch's global generator."""
        return REGIMES[self.regime].model()

    def first_model(self) -> nn.Sequential:
        """The model that every contestant starts from; it depends on the seed alone."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            return self.model()

    @torch.no_grad()
    def loss(self, model: nn.Module) -> float:
        """Mean cross-entropy of a trained `model` on the images of the first clients, to compare what was learned."""
        data = [self.client_data(client) for client in range(min(self.clients, 5))]
        return sum(float(nn.functional.cross_entropy(model(x), y)) for x, y in data) / len(data)

    def client_data(self, client: int) -> tuple[Tensor, Tensor]:
        """Images float32 ``(samples, 1, 28, 28)`` and labels int64 ``(samples,)`` of one client."""
        x, y = _mapped(self.data, self.clients * self.samples)
        rows = slice(client * self.samples, (client + 1) * self.samples)
        return x[rows], y[rows]

    def read_all(self) -> None:
        """Touch all images once, so that no round pays for the first look at them."""
        for client in range(self.clients):
            self.client_data(client)[0].sum()


@cache
def _mapped(data: str, total: int) -> tuple[Tensor, Tensor]:
    """All images and labels, as views of the system's page cache, so that processes share the memory they take."""
    x = torch.from_file(data, shared=False, size=total * PIXELS, dtype=torch.float32)
    return x.view(total, *SHAPE), torch.from_file(f"{data}.labels", shared=False, size=total, dtype=torch.int64)


def write_data(work: Workload) -> None:
    """Write the clients' images, ten noisy pictures that can be learned; they depend on the seed alone."""
    rng = torch.Generator().manual_seed(work.seed)
    pictures = torch.rand(CLASSES, *SHAPE, generator=rng)
    with open(work.data, "wb") as images, open(f"{work.data}.labels", "wb") as labels:
        for _ in range(work.clients):
            y = torch.randint(CLASSES, (work.samples,), generator=rng)
            noise = torch.rand(work.samples, *SHAPE, generator=rng)
            images.write((0.3 * pictures[y] + 0.7 * noise).numpy().tobytes())
            labels.write(y.numpy().tobytes())
