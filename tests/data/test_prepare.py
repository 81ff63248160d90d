"""Tables of several clients: one schema, one encoding, by sums."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkin.core import Client, FedkinError
from fedkin.core.payload import pack, unpack
from fedkin.core.table import Column, Table
from fedkin.data.encoding import PreparingOptions
from fedkin.data.preparation import Preparation, restore_preparation
from fedkin.data.prepare import encode_table, prepare
from fedkin.data.schema import SchemaColumn
from fedkin.engines.local import LocalFederation
from prepared_tables import NAN, category, federation, names, number, pooled, table


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    clients=st.integers(2, 4),
    levels=st.integers(2, 4),
    empty=st.sampled_from([0.0, 0.2]),
)
def test_prepared_in_parts_is_prepared_as_a_whole(seed, clients, levels, empty):
    """Whoever holds which row, and in whatever order columns stand, a row is encoded alike."""
    rng = np.random.default_rng(seed)
    rows = 5 * levels + 3  # so that every category is frequent enough at every client
    n = rows * clients
    values = np.column_stack([rng.normal(5, 3, n), np.tile(np.arange(rows) % levels, clients), rng.normal(0, 100, n)])
    values[:, ::2][rng.random((n, 2)) < empty] = NAN
    values[::rows] = [1.0, 0, 1.0]  # no column is empty
    columns = (Column("length"), Column("kind", "category", tuple("abcd"[:levels])), Column("weight"))
    whole = Table(columns, torch.tensor(values))
    parts = []
    for own in torch.arange(n).split(rows):
        order = rng.permutation(3)
        parts.append(Table(tuple(columns[at] for at in order), whole.values[own][:, order.tolist()]))
    options = PreparingOptions(scaling="standard", imputation="median")  # similar rows are the client's own
    one, many = federation(whole), federation(*parts)
    alone, together = prepare(one, options).encoding, prepare(many, options).encoding
    assert {name: end - start for name, start, end in alone.blocks} == {"length": 1, "kind": levels, "weight": 1}
    for name, start, end in alone.blocks:
        own = next((start, end) for other, start, end in together.blocks if other == name)
        np.testing.assert_allclose(pooled(many)[:, slice(*own)], pooled(one)[:, start:end], atol=1e-5)


def test_each_original_column_counts_once():
    rng = np.random.default_rng(0)
    kinds = [str(level) for level in rng.integers(0, 8, 400)]
    own = table(number("length", *rng.normal(3, 40, 400)), category("kind", *kinds))
    fed = federation(own.rows(torch.arange(200)), own.rows(torch.arange(200, 400)))
    found = prepare(fed)
    blocks = {name: pooled(fed)[:, start:end] for name, start, end in found.encoding.blocks}
    assert blocks["kind"].shape == (400, 8)
    assert blocks["kind"].var(0).sum() == pytest.approx(1, abs=1e-5)
    assert blocks["length"].var(0).sum() == pytest.approx(1, abs=1e-5)
    assert np.abs(pooled(fed).mean(0)).max() < 1e-5


def test_columns_are_matched_by_name():
    fed = federation(
        table(number("a", *range(10)), number("b", *range(100, 110))),
        table(number("b", *range(100, 110)), number("a", *range(10))),
    )
    found = prepare(fed)
    assert names(found) == ["a", "b"]
    assert torch.equal(fed.clients[0].x, fed.clients[1].x)


def test_complete_numbers_take_as_many_exchanges_as_arrays_and_come_out_the_same():
    x = torch.randn(40, 3, generator=torch.Generator().manual_seed(0)) * 7 + 3
    columns = tuple(Column(name) for name in "abc")
    tables = federation(Table(columns, x[:25].double()), Table(columns, x[25:].double()))
    arrays = LocalFederation([Client(0, x[:25]), Client(1, x[25:])])
    prepare(tables)
    prepare(arrays)
    assert tables.exchange == arrays.exchange == 3
    assert (pooled(tables) == pooled(arrays)).all()


def test_all_problems_come_in_one_error():
    one = table(number("a", *range(9)), category("b", *["x", "y", "z"] * 3), number("c", *range(9)))
    dates = Column("c", "date"), tuple(range(9))
    two = table(category("a", *["p", "q", "r"] * 3), category("b", *["x", "y", "z"] * 3), dates)
    with pytest.raises(FedkinError) as error:
        prepare(federation(one, two), names=["north", "south"])
    first, second = str(error.value).splitlines()
    assert "'a'" in first
    assert "north" in first
    assert "south" in first
    assert "'c'" in second


def test_another_unit_and_other_codes_at_one_client_are_noted():
    other = table(number("weight", *range(40_000, 40_010)), number("smoker", *[1, 2] * 5))
    one = table(number("weight", *range(40, 50)), number("smoker", *[0, 1] * 5))
    found = prepare(federation(one, other, one), names=["north", "south", "west"])
    assert [one.check for one in found.questions] == ["spelling", "unit"]
    assert found.notes == [*found.questions]
    assert found.encoding.tree()["notes"] == []  # which is what clients get


def test_numbers_beside_truth_values_must_be_0_to_1():
    truths = table((Column("smoker", "boolean", ("no", "yes")), [0.0, 1.0] * 4))
    found = prepare(federation(truths, table(number("smoker", *[0, 1] * 4))))
    assert (
        found.notes[0] == "Column 'smoker' differs in kind: boolean at client 0; number at client 1; 1 counts as true."
    )
    assert found.encoding.schema.columns == (SchemaColumn("smoker", "boolean", ("no", "yes")),)
    some = prepare(federation(truths, table(number("smoker", *[0, 0.5] * 4))))
    assert some.encoding.schema.columns == (SchemaColumn("smoker", "number"),)
    with pytest.raises(FedkinError, match="but other numbers than 0 to 1 at client south"):
        prepare(federation(truths, table(number("smoker", *[1, 2] * 4))), names=["north", "south"])


def test_new_rows_go_through_the_same():
    fed = federation(table(number("a", *range(20)), category("b", *["x", "y"] * 10)))
    found = prepare(fed)
    again = Preparation.from_tree(unpack(*pack(found.tree())))
    new = table(category("b", "y", "unheard", None), number("ignored", 1, 2, 3), number("a", 3, NAN, 5))
    x = again.prepared(new.values, new.columns)
    assert x.shape == (3, 3)
    assert torch.equal(x[0], fed.clients[0].x[3])
    assert x[1, 1:].tolist() == [0.0, 0.0]
    assert x.isfinite().all()
    with pytest.raises(FedkinError, match=r"The table has no column 'a', which the clients' tables have"):
        again.prepared(new.values[:, :2], new.columns[:2])
    with pytest.raises(FedkinError, match="give a DataFrame or a file"):
        again.apply(torch.zeros(3, 2))


def test_a_client_prepares_its_data_again_by_what_it_remembers():
    own = table(number("a", *range(20)), category("b", *["x", "y"] * 10))
    fed = federation(own)
    prepare(fed)
    loaded = Client(0, own.values, state=fed.clients[0].state, table=own)
    restore_preparation(loaded)
    assert torch.equal(loaded.x, fed.clients[0].x)


def test_sums_that_nobody_sees_give_the_same():
    rng = np.random.default_rng(1)
    parts = []
    for _ in range(3):
        values = rng.normal(1e6, 3, 30)
        values[:3] = NAN
        parts.append(table(number("a", *values), category("b", *rng.choice(["x", "y", "z"], 30))))
    open_, hidden = federation(*parts), federation(*parts)
    hidden.secure_sums = True
    options = PreparingOptions(scaling="standard")
    prepare(open_, options)
    prepare(hidden, options)
    filled = ~parts[0].values[:, 0].isnan()
    np.testing.assert_allclose(hidden.clients[0].x[filled], open_.clients[0].x[filled], atol=1e-4)
    assert hidden.clients[0].x.isfinite().all()


def test_tables_and_arrays_do_not_mix():
    own = table(number("a", *range(5)))
    fed = LocalFederation([Client(0, own.values, table=own), Client(1, torch.zeros(5, 1))])
    with pytest.raises(FedkinError, match="Client 1 has an array, but client 0 a table"):
        prepare(fed)


def test_nothing_is_left_to_compare_by():
    own = table(category("name", *[f"n{i}" for i in range(30)]))
    with pytest.raises(FedkinError, match="No column is left"):
        prepare(federation(own))


def test_plain_numbers_need_no_statistics_if_nothing_is_scaled():
    columns = (Column("a"), Column("b"))
    fed = federation(Table(columns, torch.rand(9, 2).double()), Table(columns[::-1], torch.rand(4, 2).double()))
    raw = fed.clients[1].table.values.clone()
    found = prepare(fed, PreparingOptions(scaling="none"))
    assert fed.exchange == 2
    assert found.mode == "none"
    assert torch.equal(fed.clients[1].x, raw.flip(1).float())


@pytest.mark.parametrize("size", [1e-30, 1e-12, 1e12])
def test_numbers_of_any_size_are_scaled(size):
    rng = np.random.default_rng(0)
    fed = federation(*[table(number("a", *(rng.random(30) * size)), number("b", *rng.random(30) * size)) for _ in "ab"])
    assert prepare(fed).mode == "standard"
    np.testing.assert_allclose(pooled(fed).std(0), 1, atol=1e-4)


def test_one_row_and_rows_alike():
    one = table(number("a", 3.0), category("b", "x"))
    fed = federation(one, one.rows(torch.zeros(9, dtype=torch.int64)))
    prepare(fed)
    assert (pooled(fed) == 0).all()
    assert torch.equal(fed.clients[0].x[0], fed.clients[1].x[4])


def test_constant_at_each_client_but_different_between_them():
    fed = federation(*[table(number("a", *[float(client)] * 10), number("b", *range(10))) for client in range(3)])
    prepare(fed)
    assert len(set(pooled(fed)[:, 0])) == 3


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("fill", torch.zeros(3).double()), ("fill", None), ("mean", torch.zeros(3).double()), ("mean", torch.zeros(2)),
        ("scale", -torch.ones(2).double()), ("scale", torch.full((2,), math.nan).double()), ("other", [False, False]),
        ("indicated", torch.zeros(2)), ("indicated", torch.ones(2, dtype=torch.bool)), ("mode", "other"),
        ("mode", ["none"]), ("columns", [["a", "number", []]]), ("columns", [["a", "number", []], ["b", {}, []]]),
        ("imputes", 1), ("notes", 1), ("id", 1),
    ],
)  # fmt: skip
def test_an_encoding_that_does_not_fit_together_is_refused(name, other):
    fed = federation(table(number("a", 1.0, 2.0), number("b", 2.0, 5.0)))
    tree = prepare(fed).encoding.tree()
    assert encode_table.objection({"encoding": tree}) is None
    refused = "'encoding' is not what it should be"
    assert encode_table.objection({"encoding": {**tree, name: other}}) == refused
    assert encode_table.objection({"encoding": {key: tree[key] for key in tree if key != name}}) == refused


def test_a_client_without_any_cell_is_named():
    fed = federation(table(number("a", 1, 2), number("b", 3, 5)), table(number("a", NAN, NAN), number("b", NAN, NAN)))
    with pytest.raises(FedkinError, match=r"^All cells of client 1 are empty; leave it out\.$"):
        prepare(fed)


def test_an_id_by_its_name_comes_before_free_text():
    notes, keys = [f"note {at}" for at in range(30)], [f"K{at}" for at in range(30)]
    own = table(category("remark", *notes), category("patient_id", *keys), number("age", *range(30)))
    prepared = prepare(federation(own, own))
    assert prepared.encoding.schema.id == "patient_id"
    assert names(prepared) == ["age"]
    assert prepare(federation(own, own), PreparingOptions(id="remark")).encoding.schema.id == "remark"


def test_what_a_privacy_guarantee_does_not_cover_is_said():
    """Clients send no statistics of arrays and complete numbers that are not scaled."""
    for scaling, private, said in (("auto", True, 1), ("auto", False, 0), ("none", True, 0)):
        options = PreparingOptions(scaling=scaling).of(private=private)
        tables = federation(table(number("a", 0, 1, 5)), table(number("a", 0, 2, 7)))
        arrays = LocalFederation([Client(i, torch.rand(4, 2) * 9) for i in range(2)], seed=0)
        for fed in (tables, arrays):
            notes = [note for note in prepare(fed, options).notes if note.startswith("The privacy guarantee does not")]
            assert len(notes) == said
