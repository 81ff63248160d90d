"""Tables of which each row is a single measurement are noted; repeated measures of one quantity are not."""

import numpy as np
import pandas as pd

from fedkin.data.preparing.notes.cell_notes import notes_on_cells
from fedkin.data.preparing.notes.long_tables import notes_on_long_tables
from fedkin.data.reading.client_files import load_clients

RNG = np.random.default_rng(0)
WIDE = pd.DataFrame({"batch": range(40), "temp": RNG.normal(70, 5, 40), "bar": RNG.normal(2, 0.1, 40)})


def notes(table, made=notes_on_long_tables):
    return made({one.name: one.table for one in load_clients({"north.csv": table}, "none")})


def test_single_measurements_are_noted():
    long = WIDE.melt("batch", var_name="tag")
    said = (
        "Rows of north.csv seem to be single measurements: 'value' holds what 'tag' names for "
        "each 'batch'. Give each a column of its own, as pandas' pivot does, or clusters are these."
    )
    assert notes(long) == [said]
    assert said in notes(long, notes_on_cells)
    assert notes(long.assign(batch=pd.Timestamp("2024-01-01") + pd.to_timedelta(long.batch, unit="h"))) != []
    assert notes(long.assign(batch="B" + long.batch.astype(str)).drop(index=[3, 50])) != []


def test_other_tables_are_not():
    assert notes(WIDE.assign(shift=np.resize(["early", "late"], 40))) == []
    twice = WIDE.assign(after=WIDE.temp + 1)[["batch", "temp", "after"]].melt("batch", var_name="when")
    assert notes(twice) == [], "one quantity, measured twice"
    long = WIDE.melt("batch", var_name="tag")
    assert notes(long.assign(other=RNG.normal(size=80))) == [], "two numbers a row"
    assert notes(pd.concat([long, long[:20]])) == [], "some measurements are there twice"
