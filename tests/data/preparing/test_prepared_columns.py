"""Columns as they are prepared: categories, ids, empty cells, and what is mentioned of them."""

import time

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkin.core import Client, FedkinError
from fedkin.core.table import Column, Table
from fedkin.data.preparing.preparation import PreparingOptions
from fedkin.data.preparing.prepare import prepare
from fedkin.data.preparing.scaling import moments, table_columns
from fedkin.data.preparing.schema import SchemaColumn
from fedkin.data.reading.tables import frame_to_table
from prepared_tables import NAN, category, federation, names, number, pooled, table


def test_names_of_rare_categories_stay_at_the_client():
    rare, common = ["hepatitis"] * 4, ["flu"] * 6
    own = table(category("illness", *common, *rare), number("age", *range(10)))
    for task in (moments, table_columns):
        [reply] = task.run([Client(0, own.values, table=own)], [{"min_members": 1}])
        assert "hepatitis" not in str(reply)
        assert "flu" in str(reply)
    fed = federation(own, table(category("illness", *["flu"] * 3, *["cold"] * 7), number("age", *range(10))))
    found = prepare(fed)
    [column] = [column for column in found.encoding.schema.columns if column.name == "illness"]
    assert column.categories == ("cold", "flu")
    assert any(note.startswith("Categories of 'illness' with too few samples") for note in found.notes)
    start, end = next((start, end) for name, start, end in found.encoding.blocks if name == "illness")
    assert end - start == 3


def test_a_category_that_one_client_names_is_known_at_all():
    fed = federation(
        table(category("town", *["Ulm"] * 8), number("age", *range(8))),
        table(category("town", *["Ulm"] * 2, *["Bonn"] * 6), number("age", *range(8))),
    )
    found = prepare(fed)
    assert not found.encoding.other.any()
    assert fed.clients[0].x[0, 0] == fed.clients[1].x[0, 0]


@pytest.mark.parametrize(
    ("column", "is_id"),
    [
        (lambda n: category("patient", *[f"P{i:04}" for i in range(n)]), True),
        (lambda n: number("sample_id", *range(n)), True),
        (lambda n: number("EmployeeNumber", *range(n)), True),
        (lambda n: number("weight", *range(n)), False),
        (lambda n: number("id", *np.linspace(0, 1.5, n)), False),
        (lambda n: category("town", *["Ulm", "Bonn"] * (n // 2)), False),
    ],
)
def test_ids_are_recognised(column, is_id):
    fed = federation(*[table(column(40), number("age", *range(40))) for _ in range(2)])
    found = prepare(fed)
    assert (found.id is not None) == is_id
    assert (names(found) == ["age"]) == is_id
    if is_id:
        assert any(found.id in note for note in found.notes)


def test_an_id_can_be_named_or_denied():
    own = table(
        number("sample_id", *range(40)), number("shelf", *[i % 7 for i in range(40)]), number("age", *range(40))
    )
    assert prepare(federation(own), PreparingOptions(id="shelf")).id == "shelf"
    assert names(prepare(federation(own), PreparingOptions(id="none"))) == ["sample_id", "shelf", "age"]
    with pytest.raises(FedkinError, match=r"Unknown id column 'shelv'; did you mean 'shelf'\?"):
        prepare(federation(own), PreparingOptions(id="shelv"))


def test_empty_cells_take_the_median_or_the_most_frequent_category():
    ages = [*range(1, 100), 10_000, NAN]
    towns = ["Ulm"] * 60 + ["Bonn"] * 40 + [None]
    fed = federation(table(number("age", *ages), category("town", *towns)))
    found = prepare(fed, PreparingOptions(scaling="none"))
    row = fed.clients[0].x[-1]
    assert row[1:].tolist() == [0.0, 1.0]
    assert 0 < row[0] < 100  # a bin of the histogram is 39 wide
    assert any("'age' 1, 'town' 1" in note for note in found.notes)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), rows=st.integers(3, 60), spread=st.sampled_from([1e-6, 1.0, 1e9]))
def test_medians_are_right_to_a_bin(seed, rows, spread):
    rng = np.random.default_rng(seed)
    values = rng.normal(3 * spread, spread, rows)
    fed = federation(table(number("a", *values, NAN), number("b", *range(rows + 1))))
    found = prepare(fed, PreparingOptions(scaling="none"))
    width = (values.max() - values.min()) / 256
    low, high = np.quantile(values, [0.5, 0.5], method="lower")[0], np.quantile(values, 0.5, method="higher")
    assert low - 1.01 * width <= float(found.encoding.fill[0]) <= high + 1.01 * width


def test_a_column_that_some_lack_is_dropped_or_imputed():
    fed = [table(number("a", *range(9)), number("b", *range(9))), table(number("a", *range(9)))]
    found = prepare(federation(*fed), names=["north.csv", "south.csv"])
    assert names(found) == ["a"]
    [note] = found.notes
    assert "'b'" in note
    assert "south.csv" in note
    kept = prepare(federation(*fed), PreparingOptions(lacking="impute"))
    assert names(kept) == ["a", "b"]
    assert float(kept.encoding.fill[1]) == pytest.approx(4, abs=0.1)


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


def test_a_column_that_is_mostly_empty_is_dropped():
    own = table(number("a", *range(10)), number("b", 1.0, 2.0, *[NAN] * 8))
    assert names(prepare(federation(own, own))) == ["a"]
    assert names(prepare(federation(own, own), PreparingOptions(lacking="impute"))) == ["a", "b"]


def test_an_indicator_of_empty_cells_shares_the_columns_weight():
    rng = np.random.default_rng(0)
    values = rng.normal(0, 9, 500)
    values[:120] = NAN
    fed = federation(table(number("a", *values), number("b", *rng.normal(0, 1, 500))))
    found = prepare(fed, PreparingOptions(indicator=True))
    (_, start, end), (_, *_) = found.encoding.blocks
    assert end - start == 2
    assert len(set(pooled(fed)[:120, start + 1])) == 1
    assert pooled(fed)[:, start + 1].var() == pytest.approx(0.5, abs=1e-4)


def test_kinds_that_agree_are_united():
    yes = Column("smokes", "boolean", ("no", "yes")), (0, 1, 1, 0, 1, 1, 0, 0, 1, 0)
    more = category("smokes", *["no", "yes", "quit", "quit", "yes", "no"] * 5)
    numbers = number("smokes", *[0, 1] * 10)
    found = prepare(federation(table(yes, number("a", *range(10))), table(more, number("a", *range(30)))))
    assert found.encoding.schema.columns[0].categories == ("no", "quit", "yes")
    found = prepare(federation(table(yes, number("a", *range(10))), table(numbers, number("a", *range(20)))))
    assert found.encoding.schema.columns[0].kind == "boolean"


def test_ordinals_and_dates_are_one_column_each():
    stage = Column("stage", "ordinal", ("low", "middle", "high")), (0, 1, 2, 2, 1, NAN)
    day = Column("day", "date"), (19_000, 19_010, 19_020, NAN, 19_001, 19_002)
    fed = federation(table(stage, day))
    found = prepare(fed)
    assert fed.clients[0].x.shape == (6, 2)
    assert float(found.encoding.fill[0]) in (1.0, 2.0)
    other = Column("stage", "ordinal", ("low", "high")), (0, 1, 1, 0, 1, 1)
    with pytest.raises(FedkinError, match="levels"):
        prepare(federation(table(stage, day), table(other, day)))


def test_very_many_categories_are_pooled_but_for_the_most_frequent():
    rng = np.random.default_rng(0)
    words = [f"w{int(code):03}" for code in np.minimum(rng.geometric(0.01, 6_000), 299)]
    fed = federation(*[table(category("word", *words[at::3]), number("age", *range(2_000))) for at in range(3)])
    found = prepare(fed)
    column = found.encoding.schema.columns[0]
    assert len(column.categories) == 50
    assert fed.clients[0].x.shape == (2_000, 52)
    assert any("Categories of 'word'" in note and "50 most frequent" in note for note in found.notes)
    assert pooled(fed)[:, :51].var(0).sum() == pytest.approx(1, abs=1e-3)


def test_names_that_differ_in_case_are_mentioned():
    fed = federation(
        table(number("Age", *range(9)), number("b", *range(9))),
        table(number("age ", *range(9)), number("b", *range(9))),
    )
    assert any("'Age' and 'age '" in note for note in prepare(fed).notes)


def test_many_columns_take_seconds():
    names = tuple(Column(f"c{at}") for at in range(5_000))
    rng = np.random.default_rng(0)
    fed = federation(*[Table(names, torch.tensor(rng.normal(size=(20, 5_000)) * 7)) for _ in range(3)])
    began = time.perf_counter()
    prepare(fed)
    assert time.perf_counter() - began < 30  # a second or two on an idle core


def test_columns_of_one_value_are_mentioned():
    same = number("k", *[3] * 9), category("s", *"xxxxxxxxx")
    fed = federation(*(table(number("a", *range(low, low + 9)), *same) for low in (0, 5)))
    assert (
        "Columns 'k', 's' have a single value at all clients, so samples do not differ in them." in prepare(fed).notes
    )
    fed = federation(table(number("a", 1, 2, 3)), table(number("a", 1, 1, 1)))
    assert prepare(fed).notes == []


def test_a_new_row_that_is_negative_is_none_with_an_empty_cell(tmp_path):
    own = [table(category("hbsag", *"++++++-----"), number("age", *range(11))) for _ in range(2)]
    found = prepare(federation(*own))
    (tmp_path / "new.csv").write_text("hbsag,age\n-,3\n")
    start = next(start for name, start, _ in found.encoding.blocks if name == "hbsag")
    plus, minus = found.read(str(tmp_path / "new.csv"))[0, start : start + 2].tolist()
    assert plus < 0 < minus


def test_a_column_that_is_mostly_empty_names_no_rows():
    rare = [["x"] + [None] * 29, [None] * 28 + ["y", "z"]]
    ages = np.random.default_rng(0).integers(20, 80, (2, 30))
    tables = [table(category("remark", *own), number("age", *age)) for own, age in zip(rare, ages, strict=True)]
    found = prepare(federation(*tables))
    assert found.encoding.schema.id is None
    assert not any("names the rows" in note or "different in nearly every row" in note for note in found.notes)


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
    assert "(down to 1950-11-02)" in said


def test_columns_in_two_spellings_are_not_said_to_be_absent_too():
    fed = [table(number("id_age", *range(9)), number(name, *range(9))) for name in ("weight", "Weight")]
    assert prepare(federation(*fed), PreparingOptions(id="none")).notes[:1] == [
        "Columns 'weight' and 'Weight' differ in spelling alone and count as different, so those that a client lacks "
        "are left out; give them one name if they are the same."
    ]
    assert not any("absent" in note for note in prepare(federation(*fed), PreparingOptions(id="none")).notes)


def test_dashes_alone_are_values_where_others_have_signs_and_else_empty():
    signs = frame_to_table(pd.DataFrame({"test": ["+", "-"] * 10, "age": range(20)}), "It")
    none = frame_to_table(pd.DataFrame({"test": ["-"] * 20, "age": range(20)}), "It")
    found = prepare(federation(signs, none))
    assert found.encoding.schema.columns[0] == SchemaColumn("test", "category", ("+", "-"))
    assert not any("empty" in note for note in found.notes)
    number_there = table(number("test", *range(20)), number("age", *range(20)))
    assert names(prepare(federation(number_there, none))) == ["age"]
    kept = prepare(federation(number_there, none), PreparingOptions(lacking="impute"))
    assert float(kept.encoding.mean[0]) == 9.5
    assert kept.notes[0].startswith("20 of 80 cells are empty ('test' 20)")
    assert names(prepare(federation(none, none))) == ["age"]


def test_ids_that_come_again_and_again_are_mentioned():
    visits = table(number("Id", *[4_445_114_986, 5_577_150_313] * 30), number("steps", *range(60)))
    assert prepare(federation(visits, visits)).notes[0] == (
        "Column 'Id' is called like an id, but its values come again and again, so it is taken for numbers; name it in "
        "drop or categorical."
    )


def test_two_names_of_one_column_are_mentioned():
    ages = number("age", *range(10))
    north = table(category("sex", *"fm" * 5), ages)
    south = table(category("gender", *"fm" * 5), ages)
    note = (
        "Columns 'sex' and 'gender' have common categories, and no client has both; give them one name if they are the "
        "same."
    )
    assert note in prepare(federation(north, south, north)).notes
    assert note not in prepare(federation(north, table(ages), south)).notes
    assert note not in prepare(federation(north, table(category("gender", *"xy" * 5), ages))).notes


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
        "Column 'site' distinguishes clients, for no two of them share a frequent value; name it in drop if it is no "
        "feature of samples, or spell its values alike if they are the same.",
    ]
    kept = "\n".join(prepare(federation(*fed), PreparingOptions(lacking="impute")).notes)
    assert "Categories of column 'more' that differ in spelling alone" in kept
    assert "Columns 'site', 'notes' distinguish clients" in kept
    assert "Column 'height' distinguishes clients" in kept
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
    assert prepare(federation(own, own)).notes[:2] == [
        "Column 'patient' names the rows or says whose they are, so it is no feature; id = 'none' keeps it.",
        "Columns 'url', 'remark' are different in nearly every row, so they are left out; id = 'none' keeps them.",
    ]


def test_keys_of_a_few_rows_each_are_one_sentence():
    keys = [category(name, *[f"{name}{row // 5}" for row in range(200)]) for name in ("customer_id", "person_id")]
    rare = [category(name, *[f"{name}{row // 4}" for row in range(200)]) for name in ("shop", "street")]
    own = table(*keys, *rare, number("age", *range(200)))
    assert prepare(federation(own, own)).notes[:2] == [
        "Columns 'customer_id', 'person_id' name the rows or say whose they are, so they are no features; id = 'none' "
        "keeps them.",
        "Columns 'shop', 'street' have no value that is frequent enough at any client, so they are left out.",
    ]


def test_numbers_that_are_called_like_codes_are_mentioned():
    def note(name, *values):
        own = table(number(name, *values, *values), number("age", *range(2 * len(values))))
        return [note for note in prepare(federation(own, own)).notes if "called like" in note]

    said = (
        "Column '{}' is called like a code, but holds numbers, so that near ones are alike; name it in categorical or "
        "drop."
    )
    for name in ("zip", "PLZ", "postal_code", "zipCode", "home_zip", "icd_code"):
        assert note(name, 10115, 80331, 20095) == [said.format(name)]
    for name, *values in (("zip", 1067, 80331), ("zip", 10115.5, 80331), ("code", 1, 2), ("price", 10115, 20095)):
        assert note(name, *values) == []
