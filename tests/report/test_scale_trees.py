from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkin.core.errors import FedkinError
from fedkin.report import Scale, ScaleTree
from fedkin.report.scale_trees import LEFT, RIGHT, WIDTH, scale_tree


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


@pytest.mark.parametrize(
    ("scales", "sentence"),
    [
        ([Scale([2, 1], [0, 0], 1.0, True)], "Parents of scale 0 of 'Scales'"),
        ([Scale([3], [], 1.0, True), Scale([2, 1], [0, 1], 1.0, False)], "Parents of scale 1 of 'Scales'"),
        ([Scale([3], [], 1.0, True), Scale([2, 1], [0], 1.0, False)], "Parents of scale 1 of 'Scales'"),
        ([Scale([3], [], 1.0, False)], "Exactly one scale"),
        ([Scale([3], [], 1.0, True), Scale([2, 1], [0, 0], 1.0, True)], "Exactly one scale"),
    ],
)
def test_what_is_no_tree_is_refused(scales: list[Scale], sentence: str) -> None:
    with pytest.raises(FedkinError, match=sentence):
        ScaleTree("Scales", "Rows.", scales)
