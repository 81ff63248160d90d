"""The Flower engine: a federation whose clients are nodes of a Flower grid, simulated or real.

The strategies for an app of one's own are in `fedkin.flower`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version

from packaging.version import Version

from fedkin.core.errors import FedkinError

OLDEST, NEWEST = "1.28.0", "1.42.0"
"""The oldest version that works, and the newest that the tests have run with; newer ones are tried, not refused."""


class FlowerError(FedkinError, ImportError):
    """Error of a missing or incompatible version of Flower."""


def check_flower() -> str:
    """Return the installed version of Flower; raise FlowerError if there is none, or it does not work with fedkin."""
    try:
        installed = version("flwr")
    except PackageNotFoundError as error:
        raise FlowerError("Flower is not installed; `pip install 'fedkin[flower]'` brings it.") from error
    if Version(installed) < Version(OLDEST):
        raise FlowerError(
            f"Flower {installed} is installed, and fedkin needs {OLDEST} or newer: pip install -U 'flwr>={OLDEST}'."
        )
    return installed


@contextmanager
def importing_flower() -> Iterator[None]:
    """Explain import errors inside the context that are due to an incompatible version of Flower.

    Raises FlowerError if something of Flower's, or of what it needs, cannot be imported.
    """
    try:
        yield
    except ImportError as error:
        if (error.name or "").split(".")[0] != "flwr":
            raise
        installed = check_flower()
        newer = Version(installed) > Version(NEWEST)
        why = f"which is newer than {NEWEST}, the newest that it is tested with" if newer else "which looks damaged"
        raise FlowerError(
            f"fedkin cannot use Flower {installed}, {why} ({error}): pip install 'flwr=={NEWEST}'."
        ) from error


check_flower()
