"""Training of many clients' models of one architecture at once, on an accelerator.

A CPU trains them fastest one after another, see `fedkin.nn.descent`. An accelerator is idle for most of a small
model's step. There the models of many clients step together by `torch.func.vmap`, with the same batches as alone, so
that a model is the same up to rounding. In an epoch models whose next batches are equally long step together: those
with full batches first, then the last batches, length by length.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap

from fedkin.core.device import device
from fedkin.nn.descent import LocalTraining, UpdateRule, batch_orders, steps_of, train_locally
from fedkin.nn.resident import ONE_AT_A_TIME, Architecture, stack_memory

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
    anchor: Tensor | None = None
    frozen: Tensor | None = None

    def train(self) -> Trained:
        """Train the model alone with `train_locally`."""
        how = self.training, self.anchor, self.frozen
        return train_locally(self.architecture, self.start, self.x, self.y, self.rng, *how)


def train_all(jobs: Sequence[Job]) -> list[Trained]:
    """Train every job's model as `train_locally` does; return each model ``(size,)`` and its last epoch's mean loss.

    On an accelerator, jobs of the same architecture and `LocalTraining` are trained as one stack if `can_stack` allows.
    """
    if device().type == "cpu":
        return [job.train() for job in jobs]
    alike: dict[tuple[int, LocalTraining, int], list[int]] = {}
    for number, job in enumerate(jobs):
        alike.setdefault((id(job.architecture), job.training, job.y.dim()), []).append(number)
    results: dict[int, Trained] = {}
    for numbers in alike.values():
        group = [jobs[number] for number in numbers]
        together = len(group) > 1 and can_stack(group[0].architecture)
        together = together and all(job.anchor is None and job.frozen is None for job in group)
        results.update(zip(numbers, _together(group) if together else [job.train() for job in group], strict=True))
    return [results[number] for number in range(len(jobs))]


@lru_cache(maxsize=32)
def can_stack(architecture: Architecture) -> bool:
    """Whether several models of the architecture can train as one stack.

    Models cannot if the module draws random numbers, or if `vmap` cannot run it, which is tried on a tiny batch.
    """
    rng = torch.Generator().manual_seed(0)
    start, training = architecture.initial(rng), LocalTraining(steps=2, batch_size=2, learning_rate=0.01)
    if architecture.draws:
        return False
    x = torch.rand(4, *architecture.shape, generator=rng)

    def jobs() -> list[Job]:
        rngs = [torch.Generator().manual_seed(seed) for seed in (1, 2)]
        return [Job(architecture, start, x, architecture.targets(x), rng, training) for rng in rngs]

    alone = [job.train()[0] for job in jobs()]
    try:
        together = [model for model, _ in _together(jobs())]
    except (RuntimeError, ValueError, TypeError):  # what `vmap` raises of a module that it cannot run
        return False
    # A module may also run and do something else: one that changes an attribute, for instance, mixes the models.
    return all(torch.allclose(*pair, rtol=1e-2, atol=1e-4) for pair in zip(alone, together, strict=True))


def _together(jobs: Sequence[Job]) -> list[Trained]:
    """Train jobs of one kind as stacks of as many as memory holds."""
    trained: list[Trained] = []
    with ONE_AT_A_TIME:
        models = StackedModels(jobs[0].architecture, jobs[0].training)
        while rest := jobs[len(trained) :]:
            trained += models.train(rest[: _fitting(rest)])
    return trained


def _fitting(jobs: Sequence[Job]) -> int:
    """Return the number of leading jobs that fit in the free memory of the device together, at least 1.

    A layer takes four numbers per output: the output, its gradient, and what it keeps to compute that.
    """
    architecture, training = jobs[0].architecture, jobs[0].training
    numbers = UpdateRule.copies(training) * architecture.size + 4 * training.batch_size * _outputs(architecture)
    needed = accumulate(4 * (numbers + job.x.numel()) for job in jobs)  # 4 bytes a number
    free = stack_memory()
    return max(1, sum(total <= free for total in needed))


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


class StackedModels:
    """Models of an architecture that train together on this thread's device."""

    def __init__(self, architecture: Architecture, training: LocalTraining) -> None:
        resident = architecture.new_resident()
        module, criterion = resident.module.train(), architecture.criterion
        self.training, self._needs_pairs = training, resident.needs_pairs
        # As in a model's vector: parameters, then floating buffers, then counters.
        buffers = sorted(module.named_buffers(), key=lambda named: not named[1].is_floating_point())
        self._parameters = [name for name, _ in module.named_parameters()]
        self._parts = [(name, part.shape, part.dtype) for name, part in [*module.named_parameters(), *buffers]]
        self._lengths = [shape.numel() for _, shape, _ in self._parts]
        self._frozen, first = list[slice](), 0
        for parameter in module.parameters():
            if not parameter.requires_grad:
                self._frozen.append(slice(first, first + parameter.numel()))
            first += parameter.numel()
        self._trainable = architecture.parameters

        def loss(params: dict[str, Tensor], buffers: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
            return criterion(functional_call(module, (params, buffers), (x,)), y)

        self._gradients = vmap(grad_and_value(loss))

    def train(self, jobs: Sequence[Job]) -> list[Trained]:
        """Train a model for each job; return each with its mean loss in the last epoch."""
        starts = {id(job.start): job.start.to(device()) for job in jobs}  # often all clients begin with one model
        values = torch.stack([starts[id(job.start)] for job in jobs])
        rule = UpdateRule(values[:, : self._trainable].clone(), self.training, self._frozen)
        x, y = (torch.cat(parts).to(device()) for parts in ([job.x for job in jobs], [job.y for job in jobs]))
        size, first = self.training.batch_size, 0
        batches: list[list[Tensor]] = []  # the rows of each job's batches, among the samples of all
        per_epoch: list[int] = []
        for job in jobs:
            total, steps = steps_of(len(job.x), self.training)
            orders = batch_orders(len(job.x), total, job.rng, size)
            batches.append([rows for order in orders for rows in (first + order).split(size)])
            per_epoch.append(steps)
            first += len(job.x)
        losses = torch.zeros(len(jobs), max(map(len, batches)), device=x.device)
        counts = torch.zeros(losses.shape)  # samples of each batch, 0 if nothing was learnt from it
        for members, steps_taken, rows in self._schedule(batches, per_epoch, counts):
            if len(members) == len(jobs):
                losses[members, steps_taken] = self._take_step(values, rule, x[rows], y[rows])
                continue
            some, rule_of_some = values[members], rule.of(members)
            losses[members, steps_taken] = self._take_step(some, rule_of_some, x[rows], y[rows])
            values[members] = some
            rule.put(members, rule_of_some)
        return list(zip(values.cpu(), _last_losses(losses.cpu(), counts, per_epoch), strict=True))

    def gradients(self, models: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return gradients ``(k, parameters)`` and losses ``(k,)`` of models ``(k, size)``; buffers change in place.

        `x` is ``(k, batch, *shape)``, and `y` ``(k, batch)`` or ``(k, batch, outputs)``.
        """
        params, buffers = {}, {}
        for (name, shape, dtype), values in zip(self._parts, models.split(self._lengths, dim=1), strict=True):
            part = values.view(len(models), *shape)
            if name in self._parameters:
                params[name] = part
            else:  # `vmap` updates batch-norm statistics in place only where they are contiguous
                buffers[name] = part.to(dtype).clone(memory_format=torch.contiguous_format)
        grads, losses = self._gradients(params, buffers, x, y)
        after = models[:, self._trainable :].split(self._lengths[len(params) :], dim=1)
        for values, part in zip(after, buffers.values(), strict=True):
            values.copy_(part.reshape(values.shape))
        return torch.cat([grads[name].flatten(1) for name in self._parameters], dim=1), losses

    def _take_step(self, values: Tensor, rule: UpdateRule, x: Tensor, y: Tensor) -> Tensor:
        """Take a step on a batch of each model; return their losses before it, ``(k,)``."""
        grad, losses = self.gradients(values, x, y)
        params = values[:, : self._trainable]
        rule.regularise(params, grad)
        rule.move(params, grad)
        return losses

    def _schedule(
        self, batches: Sequence[Sequence[Tensor]], per_epoch: Sequence[int], counts: Tensor
    ) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yield, for every common step, the models ``(k,)``, their step counts ``(k,)`` and batch rows ``(k, batch)``.

        In an epoch models take their full batches first, then their last ones, the longest first. `counts` get the
        length of every batch that is learnt from.
        """
        groups: dict[tuple[int, int, int], list[tuple[int, int]]] = {}
        for k, of_model in enumerate(batches):
            for step, length in enumerate(map(len, of_model)):
                if length > 1 or not self._needs_pairs:  # a batch norm cannot learn from one sample
                    counts[k, step] = length
                    epoch, number = divmod(step, per_epoch[k])
                    turn = number if length == self.training.batch_size else 0
                    groups.setdefault((epoch, -length, turn), []).append((k, step))
        ordered = [groups[order] for order in sorted(groups)]
        parts = [
            torch.cat([*torch.tensor(group).unbind(1), *(batches[k][step] for k, step in group)]) for group in ordered
        ]
        numbers = torch.cat(parts).to(device()) if parts else torch.empty(0)  # in one transfer
        for group, part in zip(ordered, numbers.split(list(map(len, parts))), strict=False):
            members, steps, rows = part.split([len(group), len(group), len(part) - 2 * len(group)])
            yield members, steps, rows.view(len(group), -1)


def _last_losses(losses: Tensor, counts: Tensor, per_epoch: Sequence[int]) -> list[float]:
    """Return each model's mean loss in the last epoch that it has learnt from, or NaN if there is none.

    `losses` and `counts` of samples are ``(models, steps)``; counts are 0 where nothing was learnt.
    """
    remaining = (counts > 0).flip(1).cumsum(1).flip(1)  # batches to learn from, with the present one
    last = remaining <= torch.tensor(per_epoch).unsqueeze(1)
    losses, counts = losses.where(last, 0.0), counts.where(last, 0.0)
    means: list[float] = ((losses * counts).sum(1) / counts.sum(1)).tolist()
    return means
