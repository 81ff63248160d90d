"""Last rows that are called totals or means, and are samples."""

import pandas as pd
import pytest

from fedkin.core import FedkinError
from fedkin.data.reading.tables import frame_to_dataset

VACATION = ["generous", "Average", "below", "generous", "below"]
FRAME = pd.DataFrame({"wage": [2.5, 4.0, 5.5, 3.0, 3.0], "hours": [40, 38, 35, 40, 37], "vacation": VACATION})


def with_row(frame=FRAME, **row):
    return pd.concat([frame, pd.DataFrame([row])], ignore_index=True)


@pytest.mark.parametrize("word", ["average", "Average:"])
def test_a_word_that_other_rows_have_is_a_category(word):
    means = with_row(wage=3.6, hours=38, vacation=word)
    assert len(frame_to_dataset(means, "f", "It")) == 6
    others = means.assign(vacation=[*VACATION[:1], "below", *VACATION[2:], word])
    with pytest.raises(FedkinError, match="is one of means"):
        frame_to_dataset(others, "f", "It")


def test_a_whole_number_near_the_mean_of_few_whole_numbers_is_no_evidence():
    years = pd.DataFrame({"duration": [1, 2, 3, 2, 3], "vacation": ["generous", "below", *["generous"] * 3]})
    assert len(frame_to_dataset(with_row(years, duration=2, vacation="average"), "f", "It")) == 6
    with_wage = years.assign(wage=FRAME.wage)
    assert len(frame_to_dataset(with_row(with_wage, duration=2, wage=5.7, vacation="average"), "f", "It")) == 6
    with pytest.raises(FedkinError, match="is one of means"):
        frame_to_dataset(with_row(with_wage, duration=2, wage=3.6, vacation="average"), "f", "It")
