"""Advice of errors and notes in terms of Python: the option of a run that they name is done otherwise there."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from fedkin.core.errors import FedkinError

_GIVE = "and give the DataFrames"


def _loaded(toml: str) -> Any:
    return tomllib.loads(f"value = {toml}")["value"]


_WORDS: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (
        re.compile(r"\bset decimal = ','(?: \(files[^)]*\))?"),
        f"read the files with pandas.read_csv(..., decimal=',') {_GIVE}",
    ),
    (
        re.compile(r"\bset encoding = ('[^']+') or what it is in"),
        rf"read the files with pandas.read_csv(..., encoding=\1), or what they are in, {_GIVE}",
    ),
    (
        re.compile(r"\bset dayfirst = true or false"),
        f"convert them by pandas.to_datetime(..., dayfirst=True) or False {_GIVE}",
    ),
    (re.compile(r"\bset sheet = ('[^']+') or another"), rf"read it with pandas.read_excel(..., sheet_name=\1) {_GIVE}"),
    (re.compile(r"\b(name (?:it|them)) in na_values"), rf"\1 in pandas.read_csv(..., na_values=[...]) {_GIVE}"),
    (
        re.compile(r"\bset na_values = (\{.*?\]\})"),
        lambda found: f"read the files with pandas.read_csv(..., na_values={_loaded(found[1])}) {_GIVE}",
    ),
    (re.compile(r"\bdata\.label = ('none')"), r"y=\1"),
    (re.compile(r"\bwith 'data\.label'"), "with y"),
    (re.compile(r"\bdata\.label\b"), "y"),
    (re.compile(r" \(data\.min_members\)"), ""),
)
"""What is said of a run, and what instead in Python."""


def in_python(text: str) -> str:
    """Return an error or a note with what it advises in terms of Python."""
    for form, words in _WORDS:
        text = form.sub(words, text)
    return text


@contextmanager
def python_advice() -> Iterator[None]:
    """Have what errors advise in terms of Python; a context manager around reading data."""
    try:
        yield
    except FedkinError as error:
        error.args = (in_python(str(error)),)
        raise
