"""User-defined loss, optimiser, learning-rate schedule and augmentation, converted for the methods."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from fedkin.core.errors import FedkinError, in_short
from fedkin.estimators.torch_modules import Registered
from fedkin.nn.recipes import Recipe, register_recipe
from fedkin.nn.resident import Criterion

LossOrNone = nn.Module | Callable[[Tensor, Tensor], Tensor] | None
OptimizerOrName = str | type[Optimizer] | Optimizer | Callable[[Iterable[nn.Parameter]], Optimizer]
SchedulerOrNone = Callable[[Optimizer], LRScheduler] | None
AugmentationOrNone = Callable[[Tensor], Tensor] | None


@dataclass(frozen=True)
class TrainingOptions:
    """Parameters of estimators that train models, beside their method's.

    Attributes
    ----------
    loss : callable or None
        Loss by which clients train and choose models, in place of cross-entropy: a loss of torch's, as an instance such
        as ``nn.CrossEntropyLoss(label_smoothing=0.1)`` or as a class, or a function ``(logits, classes)`` that returns
        the mean over a batch.
    lr_scheduler : callable or None
        A schedule of torch's over rounds, as a function of an optimiser: ``partial(StepLR, step_size=10)``. It makes
        one step per round, and clients use its learning rate of the round.
    augmentation : callable or None
        Augmentation of every training batch ``(n, *shape)``, such as transforms of torchvision's: a function from a
        tensor to one of the same shape. Random numbers from torch's global generator are reproducible.
    """

    loss: Any = None
    lr_scheduler: Any = None
    augmentation: Any = None


TRAINING_KINDS: Mapping[str, Any] = {
    "loss": LossOrNone,
    "optimizer": OptimizerOrName,
    "lr_scheduler": SchedulerOrNone,
    "augmentation": AugmentationOrNone,
}
"""Types of parameters that only Python can give."""


class GivenRecipe(Registered):
    """User-defined optimiser and augmentation, registered under a name for `fedkin.nn.recipes`."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__("recipe")
        self.recipe = recipe
        register_recipe(self.name, recipe)

    def __reduce__(self) -> tuple[Any, ...]:
        return GivenRecipe, (self.recipe,)


def _of_class(kind: Callable[..., Optimizer], arguments: Mapping[str, Any], parameters: Any, rate: float) -> Optimizer:
    """Make an optimiser of a class with some arguments, at the learning rate of the round."""
    return kind(parameters, **arguments, **({"lr": rate} if "lr" in inspect.signature(kind).parameters else {}))


def _of_function(function: Callable[..., Optimizer], follows: bool, parameters: Any, rate: float) -> Optimizer:
    """Make an optimiser by a user's function, which `follows` the learning rate of the round or has its own."""
    made = function(parameters)
    if follows and isinstance(made, Optimizer):
        for group in made.param_groups:
            group["lr"] = rate
    return made


def own_options(estimator: str, given: Mapping[str, Any]) -> tuple[dict[str, Any], GivenRecipe | None]:
    """Convert the parameters that only Python can give to a method's options; return these and the recipe.

    Raises FedkinError if one is of another type, two contradict each other, or a schedule cannot be made.
    """
    options: dict[str, Any] = {}
    optimizer, rate = given["optimizer"], given["learning_rate"]
    factory = None
    if not isinstance(optimizer, str):
        factory, own_rate = _factory_of(optimizer, given["lr_scheduler"] is not None)
        rate = rate if own_rate is None else own_rate
        if beside := next((name for name in ("momentum", "weight_decay") if given[name]), None):
            raise FedkinError(
                f"{estimator} has {beside}={given[beside]} beside an optimizer of your own, which has its own; give "
                f"partial(torch.optim.SGD, {beside}={given[beside]})."
            )
        options |= {"optimizer": "sgd", "learning_rate": rate}
    if given["lr_scheduler"] is not None:
        if given["learning_rates"] is not None:
            raise FedkinError(f"{estimator} has lr_scheduler and learning_rates; leave one out.")
        options["learning_rates"] = rates_of(given["lr_scheduler"], rate, int(given["rounds"]))
    augmentation = given["augmentation"]
    if augmentation is not None and not callable(augmentation):
        raise FedkinError(
            f"augmentation is of type {type(augmentation).__name__}; it should be a function of a batch of samples."
        )
    if factory is None and augmentation is None:
        return options, None
    if given["recipe"] is not None:
        raise FedkinError(f"{estimator} has recipe and an optimizer or augmentation of your own; leave one out.")
    recipe = GivenRecipe(Recipe(factory, augmentation))
    return options | {"recipe": recipe.name}, recipe


def rates_of(scheduler: Any, rate: float, rounds: int) -> list[float]:
    """Return the learning rate of each round by a torch schedule.

    Raises FedkinError if it cannot be built from an optimiser, or follows a metric.
    """
    optimizer = SGD([nn.Parameter(torch.zeros(1))], lr=rate, momentum=0.9)  # some schedules move momentum, too
    try:
        made = scheduler(optimizer)
    except Exception as error:
        raise FedkinError(
            f"lr_scheduler cannot be made of an optimizer: {in_short(error)}; give a function of one, such as "
            "partial(torch.optim.lr_scheduler.StepLR, step_size=10)."
        ) from error
    if isinstance(made, ReduceLROnPlateau) or not isinstance(made, LRScheduler):
        what = "follows a metric, which is not known beforehand" if isinstance(made, ReduceLROnPlateau) else "is none"
        raise FedkinError(f"lr_scheduler made a {type(made).__name__}, which {what}; give one that goes by rounds.")
    rates = []
    for _ in range(rounds):
        rates.append(max(float(optimizer.param_groups[0]["lr"]), 1e-30))  # a task takes no rate of 0
        optimizer.step()
        made.step()
    return rates


def loss_function(given: Any, classes: int = 0) -> Criterion | None:
    """Convert a loss to a function ``(logits, classes)``; ``None`` for cross-entropy.

    It is tried on two samples of as many `classes` as the clients have, or of three where they have none. Raises
    FedkinError if it is not a loss, has weights for another number of classes, or does not return one number.
    """
    if given is None:
        return None
    if not callable(given):
        raise FedkinError(f"loss is of type {type(given).__name__}; it should be a loss of torch's or a function.")
    loss: Criterion = given() if isinstance(given, type) else given
    weights = loss.weight if isinstance(loss, nn.CrossEntropyLoss | nn.NLLLoss | nn.MultiMarginLoss) else None
    if classes and isinstance(weights, Tensor) and weights.shape != (classes,):
        raise FedkinError(
            f"The loss given has weights of shape {tuple(weights.shape)}, but clients have {classes} classes; give one "
            "weight for each."
        )
    place = weights.device if isinstance(weights, Tensor) else None
    logits = torch.zeros(2, classes or 3, requires_grad=True, device=place)
    try:
        value = loss(logits, torch.tensor([0, 1], device=place))
    except Exception as error:
        if not classes and isinstance(error, RuntimeError):  # made for some number of classes, such as with weights
            return loss
        shape = tuple(logits.shape)
        raise FedkinError(f"The loss given fails on logits {shape} and two classes: {in_short(error)}.") from error
    if not isinstance(value, Tensor) or value.ndim != 0 or not value.requires_grad:
        got = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) and value.ndim else type(value).__name__
        raise FedkinError(f"The loss given returns {got} for a batch; it should be one number that has a gradient.")
    return loss


def _factory_of(given: Any, follows: bool) -> tuple[Callable[..., Optimizer], float | None]:
    """Return a factory of optimisers, and the learning rate that was given with it."""
    if isinstance(given, Optimizer):
        known = inspect.signature(type(given)).parameters
        return _factory_of(partial(type(given), **{k: v for k, v in given.defaults.items() if k in known}), follows)
    kind, arguments = (given.func, dict(given.keywords)) if isinstance(given, partial) else (given, {})
    if isinstance(kind, type) and issubclass(kind, Optimizer):
        own_rate = arguments.pop("lr", None)
        return partial(_of_class, kind, arguments), own_rate
    if not callable(given):
        raise FedkinError(
            f"optimizer is of type {type(given).__name__}; it should be 'sgd', 'adam', a class of torch.optim, a "
            "partial of one, or a function of parameters."
        )
    if not follows:
        return partial(_of_function, given, False), None
    made = given([nn.Parameter(torch.zeros(1))])
    return partial(_of_function, given, True), float(made.param_groups[0]["lr"])
