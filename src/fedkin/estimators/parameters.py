"""The parameters of an estimator: signature, docstring, and what is said of one that does not exist."""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Iterable, Sequence
from typing import Any

from fedkin.core.errors import hint, nearest
from fedkin.core.options import Option, section_entries
from fedkin.estimators.other_names import ELSEWHERE, OF_FIT, PARAMETERS

_ATTRIBUTES = re.compile(r"^Attributes\n-{3,}\n(.*?)(?=^\w+\n-{3,}\n|\Z)", re.MULTILINE | re.DOTALL)
_FIRST_SECTION = re.compile(r"^(?=\w+\n-{3,}\n)|\Z", re.MULTILINE)


def initialiser(name: str, options: Sequence[Option]) -> Any:
    """An ``__init__`` with a keyword for every option, types and defaults included."""
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
    """A sentence that names the parameter that was meant, if there is one like it."""
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
    """A docstring with a section ``Parameters`` before its other sections."""
    entries = [f"{one.name} : {one.allowed_in(repr)}, default {one.default!r}\n    {one.meaning}\n" for one in options]
    section = "Parameters\n----------\n" + "".join(entries) + "\n"
    return _with_first_section(inspect.cleandoc(text), section)


def with_attributes(text: str, bases: Iterable[str]) -> str:
    """A docstring whose section ``Attributes`` has the entries of the bases, too, after its own.

    Of entries of one name the first counts.
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
