"""How options are named where a user came in: in a file, in the shell or in Python.

Sentences on data are made deep inside, and who reads them came by one of several doors. A sentence that names an option
is made of `option`, `setting` or `flag`, which name it as the door of the running code does; no finished sentence is
ever changed.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ClassVar

_BARE = re.compile(r"[A-Za-z0-9_-]+")
"""Keys that TOML has without quotation marks."""


def toml_text(value: Any, blank: str = " ") -> str:
    """Return a value as TOML writes it, on one line; `blank` stands beside separators."""
    if isinstance(value, Mapping):
        items = (f"{_key(name)}{blank}={blank}{toml_text(item, blank)}" for name, item in value.items())
        return f"{{{f',{blank}'.join(items)}}}"
    return json.dumps("none" if value is None else value, ensure_ascii=False, separators=(f",{blank}", f":{blank}"))


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else toml_text(name)


class Door:
    """Door of those who write files: an experiment's, or a site's own. Keys of section ``[data]`` stand alone.

    Attributes
    ----------
    verb : str
        What a user does with an option.
    place : str
        Where settings beside those of a file are given.
    lacks : set of str
        Options that there are not.
    """

    verb = "set"
    place = "on the command line"
    lacks: frozenset[str] = frozenset()

    def name(self, key: str) -> str:
        """Return the name of an option."""
        return key

    def given(self, key: str, value: Any) -> str:
        """Return an option with a value."""
        return f"{key} = {toml_text(value)}"

    def setting(self, key: str, value: Any) -> str:
        """Return what to do to give an option a value, as a clause."""
        return f"{self.verb} {self.given(key, value)}"

    def flag(self, name: str) -> str:
        """Return the name of an option of a command or argument of a function; ``set`` stands for any setting."""
        return f"--{name}"


class Shell(Door):
    """Door of commands that take ``--set``."""

    verb = "give"

    def name(self, key: str) -> str:
        return key if "." in key else f"data.{key}"

    def given(self, key: str, value: Any) -> str:
        return f"--set {self._assigned(self.name(key), value, '=')}"

    @staticmethod
    def _assigned(name: str, value: Any, between: str) -> str:
        if isinstance(value, str):
            apart = "'" + value.replace("'", "'\"'\"'") + "'"  # also where a sign would be taken for the sentence's
            return f"{name}{between}{value if value.isalnum() else apart}"
        return shlex.quote(f"{name}{between}{toml_text(value, '')}")  # without blanks it stays on one line


class NewRows(Shell):
    """Door of commands on new rows, which take options for reading as flags."""

    def given(self, key: str, value: Any) -> str:
        if key in ("decimal", "encoding", "sheet"):
            return f"--{self._assigned(key, value, ' ')}"
        return super().given(key, value)


class Python(Door):
    """Door of estimators, which take DataFrames: files are read by pandas, with its options."""

    lacks = frozenset({"federation.forgotten", "min_members"})
    _names: ClassVar = {"label": "y", "na_values": "pandas.read_csv(..., na_values=[...])"}
    _others: ClassVar = {",": ".", ".": ","}

    def name(self, key: str) -> str:
        return self._names.get(key, key)

    def given(self, key: str, value: Any) -> str:
        return f"{self.name(key)}={value!r}"

    def setting(self, key: str, value: Any) -> str:
        if key == "sheet":
            return f"read the file with pandas.read_excel(..., sheet_name={value!r}) and give the DataFrame"
        if key == "dayfirst":
            return f"convert them by pandas.to_datetime(..., dayfirst={value!r})"
        if key in ("decimal", "encoding", "header", "na_values"):
            more = f", thousands={self._others[value]!r}" if key == "decimal" else ""
            value = None if key == "header" else value
            return f"read the files with pandas.read_csv(..., {key}={value!r}{more}) and give the DataFrames"
        return super().setting(key, value)


class Compare(Python):
    """Door of `fedkin.compare`, which takes files and has settings."""

    place = "in settings"
    lacks = frozenset()
    _arguments: ClassVar = {"clusters": "n_clusters", "set": "settings"}

    def name(self, key: str) -> str:
        return "y" if key == "label" else f"{key if '.' in key else f'data.{key}'} in settings"

    def given(self, key: str, value: Any) -> str:
        if key == "label":
            return f"y={value!r}"
        return f"settings={{{(key if '.' in key else f'data.{key}')!r}: {value!r}}}"

    def setting(self, key: str, value: Any) -> str:
        return Door.setting(self, key, value)

    def flag(self, name: str) -> str:
        return self._arguments.get(name, name)


FILE, SHELL, NEW_ROWS, PYTHON, COMPARE = Door(), Shell(), NewRows(), Python(), Compare()

_door: ContextVar[Door] = ContextVar("door", default=FILE)


@contextmanager
def at_door(door: Door) -> Iterator[None]:
    """Have sentences name options as this door does; a context manager and decorator."""
    token = _door.set(door)
    try:
        yield
    finally:
        _door.reset(token)


def current_door() -> Door:
    """Return the door of the running code."""
    return _door.get()


def option(key: str, value: Any = ...) -> str:
    """Return an option of section ``[data]``, or with another section before it, with its value if one is given."""
    return _door.get().name(key) if value is ... else _door.get().given(key, value)


def setting(key: str, value: Any) -> str:
    """Return what to do to give an option a value, as a clause without a subject, such as ``set drop = ["x"]``."""
    return _door.get().setting(key, value)


def has_option(key: str) -> bool:
    """Return whether there is such an option at this door."""
    return key not in _door.get().lacks


def flag(name: str) -> str:
    """Return how a command's option, or a function's argument, is called: ``--seeds`` or ``seeds``."""
    return _door.get().flag(name)
