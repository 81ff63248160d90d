"""Options of a method or scenario, read from its dataclass: allowed values, default and description."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Interval, Le, Lt
from pydantic import ValidationError

from fedkin.core.aliases import meant_by
from fedkin.core.doors import toml_text
from fedkin.core.errors import FedkinError, hint, listing, nearest_few, unknown_name

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


# Pydantic's validation errors as one sentence for the user.


_WORDS = {
    "an object": "a section",
    "array": "list",
    "String should have": "a string of",
    "List should have": "a list of",
    " after validation": "",
}
"""Pydantic's words, and the words for users of TOML files that replace them."""
_FEW = 8
"""Keys of a section that one line still holds; of more, the nearest are named."""
_SHOWS_ALL = "`fedkin run METHOD --dry-run`"


def validation_sentence(
    error: ValidationError,
    values: Any,
    allowed: Iterable[str],
    place: str,
    places: Mapping[str, str] | None = None,
    depth: int | None = None,
    example: str = "",
) -> FedkinError:
    """Return pydantic's first complaint as an error of one sentence; unknown keys come before anything else.

    `values` are the validated tables and lists, and `allowed` the paths of their keys; the nearest to an unknown one is
    suggested, if there are any. `place` says where they were given, such as "in FILE", and `places` the same of single
    keys, by path or section. Below the `depth` of the keys, pydantic names branches of a union and positions in a list.
    """
    problems = error.errors(include_url=False)
    first = next((problem for problem in problems if problem["type"] == "extra_forbidden"), problems[0])
    key = first["loc"][:depth]
    path = ".".join(map(str, key))
    place = (places or {}).get(path, (places or {}).get(path.split(".")[0], place))
    if first["type"] == "extra_forbidden":
        known = list(allowed)
        return _unknown_key(path, place, known)
    if first["type"] == "missing":
        return FedkinError(f"'{path}' has no default; give it {place}{example.format(path=path)}.")
    value = values
    for part in key:
        value = value[part]
    same = [problem["msg"] for problem in problems if problem["loc"][:depth] == key]
    wanted = " or ".join(dict.fromkeys(message.removeprefix("Input should be ") for message in same))
    for theirs, ours in _WORDS.items():
        wanted = wanted.replace(theirs, ours)
    if isinstance(value, str):
        bare = " (in the shell, between double quotes)" if value.startswith("[") else ""
        parts = [part.strip(" '\"") for part in value.strip("[]").split(",")]
        wanted = wanted.replace("a valid list", f"a list, such as [{', '.join(map(_quoted, parts))}]{bare}")
    shown = _quoted(value) if isinstance(value, str) else repr(value)
    return FedkinError(f"'{path}' is {shown} {place}; it should be {wanted}.")


def _unknown_key(path: str, place: str, known: list[str]) -> FedkinError:
    """Return the error for an unknown key, with the one that is probably meant.

    A key of a section that exists is compared with those of the section alone: its own name would make all alike.
    """
    if not known:
        return FedkinError(f"'{path}' {place} is no known key.")
    section, _, key = path.rpartition(".")
    own = [each for each in known if section and each.startswith(f"{section}.")]
    if not own:
        return unknown_name(f"key {place}:", path, known)
    keys = [each.removeprefix(f"{section}.") for each in own]
    meant = meant_by(key, keys)
    found = key if key in known else meant and f"{section}.{meant}"
    allowed = f"allowed: {listing(sorted(own))}" if len(own) <= _FEW else nearest_few(key, keys, _SHOWS_ALL)
    return FedkinError(f"Unknown key {place}: '{path}'; {hint(found, allowed)}")


def _quoted(text: str) -> str:
    """Return a text in quotes, with backslashes as they were typed, which Python would double."""
    return f"'{text}'" if "\\" in text and text.isprintable() else repr(text)
