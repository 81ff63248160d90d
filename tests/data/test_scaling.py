"""Scales of columns, and limits of those with outliers."""

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import fedkin
from fedkin.core import Client, FedkinError
from fedkin.data.columns import ColumnSums, column_histograms, moments
from fedkin.data.encoding import Encoding, fit_encoding
from fedkin.data.inputs import ClientFiles
from fedkin.data.options import TableOptions
from fedkin.data.preparation import Preparation, encode, prepare, restore_preparation
from fedkin.engines.local import LocalFederation


def scales_of(x):
    """Scale and limits of one column."""
    values = torch.as_tensor(x, dtype=torch.float64)[:, None]
    filled, mean = torch.tensor([float(len(values))]), values.mean(0)
    squares = (values - mean).square().sum(0)
    sums = ColumnSums(len(values), filled, values.sum(0), squares, [], values.amin(0), values.amax(0))
    return fit_encoding(LocalFederation([Client(0, values)]), sums, TableOptions(), shape=(1,))[0]


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1), rows=st.integers(40, 400), far=st.sampled_from([1e2, 1e4, 1e9]),
    sign=st.sampled_from([-1, 1]),
)  # fmt: skip
def test_one_far_value_counts_as_a_limit_near_the_others(seed, rows, far, sign):
    x = np.random.default_rng(seed).normal(50, 2, rows)
    x[0] = sign * far * 50
    found = scales_of(x)
    others = x[1:]
    assume(np.abs(others - 50).max() < 10)  # one five deviations off may be beyond the limit, too
    low, high = found.limits[:2, 0].tolist()
    assert others.mean() - 40 < low <= others.min() + 1e-6
    assert others.max() - 1e-6 <= high < others.mean() + 40
    values = found.compressed(torch.from_numpy(x)[:, None])[:, 0]
    assert float(found.scale) == pytest.approx(float(values.std(correction=0)), rel=0.1)
    assert float(found.mean) == pytest.approx(float(values.mean()), abs=0.5)
    assert torch.equal(values.argsort(stable=True), torch.from_numpy(x.clip(low, high)).argsort(stable=True))


def test_a_cloud_of_skewed_columns_is_one_cluster():
    x = np.exp(np.random.default_rng(0).normal(size=(1500, 20)))
    assert fedkin.KinGraph(random_state=0).fit(np.array_split(x, 3)).n_clusters_ == 1


def clusters(rows=300, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, rows)
    x = np.array([[0, 0, 0, 5], [5, 0, 5, 0], [0, 5, 5, 5]])[truth] + rng.normal(size=(rows, 4))
    for column in range(4):
        x[rng.integers(rows), column] = 1e5
    return x, truth


@pytest.mark.parametrize("frames", [False, True], ids=["arrays", "tables"])
def test_new_rows_and_resumed_clients_have_the_same_limits(frames):
    x, _ = clusters()
    given = pd.DataFrame(x, columns=list("abcd")) if frames else x
    model = fedkin.KFed(n_clusters=3, random_state=0).fit([given])
    again = Preparation.from_tree(model.preparation_.tree())
    assert again.tree().keys() == model.preparation_.tree().keys()
    np.testing.assert_array_equal(model.predict(given), model.labels_[0])


def federation(sites, **options):
    return LocalFederation([Client(i, torch.as_tensor(x, dtype=torch.float32)) for i, x in enumerate(sites)], **options)


def scale(fed, mode="auto"):
    return prepare(fed, TableOptions(scaling=mode)).encoding


def pooled(fed):
    return torch.cat([fed.clients[i].x for i in fed.ids])


def draw(seed, sizes, width, centre=0.0, spread=1.0):
    rng = np.random.default_rng(seed)
    return [torch.tensor(rng.normal(centre, spread, (n, width)), dtype=torch.float32) for n in sizes]


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=4).filter(lambda sizes: sum(sizes) > 1),
    width=st.integers(1, 4),
    centre=st.sampled_from([0.0, -3.0, 1e6]),
    spread=st.sampled_from([1e-3, 1.0, 1e4]),
)
def test_it_equals_standardising_the_pooled_data(seed, sizes, width, centre, spread):
    sites = draw(seed, sizes, width, centre, spread)
    fed = federation(sites)
    scaling = scale(fed, "standard")
    rows = torch.cat(sites).double().numpy()
    deviation = rows.std(0)
    expected = (rows - rows.mean(0)) / np.where(np.ptp(rows, axis=0) == 0, 1, deviation)
    np.testing.assert_allclose(pooled(fed).numpy(), expected, atol=1e-5)
    assert torch.equal(scaling.scaled(torch.cat(sites)), pooled(fed))


def test_images_are_standardised_per_channel():
    images = 50 + 30 * torch.randn(6, 2, 3, 4, generator=torch.Generator().manual_seed(0))
    images[:, 1] *= 7
    fed = federation([images[:2], images[2:]])
    scaling = scale(fed)
    assert scaling.mode == "standard"
    assert scaling.shape == (2, 3, 4)
    scaled = pooled(fed)
    assert torch.allclose(scaled.mean((0, 2, 3)), torch.zeros(2), atol=1e-6)
    assert torch.allclose(scaled.std((0, 2, 3), correction=0), torch.ones(2))
    assert scale(federation([images.sigmoid()])).mode == "unit"


def test_rescaling_twice_is_rescaling_once_and_can_be_restored():
    original = draw(2, [5], 2)[0]
    client = Client(0, original)
    mean, scale = torch.tensor([1.0, 2.0]).double(), torch.tensor([3.0, 4.0]).double()
    payload = {"encoding": Encoding("standard", mean, scale, shape=(2,)).tree()}
    for _ in range(2):
        encode.run([client], [payload])
    torch.testing.assert_close(client.x, (original - torch.tensor([1.0, 2.0])) / torch.tensor([3.0, 4.0]))
    resumed = Client(0, original, state=dict(client.state))
    restore_preparation(resumed)
    assert torch.equal(resumed.x, client.x)
    untouched = Client(0, original)
    restore_preparation(untouched)
    assert untouched.x is original


def test_what_cannot_be_scaled_is_refused():
    with pytest.raises(FedkinError, match=r"^Client 1 has 3 features where others have 2 features; all"):
        scale(federation([torch.ones(1, 2), torch.ones(1, 3), torch.ones(1, 2)]))
    fed = federation([[[1.0], [3.0]]])
    scaling = scale(fed)
    with pytest.raises(FedkinError, match=r"^The clients' data are scaled already; make a new federation"):
        scale(fed)
    with pytest.raises(FedkinError, match=r"^The samples have shape \(2,\), but the model was made for \(1,\)\.$"):
        scaling.scaled(torch.ones(3, 2))


@settings(max_examples=25)
@given(
    seed=st.integers(0, 2**32 - 1),
    sizes=st.lists(st.integers(1, 6), min_size=3, max_size=5),
    centre=st.sampled_from([0.0, -3.0, 1e6]),
    spread=st.sampled_from([1e-6, 1.0, 1e8]),
)
def test_from_sums_alone_it_is_the_same(seed, sizes, centre, spread):
    open_, secret = (federation(draw(seed, sizes, 3, centre, spread)) for _ in range(2))
    secret.secure_sums = True
    expected, scaling = scale(open_, "standard"), scale(secret, "standard")
    assert torch.allclose(scaling.mean, expected.mean, rtol=1e-12, atol=1e-13)
    assert torch.allclose(scaling.scale, expected.scale, rtol=1e-6)
    torch.testing.assert_close(pooled(secret), pooled(open_), rtol=1e-5, atol=1e-5)


def test_with_secure_sums_no_client_tells_its_numbers():
    class Watched(LocalFederation):
        def deliver(self, task, payloads):
            for client, reply in super().deliver(task, payloads):
                reported.append((task.name.rpartition(".")[2], set(reply)))
                yield client, reply

    reported: list[tuple[str, set[str]]] = []
    sites = draw(0, [3, 1, 5], 4)
    for mode in ("none", "standard"):
        fed = Watched([Client(i, x) for i, x in enumerate(sites)], workers=1)
        fed.secure_sums = True
        assert scale(fed, mode).mode == mode
    shapes, keys = ("shapes", {"shape", "scaled"}), ("send_key", {"key"})
    one_sum = [("send_shares", {"publics", "shares"})] * 3 + [("masked", {"masked"})] * 3
    one_sum += [("reveal_shares", {"own", "pairs"})] * 3
    assert reported == [shapes] * 6 + [keys] * 3 + one_sum * 2 + [("encode", set())] * 3


def test_with_secure_sums_nobody_asks_for_extremes_or_two_clients():
    fed = federation(draw(0, [3, 4], 2))
    fed.secure_sums = True
    with pytest.raises(FedkinError, match="minima and maxima; with secure sums it must be 'standard' or"):
        scale(fed)
    with pytest.raises(FedkinError, match="needs at least 3 clients, but only 2"):
        scale(fed, "standard")


def in_bins(client, low, high):
    ends = {"low": torch.tensor([low]).double(), "high": torch.tensor([high]).double()}
    return column_histograms.run([client], [ends])[0]["histograms"][0]


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), rows=st.integers(1, 60), limits=st.tuples(*[st.floats(-4, 4)] * 2))
def test_a_site_without_extremes_tells_none_of_the_four_values_at_either_end(seed, rows, limits):
    x = draw(seed, [rows], 1)[0]
    client, ordered = Client(0, x, extremes=False), x[:, 0].double().sort().values
    [reply] = moments.run([client], [{}])
    secret = {*ordered[:4].tolist(), *ordered[-4:].tolist()}
    assert rows == 1 or not secret & {float(reply["min"]), float(reply["max"])}
    counts = in_bins(client, min(limits), max(limits) + 1e-3)
    below = counts.cumsum(0)
    assert all(count == 0 or 5 <= count <= rows - 5 or count == rows for count in below.tolist())


def test_without_extremes_columns_are_scaled_and_limited_by_quantiles():
    x, _ = clusters()
    parts = [torch.from_numpy(part).float() for part in np.array_split(x, 3)]
    fed = LocalFederation([Client(i, part, extremes=False) for i, part in enumerate(parts)])
    found = scale(fed)
    values = found.compressed(torch.from_numpy(x)).numpy()
    assert found.limits[1].max() < 100
    np.testing.assert_allclose(found.mean, values.mean(0), atol=0.2)
    np.testing.assert_allclose(found.scale, values.std(0), rtol=0.1)


def grades_and_more(rng, *more):
    """Twenty grades from 0 to 3, and other columns."""
    return np.column_stack([rng.integers(0, 4, (90, 20)), *more]).astype(np.float64)


@pytest.mark.parametrize("as_table", [False, True])
def test_an_age_beside_grades_weighs_as_much_as_one_of_them(as_table):
    rng = np.random.default_rng(0)
    age = rng.uniform(0, 75, 90)
    age[5] = 35_000  # mistyped
    x = grades_and_more(rng, age)
    parts = [pd.DataFrame(part).add_prefix("c") if as_table else part for part in (x[:45], x[45:])]
    fed = LocalFederation(ClientFiles(parts).build().clients)
    preparation = prepare(fed)
    assert preparation.encoding.mode == "common"
    said = "\n".join(preparation.notes)
    assert "20 of 21 columns look like measures in one unit, so they are divided by one common scale; " in said
    assert "count as a limit" in said
    spread = pooled(fed).std(0)
    assert spread.min() > 0.8
    assert spread.max() < 1.2
