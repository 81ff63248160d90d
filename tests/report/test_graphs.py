from __future__ import annotations

import math
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from fedkin.report.figures import Graph, GraphNode
from fedkin.report.graphs import WIDTH, arrange, draw_graph


@settings(max_examples=40, deadline=None)
@given(st.lists(st.none() | st.integers(0, 30), min_size=1, max_size=80), st.booleans())
def test_nodes_never_overlap_and_stay_inside(clusters: list[int | None], tagged: bool) -> None:
    layout = arrange(clusters, tagged)
    for a, b in combinations(layout.places, 2):
        assert math.hypot(a.x - b.x, a.y - b.y) >= a.room + b.room
    for place in layout.places:
        assert place.room > 1
        assert place.room <= place.x <= WIDTH - place.room
        assert place.room <= place.y <= layout.height - place.room
    order = sorted(set(clusters), key=lambda cluster: (cluster is None, cluster or 0))
    assert [label[0] for label in layout.labels] == order


def drawn_of(nodes: list[tuple[str, int, int, int | None]], edges: list[tuple[int, int]] = []) -> str:  # noqa: B006
    """Draw a graph whose nodes have their clients' names."""
    names = list(dict.fromkeys(name for name, *_ in nodes))
    return draw_graph(Graph("G", "", [GraphNode(names.index(name), *more) for name, *more in nodes], edges, names))


def test_links_across_clusters_are_dashed_and_explained() -> None:
    nodes = [("client 1", 0, 5, 0), ("client 2", 0, 5, 0), ("client 3", 0, 5, 1)]
    inside = drawn_of(nodes, [(0, 1)])
    across = drawn_of(nodes, [(0, 1), (1, 2)])
    assert "Dashed" not in inside
    assert "Dashed" in across
    assert [across.count(f'class="{look}') for look in ("edges", "across")] == [1, 1]
