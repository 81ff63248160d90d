"""Classifiers, as flat vectors."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from fedkin.core.device import device
from fedkin.nn import build, loss_of
from fedkin.nn.architecture import Architecture
from fedkin.nn.perceptron import PerceptronResident, is_perceptron
from fedkin.nn.resident import Resident

_BATCH = 500


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

    def _new_resident(self) -> Resident:
        if device().type == "cpu" and self.criterion is cross_entropy and is_perceptron(self._prototype):
            return PerceptronResident(self._prototype)
        return super()._new_resident()
