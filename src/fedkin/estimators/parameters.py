"""Signature and docstring of an estimator, made from its options, and errors about unknown parameters."""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Iterable, Sequence
from typing import Any

from fedkin.core.errors import hint, nearest
from fedkin.core.options import Option, section_entries
from fedkin.estimators.other_libraries import ELSEWHERE, OF_FIT, PARAMETERS

_ATTRIBUTES = re.compile(r"^Attributes\n-{3,}\n(.*?)(?=^\w+\n-{3,}\n|\Z)", re.MULTILINE | re.DOTALL)
_FIRST_SECTION = re.compile(r"^(?=\w+\n-{3,}\n)|\Z", re.MULTILINE)


def initialiser(name: str, options: Sequence[Option]) -> Any:
    """Build an ``__init__`` with a keyword for every option, types and defaults included."""
    defaults = {option.name: option.default for option in options}

    def __init__(self: Any, **given: Any) -> None:  # noqa: N807
        for option in given:
            if option not in defaults:
                raise TypeError(no_parameter(name, option, defaults))
        vars(self).update(copy.deepcopy(defaults) | given)  # a list is no two estimators' at once

    keywords = [
        inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=one.kind)
        for one in options
    ]
    myself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    __init__.__signature__ = inspect.Signature([myself, *keywords], return_annotation=None)  # type: ignore[attr-defined]
    __init__.__qualname__ = f"{name}.__init__"
    return __init__


def no_parameter(estimator: str, name: str, known: Iterable[str]) -> str:
    """Write the error about an unknown parameter, which suggests a similar one."""
    known = sorted(known)
    if name in OF_FIT:
        return f"{estimator} has no parameter '{name}'; it is an argument of fit."
    if name in ELSEWHERE:
        return f"{estimator} has no parameter '{name}'; {ELSEWHERE[name]}"
    meant = PARAMETERS.get(name)
    meant = meant if meant is not None and meant in known else nearest(name, known)
    end = hint(meant, f"it has {', '.join(known)}")
    return f"{estimator} has no parameter '{name}'; {end}"


def with_parameters(text: str, options: Sequence[Option]) -> str:
    """Insert a section ``Parameters`` into a docstring before its other sections."""
    entries = [f"{one.name} : {one.allowed_in(repr)}, default {one.default!r}\n    {one.meaning}\n" for one in options]
    section = "Parameters\n----------\n" + "".join(entries) + "\n"
    return _with_first_section(inspect.cleandoc(text), section)


def with_attributes(text: str, bases: Iterable[str]) -> str:
    """Add the entries of the bases' ``Attributes`` sections to that of a docstring.

    Of entries with the same name the first one is kept.
    """
    text = inspect.cleandoc(text)
    entries: dict[str, str] = {}
    for one in (text, *map(inspect.cleandoc, bases)):
        for head, body in section_entries(one, "Attributes"):
            entries.setdefault(head.partition(" : ")[0], f"{head}\n{body.rstrip()}\n")
    if not entries:
        return text
    section = "Attributes\n----------\n" + "".join(entries.values()) + "\n"
    if _ATTRIBUTES.search(text):
        return _ATTRIBUTES.sub(lambda _: section, text).rstrip()
    return _with_first_section(text, section).rstrip()


def _with_first_section(text: str, section: str) -> str:
    summary, *rest = _FIRST_SECTION.split(text, maxsplit=1)
    return "".join([summary.rstrip() + "\n\n", section, *rest])
