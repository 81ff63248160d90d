import datetime
import decimal
from contextlib import suppress

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkin.core.client import Column
from fedkin.core.errors import FedkinError
from fedkin.data.options import TableOptions
from fedkin.data.tables import frame_to_dataset, read_column


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
        pd.array([1.5, None, 3], dtype="Float64"),
        pd.Series([decimal.Decimal("1.5"), None, decimal.Decimal(3)]),
        pd.Series(pd.to_timedelta(["90min", None, "3h"])),
        pd.Series([datetime.timedelta(hours=1.5), None, datetime.timedelta(hours=3)], dtype=object),
        pd.Series(pd.array([1.5, None, 3], dtype="float64[pyarrow]")),
    ],
)
def test_numbers(cells):
    assert read(cells) == (Column("c"), [1.5, -1, 3])


@pytest.mark.parametrize(
    ("cells", "names"),
    [
        (["Yes", "no", None], ("no", "Yes")),
        (["y", "N", "-"], ("N", "y")),
        (["T", "F", ""], ("F", "T")),
        (["true", "False", "na"], ("False", "true")),
        ([True, False, None], ("false", "true")),
        (pd.array([True, False, None], dtype="boolean"), ("false", "true")),
    ],
)
def test_opposites_are_booleans(cells, names):
    assert read(cells) == (Column("c", "boolean", names), [1, 0, -1])


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


DAYS = [str(day)[:10] for day in pd.date_range("2024-01-01", periods=40)]
NUMBERS = [str(at) for at in range(30)]


@pytest.mark.parametrize(
    ("cells", "row", "kind"),
    [
        ([*NUMBERS, "12x", "1o"], 31, "numbers, but digits with letters in row 31, the first of 2 other cells"),
        (["5", "7", "9", "none of these"], 4, "numbers, but a text without digits"),
        ([*NUMBERS, "2024-01-31"], 31, "numbers, but a date"),
        ([*NUMBERS, "00123"], 31, "numbers, but digits that are neither"),
        ([*DAYS, "2024-02-30"], 41, "dates, but digits that are neither"),
        (["03/04/2024", "05/06/2024"], None, "dates that can be read in two ways"),
    ],
)
def test_a_column_with_a_few_other_cells_names_their_kind_and_what_to_do_and_no_value(cells, row, kind):
    with pytest.raises(FedkinError) as error:
        read(cells)
    said = str(error.value)
    assert said.startswith(f"Column 'c' of Client 0 holds {kind}")
    assert row is None or f" in row {row}" in said
    assert "categorical" in said or "2024-12-31" in said
    assert " in row " not in error.value.public
    assert " words" not in error.value.public
    for cell in {*cells[-3:], *cells[:3]}:
        assert len(cell) < 3 or cell not in said
    assert read(cells, categorical=["c"])[0].kind == "category"


CELLS = [
    1, -9, 2**70, 1.5, np.nan, np.inf, None, pd.NA, pd.NaT, True, np.True_, np.int8(3), "x", "", "1.234", "1,5", "58%",
    "007", "None", "2024-01-01", "01/02/2024", "31.12.2024", "9" * 400, "1" + " 0" * 9, "\u0660", "\ud800", "a\x00b",
    datetime.date(2024, 1, 1), datetime.datetime(9999, 12, 31), datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC),
    datetime.time(7, 30), datetime.time(7, 30, tzinfo=datetime.UTC), datetime.timedelta(hours=1),
    decimal.Decimal("1.5"), decimal.Decimal("NaN"), pd.Interval(0, 1), pd.Period("2024-01"), 1 + 2j, b"x", (1, 2), [1],
    {1}, np.zeros(2), object(),
]  # fmt: skip
READING = [{}, {"na_values": [-9, "x"]}, {"categorical": ["a"]}, {"ordinal": {"a": ["x", "y"]}}, {"text": ["a"]}]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(range(len(CELLS))), min_size=1, max_size=3), st.sampled_from(READING), st.booleans())
def test_whatever_cells_hold_is_read_or_refused(indices, options, as_label):
    cells = pd.Series([None] * 3 * len(indices), dtype=object)
    for i in range(len(cells)):
        cells.iat[i] = CELLS[indices[i % len(indices)]]
    with suppress(FedkinError):
        frame = pd.DataFrame({"a": cells, "b": range(len(cells))})
        table = frame_to_dataset(frame, "t", "It", "a" if as_label else None, options=TableOptions(**options)).table
        assert not table.values.isinf().any()


def test_codes_with_and_without_decimals_are_one_category():
    assert read(["3.0", "", "12.0"], categorical=["c"])[0].categories == ("3", "12")
    assert read(["3.0", "3"], categorical=["c"])[0].categories == ("3",)


@given(st.lists(st.one_of(st.none(), st.text("abxyz 019.-", max_size=4)), min_size=1, max_size=30))
def test_texts_are_found_again_by_their_codes(cells):
    column, values = read(pd.Series(cells, dtype=object), categorical=["c"])
    for cell, value in zip(cells, values, strict=True):
        if value >= 0:
            code = column.categories[int(value)]
            assert code == cell.strip() or float(code) == float(cell)  # where all are such as 3.0 they are 3
        else:
            assert cell is None or cell.strip() in ("", "-", ".")


@pytest.mark.parametrize(("usual", "other", "kind"), [(" %", "", "a number"), ("", " %", "a percentage")])
def test_numbers_beside_percentages_are_asked_about(usual: str, other: str, kind: str) -> None:
    with pytest.raises(FedkinError, match=f"but {kind} in row 10, the first of 1"):
        read([*(f"{number}{usual}" for number in range(1, 10)), f"58{other}"])
    assert read(["58 %", "5 %"])[1] == [0.58, 0.05]
