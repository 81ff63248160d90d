"""Columns that rise from row to row, noted where the data are."""

import numpy as np
import pandas as pd
import pytest

from fedkin.data.preparing.notes.cell_notes import notes_on_cells
from fedkin.data.reading.client_files import load_clients

ROWS = 60
RNG = np.random.default_rng(0)
WALK = 1_600_000_000 + np.cumsum(RNG.exponential(900, ROWS).astype(int) + 1)


def notes(clients, **options):
    return notes_on_cells({one.name: one.table for one in load_clients(clients, **options) if one.table is not None})


def client(seed, **columns):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"pressure": rng.normal(130, 9, ROWS).round(1), **columns})


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("m1", 1_600_000_000 + 600 * np.arange(ROWS)),
        ("m1", WALK),
        ("m1", WALK[::-1]),
        ("m1", 1000.0 * WALK),
        ("m1", np.delete(np.arange(2 * ROWS), RNG.choice(2 * ROWS, ROWS, replace=False))),
        ("m1", 0.5 * np.arange(ROWS) + 7),
        ("m1", pd.to_datetime(WALK, unit="s")),
        ("measured_at", np.sort(RNG.lognormal(size=ROWS))),
        ("sampleTime", np.sort(RNG.lognormal(size=ROWS))),
    ],
)
def test_a_column_that_rises_or_falls_as_a_time_does_is_asked_about(name, values):
    clients = {"a": client(0, **{name: values}), "b": client(1, **{name: values}), "c": client(2, **{name: values})[:9]}
    assert notes(clients) == [
        f"Column '{name}' goes one way from row to row, as a time or a row's number does, so it divides early from "
        "late rows; name it in drop if it is no feature of samples."
    ]
    one_way, mixed = client(0, **{name: values}), client(1, **{name: values}).sample(frac=1, random_state=0)
    assert notes({"a": one_way, "b": mixed}) == []
    assert notes({"c": one_way[:19]}) == []


def test_some_steps_back_and_several_columns_are_one_note():
    stamps = WALK.copy()
    stamps[30] = stamps[28]  # one step back
    found = notes([client(0, sent=stamps, day=np.arange(ROWS) + RNG.random(ROWS))])
    assert found == [
        "Columns 'sent', 'day' go one way from row to row, as a time or a row's number does, so they divide early "
        "from late rows; name them in drop if they are no features of samples."
    ]


def test_a_table_sorted_by_a_measurement_and_a_number_of_the_rows_are_not_asked_about():
    whole = np.sort(RNG.choice(100_000, ROWS, replace=False))
    for values in (np.sort(RNG.normal(size=ROWS)), np.sort(RNG.lognormal(size=ROWS)), whole, np.arange(ROWS) // 2):
        assert notes([client(0, dose=values)]) == []
    assert notes([client(0, dose=np.sort([*RNG.integers(1, 9999, ROWS - 1), 3e19]))]) == []  # beyond 64 bits
    numbered = client(0, patient_id=np.arange(ROWS))
    assert notes([numbered]) == []  # it is no feature
