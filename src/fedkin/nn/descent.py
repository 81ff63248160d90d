"""Training of one client's model on its own data.

Update rules work on flat models, one or many at once: gradient descent, or Adam (Kingma and Ba 2015).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.optim.adam import adam

from fedkin.core.payload import MANY, Expected, Nullable, counts_to, one_of, positive, within
from fedkin.nn.resident import Architecture

# Adam (Kingma and Ba 2015) as torch computes it, on flat vectors, with moments that can be kept between rounds.


_NAMES = ("adam_mean", "adam_square", "adam_steps")


@dataclass
class AdamMoments:
    """State of Adam: running means of the gradient and its square, and the number of steps.

    Means are ``(parameters,)``, and `steps` is a scalar; of many models they are ``(K, parameters)`` and ``(K,)``. All
    are float32.
    """

    mean: Tensor
    square: Tensor
    steps: Tensor

    @classmethod
    def like(cls, params: Tensor) -> AdamMoments:
        """Return zero moments for parameters ``(parameters,)`` or ``(K, parameters)``, on their device."""
        return cls(torch.zeros_like(params), torch.zeros_like(params), torch.zeros_like(params[..., 0]))

    @classmethod
    def of_client(cls, state: MutableMapping[str, Tensor], parameters: int) -> AdamMoments:
        """Return a copy of the moments in a client's `state`, or new ones."""
        if _NAMES[0] not in state:
            return cls.like(torch.zeros(parameters))
        return cls(*(state[name].clone() for name in _NAMES))

    def take(self, source: AdamMoments, laid: Callable[[Tensor], Tensor] = lambda values: values) -> None:
        """Take over the values of `source`, which may be on another device, its moments as `laid` returns them."""
        self.mean.copy_(laid(source.mean))
        self.square.copy_(laid(source.square))
        self.steps.copy_(source.steps)

    def keep(self, state: MutableMapping[str, Tensor]) -> None:
        """Store the moments in a client's `state`."""
        state.update(zip(_NAMES, (self.mean, self.square, self.steps), strict=True))

    @staticmethod
    def forget(state: MutableMapping[str, Tensor]) -> None:
        """Remove the moments from a client's `state`, if there are any."""
        for name in _NAMES:
            state.pop(name, None)

    def step(self, params: Tensor, grad: Tensor, rate: float, beta: float = 0.9) -> None:
        """Take one Adam step on `params` in place, with betas `beta` and 0.999 and epsilon 1e-8."""
        if params.dim() == 1:
            adam_step([params], [grad], [self.mean], [self.square], [self.steps], rate, epsilon=1e-8, beta=beta)
        else:
            lists = list(params), list(grad), list(self.mean), list(self.square), list(self.steps)
            adam_step(*lists, rate, epsilon=1e-8)


def adam_step(
    params: list[Tensor], grads: list[Tensor], means: list[Tensor], squares: list[Tensor], steps: list[Tensor],
    rate: float, epsilon: float, beta: float = 0.9, fused: bool | None = True,
) -> None:  # fmt: skip
    """Take one step of torch's Adam in place, with betas `beta` and 0.999; every tensor has its own step count."""
    adam(
        params, grads, means, squares, [], steps, fused=fused, amsgrad=False, beta1=beta, beta2=0.999, lr=rate,
        weight_decay=0.0, eps=epsilon, maximize=False,
    )  # fmt: skip


class Adam:
    """Adam on several tensors that need gradients, the same as `torch.optim.Adam`, without torch's compiler.

    torch's own optimisers import that when the first one is made, which takes seconds in every process.
    """

    def __init__(self, tensors: Iterable[Tensor], rate: float) -> None:
        self.tensors, self.rate = list(tensors), rate
        self._means, self._squares = ([torch.zeros_like(each) for each in self.tensors] for _ in range(2))
        self._steps = [torch.tensor(0.0) for _ in self.tensors]

    def minimise(self, loss: Tensor) -> None:
        """Take one step down the gradient of `loss`."""
        gradients = list(torch.autograd.grad(loss, self.tensors))
        with torch.no_grad():
            moments = self._means, self._squares, self._steps
            adam_step(self.tensors, gradients, *moments, self.rate, epsilon=1e-8, fused=None)


@dataclass(frozen=True)
class LocalTraining:
    """Settings of a client's training: shuffled mini-batches, the architecture's mean loss, a new optimiser each time.

    A number of `steps` of the optimiser replaces `epochs`. Adam has the usual betas 0.9 and 0.999 and epsilon 1e-8;
    `momentum` of "sgd" is in [0, 1). The gradient gains ``weight_decay * w``, and the loss ``mu / 2 * ||w -
    w_start||^2``, where `proximal` is FedProx's mu (Li et al. 2020, eq. 2).
    """

    epochs: int = 1
    steps: int | None = None
    batch_size: int = 32
    optimizer: Literal["sgd", "adam"] = "sgd"
    learning_rate: float = 0.01
    momentum: float = 0.0
    weight_decay: float = 0.0
    proximal: float = 0.0


LOCAL_TRAINING: Expected = {
    "epochs": counts_to(MANY, 0), "steps": Nullable(counts_to(MANY, 0)), "batch_size": counts_to(MANY),
    "optimizer": one_of("sgd", "adam"), "learning_rate": positive, "momentum": within(0, 1),
    "weight_decay": within(0), "proximal": within(0),
}  # fmt: skip


class UpdateRule:
    """Update rule of a `LocalTraining`: the penalties it adds to gradients, and the step it takes by them.

    `start` ``(parameters,)`` or ``(K, parameters)`` is on the device that trains; it is not modified, and must not be
    if `proximal` is set. `frozen` are positions of parameters that do not train. A step `is_plain` if it is the
    gradient times the learning rate and nothing else. What the rule remembers is in `memory`, by name: the start, the
    velocity, or Adam's moments.
    """

    def __init__(self, start: Tensor, training: LocalTraining, frozen: Sequence[slice | Tensor] = ()) -> None:
        self.training, self.frozen, self.memory = training, frozen, dict[str, Tensor]()
        if training.proximal:
            self.memory["start"] = start
        if training.optimizer == "adam":
            self.memory |= vars(AdamMoments.like(start))
        elif training.momentum:
            self.memory["velocity"] = torch.zeros_like(start)
        self.is_plain = not (self.memory or training.weight_decay or frozen)

    @staticmethod
    def copies(training: LocalTraining) -> int:
        """Return the numbers in memory per parameter at most, model and gradient included, while some rows step."""
        remembered = 2 * (training.optimizer == "adam") + bool(training.momentum) + bool(training.proximal)
        return 3 + 2 * remembered

    def of(self, rows: Tensor) -> UpdateRule:
        """Return the rule of the models at `rows`, with copies of what it remembers of them (see `put`)."""
        part = copy(self)
        part.memory = {name: values[rows] for name, values in self.memory.items()}
        return part

    def put(self, rows: Tensor, part: UpdateRule) -> None:
        """Write what `part`, the rule of the models at `rows`, remembers back into this one."""
        for name, values in part.memory.items():
            self.memory[name][rows] = values

    def regularise(self, params: Tensor, grad: Tensor) -> None:
        """Add the gradients of the penalties to `grad` in place, and set those of frozen parameters to 0."""
        if self.training.weight_decay:
            grad.add_(params, alpha=self.training.weight_decay)
        if self.training.proximal:
            mu = self.training.proximal
            grad.add_(params, alpha=mu).sub_(self.memory["start"], alpha=mu)
        for place in self.frozen:
            grad[..., place] = 0.0

    def move(self, params: Tensor, grad: Tensor) -> None:
        """Take one step on `params` in place, by a gradient that `regularise` has been applied to."""
        if self.training.optimizer == "adam":
            moments = AdamMoments(*(self.memory[name] for name in ("mean", "square", "steps")))
            moments.step(params, grad, self.training.learning_rate)
            return
        if self.training.momentum:
            grad = self.memory["velocity"].mul_(self.training.momentum).add_(grad)
        params.add_(grad, alpha=-self.training.learning_rate)


def train_locally(
    architecture: Architecture, start: Tensor, x: Tensor, y: Tensor, rng: torch.Generator, training: LocalTraining,
    anchor: Tensor | None = None, frozen: Tensor | None = None,
) -> tuple[Tensor, float]:  # fmt: skip
    """Train a model on one client's samples, from `start` ``(size,)``; return the new model and its mean training loss.

    `start` is not modified. `x` is ``(n, *shape)``, n >= 1; `y` are for a classifier int64 ``(n,)``, for an autoencoder
    the samples again. `rng` shuffles, and draws dropout. `proximal` pulls to the model `anchor` ``(size,)``, by default
    `start`; parameters that are `frozen`, bool ``(parameters,)``, do not train. The loss is that over the last epoch,
    or over the last ``n / batch_size`` steps. It is NaN if there was nothing to train on, as for a batch norm and a
    single sample.
    """
    with architecture.loaded(start, rng, training=True) as resident:
        x, y = resident.placed(x), resident.placed(y)
        pull = resident.params  # which a rule keeps only if it is `proximal`
        if training.proximal:
            pull = pull.clone() if anchor is None else resident.laid_out(anchor[: architecture.parameters])
        still = [] if frozen is None else [resident.laid_out(frozen.float()).bool()]
        rule = UpdateRule(pull, training, [*resident.frozen, *still])

        def step(x: Tensor, y: Tensor) -> Tensor:
            loss = resident.gradient(x, y)
            rule.regularise(resident.params, resident.grad)
            rule.move(resident.params, resident.grad)
            return loss

        total, per_epoch = steps_of(len(x), training)
        orders = batch_orders(len(x), total, rng, training.batch_size)
        batches = (rows for order in orders for rows in resident.placed(order).split(training.batch_size))
        losses, counts = (
            resident.train_batches(x, y, batches, training.learning_rate)
            if rule.is_plain
            else resident.through(x, y, batches, step)
        )
        # Of the last epoch alone: losses before are of models that nobody has any more.
        losses, counts = losses[-per_epoch:], counts[-per_epoch:]
        return resident.vector(), float((losses * counts).sum() / counts.sum())


def steps_of(n: int, training: LocalTraining) -> tuple[int, int]:
    """Return the number of optimiser steps in all, and in one epoch."""
    per_epoch = math.ceil(n / training.batch_size)
    return training.steps if training.steps is not None else training.epochs * per_epoch, per_epoch


def batch_orders(n: int, total: int, rng: torch.Generator, batch_size: int) -> Iterator[Tensor]:
    """Yield row numbers of `total` batches, in a new order for every epoch; the last epoch may be cut short."""
    for first in range(0, total, math.ceil(n / batch_size)):
        yield torch.randperm(n, generator=rng)[: (total - first) * batch_size]
