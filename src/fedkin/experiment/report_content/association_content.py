"""Graphs of matched local clusters, from records whose values hold a ``graph``.

The graphs of the first and of the last step are drawn. A graph holds:

* ``nodes``: ``[client, local cluster, samples]`` each; ``edges``: pairs of positions in them.
* ``communities``: lists of such positions; all other nodes are unmatched.
* ``clusters``: the final cluster of each community at the end of the step, or ``None``.
* ``next``: by client, as text, the cluster of each local cluster it continues with, the next step's nodes.

With the last two, both drawings use the clusters' final numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TypeVar

from fedkin.core.progress import RecordLine
from fedkin.data.population import client_name
from fedkin.report import GraphNode, GraphView
from fedkin.report.numbers import pluralize

Number = TypeVar("Number", int, int | None)


def graphs(records: Sequence[RecordLine], names: Sequence[str] = ()) -> list[GraphView]:
    """Build the graphs of the first and of the last step; clients are named by `names`, or by their ids without."""
    steps = [record["step"] for record in records if "graph" in record["values"]]
    found = [record["values"]["graph"] for record in records if "graph" in record["values"]]
    numbers = _final_numbers(found)
    order = "with the number of the cluster it became" if numbers else "numbered by size in each drawing"
    views = []
    for at in sorted({0, len(found) - 1}) if found else ():
        cluster_of = _by_node(found[at], numbers[at] if numbers else range(len(found[at]["communities"])))
        called = {client: client_name(client, names) for client, _, _ in found[at]["nodes"]}
        nodes = [
            GraphNode(called[client], q, n, cluster_of.get(a)) for a, (client, q, n) in enumerate(found[at]["nodes"])
        ]
        communities = pluralize(len(found[at]["communities"]), "community")
        unmatched = pluralize(len(nodes) - len(cluster_of), "unmatched local cluster")
        caption = f"{communities}, each {order}; {unmatched}."
        views.append(GraphView(f"After step {steps[at]}", caption, nodes, [(a, b) for a, b in found[at]["edges"]]))
    return views


def _final_numbers(graphs: Sequence[RecordLine]) -> list[list[int]]:
    """Return the final cluster of each community of every graph; empty if graphs do not hold ``clusters``.

    A community without a final cluster gets a number that no cluster has.
    """
    if not graphs or not all("clusters" in graph for graph in graphs):
        return []
    numbers: list[list[int | None]] = [graphs[-1]["clusters"]]
    for after, before in pairwise(reversed(graphs)):
        number_of = _by_node(after, numbers[0])
        went, nodes = before["next"], after["nodes"]
        numbers.insert(0, [_heir(cluster, went, nodes, number_of) for cluster in before["clusters"]])
    free = 1 + max((number for own in numbers for number in own if number is not None), default=-1)
    return [[free + at if number is None else number for at, number in enumerate(own)] for own in numbers]


def _by_node(graph: RecordLine, numbers: Sequence[Number]) -> dict[int, Number]:
    """Return the number of each node's community, without unmatched nodes."""
    return {a: number for number, members in zip(numbers, graph["communities"], strict=True) for a in members}


def _heir(
    cluster: int | None, went: Mapping[str, list[int]], nodes: Sequence[list[int]], number_of: Mapping[int, int | None]
) -> int | None:
    """Return the next step's number for a step's `cluster`: that of most of its samples; ``None`` without one."""
    votes: Counter[int | None] = Counter()
    for a, (client, local_cluster, samples) in enumerate(nodes):
        if cluster is not None and went.get(str(client), [])[local_cluster : local_cluster + 1] == [cluster]:
            votes[number_of.get(a)] += samples
    return votes.most_common(1)[0][0] if votes else None
