"""New rows that are unlike those of the clients."""

import pytest

from fedkin.core import FedkinError
from fedkin.core.table import Column
from fedkin.data.preparing.encoding import aligned
from fedkin.data.preparing.new_rows import notes_on_new_rows
from fedkin.data.preparing.preparation import PreparingOptions
from fedkin.data.preparing.prepare import prepare
from prepared_tables import NAN, category, federation, number, table

WARDS = ["heart"] * 15 + ["lung"] * 15
TRUTHS = Column("smoker", "boolean", ("no", "yes")), [0.0, 1.0] * 15
ENCODING = prepare(
    federation(*[table(number("weight", *range(60, 90)), category("ward", *WARDS), TRUTHS) for _ in range(2)])
).encoding


def new(weights, wards=("heart",) * 3, smoker=TRUTHS[0]):
    return table(number("weight", *weights), category("ward", *wards), (smoker, [0.0, 1.0, 1.0]))


def notes(*rows):
    return notes_on_new_rows(new(*rows), ENCODING, "'new.csv'")


def test_rows_like_the_clients_are_not_mentioned():
    assert notes([50, 75, 101]) == notes([NAN, NAN, NAN]) == []


def test_another_unit_and_codes_of_missing_values_are_mentioned():
    unit = "All values of column 'weight' of 'new.csv' are far from those of the clients; are they in another unit?"
    assert notes([0.07, 0.08, NAN]) == []  # too few
    assert notes([70_000, 81_000, 76_000]) == [unit]
    assert notes([0.07, 0.08, 0.09]) == [unit]
    assert notes([70, 9999, 75]) == [
        "Column 'weight' of 'new.csv' holds 9999, far from the clients' values, in 1 row; is it in another unit, or "
        "does it stand for a missing value?"
    ]
    unscaled = prepare(federation(new([1, 2, 3]), new([1, 2, 4])), PreparingOptions(scaling="none")).encoding
    assert notes_on_new_rows(new([1e6, 1e6, 1e6]), unscaled, "It") == []


def test_categories_that_no_client_has_named_are_mentioned():
    assert notes([60, 70, 80], ["eye", "Heart ", "lung"]) == [
        "Column 'ward' of 'new.csv' holds 'Heart ' (is it 'heart'?), 'eye' in 2 of 3 rows; no client has named "
        "such categories."
    ]


def test_rare_categories_count_as_other_without_alarm():
    wards = [*["heart"] * 15, *["lung"] * 13, "eye", "ear"]
    rows = table(number("weight", *range(60, 90)), category("ward", *wards))
    encoding = prepare(federation(rows, rows)).encoding
    held = "Column 'ward' of 'new.csv' holds"
    assert notes_on_new_rows(rows, encoding, "'new.csv'") == [
        f"{held} 'ear', 'eye' in 2 of 30 rows; they count as 'other', as rare categories did in training."
    ]
    one = table(number("weight", 60, 70), category("ward", "heart", "eye"))
    assert notes_on_new_rows(one, encoding, "'new.csv'") == [
        f"{held} 'eye' in 1 of 2 rows; it counts as 'other', as rare categories did in training."
    ]


def test_numbers_for_truth_values_other_texts_and_other_spellings_of_names_are_refused_with_an_example():
    codes = table(number("Weight", 60, 70), category("ward", "lung", "lung"), number("smoker", 1, 2))
    words = table(number("weight", 60, 70), category("ward", "lung", "lung"), category("smoker", "Yes", "unknown"))
    with pytest.raises(FedkinError) as error:
        ENCODING.apply(codes)
    assert str(error.value).splitlines() == [
        "The table has no column 'weight', which the clients' tables have; "
        "rename its column 'Weight' if that is meant.",
        "Column 'smoker' of the table holds numbers from 1 to 2; in the clients' tables it holds truth values.",
    ]
    with pytest.raises(
        FedkinError, match="holds categories such as 'unknown'; in the clients' tables it holds truth values"
    ):
        ENCODING.apply(words)


def test_whole_numbers_are_known_with_decimals_and_without():
    versions = ["2.4.1", "3.0", "4"] * 10
    rows = table(number("weight", *range(60, 90)), category("version", *versions))
    encoding = prepare(federation(rows, rows)).encoding
    new = table(number("weight", 60, 70, 80, 90), category("version", "3", "3.0", "4.0", "3.1"))
    assert notes_on_new_rows(new, encoding, "It") == [
        "Column 'version' of It holds '3.1' in 1 of 4 rows; no client has named such a category."
    ]
    assert aligned(new, encoding.schema.columns, "It", imputes=False)[:, 1].tolist() == [1, 1, 2, 3]
