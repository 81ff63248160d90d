"""What only Python can give: networks and features of a user's own.

Tasks find them by name, as all that clients are sent is plain; so each is registered under one. What such code does
wrong is said where it is first called, by `fedkin.nn`.
"""

from __future__ import annotations

import copy
import inspect
import secrets
from collections.abc import Callable
from functools import partial
from typing import Any, Literal
from weakref import WeakValueDictionary, finalize

from torch import Tensor, nn

from fedkin.core.errors import FedkinError
from fedkin.features import extractors
from fedkin.nn import modules

ModuleOrName = str | Callable[..., nn.Module]
FeaturesOrName = str | nn.Module | Callable[[Tensor], Any]

_living: WeakValueDictionary[str, Registered] = WeakValueDictionary()


class Registered:
    """Object of a user's, registered for the library under `name` for as long as this wrapper exists.

    The `value` of a "network" is a function ``(shape, classes)``; of "features" a function of samples. The name is a
    `label` with a random number, which stays in pickles and so is one in every process.
    """

    def __init__(self, kind: Literal["network", "features"], value: Any, label: str, name: str = "") -> None:
        self.name = name or f"{label}#{secrets.token_hex(4)}"
        self._arguments = kind, value, label, self.name
        _living[self.name] = self
        registry = modules if kind == "network" else extractors
        registry.register(self.name, value)
        finalize(self, registry.forget, self.name)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, self._arguments


def _restored(kind: Any, value: Any, label: str, name: str) -> Registered:
    return _living.get(name) or Registered(kind, value, label, name)  # it may live in this process already


def network_of(module: Callable[..., nn.Module]) -> Registered:
    """Register the network that a user gives.

    A class or function is called with the shape of a sample and the number of classes, with the latter alone, or with
    nothing, as many as it has parameters without a default. Raises FedkinError for anything else.
    """
    if not callable(module) or isinstance(module, nn.Module):
        kinds = "a name, a dotted path, or a class or function that makes one, since every model begins with its own"
        raise FedkinError(f"module is of type {type(module).__name__}; it should be {kinds}.")
    return Registered("network", partial(_made, module), _name_of(module))


def _made(function: Callable[..., nn.Module], shape: tuple[int, ...], classes: int) -> nn.Module:
    parameters = inspect.signature(function).parameters.values()
    positional = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    required = sum(each.default is each.empty for each in positional)
    return function(*(shape, classes)[max(0, 2 - required) :])


def features_of(features: nn.Module | Callable[[Tensor], Any]) -> Registered:
    """Register the features that a user gives; raise FedkinError if they cannot be called."""
    if not callable(features):
        kinds = "a name, a dotted path, a torch module or a function"
        raise FedkinError(f"features is of type {type(features).__name__}; it should be {kinds}.")
    if isinstance(features, nn.Module):
        features = copy.deepcopy(features).eval()  # which later training of the user's does not change
    return Registered("features", features, _name_of(features))


def _name_of(value: Any) -> str:
    return str(getattr(value, "__name__", type(value).__name__))
