"""What clients report of their columns, and the schema on which they agree."""

import time

import numpy as np
import pandas as pd
import pytest
import torch

import fedkin
from fedkin.core import Client, FedkinError
from fedkin.core.errors import RefusalError
from fedkin.core.table import Column, Table
from fedkin.data.encoding import PreparingOptions
from fedkin.data.prepare import load_agreeing_clients, prepare
from fedkin.data.reading.id_columns import is_called_id
from fedkin.data.reading.table_options import TableOptions
from fedkin.data.reading.tables import frame_to_table
from fedkin.data.scenarios.already_split import ClientFiles
from fedkin.data.schema import in_common_spelling, in_one_order, reports_of, too_long, with_names
from fedkin.data.statistics import moments, table_columns
from fedkin.engines.local import LocalFederation
from prepared_tables import NAN, category, federation, number, pooled, table


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


def test_many_names_take_no_time():
    lower, upper = ([(f"{letter}{at}", "number", True) for at in range(20_000)] for letter in "cC")
    began = time.perf_counter()
    found, _ = in_common_spelling(replies(lower, lower, upper))
    assert found[2]["names"] == found[0]["names"]
    assert (
        with_names(kinds_of(**{name: kind for name, kind, _ in upper}), [(name, None) for name, *_ in lower]).names[0]
        == "c0"
    )
    assert time.perf_counter() - began < 10


ALL = ["4", "5", "6", "8"]


def test_there_is_one_order_if_another_would_contradict_or_is_not_known():
    assert in_one_order([["4", "6", "8"], ALL]) == ("4", "5", "6", "8")
    assert in_one_order([["low", "mid"], ["mid", "high"]]) == ("low", "mid", "high")
    assert in_one_order([["low", "high"], ["low", "mid"]]) is None
    assert in_one_order([["low", "high"], ["high", "low"]]) is None
    assert in_one_order([["a", "b"], ["b", "a", "c"]]) is None
    assert in_one_order([[]]) == ()


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


def test_levels_in_no_common_order_are_refused():
    with pytest.raises(FedkinError, match="has levels 8, 6, 4 at one client and 4, 5, 6, 8 at another; name them in"):
        prepared_levels(["8", "6", "4"])


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


def test_what_is_absent_at_the_same_clients_is_said_at_once():
    fed = federation(
        table(number("age", *range(6)), number("b", *[NAN] * 6), number("c", *range(6)), number("d", *range(6))),
        table(number("age", *range(6)), number("b", *[NAN] * 6), number("e", *[NAN] * 6)),
    )
    assert prepare(fed).notes[:2] == [
        "Columns 'b', 'e' are empty at all clients, so they are left out.",
        "Columns 'c', 'd' are empty or absent at 1 of 2 clients (1), so they are left out; lacking = 'impute' keeps "
        "them.",
    ]


def test_names_that_differ_in_case_are_mentioned():
    fed = federation(
        table(number("Age", *range(9)), number("b", *range(9))),
        table(number("age ", *range(9)), number("b", *range(9))),
    )
    assert any("'Age' and 'age '" in note for note in prepare(fed).notes)


def test_columns_of_one_value_are_mentioned():
    same = number("k", *[3] * 9), category("s", *"xxxxxxxxx")
    fed = federation(*(table(number("a", *range(low, low + 9)), *same) for low in (0, 5)))
    assert (
        "Columns 'k', 's' have a single value at all clients, so samples do not differ in them." in prepare(fed).notes
    )
    fed = federation(table(number("a", 1, 2, 3)), table(number("a", 1, 1, 1)))
    assert prepare(fed).notes == []


def boolean(name, *values):
    return Column(name, "boolean", ("n", "y")), values


def test_what_is_noted_of_many_columns_is_one_sentence():
    rows = [0.0, 1.0] * 5
    words = table(*(boolean(name, *rows) for name in "ab"), number("age", *range(10)))
    digits = table(*(number(name, *rows) for name in "ab"), number("age", *range(10)), number("Age", *range(10)))
    assert prepare(federation(words, digits), PreparingOptions(lacking="impute"), ["x", "y"]).notes[:2] == [
        "Columns 'a', 'b' differ in kind: boolean at client x; number at client y; 1 counts as true.",
        "Columns 'age' and 'Age' differ in spelling alone and count as different; give them one name if they are the "
        "same.",
    ]
    items = table(number("Q2_1", *range(10)), number("Q21", *rows))
    assert not prepare(federation(items, items)).notes
    own = table(number("a", *range(10)), *(number(name, 1.0, *[NAN] * 9) for name in "bc"))
    assert prepare(federation(own, own)).notes == [
        "Columns 'b' (18), 'c' (18) are empty in more than half of 20 rows, so they are left out; lacking = 'impute' "
        "keeps them.",
        "Only 'a' is compared: every other column is left out.",
    ]


def test_columns_that_new_rows_lack_are_listed_in_one_sentence():
    encoding = prepare(federation(*[table(number("a", *range(9)), number("b", *range(9)))] * 2)).encoding
    with pytest.raises(FedkinError, match=r"^The table has no columns 'a', 'b', which the clients' tables have\.$"):
        encoding.apply(table(number("c", 1.0)))


def test_notes_name_eight_columns_at_most_and_dates_as_such():
    rng = np.random.default_rng(0)
    day = rng.uniform(19_000, 19_900, 60)
    day[:2] = -7000.0
    ones = [number(f"column_{at}", *[1.0] * 60) for at in range(11)]
    own = table((Column("visit", "date"), day.tolist()), number("age", *rng.normal(50, 9, 60)), *ones)
    said = "\n".join(prepare(federation(own, own)).notes)
    assert "'column_7' and 3 more have a single value" in said
    assert "do not differ in them." in said
    assert "1950-11-02" not in said
    assert "'visit' below 20" in said


def test_what_is_left_out_because_it_is_mostly_empty_has_no_other_note():
    tests = [table(category("culture", *"aaaaa", *[None] * 10), number("age", *range(15))),
             table(category("culture", *"bbbbb", *[None] * 10), number("age", *range(15))),
             table(category("culture", *"aaaaa", *[None] * 10), number("age", *range(15)))]  # fmt: skip
    assert prepare(federation(*tests)).notes == [
        "Column 'culture' is empty in 30 of 45 rows, so it is left out; lacking = 'impute' keeps it."
    ]


def test_columns_that_are_left_out_for_another_reason_are_in_no_other_note():
    def client(letter, low):
        none = [None] * 18
        return table(
            number("age", *range(30)),
            category("site", *[letter * 2] * 15, *[letter * 3] * 15),
            category("notes", *[letter * 2] * 6, *[letter * 3] * 6, *none),
            category("more", *["tree" if low else "Tree"] * 6, *["bush"] * 6, *none),
            number("height", *range(low, low + 12), *[NAN] * 18),
            number("patient_id", *[1.0, 2.0] * 6, *[NAN] * 18),
        )

    fed = [client("a", 0), client("b", 100)]
    assert prepare(federation(*fed)).notes == [
        "Columns 'notes' (36), 'more' (36), 'height' (36), 'patient_id' (36) are empty in more than half of 60 rows, "
        "so they are left out; lacking = 'impute' keeps them.",
        "Column 'site' has no frequent value at client 1 that others have; spell values alike if they are the same, or "
        'set drop = ["site"].',
    ]
    kept = "\n".join(prepare(federation(*fed), PreparingOptions(lacking="impute")).notes)
    assert "Categories of column 'more' that differ in spelling alone" in kept
    assert "Columns 'site', 'notes' have no frequent value at client 1" in kept
    assert "Column 'height' at client 1 is " in kept
    assert "Column 'patient_id' is called like an id" in kept


def test_a_single_column_that_is_compared_of_several_is_told():
    ages, only = number("age", *range(9)), "Only 'age' is compared: every other column is left out."
    lone = [table(ages, *(number(f"{name}{at}", *range(9)) for name in "ab")) for at in range(2)]
    assert prepare(federation(*lone)).notes[-1] == only
    assert only not in prepare(federation(*lone), PreparingOptions(lacking="impute")).notes
    named = table(category("patient", *[f"p{row}" for row in range(9)]), ages)
    assert only not in prepare(federation(named, named)).notes
    assert not prepare(federation(table(ages), table(ages))).notes


def test_columns_that_are_different_in_every_row_are_one_note():
    texts = [category(name, *[f"{name}{row}" for row in range(30)]) for name in ("patient", "url", "remark")]
    own = table(*texts, number("age", *range(30)))
    kept = prepare(federation(own, own), PreparingOptions(id="none")).encoding
    assert kept is not None
    assert [column.name for column in kept.schema.columns] == ["age"]  # so id = "none" keeps no text, and is no advice
    assert prepare(federation(own, own)).notes[:2] == [
        "Column 'patient' names the rows or says whose they are, so it is no feature.",
        "Columns 'url', 'remark' are different in nearly every row, so they are left out; embeddings of such texts "
        "can be compared, as columns of numbers.",
    ]


def test_keys_of_a_few_rows_each_are_one_sentence():
    keys = [category(name, *[f"{name}{row // 5}" for row in range(200)]) for name in ("customer_id", "person_id")]
    rare = [category(name, *[f"{name}{row // 4}" for row in range(200)]) for name in ("shop", "street")]
    own = table(*keys, *rare, number("age", *range(200)))
    assert prepare(federation(own, own)).notes[:2] == [
        "Columns 'customer_id', 'person_id' name the rows or say whose they are, so they are no features.",
        "Columns 'shop', 'street' have no value that is frequent enough at any client, so they are left out.",
    ]


def many(bad: object = None) -> list[object]:
    """Thirty numbers, of which one may be something else."""
    return [bad if bad is not None and at == 3 else 7 * at % 30 + 0.5 for at in range(30)]


def problems(source: object, **options: object) -> list[str]:
    with pytest.raises(FedkinError) as error:
        load_agreeing_clients(source, options=TableOptions(**options))
    return str(error.value).splitlines()


def test_values_kinds_shapes_options_and_files_are_one_list(tmp_path):
    def write(name, **columns):
        pd.DataFrame(columns).to_csv(tmp_path / name, index=False)

    write("a.csv", age=many("old"), sex=["f", "m"] * 15, dose=many(), seen=["u", "v", "w"] * 10)
    write("b.csv", age=many(), sex=[1.5, 2.5] * 15, dose=many(float("inf")), seen=["2024-01-31"] * 30)
    (tmp_path / "c.csv").write_text("sex,dose,dose,age,seen\n" + "f,1,2,31,u\n" * 30)
    (tmp_path / "d.csv").write_text("")
    (tmp_path / "e.csv").write_text("sex,age\n")
    a, b, c, d, e = (f"'{tmp_path}/{name}.csv'" for name in "abcde")
    found = problems(str(tmp_path))
    assert found[0].startswith(f"Column 'age' of {a} holds numbers, but a word in row 4; ")
    assert found[1].startswith(f"Column 'dose' of {b} has 1 infinite values in 30 rows")
    assert found[2].startswith(f"{c} has more than one column 'dose'")
    assert found[3:] == [
        f"{d} cannot be read as .csv (the file is empty).",
        f"{e} is empty (0 rows, 2 columns of features).",
        "Column 'sex' differs in kind: category such as 'f' at clients a.csv, c.csv; number at client b.csv. Write it "
        "in one way, as numbers if its values have an order; name it in categorical only if its numbers are codes, or "
        "in drop.",
        "Column 'seen' differs in kind: category such as 'u' at clients a.csv, c.csv; date at client b.csv. Write it "
        "in one way, or name it in categorical, or in drop.",
    ]


def test_columns_that_differ_alike_are_one_problem_with_the_advice_that_fits():
    def differing(**others):
        frames = [pd.DataFrame({name: cells * 5 for name, cells in own.items()}) for own in zip_columns(others)]
        with pytest.raises(FedkinError) as error:
            prepare(LocalFederation(ClientFiles(frames).build().clients, seed=0))
        return str(error.value).splitlines()

    def zip_columns(pairs):
        return [{name: pair[at] for name, pair in pairs.items()} | {"x": [*range(12)]} for at in (0, 1)]

    words, numbers = ["agree", "neither", "disagree"] * 4, [1, 2, 3] * 4
    assert differing(q1=(words, numbers), q2=(words, numbers)) == [
        "Columns 'q1', 'q2' differ in kind: category such as 'agree' at client 0; number at client 1. Write them in "
        "one way, as numbers if their values have an order; name them in categorical only if their numbers are codes, "
        "or in drop."
    ]
    bands = ["18-25", "26-35", "36-45"]
    frames = [pd.DataFrame({"age": bands * 20}), pd.DataFrame({"age": pd.Categorical(bands * 20, bands, ordered=True)})]
    with pytest.raises(FedkinError) as error:
        prepare(LocalFederation(ClientFiles(frames).build().clients, seed=0))
    assert str(error.value) == (
        "Column 'age' differs in kind: category such as '18-25' at client 0; ordinal at client 1. Name its levels in "
        "ordinal, from the lowest to the highest, or write it in one way."
    )
    assert differing(plz=(["01067", "01069", "04103"] * 4, numbers)) == [
        "Column 'plz' differs in kind: category such as '01067' at client 0; number at client 1. Numbers with leading "
        "zeros are codes, so name it in categorical, or in drop."
    ]


def test_what_options_name_is_in_the_list_if_all_columns_are_known():
    clients = {"n": pd.DataFrame({"age": many("old"), "b": many()}), "s": pd.DataFrame({"age": many()})}
    wrong = "Column 'age' of Client 'n' holds numbers, but a word in row 4; correct or empty it, name it in na_values, "
    found = problems(clients, drop=["b", "agee"], id="who")
    assert found == [
        f"{wrong}or name the column in categorical.",
        "Unknown column in drop 'agee'; did you mean 'age'?",
        "Unknown column in id 'who'; allowed: age, b.",
    ]
    assert problems({**clients, "w": "nowhere.csv"}, drop=["agee"]) == [
        f"{wrong}or name the column in categorical.",
        "'nowhere.csv' does not exist; give a file, a directory or the name of a data set.",
    ]
    mixed = problems({**clients, "w": [[1.0, 2.0]], "x": [[1.0]]})
    assert [line.split(";")[0] for line in mixed[1:]] == [
        "Client 'n' is a table and 'w' is an array without names of columns".replace("Client ", ""),
        "'x' has 1 features where others have 2 features",
    ]


def test_columns_of_ids_and_of_some_clients_do_not_disagree():
    """They would be left out, so nobody has to mend them."""
    good = pd.DataFrame({"patient_id": [f"A{at}" for at in range(30)], "age": many(), "own": many()})
    other = pd.DataFrame({"patient_id": range(30), "age": many("old"), "own": ["u", "v"] * 15})
    third = pd.DataFrame({"patient_id": range(30), "age": many()})
    assert len(problems([good, other, third])) == 1
    assert len(problems([good, other])) == 2
    assert len(problems([good, other], drop=["own"])) == 1
    assert len(problems([good, other], categorical=["own"])) == 1


def test_every_door_lists_all_problems():
    clients = [pd.DataFrame({"age": many("old"), "sex": ["f", "m"] * 15}), pd.DataFrame({"age": many(), "sex": many()})]
    fit = fedkin.KFed(n_clusters=2, random_state=0).fit
    learn = fedkin.FedAvg(rounds=1, random_state=0).fit
    y = [0, 1] * 15
    for call in (lambda: fit(clients), lambda: learn([(x, y) for x in clients]), lambda: fedkin.compare(clients)):
        with pytest.raises(FedkinError) as error:
            call()
        assert len(str(error.value).splitlines()) == 2
    with pytest.raises(FedkinError) as error:
        learn([(x[["sex"]].astype(str), [0.5] * 30) for x in clients])
    assert [line[:24] for line in str(error.value).splitlines()] == ["Clients 0 and 1 have lab"]


@pytest.mark.parametrize("name", ["c", "c" * 600])
def test_names_and_categories_too_long_to_be_reported_are_refused_with_column_client_and_limit(name):
    fine, long = (pd.DataFrame({name: [text] * 30, "age": many()}) for text in ("a", "b" * 505))
    with pytest.raises(FedkinError, match="'c' of Client 1 .*at most 500" if name == "c" else "Client 0.*600"):
        fedkin.KFed(n_clusters=2, random_state=0).fit([fine, long])


def test_fit_takes_a_folder(tmp_path):
    for name in ("north", "south"):
        pd.DataFrame({"age": many(), "dose": [row**2 for row in many()]}).to_csv(tmp_path / f"{name}.csv", index=False)
    model = fedkin.KFed(n_clusters=2, random_state=0).fit(tmp_path)
    assert model.client_names_ == ["north.csv", "south.csv"]
    with pytest.raises(FedkinError, match="did you mean"):
        fedkin.KFed(n_clusters=2).fit(f"{tmp_path}x")


def test_columns_that_are_imputed_are_in_the_list():
    good = pd.DataFrame({"age": many(), "own": many()})
    other = pd.DataFrame({"age": many("old"), "own": ["u", "v"] * 15})
    third = pd.DataFrame({"age": many()})
    assert len(problems([good, other, third])) == 1
    assert [line[:30] for line in problems([good, other, third], lacking="impute")] == [
        "Column 'age' of Client 1 holds",
        "Column 'own' differs in kind: ",
    ]
    model = fedkin.KFed(n_clusters=2, lacking="impute", random_state=0)
    with pytest.raises(FedkinError, match="'own' differs in kind"):
        model.fit([good, other, third])


def test_percentages_at_one_client_and_plain_numbers_at_another_are_refused():
    signed = pd.DataFrame({"fat": ["24.2%", "33.5%", "0%"], "b": [1, 2, 3]})
    with pytest.raises(FedkinError) as error:
        ClientFiles({"n": signed, "s": pd.DataFrame({"fat": [29.4, None, 23.8], "b": [1, 2, 3]})}).build()
    assert str(error.value) == (
        "Column 'fat' has percentages at client n, so that 58% is 0.58, and plain numbers up to 29.4 at client s; "
        "write all in one way, with or without the sign."
    )
    built = ClientFiles({"n": signed, "s": pd.DataFrame({"fat": [0.29, None, 0.23], "b": [1, 2, 3]})}).build()
    assert built.clients[0].x[0, 0] == 0.242
