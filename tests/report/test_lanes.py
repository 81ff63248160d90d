from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedkin.report.figures import ClientClusters
from fedkin.report.lanes import WIDTH, client_clusters

BOX = re.compile(r"M(\S+) (\S+?)h(\S+?)v(\S+?)H(\S+?)z")


def drawn(clusters: list[list[int]], **changes: object) -> str:
    table = np.array(clusters)
    names, steps = [str(i) for i in range(len(table))], list(range(1, table.shape[1] + 1))
    return client_clusters(ClientClusters(**{"clients": names, "steps": steps, "clusters": table, **changes}))


def boxes(markup: str) -> dict[str, list[tuple[float, ...]]]:
    """Boxes by class of lane: left, top, width, height."""
    paths = re.findall(r'<path d="([^"]*)" class="lane ([^"]*)"', markup)
    return {look: [tuple(map(float, box[:4])) for box in BOX.findall(path)] for path, look in paths}


def names(markup: str) -> list[str]:
    return re.findall(r'class="end">([^<]*)<', markup)


def test_clients_are_ordered_by_last_cluster_then_id_with_unknown_ones_last() -> None:
    markup = drawn([[0, 1], [0, -1], [1, 0], [0, 1], [0, 0]])
    assert names(markup) == ["client", "2", "4", "0", "3", "1"]


def test_a_lane_changes_colour_where_the_client_changes_cluster() -> None:
    found = boxes(drawn([[0, 0, 0, 9], [-1, 9, 9, 9]]))
    assert {look: len(own) for look, own in found.items()} == {"alone": 1, "c0 m0": 1, "c1 m1": 2}
    assert found["c0 m0"][0][2] == pytest.approx(3 * found["alone"][0][2], abs=2)


@settings(max_examples=30)
@given(arrays(np.int64, st.tuples(st.integers(1, 50), st.integers(1, 100)), elements=st.integers(-1, 12)))
def test_lanes_never_overlap_and_stay_inside(clusters: np.ndarray) -> None:
    markup = drawn(clusters.tolist())
    height = float(re.search(r'viewBox="0 0 400 (\S+)"', markup)[1])  # type: ignore[index]
    by_row: dict[float, list[tuple[float, ...]]] = {}
    for box in (box for own in boxes(markup).values() for box in own):
        by_row.setdefault(box[1], []).append(box)
    assert len(by_row) == len(clusters)
    for row in by_row.values():
        row.sort()
        assert all(box[2] > 0 and box[1] + box[3] <= height for box in row)
        assert all(first[0] + first[2] <= second[0] + 0.1 for first, second in pairwise(row))
        assert row[-1][0] + row[-1][2] <= WIDTH


def test_the_table_tells_members_hidden_clusters_and_scores() -> None:
    markup = drawn([[1], [0], [0], [0], [-1], [0]], hidden=["A", "A", "B", "B", "B", "B"], scores={0: 0.9})
    assert re.findall(r"<td>([^<]*)</td>", markup) == [
        "4", "3 B, 1 A", "0.900", "1–3, 5",
        "1", "1 A", "–", "0",
        "1", "1 B", "–", "4",
    ]  # fmt: skip
