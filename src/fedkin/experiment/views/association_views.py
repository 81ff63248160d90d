"""The communities of local clusters that a method's records draw.

A method may put a ``graph`` into its records' values, to be drawn as of the first and of the last step:

* ``nodes``: ``[client, cluster, samples]`` each; ``edges``: pairs of positions in them.
* ``communities``: lists of such positions; all other nodes are alone.
* ``clusters``: the cluster that each community has become by the end of the step, or ``None``.
* ``next``: by client, as text, the cluster of each local cluster it goes on with, which are the next step's nodes.

With the last two, both drawings use the numbers that clusters have in the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeVar

from fedkin.experiment.words import many
from fedkin.report import GraphNode, GraphView

RecordLine = dict[str, Any]
Number = TypeVar("Number", int, int | None)


def graphs(records: Sequence[RecordLine]) -> list[GraphView]:
    """The first step's associations and the last one's."""
    steps = [record["step"] for record in records if "graph" in record["values"]]
    found = [record["values"]["graph"] for record in records if "graph" in record["values"]]
    numbers = _final_numbers(found)
    order = "with the number of the cluster it became" if numbers else "numbered by size in each drawing"
    drawn = []
    for at in sorted({0, len(found) - 1}) if found else ():
        cluster_of = _by_node(found[at], numbers[at] if numbers else range(len(found[at]["communities"])))
        nodes = [GraphNode(str(client), q, n, cluster_of.get(a)) for a, (client, q, n) in enumerate(found[at]["nodes"])]
        communities = many(len(found[at]["communities"]), "community")
        lone = len(nodes) - len(cluster_of)
        caption = f"{communities}, each {order}; {many(lone, 'local cluster') if lone else 'none'} alone."
        drawn.append(GraphView(f"After step {steps[at]}", caption, nodes, [(a, b) for a, b in found[at]["edges"]]))
    return drawn


def _final_numbers(graphs: Sequence[RecordLine]) -> list[list[int]]:
    """For every graph, the cluster in the end of each of its communities; an empty list if the graphs do not tell.

    A community that came to nothing gets a number that no cluster has.
    """
    if not graphs or not all("clusters" in graph for graph in graphs):
        return []
    numbers: list[list[int | None]] = [graphs[-1]["clusters"]]
    for after, before in pairwise(reversed(graphs)):
        number_of = _by_node(after, numbers[0])
        numbers.insert(0, [_heir(cluster, before["next"], after["nodes"], number_of) for cluster in before["clusters"]])
    free = 1 + max((number for own in numbers for number in own if number is not None), default=-1)
    return [[free + at if number is None else number for at, number in enumerate(own)] for own in numbers]


def _by_node(graph: RecordLine, numbers: Sequence[Number]) -> dict[int, Number]:
    """The number of each node's community; nodes that are alone have none."""
    return {a: number for number, members in zip(numbers, graph["communities"], strict=True) for a in members}


def _heir(
    cluster: int | None, went: Mapping[str, list[int]], nodes: Sequence[list[int]], number_of: Mapping[int, int | None]
) -> int | None:
    """The number under which most samples of a step's `cluster` are found among the next step's nodes."""
    votes: Counter[int | None] = Counter()
    for a, (client, local_cluster, samples) in enumerate(nodes):
        if cluster is not None and went.get(str(client), [])[local_cluster : local_cluster + 1] == [cluster]:
            votes[number_of.get(a)] += samples
    return votes.most_common(1)[0][0] if votes else None
