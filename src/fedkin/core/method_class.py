"""Checks of a method's class before there is an instance: its annotations, class attributes and functions."""

from __future__ import annotations

import dataclasses
import inspect
from types import FunctionType
from typing import Any, get_type_hints

from fedkin.core.errors import FedkinError

_ATTRIBUTES = {"clusters": ("samples", "clients", None), "cost": ("cheap", "costly")}
"""Class attributes with few values, and these."""
_CALLED = {"init": ("fed",), "step": ("fed", "state"), "result": ("state",)}
"""Functions that every method has, and what they are called with."""


def check_annotations(made: type[Any], name: str) -> None:
    """Raise FedkinError if an annotation of a dataclass, called `name`, has a name that its module lacks."""
    try:
        get_type_hints(made, include_extras=True)
    except NameError as error:
        raise FedkinError(
            f"'{name}' has an annotation whose type is not known: {error}; import it outside of `if TYPE_CHECKING:`."
        ) from error


def check_class(made: type[Any]) -> None:
    """Check that the class of a method can be used as one.

    Raises FedkinError if a class attribute has a value that nothing knows, a function takes other arguments than it is
    called with, or one that is called without an instance, such as `predict`, needs one.
    """
    options = {one.name for one in dataclasses.fields(made)}  # whose names are checked with their types
    for attribute, allowed in _ATTRIBUTES.items():
        if attribute not in options and getattr(made, attribute) not in allowed:
            listed = " or ".join("None" if value is None else f'"{value}"' for value in allowed)
            raise FedkinError(f"{made.__name__}.{attribute} is {getattr(made, attribute)!r}; it should be {listed}.")
    for function, given in _CALLED.items():
        if function not in options and not _takes(getattr(made, function), len(given) + 1):
            raise FedkinError(
                f"{made.__name__}.{function} should take {' and '.join(given)}, as in "
                f"def {function}({', '.join(('self', *given))})."
            )
    for one in made.__mro__:
        for name, value in vars(one).items():
            if isinstance(value, FunctionType) and (kind := _kind_of_base(one, name)) is not None:
                raise FedkinError(
                    f"{one.__name__}.{name} is called without an instance; write @{kind} above it"
                    f"{', and leave out self' if kind == 'staticmethod' else ', and cls in place of self'}."
                )


def _takes(function: Any, count: int) -> bool:
    """Return whether a function can be called with so many positional arguments."""
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    return True


def _kind_of_base(made: type[Any], name: str) -> str | None:
    """Return the decorator that a class's bases have above a function, if it is called without an instance."""
    for base in made.__mro__[1:]:
        if isinstance(found := vars(base).get(name), staticmethod | classmethod):
            return type(found).__name__
    return None
