"""A module whose parameters live in one flat vector, so that loading, stepping and reading a model are one operation.

Many clients train the same architecture in turn. One module stays in memory and takes each client's vector; its
parameters and their gradients are views of two flat buffers. Pooling goes before a monotone activation (LeNet-5 on 28 x
28 pixels trains in two thirds of the time), and images use the channels-last memory format: neither changes a result.
"""

from __future__ import annotations

import copy
import math
import threading
from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from inspect import signature
from itertools import accumulate
from typing import Any, Self, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from fedkin.core.device import device
from fedkin.core.errors import FedkinError
from fedkin.core.seeds import draw_seed

Losses = tuple[Tensor, Tensor]
"""Mean losses of some batches, and their numbers of samples."""

Criterion = Callable[[Tensor, Tensor], Tensor]
"""``(output, target) -> mean loss of the batch``."""


_ASSUMED = 1 << 29  # bytes for a stack where a device does not say how many are free: few, as any GPU has them
_GLOBAL = threading.Lock()
"""Held while torch's global generator is seeded for a moment."""
ONE_AT_A_TIME = threading.RLock()
"""Held by the thread whose network computes on an accelerator: two that take half of its memory each would not leave
enough."""


def stack_memory() -> int:
    """Return how many bytes a stack of models may use on this thread's device: half of its free memory."""
    place = device()
    return int(torch.cuda.mem_get_info(place)[0]) // 2 if place.type == "cuda" else _ASSUMED


@contextmanager
def seeded_globally(seed: int, place: torch.device | None = None) -> Iterator[None]:
    """Seed torch's global generators, of the processor and of an NVIDIA GPU at `place`, and restore them afterwards.

    One thread at a time; not to be entered twice by one.
    """
    generators = [torch.default_generator]
    if place is not None and place.type == "cuda":
        number = torch.cuda.current_device() if place.index is None else place.index
        generators.append(torch.cuda.default_generators[number])
    with _GLOBAL:
        before = [generator.get_state() for generator in generators]
        for generator in generators:
            generator.manual_seed(seed)
        try:
            yield
        finally:
            for generator, state in zip(generators, before, strict=True):
                generator.set_state(state)


class Resident:
    """A module in memory that can load any model of its architecture, on the current `device`.

    The module, whose parameters and floating buffers must be float32, is copied. `channels_last` says whether images
    use that memory format. The `criterion` is the loss of the module's output and a batch's targets. A module that
    `draws` random numbers in training, as dropout does, draws them from torch's global generator.

    `params` and `grad`, float32, are all parameters, which optimisers change in place, and their gradient. On a CPU
    they lie one after another, ``(parameters,)``; on an accelerator there are zeros between them, and `laid_out` and
    `collected` convert. `frozen` are positions in `grad` of parameters that do not train.
    """

    def __init__(
        self, module: nn.Module, channels_last: bool, criterion: Criterion = cross_entropy, draws: bool = False
    ) -> None:
        self.device = device()
        self.module = pool_first(copy.deepcopy(module)).to(self.device)
        self.channels_last, self.criterion, self.draws = channels_last, criterion, draws
        self._rng: torch.Generator | None = None
        norms = nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d
        self.needs_pairs = any(isinstance(part, norms) for part in self.module.modules())
        floating = [part for part in parts_of(self.module) if part.is_floating_point()]
        self._counters = [part for part in parts_of(self.module) if not part.is_floating_point()]
        self._lengths = [part.numel() for part in floating]
        # On an accelerator at multiples of 64 floats: cuDNN reads 16 bytes at a time.
        places = _places(self._lengths, 1 if self.device.type == "cpu" else 64)
        self._store = torch.zeros(places[-1].stop if places else 0, device=self.device)
        trainable = len(list(self.module.parameters()))
        self.params = self._store[: places[trainable - 1].stop if trainable else 0]
        self.grad = torch.zeros_like(self.params)
        self.frozen: list[slice] = []
        self._parts = [self._store[place] for place in places]
        self._trained = places[:trainable]
        for part, place in zip(floating, places, strict=True):
            self._store[place] = part.detach().flatten()
            part.data = self._store[place].view_as(part)
        for parameter, place in zip(self.module.parameters(), self._trained, strict=True):
            parameter.grad = self.grad[place].view_as(parameter)
            if not parameter.requires_grad:
                self.frozen.append(place)

    def load(self, vector: Tensor, rng: torch.Generator | None = None) -> None:
        """Load the model of `vector` ``(size,)``; `rng` seeds what it draws in training."""
        floats = sum(self._lengths)
        _spread(self.placed(vector[:floats]), self._lengths, self._store, self._parts)
        values = vector[floats:].split([counter.numel() for counter in self._counters])
        for counter, value in zip(self._counters, values, strict=True):
            counter.copy_(value.view_as(counter))
        self._rng = rng

    def vector(self) -> Tensor:
        """Return a copy of the present model as one vector ``(size,)``, on the CPU."""
        floats = self._store if len(self._store) == sum(self._lengths) else torch.cat(self._parts)
        return torch.cat([floats.cpu(), *(counter.flatten().cpu().float() for counter in self._counters)])

    def laid_out(self, values: Tensor) -> Tensor:
        """Return one number per parameter, ``(parameters,)`` as in a vector, where `params` has the parameters."""
        laid = torch.zeros_like(self.params)
        lengths = self._lengths[: len(self._trained)]
        _spread(self.placed(values), lengths, laid, [laid[place] for place in self._trained])
        return laid

    def collected(self, values: Tensor) -> Tensor:
        """Return the reverse of `laid_out`: a copy of numbers that lie as `params` does, as in a vector, on the CPU."""
        return torch.cat([values[place] for place in self._trained]).cpu()

    def placed(self, x: Tensor) -> Tensor:
        """Return `x` on the module's device."""
        return x.to(self.device)

    def laid(self, x: Tensor) -> Tensor:
        """Return samples ``(n, *shape)`` on the device, in the module's preferred memory format."""
        x = self.placed(x)
        return channels_last(x) if self.channels_last else x

    def output(self, x: Tensor) -> Tensor:
        """Return the module's output for samples ``(n, *shape)``, such as logits, on the device."""
        seeds = self._rng if self.draws and self.module.training else None
        # For each batch, as other threads draw from the same generator.
        with nullcontext() if seeds is None else seeded_globally(draw_seed(seeds), self.device):
            output: Tensor = self.module(self.laid(x))
        return output

    def gradient(self, x: Tensor, y: Tensor) -> Tensor:
        """Write the gradient of the batch's mean loss into `grad`; return that loss, a scalar on the device."""
        self.grad.zero_()
        loss = self.criterion(self.output(x), self.placed(y))
        loss.backward()
        return loss.detach()

    def train_batches(self, x: Tensor, y: Tensor, batches: Iterable[Tensor], rate: float) -> Losses:
        """Take a step of plain gradient descent on every one of `batches`; `grad` is undefined afterwards.

        A batch are rows of `x`. Return each one's loss before its step, and its number of samples, on the CPU; batches
        of one sample are left out if the module cannot learn from them.
        """

        def step(x: Tensor, y: Tensor) -> Tensor:
            loss = self.gradient(x, y)
            self.params.add_(self.grad, alpha=-rate)
            return loss

        return self.through(x, y, batches, step)

    def through(
        self, x: Tensor, y: Tensor, batches: Iterable[Tensor], step: Callable[[Tensor, Tensor], Tensor]
    ) -> Losses:
        """Call `step` on every one of `batches`; return the losses and the batches' lengths."""
        losses, counts = [], []
        for rows in batches:
            if len(rows) > 1 or not self.needs_pairs:  # a batch norm cannot learn from one sample
                losses.append(step(x.index_select(0, rows), y.index_select(0, rows)))
                counts.append(len(rows))
        return torch.stack(losses).cpu() if losses else torch.zeros(0), torch.tensor(counts, dtype=torch.float32)


def _places(lengths: Sequence[int], multiple: int) -> list[slice]:
    """Return where tensors of these lengths lie, each beginning at a multiple of some numbers."""
    starts = accumulate((math.ceil(length / multiple) * multiple for length in lengths), initial=0)
    return [slice(start, start + length) for start, length in zip(starts, lengths, strict=False)]


def _spread(values: Tensor, lengths: Sequence[int], whole: Tensor, parts: list[Tensor]) -> None:
    """Copy numbers that lie one after another to `parts`, which are parts of `whole`."""
    if len(whole) == len(values):
        whole.copy_(values)
    else:
        torch._foreach_copy_(parts, list(values.split(list(lengths))))


def batch_lengths(samples: int, batch_size: int) -> Tensor:
    """Return the lengths of the batches that `samples` samples are cut into, float32."""
    return torch.tensor([min(batch_size, samples - row) for row in range(0, samples, batch_size)], dtype=torch.float32)


def vector_of(module: nn.Module) -> Tensor:
    """Return a module's model as one float32 vector."""
    return torch.cat([part.detach().flatten().float() for part in parts_of(module)])


def parts_of(module: nn.Module) -> list[Tensor]:
    """Return a module's tensors in the order of its vector: parameters, then floating buffers, then counters."""
    return [*module.parameters(), *sorted(module.buffers(), key=lambda buffer: not buffer.is_floating_point())]


def pool_first(module: nn.Module) -> nn.Module:
    """Move max-pooling in front of monotone activations in `module`: the same values for a quarter of the work.

    Layers are swapped in place, in a plain `nn.Sequential` and in those nested directly in it: any other module may use
    the intermediate values of its sequences.
    """
    if type(module) is nn.Sequential:
        for part in module:
            pool_first(part)
        for index in range(len(module) - 1):
            first, pool = module[index], module[index + 1]
            monotone = isinstance(first, nn.ReLU | nn.Tanh | nn.Sigmoid)
            if monotone and isinstance(pool, nn.MaxPool2d) and not pool.return_indices:
                module[index], module[index + 1] = pool, first
    return module


def channels_last(x: Tensor) -> Tensor:
    """Return images ``(n, C, H, W)`` in the channels-last memory format."""
    if x.shape[1] > 1:
        return x.contiguous(memory_format=torch.channels_last)
    height, width = x.shape[2:]  # same memory order with one channel, but torch looks at the strides
    return x.contiguous().as_strided(x.shape, (height * width, 1, width, 1))


class Architecture(ABC):
    """Base of network architectures whose models are float32 vectors ``(size,)``: parameters, then buffers.

    Safe to use from several threads: each works on a module of its own while it needs one. `shape` is that of one
    sample. The trainable part of a vector, of length `parameters`, comes first; `floats` is the length of this and
    floating buffers, such as a batch norm's statistics; counters come after.
    """

    criterion: Criterion
    """Mean loss of a batch, from the module's output and the targets."""
    draws = False
    """Whether the module draws random numbers in training, as dropout does."""

    def __init__(self, name: str, shape: tuple[int, ...]) -> None:
        self.name, self.shape = name, shape
        self._prototype = self._built(0).eval()
        for part in (*self._prototype.parameters(), *self._prototype.buffers()):
            if part.is_floating_point() and part.dtype != torch.float32:
                raise FedkinError(f"Model '{name}' has parameters of {part.dtype}; fedkin trains float32 only.")
        buffers = list(self._prototype.buffers())
        self.parameters = sum(part.numel() for part in self._prototype.parameters())
        self.floats = self.parameters + sum(part.numel() for part in buffers if part.is_floating_point())
        self.size = self.parameters + sum(part.numel() for part in buffers)
        self._idle: defaultdict[torch.device, deque[Resident]] = defaultdict(deque)
        self._channels_last = self._takes_channels_last()

    @abstractmethod
    def build(self) -> nn.Module:
        """Return a new module; its weights may be drawn from torch's global generator."""

    def targets(self, x: Tensor) -> Tensor:
        """Return targets for samples `x`, of the right shape and type, for a trial run; by default the samples."""
        return x

    def spec(self) -> dict[str, Any]:
        """Return the constructor's arguments as plain values, from which `of` makes this architecture."""
        values = {name: getattr(self, name) for name in signature(type(self)).parameters}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> Self:
        """Return the architecture that `spec` describes; equal specs give the same object."""
        values = {name: tuple(value) if isinstance(value, list) else value for name, value in spec.items()}
        return cast(Self, _shared(cls, tuple(sorted(values.items()))))

    def initial(self, rng: torch.Generator) -> Tensor:
        """Return a new model ``(size,)``, initialised as its module initialises itself."""
        return vector_of(self._built(draw_seed(rng)))

    def module(self, vector: Tensor) -> nn.Module:
        """Return a new module with the model of `vector`, in evaluation mode."""
        module = self._built(0).eval()
        parts = parts_of(module)
        for part, values in zip(parts, vector.split([part.numel() for part in parts]), strict=True):
            part.data.copy_(values.view_as(part))
        return module

    def leading(self, tensors: int) -> int:
        """Return the total length of the first `tensors` parameter tensors, such as layers shared by all clusters."""
        return sum(part.numel() for part in list(self._prototype.parameters())[:tensors])

    @contextmanager
    def resident(self) -> Iterator[Resident]:
        """Yield a module on this thread's device, for the caller alone while the context lasts."""
        idle = self._idle[device()]
        with nullcontext() if device().type == "cpu" else ONE_AT_A_TIME:
            try:
                resident = idle.pop()
            except IndexError:
                resident = self.new_resident()
            try:
                yield resident
            finally:
                idle.append(resident)

    @contextmanager
    def loaded(self, vector: Tensor, rng: torch.Generator | None = None, training: bool = False) -> Iterator[Resident]:
        """Yield `resident` with the model of `vector` loaded (see `Resident.load`), in evaluation or training mode."""
        with self.resident() as resident:
            resident.load(vector, rng)
            if resident.module.training != training:
                resident.module.train(training)
            yield resident

    def new_resident(self) -> Resident:
        """Return a new module on this thread's device."""
        return Resident(self._prototype, self._channels_last, self.criterion, self.draws)

    def _built(self, seed: int) -> nn.Module:
        """Return a new module with weights drawn by `seed`; the state of torch's global generator is restored."""
        with seeded_globally(seed):
            return self.build()

    def _takes_channels_last(self) -> bool:
        """Whether the module accepts the channels-last memory format; one that calls `view` on activations does not."""
        if len(self.shape) != 3 or not any(isinstance(part, nn.Conv2d) for part in self._prototype.modules()):
            return False
        x = torch.zeros(2, *self.shape)
        try:
            Resident(self._prototype, channels_last=True, criterion=self.criterion).gradient(x, self.targets(x))
        except RuntimeError:
            return False
        return True


@lru_cache(maxsize=32)
def _shared(kind: type[Architecture], values: tuple[tuple[str, Any], ...]) -> Architecture:
    return kind(**dict(values))


# Hand-written gradients of perceptrons, as autograd takes half of the time of their steps on a processor.


class DenseResident(Resident):
    """A `Resident` for a module that `is_dense`, trained with cross-entropy."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__(module, channels_last=False)
        parameters = iter(self.module.parameters())
        # Views are made once: making them at every step costs as much as a small product.
        self._layers = [
            (weight.data, weight.data.t(), bias.data, weight.grad, bias.grad)
            for weight, bias in zip(parameters, parameters, strict=True)
        ]

    def gradient(self, x: Tensor, y: Tensor) -> Tensor:
        """Write the gradient into `grad` as `Resident.gradient` does."""
        return self._step(x.flatten(1), self._one_hot(y), 0.0, y.is_floating_point())

    @torch.inference_mode()  # less overhead around small products
    def train_batches(self, x: Tensor, y: Tensor, batches: Iterable[Tensor], rate: float) -> Losses:
        """Descend as `Resident.train_batches` does, without storing gradients."""
        weighted = y.is_floating_point()

        def step(x: Tensor, truth: Tensor) -> Tensor:
            return self._step(x, truth, rate, weighted)

        return self.through(x.flatten(1), self._one_hot(y), batches, step)

    def _one_hot(self, y: Tensor) -> Tensor:
        """Return targets ``(n, classes)``: one-hot classes, or `y` itself if it already has a row per sample."""
        if y.is_floating_point():
            return y
        return torch.zeros(len(y), len(self._layers[-1][2])).scatter_(1, y.unsqueeze(1), 1.0)

    def _step(self, x: Tensor, truth: Tensor, rate: float, weighted: bool) -> Tensor:
        """Return the loss of one batch; write its gradient into `grad` or, if `rate` is above 0, take a gradient step.

        Rows of `truth` sum to 1, unless samples are `weighted`.
        """
        n, inputs, last = len(x), [x], len(self._layers) - 1
        for number, (_, transposed, bias, *_) in enumerate(self._layers):
            x = torch.mm(inputs[-1], transposed).add_(bias)
            if number < last:
                inputs.append(x.relu_())
        log_probability = x.log_softmax(1)
        loss = torch.dot(log_probability.view(-1), truth.view(-1)) * (-1.0 / n)
        delta = log_probability.exp_()
        if weighted:
            delta.mul_(truth.sum(1, keepdim=True))
        delta.sub_(truth).mul_(1.0 / n)
        for number in range(last, -1, -1):
            weight, _, bias, weight_gradient, bias_gradient = self._layers[number]
            below = torch.mm(delta, weight) if number else delta
            if rate > 0.0:
                weight.addmm_(delta.t(), inputs[number], alpha=-rate)
                bias.sub_(delta.sum(0), alpha=rate)
            else:
                torch.mm(delta.t(), inputs[number], out=weight_gradient)
                torch.sum(delta, [0], out=bias_gradient)
            delta = torch.ops.aten.threshold_backward(below, inputs[number], 0.0) if number else below
        return loss


def is_dense(module: nn.Module) -> bool:
    """Whether `module` is a sequence of linear layers with ReLU in between, none frozen or tied, perhaps flattened."""
    if type(module) is not nn.Sequential:
        return False
    layers = list(module)
    if layers and type(layers[0]) is nn.Flatten and (layers[0].start_dim, layers[0].end_dim) == (1, -1):
        layers = layers[1:]
    linear = layers[::2]
    trainable = [parameter for parameter in module.parameters() if parameter.requires_grad]
    return (
        len(layers) % 2 == 1
        and all(type(layer) is nn.Linear and layer.bias is not None for layer in linear)
        and all(type(layer) is nn.ReLU for layer in layers[1::2])
        and len(trainable) == 2 * len(linear)
    )
