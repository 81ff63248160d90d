import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import datasets

from fedkin.core import Client, FedkinError
from fedkin.core.payload import pack, unpack
from fedkin.data.encoding import PreparingOptions
from fedkin.data.prepare import prepare
from fedkin.data.scaling import Scaling, rescale, restore_scaling, share_unit
from fedkin.data.scenarios.already_split import ClientFiles
from fedkin.data.statistics import moments, squares
from fedkin.engines.local import LocalFederation


def federation(sites, **options):
    return LocalFederation([Client(i, torch.as_tensor(x, dtype=torch.float32)) for i, x in enumerate(sites)], **options)


def scale(fed, mode="auto"):
    found = prepare(fed, PreparingOptions(scaling=mode)).scaling
    assert found is not None
    return found


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
    assert torch.equal(scaling.apply(torch.cat(sites)), pooled(fed))


def test_the_order_of_clients_does_not_matter():
    sites = draw(0, [3, 1, 5], 3, centre=1e5)
    one, other = scale(federation(sites)), scale(federation(sites[::-1]))
    assert torch.allclose(one.mean, other.mean, rtol=1e-12)
    assert torch.allclose(one.scale, other.scale, rtol=1e-12)


def test_constant_columns_become_zero():
    fed = federation([[[0.1, 1.0]], [[0.1, 2.0], [0.1, 6.0]]])
    scaling = scale(fed, "standard")
    assert (pooled(fed)[:, 0] == 0).all()
    assert scaling.scale[0] == 1


@pytest.mark.parametrize("value", [0.0, 7.0])
def test_a_single_sample_in_all_becomes_zero(value):
    fed = federation([[[value, value]]])
    scale(fed, "standard")
    assert (pooled(fed) == 0).all()


def test_auto_leaves_the_unit_interval_alone():
    fed = federation([[[0.0, 0.5]], [[1.0, 0.1]]])
    before = pooled(fed)
    scaling = scale(fed)
    assert scaling.mode == "unit"
    assert torch.equal(pooled(fed), before)
    assert torch.equal(scaling.apply(before), before)
    assert fed.exchange == 1
    assert scale(federation([[[0.0]], [[1.01]]])).mode == "standard"
    assert scale(federation([[[0.0]], [[-0.01]]])).mode == "standard"


def test_if_nothing_is_to_be_scaled_shapes_alone_are_asked_for(monkeypatch):
    asked = []
    deliver = LocalFederation.deliver

    def listen(fed, task, payloads):
        asked.append(task.name)
        return deliver(fed, task, payloads)

    monkeypatch.setattr(LocalFederation, "deliver", listen)
    found = scale(federation([torch.rand(4, 3, 5, 5), torch.rand(2, 3, 5, 5)]), "none")
    assert asked == ["fedkin.data.statistics.shapes"]
    assert (found.shape, found.mean.tolist(), found.scale.tolist()) == ((3, 5, 5), [0.0] * 3, [1.0] * 3)


def test_none_leaves_everything_alone():
    fed = federation([[[5.0]], [[-7.0]]])
    assert scale(fed, "none").mode == "none"
    assert pooled(fed).flatten().tolist() == [5, -7]


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


def test_only_sums_leave_a_client():
    [reply] = moments.run([Client(0, torch.ones(50, 3))], [{}])
    assert {name: value.shape for name, value in reply.items() if isinstance(value, torch.Tensor)} == {
        "sum": (3,),
        "min": (3,),
        "max": (3,),
    }
    [reply] = squares.run(
        [Client(0, torch.ones(50, 3))], [{"mean": torch.zeros(3).double(), "unit": torch.ones(3).double()}]
    )
    assert {name: value.shape for name, value in reply.items()} == {"squares": (3,)}


@pytest.mark.parametrize("what", [moments, squares, rescale])
def test_tasks_do_one_client_at_a_time_as_they_do_all(what):
    payload = {name: torch.full((3,), value).double() for name, value in (("mean", 0.3), ("scale", 0.7), ("unit", 2))}
    together = [Client(i, x) for i, x in enumerate(draw(1, [4, 1, 7], 3))]
    alone = [Client(client.id, client.x) for client in together]
    replies = what.run(together, [payload] * 3)
    singles = [what.run([client], [payload])[0] for client in alone]
    assert [pack(reply)[1] for reply in replies] == [pack(reply)[1] for reply in singles]
    for reply, single in zip(replies, singles, strict=True):
        assert all(torch.equal(tensor, pack(single)[0][path]) for path, tensor in pack(reply)[0].items())
    assert all(torch.equal(one.x, other.x) for one, other in zip(together, alone, strict=True))


def test_rescaling_twice_is_rescaling_once_and_can_be_restored():
    original = draw(2, [5], 2)[0]
    client = Client(0, original)
    payload = {"mean": torch.tensor([1.0, 2.0]).double(), "scale": torch.tensor([3.0, 4.0]).double()}
    rescale.run([client], [payload])
    rescale.run([client], [payload])
    torch.testing.assert_close(client.x, (original - torch.tensor([1.0, 2.0])) / torch.tensor([3.0, 4.0]))
    resumed = Client(0, original, state=dict(client.state))
    restore_scaling(resumed)
    assert torch.equal(resumed.x, client.x)
    untouched = Client(0, original)
    restore_scaling(untouched)
    assert untouched.x is original


def test_a_scaling_survives_packing():
    scaling = scale(federation(draw(3, [4, 4], 2)))
    restored = Scaling.from_tree(unpack(*pack(scaling.tree())))
    assert (restored.mode, restored.shape) == (scaling.mode, scaling.shape)
    x = draw(4, [3], 2)[0]
    assert torch.equal(restored.apply(x), scaling.apply(x))


def test_lost_replies_are_asked_for_again():
    sites = draw(5, [3, 3, 3], 2)
    steady, shaky = federation(sites), federation(sites, drop_rate=0.5)
    scale(steady)
    scale(shaky)
    assert torch.equal(pooled(steady), pooled(shaky))
    assert shaky.exchange > 3


def test_a_client_that_never_answers_is_named():
    fed = federation(draw(6, [2, 2], 2), failures=[(exchange, 1) for exchange in range(1, 100)])
    with pytest.raises(FedkinError) as error:
        scale(fed)
    assert str(error.value) == "Client 1 gave no usable reply in 20 attempts (lost on purpose); too few clients remain."


def test_what_cannot_be_scaled_is_refused():
    with pytest.raises(
        FedkinError, match=r"^Client 1 has 3 features where others have 2 features; all clients need the same"
    ):
        scale(federation([torch.ones(1, 2), torch.ones(1, 3), torch.ones(1, 2)]))
    with pytest.raises(FedkinError, match=r"^Unknown scaling 'standart'; did you mean 'standard'\?$"):
        scale(federation([torch.ones(1, 2)]), "standart")
    fed = federation([[[1.0], [3.0]]])
    scaling = scale(fed)
    with pytest.raises(FedkinError, match=r"^The clients' data are scaled already; make a new federation"):
        scale(fed)
    with pytest.raises(FedkinError, match=r"^The samples have shape \(2,\), but the model was made for \(1,\)\.$"):
        scaling.apply(torch.ones(3, 2))


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


@pytest.mark.parametrize("value", [0.0, 0.1, -7.3, 1e9])
def test_from_sums_alone_constant_columns_become_zero(value):
    fed = federation([[[value, 1.0]], [[value, 2.0], [value, 6.0]], [[value, 5.0]] * 5])
    fed.secure_sums = True
    scaling = scale(fed, "standard")
    assert scaling.scale[0] == 1
    assert pooled(fed)[:, 0].abs().max() < 1e-6


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
    assert reported == [shapes] * 6 + [keys] * 3 + one_sum * 2 + [("rescale", set())] * 3


def test_with_secure_sums_nobody_asks_for_extremes_or_two_clients():
    fed = federation(draw(0, [3, 4], 2))
    fed.secure_sums = True
    with pytest.raises(FedkinError, match="minima and maxima; with secure sums it must be 'standard' or"):
        scale(fed)
    with pytest.raises(FedkinError, match="needs at least 3 clients, but only 2"):
        scale(fed, "standard")


def stats(x):
    x = torch.as_tensor(np.asarray(x), dtype=torch.float64)
    return x.amin(0), x.amax(0), x.std(0, correction=0)


def spectra(rng):
    at = np.linspace(0, 1, 100)
    peaks = rng.uniform(0, 1, (80, 3))
    return sum(1_000 * np.exp(-(((at - peaks[:, k : k + 1]) / 0.2) ** 2)) for k in range(3)) + rng.normal(
        300, 20, (80, 100)
    )


def test_columns_in_one_unit_are_told_from_others():
    rng = np.random.default_rng(0)
    digits = datasets.load_digits().data
    shared = {
        "pixels": digits,
        "embedding": rng.normal(0, 1, (90, 32)) * rng.uniform(0.5, 2, 32),
        "spectra": spectra(rng),
        "answers": np.clip(rng.normal(3, 1.5, (200, 20)).round(), 1, 5),
    }
    mixed = {
        "wine": datasets.load_wine().data,
        "cells": datasets.load_breast_cancer().data,
        "flowers": datasets.load_iris().data,
        "people": np.column_stack(
            [rng.lognormal(10, 1, (90, 4)), rng.normal(120, 15, (90, 8)), rng.normal(1, 0.1, (90, 8))]
        ),
        "few pixels": digits[:, 24:32],
    }
    for name, x in shared.items():
        lowest, highest, _ = stats(x)
        assert torch.equal(share_unit(*stats(x)), lowest < highest), name
    assert not {name for name, x in mixed.items() if share_unit(*stats(x)).any()}


def grades_and_more(rng, *more):
    """Twenty grades from 0 to 3, and other columns."""
    return np.column_stack([rng.integers(0, 4, (90, 20)), *more]).astype(np.float64)


def test_columns_beside_those_in_one_unit_have_their_own_scale():
    rng = np.random.default_rng(0)
    age, income = rng.uniform(0, 75, 90), rng.normal(30_000, 9_000, 90)
    grades = grades_and_more(rng, age, income)
    embedding = np.column_stack([rng.normal(0, 1, (90, 40)), income])
    assert share_unit(*stats(grades)).tolist() == [True] * 20 + [False] * 2
    assert share_unit(*stats(embedding)).tolist() == [True] * 40 + [False]


@pytest.mark.parametrize("as_table", [False, True])
def test_an_age_beside_grades_weighs_as_much_as_one_of_them(as_table):
    rng = np.random.default_rng(0)
    age = rng.uniform(0, 75, 90)
    age[5] = 35_000  # mistyped
    x = grades_and_more(rng, age)
    parts = [pd.DataFrame(part).add_prefix("c") if as_table else part for part in (x[:45], x[45:])]
    fed = LocalFederation(ClientFiles(parts).build().clients)
    preparation = prepare(fed)
    assert preparation.mode == "common"
    said = "\n".join(preparation.notes)
    other = "'c20'" if as_table else "column 21"
    assert "20 of 21 columns look like measures in one unit, so they are divided by one common scale, and " in said
    assert f" common scale, and {other} by its own; scaling = 'standard'" in said
    assert "count as a limit" in said
    spread = pooled(fed).std(0)
    assert spread.min() > 0.8
    assert spread.max() < 1.2


def test_columns_in_one_unit_keep_their_proportions():
    digits = torch.tensor(datasets.load_digits().data, dtype=torch.float32)
    fed = federation([digits[:900], digits[900:]])
    scaling = scale(fed)
    assert scaling.mode == "common"
    assert len(scaling.scale.unique()) == 2  # constant columns have 1
    varies = digits.std(0) > 0
    torch.testing.assert_close(pooled(fed).std(0)[varies] * scaling.scale[varies].float(), digits.std(0)[varies])
    assert scale(federation([digits[:900], digits[900:]]), "standard").mode == "standard"
