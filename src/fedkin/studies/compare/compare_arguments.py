"""Arguments of `fedkin.compare` beside the data: methods and settings, and errors that name them as Python does."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Integral
from pathlib import Path
from typing import Any

from fedkin.core import FedkinError, Method
from fedkin.core.errors import kind_of
from fedkin.experiment.option_models import flat
from fedkin.experiment.registry import METHODS


def given_settings(given: Any) -> list[str]:
    """Return settings as ``--set`` takes them; raises FedkinError if they are of another type."""
    if isinstance(given, Mapping):
        return [f"{path}={_as_toml(path, value)}" for path, value in flat(given)]
    settings = [given] if isinstance(given, str) else list(given) if isinstance(given, Sequence) else [given]
    if wrong := [one for one in settings if not isinstance(one, str)]:
        raise FedkinError(f"settings has {kind_of(wrong[0])}; it takes a dict, such as {{'method.rounds': 10}}.")
    return settings


def given_count(name: str, value: Any) -> int:
    """Return an argument that is one whole number; raises FedkinError if it is anything else."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        first = "; seed is that of the first of these runs" if name == "seeds" else ""
        raise FedkinError(f"{name} is {value!r}; it takes one whole number, such as 3{first}.")
    return int(value)


def _as_toml(path: str, value: Any) -> str:
    """Format a plain value, or a NumPy one, as TOML; ``None`` is "none" in an experiment."""
    plain = value.tolist() if hasattr(value, "tolist") else value
    try:
        return json.dumps("none" if plain is None else str(plain) if isinstance(plain, Path) else plain)
    except TypeError as error:
        if callable(value):
            name = getattr(value, "__name__", type(value).__name__)
            raise FedkinError(
                f"'{path}' in settings is {name} itself, and runs are other processes, which take names; put a "
                "function that makes it into a file, and give its path, such as 'networks:build' for networks.py."
            ) from error
        raise FedkinError(f"'{path}' in settings is {kind_of(value)}, which no experiment's file can hold.") from error


def given_names(methods: Any) -> tuple[str, ...]:
    """Return methods' names, which may be in one text; the sentence on anything else has that of a class."""
    if isinstance(methods, str):
        return tuple(name for given in methods.split(",") if (name := given.strip())) or (methods,)
    names = tuple(methods) if isinstance(methods, Sequence) else (methods,)
    for given in names:
        if not isinstance(given, str):
            kind = given if isinstance(given, type) else type(given)
            method = getattr(kind, "_method", kind)
            path = f"{method.__module__}:{method.__qualname__}"
            named = next((name for name, entry in METHODS.items() if entry.target == path), None)
            own = path if issubclass(method, Method) else "package.module:Class"
            what = f"the class {kind.__name__}" if isinstance(given, type) else f"an object of type {kind.__name__}"
            options = "" if isinstance(given, type) else ", and its options as settings"
            raise FedkinError(f"methods has {what}, and it takes names; give '{named or own}'{options}.")
    return names


_ARGUMENTS = {"--clusters": "n_clusters"} | {
    f"--{name}": name for name in ("budget", "by", "methods", "out", "question", "seed", "seeds")
}
_ARGUMENTS |= {"--set takes": "settings takes", "on the command line": "in settings"}
_ARGUMENT = re.compile(rf"(?<![\w'-])(?:{'|'.join(_ARGUMENTS)})(?![\w-])")


@contextmanager
def said_in_python() -> Iterator[None]:
    """Have errors name the arguments of `compare` where they name options of the command."""
    try:
        yield
    except FedkinError as error:
        error.args = (_ARGUMENT.sub(lambda option: _ARGUMENTS[option[0]], str(error)),)
        raise
