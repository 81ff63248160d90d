"""Columns that say at which client a row is are left out."""

import numpy as np
import pandas as pd
import pytest

import fedkin
from fedkin.data.encoding import PreparingOptions
from fedkin.data.prepare import prepare
from fedkin.data.reading.table_options import TableOptions
from fedkin.data.reading.tables import frame_to_table
from prepared_tables import federation

SAID = (
    "Column 'hospital' has one value at each client and another at every other, so it says where a row comes from and "
    "is left out; name it in categorical to keep it."
)


def frames(**columns):
    """Three clients of thirty rows, with a number and what is given by client."""
    rng = np.random.default_rng(0)
    made = [pd.DataFrame({"age": rng.normal(50, 9, 30)}) for _ in range(3)]
    return [own.assign(**{name: values[at] for name, values in columns.items()}) for at, own in enumerate(made)]


def prepared(tables, secure=False, **options):
    read = [frame_to_table(own, f"Client {at}", options=TableOptions(**options)) for at, own in enumerate(tables)]
    fed = federation(*read)
    fed.secure_sums = secure
    return prepare(fed, PreparingOptions(scaling="standard"))


@pytest.mark.parametrize("secure", [False, True])
def test_the_name_of_a_hospital_is_left_out(secure):
    found = prepared(frames(hospital=["Ulm", "Bonn", "Kiel"]), secure)
    assert [column.name for column in found.encoding.schema.columns] == ["age"]
    assert SAID in found.notes
    assert not found.questions


def test_it_stays_if_it_is_named():
    found = prepared(frames(hospital=["Ulm", "Bonn", "Kiel"]), categorical="hospital")
    assert [column.name for column in found.encoding.schema.columns] == ["age", "hospital"]
    assert any("'hospital' has no frequent value in common" in note for note in found.notes)


@pytest.mark.parametrize(
    "towns",
    [
        ["Ulm", "Bonn", "Ulm"],  # two clients share it
        ["Ulm", "Bonn", ["Kiel"] * 15 + ["Hof"] * 15],
        ["Ulm", "Bonn", ["Kiel"] * 28 + ["Hof"] * 2],  # rare, but not one value alone
    ],
)
def test_a_town_that_differs_otherwise_stays(towns):
    found = prepared(frames(town=towns))
    assert [column.name for column in found.encoding.schema.columns] == ["age", "town"]


def test_it_stays_if_it_is_all_there_is():
    found = prepared([own[["hospital"]] for own in frames(hospital=["Ulm", "Bonn", "Kiel"])])
    assert [column.name for column in found.encoding.schema.columns] == ["hospital"]


def test_new_rows_may_have_it_or_not():
    data = frames(hospital=["Ulm", "Bonn", "Kiel"])
    model = fedkin.KFed(n_clusters=2, random_state=0).fit(data)
    with_it, without = data[0], data[0][["age"]]
    assert model.predict(with_it).tolist() == model.predict(without).tolist() == model.labels_[0].tolist()
