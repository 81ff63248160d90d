from types import SimpleNamespace
from typing import Any

import pytest

from fedkin.studies.reproduce.entry_table import Checked
from fedkin.studies.reproduce.reproduce_page import _curves, claim_text, holding


def table(columns: int) -> Any:
    """A table of no rows, with so many columns that have a place."""
    places = [SimpleNamespace(at=float(at), name=str(at)) for at in range(columns)]
    entry = SimpleNamespace(title="T", axis="p")
    return SimpleNamespace(plan=SimpleNamespace(columns=[*places, SimpleNamespace(at=None)], rows=[], entry=entry))


@pytest.mark.parametrize(("columns", "drawn"), [(2, []), (3, []), (4, [[0.0, 1.0, 2.0, 3.0]])])
def test_few_columns_are_no_curve_beside_the_table_that_says_them(columns: int, drawn: list[list[float]]) -> None:
    assert [curve.x for curve in _curves(table(columns))] == drawn


def test_claims_say_how_sure_they_are() -> None:
    figures = (("a", 0.9), ("", 0.5))
    claims = [
        Checked("A", "holds", figures, on_means=True),
        Checked("B", "unsure", figures, on_means=True),
        Checked("C", "fails", figures, one_seed=True),
        Checked("D", "untested", ()),
    ]
    assert [claim_text(claim).partition(":")[0] for claim in claims] == [
        "Holds",
        "Holds on the means, too few seeds to say",
        "**Does not hold** with one seed",
        "Not tested at this scale",
    ]
    assert holding(claims) == "1 of 3, 1 open"
