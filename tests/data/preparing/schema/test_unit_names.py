"""Columns that are one in different units, by their names."""

import numpy as np
import pandas as pd
import pytest

import fedkin
from fedkin.data.preparing.schema.unit_names import note_on_units_in_names


def note(*clients):
    return note_on_units_in_names(dict(enumerate(map(str.split, clients))))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("temp[°C]", "temp[°F]"), ("Temp(°C)", "temp"), ("weight_kg", "weight_lb"), ("flow(l/min)", "flow(m³/h)"),
        ("price_EUR", "price_pln"), ("height_cm", "height_in"), ("p[bar]", "p[psi]"), ("share[%]", "share"),
        ("I[µA]", "I[uA]"), ("R[Ω]", "R[ohm]"), ("T[°C]", "T[degC]"),
    ],
)  # fmt: skip
def test_columns_whose_names_differ_in_their_unit_are_noted(one, other):
    assert note(f"a {one}", f"a {other}", f"{one} b") == [
        f"Columns '{one}' and '{other}' seem to be the same, for their names differ in the unit alone and no client "
        "has both; give them one unit and one name."
    ]
    assert note(f"a {one} {other}", f"a {other}") == [], "a client has both"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("temp", "temp_min"), ("x_mean", "x_std"), ("score(pre)", "score(post)"), ("Age", "age"), ("cost", "cost_id"),
        ("a[kg]", "b[kg]"), ("Temp[°C]", "temp[°C]"),
    ],
)  # fmt: skip
def test_other_names_have_no_different_units(one, other):
    assert note(one, other) == []


def test_a_column_in_another_unit_is_not_left_out_without_a_word_on_it():
    table = pd.DataFrame(np.random.default_rng(0).normal(9, 2, (50, 2)), columns=["flow", "Temp [°C]"])
    others = table.sample(frac=1, random_state=0).rename(columns={"Temp [°C]": "Temp [°F]"})
    with pytest.warns(
        UserWarning,
        match=r"Columns 'Temp \[°C\]' and 'Temp \[°F\]' seem to be the same, for their names differ in the unit alone",
    ):
        fedkin.KFed(n_clusters=2, random_state=0).fit([table, others[:40]])
