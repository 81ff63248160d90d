"""Classifiers, as flat vectors."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from fedkin.core.device import device
from fedkin.nn import build, loss_of
from fedkin.nn.architecture import Architecture
from fedkin.nn.perceptron import PerceptronResident, is_perceptron
from fedkin.nn.resident import Resident

_BATCH = 500
_FIRST, _PIECE = 64, 128
"""Samples that models are compared by first, and at a time after that."""


class Classifier(Architecture):
    """An `Architecture` that predicts classes; its module gives logits. It learns by its name's loss, see `register`.

    Parameters
    ----------
    name : str
        Registered model or dotted path, see `fedkin.nn.build`.
    shape : tuple of int
        Shape of one sample.
    classes : int
        Number of logits.
    """

    def __init__(self, name: str, shape: tuple[int, ...], classes: int) -> None:
        self.classes = classes
        self.criterion = loss_of(name)
        super().__init__(name, shape)

    def build(self) -> nn.Module:
        """A new module."""
        return build(self.name, self.shape, self.classes)

    def targets(self, x: Tensor) -> Tensor:
        """The first class for every sample."""
        return torch.zeros(len(x), dtype=torch.int64)

    @torch.no_grad()
    def logits(self, vector: Tensor, x: Tensor) -> Tensor:
        """``(n, classes)`` of the model `vector` for samples ``(n, *shape)``, in evaluation mode."""
        with self.loaded(vector) as resident:
            parts = [resident.output(part).cpu() for part in x.split(_BATCH)]
        return torch.cat(parts) if parts else torch.zeros(0, self.classes)

    @torch.no_grad()
    def latents(self, vector: Tensor, x: Tensor) -> Tensor:
        """What the last linear layer of the model `vector` is given for samples ``(n, *shape)``: ``(n, width)``.

        Of a module without linear layers, its logits.
        """
        given: dict[str, Tensor] = {}

        def keep(layer: nn.Module, arguments: tuple[Tensor, ...]) -> None:
            given["last"] = arguments[0]

        parts = []
        with self.loaded(vector) as resident:
            layers = [layer for layer in resident.module.modules() if isinstance(layer, nn.Linear)]
            hooks = [layer.register_forward_pre_hook(keep) for layer in layers]
            try:
                for part in x.split(_BATCH):
                    output = resident.output(part)
                    parts.append(given.get("last", output).flatten(1).cpu())
            finally:
                for hook in hooks:
                    hook.remove()
        return torch.cat(parts)

    def mixed_logits(self, models: Tensor, weights: Tensor, x: Tensor) -> Tensor:
        """The logarithm of the mean of several models' probabilities: ``(n, classes)``.

        Parameters
        ----------
        models : Tensor, (K, size)
        weights : Tensor, (K,)
            Of the models in the mean; they sum to 1.
        x : Tensor, (n, *shape)
        """
        mean = torch.zeros(len(x), self.classes)
        for weight, model in zip(weights.tolist(), models, strict=True):
            if weight > 0:
                mean += weight * self.logits(model, x).softmax(1)
        return mean.clamp_min(torch.finfo(torch.float32).tiny).log()

    def loss(self, vector: Tensor, x: Tensor, y: Tensor) -> float:
        """Mean loss of the model `vector` on labelled samples, in evaluation mode."""
        return float(self.criterion(self.logits(vector, x), y))

    @torch.no_grad()
    def fitting(self, models: Tensor, x: Tensor, y: Tensor) -> int:
        """Return which of `models` has the lowest mean loss; a model that has diverged comes last.

        The answer is that of `loss`. A processor looks at no more samples of a model than it takes: cross-entropy is
        never negative, so that a model is out once its sum is above the whole sum of another.

        Parameters
        ----------
        models : Tensor, (K, size)
        x, y : Tensor, (n, *shape) and (n,)
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
        """Return `before` and the losses of all samples, or of so many that the sum is above `limit` or NaN."""
        with self.loaded(model) as resident:
            for at in range(0, len(x), _PIECE):
                if not before <= limit:
                    break
                logits = resident.output(x[at : at + _PIECE])
                before += float(cross_entropy(logits, y[at : at + _PIECE], reduction="sum"))
        return before

    def _new_resident(self) -> Resident:
        if device().type == "cpu" and self.criterion is cross_entropy and is_perceptron(self._prototype):
            return PerceptronResident(self._prototype)
        return super()._new_resident()
