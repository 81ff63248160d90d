"""What an experiment says of columns, and what a site's file lacks of it."""

from contextlib import suppress
from typing import Any

import pandas as pd
import pytest

from fedkin.core.errors import FedkinError
from fedkin.data.reading.asked_columns import lines_lacking
from fedkin.data.reading.table_options import NO_OPTIONS, TableOptions
from fedkin.data.reading.tables import frame_to_table

FRAME = pd.DataFrame({"age": [1, 2, 3], "bought": ["a", "b", "a"], "ward": [7, 8, 7], "pain": ["no", "much", "no"]})
TABLE = frame_to_table(FRAME, "here")
PAIN = {"pain": ["no", "much"]}


@pytest.mark.parametrize(
    ("asked", "lines"),
    [
        ({}, []),
        ({"label": "bought"}, ['label = "bought"']),
        ({"label": "sold"}, []),
        ({"label": "none"}, []),
        ({"drop": ["ward", "name"], "decimal": ","}, ['drop = ["ward"]']),
        ({"categorical": ["ward"], "ordinal": PAIN}, ['categorical = ["ward"]', 'ordinal = {pain = ["no", "much"]}']),
        ({"na_values": [-9, "?"]}, ['na_values = [-9, "?"]']),
        ({"na_values": {"age": [-9], "weight": [0]}}, ["na_values = {age = [-9]}"]),
        ({"na_values": {"weight": [0]}, "id": "age"}, []),
    ],
)
def test_a_file_that_says_nothing_of_columns_lacks_what_is_asked_of_those_it_has(
    asked: dict[str, Any], lines: list[str]
) -> None:
    assert lines_lacking(asked, TABLE, NO_OPTIONS, None, None) == lines
    assert lines_lacking(asked, None, NO_OPTIONS, None, None) == []


def test_what_a_file_says_itself_is_what_counts_there() -> None:
    own = TableOptions(categorical=["pain"], ordinal={"ward": ["7", "8"]}, na_values={"age": [0]})
    asked = {"drop": ["pain"], "categorical": ["ward"], "ordinal": PAIN, "na_values": [-9], "label": "kind"}
    assert lines_lacking(asked, TABLE, own, "outcome", "outcome") == []
    assert lines_lacking({"label": "bought"}, TABLE, own, "none", None) == ['drop = ["bought"]']


def test_that_a_value_is_none_does_not_say_what_the_others_are() -> None:
    own = TableOptions(na_values={"age": [0]})
    assert lines_lacking({"categorical": ["age"]}, TABLE, own, None, None) == ['categorical = ["age"]']
    assert lines_lacking({"categorical": ["age"]}, TABLE, TableOptions(drop="age"), None, None) == []


def test_labels_that_a_site_finds_by_their_name_are_none_if_the_experiment_says_so() -> None:
    assert lines_lacking({"label": "none"}, TABLE, NO_OPTIONS, None, "class") == ['label = "none"']
    assert lines_lacking({"label": "none"}, TABLE, NO_OPTIONS, "class", "class") == []


@pytest.mark.parametrize("asked", [{"drop": [3, {}], "label": ["a"]}, {"ordinal": ["a"]}, {"na_values": [[1]]}])
def test_what_a_server_asks_may_be_anything(asked: dict[str, Any]) -> None:
    with suppress(FedkinError):
        assert lines_lacking(asked, TABLE, NO_OPTIONS, None, None) == []
