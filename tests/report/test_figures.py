"""Figures that do not fit together are refused before a page is drawn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fedkin.core.errors import FedkinError
from fedkin.report import figures as f

WHOLE = f.Scale([3], [], 1.0, True)


@pytest.mark.parametrize(
    "make",
    [
        lambda: f.TableCell("1", verdict="good"),  # type: ignore[arg-type]
        lambda: f.ResultTable("T", "", "method", ["a", "b"], [("kfed", [f.TableCell("1")])]),
        lambda: f.ResultTable("T", "", "column", [0], [], foot=[("all", [f.TableCell("1")] * 2)]),
        lambda: f.PageView("P", parts=[f.PagePart("a", "A"), f.PagePart("a", "C")]),
        lambda: f.Curve("C", "", [1], {"a": []}),
        lambda: f.Bars("B", "", ["1", "2"], [1.0, 2.0], [False], "x"),
        lambda: f.Graph("G", "", [f.GraphNode(0, 0, 1, 0)], [(0, 1)]),
        lambda: f.ScaleTree("S", "", [WHOLE, f.Scale([2, 1], [0, 1], 1.0, False)]),
        lambda: f.ScaleTree("S", "", [WHOLE, f.Scale([2, 1], [0, 0], 1.0, True)]),
    ],
)
def test_what_cannot_be_drawn_is_refused(make: Callable[[], Any]) -> None:
    with pytest.raises(FedkinError):
        make()
