import pandas as pd
import pytest

from fedkin.core.errors import FedkinError
from fedkin.data.reading.common_columns import united
from fedkin.data.reading.tables import frame_to_table


def tables(*frames):
    return [frame_to_table(pd.DataFrame(frame), "It") for frame in frames]


def test_columns_are_matched_by_name_and_categories_united():
    one, other = united(tables({"a": [1, 2], "k": ["u", "w"]}, {"k": ["v", None], "a": [None, 3]}), ["one", "two"])
    assert one.columns == other.columns
    assert one.columns[1].categories == ("u", "v", "w")
    assert one.values.tolist() == [[1, 0], [2, 2]]
    assert other.values.nan_to_num(-1).tolist() == [[-1, 1], [3, -1]]


def test_an_empty_column_agrees_with_any():
    one, other = united(tables({"k": [None, None]}, {"k": ["u", "v"]}), ["one", "two"])
    assert one.columns == other.columns
    assert one.columns[0].kind == "category"


def test_what_does_not_agree_is_refused_in_a_line_each():
    with pytest.raises(FedkinError) as error:
        united(tables({"a": [1], "k": ["u"]}, {"k": [2]}), ["one", "two"])
    assert str(error.value).splitlines() == [
        "Column 'a' of one is not in two.",
        "Column 'k' is category in one and number in two; it should be the same in all.",
    ]
