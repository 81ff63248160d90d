"""Classifiers by name: built-in ones, registered ones, and those at a dotted path."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from fedkin.core.device import device
from fedkin.core.errors import FedkinError, in_short, unknown_name
from fedkin.core.payload import MAX_CLASSES, Expected, counts_to, is_name, is_shape
from fedkin.core.tasks import named_object
from fedkin.nn import networks
from fedkin.nn.networks import resnet
from fedkin.nn.resident import Architecture, DenseResident, Resident, is_dense, seeded_globally

Factory = Callable[[tuple[int, ...], int], nn.Module]
"""``factory(shape, classes)``: a new module that turns float32 ``(n, *shape)`` into logits ``(n, classes)``."""

_factories: dict[str, Factory] = {
    "perceptron": networks.perceptron,
    "gradient-loss-mlp": networks.gradient_loss_mlp,
    "gradient-loss-cnn": networks.gradient_loss_cnn,
    "lenet5": networks.lenet5,
    "resnet18": partial(resnet, name="resnet18"),
    "resnet34": partial(resnet, name="resnet34", blocks=(3, 4, 6, 3)),
    "resnet18-gn": partial(resnet, name="resnet18-gn", norm=partial(nn.GroupNorm, 2)),  # Reddi et al.
    "resnet18-imagenet": partial(resnet, name="resnet18-imagenet", stem="imagenet"),
}
TWO_ENCODERS = "two encoders, "
"""Before a model's name: `networks.TwoEncoders` of it."""


def register(name: str, factory: Factory) -> None:
    """Register `factory` as the classifier `name` in this process. Registering the same factory again changes nothing.

    ``factory(shape, classes)`` returns a new `torch.nn.Module` that turns float32 ``(n, *shape)`` into logits ``(n,
    classes)``; `shape` is (features,) or (channels, height, width). Raises FedkinError if the name is taken, or is
    "auto" or has a colon, which marks a dotted path.
    """
    if not name or ":" in name or name == "auto":
        raise FedkinError(f"A model cannot be registered as '{name}'; any name but 'auto' and without ':' will do.")
    if _factories.setdefault(name, factory) is not factory:  # atomic, so that two threads cannot both take the name
        raise FedkinError(f"A model '{name}' exists already; register this one under another name.")


def forget(name: str) -> None:
    """Remove a registered classifier, with the modules that its factory keeps in memory."""
    _factories.pop(name, None)


def build(name: str, shape: Sequence[int], classes: int) -> nn.Module:
    """Return a new classifier, from float32 ``(n, *shape)`` to logits ``(n, classes)``, in training mode.

    `name` is in `MODELS`, or was registered, or is a dotted path ``"package.module:factory"``; `shape` is (features,)
    or (channels, height, width). Its weights are drawn as the factory draws them, as a rule from torch's global
    generator.
    Raises FedkinError if there is no such factory, or it makes no module with parameters that turns two samples of
    zeros into ``(2, classes)``.
    """
    shape = tuple(shape)
    single = name.removeprefix(TWO_ENCODERS)
    factory = named_object(single, "Model") if ":" in single else _factories.get(single)
    if factory is None:
        raise unknown_name("model", single, _factories)
    if single != name:
        factory = partial(networks.TwoEncoders, factory)
    label = name.partition("#")[0]
    try:
        module = factory(shape, classes)
        if not isinstance(module, nn.Module):
            raise FedkinError(f"Model '{label}' is made as a {type(module).__name__}, not a torch.nn.Module.")
        with torch.no_grad():
            logits = module.eval()(torch.zeros(2, *shape))
    except FedkinError:
        raise
    except Exception as error:  # a user's own code may raise anything
        raise FedkinError(f"Model '{label}' fails on samples of shape {shape}: {in_short(error)}.") from error
    if not isinstance(logits, Tensor) or logits.shape != (2, classes):
        form = f"shape {tuple(logits.shape)}" if isinstance(logits, Tensor) else f"type {type(logits).__name__}"
        raise FedkinError(
            f"Model '{label}' turns two samples of shape {shape} into {form}; it must be logits (2, {classes})."
        )
    if any(isinstance(part, nn.RNNBase) and part.dropout for part in module.modules()):
        raise FedkinError(
            f"Model '{label}' has dropout inside a recurrent layer, which no seed reaches on a GPU; put "
            "torch.nn.Dropout after the layer."
        )
    if next(module.parameters(), None) is None:
        raise FedkinError(f"Model '{label}' has no parameters, so there is nothing to train.")
    return module.train()


def choose(shape: Sequence[int]) -> str:
    """Return the classifier that "auto" stands for: "lenet5" for large enough images, otherwise "perceptron"."""
    image = len(shape) == 3 and min(shape[1:]) >= networks.LENET_MIN_SIDE
    return "lenet5" if image else "perceptron"


CLASSIFIER: Expected = {"name": is_name, "shape": is_shape, "classes": counts_to(MAX_CLASSES)}


class Classifier(Architecture):
    """An `Architecture` whose module returns logits of classes, trained with cross-entropy.

    `name` is a registered model or dotted path, see `fedkin.nn.modules.build`.
    """

    def __init__(self, name: str, shape: tuple[int, ...], classes: int) -> None:
        self.classes = classes
        self.criterion = cross_entropy
        super().__init__(name, shape)
        self.draws = self._draws()

    def build(self) -> nn.Module:
        return build(self.name, self.shape, self.classes)

    def targets(self, x: Tensor) -> Tensor:
        return torch.zeros(len(x), dtype=torch.int64)

    @torch.no_grad()
    def logits(self, vector: Tensor, x: Tensor) -> Tensor:
        """Return logits ``(n, classes)`` of samples ``(n, *shape)`` under the model `vector`, in evaluation mode."""
        with self.loaded(vector) as resident:
            parts = [resident.output(part).cpu() for part in _parts(x)]
        return torch.cat(parts) if parts else torch.zeros(0, self.classes)

    @torch.no_grad()
    def latents(self, vector: Tensor, x: Tensor, of: Literal["first", "last"] = "last") -> Tensor:
        """Return the inputs of the last or first linear layer of the model `vector`: ``(n, width)``.

        The logits, if the module has no linear layer.
        """
        inputs: dict[str, Tensor] = {}

        def keep(layer: nn.Module, arguments: tuple[Tensor, ...]) -> None:
            inputs.setdefault("first", arguments[0])
            inputs["last"] = arguments[0]

        parts = []
        with self.loaded(vector) as resident:
            layers = [layer for layer in resident.module.modules() if isinstance(layer, nn.Linear)]
            hooks = [layer.register_forward_pre_hook(keep) for layer in layers]
            try:
                for part in _parts(x):
                    inputs.clear()
                    output = resident.output(part)
                    parts.append(inputs.get(of, output).flatten(1).cpu())
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

    def losses(self, models: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """Return the mean loss of each model ``(K, size)`` on labelled samples, float32 ``(K,)``."""
        return torch.tensor([self.loss(model, x, y) for model in models])

    def fitting(self, models: Tensor, x: Tensor, y: Tensor) -> int:
        """Return the index of the model ``(K, size)`` of the lowest mean loss."""
        return lowest_loss(self.losses(models, x, y))

    def _draws(self) -> bool:
        """Whether a forward pass in training draws from torch's global generator."""
        module = copy.deepcopy(self._prototype).train()
        with seeded_globally(0), torch.no_grad():
            before = torch.get_rng_state()
            try:
                module(torch.zeros(2, *self.shape))
            except Exception:  # training says what is wrong
                return False
            return not torch.equal(before, torch.get_rng_state())

    def new_resident(self) -> Resident:
        if device().type == "cpu" and is_dense(self._prototype):
            return DenseResident(self._prototype)
        return super().new_resident()


def lowest_loss(losses: Tensor) -> int:
    """Return the index of the lowest of `losses` ``(K,)``; a model that has diverged, whose loss is NaN, comes last."""
    return int(losses.nan_to_num(nan=torch.inf).argmin())


def _parts(x: Tensor) -> tuple[Tensor, ...]:
    # More on a CPU make convolutions put out more than the 32 MiB up to which glibc reuses memory.
    parts: tuple[Tensor, ...] = x.split(200 if device().type == "cpu" else 500)
    return parts
