"""What only Python can give: networks, features and losses of a user's own.

Tasks find them by name, as all that clients are sent is plain; so each is registered under one. What such code does
wrong is said where it is first called, by `fedkin.nn`.
"""

from __future__ import annotations

import copy
import inspect
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Self
from weakref import WeakValueDictionary, finalize

from torch import Tensor, nn

from fedkin.core.errors import FedkinError, in_short
from fedkin.features import extractors
from fedkin.nn.modules import build, choose, forget, register
from fedkin.nn.resident import Criterion

ModuleOrName = str | Callable[..., nn.Module]
FeaturesOrName = str | nn.Module | Callable[[Tensor], Any]

TRAINING_TYPES: Mapping[str, Any] = {
    "module": ModuleOrName,
    "loss": nn.Module | Callable[[Tensor, Tensor], Tensor] | None,
}
"""Types of parameters that are more in Python than a method's own field says."""


@dataclass(frozen=True)
class TrainingOptions:
    """Parameters of estimators that train models, beside their method's.

    Attributes
    ----------
    loss : callable or None
        Loss by which clients train and choose models, in place of cross-entropy: one of torch's, such as
        ``nn.CrossEntropyLoss(label_smoothing=0.1)``, or a function ``(logits, classes)`` that returns the mean over a
        batch.
    """

    loss: Any = None


_living: WeakValueDictionary[str, Registered] = WeakValueDictionary()


class Registered:
    """Object of a user's, registered for the library under `name` for as long as this wrapper exists.

    The `value` of a "network" is a function ``(shape, classes)`` and its loss, ``None`` for cross-entropy; of
    "features" a function of samples. The name is a `label` with a random number, which stays in pickles and so is one
    in every process.
    """

    def __init__(self, kind: Literal["network", "features"], value: Any, label: str, name: str = "") -> None:
        self.name = name or f"{label}#{secrets.token_hex(4)}"
        self._arguments = kind, value, label, self.name
        _living[self.name] = self
        if kind == "features":
            extractors.register(self.name, value)
            finalize(self, extractors.forget, self.name)
        else:
            factory, loss = value
            register(self.name, factory, None if loss is None else partial(_mean_loss, loss))
            finalize(self, forget, self.name)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, self._arguments


def _restored(kind: Any, value: Any, label: str, name: str) -> Registered:
    return _living.get(name) or Registered(kind, value, label, name)  # it may live in this process already


def _mean_loss(loss: Criterion, output: Tensor, target: Tensor) -> Tensor:
    if isinstance(loss, nn.Module):  # it may have weights of classes
        loss.to(output.device)
    try:
        value = loss(output, target)
    except Exception as error:  # a user's own function may raise anything
        raise FedkinError(f"The loss given fails on logits {tuple(output.shape)}: {in_short(error)}.") from error
    if not isinstance(value, Tensor) or value.ndim:
        what = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
        raise FedkinError(f"The loss given returns {what} for a batch; it should be one number.")
    return value


def _called(name: str, value: Any, kinds: str) -> Any:
    """Return what can be called; raise FedkinError for anything else."""
    if not callable(value) or (name == "module" and isinstance(value, nn.Module)):
        raise FedkinError(f"{name} is of type {type(value).__name__}; it should be {kinds}.")
    return value


def network_of(module: ModuleOrName, loss: Any = None) -> Registered | None:
    """Register the network that a user gives, and its training loss; ``None`` for a name without a loss.

    A class or function is called with the shape of a sample and the number of classes, with the latter alone, or with
    nothing, as many as it has parameters without a default.
    """
    if loss is not None:
        _called("loss", loss, "a loss of torch's or a function")
    if isinstance(module, str):
        return None if loss is None else Registered("network", (partial(_by_name, module), loss), module)
    kinds = "a name, a dotted path, or a class or function that makes one, since every model begins with its own"
    factory = partial(_by_function, _called("module", module, kinds))
    return Registered("network", (factory, loss), _name_of(module))


def _name_of(value: Any) -> str:
    return str(getattr(value, "__name__", type(value).__name__))


def _by_name(name: str, shape: tuple[int, ...], classes: int) -> nn.Module:
    return build(choose(shape) if name == "auto" else name, shape, classes)


def _by_function(function: Callable[..., nn.Module], shape: tuple[int, ...], classes: int) -> nn.Module:
    parameters = inspect.signature(function).parameters.values()
    positional = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    required = sum(each.default is each.empty for each in positional)
    return function(*(shape, classes)[max(0, 2 - required) :])


def features_of(features: FeaturesOrName) -> Registered | None:
    """Register the features that a user gives; ``None`` for a name."""
    if isinstance(features, str):
        return None
    function = _called("features", features, "a name, a dotted path, a torch module or a function")
    if isinstance(function, nn.Module):
        function = copy.deepcopy(function).eval()  # which later training of the user's does not change
    return Registered("features", function, _name_of(features))
