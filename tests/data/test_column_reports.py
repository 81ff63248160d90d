import pytest
import torch

from fedkin.core import Client
from fedkin.core.errors import RefusalError
from fedkin.core.table import Column, Table
from fedkin.data.reading.id_columns import is_called_id
from fedkin.data.schema import reports_of, too_long
from fedkin.data.statistics import moments, table_columns


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


def test_a_client_of_few_rows_does_not_make_an_id_a_feature() -> None:
    assert unique("patient_id", range(5, 8))
    assert unique("patient", range(3), "category")
    assert unique("patient_id", [7])
    assert not unique("patient_id", [1, 1, 2])
    assert not unique("age", [3, 1, 2])


def test_numbers_to_call_by_are_no_features_and_no_ids() -> None:
    for name in ("Konto", "phone", "home_tel", "EAN", "serial", "userPhone"):
        assert unique(name, [10**8 + 7919 * at for at in range(40)]), name
        assert not unique(name, [10**8 + at % 9 for at in range(40)]), name
        assert not is_called_id(name)
    assert not unique("balance", range(40))
    assert not unique("phone", [at + 0.5 for at in range(40)])


def test_ids_of_persons_may_come_again() -> None:
    for name in ("patient_id", "Subject", "participant", "person_id", "StudyNo", "subjectID"):
        assert unique(name, [at // 8 for at in range(400)]), name
        assert unique(name, [at // 4 for at in range(400)], "category"), name
        assert unique(name, [at // 4 for at in range(12)]), name  # of a client with few rows
        assert not unique(name, [at % 5 for at in range(400)]), name
        assert not unique(name, [at // 8 + 0.5 for at in range(400)]), name
    assert not unique("patient", [0, 1] * 8, "category")  # in or out
    for name in ("age", "code", "number", "key"):
        assert not unique(name, [at // 4 for at in range(400)]), name


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
    assert too_long(rare, 5) == []
