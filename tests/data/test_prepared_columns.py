"""Columns as they are prepared: categories, ids and empty cells."""

import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkin.core import Client, FedkinError
from fedkin.core.table import Column, Table
from fedkin.data.encoding import PreparingOptions
from fedkin.data.prepare import prepare
from fedkin.data.statistics import moments, table_columns
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


def test_categories_that_are_whole_numbers_may_have_decimals():
    one, other = ["1", "2", "2.5"] * 10, ["1.0", "2.0", "2.5"] * 10
    ages = number("age", *range(30))
    found = prepare(fed := federation(table(category("dose", *one), ages), table(category("dose", *other), ages)))
    assert found.encoding.schema.columns[0].categories == ("1", "2", "2.5")
    assert torch.equal(fed.clients[0].x, fed.clients[1].x)
    both = category("dose", *[*one, *other][15:45])
    found = prepare(federation(table(both, ages), table(category("dose", *other), ages)))
    assert found.encoding.schema.columns[0].categories == ("1", "1.0", "2", "2.0", "2.5")


def test_ordinals_and_dates_are_one_column_each():
    stage = Column("stage", "ordinal", ("low", "middle", "high")), (0, 1, 2, 2, 1, NAN)
    day = Column("day", "date"), (19_000, 19_010, 19_020, NAN, 19_001, 19_002)
    fed = federation(table(stage, day))
    found = prepare(fed)
    assert fed.clients[0].x.shape == (6, 2)
    assert float(found.encoding.fill[0]) in (1.0, 2.0)
    other = Column("stage", "ordinal", ("high", "low")), (0, 1, 1, 0, 1, 1)
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


def test_many_columns_take_seconds():
    names = tuple(Column(f"c{at}") for at in range(5_000))
    rng = np.random.default_rng(0)
    fed = federation(*[Table(names, torch.tensor(rng.normal(size=(20, 5_000)) * 7)) for _ in range(3)])
    began = time.perf_counter()
    prepare(fed)
    assert time.perf_counter() - began < 30  # a second or two on an idle core


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
