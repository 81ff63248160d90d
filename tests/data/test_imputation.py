"""Empty cells take the mean of similar rows of the same client."""

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import fedkin
from fedkin.clustering.metrics import adjusted_rand
from fedkin.core import Client
from fedkin.core.table import Column, Table
from fedkin.data.encoding import PreparingOptions, TableEncoding, from_neighbours
from fedkin.data.preparation import restore_preparation
from fedkin.data.prepare import arrange_columns, prepare
from fedkin.engines.local import LocalFederation

NAN = float("nan")
GROUPS = [[0.0, 10.0], [1.0, 11.0], [0.5, 10.5]] * 4 + [[90.0, 40.0], [91.0, 41.0], [90.5, 40.5]] * 4
"""Rows of two kinds, twelve of each."""


def federation(*parts: list[list[float]]) -> LocalFederation:
    tables = [Table((Column("a"), Column("b")), torch.tensor(rows, dtype=torch.float64)) for rows in parts]
    return LocalFederation([Client(i, own.values, table=own) for i, own in enumerate(tables)], seed=0)


def in_units(fed: LocalFederation, client: int, encoding: TableEncoding) -> torch.Tensor:
    return fed.clients[client].x * encoding.scale.float() + encoding.mean.float()


def test_an_empty_cell_takes_the_mean_of_similar_rows():
    fed = federation([*GROUPS, [0.6, NAN], [NAN, 40.6]])
    encoding = prepare(fed, PreparingOptions(scaling="standard")).encoding
    rows = in_units(fed, 0, encoding)
    assert 10 <= float(rows[-2, 1]) <= 11
    assert 90 <= float(rows[-1, 0]) <= 91
    np.testing.assert_allclose(rows[:-2], GROUPS, atol=1e-4)


def test_rows_of_other_clients_are_not_asked():
    fed = federation([*GROUPS[:12], [90.6, NAN]], GROUPS[12:])
    encoding = prepare(fed, PreparingOptions(scaling="standard")).encoding
    assert 10 <= float(in_units(fed, 0, encoding)[-1, 1]) <= 11


def test_the_median_is_there_by_name():
    fed = federation([*GROUPS, [0.6, NAN]])
    encoding = prepare(fed, PreparingOptions(scaling="standard", imputation="median")).encoding
    assert float(in_units(fed, 0, encoding)[-1, 1]) == pytest.approx(float(encoding.fill[1]), abs=1e-4)


def test_a_row_without_any_cell_takes_medians():
    fed = federation([*GROUPS, [NAN, NAN]])
    encoding = prepare(fed, PreparingOptions(scaling="standard")).encoding
    np.testing.assert_allclose(in_units(fed, 0, encoding)[-1], encoding.fill, atol=1e-4)


def test_a_column_that_a_client_lacks_takes_medians():
    whole = Table((Column("a"), Column("b")), torch.tensor(GROUPS, dtype=torch.float64))
    less = Table((Column("a"),), torch.tensor([[0.0], [1.0], [NAN]], dtype=torch.float64))
    fed = LocalFederation([Client(i, own.values, table=own) for i, own in enumerate([whole, less])], seed=0)
    encoding = prepare(fed, PreparingOptions(scaling="standard", lacking="impute")).encoding
    rows = in_units(fed, 1, encoding)
    np.testing.assert_allclose(rows[:, 1], encoding.fill[1].expand(3), atol=1e-4)
    np.testing.assert_allclose(rows[:, 0], [0.0, 1.0, float(encoding.fill[0])], atol=1e-4)


def test_a_category_takes_the_shares_of_similar_rows():
    kinds = Column("kind", "category", ("x", "y"))
    values = torch.tensor([[0.0, 0.0]] * 12 + [[9.0, 1.0]] * 12 + [[9.0, NAN]], dtype=torch.float64)
    own = Table((Column("a"), kinds), values)
    fed = LocalFederation([Client(0, own.values, table=own)], seed=0)
    prepare(fed)
    x = fed.clients[0].x
    torch.testing.assert_close(x[-1], x[-2])


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


def test_new_rows_take_medians_one_by_one():
    fed = federation([*GROUPS, [0.6, NAN]])
    preparation = prepare(fed)
    new = torch.tensor([[0.6, NAN], [90.0, 40.0]], dtype=torch.float64)
    columns = fed.clients[0].table.columns
    both = preparation.prepared(new, columns)
    assert torch.equal(both[:1], preparation.prepared(new[:1], columns))
    assert float(both[0, 1]) == pytest.approx(
        float((preparation.encoding.fill[1] - preparation.encoding.mean[1]) / preparation.encoding.scale[1]), abs=1e-4
    )


def test_an_encoding_of_before_takes_medians_and_has_no_limits():
    encoding = prepare(federation([*GROUPS, [0.6, NAN]])).encoding
    tree = {name: value for name, value in encoding.tree().items() if name not in ("imputation", "low", "high")}
    again = TableEncoding.from_tree(tree)
    assert again.imputation == "median"
    assert again.apply(Table((Column("a"), Column("b")), torch.tensor([[1e9, 1.0]]).double()))[0, 0] > 1e6


def test_under_a_privacy_budget_no_row_changes_another():
    fed = federation([*GROUPS, [0.6, NAN]])
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


@pytest.mark.parametrize(
    "model", [fedkin.KinGraph(), fedkin.KFed(n_clusters=2)], ids=lambda model: type(model).__name__
)
def test_other_methods_take_similar_rows(model):
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 2, 400)
    x = rng.normal(size=(400, 3)) + 6 * truth[:, None]
    x[rng.random(x.shape) < 0.1] = NAN
    model.set_params(random_state=0).fit([pd.DataFrame(part) for part in np.array_split(x, 2)])
    assert model.preparation_.encoding.imputation == "neighbours"
    assert adjusted_rand(truth, np.concatenate(model.labels_)) > 0.95
