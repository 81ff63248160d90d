"""Lists of answers are noted, and texts with commas now and then are not."""

import json

import numpy as np
import pandas as pd
import pytest

from fedkin.data.preparing.notes.cell_notes import notes_on_cells
from fedkin.data.reading.client_files import load_clients
from fedkin.data.reading.table_options import TableOptions


def notes(cells, **options):
    clients = load_clients([pd.DataFrame({"c": cells}), pd.DataFrame({"c": cells[:40]})], None, TableOptions(**options))
    return notes_on_cells({one.name: one.table for one in clients})


def answers(separator, ordered=True, of=("email", "phone", "app", "visit", "post"), rows=120):
    rng = np.random.default_rng(0)
    lists = [[each for each in of if rng.random() < 0.4] or [of[0]] for _ in range(rows)]
    return [separator.join(own if ordered else rng.permutation(own)) for own in lists]


@pytest.mark.parametrize("separator", [";", "; ", ", ", "|", ",", "/"])
@pytest.mark.parametrize("ordered", [True, False])
def test_several_answers_in_a_cell_are_noted_once(separator, ordered):
    cells = answers(separator, ordered)
    [note] = notes(cells)
    example = note.split("'")[3]
    assert example in cells
    assert note == (
        f"Column 'c' holds several answers in a cell, such as '{example}', and each combination counts as a category; "
        "write a column of yes and no for each answer to compare samples by them."
    )
    assert notes(cells, categorical=["c"]) == []


def test_lists_as_python_and_json_write_them_are_noted():
    rng = np.random.default_rng(0)
    pairs = [[str(one) for one in rng.choice(["app", "post", "visit", "phone"], 2, replace=False)] for _ in range(120)]
    for cells in (list(map(str, pairs)), list(map(json.dumps, pairs))):
        assert notes(cells)[0].startswith(f"Column 'c' holds several answers in a cell, such as '{cells[0][:2]}")
    assert notes([json.dumps({"os": one, "app": other}) for one, other in pairs]) == []


def test_numbers_of_answers_are_noted_too():
    assert "several answers in a cell" in notes(answers(";", of=["1", "2", "3", "4", "5"]))[0]


def test_texts_with_separators_now_and_then_are_none():
    rng = np.random.default_rng(1)
    towns = [
        "Bonn, Germany",
        "Ulm, Germany",
        "Graz, Austria",
        "Linz, Austria",
        "Basel, Switzerland",
        "Bern, Switzerland",
    ]
    goods = [f"{colour}, {size}" for colour in ("red", "blue", "green") for size in ("small", "large")]
    usual = ["none", "mild; treated", "severe", "other, see file", "n/k", "moderate", "ex-smoker/quit"]
    places = ["New York, NY", "Washington, DC", "Paris", "Portland, OR", "Portland, ME", "Kansas City, MO"]
    for own in (towns, goods, usual, places, ["A", "B", "AB", "0"], ["a;b", "b;a"]):
        assert notes(rng.choice(own, 120).tolist()) == [], own
