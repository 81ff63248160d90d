import numpy as np
import pandas as pd
import pytest

from fedkin.data.reading.columns import read_column
from fedkin.data.reading.table_options import TableOptions
from fedkin.data.reading.values.date_texts import as_dates
from fedkin.data.reading.values.logged_dates import in_iso_form

WANTED = 19787 + 14.5 / 24
"""5 March 2024, 14:30 in UTC, in days since 1970."""


@pytest.mark.parametrize(
    "form",
    [
        "2024-03-05 14:30:00 UTC", "2024-03-05 15:30:00+01", "2024-03-05 15:30:00 +0100", "2024-03-05T14:30:00,000",
        "05/Mar/2024:15:30:00 +0100", "Tue, 05 Mar 2024 14:30:00 GMT", "Tue, 05 Mar 2024 15:30:00 +0100",
        "5 Mar 2024 14:30", "Tue Mar  5 14:30:00 2024", "Tue Mar  5 14:30:00 UTC 2024", "2024-03-05T14:30:00Z",
    ],
)  # fmt: skip
def test_dates_of_logs_mails_and_databases_are_read(form):
    column, values = read_column(pd.Series([form] * 3), "c", "Client 0", TableOptions())
    assert column.kind == "date"
    assert values.tolist() == pytest.approx([WANTED] * 3)


@pytest.mark.parametrize(
    "form", ["Tue Foo  5 14:30:00 2024", "05/Abc/2024:15:30:00", "2024-03-05", "14:30:00 UTC", "x"]
)
def test_other_texts_stay_as_they_are(form):
    assert in_iso_form(form) == form


def test_a_weekday_before_a_date_does_not_count():
    words = np.array(
        ["Friday, 13 March 2020", "Sun, March 1, 2020", "Mi. 04.03.2020", "Samstag, 7. März 2020", "jeudi 5 mars 2020"],
        dtype=object,
    )
    assert as_dates(words).dt.day.tolist() == [13, 1, 4, 7, 5]
    assert as_dates(np.array(["Friday, 13 o'clock", "Monday, 5"], dtype=object)) is None
