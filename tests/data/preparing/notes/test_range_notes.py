"""Columns that are in another unit at some client, also around 0 and in many columns at once."""

import numpy as np
import pytest
import torch

from fedkin.core.table import Table
from fedkin.data.preparing.notes.cell_notes import notes_on_cells
from fedkin.data.preparing.notes.column_ranges import Range, Spread
from fedkin.data.preparing.notes.data_notes import beside
from fedkin.data.preparing.notes.range_notes import notes_on_ranges
from fedkin.data.preparing.preparation import Preparation


def notes(*clients):
    """Return the notes on tables of numbers, arrays ``(rows, columns)`` of which the columns are called a, b, ..."""
    tables = [torch.tensor(np.asarray(own, dtype=np.float64)) for own in clients]
    means = torch.cat(tables).mean(0)
    names = [chr(ord("a") + at) for at in range(tables[0].shape[1])]
    replies = {
        f"s{at}": {
            "names": names, "filled": torch.full((len(names),), len(own)).double(), "sum": own.sum(0),
            "min": own.amin(0), "max": own.amax(0),
        }
        for at, own in enumerate(tables)
    }  # fmt: skip
    squares = {f"s{at}": (own - means).square().sum(0) for at, own in enumerate(tables)}
    return notes_on_ranges(names, replies, (), means, squares)


def normal(seed, columns=1, mean=1.0):
    return np.random.default_rng(seed).normal(mean, 1, (200, columns))


UNIT = "are they in another unit?"
OR_CODES = "are they in another unit, or do they stand for missing ones?"


@pytest.mark.parametrize("mean", [1, 0, -2])
def test_another_unit_is_noticed_around_and_below_zero(mean):
    (note,) = notes(normal(0, mean=mean), normal(1, mean=mean), 1000 * normal(2, mean=mean))
    assert note.startswith("Column 'a' has values at client s2 that are up to ")
    assert note.endswith(f" times as far from 0 as any other client's; {OR_CODES}")
    (note,) = notes(normal(0, mean=mean), normal(1, mean=mean), normal(2, mean=mean) / 1000)
    assert note.startswith("All values of column 'a' at client s2 are at least ")
    assert note.endswith(f" times nearer to 0 than the farthest of any other client; {UNIT}")
    assert notes(normal(0, mean=mean), normal(1, mean=mean), 5 * normal(2, mean=mean)) == []


def test_values_that_are_apart_are_in_another_unit_only_if_they_may_have_one_sign():
    feed_in = np.linspace(-1.5, 2, 50)[:, None]
    others = [feed_in, 1.1 * feed_in]
    assert notes(*others, np.linspace(3, 2000, 50)[:, None]) == [
        f"All values of column 'a' at client s2 are above those of the others, up to 909 times as far from 0; {UNIT}"
    ]
    assert notes(*others, np.linspace(3, 9, 50)[:, None])[0].endswith(
        "name the column in drop if it is no feature of samples."
    )
    small, large = np.linspace(-3, -1, 50)[:, None], np.linspace(20, 90, 50)[:, None]
    assert notes(large, large + 1, small)[0].endswith("name the column in drop if it is no feature of samples.")
    assert notes(-large, -large - 1, small / 3) == [
        f"All values of column 'a' at client s2 are above those of the others, up to 91 times nearer to 0; {UNIT}"
    ]


def test_a_code_below_zero_is_counted():
    coded = normal(2)
    coded[:3] = -999
    assert notes(normal(0), normal(1), coded) == [
        "Column 'a' has values at client s2 that are up to 258 times as far from 0 as any other client's, at most 3 of "
        f"them near the farthest; {OR_CODES}"
    ]


def test_a_code_that_its_cells_show_is_one_note():
    speeds = np.random.default_rng(0).normal(1500, 100, (200, 1))
    coded = speeds.copy()
    coded[:12] = 65535
    own = notes(speeds, coded)
    assert own[0].endswith(f", at most 14 of them near the largest; {OR_CODES}")
    table = Table.of_numbers(torch.tensor(coded), ["a"])
    seen = notes_on_cells({"s0": Table.of_numbers(torch.tensor(speeds), ["a"]), "s1": table})
    assert [note.partition(";")[0] for note in seen] == [
        "Column 'a' holds 65535, far above all other values, in 12 rows of s1"
    ]
    assert beside(own, seen) == []
    smaller = Table.of_numbers(torch.tensor(coded).clamp(max=6553), ["a"])
    for other in (notes_on_cells({"s1": smaller}), notes_on_cells({"s10": table}), []):
        assert beside(own, other) == own
    prepared = Preparation(notes=own)
    assert prepared.noted(seen).notes == seen


def test_a_code_that_the_cells_of_many_columns_show_is_one_note():
    coded = normal(2, 5)
    coded[:6] = -999
    names = [*"abcde"]
    own = notes(normal(0, 5), normal(1, 5), coded)
    assert [note.partition(" have ")[0] for note in own] == ["Columns 'a', 'b', 'c', 'd', 'e'"]
    seen = notes_on_cells({"s2": Table.of_numbers(torch.tensor(coded), names)})
    assert beside(own, seen) == []
    fewer = notes_on_cells({"s2": Table.of_numbers(torch.tensor(coded[:, :4]), names[:4])})
    assert beside(own, fewer) == own


def test_of_a_column_that_is_larger_as_a_whole_no_cells_are_counted():
    """A few values are near the largest of any column, which says nothing of how many are far above others'."""
    watts = 300 * np.random.default_rng(3).exponential(size=(200, 1))
    kilowatts = [np.random.default_rng(seed).exponential(size=(200, 1)) / 3 for seed in (0, 1)]
    (note,) = notes(*kilowatts, watts)
    assert note.endswith(f" times as large as any other client's; {OR_CODES}")
    assert "near the" not in note


def test_what_holds_of_many_columns_of_a_client_is_said_once():
    kilograms = [np.abs(normal(seed, 12, mean=9)) for seed in (0, 1, 2)]
    grams = 1000 * kilograms[2]
    (note,) = notes(*kilograms[:2], grams)
    assert note.startswith(
        "All values of columns 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h' and 4 more at client s2 are above those of the "
        "others, about 9"
    )
    assert note.endswith(f" times as large in the mean; {UNIT}")
    around = [normal(seed, 12) for seed in (0, 1, 2)]
    (note,) = notes(*around[:2], 1000 * around[2])
    assert note.startswith("Columns 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h' and 4 more have values at client s2 that")
    single = normal(2, 12)
    single[7] = 5000
    (note,) = notes(*around[:2], single)
    assert note.startswith("Columns 'a', ")
    assert "have a single value each at client s2 that is up to" in note
    assert len(notes(*[own[:, :3] for own in around[:2]], 1000 * around[2][:, :3])) == 3
    assert len(notes(*kilograms[:2], -kilograms[2])) == 1


def test_counts_and_amounts_that_are_mostly_zero_are_in_no_other_unit():
    rng = np.random.default_rng(5)
    counts = [rng.poisson(0.05, (200, 1)) * 40.0, rng.poisson(0.05, (200, 1)) * 40.0, np.eye(200)[:, :1]]
    rain = [(rng.random((200, 1)) < 0.1) * 40 * rng.random((200, 1)) for _ in range(2)]
    assert notes(*counts) == []
    assert notes(*rain, 0.2 * np.eye(200)[:, :1]) == []


def test_a_column_with_one_value_amid_those_of_others_is_noticed():
    stuck = normal(2, 5)
    stuck[:, 0] = 0.5
    assert notes(normal(0, 5), stuck) == [
        "Column 'a' has a single value at client s1, 0.5, amid those of the others; is it measured there?"
    ]
    stuck[:, :4] = [0.5, 0.0, 1.0, 0.7]
    assert notes(normal(0, 5), normal(1, 5), stuck) == [
        "Columns 'a', 'b', 'c', 'd' have a single value at client s2, amid those of the others; are they measured "
        "there?"
    ]
    assert notes(normal(0, 5)[:, :1], stuck[:19, :1]) == [], "too few rows"


def test_columns_of_which_nearly_all_cells_are_one_value_are_not_stuck():
    rng = np.random.default_rng(4)
    none, rows = np.zeros((200, 1)), (200, 1)
    flags = [(rng.random(rows) < 0.5) * 1.0 for _ in range(2)]
    changes = [(rng.random(rows) < 0.04) * rng.choice([-5.5, 5.5], rows) for _ in range(2)]
    amounts = [(rng.random(rows) < 0.5) * rng.exponential(9, rows) for _ in range(2)]
    answers = [rng.integers(1, 6, rows) * 1.0 for _ in range(2)]
    for others in (flags, changes, amounts):
        assert notes(*others, none) == []
    assert notes(*answers, none + 3) == []
    assert notes(none[:9] + 0.5, none[:9] + 0.5, none + 0.5) == []
    assert notes(amounts[0], none + 4, none + 5, none + 6) == [], "most clients have one value"


@pytest.mark.parametrize(("low", "high"), [(-1e308, 1e308), (1.0, 1.0 + 1e-15), (0.0, 5e-324)])
def test_no_number_that_a_client_sends_stops_the_notes(low, high):
    for mean in (low, high, 1e300, -1e300, 0.0):
        assert not Range(low, high, mean, Spread(50, 1e308, 1e308)).inside > 1e309
    for far in (5e-324, 1e-300, 1e308):
        clients = [np.array([[low], [high]] * 25) / part for part in (2, 2.5)]
        notes(*clients, np.full((50, 1), far))
        notes(*clients, np.full((50, 1), -far))


def skewed(seed, rows=100):
    """Positive values of which the standard deviation is the mean, as of bilirubin."""
    return np.random.default_rng(seed).lognormal(0.6, 0.85, (rows, 1))


@pytest.mark.parametrize("times", [17.1, 1 / 17.1, 10])
def test_another_unit_is_noticed_where_ranges_overlap(times):
    own = times * skewed(2)
    assert max(own.min(), skewed(1).min()) < min(own.max(), skewed(1).max())
    (note,) = notes(skewed(0), skewed(1), own, skewed(3))
    assert note.startswith("Column 'a' has values at client s2 that are about ")
    size = "as large" if times > 1 else "smaller"
    agree = "in the mean, spread and range, in which the other clients agree"
    assert note.endswith(f" times {size} {agree}; {UNIT}")


def test_a_shift_of_values_is_no_other_unit():
    """Nor are two clients, a change that others do not agree on, zeros, and values that scatter otherwise."""
    own = 10 * skewed(2)
    assert notes(skewed(0), own) == []
    assert notes(skewed(0), skewed(1), 3 * skewed(2)) == []
    assert notes(skewed(0), 4 * skewed(1), own) == []
    assert notes(skewed(0), skewed(1), np.vstack([own, [[0]]])) == []
    few_large = np.where(np.arange(100)[:, None] % 2, skewed(2), 20 * skewed(2))
    assert notes(skewed(0), skewed(1), few_large) == []
    assert notes(skewed(0) + 20, skewed(1) + 20, skewed(2) + 120 + 40 * np.arange(100)[:, None] % 30 - 110) == []


def amounts(seed, times=1.0, digits=2):
    """Amounts of which three in ten are 0."""
    rng = np.random.default_rng(seed)
    return (times * np.where(rng.random((200, 1)) < 0.3, 0, rng.lognormal(3, 0.8, (200, 1)))).round(digits)


def test_another_currency_is_noticed_where_some_amounts_are_zero():
    (note,) = notes(amounts(0), amounts(1), amounts(2, 25), amounts(3))
    assert note.startswith("Column 'a' has values at client s2 that are about 2")
    assert note.endswith(f"in which the other clients agree; {UNIT}")
    counts = [amounts(seed, times, 0) for seed, times in enumerate((1, 1, 11))]
    assert notes(*counts) == [], "counts scatter as much as they are large"
    assert notes(np.zeros((200, 1)), np.zeros((200, 1)), amounts(2)) == []


def weather(seed, mean=12.0, deviation=6.0):
    return np.random.default_rng(seed).normal(mean, deviation, (200, 1)).round(1)


@pytest.mark.parametrize(("mean", "deviation"), [(12, 6), (36.8, 0.5), (-4, 9)])
def test_degrees_fahrenheit_are_noticed_beside_degrees_celsius(mean, deviation):
    towns = [weather(seed, mean + shift * deviation, deviation) for seed, shift in enumerate((0, 0.5, -0.3, 0.2))]
    like = "to those of the others as degrees {} are to {}, by mean, spread and range; are they in another unit?"
    assert notes(*towns[:3], 32 + 1.8 * towns[3]) == [
        f"Column 'a' has values at client s3 that are {like.format('Fahrenheit', 'Celsius')}"
    ]
    assert notes(towns[0], *(32 + 1.8 * town for town in towns[1:])) == [
        f"Column 'a' has values at client s0 that are {like.format('Celsius', 'Fahrenheit')}"
    ]
    assert notes(*towns) == []


def test_values_that_are_just_larger_are_no_other_degrees():
    towns = [weather(seed) for seed in range(4)]
    assert notes(*towns[:3], 32 + weather(3, 12, 6)) == notes(*towns[:3], weather(3, 44, 6))
    assert not any("degrees" in note for note in notes(*towns[:3], 32 + towns[3]))
    wide = [weather(seed, 700, 150) for seed in range(4)]
    assert notes(*wide[:3], 1.8 * wide[3] + 32) == []
    assert not any("degrees" in note for note in notes(towns[0], 32 + 1.8 * towns[1])), (
        "two clients may differ by chance"
    )


def test_percentages_at_half_of_the_clients_are_noticed_beside_parts_of_one():
    parts = [np.abs(np.random.default_rng(seed).normal(0.1, 0.1, (200, 1))).clip(0.0, 1.0) for seed in range(5)]
    for own in parts:
        own[:3] = 0
    said = "in the mean, spread and range, in which the other clients agree; are they in another unit?"
    (note,) = notes(100 * parts[0], parts[1], 100 * parts[2], parts[3])
    assert note.startswith("Column 'a' has values at clients s0, s2 that are about ")
    assert note.endswith(f" times as large {said}")
    (note,) = notes(100 * parts[0], parts[1], 100 * parts[2], parts[3], 100 * parts[4])
    assert note.startswith("Column 'a' has values at clients s1, s3 that are about ")
    assert note.endswith(f" times smaller {said}")
    assert notes(*parts) == []
    assert notes(20 * parts[0], parts[1], 20 * parts[2], parts[3]) == []


def test_amounts_that_are_much_larger_at_half_of_the_clients_need_the_same_shape():
    rng = np.random.default_rng(0)
    small, large = ([rng.lognormal(0, spread, (200, 1)) * rng.integers(0, 2, (200, 1)) for _ in range(2)]
                    for spread in (0.5, 2.0))  # fmt: skip
    assert notes(*small, *(20 * own for own in large)) == []
    counts = [rng.poisson(mean, (200, 1)) * (np.arange(200)[:, None] > 9) for mean in (0.5, 0.5, 40, 40)]
    assert notes(*counts) == []
