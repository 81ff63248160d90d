"""What an experiment says of columns, and what a site's file lacks of it."""

from contextlib import suppress
from typing import Any

import pandas as pd
import pytest

from fedkin.core.errors import FedkinError
from fedkin.data.options import NO_OPTIONS, lines_lacking
from fedkin.data.tables import frame_to_table

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


@pytest.mark.parametrize("asked", [{"drop": [3, {}], "label": ["a"]}, {"ordinal": ["a"]}, {"na_values": [[1]]}])
def test_what_a_server_asks_may_be_anything(asked: dict[str, Any]) -> None:
    with suppress(FedkinError):
        assert lines_lacking(asked, TABLE, NO_OPTIONS, None, None) == []
