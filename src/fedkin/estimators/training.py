"""User-defined loss, optimiser, learning-rate schedule and augmentation, converted for the methods."""

from __future__ import annotations

import copy
import inspect
import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Self
from weakref import finalize, ref

import torch
from torch import Tensor, nn
from torch.optim import SGD, Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from fedkin.core.errors import FedkinError, in_short
from fedkin.features import extractors
from fedkin.nn import build, choose, register
from fedkin.nn.descent import Recipe, register_recipe
from fedkin.nn.resident import Criterion

# User-defined torch modules and features, registered under names for the library.


ModuleFactory = Callable[..., nn.Module]
_CLASSES = ("classes", "num_classes", "n_classes", "n_out", "out_features", "output_dim")
"""What networks call their number of classes, if it is all that they need."""
ModuleOrName = str | nn.Module | ModuleFactory
FeaturesOrName = str | nn.Module | Callable[[Tensor], Any]

_numbers = itertools.count(1)


class Registered:
    """Object of a user's, registered under a unique name for as long as this wrapper exists.

    Unpickling registers it again, under another name. A name is the `label` and a number.
    """

    def __init__(self, label: str) -> None:
        self.label = label
        self.name = f"{label}#{next(_numbers)}"

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


class GivenNetwork(Registered):
    """User-defined module or factory, registered under a name for `fedkin.nn.build`.

    ``factory(shape, classes)`` returns a new module; `loss` is the training loss, ``None`` for cross-entropy.
    """

    def __init__(self, label: str, factory: ModuleFactory, loss: Criterion | None = None) -> None:
        super().__init__(label)
        self.factory, self.loss = factory, loss
        mine = ref(self)  # names are never forgotten, so they must not keep the modules of many fits in memory

        def build(shape: tuple[int, ...], classes: int) -> nn.Module:
            living = mine()
            if living is None:
                raise FedkinError(f"The estimator that model '{label}' was given to is gone, and the model with it.")
            return living.factory(shape, classes)

        def mean_loss(output: Tensor, target: Tensor) -> Tensor:
            living = mine()
            if living is None or living.loss is None:
                raise FedkinError(f"The estimator that the loss of '{label}' was given to is gone.")
            if isinstance(living.loss, nn.Module):  # it may have weights of classes
                living.loss.to(output.device)
            return living.loss(output, target)

        register(self.name, build, None if loss is None else mean_loss)

    def __reduce__(self) -> tuple[Any, ...]:
        return GivenNetwork, (self.label, self.factory, self.loss)


def _named(name: str, shape: tuple[int, ...], classes: int) -> nn.Module:
    """Build the model of a name, see `fedkin.nn.build`; "auto" chooses by the shape of a sample."""
    return build(choose(shape) if name == "auto" else name, shape, classes)


def _called(function: Callable[..., Any], shape: tuple[int, ...], classes: int) -> nn.Module:
    """Call a class or factory of a network with the arguments it takes."""
    made: nn.Module = function(*_arguments(function, shape, classes))
    return made


def _arguments(function: Callable[..., Any], shape: tuple[int, ...], classes: int) -> tuple[Any, ...]:
    """Return the arguments that a class or factory of a network takes: shape and classes, classes, or none."""
    try:
        known = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # of builtins
        return shape, classes
    positional = [one for one in known if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    needed = [one for one in positional if one.default is one.empty]
    if not positional and not any(one.kind is one.VAR_POSITIONAL for one in known):
        return ()
    if len(needed) == 1 and needed[0].name in _CLASSES:
        return (classes,)
    takes_shape = bool(positional) and positional[0].name in ("shape", "input_shape")
    return (shape, classes) if needed or takes_shape else ()


class Renewed:
    """Factory of copies of one module with newly initialised parameters; later changes to that module have no effect.

    Raises FedkinError if it cannot be copied, or a layer has parameters but cannot initialise them.
    """

    def __init__(self, module: nn.Module) -> None:
        for name, layer in module.named_modules():
            if _reset_of(layer) is None and any(True for _ in layer.parameters(recurse=False)):
                what = f"Layer '{name}' ({type(layer).__name__}) of the module given has parameters"
                own = f"The module given ({type(layer).__name__}) has parameters of its own"
                raise FedkinError(
                    f"{what if name else own} but no method reset_parameters to initialise them; add one, or "
                    "give a function (shape, classes) that creates "
                    "the module."
                )
        self.module = _copied(module, "The module given")

    def __call__(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """Return a copy whose parameters are drawn from torch's global generator, as those of any new module."""
        made = copy.deepcopy(self.module)
        for layer in reversed(list(made.modules())):  # a layer has the last word on what its parts have drawn
            reset = _reset_of(layer)
            if reset is not None:
                reset()
        return made


def architecture_of(given: ModuleOrName, loss: Criterion | None = None) -> GivenNetwork | None:
    """Register the network that a user gives; at every call again, as a module may have changed.

    It is a name or dotted path; a module; its class; or a function ``(shape, classes)``, ``(classes)`` or of nothing.
    `loss` is the training loss in place of cross-entropy. ``None`` is returned for a name without a loss, for which
    there is nothing to do. Raises FedkinError if it is something else, or a module that cannot be copied or initialised
    again.
    """
    if isinstance(given, str):
        return None if loss is None else GivenNetwork(given, partial(_named, given), loss)
    if not callable(given):
        raise FedkinError(
            f"module is {given!r}; it should be a name, a dotted path, a torch.nn.Module or a function "
            "(shape, classes)."
        )
    factory = Renewed(given) if isinstance(given, nn.Module) else partial(_called, given)
    return GivenNetwork(label_of(given), factory, loss)


class GivenFeatures(Registered):
    """User-defined module or function of features, registered under a name for `fedkin.features.extractors.extract`.

    `function` maps samples to their features.
    """

    def __init__(self, label: str, function: Callable[[Tensor], Any]) -> None:
        super().__init__(label)
        self.function = function
        extractors.register(self.name, function)
        finalize(self, extractors.forget, self.name)

    def __reduce__(self) -> tuple[Any, ...]:
        return GivenFeatures, (self.label, self.function)


def extractor_of(given: FeaturesOrName) -> GivenFeatures | None:
    """Register the features that a user gives; ``None`` for a name.

    They are registered at every call again, as a module may have been trained. Raises FedkinError if it is something
    else, or a module that cannot be copied.
    """
    if isinstance(given, str):
        return None
    if not callable(given):
        raise FedkinError(f"features is {given!r}; it should be a name, a dotted path, a torch module or a function.")
    if isinstance(given, nn.Module):
        return GivenFeatures(label_of(given), _copied(given, "The module given as features").eval())
    return GivenFeatures(label_of(given), given)


def _copied(module: nn.Module, what: str) -> nn.Module:
    try:
        return copy.deepcopy(module)
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise FedkinError(f"{what} ({type(module).__name__}) cannot be copied: {reason}") from error


def label_of(given: Any) -> str:
    """Return a readable name for an object that a user gives."""
    return str(getattr(given, "__name__", type(given).__name__))


def _reset_of(layer: nn.Module) -> Callable[[], Any] | None:
    """Return the method by which a layer initialises its parameters; ``None`` without one.

    In torch's attention and transformers it is private.
    """
    reset = getattr(layer, "reset_parameters", None) or getattr(layer, "_reset_parameters", None)
    return reset if callable(reset) else None


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
    """User-defined optimiser and augmentation, registered under a name for `fedkin.nn.descent`."""

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
