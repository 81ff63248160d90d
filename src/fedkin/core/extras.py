"""Optional dependencies, which fedkin's extras install."""

from __future__ import annotations

from importlib.util import find_spec

from fedkin.core.errors import FedkinError


def require(what: str, packages: str, extra: str) -> None:
    """Raise an error, with the command that installs them, if packages that a feature needs are not installed.

    `what` is the feature, as the beginning of a sentence, such as ``"Engine 'flower'"``; `packages` their import names,
    separated by spaces; `extra` fedkin's extra that brings them.
    """
    if absent := [name for name in packages.split() if find_spec(name) is None]:
        raise FedkinError(f"{what} needs {' and '.join(absent)}, not installed here: pip install 'fedkin[{extra}]'.")
