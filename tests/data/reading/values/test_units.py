import numpy as np
import pandas as pd
import pytest

from fedkin.core.errors import FedkinError
from fedkin.data.reading.columns import read_column
from fedkin.data.reading.table_options import TableOptions
from fedkin.data.reading.values.units import with_known_unit


def texts(form, numbers):
    return np.array([form.format(number) for number in numbers], dtype=object)


@pytest.mark.parametrize(
    "form",
    ["CHF {}", "EUR {}", "US$ {}", "US${}", "{}kg", "{}mg/dl", "{}y", "{}k", "{}h", "ca. {}", "ca. {} kg", "{}EUR",
     "{} Stunden", "Fr. -{}", "{} Mio.", "{} T€", "{} kmh", "{}\u00a0kg", "CHF 1 {}"],
)  # fmt: skip
@pytest.mark.parametrize("fractions", [False, True])
def test_currencies_and_units_around_numbers(form, fractions):
    cells = texts(form, np.arange(100, 125) / (4 if fractions else 1))
    with pytest.raises(FedkinError) as error:
        read_column(pd.Series([*cells, "unknown"]), "c", "Client 0", TableOptions())
    assert f"holds numbers with a sign or unit, such as '{cells[0]}'; write the numbers alone" in str(error.value)
    assert with_known_unit(cells[:10]) is None


def test_single_letters_that_end_codes_need_decimals():
    assert with_known_unit(texts("{}M", np.arange(100, 125) / 4)) == "25.0M"
    assert with_known_unit(texts("{}M", range(100, 125))) is None
    assert with_known_unit(texts("CAD{}", np.arange(100, 125) / 4)) == "CAD25.0"
    assert with_known_unit(texts("CAD{}", range(100, 125))) is None


@pytest.mark.parametrize(
    "form",
    ["A{}", "B{}", "{}", "ID {}", "v{}", "P-{}", "{}a", "{}B", "Q{}", "I{}.9", "0{}h", "{}-{}", "Route {}", "{}0s"],
)
def test_codes_are_none(form):
    cells = np.array([form.format(at, at) for at in range(10, 90)], dtype=object)
    assert with_known_unit(cells) is None


def test_letters_that_differ_are_codes():
    mixed = [f"{at}{unit}" for at in range(30) for unit in ("k", "h")]
    assert with_known_unit(np.array(mixed, dtype=object)) is None
    assert with_known_unit(np.array([], dtype=object)) is None
