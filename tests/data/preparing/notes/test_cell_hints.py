"""Columns of times and durations are said to be in hours."""

import time

import pandas as pd
import pytest
import torch

from fedkin.core.table import Table
from fedkin.data.preparing.notes.cell_hints import hints_on_cells
from fedkin.data.reading.client_files import load_clients


def hints(**columns):
    table = pd.DataFrame({**columns, "age": range(30, 34)})
    return hints_on_cells({one.name: one.table for one in load_clients({"north": table, "south": table})})


@pytest.mark.parametrize(
    "cells",
    [
        ["0:30", "1:45", "0:15", "7:00"], ["1 days 08:00:00", "0 days 08:00:00"] * 2,
        pd.to_timedelta(["00:30:00", None, "01:00:00", "02:00:00"]),
        pd.Series(pd.to_timedelta([None, "00:30:00", "01:00:00", "02:00:00"]), dtype=object),
    ],
)  # fmt: skip
def test_times_and_durations_are_said_to_be_in_hours(cells):
    assert hints(wait=cells) == ["Column 'wait' holds times or durations, which are in hours from here on."]
    assert hints(wait=cells, stay=cells) == [
        "Columns 'wait', 'stay' hold times or durations, which are in hours from here on."
    ]


def test_other_numbers_are_not():
    assert hints(wait=["1.5", "2", "3", "4"], stay=[1, 2, 3, 4], seen=["2024-03-01", "2024-03-02"] * 2) == []


def test_hints_take_time_linear_in_columns():
    def seconds(columns):
        table = Table.of_numbers(torch.zeros(2, columns), [f"g{at}" for at in range(columns)])
        start = time.perf_counter()
        hints_on_cells({"north": table})
        return time.perf_counter() - start

    few, many = (min(seconds(columns) for _ in range(3)) for columns in (500, 6000))
    assert many < 48 * few
