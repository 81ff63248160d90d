"""What clients report of their columns, and the schema on which they agree."""

import numpy as np
import pandas as pd
import pytest
import torch

import fedkin
from fedkin.core import Client, FedkinError
from fedkin.core.errors import RefusalError
from fedkin.core.table import Column, Table
from fedkin.data.encoding import PreparingOptions
from fedkin.data.prepare import prepare
from fedkin.data.schema import in_common_spelling, reports_of, too_long, with_names
from fedkin.data.statistics import moments, table_columns
from fedkin.data.tables import frame_to_table
from prepared_tables import federation, pooled


def reported(own_id: str) -> list[bool]:
    """Which of two columns, one nearly unique and one not, names the rows of a client that says this of them."""
    names = tuple(f"p{i:02}" for i in range(30))
    values = torch.stack([torch.arange(30.0), torch.arange(30.0) % 3], 1).double()
    table = Table((Column("name", "category", names), Column("visit")), values, own_id)
    return [unique for _, _, unique, *_ in reports_of(table, 1)["columns"]]


def test_what_names_rows_is_recognised_or_what_the_client_says() -> None:
    assert reported("auto") == [True, False]
    assert reported("visit") == [False, True]
    assert reported("none") == [False, False]


def unique(name, values, kind="number"):
    column = Column(name, kind, tuple(f"P{at}" for at in range(len(values))) if kind == "category" else ())
    table = Table((column,), torch.tensor(values, dtype=torch.float64)[:, None])
    return reports_of(table, 1)["columns"][0][2]


def test_ids_are_recognised_by_what_they_are_called() -> None:
    for name in (
        "id",
        "patientId",
        "MRN",
        "Fallnummer",
        "FallNr",
        "case nr",
        "level_0",
        "PID",
        "patient",
        "pupil",
        "Customer",
        "sample",
        "Subject",
        "subjid",
        "USUBJID",
        "SEQN",
        "StudyNo",
        "CaseNumber",
        "barcode",
        "rownames",
        "encounter",
    ):
        assert unique(name, [*range(0, 60, 2)]), name
    for name in ("age", "paid", "fluid", "rapid", "patients", "casein"):
        assert not unique(name, [*range(30)]), name


def test_a_client_refuses_what_is_too_long_to_be_reported_before_the_server_does() -> None:
    text = "private " * 80
    often, once = [0.0] * 5 + [1.0] * 25, [0.0] + [1.0] * 29
    for column, cells in ((Column("c", "category", (text, "b")), often), (Column("c" * 600), once)):
        table = Table((column,), torch.tensor(cells).double()[:, None])
        client = Client(0, torch.zeros(30, 1), table=table)
        for task in (moments, table_columns):
            with pytest.raises(RefusalError, match="at most 500") as error:
                task.run([client], [{}])
            assert "private" not in str(error.value)
    rare = Table((Column("c", "category", (text, "b")),), torch.tensor(once).double()[:, None])
    assert too_long(rare, 5, "It") == []


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


def kinds_of(**kinds):
    return Table(tuple(Column(name, kind) for name, kind in kinds.items()), torch.zeros(2, len(kinds)).double())


def test_a_table_takes_wanted_names_that_it_lacks_and_no_others():
    assert with_names(kinds_of(Age="number", b="number"), [("age", "number"), ("b", "number")]).names == [
        "age",
        "b",
    ]
    assert with_names(kinds_of(Age="category"), [("age", "number")]).names == ["Age"]
    assert with_names(kinds_of(Age="category"), [("age", None)]).names == ["age"]
    assert with_names(kinds_of(Age="number", AGE="number"), [("age", "number")]).names == ["Age", "AGE"]
    assert with_names(kinds_of(Age="number", age="number"), [("age", "number")]).names == ["Age", "age"]


ALL = ["4", "5", "6", "8"]


def prepared_levels(first, secure=False):
    """Prepare three clients' tables, of which the first one's cylinders have these levels."""
    rng = np.random.default_rng(0)
    cells = [rng.choice(["4", "6", "8"], 40), rng.choice(ALL, 40), rng.choice(ALL, 40)]
    tables = []
    for own, levels in zip(cells, (first, ALL, ALL), strict=True):
        cylinders = pd.Series(pd.Categorical(own, categories=levels, ordered=True))
        cylinders[7] = np.nan
        frame = pd.DataFrame({"cylinders": cylinders, "power": rng.normal(200, 30, 40)})
        tables.append(frame_to_table(frame, "It"))
    fed = federation(*tables)
    fed.secure_sums = secure
    return prepare(fed, PreparingOptions(scaling="standard", imputation="median")), pooled(fed)


@pytest.mark.parametrize("secure", [False, True])
def test_levels_that_another_client_has_in_the_same_order_are_those_of_both(secure):
    (own, x), (same, expected) = prepared_levels(["4", "6", "8"], secure), prepared_levels(ALL, secure)
    assert own.encoding.schema.columns[0].categories == tuple(ALL)
    for name in ("mean", "scale", "fill"):
        torch.testing.assert_close(getattr(own.encoding, name), getattr(same.encoding, name))
    np.testing.assert_allclose(x, expected, atol=1e-6)
    if not secure:
        assert torch.equal(own.reach, same.reach)


def boolean(name, *values):
    return Column(name, "boolean", ("n", "y")), values


def many(bad: object = None) -> list[object]:
    """Thirty numbers, of which one may be something else."""
    return [bad if bad is not None and at == 3 else 7 * at % 30 + 0.5 for at in range(30)]


@pytest.mark.parametrize("name", ["c", "c" * 600])
def test_names_and_categories_too_long_to_be_reported_are_refused_with_column_client_and_limit(name):
    fine, long = (pd.DataFrame({name: [text] * 30, "age": many()}) for text in ("a", "b" * 505))
    with pytest.raises(FedkinError, match="'c' of Client 1 .*at most 500" if name == "c" else "Client 0.*600"):
        fedkin.KFed(n_clusters=2, random_state=0).fit([fine, long])
