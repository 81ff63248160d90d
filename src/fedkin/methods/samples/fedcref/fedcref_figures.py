"""What a run's page shows of FedCRef: the graphs of matched local clusters after the first and the last iteration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeVar

from fedkin.report.figures import Graph, GraphNode
from fedkin.report.numbers import pluralize

Number = TypeVar("Number", int, int | None)


def fedcref_figures(records: Sequence[Mapping[str, Any]]) -> list[Graph]:
    """Build the graphs of the first and of the last step, from the values ``graph``, with the clusters' final numbers.

    A graph has ``nodes``, ``[client, local cluster, samples]`` each; ``edges``, pairs of positions in them;
    ``communities``, lists of such positions, all other nodes are unmatched; ``clusters``, the final cluster of each
    community at the end of the step, or ``None``; and ``next``, by client, as text, the cluster of each local cluster
    that it continues with, the next step's nodes.
    """
    steps = [record["step"] for record in records if "graph" in record["values"]]
    graphs = [record["values"]["graph"] for record in records if "graph" in record["values"]]
    numbers = _final_numbers(graphs) if graphs else []
    figures = []
    for at in sorted({0, len(graphs) - 1}) if graphs else ():
        cluster_of = _by_node(graphs[at], numbers[at])
        nodes = [GraphNode(client, own, n, cluster_of.get(a)) for a, (client, own, n) in enumerate(graphs[at]["nodes"])]
        communities = pluralize(len(graphs[at]["communities"]), "community")
        unmatched = pluralize(len(nodes) - len(cluster_of), "unmatched local cluster")
        caption = f"{communities}, each with the number of the cluster it became; {unmatched}."
        figures.append(Graph(f"After step {steps[at]}", caption, nodes, [(a, b) for a, b in graphs[at]["edges"]]))
    return figures


def _final_numbers(graphs: Sequence[Mapping[str, Any]]) -> list[list[int]]:
    """Return the final cluster of each community of every graph, or a number that no cluster has where it has none."""
    numbers: list[list[int | None]] = [graphs[-1]["clusters"]]
    for after, before in pairwise(reversed(graphs)):
        number_of = _by_node(after, numbers[0])
        went, nodes = before["next"], after["nodes"]
        numbers.insert(0, [_heir(cluster, went, nodes, number_of) for cluster in before["clusters"]])
    free = 1 + max((number for own in numbers for number in own if number is not None), default=-1)
    return [[free + at if number is None else number for at, number in enumerate(own)] for own in numbers]


def _by_node(graph: Mapping[str, Any], numbers: Sequence[Number]) -> dict[int, Number]:
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
