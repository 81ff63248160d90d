"""Options of a method or scenario, read from its dataclass: allowed values, default and description."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Interval, Le, Lt

_BARE = re.compile(r"[A-Za-z0-9_-]+")
"""Keys that TOML has without quotation marks."""
_SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)
_ENTRY = re.compile(r"^(\S.*)\n((?:(?:[ ].*)?\n)*)", re.MULTILINE)
_BOUNDS = ((Gt, "gt", ">"), (Ge, "ge", ">="), (Lt, "lt", "<"), (Le, "le", "<="))


@dataclass(frozen=True)
class Option:
    """A field of a method or a scenario that a user can set.

    Its `kind` is its type, with the range it carries; its `default` is `dataclasses.MISSING` if it must be given. Its
    `meaning` is the description from the docstring, on one line, with code in single backticks; empty if there is none.
    """

    name: str
    kind: Any
    default: Any
    meaning: str

    @property
    def allowed(self) -> str:
        """Allowed types and ranges in words, such as ``int >= 1 or "auto"``, with values as TOML writes them."""
        return self.allowed_in(toml_text)

    def allowed_in(self, spell: Callable[[Any], str]) -> str:
        """Return the same as `allowed`, with each value as `spell` writes it."""
        return " or ".join(_allowed(self.kind, spell))

    @property
    def default_text(self) -> str:
        """The default as TOML writes it; empty if there is none."""
        return "" if self.default is dataclasses.MISSING else toml_text(self.default)


def options_of(made: type[Any]) -> list[Option]:
    """Return the options of the dataclass `made`, in the order of its fields.

    Fields that take a function are no options, as only Python can give them.
    """
    kinds, meanings = get_type_hints(made, include_extras=True), meanings_of(made)
    return [
        Option(field.name, kinds[field.name], _default(field), meanings.get(field.name, ""))
        for field in dataclasses.fields(made)
        if field.init and not is_function(kinds[field.name])
    ]


def is_function(kind: Any) -> bool:
    """Return whether a type is a callable, or a union with one."""
    return any(get_origin(part) is Callable for part in (kind, *get_args(kind)))


def first_sentences(made: type[Any]) -> str:
    """Return the first paragraph of a class's docstring, on one line."""
    return " ".join(inspect.cleandoc(made.__doc__ or "").partition("\n\n")[0].split())


def toml_text(value: Any) -> str:
    """Return a value as TOML writes it, on one line."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_key(name)} = {toml_text(own)}' for name, own in value.items())}}}"
    return json.dumps("none" if value is None else value, ensure_ascii=False)


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else toml_text(name)


def _default(field: dataclasses.Field[Any]) -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def _allowed(kind: Any, spell: Callable[[Any], str], bounds: Sequence[Any] = ()) -> list[str]:
    """Return what a type allows, one text for each member of a union."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _allowed(parts[0], spell, parts[1:])
    if origin in (Union, UnionType):
        return [text for part in parts for text in _allowed(part, spell)]
    if origin is Literal:
        return [spell(value) for value in parts]
    if kind is NoneType:
        return [spell(None)]
    if origin in (list, tuple):
        return [f"list of {' or '.join(_allowed(parts[0], spell))}"]
    return [_ranged(getattr(origin or kind, "__name__", str(kind)), bounds)]


def _ranged(name: str, bounds: Sequence[Any]) -> str:
    """Return a type's name with its range, such as ``float > 0 and <= 1``."""
    sides = [
        f"{sign} {limit}"
        for bound in bounds
        for kind, side, sign in _BOUNDS
        if isinstance(bound, (kind, Interval)) and (limit := getattr(bound, side)) is not None
    ]
    return f"{name} {' and '.join(sides)}" if sides else name


def meanings_of(made: type[Any]) -> dict[str, str]:
    """Return the ``Attributes`` descriptions of a class and its bases, by name; the class overrides its bases."""
    found: dict[str, str] = {}
    for one in reversed(made.__mro__):
        for head, lines in section_entries(inspect.cleandoc(one.__doc__ or ""), "Attributes"):
            names = head.partition(" : ")[0].split(", ")
            found |= dict.fromkeys(names, " ".join(lines.split()).replace("``", "`"))
    return found


def section_entries(text: str, title: str) -> list[tuple[str, str]]:
    """Return the entries of one section of a numpydoc docstring: heads, such as ``a, b : float``, and their lines."""
    pieces = _SECTION.split(text)  # what stands before the first section, then titles and bodies
    return _ENTRY.findall(dict(zip(pieces[1::2], pieces[2::2], strict=True)).get(title, "") + "\n")
