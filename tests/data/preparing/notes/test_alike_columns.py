"""Columns that follow from one another are noted, and no others."""

import numpy as np
import pandas as pd
import pytest

from fedkin.data.preparing.notes.alike_columns import notes_on_alike_columns
from fedkin.data.reading.client_files import load_clients


def notes(clients):
    return notes_on_alike_columns({one.name: one.table for one in load_clients(clients) if one.table is not None})


def days(seed, rows=30):
    day = np.random.default_rng(seed).integers(0, 300, rows)
    rest = np.random.default_rng(seed + 9).normal(size=rows)
    return pd.DataFrame(
        {"day": day, "age": 40 + 9 * rest, "date": pd.Timestamp("2020-03-01") + pd.to_timedelta(day, "D")}
    )


ALIKE = "Columns 'day', 'date' say the same: they differ by a constant or a factor alone. Name all but one of them in"


def test_a_date_and_its_day_are_alike():
    assert [note[: len(ALIKE)] for note in notes({"a": days(0), "b": days(1)})] == [ALIKE]


def test_they_must_be_alike_at_every_client_that_can_tell():
    other = days(1)
    other.loc[3, "day"] += 1
    assert notes({"a": days(0), "b": other}) == []
    single = days(1).assign(day=days(1)["day"] > 99)
    assert len(notes({"a": days(0), "b": single})) == 1
    assert len(notes({"a": days(0), "b": days(1).drop(columns="date")})) == 1


def test_cells_that_are_empty_in_one_alone_tell_them_apart():
    holed = days(0)
    holed.loc[4, "date"] = pd.NaT
    assert notes({"a": holed}) == []
    holed["day"] = holed["day"].astype(float)
    holed.loc[4, "day"] = np.nan
    assert len(notes({"a": holed})) == 1


def test_units_are_alike_and_groups_are_one_note():
    rng = np.random.default_rng(0)
    cm, male = rng.normal(170, 9, 40), rng.integers(0, 2, 40)
    table = pd.DataFrame({"cm": cm, "m": cm / 100, "inch": cm / 2.54, "male": male, "female": 1 - male, "x": cm**2})
    assert [note.partition(" say")[0] for note in notes([table])] == ["Columns 'cm', 'm', 'inch'"]
    columns = dict(zip("abcde", rng.normal(size=(5, 40)), strict=True))
    many = pd.DataFrame({f"{name}{at}": 1 + at * own for name, own in columns.items() for at in (2, 3)})
    assert len(notes([many])) == 4
    assert notes([many])[-1] == "So do columns in 2 other groups."


def test_few_rows_say_nothing():
    assert notes({"a": days(0, rows=9), "b": days(1, rows=9)}) == []


@pytest.mark.parametrize("name", ["load_iris", "load_wine", "load_breast_cancer"])
def test_tables_of_measures_have_none(name):
    from sklearn import datasets

    frame = getattr(datasets, name)(as_frame=True).data
    assert notes([frame.iloc[::2], frame.iloc[1::2]]) == []
