"""Codes of missing values and rare spellings, noted where the data are."""

import numpy as np
import pandas as pd
import pytest

from fedkin.data.preparing.cell_notes import notes_on_cells
from fedkin.data.reading.client_files import load_clients


def pressures(rows=60, seed=0):
    return np.random.default_rng(seed).normal(130, 12, rows).round(1)


def notes(clients):
    return notes_on_cells({one.name: one.table for one in load_clients(clients) if one.table is not None})


def coded(code, every=10, **columns):
    values = pressures()
    values[::every] = code
    return pd.DataFrame({"pressure": values, **columns})


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
    clients = {"north": coded(code), "south": coded(code, every=20), "west": pd.DataFrame({"pressure": pressures()})}
    assert notes(clients) == [
        f"Column 'pressure' holds {shown}, {place}, in 6 rows of north, 3 rows of south; if it is no true value "
        "but stands for a missing one, name it in na_values."
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
        "true value but stands for a missing one, name it in na_values.",
        "Column 'age' holds 999, far above all other values, in 5 rows of south; if it is no true value but "
        "stands for a missing one, name it in na_values.",
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


def test_rare_spellings_are_noted_where_they_are():
    towns = ["Ulm"] * 30 + ["ulm"] * 2 + ["Bonn"] * 28
    assert notes({"north": coded(130, town=towns), "south": coded(130, town=["Ulm"] * 60)}) == [
        "Column 'town' of north holds 'Ulm' (30 rows) and 'ulm' (2 rows), which count as different; spell them alike "
        "if they are the same."
    ]
    often = ["Ulm"] * 30 + ["ulm"] * 30  # the clients' reports say so
    assert notes([coded(130, town=often)]) == []


def test_copies_of_files_and_of_rows_are_noted():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"pressure": pressures(), "age": rng.integers(20, 90, 60), "town": ["Ulm", None, "Bonn"] * 20})
    other = rows.assign(pressure=pressures(seed=1))
    clients = {"a": rows, "a (1)": rows[::-1], "b": pd.concat([other, other[:4]]), "c": rows[:10]}
    assert notes(clients) == [
        "a and a (1) hold the same rows; leave one of them out if it is a copy.",
        "4 of 64 rows of b are copies of others.",
    ]
    answers = pd.DataFrame(rng.integers(1, 4, (60, 3)), columns=list("abc"))  # alike by chance
    assert notes([answers]) == []


@pytest.mark.parametrize("spread", [0, 1e15])
def test_rows_beside_huge_numbers_are_no_copies(spread):
    rng = np.random.default_rng(0)

    def rows(seed):
        huge = 1.23765e18 + spread * rng.integers(0, 2, 60)
        return pd.DataFrame({"huge": huge, "pressure": pressures(seed=seed), "dose": rng.normal(size=60)})

    one, other = rows(0), rows(1)
    again = other.assign(dose=0.0)
    assert notes({"a": one, "b": other}) == []
    assert notes({"a": one, "b": pd.concat([other, other[:4]]), "c": one[::-1]}) == [
        "4 of 64 rows of b are copies of others.",
        "a and c hold the same rows; leave one of them out if it is a copy.",
    ]
    assert notes({"a": again, "b": again.assign(dose=-0.0)})[-1].startswith("a and b hold the same rows")


def test_columns_that_are_text_because_of_some_cells_are_noted():
    balance = [f"[{at}]" if at % 5 == 0 else f"{at}" for at in range(60)]
    rooms = [f"{at % 9}a" if at % 5 else f"{at % 9}" for at in range(60)]
    icd = [f"{at:03d}" for at in range(60)]
    assert notes([coded(130, balance=balance, room=rooms, icd=icd)]) == [
        "Column 'balance' of Client 0 is taken for text, since 12 of 60 cells are no numbers, such as '[0]'."
    ]


def test_a_row_of_sums_below_a_table_is_noted():
    whole = pd.DataFrame({"town": ["Ulm"] * 30, "beds": range(10, 40), "cost": np.linspace(1.5, 9, 30)})
    total = pd.DataFrame({"town": [None], "beds": [whole["beds"].sum()], "cost": [whole["cost"].sum()]})
    assert notes({"north": pd.concat([whole, total]), "south": whole}) == [
        "The last row of north holds the sums of the others; delete it."
    ]
    assert notes({"north": pd.concat([whole.assign(cost=0), total.assign(cost=0)])}) == []


def test_spellings_of_free_texts_are_not_noted():
    titles = [f"dress {at}" for at in range(40)]
    assert notes([pd.DataFrame({"title": [*titles, "Dress 1", *titles[:20]], "age": range(61)})]) == []


def test_none_as_a_category_is_noted_with_its_cells():
    pain = ["None", "Mild", "Severe"] * 20
    tables = {"north": {"pain": pain}, "south": {"pain": pain, "roof": ["None", "Tiles"] * 30}}
    assert notes({name: pd.DataFrame(columns) for name, columns in tables.items()}) == [
        "The text 'None' is a category of its own in columns 'pain' (40 cells), 'roof' (30 cells); name it in "
        "na_values if it stands for an empty cell."
    ]


def test_two_numbers_in_a_cell_are_noted():
    pairs = {
        "bp": [f"{high}/{high - 40}" for high in range(100, 160)],
        "place": [f"({48 + at / 7:.4f}, {8 + at / 9:.4f})" for at in range(60)],
        "invoice": [f"2019/{at}" for at in range(60)],
        "case_id": [f"{at}/7" for at in range(60)],
        "dose": ["1/2", "3/4"] * 30,
        "phone": [f"0761/{at}" for at in range(60)],
    }
    found = notes([pd.DataFrame(pairs), pd.DataFrame(pairs)[:50]])
    assert found == [
        f"Column '{name}' holds two numbers in a cell, such as '{example}', which count as text; write them in two "
        "columns to compare samples by them."
        for name, example in (("bp", "100/60"), ("place", "(48.0000, 8.0000)"))
    ]
