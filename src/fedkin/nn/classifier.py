"""Classifiers whose models are flat vectors."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from fedkin.core.device import device
from fedkin.nn import build, loss_of
from fedkin.nn.architecture import Architecture
from fedkin.nn.plain_sequence import SequenceResident, is_plain_sequence
from fedkin.nn.resident import Resident

_BATCH, _ON_CPU = 500, 200
"""Samples at a time, on a GPU and on a CPU. More on a CPU make convolutions put out more than the 32 MiB up to which
glibc reuses memory; beyond that the system clears new pages every time."""
_FIRST, _PIECE = 64, 128
"""Number of samples that models are compared on first, and in each further batch."""


class Classifier(Architecture):
    """An `Architecture` whose module returns logits of classes, trained with the loss registered for its name.

    `name` is a registered model or dotted path, see `fedkin.nn.build`.
    """

    def __init__(self, name: str, shape: tuple[int, ...], classes: int) -> None:
        self.classes = classes
        self.criterion = loss_of(name)
        super().__init__(name, shape)

    def build(self) -> nn.Module:
        return build(self.name, self.shape, self.classes)

    def targets(self, x: Tensor) -> Tensor:
        """Return class 0 for every sample."""
        return torch.zeros(len(x), dtype=torch.int64)

    @torch.no_grad()
    def logits(self, vector: Tensor, x: Tensor) -> Tensor:
        """Return logits ``(n, classes)`` of samples ``(n, *shape)`` under the model `vector`, in evaluation mode."""
        with self.loaded(vector) as resident:
            parts = [resident.output(part).cpu() for part in _parts(x)]
        return torch.cat(parts) if parts else torch.zeros(0, self.classes)

    @torch.no_grad()
    def latents(self, vector: Tensor, x: Tensor) -> Tensor:
        """Return the inputs of the last linear layer of the model `vector`: ``(n, width)``.

        The logits, if the module has no linear layer.
        """
        given: dict[str, Tensor] = {}

        def keep(layer: nn.Module, arguments: tuple[Tensor, ...]) -> None:
            given["last"] = arguments[0]

        parts = []
        with self.loaded(vector) as resident:
            layers = [layer for layer in resident.module.modules() if isinstance(layer, nn.Linear)]
            hooks = [layer.register_forward_pre_hook(keep) for layer in layers]
            try:
                for part in _parts(x):
                    output = resident.output(part)
                    parts.append(given.get("last", output).flatten(1).cpu())
            finally:
                for hook in hooks:
                    hook.remove()
        return torch.cat(parts)

    def mixed_logits(self, models: Tensor, weights: Tensor, x: Tensor) -> Tensor:
        """Return the logarithm of the weighted mean of several models' probabilities: ``(n, classes)``.

        `models` are ``(K, size)``, and their `weights` ``(K,)`` in the mean sum to 1.
        """
        mean = torch.zeros(len(x), self.classes)
        for weight, model in zip(weights.tolist(), models, strict=True):
            if weight > 0:
                mean += weight * self.logits(model, x).softmax(1)
        return mean.clamp_min(torch.finfo(torch.float32).tiny).log()

    def loss(self, vector: Tensor, x: Tensor, y: Tensor) -> float:
        """Return the mean loss of the model `vector` on labelled samples, in evaluation mode."""
        return float(self.criterion(self.logits(vector, x), y))

    @torch.no_grad()
    def fitting(self, models: Tensor, x: Tensor, y: Tensor) -> int:
        """Return the index of the model ``(K, size)`` of the lowest mean loss; a diverged model comes last.

        The result is the same as by `loss`. On a CPU a model is evaluated only until its sum of losses exceeds the
        total of a better model, as cross-entropy is never negative.
        """
        if self.criterion is not cross_entropy or device().type != "cpu" or not 0 < _FIRST < len(x):
            losses = torch.tensor([self.loss(model, x, y) for model in models])
            return int(losses.nan_to_num(nan=torch.inf).argmin())
        sums = [self._sum(model, x[:_FIRST], y[:_FIRST], 0.0, math.inf) for model in models]
        best, lowest = -1, math.inf
        for k in sorted(range(len(models)), key=lambda k: (math.isnan(sums[k]), sums[k])):
            total = self._sum(models[k], x[_FIRST:], y[_FIRST:], sums[k], lowest)
            if not math.isnan(total) and (best < 0 or total < lowest or (total == lowest and k < best)):
                best, lowest = k, total
        return max(0, best)

    def _sum(self, model: Tensor, x: Tensor, y: Tensor, before: float, limit: float) -> float:
        """Return `before` plus the samples' losses, added up to the batch that makes the sum exceed `limit` or NaN."""
        with self.loaded(model) as resident:
            for at in range(0, len(x), _PIECE):
                if not before <= limit:
                    break
                logits = resident.output(x[at : at + _PIECE])
                before += float(cross_entropy(logits, y[at : at + _PIECE], reduction="sum"))
        return before

    def new_resident(self) -> Resident:
        if device().type == "cpu" and self.criterion is cross_entropy and is_plain_sequence(self._prototype):
            return SequenceResident(self._prototype, self._channels_last)
        return super().new_resident()


def _parts(x: Tensor) -> tuple[Tensor, ...]:
    parts: tuple[Tensor, ...] = x.split(_ON_CPU if device().type == "cpu" else _BATCH)
    return parts
