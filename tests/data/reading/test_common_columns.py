import pandas as pd

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
