"""Pydantic models made from dataclasses, which check users' settings and turn errors into sentences."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, Field, ValidationError, create_model

from fedkin.core.doors import current_door, flag
from fedkin.core.errors import FedkinError, listing, nearest
from fedkin.core.method import BeginsWithClusters, Method
from fedkin.core.options import Option, is_function, meanings_of, options_of, validation_sentence
from fedkin.experiment import registry
from fedkin.experiment.registry import is_declared, resolve
from fedkin.experiment.sections import STRICT


def model_of(made: type[Any], name: str) -> type[BaseModel]:
    """Build a pydantic model of the dataclass `made`, without fields that only ``[data]`` or Python can set.

    Raises FedkinError as `check_options` and `check_defaults` do.
    """
    check_options(made)  # type: ignore[arg-type]
    hints = get_type_hints(made, include_extras=True)
    fields: dict[str, Any] = {"name": (str, name)}
    for field in dataclasses.fields(made):
        kind = hints[field.name]
        if field.name in FROM_DATA or is_function(kind):
            continue
        if field.default_factory is not dataclasses.MISSING:
            fields[field.name] = (kind, Field(default_factory=field.default_factory))
        else:
            fields[field.name] = (kind, ... if field.default is dataclasses.MISSING else field.default)
    model = create_model(made.__name__, __config__=STRICT, **fields)
    check_defaults(made, model)
    return model


def built(made: type[Any], options: BaseModel, **more: Any) -> Any:
    """Build an instance of the dataclass `made` from checked options and `more` fields.

    A method that begins with another's clusters is given the class of the other.
    """
    instance = made(**{**{name: value for name, value in options if name != "name"}, **more})
    if isinstance(instance, BeginsWithClusters) and (name := instance.first_method()):
        return instance.with_first(resolve("method", name))
    return instance


def with_none(tables: dict[str, Any], model: type[BaseModel]) -> dict[str, Any]:
    """Replace "none" by ``None`` in `tables` where the field allows it."""
    read = dict(tables)
    for name, field in model.model_fields.items():
        kind, value = field.annotation, read.get(name)
        if isinstance(value, dict) and isinstance(kind, type) and issubclass(kind, BaseModel):
            read[name] = with_none(value, kind)
        elif value == "none" and NoneType in get_args(kind):
            read[name] = None
    return read


def plain_tables(value: Any) -> Any:
    """Replace ``None`` by "none" in `value`, as TOML has no ``None``."""
    if isinstance(value, dict):
        return {key: plain_tables(item) for key, item in value.items()}
    return "none" if value is None else value


def flat(tables: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the path of each value in nested tables, such as ``"method.local_epochs"``, and the value."""
    for key, value in tables.items():
        if isinstance(value, dict):
            yield from flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def sentence_of(
    error: ValidationError, model: type[BaseModel], tables: dict[str, Any], places: dict[str, str], depth: int = 2
) -> FedkinError:
    """Convert pydantic's first error about `tables` to a `FedkinError`; see `validation_sentence`."""
    allowed = [*model.model_fields, *_allowed(model)]
    example = f", as in {flag('set')} {{path}}=value"
    return validation_sentence(error, tables, allowed, current_door().place, places, depth, example)


def _allowed(model: type[BaseModel]) -> list[str]:
    allowed: list[str] = []
    for name, field in model.model_fields.items():
        section = field.annotation
        inside = section.model_fields if isinstance(section, type) and issubclass(section, BaseModel) else {}
        allowed += [f"{name}.{key}" for key in inside] or [name]
    return allowed


def options_of_section(section: type[BaseModel]) -> list[Option]:
    """List the options of a configuration section, in the order of its fields."""
    kinds, meanings = get_type_hints(section, include_extras=True), meanings_of(section)
    return [
        Option(name, kinds[name], field.get_default(call_default_factory=True), meanings.get(name, ""))
        for name, field in section.model_fields.items()
    ]


# Options of a user's own method or scenario that an experiment's file could not hold, refused before a run.


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


# Options that were given to a method or scenario, and that others have.


_NAMED = 4


def check_owners(kind: registry.Kind, default: str, tables: Mapping[str, Any], places: Mapping[str, str]) -> None:
    """Raise FedkinError if an option belongs to other methods or scenarios than that of its section.

    `tables` are the sections; `default` is the name of the method or scenario where its section has none. Misspelt
    names of its own options are left to other checks. `places` say where keys were given: "on the command line".
    """
    section = tables.get(kind, {})
    name = str(section.get("name", default))
    own = _options(kind, name)
    for key in section:
        if key in own or nearest(key, own) or not is_declared(key):
            continue
        names = registry.METHODS if kind == "method" else registry.SCENARIOS
        if owners := [f"'{other}'" for other in names if key in _options(kind, other)]:
            place = places.get(f"{kind}.{key}", places.get(kind, ""))
            raise FedkinError(
                f"'{kind}.{key}'{f' {place}' if place else ''} is no option of {kind} '{name}', but of "
                f"{listing(owners, _NAMED)}; `fedkin list {name}` shows its own."
            )


def _options(kind: registry.Kind, name: str) -> set[str]:
    return {"name", *(option.name for option in options_of(registry.declared(kind, name)))}
