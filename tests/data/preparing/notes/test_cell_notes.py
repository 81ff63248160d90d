"""Copies, sums and texts, noted where the data are; nothing shows a value that few rows share."""

import numpy as np
import pandas as pd
import pytest
from tests.data.preparing.pressures import coded, pressures

from fedkin.data.preparing.notes.cell_hints import hints_on_cells
from fedkin.data.preparing.notes.cell_notes import notes_on_cells
from fedkin.data.reading.client_files import load_clients


def notes(clients):
    return notes_on_cells({one.name: one.table for one in load_clients(clients) if one.table is not None})


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


def test_a_table_appended_to_itself_is_noted_and_rows_that_come_again_by_chance_are_not():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"pressure": pressures(), "age": rng.integers(20, 90, 60), "town": ["Ulm", None, "Bonn"] * 20})
    for times in (2, 3):
        assert notes({"a": pd.concat([rows] * times)}) == [
            f"{60 * times - 60} of {60 * times} rows of a are copies of others."
        ]
    stations = pd.DataFrame(rng.normal(size=(30, 3)), columns=["north", "east", "height"])
    assert notes({"a": stations.loc[rng.integers(0, 30, 300)]}) == []


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


def test_a_row_of_sums_below_a_table_is_noted():
    whole = pd.DataFrame({"town": ["Ulm"] * 30, "beds": range(10, 40), "cost": np.linspace(1.5, 9, 30)})
    total = pd.DataFrame({"town": [None], "beds": [whole["beds"].sum()], "cost": [whole["cost"].sum()]})
    assert notes({"north": pd.concat([whole, total]), "south": whole}) == [
        "The last row of north holds the sums of the others; delete it."
    ]
    assert notes({"north": pd.concat([whole.assign(cost=0), total.assign(cost=0)])}) == []


def test_none_as_a_category_is_noted_with_its_cells():
    pain = ["None", "Mild", "Severe"] * 20
    tables = {"north": {"pain": pain}, "south": {"pain": pain, "roof": ["None", "Tiles"] * 30}}
    assert notes({name: pd.DataFrame(columns) for name, columns in tables.items()}) == [
        "The text 'None' is a category of its own in columns 'pain' (40 cells), 'roof' (30 cells); name it in "
        "na_values if it stands for an empty cell."
    ]


def test_no_note_shows_a_value_that_few_rows_share():
    rng = np.random.default_rng(0)
    answers = [";".join(rng.permutation(["mail", "app", "visit", "none"])[: 1 + at % 3]) for at in range(60)]
    rare = coded(9999, every=20).assign(
        answers=["mail;app;visit;SECRET", *answers[1:]],
        town=["Ulm"] * 58 + ["uLM"] * 2,
        mood=[["low", "medium", "high"][at % 2 if at else 2] for at in range(60)],
        wait=[f"{at % 9}:4{at % 7}" for at in range(60)],
    )
    tables = {one.name: one.table for one in load_clients({"north": rare, "south": rare}) if one.table is not None}
    said = " ".join([*notes_on_cells(tables), *hints_on_cells(tables)])
    assert "in hours" in said
    assert not [text for text in ("SECRET", "uLM", "9999", "high", "0:40", "mail") if text in said]
