"""Trusted packages: the only ones a client imports from when a server names tasks, models or features."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from types import ModuleType
from typing import Any

from fedkin.core.errors import FedkinError, RefusalError, in_short, nearest

_WHY = "so this client does not run it"
_why: ContextVar[str] = ContextVar("why", default=_WHY)
_packages: ContextVar[tuple[str, ...] | None] = ContextVar("packages", default=None)


@contextmanager
def trusted_packages(packages: Sequence[str] | None, why: str = _WHY) -> Iterator[None]:
    """Allow imports by name only from these packages inside the context; ``None`` allows all.

    `why` is the end of the sentence that refuses another.
    """
    before, reason = _packages.set(None if packages is None else tuple(packages)), _why.set(why)
    try:
        yield
    finally:
        _packages.reset(before)
        _why.reset(reason)


def named_module(name: str) -> ModuleType:
    """Import a module by name; raise RefusalError if its package is not trusted, and whatever the import raises.

    A ``__main__`` is a program, which importing would run; it is refused.
    """
    packages = _packages.get()
    if "__main__" in name.split(".")[1:]:
        raise RefusalError(f"'{name}' is a program, {_why.get()}.")
    if packages is not None and name.split(".")[0] not in packages:
        raise RefusalError(f"'{name}' is not from {' or '.join(packages)}, {_why.get()}.", public=True)
    return import_module(name)


def named_object(path: str, what: str) -> Any:
    """Import the object that ``package.module:attribute`` names, if its package is trusted.

    `what` says what it stands for, as the beginning of a sentence: ``Method``. Raises FedkinError if it is no such
    path, its module is not trusted here or cannot be imported, or has no such attribute.
    """
    module, _, attribute = path.partition(":")
    if not module or not attribute:
        raise FedkinError(f"{what} '{path}' is no dotted path; write it as 'package.module:name'.", public=True)
    try:
        source = named_module(module)
    except FedkinError:
        raise
    except Exception as error:  # whatever the user's own file raises
        raise FedkinError(
            f"{what} '{path}': module '{module}' cannot be imported, from an installed package or from PYTHONPATH: "
            f"{in_short(error)}.",
            public=f"{what} '{path}': module '{module}' cannot be imported there; its log says more.",
        ) from error
    if not hasattr(source, attribute):
        near = nearest(attribute, [name for name in dir(source) if not name.startswith("_")])
        meant = f"; did you mean '{module}:{near}'?" if near else "."
        raise FedkinError(f"{what} '{path}': module '{module}' has no '{attribute}'{meant}", public=True)
    return getattr(source, attribute)
