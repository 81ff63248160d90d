import datetime
import decimal
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkin.core.errors import FedkinError
from fedkin.core.table import Column
from fedkin.data.reading.cells import AmbiguousError
from fedkin.data.reading.columns import read_column
from fedkin.data.reading.table_options import TableOptions

NAN = float("nan")


def read(cells, **options):
    """The column, and its values with -1 where a cell is empty."""
    cells = cells if isinstance(cells, pd.Series) else pd.Series(cells)
    column, values = read_column(cells, "c", "Client 0", TableOptions(**options))
    assert values.dtype == np.float64
    return column, np.where(np.isnan(values), -1, values).tolist()


@pytest.mark.parametrize(
    "cells",
    [
        [1.5, None, 3.0],
        pd.Series(["1.5", "?", " 3"]),
        pd.Series(["1.5", "N/a", "3e0"], dtype=object),
        pd.array([1.5, None, 3], dtype="Float64"),
        pd.Series([decimal.Decimal("1.5"), None, decimal.Decimal(3)]),
        pd.Series(pd.to_timedelta(["90min", None, "3h"])),
        pd.Series([datetime.timedelta(hours=1.5), None, datetime.timedelta(hours=3)], dtype=object),
        pd.Series(pd.to_timedelta(["90min", None, "3h"])).astype("duration[ns][pyarrow]"),
        pd.Series(pd.array([1.5, None, 3], dtype="float64[pyarrow]")),
    ],
)
def test_numbers(cells):
    assert read(cells) == (Column("c"), [1.5, -1, 3])


def test_signs_within_numbers_are_read_where_they_tell():
    assert read(["1,5", "-2", "1.234,56"])[1] == [1.5, -2, 1234.56]
    assert read(["1,234.5", "-2", "0.25", "1e3"])[1] == [1234.5, -2, 0.25, 1000]
    assert read(["1.234.567", "5"])[1] == [1234567, 5]
    assert read(["\u22125", "1\u202f234,5"])[1] == [-5, 1234.5]
    for cells in (["1.234", "5"], ["1,234", "-2,500"]):
        with pytest.raises(AmbiguousError):
            read(cells)
        point, comma = (read(cells, decimal=sign)[1] for sign in ".,")
        assert point[0] * 1000 == comma[0] or comma[0] * 1000 == point[0]


@pytest.mark.parametrize(
    ("cells", "names"),
    [
        (["Yes", "no", None], ("no", "Yes")),
        (["y", "N", "-"], ("N", "y")),
        (["y", "N", "\\N"], ("N", "y")),
        (["T", "F", ""], ("F", "T")),
        (["true", "False", "na"], ("False", "true")),
        ([True, False, None], ("false", "true")),
        (pd.array([True, False, None], dtype="boolean"), ("false", "true")),
        (pd.array([True, False, None], dtype="bool[pyarrow]"), ("false", "true")),
    ],
)
def test_opposites_are_booleans(cells, names):
    assert read(cells) == (Column("c", "boolean", names), [1, 0, -1])


def test_one_whole_word_is_enough_for_a_boolean_and_one_letter_is_not():
    assert read(["no", "no"]) == (Column("c", "boolean", ("no", "yes")), [0, 0])
    assert read(["F", "F"]) == (Column("c", "category", ("F",)), [0, 0])
    assert read([0, 1, 1]) == (Column("c"), [0, 1, 1])
    assert read(["yes", "no", "none"])[0] == Column("c", "category", ("no", "none", "yes"))


@pytest.mark.parametrize(
    "cells",
    [
        pd.Series(["1970-01-02", "1970-01-03T12:00:00", None]),
        pd.Series(pd.to_datetime(["1970-01-02 00:00", "1970-01-03 12:00", None])),
        pd.Series(pd.to_datetime(["1970-01-02T02:00+02:00", "1970-01-03T14:00+02:00", None])),
        pd.Series([datetime.datetime(1970, 1, 2), datetime.datetime(1970, 1, 3, 12), None], dtype=object),
    ],
)
def test_dates_are_days(cells):
    assert read(cells) == (Column("c", "date"), [1, 2.5, -1])


def test_days_and_periods_are_dates_and_what_only_looks_like_one_is_not():
    assert read(pd.Series([datetime.date(1969, 12, 31), None]))[1] == [-1, -1]
    assert read(pd.Series(pd.period_range("1970-01", periods=2, freq="M")))[1] == [0, 31]
    assert read(["2024-02-30", "2024-01-01"])[0].kind == "category"
    assert read(["31.02.2024", "02.02.2024"])[0].kind == "category"


def test_other_texts_are_categories_in_order():
    assert read([" red", "Blue", "red ", "?"]) == (Column("c", "category", ("Blue", "red")), [1, 0, 1, -1])
    assert read(["None", "none"]) == (Column("c", "category", ("None", "none")), [0, 1])
    assert read(pd.Series([1, "a", "b"], dtype=object)) == (Column("c", "category", ("1", "a", "b")), [0, 1, 2])


@pytest.mark.parametrize("cells", [["007", "008"], ["12345678901234567890", "2"], [2**60, 1]])
def test_codes_that_a_number_would_spoil_stay_texts(cells):
    column, _ = read(cells)
    assert (column.kind, set(column.categories)) == ("category", {str(cell) for cell in cells})


def test_a_column_of_pandas_categories_is_one_and_ordinal_if_it_is_ordered():
    kinds = pd.Categorical(["b", "a", None], ["c", "b", "a"])
    assert read(kinds) == (Column("c", "category", ("a", "b")), [1, 0, -1])
    assert read(kinds.as_ordered()) == (Column("c", "ordinal", ("c", "b", "a")), [1, 2, -1])
    assert read(pd.Categorical([3, 1, 3])) == (Column("c", "category", ("1", "3")), [1, 0, 1])
    assert read(pd.Categorical([3, 1], ordered=True)) == (Column("c", "ordinal", ("1", "3")), [1, 0])


@pytest.mark.parametrize("cells", [[3, 1, None, 10], ["3", "1", "?", "10"], [3.0, 1.0, NAN, 10.0]])
def test_numbers_can_be_names(cells):
    assert read(cells, categorical=["c"]) == (Column("c", "category", ("1", "3", "10"), asked=True), [1, 0, -1, 2])


def test_levels_are_in_the_given_order():
    levels = {"c": ["low", "mid", "high"]}
    assert read(["high", "low ", None], ordinal=levels) == (Column("c", "ordinal", ("low", "mid", "high")), [2, 0, -1])
    assert read([3, 1.0], ordinal={"c": [3, 2, 1]}) == (Column("c", "ordinal", ("3", "2", "1")), [0, 2])
    with pytest.raises(FedkinError, match=r"^Column 'c' of Client 0 has a text in row 1 that is none of its levels"):
        read(["hi"], ordinal=levels)


def test_a_column_without_values_is_one_of_empty_numbers():
    for cells in ([None, None], ["?", ""], [NAN, NAN], pd.Categorical([None, None])):
        column, values = read(pd.Series(cells))
        assert values == [-1, -1]
        assert column.categories == ()
    assert read(["?", ""])[0] == Column("c")


DAYS = [str(day)[:10] for day in pd.date_range("2024-01-01", periods=40)]
NUMBERS = [str(at) for at in range(30)]


@pytest.mark.parametrize(
    ("cells", "row", "kind"),
    [
        ([*NUMBERS, "12x", "1o"], 31, "numbers, but a number with letters or signs"),
        ([*NUMBERS, "unknown"], 31, "numbers, but a word"),
        (["5", "7", "9", "Exported on 3 May 2024"], 4, "numbers, but a text of 5 words"),
        ([*NUMBERS, "<0.5"], 31, "numbers, but a limit such as <0"),
        ([*NUMBERS, "2024-01-31"], 31, "numbers, but a date"),
        ([*NUMBERS, "5 %"], 31, "numbers, but a percentage"),
        ([*NUMBERS, "00123"], 31, "numbers, but a code with a leading zero"),
        ([*DAYS, "soon"], 41, "dates, but a word"),
        ([*DAYS, "2024-02-30"], None, "dates in a form that is not read, or that the calendar does not have"),
        ([f"{at}/1/24" for at in range(1, 13)], None, "dates in a form that is not read"),
        (["03/04/2024", "05/06/2024"], None, "dates of which day and month cannot be distinguished"),
        ([f"{10 + at % 12}:{at:02}" for at in range(40)] + ["9.12"], 41, "times, but a plain number"),
        ([f"Rs{at * at * 977}" for at in range(12)], None, "numbers with letters or signs, as of a unit or currency"),
        ([f"{at * at * 977}K" for at in range(12)], None, "numbers with letters or signs, as of a unit or currency"),
    ],
)
def test_a_column_with_a_few_other_cells_names_their_kind_and_what_to_do_and_no_value(cells, row, kind):
    with pytest.raises(FedkinError) as error:
        read(cells)
    said = str(error.value)
    assert said.startswith(f"Column 'c' of Client 0 holds {kind}")
    assert row is None or f" in row {row}" in said
    assert "categorical" in said or "dayfirst" in said
    assert error.value.public == said
    for cell in {*cells[-3:], *cells[:3]}:
        assert len(cell) < 3 or cell not in said
    assert read(cells, categorical=["c"])[0].kind == "category"


@pytest.mark.parametrize(
    "cells",
    [["P1", "P2", "P3"] * 9, [f"P{at:03}" for at in range(20)], [f"S{at}" for at in range(20)], ["5+", "3+", "none"]],
)
def test_codes_and_grades_are_categories(cells):
    assert read(cells)[0].kind == "category"


@pytest.mark.parametrize("cells", [[1j], [b"a"], [(1, 2)], [[1]], [{"a": 1}]])
def test_other_values_are_refused(cells):
    with pytest.raises(FedkinError, match=r"^Column 'c' of Client 0 holds "):
        read(pd.Series(cells))


@given(st.lists(st.one_of(st.none(), st.text("abxyz 019.-", max_size=4)), min_size=1, max_size=30))
def test_texts_are_found_again_by_their_codes(cells):
    column, values = read(pd.Series(cells, dtype=object), categorical=["c"])
    for cell, value in zip(cells, values, strict=True):
        if value >= 0:
            assert column.categories[int(value)] == cell.strip()
        else:
            assert cell is None or cell.strip() in ("", "-", ".")


def test_whole_numbers_beyond_floats_are_names_of_a_category_or_infinite():
    column, values = read(pd.Series([10**400, 7], dtype=object))
    assert column == Column("c", "category", ("7", str(10**400)))
    assert values == [1, 0]
    _, values = read(pd.Series([10**5000, -(10**400), 0.5], dtype=object))
    assert values == [math.inf, -math.inf, 0.5]


def test_texts_that_look_alike_are_alike():
    """Umlauts of one character, and of two, as other systems write them."""
    column, values = read(["K\u00f6ln", "Ko\u0308ln", "Bonn"])
    assert (column.categories, values) == (("Bonn", "K\u00f6ln"), [1, 1, 0])
    assert read(["Ko\u0308ln"], ordinal={"c": ["Bonn", "K\u00f6ln"]})[1] == [1]
    assert read(["K\u00f6ln"], ordinal={"c": ["Bonn", "Ko\u0308ln"]})[1] == [1]


@pytest.mark.parametrize(
    ("cells", "options", "days"),
    [
        (["31/12/1970", "01/02/1970"], {}, [364, 31]),
        (["12/31/1970", "01/02/1970"], {}, [364, 1]),
        (["03/04/1970"], {"dayfirst": True}, [92]),
        (["03/04/1970"], {"dayfirst": False}, [62]),
        ([f"01/{month:02}/1970" for month in range(1, 9)], {}, [0, 31, 59, 90, 120, 151, 181, 212]),
        (["1.2.1970 6:00", "31.12.1970 12:00"], {}, [31.25, 364.5]),
        (["1970/01/02", "1970/12/31"], {}, [1, 364]),
        (["2 Jan 1970", "31 Dec 1970"], {}, [1, 364]),
        (["Jan 2, 1970", "Dec 31, 1970"], {}, [1, 364]),
        (["1970-01", "1970-02"], {}, [0, 31]),
        (["1970-01-02T02:00+02:00"], {}, [1]),
    ],
)
def test_forms_of_dates(cells, options, days):
    assert read(cells, **options) == (Column("c", "date"), days)


def test_times_and_durations_are_hours():
    assert read(["8:30", "08:15:36", "23:00"])[1] == [8.5, 8.26, 23]
    assert read(["1 days 01:30:00", "-1 days +12:00:00"])[1] == [25.5, -12]


def test_blanks_may_part_thousands():
    assert read(["12 345", "1 234 567.5", "7"])[1] == [12345, 1234567.5, 7]
    assert read(["12 345,5", "7"])[1] == [12345.5, 7]
    assert read(["12 34", "123 4567"])[0].kind == "category"


def test_dashes_are_a_value_where_others_are_positive():
    assert read(["+", "–", "-", "", "++"]) == (Column("c", "category", ("+", "++", "-")), [0, 2, 2, -1, 1])
    assert read(["-", "x"])[1] == [-1, 0]
    assert read(["-", "low"], ordinal={"c": ["-", "low"]}) == (Column("c", "ordinal", ("-", "low")), [0, 1])


@pytest.mark.parametrize(
    ("cells", "levels"),
    [
        (["None", "Mild", "Severe"] * 4, ("Mild", "None", "Severe")),
        (["None", "Brick", None] * 4, ("Brick", "None")),
        (pd.Series(["None", "1-2", "3+"] * 4, dtype="category"), ("1-2", "3+", "None")),
    ],
)
def test_the_text_none_is_a_level_beside_others(cells, levels):
    assert read(cells)[0] == Column("c", "category", levels)


@pytest.mark.parametrize(
    "cells",
    [["None", "1", "2"], ["None", "yes", "no"], ["None", "2024-01-31", "2024-02-29"], ["None"], ["None", "3,5", "2"]],
)
def test_the_text_none_is_an_empty_cell_beside_values_of_other_kinds(cells):
    column, values = read(cells * 4, decimal=",")
    assert column.kind != "category"
    assert values[0] == -1


def test_named_levels_are_values_whatever_they_are():
    assert read(["NA", "Gravel", None], ordinal={"c": ["NA", "Gravel"]})[1] == [0, 1, -1]
    ordered = pd.Categorical(["None", "Mild", None], ["None", "Mild"], ordered=True)
    assert read(pd.Series(ordered))[1] == [0, 1, -1]
    assert read(["None"], categorical=["c"])[0].categories == ("None",)
