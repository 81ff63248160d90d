"""Classifiers by name: built-in ones, registered ones, and those at a dotted path."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from fedkin.core.errors import FedkinError, in_short, unknown_name
from fedkin.core.trusted_packages import named_object
from fedkin.nn import networks
from fedkin.nn.layers import with_own_dropout
from fedkin.nn.networks import RESNET18, resnet
from fedkin.nn.resident import Criterion

Factory = Callable[[tuple[int, ...], int], nn.Module]
"""``factory(shape, classes)``: a new module that turns float32 ``(n, *shape)`` into logits ``(n, classes)``."""

_RESNET34 = (3, 4, 6, 3)

_factories: dict[str, Factory] = {
    "perceptron": networks.perceptron,
    "gradient-loss-mlp": networks.gradient_loss_mlp,
    "gradient-loss-cnn": networks.gradient_loss_cnn,
    "lenet5": networks.lenet5,
    "lenet5-softmax": networks.lenet5_softmax,
    "ocfl-cnn": networks.ocfl_cnn,
    "resnet18": partial(resnet, name="resnet18", blocks=RESNET18),
    "resnet34": partial(resnet, name="resnet34", blocks=_RESNET34),
    "resnet18-gn": partial(resnet, name="resnet18-gn", blocks=RESNET18, norm="group"),
    "resnet34-gn": partial(resnet, name="resnet34-gn", blocks=_RESNET34, norm="group"),
    "resnet18-imagenet": partial(resnet, name="resnet18-imagenet", blocks=RESNET18, stem="imagenet"),
}
_losses: dict[str, Criterion] = {}


class LogitsError(FedkinError):
    """Error of a model that does not return one logit for each class."""


def register(name: str, factory: Factory, loss: Criterion | None = None) -> None:
    """Register `factory` as the classifier `name` in this process. Registering the same factory again changes nothing.

    `name` is not taken by another factory, not "auto", and without a colon, which marks a dotted path. ``factory(shape,
    classes)`` returns a new `torch.nn.Module` that turns float32 ``(n, *shape)`` into logits ``(n, classes)``; `shape`
    is (features,) or (channels, height, width). ``loss(logits, classes)`` returns the mean loss of a batch, by which
    clients train and choose models; by default it is cross-entropy. Raises FedkinError if the name is taken or not
    allowed, or `factory` cannot be called.
    """
    if not name or ":" in name or name == "auto":
        raise FedkinError(f"A model cannot be registered as '{name}'; any name but 'auto' and without ':' will do.")
    if not callable(factory):
        raise FedkinError(f"Model '{name}' was registered with {factory!r}, which is not a function (shape, classes).")
    if _factories.setdefault(name, factory) is not factory:  # atomic, so that two threads cannot both take the name
        raise FedkinError(f"A model '{name}' exists already; register this one under another name.")
    if loss is not None:
        _losses[name] = loss


def loss_of(name: str) -> Criterion:
    """Return the loss that a model was registered with, or cross-entropy."""
    return _losses.get(name, cross_entropy)


def build(name: str, shape: Sequence[int], classes: int) -> nn.Module:
    """Return a new classifier, from float32 ``(n, *shape)`` to logits ``(n, classes)``, in training mode.

    `name` is in `MODELS`, or was registered, or is a dotted path ``"package.module:factory"``; `shape` is (features,)
    or (channels, height, width). Its weights are drawn as the factory draws them, as a rule from torch's global
    generator. torch's dropout layers are replaced by `layers.Dropout`, which needs a generator before it trains. Raises
    FedkinError if the name is unknown; if a number is below 1; if nothing, or no factory, is at a dotted path; if the
    factory fails; or if it does not return a module that turns two samples of zeros into ``(2, classes)``, or one
    without parameters.
    """
    shape = tuple(shape)
    if not shape or min(shape) < 1 or classes < 1:
        raise FedkinError(
            f"Model '{name}' was asked for samples of shape {shape} and {classes} classes; all must be 1 or more."
        )
    factory = _imported(name) if ":" in name else _factories.get(name)
    if factory is None:
        raise unknown_name("model", name, _factories)
    try:
        made = factory(shape, classes)
    except FedkinError:
        raise
    except Exception as error:
        raise FedkinError(
            f"Model '{name}' cannot be made for samples of shape {shape} and {classes} classes: {in_short(error)}."
        ) from error
    if not isinstance(made, nn.Module):
        raise FedkinError(f"Model '{name}' made something of type {type(made).__name__}, not a torch.nn.Module.")
    module = with_own_dropout(made).eval()
    _check_logits(module, name, shape, classes)
    if next(module.parameters(), None) is None:
        raise FedkinError(f"Model '{name.partition('#')[0]}' has no parameters, so there is nothing to train.")
    return module.train()


def choose(shape: Sequence[int]) -> str:
    """Return the classifier that "auto" stands for: "lenet5" for large enough images, otherwise "perceptron"."""
    image = len(shape) == 3 and min(shape[1:]) >= networks.LENET_MIN_SIDE
    return "lenet5" if image else "perceptron"


def _imported(path: str) -> Factory:
    """Import the factory at ``package.module:attribute``."""
    factory = named_object(path, "Model")
    if not callable(factory):
        raise FedkinError(f"Model '{path}' is of type {type(factory).__name__}, not a function (shape, classes).")
    return factory  # type: ignore[no-any-return]


def _check_logits(module: nn.Module, name: str, shape: tuple[int, ...], classes: int) -> None:
    """Check that a module, in evaluation mode, turns two samples into two rows of logits."""
    try:
        with torch.no_grad():
            logits = module(torch.zeros(2, *shape, dtype=torch.float32))
    except Exception as error:
        raise FedkinError(f"Model '{name}' fails on samples of shape {shape}: {in_short(error)}.") from error
    if not isinstance(logits, Tensor) or logits.shape != (2, classes):
        gave = f"shape {tuple(logits.shape)}" if isinstance(logits, Tensor) else f"type {type(logits).__name__}"
        raise LogitsError(
            f"Model '{name.partition('#')[0]}' turns two samples of shape {shape} into {gave}; it must be logits of "
            f"shape (2, {classes})."
        )
