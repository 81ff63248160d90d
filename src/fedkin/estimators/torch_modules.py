"""User-defined torch modules and features, registered under names for the library."""

from __future__ import annotations

import copy
import inspect
import itertools
from collections.abc import Callable
from functools import partial
from typing import Any, Self
from weakref import finalize, ref

from torch import Tensor, nn

from fedkin.core import FedkinError
from fedkin.features import extractors
from fedkin.nn import build, choose, register
from fedkin.nn.resident import Criterion

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
