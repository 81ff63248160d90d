"""Sites of fedkin's as nodes of Flower in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from flwr.app import Context, Message
from flwr.proto.node_pb2 import NodeInfo

from app_nodes import Fleet
from fedkin.core import Client, Payload
from fedkin.data.preparation import restore_preparation
from fedkin.engines.flower_engine.grid import FlowerFederation, Roster
from fedkin.engines.flower_engine.messages import client_app
from fedkin.engines.site import Request, Site

RUN = "ab12"


class Nodes(Fleet):
    """Nodes that a server can tell were started anew.

    Attributes
    ----------
    keys : dict of int to bytes
        Public keys that Flower has authenticated nodes with, by partition.
    """

    def __init__(self, app: Any, nodes: int) -> None:
        super().__init__(app, nodes)
        self.started = dict.fromkeys(self.contexts, "2026-01-01")
        self.keys: dict[int, bytes] = {}

    def get_nodes(self) -> Iterable[NodeInfo]:
        return [
            NodeInfo(
                node_id=node,
                last_activated_at=self.started[node],
                public_key=self.keys.get(self.partition(node), b""),
            )
            for node in self.get_node_ids()
        ]

    def restart(self, partition: int) -> None:
        self.started[self.node(partition)] += "+"


def sites_of(clients: Sequence[Client], folder: Path, **more: Any) -> list[Site]:
    """A site for each client, with a folder of its own."""
    return [
        Site(
            f"site-{client.id}",
            folder / str(client.id),
            client.x,
            client.y,
            begins_with=client.state,
            prepare=restore_preparation,
            simulated=True,
            packages=None,
            **more,
        )
        for client in clients
    ]


def nodes_of(sites: Sequence[Site], keep: Callable[[Site, Request, Payload], None] | None = None) -> Nodes:
    def site_of(context: Context) -> Site:
        return sites[int(context.node_config["partition-id"])]

    return Nodes(client_app(site_of, keep or (lambda site, request, payload: None)), len(sites))


def federation(grid: Nodes, seed: int = 3, **options: Any) -> FlowerFederation:
    """All of a grid's sites as a federation."""
    roster = Roster(grid)
    roster.gather(len(grid.contexts), 5)
    return FlowerFederation(roster, RUN, seed, timeout=options.pop("timeout", 5), **options)


def contents(messages: Sequence[Message]) -> bytes:
    """Every byte of the payloads in some messages."""
    return b"".join(
        array.data
        for message in messages
        if not message.has_error()
        for record in message.content.array_records.values()
        for array in record.values()
    )


def plain_site(folder: Path, name: str, width: int = 3, features: tuple[str, ...] = ()) -> Site:
    """A site with four samples of ones."""
    return Site(name, folder, torch.ones(4, width), features=list(features))
