"""Texts that are nearly numbers, and numbers that may be codes or months, are noted; ordinary columns are not."""

import numpy as np
import pandas as pd
import pytest

from fedkin.data.preparing.notes.cell_notes import notes_on_cells
from fedkin.data.reading.client_files import load_clients
from fedkin.data.reading.table_options import TableOptions

RNG = np.random.default_rng(0)
FEW = [*map(str, RNG.integers(0, 3, 54)), "0", "1", "2"]


def notes(cells, tmp_path=None, **options):
    table = pd.DataFrame({"c": cells, "d": RNG.normal(size=len(cells))})
    if tmp_path is not None:
        table.to_csv(tmp_path / "north.csv", index=False)
    source = {"north.csv": table} if tmp_path is None else str(tmp_path)
    clients = load_clients(source, "none", TableOptions(**options))
    return notes_on_cells({one.name: one.table for one in clients})


@pytest.mark.parametrize(
    ("other", "end"),
    [
        ("missing", "name it in na_values if it stands for a missing one."),
        ("#VALUE!", "name it in na_values if it stands for a missing one."),
        ("3+", "write such cells as numbers, such as 3, if their order matters."),
        ("3 or more", "write such cells as numbers, such as 3, if their order matters."),
        (">3", "write such cells as numbers, such as 3, if their order matters."),
    ],
)
def test_a_word_among_a_few_numbers_is_noted(other, end):
    cells = [*FEW, other, other, other]
    assert notes(cells) == [
        f"Column 'c' of north.csv is taken for text, since 3 of 60 cells are no numbers, such as '{other}'; {end}"
    ]
    assert notes(cells, categorical=["c"]) == []


@pytest.mark.parametrize(
    "cells", [["A", "1", "2"] * 20, ["1", "2", "3", "x", "y", "z"] * 9, ["01", "02", "03", "x"] * 9, FEW]
)
def test_codes_are_not(cells):
    assert notes(cells) == []


def test_codes_that_look_like_powers_of_ten_are_noted(tmp_path):
    said = (
        "Column 'c' of north.csv holds numbers such as '2E5', which is 200,000; name it in categorical if they are "
        "codes."
    )
    assert notes(["2E5", "3E4", "107"] * 20, tmp_path) == [said]
    assert notes(["2E5", "3E4", "107"] * 20) == [said]
    assert notes(["2E5", "3E4", "107"] * 20, tmp_path, categorical=["c"]) == []
    for written in (["2e+05", "3e+04", "107"], ["2.5E5", "3E4", "107"], ["2E-5", "3E4", "107"]):
        assert notes(written * 20, tmp_path) == []


def test_whole_numbers_that_are_months_are_noted(tmp_path):
    months = [202310 + at for at in range(3)] + [202401 + at for at in range(9)]
    said = (
        "Column 'c' holds numbers such as 202310, which seem to be months; write them as 2023-10 to "
        "compare them as such."
    )
    assert notes(months * 5, tmp_path) == [said]
    assert notes([202400 + at for at in range(1, 13)] * 5) == []  # in one year they are even
    assert notes(RNG.permutation(201250 + 7 * np.arange(60))) == []


def test_months_of_some_clients_are_those_of_the_first():
    months = pd.DataFrame({"c": [202310 + at for at in range(3)] * 20 + [202401 + at for at in range(9)] * 5})
    clients = load_clients({"a": months, "b": pd.DataFrame({"c": range(60)})}, "none")
    [note] = notes_on_cells({one.name: one.table for one in clients})
    assert note.startswith("Column 'c' of a holds numbers such as 202310, which seem to be months")


@pytest.mark.parametrize("name", ["status", "PumpStatus", "Betriebsart", "alarm_nr", "error code"])
def test_codes_of_states_are_noted(name):
    def said(values, called=name):
        table = pd.DataFrame({called: values, "d": RNG.normal(size=len(values))})
        return notes_on_cells({one.name: one.table for one in load_clients({"a": table}, "none")})

    note = f"Column '{name}' is called like a code, but holds numbers, so that near ones are alike; name it in "
    assert said(np.resize([0, 16, 192, 64, 0], 60)) == [f"{note}categorical or drop."]
    assert said(np.resize([1, 2, 3, 5, 4], 60)) == said(np.resize([0, 0, 1], 60)) == []
    assert said(RNG.integers(0, 300, 60)) == said(np.resize([0, 16, 192, 64, 0], 60), "load") == []
