"""What clients report of their columns, and the schema on which they agree."""

import pandas as pd
import pytest
import torch

from fedkin.core import Client, FedkinError
from fedkin.core.client import Column, Table
from fedkin.core.errors import RefusalError
from fedkin.data.columns import are_names, moments, reports_of, table_columns
from fedkin.data.options import TableOptions
from fedkin.data.preparation import prepare
from fedkin.data.tables import frame_to_table
from prepared_tables import federation


def reported(own_id: str) -> list[bool]:
    """Which of two columns, one nearly unique and one not, names the rows of a client that says this of them."""
    names = tuple(f"p{i:02}" for i in range(30))
    values = torch.stack([torch.arange(30.0), torch.arange(30.0) % 3], 1).double()
    table = Table((Column("name", "category", names), Column("visit")), values, own_id)
    return [unique for _, _, unique, _ in reports_of(table, 1)["columns"]]


def test_what_names_rows_is_recognised_or_what_the_client_says() -> None:
    assert reported("auto") == [True, False]
    assert reported("visit") == [False, True]
    assert reported("none") == [False, False]


def unique(name, values, kind="number"):
    column = Column(name, kind, tuple(f"P{at}" for at in range(len(values))) if kind == "category" else ())
    table = Table((column,), torch.tensor(values, dtype=torch.float64)[:, None])
    return bool(reports_of(table, 1)["columns"][0][2])


def test_ids_are_recognised_by_what_they_are_called() -> None:
    ids = "id patientId MRN Fallnummer FallNr level_0 PID patient Customer USUBJID SEQN StudyNo barcode"
    for name in ids.split():
        assert unique(name, [*range(0, 60, 2)]), name
        assert unique(name, [*range(10)] * 3), name
    for name in ("age", "paid", "fluid", "rapid", "patients", "casein"):
        assert not unique(name, [*range(30)]), name


def test_a_client_refuses_what_is_too_long_to_be_reported_before_the_server_does() -> None:
    text = "private " * 80
    often, once = [0.0] * 5 + [1.0] * 25, [0.0] + [1.0] * 29
    for column, cells in ((Column("c", "category", (text, "b")), often), (Column("c" * 600), once)):
        table = Table((column,), torch.tensor(cells).double()[:, None])
        client = Client(0, torch.zeros(30, 1), table=table)
        for task in (moments, table_columns):
            with pytest.raises(RefusalError, match="more than 500") as error:
                task.run([client], [{}])
            assert "private" not in str(error.value)
    assert not are_names([text])
    rare = Table((Column("c", "category", (text, "b")),), torch.tensor(once).double()[:, None])
    assert text not in str(reports_of(rare, 5))


def test_columns_that_contradict_are_one_list_and_other_spellings_are_other_columns():
    frames = [pd.DataFrame({"a": [1.5] * 9, "s": ["x", "y", "z"] * 3, "b": [True, False, True] * 3, "T": range(9)})]
    frames += [pd.DataFrame({"a": ["p", "q", "r"] * 3, "s": ["x", "y", "z"] * 3, "b": [2, 3, 4] * 3, "t": range(9)})]
    tables = [frame_to_table(frame, "It") for frame in frames]
    with pytest.raises(FedkinError) as error:
        prepare(federation(*tables), names=["north", "south"])
    assert str(error.value).splitlines() == [
        "Column 'a' holds categories at south; numbers at north. Write it in one way, or name it in categorical or "
        "drop.",
        "Column 'b' holds truth values at north; numbers at south. Write it in one way, or name it in categorical or "
        "drop.",
    ]
    options = TableOptions(categorical=["a", "b"])
    alike = prepare(federation(*(frame_to_table(frame, "It", options) for frame in frames)))
    sentence = (
        "Columns 'T' and 't' differ in spelling alone and count as different; give them one name if they are the same."
    )
    assert sentence in alike.questions
