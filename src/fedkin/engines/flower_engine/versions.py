"""What differs between the versions of Flower that fedkin works with, as far as Python goes.

Options of Flower's programs differ, too: the scripts that `fedkin federation init` writes take them by version.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version

from flwr.serverapp import Grid

from fedkin.core import FedkinError


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


def without_flower() -> None:
    """Allow messages in a process that Flower has not started; since 1.38 it tells those who they are."""
    with suppress(ImportError):
        from flwr.supercore.task_identity import TaskIdentity

        TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1


def check_listed_keys(grid: Grid, listed: Mapping[str, str]) -> None:
    """Raise FedkinError if an experiment lists keys of sites, by name, and Flower does not tell those of its nodes."""
    if any(listed.values()) and not hasattr(grid, "get_nodes"):
        raise FedkinError(
            f"'federation.keys' lists keys of sites, which Flower tells since 1.38, and {version('flwr')} is installed "
            "at the server: update it there and at the sites, or give the names alone in 'federation.clients'."
        )
