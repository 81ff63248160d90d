"""Codes of missing values, noted where the data are."""

import numpy as np
import pandas as pd
import pytest
from tests.data.preparing.pressures import coded, pressures

from fedkin.data.preparing.notes.missing_codes import notes_on_missing_codes
from fedkin.data.reading.client_files import load_clients


def notes(clients):
    return notes_on_missing_codes({one.name: one.table for one in load_clients(clients) if one.table is not None})


@pytest.mark.parametrize(
    ("code", "shown", "place"),
    [
        (9999, "9999", "far above all other values"),
        (999.9, "999.9", "far above all other values"),
        (-999, "-999", "its only negative value"),
        (-1, "-1", "its only negative value"),
        (0, "0", "far below all other values"),
    ],
)
def test_a_repeated_value_far_from_all_others_is_noted_with_its_clients(code, shown, place):
    clients = {"north": coded(code), "south": coded(code, every=12), "west": pd.DataFrame({"pressure": pressures()})}
    assert notes(clients) == [
        f"Column 'pressure' holds {shown}, {place}, in 6 rows of north, 5 rows of south; if it is no true value "
        f"but stands for a missing one, set na_values = {{pressure = [{shown}]}}."
    ]


def test_codes_at_both_ends_and_a_date_are_noted():
    both = coded(9999)
    both.loc[1::10, "pressure"] = -999
    dates = pd.Series(pd.date_range("2023-01-01", periods=60))
    dates[::10] = pd.Timestamp("1900-01-01")
    found = notes([both.assign(seen=dates)])
    assert [note.partition(" in ")[0] for note in found] == [
        "Column 'pressure' holds -999, its only negative value,",
        "Column 'pressure' holds 9999, far above all other values,",
        "Column 'seen' holds 1900-01-01, far below all other values,",
    ]


def test_slips_counts_grades_and_skewed_values_are_no_codes():
    rng = np.random.default_rng(1)
    one = coded(9999, every=40)  # two rows
    counts = {"stays": rng.poisson(1, 60), "grade": rng.choice([1, 2, 9], 60), "is": rng.integers(0, 2, 60)}
    skewed = {"crp": np.exp(2 * rng.normal(size=60)).round(1), "dose": rng.poisson(20, 60) * (rng.random(60) < 0.4)}
    base = {"excess": rng.normal(0, 3, 60).round(0), "capped": rng.exponential(10, 60).clip(0, 12)}
    assert notes([one.assign(**counts, **skewed, **base)]) == []
    assert notes([np.zeros((5, 2))]) == []


def answers(seed, share, code=99, columns=4, scale=range(1, 6)):
    rng = np.random.default_rng(seed)
    given = np.where(rng.random((200, columns)) < share, code, rng.choice([*scale], (200, columns)))
    return pd.DataFrame(given, columns=[f"q{at + 1}" for at in range(columns)])


def test_a_code_among_a_few_grades_is_noted_and_of_many_questions_once():
    ages = np.random.default_rng(2).integers(18, 90, 200)
    ages[:5] = 999
    coded = {"north": answers(0, 0), "south": answers(1, 0.08).assign(age=ages)}
    assert notes(coded) == [
        "Columns 'q1', 'q2', 'q3', 'q4' hold 99, far above all other values, in up to 18 rows of south; if it is no "
        "true value but stands for a missing one, set na_values = {q1 = [99], q2 = [99], q3 = [99], q4 = [99]}.",
        "Column 'age' holds 999, far above all other values, in 5 rows of south; if it is no true value but "
        "stands for a missing one, set na_values = {age = [999]}.",
    ]
    (wide,) = notes([answers(1, 0.08, columns=40), answers(2, 0.08, columns=40)])
    assert wide.startswith("Columns 'q1', 'q2', 'q3', 'q4', 'q5', 'q6', 'q7', 'q8' and 32 more hold 99, far above all")
    assert len(notes([answers(1, 0.08, columns=3)])) == 3


def test_a_code_of_several_columns_is_looked_for_in_all_of_a_client():
    """As -99 in nine columns of a file, and in one or two rows of others."""
    rng = np.random.default_rng(3)
    lab = pd.DataFrame({name: rng.normal(50, 5, 100).round(1) for name in ("a", "b", "c", "d", "rare", "none")})
    lab.loc[:5, ["a", "b", "c"]] = -99
    lab["stage"] = rng.integers(1, 5, 100)
    lab.loc[7, "rare"] = lab.loc[8:9, "stage"] = -99
    south = lab[["d", "none"]].assign(rare=lab["d"])
    south.loc[0, "d"] = -99
    (note,) = [one for one in notes({"north": lab, "south": south}) if "-99, its only" in one]
    assert note.startswith("Columns 'a', 'b', 'c', 'rare' hold -99, its only negative value, in up to 6 rows of north;")
    (stage,) = [one for one in notes({"north": lab, "south": south}) if "-99, far below" in one]
    assert stage.startswith("Column 'stage' holds -99, far below all other values, in 2 rows of north;")
    assert notes({"south": south}) == []


@pytest.mark.parametrize(
    ("code", "scale", "place"),
    [
        (9, range(1, 6), "far above all other values"),
        (9, range(4), "far above all other values"),
        (-9, range(1, 8), "far below all other values"),
        (-99, range(2), "far below all other values"),
        (77, range(1, 8), "far above all other values"),
        (99, (1, 2), "far above all other values"),
    ],
)
def test_codes_beside_scales_are_written_in_nines_or_far_away(code, scale, place):
    (note,) = notes([answers(1, 0.08, code, 1, scale)])
    assert note.startswith(f"Column 'q1' holds {code}, {place}, in ")


@pytest.mark.parametrize(
    ("code", "scale"),
    [
        (9, (1, 2)),
        (10, range(1, 6)),
        (9, range(7)),
        (255, (0, 17, 64)),
        (100, (0, 5, 10)),
        (1, (0,)),
        (2.5, (0, 0.5, 1)),
        (50, (1, 2)),
    ],
)
def test_grades_doses_and_status_codes_stand_for_nothing_missing(code, scale):
    assert notes([answers(1, 0.08, code, 1, scale)]) == []


def cholesterol(rows, zeros, seed=0):
    values = np.random.default_rng(seed).lognormal(5.4, 0.3, rows).round()
    return pd.DataFrame({"cholesterol": np.where(np.arange(rows) < zeros, 0, values), "age": values + 1})


def test_zeros_of_a_measure_that_is_never_near_zero_stand_for_nothing_measured():
    """As at a hospital that did not measure it; a range of 90 % is wider than the gap to 0 there."""
    clients = {"north": cholesterol(100, 0), "south": cholesterol(80, 30, 1), "west": cholesterol(40, 40, 2)}
    assert notes(clients) == [
        "Column 'cholesterol' holds 0, far below all other values, in 30 rows of south, 40 rows of west; if it is no "
        "true value but stands for a missing one, set na_values = {cholesterol = [0]}."
    ]
    (one,) = notes({**clients, "west": cholesterol(40, 1, 2)})
    assert "in 30 rows of south, 1 row of west; if" in one
    clients["north"].loc[0, "cholesterol"] = 1  # so the measure is sometimes near it
    assert notes(clients) == []
    clients["north"].loc[0, "cholesterol"] = -300
    clients["north"].loc[1, "cholesterol"] = np.nan
    assert [note for note in notes(clients) if " holds 0" in note] == []


@pytest.mark.parametrize("zeros", [2, 130])
def test_zeros_of_a_few_rows_or_of_most_are_no_code(zeros):
    assert notes({"north": cholesterol(160, zeros), "south": cholesterol(60, 0, 1)}) == []


def test_counts_shares_and_scores_may_be_zero():
    rng = np.random.default_rng(4)
    visits, shares = rng.poisson(3, 300), rng.beta(0.5, 2, 300).round(2)
    scores, rain = rng.integers(0, 11, 300), rng.gamma(0.5, 8, 300).round(1)
    assert notes([pd.DataFrame({"visits": visits, "share": shares, "score": scores, "rain": rain})]) == []
