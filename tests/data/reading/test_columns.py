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


def test_numbers_with_a_decimal_comma_are_read_if_that_is_said():
    assert read(["1,5", "-2", "3.25"], decimal=",") == (Column("c"), [1.5, -2, 3.25])
    with pytest.raises(FedkinError) as error:
        read(["1,5", "2"])
    assert str(error.value) == (
        "Column 'c' of Client 0 holds numbers with a decimal comma, such as '1,5'; set decimal = ',' (files with "
        "points are read all the same), or write them without commas if these separate thousands, or name the column "
        "in categorical."
    )
    assert read(["1,5", "2"], categorical=["c"])[0].kind == "category"


@pytest.mark.parametrize(
    ("cells", "names"),
    [
        (["Yes", "no", None], ("no", "Yes")),
        (["y", "N", "-"], ("N", "y")),
        (["y", "N", "\\N"], ("N", "y")),
        (["T", "F", ""], ("F", "T")),
        (["ja", "Nein", None], ("Nein", "ja")),
        (["vrai", "Faux", None], ("Faux", "vrai")),
        (["Sí", "no", None], ("no", "Sí")),
        (["tak", "nie", None], ("nie", "tak")),
        (["J", "N", "?"], ("N", "J")),
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
    assert read(["NE", "NE"]) == (Column("c", "category", ("NE",)), [0, 0])  # in Czech it is no, and it is Nebraska
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
    assert read(["None", "none"]) == (Column("c", "category", ("none",)), [-1, 0])
    assert read(pd.Series([1, "a", 2.0], dtype=object)) == (Column("c", "category", ("1", "2", "a")), [0, 2, 1])


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
    with pytest.raises(FedkinError, match=r"^Column 'c' of Client 0 holds 'hi', which is none of its levels low, mid"):
        read(["hi"], ordinal=levels)


def test_a_column_without_values_is_one_of_empty_numbers():
    for cells in ([None, None], ["?", ""], [NAN, NAN], pd.Categorical([None, None])):
        column, values = read(pd.Series(cells))
        assert values == [-1, -1]
        assert column.categories == ()
    assert read(["?", ""])[0] == Column("c")


def test_a_few_texts_among_numbers_are_wrong_cells():
    cells = [str(i) for i in range(30)] + ["12x", "?", "1o"]
    with pytest.raises(FedkinError) as error:
        read(cells)
    assert str(error.value) == (
        "Column 'c' of Client 0 holds numbers, but '12x' in row 31, and 2 such cells in all; correct or empty them,"
        " name them in na_values, or "
        "name the column in categorical if its numbers are codes."
    )
    assert read(cells, categorical=["c"])[0].kind == "category"
    assert read([str(i) for i in range(30)] + [f"A{i}" for i in range(10)])[0].kind == "category"


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


def test_of_few_measurements_a_single_wrong_cell_is_named_and_codes_are_a_category():
    with pytest.raises(
        FedkinError, match=r"^Column 'c' of Client 0 holds numbers, but '6\.2x' in row 11; correct or empty"
    ):
        read([f"{i}.{i}" for i in range(1, 11)] + ["6.2x"])
    assert read([str(i) for i in range(1, 11)] + ["other"])[0].kind == "category"
    assert read([f"{i}.{i}" for i in range(1, 11)] + ["V45.1", "E850.1"])[0].kind == "category"


def test_a_cell_among_times_that_is_none_is_named():
    with pytest.raises(
        FedkinError, match=r"^Column 'c' of Client 0 holds times of day or durations, but '9\.12' in row 41; correct or"
    ):
        read([f"{10 + at % 12}:{at:02}" for at in range(40)] + ["9.12"])


@pytest.mark.parametrize(("limit", "number"), [("<0.5", "0.5"), ("< 0.5", "0.5"), (">1000", "1000"), ("<=3", "3")])
def test_limits_of_detection_are_numbers_and_no_codes(limit, number):
    cells = [str(i / 4) for i in range(40)] + [limit] * 15
    with pytest.raises(FedkinError) as error:
        read(cells)
    assert str(error.value) == (
        f"Column 'c' of Client 0 holds numbers, but '{limit}' in row 41, and 15 such cells in all; write limits of "
        f"detection as numbers, such as {number}, or name them in na_values."
    )
    with pytest.raises(
        FedkinError, match=r"'n\.d\.' in row 41; correct or empty it, name .* if its numbers are codes\.$"
    ):
        read([*cells[:40], "n.d."])


def test_a_single_wrong_cell_is_not_counted():
    with pytest.raises(FedkinError) as error:
        read([str(i) for i in range(30)] + ["unknown"])
    assert str(error.value) == (
        "Column 'c' of Client 0 holds numbers, but 'unknown' in row 31; correct or empty it,"
        " name it in na_values, or name the column in "
        "categorical if its numbers are codes."
    )


def test_few_words_among_many_numbers_are_wrong_cells():
    numbers = [str(i / 4) for i in range(30)]
    with pytest.raises(FedkinError, match="holds numbers, but 'not done' in row 31, and 20 such cells in all"):
        read([*numbers, *["not done", "unknown"] * 10])
    assert read([*numbers, *(f"A{i}" for i in range(20))])[0].kind == "category"


def test_texts_that_look_alike_are_alike():
    """Umlauts of one character, and of two, as other systems write them."""
    column, values = read(["K\u00f6ln", "Ko\u0308ln", "Bonn"])
    assert (column.categories, values) == (("Bonn", "K\u00f6ln"), [1, 1, 0])
    assert read(["Ko\u0308ln"], ordinal={"c": ["Bonn", "K\u00f6ln"]})[1] == [1]
    assert read(["K\u00f6ln"], ordinal={"c": ["Bonn", "Ko\u0308ln"]})[1] == [1]


def days(*others):
    return [*(str(day)[:10] for day in pd.date_range("2024-01-01", periods=40)), *others]


@pytest.mark.parametrize("other", [["2024-02-30"], ["soon"] * 3, ["31.13.24"]])
def test_a_few_cells_that_are_no_dates_are_refused(other):
    them = "them" if len(other) > 1 else "it"
    many = f", and {len(other)} such cells in all" if len(other) > 1 else ""
    many += f"; correct or empty {them}, name {them} in na_values"
    with pytest.raises(FedkinError) as error:
        read(days(*other))
    assert str(error.value) == (
        f"Column 'c' of Client 0 holds dates, but '{other[0]}' in row 41{many}, or name the column in categorical."
    )
    assert read(days(*other), categorical=["c"])[0].kind == "category"


def test_dates_of_nothing_are_empty_and_those_of_two_orders_are_refused():
    assert read(["2024-01-01", "0000-00-00", "00.00.0000"])[1] == [19723, -1, -1]
    mixed = [
        f"{day:02d}/{month:02d}/2024" for day, month in [(d, 3) for d in range(1, 29)] + [(3, d) for d in range(13, 29)]
    ]
    with pytest.raises(FedkinError, match="holds dates such as '01/03/2024' that cannot be read together"):
        read(mixed)


def test_blanks_may_part_thousands():
    assert read(["12 345", "1 234 567.5", "7"])[1] == [12345, 1234567.5, 7]
    assert read(["12 345,5", "7"], decimal=",")[1] == [12345.5, 7]
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
    comments = ["None", *(f"comment {at}" for at in range(9))]
    assert "None" not in read(comments)[0].categories


def test_named_levels_are_values_whatever_they_are():
    assert read(["NA", "Gravel", None], ordinal={"c": ["NA", "Gravel"]})[1] == [0, 1, -1]
    ordered = pd.Categorical(["None", "Mild", None], ["None", "Mild"], ordered=True)
    assert read(pd.Series(ordered))[1] == [0, 1, -1]
    assert read(["None"], nones=["c"], categorical=["c"])[0].categories == ("None",)


@pytest.mark.parametrize(
    "cells",
    [["01JAN2021", "03feb2021"], ["01JAN2021:00:00:00", "03FEB2021:00:00:00"], ["1-Jan-2021 0:00", "3-FEB-2021 0:00"]],
)
def test_dates_of_statistics_programs_are_dates(cells):
    assert read(cells) == (Column("c", "date"), [18628, 18661])
    assert read_column(pd.Series(["01JAN2021:06:00:00"]), "c", "t", TableOptions())[1].tolist() == [18628.25]
