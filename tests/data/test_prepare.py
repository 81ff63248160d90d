"""Preparation of clients' data: encoding, imputation, newcomers, and new rows one by one."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import fedkin
from fedkin.core import Client, FedkinError
from fedkin.core.client import Column, Table
from fedkin.core.payload import pack, unpack
from fedkin.data.columns import moments, table_columns
from fedkin.data.encoding import from_neighbours
from fedkin.data.options import TableOptions
from fedkin.data.preparation import (
    Preparation,
    admit_joined_clients,
    arrange_columns,
    encode,
    prepare,
    restore_preparation,
)
from fedkin.data.scenarios import Arrivals, Labelled
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
    options = TableOptions(scaling="standard", imputation="median")  # similar rows are the client's own
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


def test_new_rows_go_through_the_same():
    fed = federation(table(number("a", *range(20)), category("b", *["x", "y"] * 10)))
    found = prepare(fed)
    again = Preparation.from_tree(unpack(*pack(found.tree())))
    new = table(category("b", "y", "unheard", None), number("ignored", 1, 2, 3), number("a", 3, NAN, 5))
    x = again.prepared(new.values, new)
    assert x.shape == (3, 3)
    assert torch.equal(x[0], fed.clients[0].x[3])
    assert x[1, 1:].tolist() == [0.0, 0.0]
    assert x.isfinite().all()
    with pytest.raises(FedkinError, match=r"The table has no column 'a', which the clients' tables have"):
        again.prepared(new.values, Table(new.columns[:2], new.values[:, :2]))
    with pytest.raises(FedkinError, match="give a DataFrame or a file"):
        again.apply(torch.zeros(3, 2))


def test_sums_that_nobody_sees_give_the_same():
    rng = np.random.default_rng(1)
    parts = []
    for _ in range(3):
        values = rng.normal(1e6, 3, 30)
        values[:3] = NAN
        parts.append(table(number("a", *values), category("b", *rng.choice(["x", "y", "z"], 30))))
    open_, hidden = federation(*parts), federation(*parts)
    hidden.secure_sums = True
    options = TableOptions(scaling="standard")
    prepare(open_, options)
    prepare(hidden, options)
    filled = ~parts[0].values[:, 0].isnan()
    np.testing.assert_allclose(hidden.clients[0].x[filled], open_.clients[0].x[filled], atol=1e-4)
    assert hidden.clients[0].x.isfinite().all()


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("fill", torch.zeros(3).double()), ("fill", None), ("mean", torch.zeros(3).double()), ("mean", torch.zeros(2)),
        ("scale", -torch.ones(2).double()), ("scale", torch.full((2,), math.nan).double()), ("other", [False, False]),
        ("mode", "other"),
        ("mode", ["none"]), ("columns", [["a", "number", []]]), ("columns", [["a", "number", []], ["b", {}, []]]),
        ("notes", 1), ("id", 1),
    ],
)  # fmt: skip
def test_an_encoding_that_does_not_fit_together_is_refused(name, other):
    fed = federation(table(number("a", 1.0, 2.0), number("b", 2.0, 5.0)))
    tree = prepare(fed).encoding.tree()
    assert encode.objection({"encoding": tree}) is None
    refused = "'encoding' is not what it should be"
    assert encode.objection({"encoding": {**tree, name: other}}) == refused
    assert encode.objection({"encoding": {key: tree[key] for key in tree if key != name}}) == refused


@pytest.mark.parametrize("key", ["names", "columns", "sum"])
def test_a_client_whose_columns_do_not_fit_together_is_left_out(key):
    class Lying(LocalFederation):
        def deliver(self, task, payloads):
            for client, reply in super().deliver(task, payloads):
                if client == 2 and key in reply and task is moments:
                    shorter = ("sum", "min", "max", "filled") if key == "sum" else (key,)
                    reply = {**reply, **{name: reply[name][:1] for name in shorter}}
                yield client, reply

    tables = [table(number("a", *range(10)), number("b", *range(20, 30))) for _ in range(4)]
    fed = Lying([Client(i, own.values, table=own) for i, own in enumerate(tables)])
    assert names(prepare(fed)) == ["a", "b"]
    assert list(fed.dropped) == [2]


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


def test_empty_cells_take_the_median_or_the_most_frequent_category():
    ages = [*range(1, 100), 10_000, NAN]
    towns = ["Ulm"] * 60 + ["Bonn"] * 40 + [None]
    fed = federation(table(number("age", *ages), category("town", *towns)))
    found = prepare(fed, TableOptions(scaling="none"))
    row = fed.clients[0].x[-1]
    assert row[1:].tolist() == [0.0, 1.0]
    assert 0 < row[0] < 100  # a bin of the histogram is 39 wide
    assert any("'age' 1, 'town' 1" in note for note in found.notes)


def test_a_column_that_some_lack_is_dropped():
    fed = [table(number("a", *range(9)), number("b", *range(9))), table(number("a", *range(9)))]
    found = prepare(federation(*fed), names=["north.csv", "south.csv"])
    assert names(found) == ["a"]
    [note] = found.notes
    assert "'b'" in note
    assert "south.csv" in note


def test_ordinals_and_dates_are_one_column_each():
    stage = Column("stage", "ordinal", ("low", "middle", "high")), (0, 1, 2, 2, 1, NAN)
    day = Column("day", "date"), (19_000, 19_010, 19_020, NAN, 19_001, 19_002)
    fed = federation(table(stage, day))
    found = prepare(fed)
    assert fed.clients[0].x.shape == (6, 2)
    assert float(found.encoding.fill[0]) in (1.0, 2.0)
    other = Column("stage", "ordinal", ("high", "low")), (0, 1, 1, 0, 1, 1)
    with pytest.raises(FedkinError, match=r"'stage' has other levels .* Name its levels in ord"):
        prepare(federation(table(stage, day), table(other, day)))


GROUPS = [[0.0, 10.0], [1.0, 11.0], [0.5, 10.5]] * 4 + [[90.0, 40.0], [91.0, 41.0], [90.5, 40.5]] * 4
"""Rows of two kinds, twelve of each."""


def gaps_at(*parts: list[list[float]]) -> LocalFederation:
    tables = [Table((Column("a"), Column("b")), torch.tensor(rows, dtype=torch.float64)) for rows in parts]
    return LocalFederation([Client(i, own.values, table=own) for i, own in enumerate(tables)], seed=0)


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1), rows=st.integers(1, 30), donors=st.integers(0, 30), width=st.integers(1, 4),
    fraction=st.sampled_from([0.0, 0.3, 0.9, 1.0]),
)  # fmt: skip
def test_full_cells_stay_and_imputed_ones_lie_among_the_donors(seed, rows, donors, width, fraction):
    rng = np.random.default_rng(seed)
    x, pool = (torch.from_numpy(rng.normal(size=(count, width))).float() for count in (rows, donors))
    empty, lacking = (torch.from_numpy(rng.random(own.shape) < fraction) for own in (x, pool))
    found = from_neighbours(x.masked_fill(empty, 7.0), empty, pool, lacking)
    assert torch.equal(found[~empty], x[~empty])
    assert found.isfinite().all()
    for column in range(width):
        own, known = found[empty[:, column], column], pool[~lacking[:, column], column]
        fills = own == 7.0
        assert fills.all() or len(known)
        assert ((own[~fills] >= known.min() - 1e-6) & (own[~fills] <= known.max() + 1e-6)).all() if len(known) else True


def test_a_resumed_client_has_the_same_rows():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(1_500, 3))
    values[rng.random(values.shape) < 0.2] = NAN
    own = Table(tuple(map(Column, "abc")), torch.from_numpy(values))
    client = Client(0, own.values.float(), table=own)
    prepare(LocalFederation([client], seed=0))
    again = Client(0, own.values.float(), table=own, state=client.state)
    restore_preparation(again)
    assert torch.equal(again.x, client.x)


def test_under_a_privacy_budget_no_row_changes_another():
    fed = gaps_at([*GROUPS, [0.6, NAN]])
    encoding = prepare(fed).encoding
    assert encoding.imputation == "neighbours"
    table = fed.clients[0].table
    alone = Client(0, table.values.float(), table=table)
    arrange_columns.run([alone], [{"encoding": encoding.tree()}])
    assert torch.equal(alone.x, encoding.apply(table))
    assert not torch.equal(alone.x, fed.clients[0].x)


@pytest.mark.parametrize(
    "model",
    [fedkin.KinGraph(n_clusters=2, epsilon=4.0), fedkin.FedDPKMeans(n_clusters=2, epsilon=4.0)],
    ids=lambda model: type(model).__name__,
)
def test_methods_with_an_epsilon_for_a_sample_take_medians(model):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 3))
    x[rng.random(x.shape) < 0.1] = NAN
    model.set_params(random_state=0).fit([pd.DataFrame(part) for part in np.array_split(x, 2)])
    assert model.preparation_.encoding.imputation == "median"


def labelled():
    rng, y = torch.Generator().manual_seed(0), torch.arange(900) % 10
    return Labelled("pictures", torch.rand(900, 1, 4, 4, generator=rng), y, [str(c) for c in range(10)])


def test_newcomers_take_part_from_their_step_on_with_the_common_scaling():
    population = Arrivals(clients=12, step=5, changed_fraction=0.4).partition(labelled(), 0)
    raw = [client.x for client in population.clients]
    fed = LocalFederation(population.clients)
    fed.leave(population.away(0))
    assert set(fed.ids).difference(fed.present) == {7, 8, 9, 10, 11}
    prepared = prepare(fed, TableOptions(scaling="standard"))
    assert torch.cat([fed.clients[i].x for i in range(7)]).mean().abs() < 1e-6
    exchange, sent = fed.exchange, fed.sent
    for step in range(5):
        admit_joined_clients(fed, population.clients, population.away(step), prepared)
        assert (len(fed.present), fed.exchange, fed.sent) == (len(fed.ids) - 5, exchange, sent)
    assert all(torch.equal(fed.clients[i].x, raw[i]) for i in range(7, 12))
    admit_joined_clients(fed, population.clients, population.away(5), prepared)
    assert fed.present == fed.ids
    assert fed.exchange == exchange + 1
    assert fed.sent > sent
    assert all(torch.equal(fed.clients[i].x, prepared.apply(raw[i])) for i in range(12))
    admit_joined_clients(fed, population.clients, population.away(6), prepared)
    assert all(torch.equal(fed.clients[i].x, prepared.apply(raw[i])) for i in range(12))
    assert fed.exchange == exchange + 1


RNG = np.random.default_rng(0)
ROWS = 60
TABLE = pd.DataFrame(
    {
        "a": np.arange(ROWS) % 3 * 4 + RNG.normal(size=ROWS),
        "card": RNG.choice(["Y", "N"], ROWS),
        "wait": [f"{hour}:{at:02}" for at, hour in enumerate(RNG.integers(0, 24, ROWS))],
        "price": [f"{price:,.2f}" for price in RNG.uniform(200, 3_000_000, ROWS)],
        "share": [f"{share}%" for share in RNG.integers(1, 90, ROWS)],
        "test": RNG.choice(["+", "-"], ROWS),
    }
)


@pytest.mark.parametrize("as_file", [True, False])
def test_each_row_alone_is_as_among_all(tmp_path, as_file):
    model = fedkin.KFed(n_clusters=3, random_state=0).fit([TABLE.iloc[:35], TABLE.iloc[25:]])
    together = model.preparation_.apply(TABLE)
    for at in range(20):
        row = TABLE.iloc[[at]]
        if as_file:
            row.to_csv(path := tmp_path / "row.csv", index=False)
        alone = model.preparation_.apply(path if as_file else row)
        assert alone[0].tolist() == pytest.approx(together[at].tolist(), abs=1e-6)
