"""A method: hyper-parameters plus three functions, with all progress in an explicit state."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Protocol, Self, TypeVar, runtime_checkable

from annotated_types import Ge, Gt, Interval

from fedkin.core.federation import Federation
from fedkin.core.record import Record

Count = Annotated[int, Ge(1)]
Positive = Annotated[float, Gt(0)]
Fraction = Annotated[float, Interval(ge=0, le=1)]
"""Types for hyper-parameters; configurations and estimators check the ranges they carry."""


@dataclass(frozen=True)
class State:
    """Everything a method knows on the server; subclasses add fields that `fedkin.core.payload.pack` can write.

    Attributes
    ----------
    steps : int
        Steps done.
    finished : bool
        Whether the method has come to its own end.
    """

    steps: int = 0
    finished: bool = False

    def next(self, **changes: Any) -> Self:
        """The state after one more step, with `changes` applied."""
        return dataclasses.replace(self, steps=self.steps + 1, **changes)

    def tree(self) -> dict[str, Any]:
        """The fields by name, ready for `pack`."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}


S = TypeVar("S", bound=State)


@runtime_checkable
class Method(Protocol[S]):
    """A federated algorithm as a frozen dataclass of hyper-parameters.

    It reaches clients only through the federation and never sees ground truth.
    """

    state_type: ClassVar[type[State]]

    def init(self, fed: Federation) -> S:
        """Prepare the clients and return the first state."""
        ...

    def step(self, fed: Federation, state: S) -> tuple[S, Record]:
        """Do one iteration; `fed` and `state` are all it may depend on."""
        ...

    def result(self, state: S) -> dict[str, Any]:
        """What the method found, as a tree of tensors and plain values."""
        ...


def display_name(method: type[Any]) -> str:
    """What a method's class is called in sentences: ``KFed`` for `KFedMethod`, as its estimator is."""
    return method.__name__.removesuffix("Method")


def has_device(method: type[Any]) -> bool:
    """Whether a method's networks compute on `fedkin.core.device.device`, as its class variable `has_device` says."""
    return getattr(method, "has_device", False)


@runtime_checkable
class Concluding(Protocol):
    """A method whose clients are told something at its end, such as the clusters of their samples.

    Its last step calls `conclude`, and so does a run that ends early because its target is reached.
    """

    def conclude(self, fed: Federation, state: Any) -> None:
        """Tell every client what `state` has come to."""
        ...
