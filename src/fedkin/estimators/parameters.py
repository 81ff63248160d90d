"""Parameters of estimators: those that all have, signatures and docstrings made of them, errors about unknown ones."""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from fedkin.core.errors import hint, nearest, nearest_few
from fedkin.core.options import Option, section_entries
from fedkin.estimators.other_libraries import ELSEWHERE, OF_FIT, PARAMETERS

_ATTRIBUTES = re.compile(r"^Attributes\n-{3,}\n(.*?)(?=^\w+\n-{3,}\n|\Z)", re.MULTILINE | re.DOTALL)
_FIRST_SECTION = re.compile(r"^(?=\w+\n-{3,}\n)|\Z", re.MULTILINE)


@dataclass(frozen=True)
class EstimatorOptions:
    """Parameters of every estimator beside its method's; `device` only where the method uses one.

    Attributes
    ----------
    scaling : {"auto", "standard", "none"}
        How samples are scaled: "auto" keeps data in [0, 1] as they are, divides columns in one unit, such as pixels, by
        one scale, and standardises others, with statistics that clients send, where a few values far from all others
        count as a limit; "standard" standardises all columns, without limits.
    drop : list of str
        Columns of DataFrames that are left out.
    id : str
        The column of DataFrames that names rows and is no feature; "auto" to recognise it, "none" if there is none.
    categorical : list of str
        Columns whose values are names, also where they are numbers.
    ordinal : dict of str to list of str, or None
        By column, its levels in order, from the lowest.
    log : list of str
        Columns of numbers above 0 that are compared by their logarithms, so by ratios instead of differences.
    log1p : list of str
        The same for columns with zeros: the logarithms are those of 1 + x.
    lacking : {"drop", "impute"}
        What happens to a column that a client lacks or that is mostly empty.
    imputation : {"neighbours", "median"}
        What empty cells take: the mean of the five most similar rows of the same client, or the median or most frequent
        value of all clients, as empty cells of new rows always do, and with an ``epsilon``.
    indicator : bool
        Whether a column with empty cells gets an indicator column for them.
    random_state : int, RandomState or None
        Seed; the same number gives the same result, here and as ``--seed`` of the command line.
    device : str or torch.device
        Where networks and kin-graph's large searches compute: "cpu", what torch calls a GPU, such as "cuda", or "auto",
        a GPU if there is one.
    verbose : bool
        Whether to show progress on stderr.
    """

    scaling: Literal["auto", "standard", "none"] = "auto"
    drop: Sequence[str] = ()
    id: str = "auto"
    categorical: Sequence[str] = ()
    ordinal: Mapping[str, Sequence[str]] | None = None
    log: Sequence[str] = ()
    log1p: Sequence[str] = ()
    lacking: Literal["drop", "impute"] = "drop"
    imputation: Literal["neighbours", "median"] = "neighbours"
    indicator: bool = False
    random_state: int | np.random.RandomState | None = None
    device: str | torch.device = "cpu"
    verbose: bool = False


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
    end = hint(meant, nearest_few(name, known, f"help({estimator})"))
    return f"{estimator} has no parameter '{name}'; {end}"


def with_parameters(text: str, options: Sequence[Option]) -> str:
    """Insert a section ``Parameters`` into a docstring before its other sections."""
    entries = [
        f"{one.name} : {one.allowed_in(repr)}, default {one.default!r}\n" + (one.meaning and f"    {one.meaning}\n")
        for one in options
    ]
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
