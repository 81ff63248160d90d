"""Columns of numbers that stay the same for many rows in succession."""

import numpy as np
import pytest
import torch

from fedkin.core.table import Table
from fedkin.data.preparing.notes.cell_notes import notes_on_cells
from fedkin.data.preparing.notes.frozen_columns import notes_on_frozen_columns


def table(values, names="ab"):
    return Table.of_numbers(torch.tensor(np.asarray(values, dtype=np.float64)), [*names])


def measured(seed=0, rows=400):
    return np.random.default_rng(seed).normal(7, 2, (rows, 2)).round(2)


def test_a_column_that_is_frozen_for_a_while_is_noticed():
    own = measured()
    own[100:230, 0] = 7.13
    own[110:120] = np.nan
    assert notes_on_cells({"t1": table(measured(1)), "t2": table(own)}) == [
        "Column 'a' stays the same for many rows, at 7.13 for 120 rows of t2, and changes from row to row elsewhere; "
        "if it was not measured there, empty these cells."
    ]


@pytest.mark.parametrize("value", ["least", "largest", "short", "coarse", "sorted", "nearly all", "both"])
def test_columns_that_stay_the_same_for_other_reasons_are_not_noticed(value):
    """Such as panels at night, slow and coarse signals, sorted tables, and the visits of one person."""
    own = measured(2)
    if value == "least":
        own[100:230, 0] = own.min()
    elif value == "largest":
        own[100:230, 0] = own.max()
    elif value == "short":
        own[100:119, 0] = 7.13
    elif value == "coarse":
        own[:, 0] = 20 + np.repeat(np.random.default_rng(3).integers(0, 30, 100), 4)
        own[100:230, 0] = 27
    elif value == "sorted":
        own[:, 0] = np.sort(own[:, 0].round(1))
        own[180:210, 0] = own[195, 0]
    elif value == "nearly all":
        own[20:, 0] = 7.13
    else:
        own[100:130] = 7.13, 5.5
    assert notes_on_frozen_columns({"t": table(own)}) == []
