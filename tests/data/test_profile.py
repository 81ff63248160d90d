"""Profiles of clusters: sums by cluster and column, typical samples, and what is withheld."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkin.core import Client
from fedkin.core.client import Column, Table
from fedkin.data.preparation import prepare
from fedkin.data.profile import cluster_cells, profile_clusters, reportable, typical_cells
from fedkin.engines.local import LocalFederation

COLUMNS = (Column("length"), Column("town", "category", ("Bonn", "Ulm")), Column("smokes", "boolean", ("no", "yes")))


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    values = np.column_stack([rng.normal(1000, 3, n), rng.integers(0, 2, n), rng.random(n) < 0.4])
    values[::7, 0] = math.nan
    return torch.tensor(values.astype(float)), torch.tensor(rng.integers(0, 2, n))


def federation(parts, secure=False):
    clients = [Client(i, values, table=Table(COLUMNS, values)) for i, (values, _) in enumerate(parts)]
    fed = LocalFederation(clients)
    encoding = prepare(fed).encoding
    for client, (_, clusters) in zip(clients, parts, strict=True):
        client.state["clusters"] = clusters
    fed.secure_sums = secure
    return fed, encoding


@pytest.mark.parametrize("secure", [False, True])
def test_sums_are_those_of_all_rows_together(secure):
    parts = [rows(60, seed) for seed in range(3)]
    fed, encoding = federation(parts, secure)
    profile = profile_clusters(fed, encoding, 2)
    values, clusters = (torch.cat(each) for each in zip(*parts, strict=True))
    for cluster in range(2):
        own = values[clusters == cluster]
        lengths = own[:, 0][~own[:, 0].isnan()]
        assert int(profile.samples[cluster]) == len(own)
        assert int(profile.filled[cluster, 0]) == len(lengths)
        assert float(profile.sum[cluster, 0] / len(lengths)) == pytest.approx(float(lengths.mean()))
        variance = profile.squares[cluster, 0] / len(lengths) - (lengths.mean() - profile.around[0]).square()
        assert float(variance) == pytest.approx(float(lengths.var(correction=0)), rel=1e-6)
        assert profile.counts_of(1)[cluster].tolist() == [*own[:, 1].long().bincount(minlength=2).tolist(), 0]
        assert float(profile.sum[cluster, 2]) == float(own[:, 2].sum())
        assert 15 <= int(profile.typical_filled[cluster, 1]) == int(profile.typical_counts_of(1)[cluster].sum()) <= 60
        assert 995 < float(profile.typical_sum[cluster, 0] / profile.typical_filled[cluster, 0]) < 1005
    assert sorted(profile.members) == ([] if secure else [0, 1, 2])
    assert (profile.rows, profile.withheld) == (180, 0)


def test_centres_are_within_limits():
    fed, encoding = federation([rows(60, seed) for seed in range(3)])
    profile = profile_clusters(fed, encoding, 2)
    high = torch.full_like(encoding.fill, 1e9).index_fill(0, torch.tensor([0]), 999.0)
    limit = float((999.0 - encoding.mean[0]) / encoding.scale[0])
    assert (profile.centres(encoding)[:, 0] > limit).all()
    limited = dataclasses.replace(encoding, limits=torch.stack([-high, high, 0 * high, 0 * high]))
    assert profile.centres(limited)[:, 0].tolist() == pytest.approx([limit] * 2)


def test_a_client_changes_nothing_and_a_cell_of_few_rows_stays_there():
    values, _ = rows(40)
    clusters = torch.tensor([0] * 20 + [1] * 17 + [2] * 3)
    fed, encoding = federation([(values, clusters)])
    before = {name: value.clone() for name, value in fed.clients[0].state.items()}
    profile = profile_clusters(fed, encoding, 3)
    assert profile.samples.tolist() == [18, 17, 0]  # two of the first stay away, or the third would be what is left
    assert (profile.rows, profile.withheld) == (40, 5)
    assert not profile.sum[2].any()
    assert not profile.counts[2].any()
    assert all(torch.equal(fed.clients[0].state[name], value) for name, value in before.items())


def test_a_server_cannot_ask_for_smaller_cells():
    values, clusters = rows(4)
    fed, _ = federation([(values, clusters), rows(60)])
    payload = {
        "columns": [["length", "number", []]],
        "n_clusters": 2,
        "around": torch.zeros(1).double(),
        "unit": torch.ones(1).double(),
        "min_members": 1,
    }
    [reply] = cluster_cells.run([fed.clients[0]], [payload])
    assert not reply["members"].any()
    assert not reply["sum"].any()


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=6), st.integers(2, 9), st.integers(0, 2**32 - 1))
def test_no_cell_of_too_few_can_be_found_by_subtraction(sizes, least, seed):
    rng = np.random.default_rng(seed)
    clusters = torch.tensor(rng.permutation(np.repeat(np.arange(len(sizes)), sizes)), dtype=torch.int64)
    filled = torch.tensor(rng.random((len(clusters), 2)) < 0.8)
    found = reportable(clusters, filled, len(sizes), least)
    assert not (found & ~filled).any()
    for column in range(2):
        own = clusters[found[:, column]].bincount(minlength=len(sizes)).tolist()
        all_ = clusters[filled[:, column]].bincount(minlength=len(sizes)).tolist()
        away = sum(all_) - sum(own)
        assert all(count == 0 or count >= least for count in own)
        assert away == 0 or away >= least or not any(own)
        assert not all(count >= least for count in all_) or away == 0
        assert away <= 2 * least + sum(count for count in all_ if count < 2 * least)


@settings(deadline=None)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=4), st.integers(1, 7), st.floats(0, 1), st.integers(0, 99))
def test_no_typical_cell_of_too_few_can_be_found_by_subtraction(sizes, least, share, seed):
    rng = torch.Generator().manual_seed(seed)
    clusters = torch.cat([torch.full((size,), at) for at, size in enumerate(sizes)])
    reported = torch.rand(len(clusters), 3, generator=rng) < share
    cells = typical_cells(torch.rand(len(clusters), 2, generator=rng), clusters, reported, len(sizes), least)
    assert not (cells & ~reported).any()
    for cluster in range(len(sizes)):
        taken, whole = cells[clusters == cluster].sum(0), reported[clusters == cluster].sum(0)
        left = whole - taken
        assert ((taken == 0) | ((taken >= least) & ((left == 0) | (left >= least)))).all()
