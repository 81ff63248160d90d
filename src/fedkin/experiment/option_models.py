"""Pydantic models made from dataclasses, which check users' settings and turn errors into sentences."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from types import NoneType
from typing import Any, get_args, get_type_hints

from pydantic import BaseModel, Field, ValidationError, create_model

from fedkin.core.doors import current_door, flag
from fedkin.core.errors import FedkinError
from fedkin.core.method import BeginsWithClusters
from fedkin.core.options import Option, is_function, meanings_of, validation_sentence
from fedkin.experiment.own_options import FROM_DATA, check_defaults, check_options
from fedkin.experiment.registry import resolve
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
