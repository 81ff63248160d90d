"""The Flower engine: a federation whose clients are nodes of a Flower grid, and the versions of Flower that it takes.

The strategies for an app of one's own are in `fedkin.flower`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from packaging.version import Version

from fedkin.core.errors import FedkinError

if TYPE_CHECKING:
    from flwr.serverapp import Grid

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
        raise FlowerError(
            f"fedkin cannot use Flower {installed} ({error}); it is tested with {NEWEST}: pip install 'flwr=={NEWEST}'."
        ) from error


# What differs between the versions, as far as Python goes; options of Flower's programs are in the scripts that
# `fedkin federation init` writes.


@dataclass(frozen=True)
class Node:
    """A connected node: when it was last started, as Flower writes it, and its public key in PEM format.

    Before 1.38 Flower tells apps neither, and both are empty: a site that was restarted while it owed a reply, before
    anybody noticed that it was away, is then missing in that exchange, and names are not bound to keys.
    """

    started: str = ""
    key: bytes = b""


def connected_nodes(grid: Grid) -> dict[int, Node]:
    """Return the nodes that are connected, by Flower's number."""
    if hasattr(grid, "get_nodes"):  # since 1.38
        return {node.node_id: Node(node.last_activated_at, node.public_key) for node in grid.get_nodes()}
    return {number: Node() for number in grid.get_node_ids()}


check_flower()
