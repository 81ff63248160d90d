"""Options as they are declared, by a dataclass or a section: name, type, range, default and meaning, read once."""

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

from fedkin.core.errors import FedkinError, hint, listing, meant_by, nearest_few, toml_text, unknown_name

_BOUNDS = ((Gt, "gt", ">"), (Ge, "ge", ">="), (Lt, "lt", "<"), (Le, "le", "<="))


@dataclass(frozen=True)
class Option:
    """An option that a user can set.

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


_VARIANT = Option(
    "variant",
    Literal["fedkin", "paper"],
    "fedkin",
    "Whose form options have that are not given: fedkin's defaults, or what the method's paper, or its published code, "
    "has where it differs. In Python an option at its default is not given.",
)


def options_of(declared: type[Any]) -> list[Option]:
    """Return the options of a dataclass, or of a pydantic model, in the order of its fields; a method's `variant` last.

    Fields that take a function are no options, as only Python can give them.
    """
    kinds, meanings = get_type_hints(declared, include_extras=True), meanings_of(declared)
    if dataclasses.is_dataclass(declared):
        fields = [field for field in dataclasses.fields(declared) if field.init]
        missing = dataclasses.MISSING
        defaults = {
            field.name: field.default if field.default_factory is missing else field.default_factory()
            for field in fields
        }
    else:
        defaults = {name: field.get_default(call_default_factory=True) for name, field in declared.model_fields.items()}
    options = [
        Option(name, kinds[name], default, meanings.get(name, ""))
        for name, default in defaults.items()
        if not any(get_origin(part) is Callable for part in (kinds[name], *get_args(kinds[name])))
    ]
    has_variant = hasattr(declared, "traits") and _VARIANT.name not in defaults
    return [*options, _VARIANT] if has_variant else options


def first_sentences(declared: type[Any]) -> str:
    """Return the first paragraph of a class's docstring, on one line."""
    return " ".join(inspect.cleandoc(declared.__doc__ or "").partition("\n\n")[0].split())


def _allowed(kind: Any, spell: Callable[[Any], str], bounds: Sequence[Any] = ()) -> list[str]:
    """Return what a type allows, one text for each member of a union; a number with its range."""
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
    sides = [
        f"{sign} {limit}"
        for bound in bounds
        for kind_of_bound, side, sign in _BOUNDS
        if isinstance(bound, (kind_of_bound, Interval)) and (limit := getattr(bound, side)) is not None
    ]
    return [" ".join([getattr(origin or kind, "__name__", str(kind)), " and ".join(sides)]).rstrip()]


def meanings_of(declared: type[Any]) -> dict[str, str]:
    """Return the ``Attributes`` descriptions of a class and its bases, by name; the class overrides its bases."""
    meanings: dict[str, str] = {}
    for base in reversed(declared.__mro__):
        for head, lines in section_entries(inspect.cleandoc(base.__doc__ or ""), "Attributes"):
            names = head.partition(" : ")[0].split(", ")
            meanings |= dict.fromkeys(names, " ".join(lines.split()).replace("``", "`"))
    return meanings


def section_entries(text: str, title: str) -> list[tuple[str, str]]:
    """Return the entries of one section of a numpydoc docstring: heads, such as ``a, b : float``, and their lines."""
    pieces = re.split(
        r"^(\w[\w ]*)\n-{3,}\n", text, flags=re.MULTILINE
    )  # text before the first section, titles and bodies
    body = dict(zip(pieces[1::2], pieces[2::2], strict=True)).get(title, "")
    return re.findall(r"^(\S.*)\n((?:(?:[ ].*)?\n)*)", body + "\n", re.MULTILINE)


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
        return _unknown_key(path, place, list(allowed))
    if first["type"] == "missing":
        return FedkinError(f"'{path}' has no default; give it {place}{example.format(path=path)}.")
    value = values
    for part in key:
        if isinstance(value, Mapping) and part not in value:  # a default that its own type does not allow
            value, place = first["input"], "by default"
            break
        value = value[part]
    branches = [problem for problem in problems if problem["loc"][:depth] == key]
    # Pydantic says "Input should be ..." or "List should have ...", of each branch of a union.
    rules = [problem["msg"].partition(" should ")[2].removeprefix("be ") or problem["msg"] for problem in branches]
    rule = " or ".join(dict.fromkeys(rules))
    if isinstance(value, str) and any(problem["type"] in ("list_type", "tuple_type") for problem in branches):
        parts = [part.strip(" '\"") for part in value.strip("[]").split(",")]
        rule = f"a list, such as {toml_text(parts)}{' between single quotes' if value.startswith('[') else ''}"
    verb = "should" if rule.startswith("have ") else "should be"
    return FedkinError(f"'{path}' is {_quoted(value)} {place}; it {verb} {rule}.")


def _unknown_key(path: str, place: str, paths: list[str]) -> FedkinError:
    """Return the error for an unknown key, with the one that is probably meant.

    A key of a section that exists is compared with those of the section alone: its own name would make all alike.
    """
    if not paths:
        return FedkinError(f"'{path}' {place} is no known key.")
    section, _, key = path.rpartition(".")
    inside = [each for each in paths if section and each.startswith(f"{section}.")]
    if not inside:
        return unknown_name(f"key {place}:", path, paths)
    keys = [each.removeprefix(f"{section}.") for each in inside]
    meant = meant_by(key, keys)
    near = key if key in paths else meant and f"{section}.{meant}"
    few = f"allowed: {listing(sorted(inside))}"
    allowed = few if len(inside) <= 8 else nearest_few(key, keys, "`fedkin run METHOD --dry-run`")
    return FedkinError(f"Unknown key {place}: '{path}'; {hint(near, allowed)}")


def _quoted(value: Any) -> str:
    """Return a value as Python writes it, but a text's backslashes as they were typed, which Python would double."""
    return f"'{value}'" if isinstance(value, str) and "\\" in value and value.isprintable() else repr(value)
