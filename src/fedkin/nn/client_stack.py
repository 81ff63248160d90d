"""Training of many clients' models of one architecture at once, on an accelerator.

A CPU trains them fastest one after another, see `fedkin.nn.descent`. An accelerator is idle for most of a small
model's step. There the models of many clients step together by `torch.func.vmap`, which makes one grouped convolution
of their convolutions. Every client has the same batches as when trained alone, so that its model is the same up to
rounding. Epochs begin together; in one, models whose next batches are equally long step together: those with full
batches first, then the last batches, length by length.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap

from fedkin.core.device import ONE_AT_A_TIME, Execution, device, execution, placed, stack_memory
from fedkin.nn.descent import LocalTraining, UpdateRule, batch_orders, steps_of, train_locally
from fedkin.nn.networks import Dropout
from fedkin.nn.resident import Architecture

Trained = tuple[Tensor, float]


@dataclass(frozen=True)
class Job:
    """Arguments of `train_locally` for training one model."""

    architecture: Architecture
    start: Tensor
    x: Tensor
    y: Tensor
    rng: torch.Generator
    training: LocalTraining

    def alone(self) -> Trained:
        """Train the model alone with `train_locally`."""
        return train_locally(self.architecture, self.start, self.x, self.y, self.rng, self.training)


def train_all(jobs: Sequence[Job]) -> list[Trained]:
    """Train every job's model as `train_locally` does; return each model ``(size,)`` and its last epoch's mean loss.

    On an accelerator, jobs of the same architecture and `LocalTraining` are trained as one stack if `can_stack` allows.
    """
    alike: dict[tuple[int, LocalTraining, int], list[int]] = {}
    for number, job in enumerate(jobs):
        alike.setdefault((id(job.architecture), job.training, job.y.dim()), []).append(number)
    results: dict[int, Trained] = {}
    for numbers in alike.values():
        group = [jobs[number] for number in numbers]
        together = len(group) > 1 and device().type != "cpu" and can_stack(group[0].architecture, group[0].training)
        results.update(zip(numbers, _together(group) if together else [job.alone() for job in group], strict=True))
    return [results[number] for number in range(len(jobs))]


def can_stack(architecture: Architecture, training: LocalTraining) -> bool:
    """Whether several models of the architecture can train as one stack.

    Models cannot if there is a recipe, whose augmentation and optimiser take one client's batch; if the module has
    dropout; or if `vmap` cannot run it, which is tried with two models on a tiny batch.
    """
    return training.recipe is None and _trains_alike(architecture)


@lru_cache(maxsize=32)
def _trains_alike(architecture: Architecture) -> bool:
    rng = torch.Generator().manual_seed(0)
    start, training = architecture.initial(rng), LocalTraining(steps=2, batch_size=2, learning_rate=0.01)
    if any(isinstance(part, Dropout) and part.p > 0 for part in architecture.module(start).modules()):
        return False
    x = torch.rand(4, *architecture.shape, generator=rng)

    def jobs() -> list[Job]:
        rngs = [torch.Generator().manual_seed(seed) for seed in (1, 2)]
        return [Job(architecture, start, x, architecture.targets(x), rng, training) for rng in rngs]

    alone = [job.alone()[0] for job in jobs()]
    try:
        together = [model for model, _ in _together(jobs())]
    except (RuntimeError, ValueError, TypeError):  # what `vmap` raises of a module that it cannot run
        return False
    return all(torch.allclose(*pair, rtol=1e-2, atol=1e-4) for pair in zip(alone, together, strict=True))


def _together(jobs: Sequence[Job]) -> list[Trained]:
    """Train jobs of one kind as stacks of as many as memory holds."""
    trained: list[Trained] = []
    with ONE_AT_A_TIME:
        while rest := jobs[len(trained) :]:
            models = _models_for(rest)
            trained += _ClientStack(rest[: models.count], models).train()
    return trained


_KEPT: OrderedDict[tuple[Architecture, LocalTraining, int, torch.device, Execution], _Models] = OrderedDict()
"""Memory of the four stacks trained last, for the next ones of their kind: what a GPU has recorded needs it."""


def _models_for(jobs: Sequence[Job]) -> _Models:
    """Return memory for the models of as many leading jobs as fit, that of before if it is of the same kind."""
    kind = (jobs[0].architecture, jobs[0].training, len(jobs), device(), execution())
    if kind in _KEPT:
        _KEPT.move_to_end(kind)
        return _KEPT[kind]
    count = _fitting(jobs)
    if count < len(jobs) and _KEPT:
        _KEPT.clear()
        count = _fitting(jobs)
    models = _Models(count, jobs[0].architecture, jobs[0].training)
    if count == len(jobs):
        _KEPT[kind] = models
    if len(_KEPT) > 4:
        _KEPT.popitem(last=False)
    return models


def _fitting(jobs: Sequence[Job]) -> int:
    """Return the number of leading jobs that fit in the free memory of the device together, at least 1.

    A layer takes four numbers per output: the output, its gradient, and what it keeps to compute that.
    """
    architecture, training = jobs[0].architecture, jobs[0].training
    numbers = UpdateRule.copies(training) * architecture.size + 4 * training.batch_size * _outputs(architecture)
    free = stack_memory()
    for count, job in enumerate(jobs):
        free -= 4 * (numbers + 2 * job.x.numel())  # bytes; samples are kept for the next round, and joined for this one
        if free < 0:
            return max(1, count)
    return len(jobs)


@lru_cache(maxsize=32)
def _outputs(architecture: Architecture) -> int:
    """Return the number of outputs of all layers together for one sample."""
    counts: list[int] = []

    def count(part: nn.Module, x: object, y: object) -> None:
        if isinstance(y, Tensor):
            counts.append(y.numel())

    module = architecture.module(torch.zeros(architecture.size))
    for part in module.modules():
        part.register_forward_hook(count)
    with torch.no_grad():
        module(torch.zeros(1, *architecture.shape))
    return sum(counts)


class _ClientStack:
    """The samples and batches of jobs whose models train together."""

    def __init__(self, jobs: Sequence[Job], models: _Models) -> None:
        self.models, self.device = models, models.device
        models.load([job.start for job in jobs])
        training = jobs[0].training
        self.x, self.y = torch.cat([placed(job.x) for job in jobs]), torch.cat([placed(job.y) for job in jobs])
        self.batch_size = training.batch_size
        self.batches: list[list[Tensor]] = []
        self.per_epoch: list[int] = []
        first = 0
        for job in jobs:
            total, per_epoch = steps_of(len(job.x), training)
            orders = batch_orders(len(job.x), total, job.rng, training.batch_size)
            self.batches.append([rows for order in orders for rows in (first + order).split(training.batch_size)])
            self.per_epoch.append(per_epoch)
            first += len(job.x)
        self.losses = torch.zeros(len(jobs), max(map(len, self.batches)), device=self.device)
        self.counts = torch.zeros(self.losses.shape)  # samples of each batch, 0 if nothing was learnt from it

    def train(self) -> list[Trained]:
        """Train all models to the end; return each with its mean loss in the last epoch."""
        for members, steps, rows in self._schedule():
            everyone = len(members) == self.models.count
            x, y = self.x[rows], self.y[rows]
            losses = self.models.step_all(x, y) if everyone else self.models.step_some(members, x, y)
            self.losses[members, steps] = losses
        return list(zip(self.models.values.cpu(), self._mean_losses(), strict=True))

    def _schedule(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yield, for every common step, the models ``(k,)``, their step counts ``(k,)`` and batch rows ``(k, batch)``.

        All are sent to the device in one transfer.
        """
        shapes: list[tuple[int, int]] = []
        parts: list[Tensor] = []
        for group in self._groups():
            rows = torch.cat([self.batches[k][step] for k, step in group])
            members, steps = torch.tensor(group).unbind(1)
            models, batch = len(group), len(rows) // len(group)
            self.counts[members, steps] = batch
            shapes.append((models, batch))
            parts += [members, steps, rows]
        numbers = torch.cat(parts).to(self.device) if parts else torch.empty(0)
        for (models, batch), part in zip(shapes, numbers.split([k * (n + 2) for k, n in shapes]), strict=False):
            members, steps, rows = part.split([models, models, models * batch])
            yield members, steps, rows.view(models, batch)

    def _groups(self) -> list[list[tuple[int, int]]]:
        """Return what models step together, in order: for every common step, pairs of a model and its step count.

        In an epoch models take their full batches first, then their last ones, the longest first.
        """
        groups: dict[tuple[int, int, int], list[tuple[int, int]]] = {}
        for k, batches in enumerate(self.batches):
            for step, length in enumerate(map(Tensor.numel, batches)):
                if length == 1 and self.models.needs_pairs:  # a batch norm cannot learn from one sample
                    continue
                epoch, number = divmod(step, self.per_epoch[k])
                turn = number if length == self.batch_size else 0
                groups.setdefault((epoch, -length, turn), []).append((k, step))
        return [groups[order] for order in sorted(groups)]

    def _mean_losses(self) -> list[float]:
        """Return each model's mean loss in the last epoch that it has learnt from, or NaN if there is none."""
        remaining = (self.counts > 0).flip(1).cumsum(1).flip(1)  # batches to learn from, with the present one
        last = remaining <= torch.tensor(self.per_epoch).unsqueeze(1)
        losses, counts = self.losses.cpu().where(last, 0.0), self.counts.where(last, 0.0)
        means: list[float] = ((losses * counts).sum(1) / counts.sum(1)).tolist()
        return means


class _Models:
    """Models that train together, their update rule, and steps that a GPU can replay, which need both in their place.

    Only one thread at a time may use them, see `ONE_AT_A_TIME`.
    """

    def __init__(self, count: int, architecture: Architecture, training: LocalTraining) -> None:
        self._gradients = StackedGradients(architecture)
        self.count, self.device, self.needs_pairs = count, device(), self._gradients.needs_pairs
        self.trainable = architecture.parameters
        self.values = torch.zeros(count, architecture.size, device=self.device)
        self.rule = UpdateRule(self.values[:, : self.trainable].clone(), training, self._gradients.frozen)
        self.step_all, self.step_some = Recorded(self._step_all), Recorded(self._step_some)

    def load(self, starts: Sequence[Tensor]) -> None:
        """Start again from models ``(size,)``, one for each."""
        distinct = {id(start): start for start in starts}  # often all clients begin with one model
        rows = {key: row for row, key in enumerate(distinct)}
        models = torch.stack(list(distinct.values())).to(self.device)
        self.values.copy_(models[torch.tensor([rows[id(start)] for start in starts]).to(self.device)])
        self.rule.restart(self.values[:, : self.trainable])

    def _step_all(self, x: Tensor, y: Tensor) -> Tensor:
        return self._stepped(self.values, self.rule, x, y)

    def _step_some(self, members: Tensor, x: Tensor, y: Tensor) -> Tensor:
        values, rule = self.values[members], self.rule.of(members)
        losses = self._stepped(values, rule, x, y)
        self.values[members] = values
        self.rule.put(members, rule)
        return losses

    def _stepped(self, values: Tensor, rule: UpdateRule, x: Tensor, y: Tensor) -> Tensor:
        """Take a step on a batch of each model; return their losses before it, ``(k,)``."""
        grad, losses = self._gradients(values, x, y)
        params = values[:, : self.trainable]
        rule.regularise(params, grad)
        rule.move(params, grad)
        return losses


class StackedGradients:
    """Gradients of many models of an architecture, computed together on this thread's device by `torch.func.vmap`.

    `frozen` are positions in a model of parameters that do not train. The module `needs_pairs` if it cannot learn from
    one sample.
    """

    def __init__(self, architecture: Architecture) -> None:
        resident = architecture.new_resident()
        module, criterion = resident.module.train(), architecture.criterion
        self.needs_pairs = resident.needs_pairs
        self.parameters = _places(module.named_parameters())
        named = module.named_parameters()
        self.frozen = [self.parameters[name].where for name, parameter in named if not parameter.requires_grad]
        by_kind = sorted(module.named_buffers(), key=lambda named: not named[1].is_floating_point())
        self.buffers = _places(by_kind, sum(part.numel() for part in module.parameters()))

        def loss(params: dict[str, Tensor], buffers: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
            return criterion(functional_call(module, (params, buffers), (x,)), y)

        self._gradients = vmap(grad_and_value(loss))

    def __call__(self, models: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return gradients ``(k, parameters)`` and losses ``(k,)`` of models ``(k, size)``; buffers change in place.

        `x` is ``(k, batch, *shape)``, and `y` ``(k, batch)`` or ``(k, batch, outputs)``.
        """
        params = {name: place.of(models) for name, place in self.parameters.items()}
        buffers = {name: place.copy_of(models) for name, place in self.buffers.items()}
        grads, losses = self._gradients(params, buffers, x, y)
        for name, place in self.buffers.items():
            models[:, place.where] = buffers[name].reshape(len(models), -1).to(models.dtype)
        return torch.cat([grads[name].reshape(len(models), -1) for name in self.parameters], dim=1), losses


@dataclass(frozen=True)
class _Place:
    """Position and shape of one of a module's tensors within the flat vector of its model."""

    where: slice
    shape: torch.Size
    dtype: torch.dtype

    def of(self, models: Tensor) -> Tensor:
        """Return views of this tensor in models ``(k, size)``."""
        return models[:, self.where].view(len(models), *self.shape)

    def copy_of(self, models: Tensor) -> Tensor:
        """Return a contiguous copy, in which `vmap` can update batch-norm statistics in place."""
        return self.of(models).to(self.dtype).clone(memory_format=torch.contiguous_format)


def _places(parts: Iterable[tuple[str, Tensor]], first: int = 0) -> dict[str, _Place]:
    """Return the positions of tensors laid one after another from `first`, by name."""
    places = {}
    for name, part in parts:
        places[name] = _Place(slice(first, first + part.numel()), part.shape, part.dtype)
        first += part.numel()
    return places


Step = Callable[..., Tensor]
Kind = tuple[tuple[torch.Size, torch.dtype], ...]


class Recorded:
    """A function of tensors which on an NVIDIA GPU is recorded as a CUDA graph, separately for each kind of inputs.

    A step of a small model is a hundred small operations. Starting each from Python takes longer than the GPU needs for
    it. A recorded step is started as a whole, and computes the same. Calls beyond the second with inputs of the same
    shapes and types replay what the third one did; the first two also load what the GPU needs. On other devices the
    function is simply called.

    The step takes tensors on the device, and returns one tensor; it may also change tensors that stay where they are in
    memory. What it does must depend on the inputs' shapes only, not on their values, and it must draw no random numbers
    and wait for nothing. The caller holds `ONE_AT_A_TIME`. `uses` is how many calls are expected for each kind of
    inputs; recording pays from eight on.
    """

    def __init__(self, step: Step, uses: int = 8) -> None:
        self._step, self._uses = step, uses
        self._calls: dict[Kind, int] = {}
        self._recordings: dict[Kind, _Recording] = {}

    def __call__(self, *inputs: Tensor) -> Tensor:
        """Return what the step returns; a copy, if it was replayed."""
        if device().type != "cuda" or self._uses < 8 or not execution().cuda_graphs:
            return self._step(*inputs)
        kind = tuple((part.shape, part.dtype) for part in inputs)
        if kind not in self._recordings:
            self._calls[kind] = self._calls.get(kind, 0) + 1
            if self._calls[kind] <= 2:
                return self._step(*inputs)
            self._recordings[kind] = _Recording(self._step, inputs)
        return self._recordings[kind].replayed(inputs)


class _Recording:
    def __init__(self, step: Step, inputs: tuple[Tensor, ...]) -> None:
        self.inputs = [part.clone() for part in inputs]
        self.graph = torch.cuda.CUDAGraph()
        torch.cuda.current_stream().synchronize()
        self.graph.capture_begin(capture_error_mode="relaxed")  # cuDNN allocates memory of its own
        try:
            self.output = step(*self.inputs)
        finally:
            self.graph.capture_end()

    def replayed(self, inputs: tuple[Tensor, ...]) -> Tensor:
        for place, part in zip(self.inputs, inputs, strict=True):
            place.copy_(part)
        self.graph.replay()
        return self.output.clone()
