"""Whose code may be run where a server names it, as it names tasks, models and features."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from types import ModuleType

from fedkin.core.errors import FedkinError

_packages: ContextVar[tuple[str, ...] | None] = ContextVar("packages", default=None)


@contextmanager
def only(packages: Sequence[str] | None) -> Iterator[None]:
    """Inside, nothing but these packages is imported by name; anything, if it is ``None``."""
    before = _packages.set(None if packages is None else tuple(packages))
    try:
        yield
    finally:
        _packages.reset(before)


def named_module(name: str) -> ModuleType:
    """The module of this name, imported if it may be.

    Raises
    ------
    FedkinError
        If it is not of a package that is trusted here.
    ImportError
        If there is none, and whatever else it raises itself.
    """
    packages = _packages.get()
    if packages is not None and name.split(".")[0] not in packages:
        raise FedkinError(f"'{name}' is not from {' or '.join(packages)}, so this client does not run it.")
    return import_module(name)
