"""Columns that clients spell in different ways are one column."""

import time

import numpy as np
import pandas as pd
import pytest
import torch

import fedkin
from fedkin.core.table import Column, Table
from fedkin.data.schema import in_common_spelling, with_names


def patients(seed: int, rows: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 2, rows)
    return pd.DataFrame(
        {
            "patient_id": [f"P{seed}{row:03d}" for row in range(rows)],
            "age": 40 + 30 * kind + rng.normal(0, 3, rows),
            "chest_pain": np.where(kind, "typical", "none"),
            "dose": 1 + 5 * kind + rng.normal(0, 0.3, rows),
        }
    )


SPELT = {"patient_id": "Patient ID", "age": "AGE", "chest_pain": "Chest Pain", "dose": "Dose"}


@pytest.mark.parametrize("lacking", ["drop", "impute"])
def test_clients_that_spell_names_otherwise_have_the_same_clusters(lacking):
    same = {"north": patients(0), "south": patients(1), "west": patients(2)}
    spelt = {**same, "south": same["south"].rename(columns=SPELT)[[*SPELT.values()][::-1]]}
    models = [fedkin.KFed(n_clusters=2, lacking=lacking, random_state=0).fit(each) for each in (same, spelt)]
    for one, other in zip(models[0].labels_, models[1].labels_, strict=True):
        assert one.tolist() == other.tolist()
    assert [note for note in models[1].preparation_.notes if "spelling" in note] == [
        "Columns 'patient_id' and 'Patient ID', 'age' and 'AGE', 'chest_pain' and 'Chest Pain', 'dose' and 'Dose' "
        "differ in spelling alone and are taken for the same; rename them if they are not."
    ]
    assert models[1].preparation_.questions == ()
    new = patients(3)
    assert models[1].predict(new.rename(columns=SPELT)).tolist() == models[0].predict(new).tolist()


def replies(*clients):
    reports = [[[kind, filled, False, [], False] for _, kind, filled in own] for own in clients]
    return {at: {"names": [name for name, *_ in own], "columns": reports[at]} for at, own in enumerate(clients)}


@pytest.mark.parametrize(
    ("clients", "names"),
    [
        ([[("t", "number", True)], [("T", "number", True)], [("T", "number", True)]], [["T"], ["T"], ["T"]]),
        ([[("t", "number", True)], [("T", "boolean", True)]], [["t"], ["t"]]),
        ([[("t", "number", True)], [("T", "category", False)]], [["t"], ["t"]]),
        ([[("t", "number", True)], [("T", "category", True)]], [["t"], ["T"]]),
        ([[("t", "ordinal", True)], [("T", "category", True)]], [["t"], ["T"]]),
        ([[("t", "number", True), ("T", "number", True)], [("T", "number", True)]], [["t", "T"], ["T"]]),
        ([[("Q2_1", "number", True)], [("Q21", "number", True)]], [["Q2_1"], ["Q2_1"]]),
    ],
)
def test_names_are_one_unless_a_client_has_both_or_kinds_differ(clients, names):
    found, notes = in_common_spelling(replies(*clients))
    assert [reply["names"] for reply in found.values()] == names
    assert bool(notes) == (found != replies(*clients))


def table(**kinds):
    return Table(tuple(Column(name, kind) for name, kind in kinds.items()), torch.zeros(2, len(kinds)).double())


def test_a_table_takes_wanted_names_that_it_lacks_and_no_others():
    assert with_names(table(Age="number", b="number"), [("age", "number"), ("b", "number")]).names == ["age", "b"]
    assert with_names(table(Age="category"), [("age", "number")]).names == ["Age"]
    assert with_names(table(Age="category"), [("age", None)]).names == ["age"]
    assert with_names(table(Age="number", AGE="number"), [("age", "number")]).names == ["Age", "AGE"]
    assert with_names(table(Age="number", age="number"), [("age", "number")]).names == ["Age", "age"]


def test_many_names_take_no_time():
    lower, upper = ([(f"{letter}{at}", "number", True) for at in range(20_000)] for letter in "cC")
    began = time.perf_counter()
    found, _ = in_common_spelling(replies(lower, lower, upper))
    assert found[2]["names"] == found[0]["names"]
    assert (
        with_names(table(**{name: kind for name, kind, _ in upper}), [(name, None) for name, *_ in lower]).names[0]
        == "c0"
    )
    assert time.perf_counter() - began < 10
