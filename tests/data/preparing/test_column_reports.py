import torch

from fedkin.core.table import Column, Table
from fedkin.data.preparing.column_reports import reports_of
from fedkin.data.reading.id_columns import is_called_id


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
