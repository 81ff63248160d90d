from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fedkin.core.errors import FedkinError
from fedkin.report import Curve, PagePart, PageView, ResultTable, TableCell


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: TableCell("1", verdict="good"), "The verdict of cell '1' is one of '', 'within', .* not 'good'."),
        (
            lambda: ResultTable("T", "", "method", ["a", "b"], [("kfed", [TableCell("1")])]),
            "Row 'kfed' of table 'T' has 1 cells for 2 columns.",
        ),
        (
            lambda: PageView("P", parts=[PagePart("a", "A"), PagePart("b", "B"), PagePart("a", "C")]),
            "More than one part of page 'P' has the anchor 'a'.",
        ),
        (lambda: PageView("P", parts=[PagePart("settings", "A")]), "More than one part .* anchor 'settings'."),
        (lambda: Curve("C", "", [1], {"a": []}), "Series 'a' of curve 'C' has 0 values for 1 steps."),
        (lambda: Curve("C", "", [1], {}, reference={"a": []}), "Reference 'a' of curve 'C' has 0 values for 1 steps."),
        (
            lambda: Curve("C", "", [1], {"a": [1.0]}, intervals={"a": []}),
            "Interval 'a' of curve 'C' has 0 values for 1 steps.",
        ),
        (
            lambda: Curve("C", "", [1], {"a": [1.0]}, intervals={"b": [None]}),
            "Interval 'b' of curve 'C' belongs to none of its series.",
        ),
        (
            lambda: Curve("C", "", [1], {"a": [1.0]}, intervals={"a": [(2.0, 1.0)]}),
            r"Interval 'a' of curve 'C' holds \(2.0, 1.0\), whose ends are reversed.",
        ),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_a_sentence(make: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(FedkinError, match=sentence):
        make()
