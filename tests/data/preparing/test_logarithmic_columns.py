"""Columns on a logarithmic scale in the preparation of tables, and the note that offers it."""

import math

import numpy as np
import pytest
import torch

from fedkin.core.errors import FedkinError
from fedkin.core.payload import pack, unpack
from fedkin.core.table import Column
from fedkin.data.preparing.notes.cell_notes import notes_on_cells
from fedkin.data.preparing.preparation import Preparation
from fedkin.data.preparing.prepare import prepare
from fedkin.data.preparing.preparing_options import PreparingOptions
from fedkin.data.preparing.schema.schema import SchemaColumn
from fedkin.data.reading.dataset import Dataset
from prepared_tables import NAN, category, federation, number, pooled, table


def log(name, *values, kind="log"):
    taken = math.log if kind == "log" else math.log1p
    return Column(name, kind), [NAN if own is None else taken(own) for own in values]


def amounts(seed, rows=60, center=5.0, spread=1.0):
    return np.exp(np.random.default_rng(seed).normal(center, spread, rows)).tolist()


@pytest.mark.parametrize("secure", [False, True])
def test_the_logarithms_are_prepared_as_if_they_had_been_taken_beforehand(secure):
    one, two, three = (amounts(seed) for seed in range(3))
    two[3] = None
    other = [number("b", *range(60))] * 3
    logs = [log("a", *own) for own in (one, two, three)]
    preparing = PreparingOptions("standard" if secure else "auto")
    taken = federation(*(table(own, b) for own, b in zip(logs, other, strict=True)))
    numbers = federation(*(table((Column("a"), own[1]), b) for own, b in zip(logs, other, strict=True)))
    taken.secure_sums = numbers.secure_sums = secure
    found, expected = prepare(taken, preparing), prepare(numbers, preparing)
    assert found.encoding.schema.columns == (SchemaColumn("a", "log"), SchemaColumn("b", "number"))
    assert (pooled(taken) == pooled(numbers)).all()
    assert taken.exchange == numbers.exchange
    assert found.notes == expected.notes
    assert found.encoding.blocks == [("a", 0, 1), ("b", 1, 2)]


def test_new_rows_are_read_with_the_same_logarithms():
    fed = federation(table(log("a", *amounts(0)), log("b", *amounts(1), kind="log1p"), category("c", *"xy" * 30)))
    again = Preparation.from_tree(unpack(*pack(prepare(fed).tree())))
    assert (again.reading.log, again.reading.log1p, again.reading.categorical) == (("a",), ("b",), ("c",))
    assert again.encoding.schema.columns[:2] == (SchemaColumn("a", "log"), SchemaColumn("b", "log1p"))


def test_an_array_has_numbers_in_place_of_logarithms():
    fed = federation(table(log("a", *amounts(0)), log("b", *amounts(1), kind="log1p"), number("c", *range(60))))
    found = prepare(fed)
    x = torch.tensor([amounts(0), amounts(1), [*range(60)]], dtype=torch.float64).T
    assert torch.allclose(found.apply(x), fed.clients[0].x, atol=1e-5)
    x[4, 0] = 0
    with pytest.raises(FedkinError, match=r"^Column 'a' of the array holds 0 in row 5, but log needs numbers above 0"):
        found.apply(x, where="The array")


def test_clients_on_different_scales_are_refused():
    logarithmic, plain = table(log("a", *amounts(0)), number("b", *range(60))), table(
        number("a", *amounts(1)), number("b", *range(60))
    )  # fmt: skip
    with pytest.raises(FedkinError) as error:
        prepare(federation(logarithmic, plain, plain), names=["north", "south", "west"])
    assert str(error.value) == (
        "Column 'a' differs in kind: number on a logarithmic scale (log) at client north; number at clients south, "
        "west. Name it in log at all clients, or at none."
    )
    shifted = table(log("a", *amounts(0), kind="log1p"), number("b", *range(60)))
    with pytest.raises(FedkinError) as error:
        prepare(federation(logarithmic, shifted), names=["north", "south"])
    assert str(error.value).endswith(
        "number on a logarithmic scale (log1p) at client south. Name it in log or log1p at all clients."
    )
    with pytest.raises(FedkinError, match=r"in categorical, or in drop\.$"):
        prepare(federation(logarithmic, table(category("a", *"xy" * 30))))


def test_a_newcomer_on_another_scale_is_refused():
    found = prepare(federation(table(log("a", *amounts(0)), number("b", *range(60)))))
    own = table(number("a", *amounts(1)), number("b", *range(60)))
    with pytest.raises(FedkinError) as error:
        found.encoding.apply(own, "Client 3")
    assert str(error.value) == (
        "Column 'a' of Client 3 holds numbers; in the clients' tables it holds numbers on a logarithmic scale (log), "
        "so name it in log, too."
    )
    own = table(log("a", *amounts(1)), log("b", *range(1, 61)))
    with pytest.raises(
        FedkinError, match=r"\(log\); in the clients' tables it holds numbers, so do not name it in log"
    ):
        found.encoding.apply(own, "Client 3")
    texts = table(category("a", *"xy" * 30), number("b", *range(60)))
    with pytest.raises(FedkinError, match=r"holds numbers on a logarithmic scale \(log\)\.$"):
        found.encoding.apply(texts, "Client 3")


def test_limits_and_ranges_are_said_in_numbers_not_logarithms():
    far = amounts(0, rows=200)
    far[0] = 3e12
    found = prepare(federation(table(log("a", *far), number("b", *range(200)))))
    (note,) = found.notes
    assert note.startswith("Some values are far from all others and count as a limit: 'a' above ")
    assert "3,000,000,000,000" not in note
    grams = [own * 1000 for own in amounts(1, spread=0.1)]
    fed = federation(*(table(log("a", *own), number("b", *range(60))) for own in (amounts(2, spread=0.1), grams)))
    assert prepare(fed, names=["north", "south"]).questions == (
        "Column 'a' distinguishes clients, for no two of them share a value: their ranges do not overlap; name it in "
        "drop if it is no feature of samples, or give it one unit.",
    )
    three = [amounts(2, spread=0.1), grams, amounts(3, spread=0.1)]
    fed = federation(*(table(log("a", *own), number("b", *range(60))) for own in three))
    (question,) = prepare(fed, names=["north", "south", "west"]).questions
    assert question.startswith("All values of column 'a' at client south are above those of the others, about ")
    assert question.endswith("times as large in the mean; are they in another unit?")


def test_new_rows_that_are_far_are_named_by_their_numbers():
    found = prepare(federation(table(log("a", *amounts(0, spread=0.5)), number("b", *range(60)))))
    new = table(log("a", 150.0, 3e12, 120.0), number("b", 1, 2, 3))
    assert found.notes_on(Dataset("It", new.values, table=new), "It") == [
        "Column 'a' of It holds 3000000000000, far from the clients' values, in 1 row; is it in another unit, or does "
        "it stand for a missing value?"
    ]


def test_notes_on_cells_are_those_on_the_numbers():
    own = [*range(100, 158), *[99999] * 5]
    rows = number("b", *(37 * row % 63 for row in range(63)))
    assert notes_on_cells({"north": table(log("a", *own), rows)}) == notes_on_cells({
        "north": table(number("a", *own), rows)
    })  # fmt: skip
    assert notes_on_cells({"north": table(log("a", *own), rows)})[0].startswith(
        "Column 'a' holds 99999, far above all other values, in 5 rows of north;"
    )


def test_no_column_of_logarithms_names_the_rows():
    fed = federation(table(log("patient_nr", *range(1, 41)), number("b", *range(40))))
    assert [column.name for column in prepare(fed).encoding.schema.columns] == ["patient_nr", "b"]
