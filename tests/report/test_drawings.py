from __future__ import annotations

import base64
import io
import math
import re
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from fedkin.report.drawings import LEFT, RIGHT, WIDTH, arrange, draw_graph, sample_map, scale_tree, sprite
from fedkin.report.figures import Graph, GraphNode, SampleMap, Scale, ScaleTree


@st.composite
def trees(draw: st.DrawFn) -> ScaleTree:
    """Scales of the same samples, each cluster divided or not."""
    samples, scales = [draw(st.integers(1, 500)) for _ in range(draw(st.integers(1, 4)))], []
    parents: list[int] = []
    for _ in range(draw(st.integers(1, 4))):
        scales.append((list(samples), list(parents)))
        divided = [
            (at, part) for at, count in enumerate(samples) for part in ([count] if count < 2 else [1, count - 1])
        ]
        samples, parents = [part for _, part in divided], [at for at, _ in divided]
    chosen = draw(st.integers(0, len(scales) - 1))
    return ScaleTree("Scales", "Rows.", [Scale(s, p, 0.5, at == chosen) for at, (s, p) in enumerate(scales)])


def rows(markup: str) -> list[list[tuple[float, float, str]]]:
    """Left, width and look of the blocks of every row."""
    found: dict[str, list[tuple[float, float, str]]] = {}
    for x, y, width, look in re.findall(r'<rect x="(\S+)" y="(\S+)" width="(\S+)" [^>]*class="block ([^"]*)"', markup):
        found.setdefault(y, []).append((float(x), float(width), look))
    return list(found.values())


@settings(max_examples=40)
@given(trees())
def test_every_cluster_is_a_block_and_rows_are_equally_wide(tree: ScaleTree) -> None:
    found = rows(scale_tree(tree))
    assert [len(row) for row in found] == [len(scale.samples) for scale in tree.scales]
    for row in found:
        assert row[0][0] == pytest.approx(LEFT, abs=0.1)
        assert row[-1][0] + row[-1][1] <= WIDTH - RIGHT + 0.5
        assert all(x < other for (x, *_), (other, *_) in pairwise(row))


def test_parts_lie_below_the_whole_and_have_its_colour() -> None:
    scales = [
        Scale([60, 40], [], 0.9, False),
        Scale([50, 40, 10], [0, 1, 0], None, True),
        Scale([50, 30, 10, 10], [0, 1, 2, 1], 0.8, False),
    ]
    markup = scale_tree(ScaleTree("Scales", "Rows.", scales))
    _, middle, last = rows(markup)
    assert [look.split()[0] for _, _, look in middle] == ["c0", "c2", "c1"], "both parts of the first come first"
    assert [look.split()[0] for _, _, look in last] == ["c0", "c2", "c1", "c1"]
    assert "part of cluster 1 of the row above" in markup
    assert "3 clusters (found)" in markup


# Pictures.


def decoded(uri: str) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(uri.removeprefix("data:image/png;base64,")))))


@pytest.mark.parametrize("shape", [(5, 4), (5, 4, 3)])
def test_sprite_holds_the_mean_and_then_the_members(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    mean, members = rng.random(shape), rng.random((3, *shape))
    pixels = decoded(sprite(mean, members, side=64))
    assert pixels.shape == (5, 16, *shape[2:])
    np.testing.assert_allclose(pixels[:, 4:8] / 255, members[0], atol=0.5 / 255)
    np.testing.assert_allclose(pixels[:, :4] / 255, mean, atol=0.5 / 255)


def test_values_outside_the_range_are_clipped_and_nan_is_black() -> None:
    mean = np.array([[-1.0, 2.0], [np.nan, 0.0]])
    assert decoded(sprite(mean, np.zeros((0, 2, 2)), side=64)).tolist() == [[0, 255], [0, 0]]


# Maps.

PLACES = np.array([[0.0, 0.0], [4.0, 1.0], [2.0, 2.0]])
LABELS = np.array([[0, 0, 3]])


def test_points_have_the_colour_of_their_cluster_and_larger_groups_are_larger() -> None:
    drawn = sample_map(SampleMap("Map", "", PLACES, LABELS, sizes=np.array([5, 5, 80])), is_still=True)
    assert re.findall(r'class="cloud (c\d) m0" data-tip="([^"]*)"', drawn) == [("c0", "Cluster 0"), ("c3", "Cluster 3")]
    radii = [float(r) for r in re.findall(r' r="(\S+)"/>', drawn)]
    assert radii[0] == radii[1] < radii[2]


@pytest.mark.parametrize("places", [PLACES, np.zeros((3, 2)), PLACES * 1e6 - 5e5])
def test_every_dot_lies_inside_the_picture(places: np.ndarray) -> None:
    drawn = sample_map(SampleMap("Map", "", places, LABELS))
    height = float(re.search(r'viewBox="0 0 400 (\S+)"', drawn)[1])  # type: ignore[index]
    numbers = [(float(x), float(y)) for x, y in re.findall(r'cx="(\S+)" cy="(\S+)"', drawn)]
    assert len(numbers) == 3
    assert all(0 <= x <= WIDTH and 0 <= y <= height for x, y in numbers)


# Graphs.


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
