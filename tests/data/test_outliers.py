"""A few values far from all others do not set a column's scale."""

import re
from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import fedkin
from fedkin.clustering.metrics import adjusted_rand
from fedkin.core import Client
from fedkin.core.table import Column, Table
from fedkin.data.encoding import PreparingOptions
from fedkin.data.preparation import Preparation, restore_preparation
from fedkin.data.prepare import prepare
from fedkin.data.scaling import NO_LIMITS, find_limits
from fedkin.data.statistics import column_histograms, histograms, quantile
from fedkin.engines.local import LocalFederation


def limits_of(x):
    """Limits of one column, without a federation; and how often histograms are asked for."""
    values, asked = torch.as_tensor(x, dtype=torch.float64)[:, None], []

    def ask(at, low, high):
        asked.append(len(at))
        return histograms(values[:, at], low, high)

    among = torch.ones(1, dtype=torch.bool)
    found = find_limits(ask, values.mean(0), values.std(0, correction=0), values.amin(0), values.amax(0), among)
    return found, len(asked)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1), rows=st.integers(1, 300), fraction=st.sampled_from([0.05, 0.5, 0.95]),
)  # fmt: skip
def test_quantiles_are_right_to_a_bin(seed, rows, fraction):
    x = np.random.default_rng(seed).normal(size=rows)
    low, high = torch.tensor([x.min()]), torch.tensor([x.max() + 1e-9])
    found = float(quantile(histograms(torch.from_numpy(x)[:, None], low, high), fraction, low, high))
    width = float(high - low) / 256
    below, above = np.quantile(x, fraction, method="inverted_cdf"), np.quantile(x, fraction, method="higher")
    assert below - width - 1e-9 <= found <= above + width + 1e-9


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1), rows=st.integers(40, 400), far=st.sampled_from([1e2, 1e4, 1e9]),
    sign=st.sampled_from([-1, 1]),
)  # fmt: skip
def test_one_far_value_counts_as_a_limit_near_the_others(seed, rows, far, sign):
    x = np.random.default_rng(seed).normal(50, 2, rows)
    x[0] = sign * far * 50
    found, _ = limits_of(x)
    others = x[1:]
    assume(np.abs(others - 50).max() < 10)  # one five deviations off may be beyond the limit, too
    assert found.at.tolist() == [0]
    low, high = float(found.low), float(found.high)
    assert others.mean() - 40 < low <= others.min() + 1e-6
    assert others.max() - 1e-6 <= high < others.mean() + 40
    assert float(found.spread) == pytest.approx(x.clip(low, high).std(), rel=0.1)
    assert float(found.mean) == pytest.approx(x.clip(low, high).mean(), abs=0.5)


@pytest.mark.parametrize("kind", ["normal", "uniform", "exponential"])
def test_ordinary_columns_have_no_limits(kind):
    rng = np.random.default_rng(0)
    for _ in range(20):
        x = getattr(rng, kind)(size=500)
        assert len(limits_of(x)[0].at) == 0


def test_values_that_are_nearly_all_the_same_have_no_limits():
    x = np.zeros(1_000)
    x[:20] = 1.0
    found, asked = limits_of(x)
    assert len(found.at) == 0
    assert asked <= 8


def test_nothing_is_asked_where_no_value_is_far():
    assert limits_of(np.random.default_rng(0).uniform(size=400)) == (NO_LIMITS, 0)


def clusters(rows=300, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, rows)
    x = np.array([[0, 0, 0, 5], [5, 0, 5, 0], [0, 5, 5, 5]])[truth] + rng.normal(size=(rows, 4))
    for column in range(4):
        x[rng.integers(rows), column] = 1e5
    return x, truth


@pytest.mark.parametrize("frames", [False, True], ids=["arrays", "tables"])
@pytest.mark.parametrize(
    "model", [fedkin.KinGraph(), fedkin.KFed(n_clusters=3)], ids=lambda model: type(model).__name__
)
def test_clusters_are_found_beside_outliers(model, frames):
    x, truth = clusters()
    parts = [pd.DataFrame(part, columns=list("abcd")) if frames else part for part in np.array_split(x, 3)]
    model = model.__class__(**model.get_params()).set_params(random_state=0)
    with nullcontext() if frames else pytest.warns(UserWarning, match="at client 1 are about 1e\\+05, "):
        model.fit(parts)
    assert adjusted_rand(truth, np.concatenate(model.labels_)) > 0.95


def test_scaled_by_standard_deviations_alone_outliers_are_the_clusters():
    x, truth = clusters()
    with pytest.warns(UserWarning, match="at client 1 are about 1e"):
        model = fedkin.KFed(n_clusters=3, scaling="standard", random_state=0).fit(np.array_split(x, 3))
    assert adjusted_rand(truth, np.concatenate(model.labels_)) < 0.1


def test_a_note_names_column_and_limit():
    x, _ = clusters()
    model = fedkin.KFed(n_clusters=3, random_state=0).fit([pd.DataFrame(x, columns=["age", "b", "c", "d"])])
    [note] = [note for note in model.preparation_.notes if "far from all others" in note]
    assert "'age' above" in note
    assert "100,000" not in note, "a single row's value"
    assert "scaling = 'standard'" in note


def test_of_arrays_a_note_counts_columns():
    x, _ = clusters()
    x[:, 1:] = x[:, 1:].clip(-20, 20)
    x[0, 2] = -1e5
    model = fedkin.KFed(n_clusters=3, random_state=0).fit(list(np.array_split(x, 3)))
    [note] = [note for note in model.preparation_.notes if "far from all others" in note]
    assert "column 1 above" in note
    assert "column 3 below" in note
    assert "column 2" not in note


def test_columns_without_values_have_no_histogram():
    assert histograms(torch.zeros(5, 0), torch.zeros(0), torch.zeros(0)).shape == (0, 256)
    client = Client(0, torch.zeros(5, 2))
    ends = torch.zeros(0, dtype=torch.float64)
    reply = column_histograms.run([client], [{"at": torch.zeros(0, dtype=torch.int64), "low": ends, "high": ends}])[0]
    assert reply["histograms"].shape == (0, 256)


@pytest.mark.parametrize("frames", [False, True], ids=["arrays", "tables"])
def test_new_rows_and_resumed_clients_have_the_same_limits(frames):
    x, _ = clusters()
    given = pd.DataFrame(x, columns=list("abcd")) if frames else x
    model = fedkin.KFed(n_clusters=3, random_state=0).fit([given])
    again = Preparation.from_tree(model.preparation_.tree())
    assert again.tree().keys() == model.preparation_.tree().keys()
    np.testing.assert_array_equal(model.predict(given), model.labels_[0])


def test_a_resumed_client_is_scaled_alike():
    x = torch.from_numpy(clusters()[0]).float()
    client = Client(0, x.clone())
    prepare(LocalFederation([client], seed=0))
    assert "scaling_low" in client.state
    again = Client(0, x.clone(), state=client.state)
    restore_preparation(again)
    assert torch.equal(again.x, client.x)


def test_who_holds_which_row_does_not_matter():
    x = torch.from_numpy(clusters()[0]).float()
    one, many = [Client(0, x.clone())], [Client(i, part.clone()) for i, part in enumerate(x.split(70))]
    for clients in (one, many):
        prepare(LocalFederation(clients, seed=0))
    torch.testing.assert_close(torch.cat([client.x for client in many]), one[0].x, atol=1e-4, rtol=1e-4)


def test_scaling_by_name_takes_values_as_they_are():
    x = torch.from_numpy(clusters()[0]).float()
    client = Client(0, x.clone())
    found = prepare(LocalFederation([client], seed=0), PreparingOptions(scaling="standard"))
    assert found.scaling.limits == {}
    torch.testing.assert_close(client.x, ((x - x.mean(0)) / x.std(0, correction=0)), atol=1e-3, rtol=1e-3)


def test_the_note_names_five_columns_most_affected_first():
    x = np.random.default_rng(0).normal(50, 5, (300, 8))
    x[0] = 100 * np.array([30, 80, 10, 20, 70, 40, 60, 50])
    frame = pd.DataFrame(x, columns=[f"c{one}" for one in range(8)])
    fed = LocalFederation([Client(0, torch.tensor(x), table=Table([Column(name) for name in frame], torch.tensor(x)))])
    [note] = [note for note in prepare(fed).notes if "far from all others" in note]
    named = re.findall(r"'(c\d)' above", note)
    assert named == ["c1", "c4", "c6", "c7", "c5"]
    assert "and 3 more; scaling" in note
