"""Options of a user's own method or scenario that an experiment's file could not hold, refused before a run."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ValidationError

from fedkin.core.errors import FedkinError
from fedkin.core.method import Method
from fedkin.core.options import is_function, options_of

FROM_DATA = ("data", "label", "table")
"""Fields of a scenario that the section ``[data]`` gives, ``data`` as ``source``."""
_SCALARS = (bool, int, float, str, Path, Any)


@functools.cache
def check_options(made: type) -> None:
    """Check that a file can hold the options of a method or scenario, but for functions, which only Python can give.

    Raises FedkinError if an option has a name that its section or base class uses itself, or a type that TOML lacks.
    """
    whose = f"'{made.__module__}:{made.__qualname__}' has an option"
    reserved = ("name", *FROM_DATA) if issubclass(made, Method) else ("name",)
    hints = get_type_hints(made, include_extras=True)
    for field in dataclasses.fields(made):
        kind = hints[field.name]
        if field.name in reserved or field.name.startswith("_") or _is_pydantics(field.name):
            raise FedkinError(f"{whose} called '{field.name}', a name that fedkin uses itself; call it otherwise.")
        if field.name in _used_by_bases(made):
            raise FedkinError(
                f"{whose} called '{field.name}', which its base class uses otherwise; give the option another name, or "
                "leave out its annotation if the base's is meant."
            )
        if field.name in FROM_DATA or is_function(kind) or _fits(kind):
            continue
        raise FedkinError(
            f"{whose} '{field.name}' of type {getattr(kind, '__name__', kind)}, which a file cannot hold; options are "
            "numbers, strings, booleans, None, and lists and dicts of them."
        )


def check_defaults(made: type, model: type[BaseModel]) -> None:
    """Check the defaults of a method or scenario by the `model` of its options, which takes them unchecked.

    Raises FedkinError if one does not fit the type that its own annotation declares.
    """
    options = {one.name: one for one in options_of(made) if one.name in model.model_fields}
    given = {name: one.default for name, one in options.items() if one.default is not dataclasses.MISSING}
    try:
        model.model_validate_json(json.dumps(given, default=str))
    except ValidationError as error:
        wrong = next((one["loc"][0] for one in error.errors() if one["type"] != "missing"), None)
        if wrong is not None:
            option = options[str(wrong)]
            more = "or add None to its type, as in int | None" if option.default is None else "or another type"
            raise FedkinError(
                f"'{made.__module__}:{made.__qualname__}' has an option '{wrong}' whose default is {option.default!r}, "
                f"but its type allows {option.allowed}; give it another default, {more}."
            ) from error


def _used_by_bases(made: type) -> set[str]:
    """Return names of functions and class attributes of the bases, which an option would replace."""
    used: set[str] = set()
    for base in made.__mro__[1:-1]:
        own = {field.name for field in dataclasses.fields(base)} if dataclasses.is_dataclass(base) else set()
        attributes = {name for name, kind in inspect.get_annotations(base).items() if "ClassVar" in str(kind)}
        used |= (vars(base).keys() | attributes) - own
    return used


def _is_pydantics(name: str) -> bool:
    """Return whether a field of this name would break the model that checks the options."""
    return name.startswith("model_") and hasattr(BaseModel, name)


def _fits(kind: Any, inside: bool = False) -> bool:
    """Return whether TOML has values of a type; ``None`` is "none" in a file, but not `inside` of lists and dicts."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _fits(parts[0], inside)
    if origin in (Union, UnionType):
        return all(_fits(part, inside) for part in parts)
    if origin is Literal:
        return all(isinstance(value, bool | int | str) for value in parts)
    if kind is NoneType:
        return not inside
    if (origin or kind) in (dict, Mapping):
        return not parts or (_fits(parts[0], True) and _fits(parts[1], True))
    if (origin or kind) in (list, tuple, Sequence):
        return all(_fits(part, True) for part in parts if part is not Ellipsis)
    return kind in _SCALARS
