"""Tables of several clients: one schema, one encoding, by sums."""

import math
import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkin.core import Client, FedkinError
from fedkin.core.payload import pack, unpack
from fedkin.core.table import Column, Table
from fedkin.data.preparing.preparation import Preparation, restore_preparation
from fedkin.data.preparing.prepare import PreparingOptions, encode_table, prepare, prepare_newcomers
from fedkin.data.preparing.scaling import moments, table_columns
from fedkin.engines.local import LocalFederation

NAN = math.nan


def number(name, *values):
    return Column(name), values


def category(name, *values):
    names = tuple(sorted({value for value in values if value is not None}))
    return Column(name, "category", names), [NAN if value is None else names.index(value) for value in values]


def table(*columns):
    return Table(
        tuple(column for column, _ in columns), torch.tensor([own for _, own in columns], dtype=torch.float64).T
    )


def federation(*tables, **options):
    return LocalFederation([Client(i, own.values, table=own) for i, own in enumerate(tables)], **options)


def pooled(fed):
    return torch.cat([fed.clients[i].x for i in fed.ids]).numpy()


def names(preparation):
    return [column.name for column in preparation.encoding.schema.columns]


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
    options = PreparingOptions(scaling="standard")
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
    assert any("illness" in note and "other" in note for note in found.notes)
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
    assert any("age 1, town 1" in note for note in found.notes)


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


def test_kinds_that_agree_are_united():
    yes = Column("smokes", "boolean", ("no", "yes")), (0, 1, 1, 0, 1, 1, 0, 0, 1, 0)
    more = category("smokes", *["no", "yes", "quit", "quit", "yes", "no"] * 5)
    numbers = number("smokes", *[0, 1] * 10)
    found = prepare(federation(table(yes, number("a", *range(10))), table(more, number("a", *range(30)))))
    assert found.encoding.schema.columns[0].categories == ("no", "quit", "yes")
    found = prepare(federation(table(yes, number("a", *range(10))), table(numbers, number("a", *range(20)))))
    assert found.encoding.schema.columns[0].kind == "number"


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


def test_new_rows_go_through_the_same():
    fed = federation(table(number("a", *range(20)), category("b", *["x", "y"] * 10)))
    found = prepare(fed)
    again = Preparation.from_tree(unpack(*pack(found.tree())))
    new = table(category("b", "y", "unheard", None), number("ignored", 1, 2, 3), number("a", 3, NAN, 5))
    x = again.apply(new.values, new.columns)
    assert x.shape == (3, 3)
    assert torch.equal(x[0], fed.clients[0].x[3])
    assert x[1, 1:].tolist() == [0.0, 0.0]
    assert x.isfinite().all()
    with pytest.raises(FedkinError, match=r"The table has no column 'a', which the others have"):
        again.apply(new.values[:, :2], new.columns[:2])
    with pytest.raises(FedkinError, match="give a DataFrame or a file"):
        again.apply(torch.zeros(3, 2))


def test_a_client_prepares_its_data_again_by_what_it_remembers():
    own = table(number("a", *range(20)), category("b", *["x", "y"] * 10))
    fed = federation(own)
    prepare(fed)
    loaded = Client(0, own.values, state=fed.clients[0].state, table=own)
    restore_preparation(loaded)
    assert torch.equal(loaded.x, fed.clients[0].x)


def test_newcomers_are_prepared_as_the_others():
    own = table(number("a", *range(20)), category("b", *["x", "y"] * 10))
    fed = federation(own, own.rows(torch.arange(5)))
    fed.away = {1}
    found = prepare(fed)
    fed.away = set()
    prepare_newcomers(fed, [fed.clients[1]], found)
    assert torch.equal(fed.clients[1].x, fed.clients[0].x[:5])


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


def test_very_many_categories_are_pooled_but_for_the_most_frequent():
    rng = np.random.default_rng(0)
    words = [f"w{int(code):03}" for code in np.minimum(rng.geometric(0.01, 6_000), 299)]
    fed = federation(*[table(category("word", *words[at::3]), number("age", *range(2_000))) for at in range(3)])
    found = prepare(fed)
    column = found.encoding.schema.columns[0]
    assert len(column.categories) == 50
    assert fed.clients[0].x.shape == (2_000, 52)
    assert any("'word'" in note and "50 most frequent" in note for note in found.notes)
    assert pooled(fed)[:, :51].var(0).sum() == pytest.approx(1, abs=1e-3)


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


def test_columns_of_one_value_are_mentioned():
    same = number("k", *[3] * 9), category("s", *"xxxxxxxxx")
    fed = federation(*(table(number("a", *range(low, low + 9)), *same) for low in (0, 5)))
    assert "Columns k, s have one value alone at all clients, so samples do not differ in it." in prepare(fed).notes
    fed = federation(table(number("a", 1, 2, 3)), table(number("a", 1, 1, 1)))
    assert prepare(fed).notes == []


def test_a_client_without_any_cell_is_named():
    fed = federation(table(number("a", 1, 2), number("b", 3, 5)), table(number("a", NAN, NAN), number("b", NAN, NAN)))
    with pytest.raises(FedkinError, match=r"^All cells of client 1 are empty; leave it out\.$"):
        prepare(fed)
