"""The note that offers logarithms of skewed columns."""

import pickle

import numpy as np
import torch

from fedkin.core.table import Column, Table
from fedkin.data.preparing.encoding.skewed_columns import SkewNote
from fedkin.data.preparing.notes.cell_notes import notes_on_cells
from fedkin.data.preparing.notes.data_notes import DataNote, NotedValue, beside
from fedkin.data.preparing.prepare import prepare
from fedkin.data.preparing.preparing_options import PreparingOptions
from prepared_tables import federation, number, table

SKEWED = "skewed: most values are small, and a few are very large; name"


def amounts(seed, rows=60, spread=1.5):
    return np.exp(np.random.default_rng(seed).normal(5, spread, rows)).tolist()


def notes(*columns, **options):
    return prepare(federation(table(*columns)), PreparingOptions(**options)).notes


def test_a_note_offers_logarithms_of_skewed_columns_of_positive_numbers():
    several = [number(f"a{at}", *amounts(at)) for at in range(10)]
    age = number("age", *np.random.default_rng(0).normal(50, 10, 60).tolist())
    said = notes(several[0], age)
    assert said[-1] == f"Column 'a0' is {SKEWED} it in log if ratios matter more than differences."
    said = notes(*several, age)
    listed = ", ".join(f"'a{at}'" for at in range(8))
    assert said[-1] == f"Columns {listed} and 2 more are {SKEWED} them in log if ratios matter more than differences."
    assert SKEWED in notes(several[0], age, scaling="standard")[-1]


def test_the_note_is_none_of_the_questions():
    found = prepare(federation(table(number("a", *amounts(0)), number("b", *range(60)))))
    assert any(SKEWED in note for note in found.notes)
    assert found.questions == ()


def test_the_note_is_not_made_of_other_columns():
    own = amounts(0)
    others = [
        number("with_zeros", 0, *own[1:]),
        number("negative", *(5 - value for value in own)),
        (Column("taken", "log"), own),
        number("even", *range(1, 61)),
    ]
    assert not any(SKEWED in note for note in notes(*others))
    assert not any(SKEWED in note for note in notes(number("a", *own), number("b", *range(60)), scaling="none"))
    few = federation(table(number("a", *amounts(0, rows=12)), number("b", *range(12))))
    assert not any(SKEWED in note for note in prepare(few).notes)


def test_one_mistyped_number_makes_no_skewed_column():
    ages = np.random.default_rng(0).normal(50, 10, 200).round().tolist()
    said = notes(number("age", 40_000, *ages[1:]), number("b", *range(200)))
    assert [note.partition(":")[0] for note in said] == ["Some values are far from all others and count as a limit"]


def test_secure_sums_know_no_minimum_and_make_no_note():
    tables = [table(number("a", *amounts(seed)), number("b", *range(60))) for seed in range(3)]
    fed = federation(*tables)
    fed.secure_sums = True
    found = prepare(fed, PreparingOptions("standard"))
    assert not any(SKEWED in note for note in found.notes)


def test_ordinary_tables_have_no_skewed_column():
    from sklearn.datasets import load_breast_cancer, load_iris, load_wine

    for data in (load_iris(), load_wine(), load_breast_cancer()):
        own = Table.of_numbers(torch.from_numpy(data.data), [*map(str, data.feature_names)])
        assert not any(SKEWED in note for note in prepare(federation(own)).notes)


def test_columns_whose_large_values_may_be_codes_are_not_called_skewed():
    one, two = (DataNote("holds 999", [NotedValue(name, "north", "999", True)]) for name in ("age", "dose"))
    low = DataNote("holds 0.001", [NotedValue("dose", "north", "0.001", False)])
    (note,), (alone,) = SkewNote.on(["age", "dose"]), SkewNote.on(["dose"])
    assert note == f"Columns 'age', 'dose' are {SKEWED} them in log if ratios matter more than differences."
    assert alone == f"Column 'dose' is {SKEWED} it in log if ratios matter more than differences."
    assert beside(["x", note], [one]) == ["x", alone]
    assert beside([note], [one, two]) == beside(beside([note], [one]), [two]) == []
    assert beside([note, alone], [low, "Column 'age' is odd."]) == [note, alone]


def test_codes_among_amounts_are_noted_and_nothing_else():
    coded = Table.of_numbers(
        torch.tensor([[50.0 + at % 17, 37 * at % 90] for at in range(90)] + [[9999.0, 5]] * 6).double(), ["a", "b"]
    )
    on_cells = notes_on_cells({"client-0": coded})
    assert [note.partition(",")[0] for note in on_cells] == ["Column 'a' holds 9999"]
    found = prepare(federation(coded), PreparingOptions("standard"))
    assert any(SKEWED in note for note in found.notes)
    assert not any(SKEWED in note for note in found.noted(on_cells).notes)
    again = pickle.loads(pickle.dumps(found))
    assert again.noted(pickle.loads(pickle.dumps(on_cells))).notes == found.noted(on_cells).notes
