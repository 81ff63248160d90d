"""What only Python can give: networks, features, losses, optimisers, schedules and augmentation of a user's own.

Tasks find them by name, as all that clients are sent is plain; so each is registered under one.
"""

from __future__ import annotations

import copy
import inspect
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Self
from weakref import WeakValueDictionary, finalize

import torch
from torch import Tensor, nn
from torch.optim import SGD, Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from fedkin.core.errors import FedkinError, in_short
from fedkin.features import extractors
from fedkin.nn.descent import Recipe, register_recipe
from fedkin.nn.modules import build, choose, forget, register
from fedkin.nn.resident import Criterion

ModuleFactory = Callable[..., nn.Module]
ModuleOrName = str | nn.Module | ModuleFactory
FeaturesOrName = str | nn.Module | Callable[[Tensor], Any]
LossOrNone = nn.Module | Callable[[Tensor, Tensor], Tensor] | None
OptimizerOrName = str | type[Optimizer] | Callable[[Iterable[nn.Parameter]], Optimizer]
SchedulerOrNone = Callable[[Optimizer], LRScheduler] | None
AugmentationOrNone = Callable[[Tensor], Tensor] | None

TRAINING_TYPES: Mapping[str, Any] = {
    "module": ModuleOrName,
    "loss": LossOrNone,
    "optimizer": OptimizerOrName,
    "lr_scheduler": SchedulerOrNone,
    "augmentation": AugmentationOrNone,
}
"""Types of parameters that are more in Python than a method's own field says."""


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


_living: WeakValueDictionary[str, Registered] = WeakValueDictionary()


class Registered:
    """Object of a user's, registered for the library under `name` for as long as this wrapper exists.

    `kind` is "network", a function ``(shape, classes)`` with a `loss` or ``None`` for cross-entropy; "features", a
    function of samples; or "recipe", a `Recipe`. The name is a `label` with a random number, which stays in pickles and
    so is one in every process.
    """

    def __init__(
        self, kind: Literal["network", "features", "recipe"], value: Any, label: str,
        loss: Criterion | None = None, name: str = "",
    ) -> None:  # fmt: skip
        self.kind, self.value, self.label, self.loss = kind, value, label, loss
        self.name = name or f"{label}#{secrets.token_hex(4)}"
        _living[self.name] = self
        if kind == "recipe":
            register_recipe(self.name, value)
        elif kind == "features":
            extractors.register(self.name, value)
            finalize(self, extractors.forget, self.name)
        else:
            register(self.name, value, None if loss is None else partial(_mean_loss, loss))
            finalize(self, forget, self.name)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.kind, self.value, self.label, self.loss, self.name)


def _restored(kind: Any, value: Any, label: str, loss: Criterion | None, name: str) -> Registered:
    """Return the object of a pickle, which may live in this process already."""
    return _living.get(name) or Registered(kind, value, label, loss, name)


def _mean_loss(loss: Criterion, output: Tensor, target: Tensor) -> Tensor:
    if isinstance(loss, nn.Module):  # it may have weights of classes
        loss.to(output.device)
    return loss(output, target)


def _label(value: Any) -> str:
    return str(getattr(value, "__name__", type(value).__name__))


# Networks.


def network_of(module: ModuleOrName, loss: Criterion | None = None) -> Registered | None:
    """Register the network that a user gives, at every fit again, as a module may have changed.

    `module` is a name or dotted path; a module, of which the architecture is used; or its class or a function, which is
    called with the shape of a sample and the number of classes, with the latter alone, or with nothing, as many as it
    has parameters without a default. `loss` is the training loss in place of cross-entropy. ``None`` is returned for a
    name without a loss. Raises FedkinError if `module` is anything else, or cannot be copied or initialised again.
    """
    if isinstance(module, str):
        return None if loss is None else Registered("network", partial(_by_name, module), module, loss)
    if not callable(module):
        raise FedkinError(
            f"module is {module!r}; it should be a name, a dotted path, a torch.nn.Module or a function "
            "(shape, classes)."
        )
    factory = Renewed(module) if isinstance(module, nn.Module) else partial(_by_function, module)
    return Registered("network", factory, _label(module), loss)


def _by_name(name: str, shape: tuple[int, ...], classes: int) -> nn.Module:
    return build(choose(shape) if name == "auto" else name, shape, classes)


def _by_function(function: ModuleFactory, shape: tuple[int, ...], classes: int) -> nn.Module:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # of builtins
        return function(shape, classes)
    required = [
        parameter for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        and parameter.default is parameter.empty
    ]  # fmt: skip
    return function(*(shape, classes)[max(0, 2 - len(required)) :])


class Renewed:
    """Factory of copies of one module with newly initialised parameters; later changes to that module have no effect.

    Raises FedkinError if it cannot be copied, or a layer has parameters but cannot initialise them.
    """

    def __init__(self, module: nn.Module) -> None:
        for name, layer in module.named_modules():
            if _reset_of(layer) is None and any(True for _ in layer.parameters(recurse=False)):
                subject = f"Layer '{name}' ({type(layer).__name__})" if name else type(layer).__name__
                raise FedkinError(
                    f"{subject} of the module given has parameters of its own but no method reset_parameters to "
                    "initialise them; add one, or give a function (shape, classes) that creates the module."
                )
        self.module = _copied(module, "The module given")

    def __call__(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """Return a copy whose parameters are drawn from torch's global generator, as those of any new module."""
        module = copy.deepcopy(self.module)
        for layer in reversed(list(module.modules())):  # a layer has the last word on what its parts have drawn
            if (reset := _reset_of(layer)) is not None:
                reset()
        return module


def _reset_of(layer: nn.Module) -> Callable[[], Any] | None:
    """Return the method by which a layer initialises its parameters, private in torch's attention, if it has one."""
    reset = getattr(layer, "reset_parameters", None) or getattr(layer, "_reset_parameters", None)
    return reset if callable(reset) else None


def _copied(module: nn.Module, what: str) -> nn.Module:
    try:
        return copy.deepcopy(module)
    except RuntimeError as error:
        raise FedkinError(f"{what} ({type(module).__name__}) cannot be copied: {in_short(error)}.") from error


def features_of(features: FeaturesOrName) -> Registered | None:
    """Register the features that a user gives, at every fit again; ``None`` for a name.

    Raises FedkinError if they are neither a module nor a function, or a module cannot be copied.
    """
    if isinstance(features, str):
        return None
    if not callable(features):
        raise FedkinError(
            f"features is {features!r}; it should be a name, a dotted path, a torch module or a function."
        )
    if isinstance(features, nn.Module):
        return Registered("features", _copied(features, "The module given as features").eval(), _label(features))
    return Registered("features", features, _label(features))


def loss_function(loss: Any, classes: int = 0) -> Criterion | None:
    """Convert a loss to a function ``(logits, classes)``; ``None`` for cross-entropy.

    It is tried on two samples of as many `classes` as the clients have, or of three where they have none. Raises
    FedkinError if it is not a loss, is made for another number of classes, or does not return one number.
    """
    if loss is None:
        return None
    if not callable(loss):
        raise FedkinError(f"loss is of type {type(loss).__name__}; it should be a loss of torch's or a function.")
    criterion: Criterion = loss() if isinstance(loss, type) else loss
    weights = getattr(criterion, "weight", None)
    device = weights.device if isinstance(weights, Tensor) else None
    logits = torch.zeros(2, classes or 3, requires_grad=True, device=device)
    try:
        value = criterion(logits, torch.tensor([0, 1], device=device))
    except Exception as error:
        if not classes and isinstance(error, RuntimeError):  # made for some number of classes, such as with weights
            return criterion
        shape = tuple(logits.shape)
        raise FedkinError(f"The loss given fails on logits {shape} and two classes: {in_short(error)}.") from error
    if not isinstance(value, Tensor) or value.ndim != 0 or not value.requires_grad:
        what = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) and value.ndim else type(value).__name__
        raise FedkinError(f"The loss given returns {what} for a batch; it should be one number that has a gradient.")
    return criterion


# Optimisers, schedules and augmentation.


def training_of(estimator: str, parameters: Mapping[str, Any]) -> tuple[dict[str, Any], Registered | None]:
    """Convert the parameters that only Python can give to a method's options; return these and the recipe, if any.

    Raises FedkinError if one is of another type, two contradict each other, or a schedule cannot be made.
    """
    options: dict[str, Any] = {}
    optimizer, scheduler, augmentation = (parameters[name] for name in ("optimizer", "lr_scheduler", "augmentation"))
    rate, factory = parameters["learning_rate"], None
    if not isinstance(optimizer, str):
        for name in ("momentum", "weight_decay"):
            if parameters[name]:
                raise FedkinError(
                    f"{estimator} has {name}={parameters[name]} beside an optimizer of your own, which has its own; "
                    f"give partial(torch.optim.SGD, {name}={parameters[name]})."
                )
        factory, rate = _optimizers(optimizer, rate, scheduler is not None)
        options |= {"optimizer": "sgd", "learning_rate": rate}
    if scheduler is not None:
        if parameters["learning_rates"] is not None:
            raise FedkinError(f"{estimator} has lr_scheduler and learning_rates; leave one out.")
        options["learning_rates"] = scheduled_rates(scheduler, rate, int(parameters["rounds"]))
    if augmentation is not None and not callable(augmentation):
        raise FedkinError(
            f"augmentation is of type {type(augmentation).__name__}; it should be a function of a batch of samples."
        )
    if factory is None and augmentation is None:
        return options, None
    if parameters["recipe"] is not None:
        raise FedkinError(f"{estimator} has recipe and an optimizer or augmentation of your own; leave one out.")
    recipe = Registered("recipe", Recipe(factory, augmentation), "recipe")
    return options | {"recipe": recipe.name}, recipe


def _optimizers(optimizer: Any, rate: float, scheduled: bool) -> tuple[Callable[..., Optimizer], float]:
    """Return a factory of optimisers, and the learning rate that a round begins with.

    A class, or a partial of one without a rate, takes `rate`. A function keeps its own, unless it is `scheduled`.
    """
    if not callable(optimizer):
        raise FedkinError(
            f"optimizer is of type {type(optimizer).__name__}; it should be 'sgd', 'adam', a class of torch.optim, a "
            "partial of one, or a function of parameters."
        )
    kind, arguments = (optimizer.func, optimizer.keywords) if isinstance(optimizer, partial) else (optimizer, {})
    if isinstance(kind, type) and issubclass(kind, Optimizer):
        rest = {name: value for name, value in arguments.items() if name != "lr"}
        return partial(_of_class, kind, rest), arguments.get("lr", rate)
    if not scheduled:
        return partial(_of_function, optimizer, False), rate
    return partial(_of_function, optimizer, True), float(
        optimizer([nn.Parameter(torch.zeros(1))]).param_groups[0]["lr"]
    )


def _of_class(kind: Callable[..., Optimizer], arguments: Mapping[str, Any], parameters: Any, rate: float) -> Optimizer:
    return kind(parameters, **arguments, **({"lr": rate} if "lr" in inspect.signature(kind).parameters else {}))


def _of_function(function: Callable[..., Optimizer], scheduled: bool, parameters: Any, rate: float) -> Optimizer:
    optimizer = function(parameters)
    if scheduled and isinstance(optimizer, Optimizer):
        for group in optimizer.param_groups:
            group["lr"] = rate
    return optimizer


def scheduled_rates(scheduler: Any, rate: float, rounds: int) -> list[float]:
    """Return the learning rate of each round by a torch schedule that begins at `rate`.

    Raises FedkinError if it cannot be built from an optimiser, or follows a metric.
    """
    optimizer = SGD([nn.Parameter(torch.zeros(1))], lr=rate, momentum=0.9)  # some schedules move momentum, too
    try:
        schedule = scheduler(optimizer)
    except Exception as error:
        raise FedkinError(
            f"lr_scheduler cannot be made of an optimizer: {in_short(error)}; give a function of one, such as "
            "partial(torch.optim.lr_scheduler.StepLR, step_size=10)."
        ) from error
    if isinstance(schedule, ReduceLROnPlateau) or not isinstance(schedule, LRScheduler):
        raise FedkinError(
            f"lr_scheduler made a {type(schedule).__name__}; give a schedule of torch's that goes by rounds and "
            "follows no metric, which is not known beforehand."
        )
    rates = []
    for _ in range(rounds):
        rates.append(max(float(optimizer.param_groups[0]["lr"]), 1e-30))  # a task takes no rate of 0
        optimizer.step()
        schedule.step()
    return rates
