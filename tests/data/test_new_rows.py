"""New rows that are unlike those of the clients."""

import pytest
import torch

from fedkin.core import FedkinError
from fedkin.core.table import Column
from fedkin.data.checks import check_new_rows
from fedkin.data.options import TableOptions
from fedkin.data.preparation import prepare
from fedkin.data.scaling import ends_outward
from prepared_tables import NAN, category, federation, number, table

WARDS = ["heart"] * 15 + ["lung"] * 15
TRUTHS = Column("smoker", "boolean", ("no", "yes")), [0.0, 1.0] * 15
PREPARED = prepare(
    federation(*[table(number("weight", *range(60, 90)), category("ward", *WARDS), TRUTHS) for _ in range(2)])
)
ENCODING = PREPARED.encoding


def new(weights, wards=("heart",) * 3, smoker=TRUTHS[0]):
    return table(number("weight", *weights), category("ward", *wards), (smoker, [0.0, 1.0, 1.0]))


def notes(*rows):
    return check_new_rows(new(*rows), ENCODING, "'new.csv'", PREPARED.reach)


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
    unscaled = prepare(federation(new([1, 2, 3]), new([1, 2, 4])), TableOptions(scaling="none")).encoding
    assert check_new_rows(new([1e6, 1e6, 1e6]), unscaled, "It") == []


LEVELS = [110.0 + 9 * (row % 9) + row % 4 for row in range(40)]
DAYS = [8.0 + 70 * row for row in range(40)]
RARE = [0.0] * 499 + [1.0]


def unlike(values, clients=LEVELS, secret=False):
    """Return the notes on values of a column which the clients have, too, beside others; ends may be secret."""
    of_clients = table(number("glu", *clients), number("bmi", *range(len(clients))))
    prepared = prepare(federation(of_clients, of_clients))
    rows = table(number("glu", *values), number("bmi", *range(len(values))))
    return check_new_rows(rows, prepared.encoding, "'new.csv'", None if secret else prepared.reach)


def smaller(times):
    return [
        "All values of column 'glu' of 'new.csv' are below the mean of the clients, about "
        f"{times} times smaller in the mean; are they in another unit?"
    ]


@pytest.mark.parametrize("secret", [False, True])
def test_another_unit_of_smaller_values_is_mentioned(secret):
    wide = [60 + 3.3 * level for level in range(40)]
    assert unlike([level / 18 for level in wide], clients=wide, secret=secret) == smaller(18)
    assert unlike([day / 365.25 for day in DAYS], clients=DAYS, secret=secret) == smaller(365)
    assert unlike([4.1, 5.2, 4.0], clients=wide, secret=secret) == []  # too few
    zeros = [0.0, 0.0, *wide[2:]]
    assert unlike([level / 18 for level in wide], clients=zeros, secret=secret) == smaller(18)


@pytest.mark.parametrize("clients", [LEVELS, DAYS, RARE, [0.0] * 900 + [3.0, 700.0], [-5.0, 1e6, *range(400)]])
def test_of_the_clients_own_rows_and_parts_of_them_nothing_is_said(clients):
    for part in (clients, clients[:7], clients[-3:], clients[::9]):
        assert unlike(part, clients=clients) == []


def test_ends_are_rounded_outwards():
    low, high = (torch.tensor(own, dtype=torch.float64) for own in ([56.4, -143.0, 0.0], [199.0, -1.23, 1.7e308]))
    ends = ends_outward(low, high)
    assert (ends[0] <= low).all()
    assert (ends[1] >= high).all()
    assert ends.tolist()[0] == pytest.approx([56, -150, 0])
    assert ends.tolist()[1][:2] == pytest.approx([200, -1.2])
    assert ends_outward(None, high) is None


def test_numbers_for_truth_values_other_texts_and_other_spellings_of_names_are_refused():
    codes = table(category("Weight", "60", "heavy"), category("ward", "lung", "lung"), number("smoker", 1, 2))
    words = table(number("weight", 60, 70), category("ward", "lung", "lung"), category("smoker", "Yes", "unknown"))
    with pytest.raises(FedkinError) as error:
        ENCODING.apply(codes)
    assert str(error.value).splitlines() == [
        "The table has no column 'weight', which the clients' tables have; did you mean 'Weight'?",
        "Column 'smoker' of the table holds numbers; in the clients' tables it holds truth values.",
    ]
    with pytest.raises(FedkinError, match="holds categories; in the clients' tables it"):
        ENCODING.apply(words)
