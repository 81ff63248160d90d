import datetime

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkin.core.errors import FedkinError
from fedkin.core.table import Column
from fedkin.data.reading.columns import read_column
from fedkin.data.reading.table_options import TableOptions
from fedkin.data.reading.values.text_values import as_numbers


def read(cells, **options):
    column, values = read_column(pd.Series(cells, dtype=object), "c", "Client 0", TableOptions(**options))
    return column, np.nan_to_num(values, nan=-1.0).tolist()


def sentence(cells, **options):
    with pytest.raises(FedkinError) as error:
        read(cells, **options)
    return str(error.value)


@pytest.mark.parametrize(
    ("cells", "decimal", "numbers"),
    [
        (["1,234.50", "12", "1,234"], ".", [1234.5, 12, 1234]),
        (["1,234,567", "-1,000"], ".", [1234567, -1000]),
        (["1'234.5", "3"], ".", [1234.5, 3]),
        (["1.234,5", "12", "1.234"], ",", [1234.5, 12, 1234]),
        (["12 500", "1 000,5"], ",", [12500, 1000.5]),
        (["1,234.50", "5.25", "1,234", "12"], ",", [1234.5, 5.25, 1234, 12]),
        (["1'234.5", "0.5", "750"], ",", [1234.5, 0.5, 750]),
        (["1 234.5", "750"], ",", [1234.5, 750]),
        (["−3.5", "2"], ".", [-3.5, 2]),
        (["1,234", "12,500", "750", "3"], ".", [1234, 12500, 750, 3]),
        (["1,234", *map(str, range(200, 210))], ".", [1234, *range(200, 210)]),
    ],
)
def test_thousands_and_typographic_signs(cells, decimal, numbers):
    cells = [cell.replace(" ", "\u202f") for cell in cells]
    assert read(cells, decimal=decimal) == (Column("c"), numbers)


@given(st.lists(st.integers(-(10**12), 10**12), min_size=1), st.booleans())
def test_grouped_integers_are_what_they_were(numbers, comma):
    words = np.array([f"{number:,}.25".replace(",", "'") for number in numbers], dtype=object)
    if comma:
        words = np.array([word.replace(".", ",") for word in words], dtype=object)
    expected = [float(f"{number}.25") for number in numbers]
    assert as_numbers(words, "," if comma else ".").tolist() == expected


def test_a_comma_that_may_stand_before_decimals_is_asked_about():
    assert sentence(["1,234", "12,500"]).startswith(
        "Column 'c' of Client 0 holds numbers with a comma, such as '1,234'; write them without it if it separates "
        "thousands, set decimal = ',' if it stands before decimals"
    )
    for others in (["12,500", "7"], ["12,500", "1292"], ["0,234", "750"], ["750"]):
        assert "numbers with a" in sentence(["1,234", *others])


def test_a_decimal_comma_beside_points_between_thousands_is_one():
    amounts = ["2.448,89", "108,77", "−1.234", "12"]
    assert "numbers with a decimal comma, such as '2.448,89'; set decimal = ','" in sentence(amounts)
    assert "such as '1 250,5'" in sentence(["1 250,5", "1'000,5"])
    assert read(amounts, decimal=",") == (Column("c"), [2448.89, 108.77, -1234, 12])
    many = [f"{at}.448,89" for at in range(1, 25)]
    assert "decimal comma, such as '1.448,89'" in sentence([*many, "k.A."])
    assert "holds numbers, but 'k.A.' in row 25" in sentence([*many, "k.A."], decimal=",")
    assert "holds numbers, but 'k.A.' in row 25" in sentence([f"{at},448" for at in range(1, 25)] + ["k.A."])


def test_times_of_day_are_hours():
    assert read(["06:30", "23:59:60", None])[0].kind == "category"
    assert read(["06:30", "18:15:36", None]) == (Column("c"), [6.5, 18.26, -1])
    assert read([datetime.time(6, 30), datetime.time(12)]) == (Column("c"), [6.5, 12])


@pytest.mark.parametrize(
    "cells",
    [
        ["02.01.1970", "13.01.1970"],
        ["2.1.1970", "13.1.1970"],
        ["02/01/1970", "13/01/1970"],
        ["01/02/1970", "01/13/1970"],
        ["2-1-1970", "13-1-1970"],
        ["1970/01/02", "1970/01/13"],
        ["02.01.1970 00:00", "13.01.1970 00:00:00"],
        ["01/02/1970 12:00 AM", "01/13/1970 12:00:00 am"],
        ["1970-01-02 12:00 AM", "1970-01-13 12:00:00 a.m."],
        ["2 Jan 1970", "13 Jan 1970"],
        ["January 2, 1970", "January 13, 1970"],
        ["02-JAN-1970", "13-JAN-1970"],
        ["2. Januar 1970", "13. Jan. 1970"],
        ["2 janvier 1970", "13 Janv. 1970"],
        ["02-Jän-70", "13-Jän-70"],
        ["1970-01-02T00:00:00Z", "1970-01-13T00:00:00Z"],
    ],
)
def test_dates_as_people_write_them(cells):
    assert read([*cells, None]) == (Column("c", "date"), [1, 12, -1])


@pytest.mark.parametrize(
    "cells",
    [
        ["1970-01", "1970-04"],
        ["01/1970", "04/1970"],
        ["Jan 1970", "APR 1970"],
        ["January 1970", "April 1970"],
        ["1970 Jan", "1970-Apr"],
        ["1970Q1", "1970-Q2"],
        ["Q1 1970", "1970 Q2"],
        ["1970-01-01", "Apr 1970"],
        ["Januar 1970", "April 1970"],
        ["janvier 1970", "avr. 1970"],
        ["1er janvier 1970", "1er avril 1970"],
    ],
)
def test_months_and_quarters_are_their_first_days(cells):
    assert read([*cells, None]) == (Column("c", "date"), [0, 90, -1])


@pytest.mark.parametrize(
    "cells", [["2010-11", "2011-12"], ["2024-13"], ["Ford 2000", "Opel 1999"], ["March 32"], ["2024 Q5"], ["1234-05"]]
)
def test_seasons_codes_and_vintages_are_categories(cells):
    assert read(cells)[0].kind == "category"
    assert read([f"Chateau {1980 + at}" for at in range(40)])[0].kind == "category"


@pytest.mark.parametrize("cells", [["32.01.1970"], ["13/13/1970"], ["1 Foo 1970"], ["01.01.1970", "x"], ["1/2/70"]])
def test_what_only_looks_like_dates_is_a_category(cells):
    assert read(cells)[0].kind == "category"


def test_dates_that_could_be_two_are_refused_unless_an_option_says_which_part_is_the_day():
    cells = ["03/01/2024", "05/01/2024"]
    assert "day and month cannot be distinguished; set dayfirst = true or false" in sentence(cells)
    assert read(cells, categorical=["c"])[0].kind == "category"
    assert read(["03/02/1970", "05/01/1970"], dayfirst=True) == (Column("c", "date"), [33, 4])
    assert read(["03/02/1970", "05/01/1970"], dayfirst=False) == (Column("c", "date"), [60, 120])
    assert read(["3/2/70", "5/1/70", "6/1/70", "7/1/70"], dayfirst=True)[1] == [33, 4, 5, 6]
    assert read(["01/31/1970"], dayfirst=True)[1] == [30], "what dates show themselves"


def test_a_part_that_is_always_one_is_the_day():
    months = [0, 31, 59, 90, 120, 151]
    assert read([f"01/{month:02}/1970" for month in range(1, 7)]) == (Column("c", "date"), months)
    assert read([f"{month}/1/1970" for month in range(1, 7)]) == (Column("c", "date"), months)
    assert read(["01/01/1970", "01/01/1971", "02/02/1971"]) == (Column("c", "date"), [0, 365, 397])


FORMS = ["{}‰", "${}", "{} mg/dl", "{}€", "<{}", "{} °C", "{}°N", "48°12'{}\"N", "Rs{}", "USD{}", "₹{}", "{}K", "{}+",
         "ca. {} kg", "1{}y 2m", "{}'1\"", "5 ft {} in", "{} ± 0.1", "{}/80", "(${})"]  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("rows", [9, 30])
def test_numbers_with_signs_and_units_are_refused_and_never_names_of_rows(form, rows):
    cells = [form.format(1_500 + 37 * at) for at in range(rows)]
    assert "holds numbers in texts, most of the form" in sentence(cells)
    assert not any(cell in sentence(cells) for cell in cells)
    assert read(cells, categorical=["c"])[0].kind == read(cells, id="c")[0].kind == "category"
    assert read(cells[:3] * 10)[0].kind == "category"


def test_numbers_in_thousands_and_millions_are_refused():
    assert "most of the form '0K'" in sentence([f"{at}K" for at in range(30)] + ["1.5M", "3M"] + ["800", "900"])


@pytest.mark.parametrize("form", ["P{:03}", "S{}", "A{}B7", "{:04}-B", "Chateau {}"])
def test_codes_are_categories(form):
    assert read([form.format(at) for at in range(1, 40)] + ["x y"] * 2)[0].kind == "category"


def test_ranges_and_numbered_names_that_come_again_are_categories():
    for cells in ([f"{at}-{at + 4}" for at in range(0, 90, 5)], [f"Ward {7 * at}" for at in range(18)]):
        assert read(cells * 5)[0].kind == "category"
        assert "most of the form" in sentence(cells)


def test_percentages_are_shares():
    assert read(["58%", "7.5 %", None, "−100%"]) == (Column("c"), [0.58, 0.075, -1, -1])
    assert read(["58,5%", "1.200%"], decimal=",") == (Column("c"), [0.585, 12])
    assert read(["10-20%", "20-30%"])[0].kind == "category"
    mixed = [f"{number}%" for number in range(20)] + [str(number) for number in range(20)]
    said = (
        "Column 'c' of Client 0 holds percentages, such as '{}', beside numbers, such as '1'; write all in one way, or "
        "name the column in categorical or drop."
    )
    assert sentence(mixed) == said.format("0%")
    assert sentence(["1", "5%", *map(str, range(20, 60))]) == said.format("5%")
    assert read(["0", "50%"] * 9)[1][:2] == [0, 0.5]
    assert read(["5", "50%"] * 9)[0].kind == "category"


def test_times_of_half_a_day_are_hours():
    assert read(["12:15 AM", "1:00 pm", "12:30 p.m.", "11:45am", None]) == (Column("c"), [0.25, 13, 12.5, 11.75, -1])


def test_a_column_may_have_dates_of_several_forms():
    assert read(["1970-01-02", "03.01.1970", "4 Jan 1970", "1970/01/05", None]) == (
        Column("c", "date"),
        [1, 2, 3, 4, -1],
    )
    assert "of which day and month" in sentence(["1970-01-02", "03/01/1970"])


def test_many_dates_with_short_years_are_dates():
    days = [f"{day}.02.70" for day in range(1, 29)]
    assert read(days) == (Column("c", "date"), [31.0 + day for day in range(28)])
    assert read([f"2/{day}/70" for day in range(1, 29)]) == read(days)
    assert read([f"{day}/02/70 06:00" for day in range(1, 29)])[1][0] == 31.25
    assert read([f"{day}-Feb-70" for day in range(1, 29)]) == read(days)
    assert read(["01.02.1970-06:00", "01/02/70, 06:00", "13/02/70T06:00"])[1] == [31.25, 31.25, 43.25]
    assert read(["15-Jan-69", "18.11.2023", None])[1] == [-351, 19679, -1]
    assert read([f"{day}.12.24" for day in range(1, 29)])[1][0] == 20058
    assert read([f"{version}.99.24" for version in range(1, 29)])[0].kind == "category"
    assert read(days[:3] * 10)[0].kind == "category"
    assert read(["01.02.70"] * 10)[1] == [31] * 10


@pytest.mark.parametrize(
    ("days", "why"),
    [
        ([f"{day % 12 + 1}/{day % 11 + 1}/24" for day in range(30)], "of which day and month cannot be distinguished"),
        ([f"{day}-12-24" for day in range(1, 29)], "of which the year cannot be distinguished"),
        (["31.12.29", "31.12.30", "1.1.31", "2.1.31"], "whose years have two digits and may be of either century"),
        (["15-Jan-29", "15-Jan-30"], "whose years have two digits and may be of either century"),
    ],
)
def test_dates_with_short_years_that_cannot_be_told_are_refused(days, why):
    assert sentence(days).startswith(f"Column 'c' of Client 0 holds dates such as '{days[0]}', {why}; ")


def test_versions_are_no_dates_and_a_wrong_date_with_a_short_year_is_named():
    assert read([f"{first}.{second}.13" for first in range(1, 7) for second in range(1, 5)] + ["1.0", "2.0"])[
        0
    ].kind == ("category")
    days = [f"{day:02}.{month:02}.24" for month in (1, 3) for day in range(1, 29)]
    assert sentence([*days, "31.02.24"]).startswith("Column 'c' of Client 0 holds dates, but '31.02.24' in row 57;")


def test_negative_numbers_as_accountants_write_them():
    assert read(["(11.44)", "5.1", "( 3 )"]) == (Column("c"), [-11.44, 5.1, -3])
    assert read(["(1,234)", "12,500", "1,000,000"]) == (Column("c"), [-1234, 12500, 1000000])
    assert read(["(5%)", "10%"]) == (Column("c"), [-0.05, 0.1])
    assert read(["(2019)", "(2020)"])[0].kind == "category"
    assert read(["(a)", "5"])[0].kind == "category"
    assert "numbers with a decimal comma, such as '(1,5)'" in sentence(["(1,5)", "2"])
    dollars = [form.format(at) for at in range(7, 30) for form in ("(${})", "${}")]
    assert "of the form '$0'" in sentence(dollars)


def test_a_typographic_apostrophe_separates_thousands():
    assert read(["1\u2019003.65", "250.5", "-12\u2019000"]) == (Column("c"), [1003.65, 250.5, -12000])
    assert read(["5\u2019", "7\u2019"])[0].kind == "category"


def test_a_minus_behind_an_amount_is_one_before_it():
    assert read(["11.44-", "5.10", "1,250.00-"]) == (Column("c"), [-11.44, 5.1, -1250])
    assert read(["0.50\u2212", "0.25-"]) == (Column("c"), [-0.5, -0.25])
    assert "numbers with a decimal comma, such as '5,10'" in sentence(["1.250,00-", "5,10"])
    assert read(["2-", "2", "3-", "1"])[0].kind == "category", "grades"
    assert read(["1.5-", "2.0"])[0].kind == "category"


def test_weeks_are_their_mondays():
    assert read(["1970-W02", "1970W03", "1970-W03-2", None]) == (Column("c", "date"), [4, 11, 12, -1])
    assert read(["2023-W53"])[0].kind == "category"  # which the calendar has not
    days = ["März 2023", "3. Mai 2023", "1er août 2023", "12 Dez 2023", "Sept 2023"]
    assert read(days)[0].kind == "date"
    assert read(["Mai 68", "Mars 20"])[0].kind == "category"


def test_points_between_thousands_are_seen_where_there_are_two():
    for cells in (["1.234.567", "95.300", "937", "0"], ["1.234.567", "-1.005.316"]):
        assert sentence(cells) == (
            f"Column 'c' of Client 0 holds '{max(cells, key=len)}', whose points separate thousands; set decimal = "
            "',', or write it without them."
        )
        assert read(cells, decimal=",")[1][0] == 1234567
    for codes in (["123.456.789", "987.654.321"], ["1.2.3", "1.234.567"], ["10.0.0.1", "1.234.567"]):
        assert read(codes)[0].kind == "category"


def test_digits_of_other_scripts_are_numbers():
    assert read(["１０", "３７.５"]) == (Column("c"), [10, 37.5])
    assert read(["٢٥", "٨٢"]) == (Column("c"), [25, 82])
