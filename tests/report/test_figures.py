from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedkin.core.errors import FedkinError
from fedkin.report.figures import (
    Bars,
    ClientClusters,
    ClusterPictures,
    Curve,
    Graph,
    GraphNode,
    HeatCell,
    HeatTable,
    PagePart,
    PageView,
    ResultTable,
    SampleMap,
    Scale,
    ScaleTree,
    TableCell,
)


@pytest.mark.parametrize(
    "make",
    [
        lambda: TableCell("1", verdict="good"),  # type: ignore[arg-type]
        lambda: ResultTable("T", "", "method", ["a", "b"], [("kfed", [TableCell("1")])]),
        lambda: HeatTable("T", "", "column", [0, 1], [("age", [HeatCell("1")])]),
        lambda: HeatTable("T", "", "column", [0], [], foot=[("all", ["1", "2"])]),
        lambda: PageView("P", parts=[PagePart("a", "A"), PagePart("b", "B"), PagePart("a", "C")]),
        lambda: PageView("P", parts=[PagePart("settings", "A")]),
        lambda: Curve("C", "", [1], {"a": []}),
        lambda: Curve("C", "", [1], {}, reference={"a": []}),
        lambda: Curve("C", "", [1], {"a": [1.0]}, intervals={"a": []}),
        lambda: Curve("C", "", [1], {"a": [1.0]}, intervals={"b": [None]}),
        lambda: Curve("C", "", [1], {"a": [1.0]}, intervals={"a": [(2.0, 1.0)]}),
        lambda: Bars("B", "", ["1"], [1.0, 2.0], [False] * 2, "x"),
        lambda: Bars("B", "", ["1", "2"], [1.0, 2.0], [False] * 2, "x", errors=[0.1]),
        lambda: Graph("G", "", [GraphNode(0, 0, 1, 0)], [(0, 1)]),
        lambda: ClientClusters(["0"], [1], np.array([[0, 1]])),
        lambda: ClientClusters(["0"], [1], np.array([[0]]), hidden=["A", "B"]),
        lambda: ClusterPictures(3, 1, 1, np.zeros((4, 4)), np.zeros((2, 4, 5))),
        lambda: ClusterPictures(3, 1, 1, np.zeros((4, 4, 1)), np.zeros((2, 4, 4, 1))),
        lambda: SampleMap("M", np.zeros((3, 2)), np.array([0, 1]), {}),
        lambda: ScaleTree("S", "", [Scale([2, 1], [0, 0], 1.0, True)]),
        lambda: ScaleTree("S", "", [Scale([3], [], 1.0, True), Scale([2, 1], [0, 1], 1.0, False)]),
        lambda: ScaleTree("S", "", [Scale([3], [], 1.0, True), Scale([2, 1], [0], 1.0, False)]),
        lambda: ScaleTree("S", "", [Scale([3], [], 1.0, False)]),
        lambda: ScaleTree("S", "", [Scale([3], [], 1.0, True), Scale([2, 1], [0, 0], 1.0, True)]),
    ],
)
def test_what_cannot_be_drawn_is_refused(make: Callable[[], Any]) -> None:
    with pytest.raises(FedkinError):
        make()
