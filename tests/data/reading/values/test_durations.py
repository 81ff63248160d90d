import datetime

import numpy as np
import pandas as pd
import pytest

from fedkin.core.table import Column
from fedkin.data.reading.columns import read_column
from fedkin.data.reading.table_options import TableOptions
from fedkin.data.reading.values.durations import as_hours


def read(cells):
    column, values = read_column(pd.Series(cells), "c", "Client 0", TableOptions())
    return column, np.round(values, 6).tolist()


@pytest.mark.parametrize(
    ("form", "hours"),
    [
        ("1:30", 1.5), ("100:30:00", 100.5), ("0:00:09.0", 0.0025), ("00:00:09,0", 0.0025), ("0 days 12:22:30", 12.375),
        ("0 days 00:00:00.900000", 0.00025), ("-1 days +23:00:00", -1), ("1 day, 2:03:36", 26.06), ("2 days", 48),
        ("-2 days", -48), ("1 day 02:30", 26.5), ("PT12H22M30S", 12.375), ("P1DT6H", 30), ("P2W", 336), ("P3D", 72),
        ("PT0.5H", 0.5), ("PT0,5H", 0.5), ("-PT90M", -1.5), ("P-1DT23H0M0S", -1), ("P0DT0H0M0S", 0), ("PT36S", 0.01),
        ("7h 20m", 22 / 3), ("1h20", 4 / 3), ("1 h 20 min", 4 / 3), ("2d 3h", 51), ("1h 30m 36s", 1.51),
        ("2 hours and 30 minutes", 2.5), ("3 Std. 30 Min.", 3.5), ("6m 36s", 0.11), ("12:36.0", 0.21),
    ],
)  # fmt: skip
def test_durations_are_hours(form, hours):
    assert as_hours([form]) == [pytest.approx(hours)]


@pytest.mark.parametrize(
    "form", ["P", "PT", "P1DT", "P1Y", "P2M", "PP1D", "1 days 99", "days", "3 d", "12:60", "1:2:3:4", ""]
)
def test_other_texts_are_none(form):
    assert as_hours(["1:30", form]) is None


def test_durations_of_one_part_need_others_of_two():
    assert as_hours(["7h 30m", "45m", "2h", "0:30"]) == [7.5, 0.75, 2, 0.5]
    assert as_hours(["45m", "20m"]) is None
    assert as_hours(["2y 3m", "3m"]) is None
    assert as_hours(["12:30.5", "15:00"]) == [pytest.approx(750.5 / 3600), 0.25]
    assert as_hours(["12:30", "15:00"]) == [12.5, 15]


def test_times_with_dots_are_times_if_the_middle_of_some_is_no_month():
    assert as_hours(["18.30.00", "9.00.36"]) == [18.5, pytest.approx(9.01)]
    assert as_hours(["18.30.00", "31.12.24"]) is None
    assert read(["18.00.00", "19.00.00"]) == (Column("c"), [18, 19])
    assert read(["12.10.00", "11.09.01"])[0] == Column("c", "date")


def test_durations_have_one_unit_however_they_are_kept():
    spans = pd.Series(pd.to_timedelta(["0:03:36", "13:30:00", "26:30:00", None]))
    wanted = (Column("c"), [0.06, 13.5, 26.5])
    texts = [
        ["0:03:36", "13:30:00", "26:30:00"],
        [str(span) for span in spans[:3]],
        [span.isoformat() for span in spans[:3]],
        [str(datetime.timedelta(hours=hours)) for hours in (0.06, 13.5, 26.5)],
    ]
    for cells in [spans[:3], spans[:3].astype(object), *texts]:
        assert read(cells) == wanted
    assert read(spans)[1][:3] == wanted[1]


def test_a_few_other_texts_among_durations_are_refused():
    cells = [f"0 days 0{at % 10}:{at:02d}:00" for at in range(40)]
    with pytest.raises(ValueError, match="holds times of day or durations, but 'soon' in row 41; correct or"):
        read([*cells, "soon"])
