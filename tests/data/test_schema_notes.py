"""Notes on the columns of prepared tables: each matter once, and none on what is left out."""

import numpy as np
import pytest

from fedkin.core import FedkinError
from fedkin.core.table import Column
from fedkin.data.encoding import PreparingOptions
from fedkin.data.prepare import prepare
from prepared_tables import NAN, category, federation, number, table


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
