"""Answers and ranges that have a usual order are hinted at, and other categories are not."""

import pandas as pd
import pytest

import fedkin
from fedkin.data.preparing.notes.cell_hints import hints_on_cells
from fedkin.data.preparing.notes.ordered_levels import in_usual_order
from fedkin.data.reading.client_files import load_clients
from fedkin.data.reading.table_options import TableOptions


@pytest.mark.parametrize(
    "levels",
    [
        ["Strongly disagree", "Disagree", "Neutral", "Agree", "Strongly agree"], ["never", "sometimes", "always"],
        ["low", "normal", "high"], ["none", "mild", "moderate", "severe"], ["S", "M", "L", "XL"],
        ["nie", "selten", "oft"], ["pas d’accord", "d’accord", "tout à fait d’accord"], ["stimme nicht zu",
        "teils teils", "stimme zu"], ["<18", "18-25", "26-35", "36+"], ["under 18", "18 to 30", "31 to 50"],
    ],
)  # fmt: skip
def test_levels_with_a_usual_order(levels):
    assert in_usual_order(sorted(levels)) == in_usual_order(levels[::-1]) == levels


@pytest.mark.parametrize(
    "levels",
    [
        ["low", "high"], ["red", "low", "high"], ["good", "Good", "fair"], ["F", "M", "S"], ["0-1", "2-1", "3-4"],
        ["2010-11", "2011-12", "2012-13"], ["18-25", "30-35", "36+"], ["1", "2", "3+"], ["mild", "often", "good"],
    ],
)  # fmt: skip
def test_other_levels_have_none(levels):
    assert in_usual_order(levels) is None


def hints(tables, **options):
    clients = load_clients(tables, None, TableOptions(**options))
    return hints_on_cells({one.name: one.table for one in clients})


def table(*levels):
    return pd.DataFrame({"pain": [*levels] * 10, "sleep": [*levels] * 10, "age": range(10 * len(levels))})


def test_columns_of_one_scale_are_one_hint_with_the_levels_of_all_clients():
    tables = {"a": table("mild", "severe"), "b": table("none", "mild")}
    assert hints(tables) == [
        "Columns 'pain', 'sleep' count as categories, but their values have an order: none, mild, severe; name them in "
        "ordinal, with these levels, to have it count."
    ]
    assert hints(tables, ordinal={"pain": ["none", "mild", "severe"]}) == [
        "Column 'sleep' counts as categories, but its values have an order: none, mild, severe; name it in ordinal, "
        "with these levels, to have it count."
    ]
    assert hints(tables, categorical=["pain", "sleep"]) == []


def test_a_hint_is_no_warning(recwarn):
    tables = {name: table("none", "mild", "severe").sample(frac=1, random_state=0) for name in "ab"}
    for model in (
        fedkin.KinGraph(random_state=0).fit(tables),
        fedkin.Local(rounds=1, random_state=0).fit({name: own.assign(y=[0, 1] * 15) for name, own in tables.items()}),
    ):
        assert any("name them in ordinal" in note for note in model.preparation_.notes)
    assert not [one for one in recwarn if "ordinal" in str(one.message)]


def test_marks_of_schools_have_an_order_if_some_have_signs():
    assert in_usual_order(["A-", "B", "B+", "C-", "A"]) == ["C-", "B", "B+", "A-", "A"]
    assert in_usual_order(["1-", "2+", "3", "1"]) == ["3", "2+", "1-", "1"]
    for other in (
        ["A", "B", "C"],
        ["A+", "A-", "B+", "B-"],
        ["A+", "A-", "B+", "O-"],
        ["1+", "2+", "3+"],
        ["A+", "1-", "2"],
    ):
        assert in_usual_order(other) is None
