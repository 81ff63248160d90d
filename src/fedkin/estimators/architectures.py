"""What a user gives as `module`, under a name that the library's models go by."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary, ref

from torch import nn

from fedkin.core import FedkinError
from fedkin.models import register

Factory = Callable[[tuple[int, ...], int], nn.Module]
Given = str | nn.Module | Factory

_numbers = itertools.count(1)


class Architecture:
    """A module or a factory that was given, registered with `fedkin.models` for as long as this object lives.

    A pickle of it registers itself anew where it is read, under another name.

    Parameters
    ----------
    label : str
        What to call it; a number follows.
    factory : callable
        ``factory(shape, classes)`` returns a new module.
    shown : str
        What the module looked like when it was given.

    Attributes
    ----------
    name : str
        What `fedkin.models.build` knows it by.
    """

    def __init__(self, label: str, factory: Factory, shown: str = "") -> None:
        self.label, self.factory, self.shown = label, factory, shown
        self.name = f"{label}#{next(_numbers)}"
        mine = ref(self)  # names are never forgotten, so they must not keep the modules of many fits in memory

        def build(shape: tuple[int, ...], classes: int) -> nn.Module:
            living = mine()
            if living is None:
                raise FedkinError(f"The estimator that model '{label}' was given to is gone, and the model with it.")
            return living.factory(shape, classes)

        register(self.name, build)

    def __reduce__(self) -> tuple[Any, ...]:
        return Architecture, (self.label, self.factory, self.shown)

    def __deepcopy__(self, memo: dict[int, Any]) -> Architecture:
        return self


class Renewed:
    """A factory of copies of one module with newly drawn parameters.

    Parameters
    ----------
    module : nn.Module
        Copied, so that what happens to it later changes nothing.

    Raises
    ------
    FedkinError
        If it cannot be copied, or a layer has parameters but no way to draw them anew.
    """

    def __init__(self, module: nn.Module) -> None:
        for name, layer in module.named_modules():
            if _reset_of(layer) is None and any(True for _ in layer.parameters(recurse=False)):
                raise FedkinError(
                    f"Layer '{name}' ({type(layer).__name__}) of the module given has parameters but no method "
                    "reset_parameters to draw them anew; add one, or give a function (shape, classes) that makes the "
                    "module."
                )
        try:
            self.module = copy.deepcopy(module)
        except RuntimeError as error:
            raise FedkinError(
                f"The module given ({type(module).__name__}) cannot be copied: {str(error).splitlines()[0]}"
            ) from error

    def __call__(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """A copy; its parameters come from torch's global generator, as those of any new module."""
        made = copy.deepcopy(self.module)
        for layer in reversed(list(made.modules())):  # a layer has the last word on what its parts have drawn
            reset = _reset_of(layer)
            if reset is not None:
                reset()
        return made


_known: WeakKeyDictionary[Any, Architecture] = WeakKeyDictionary()


def architecture_of(given: Given) -> Architecture | None:
    """What `given` is registered as; the same for the same object, unless that is a module whose layers have changed.

    Parameters
    ----------
    given : str, nn.Module or callable
        A name or dotted path, for which there is nothing to do; a module; or a function ``(shape, classes)``.

    Returns
    -------
    Architecture or None
        ``None`` for a name.

    Raises
    ------
    FedkinError
        If it is something else, or a module that cannot be copied or drawn anew.
    """
    if isinstance(given, str):
        return None
    if not callable(given):
        raise FedkinError(
            f"module is {given!r}; it should be a name, a dotted path, a torch.nn.Module or a function "
            "(shape, classes)."
        )
    shown = str(given) if isinstance(given, nn.Module) else ""
    try:
        known = _known.get(given)
    except TypeError:  # neither hashed nor weakly referred to: new every time
        return Architecture(_label(given), given)
    if known is None or known.shown != shown:
        factory = Renewed(given) if isinstance(given, nn.Module) else given
        known = _known[given] = Architecture(_label(given), factory, shown)
    return known


def _label(given: Any) -> str:
    return str(getattr(given, "__name__", type(given).__name__))


def _reset_of(layer: nn.Module) -> Callable[[], Any] | None:
    """How a layer draws its parameters; torch's attention and transformers have it under a private name."""
    reset = getattr(layer, "reset_parameters", None) or getattr(layer, "_reset_parameters", None)
    return reset if callable(reset) else None
