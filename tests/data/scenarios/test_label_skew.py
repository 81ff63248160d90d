import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkin.core import FedkinError
from fedkin.data.scenarios.mixtures import (
    Iid,
    LabelSkew,
    OwnClass,
    label_skew,
)


def test_the_default_is_digits_at_ten_clients_with_fifty_per_class():
    population = LabelSkew().build(seed=0)
    assert [client.id for client in population.clients] == list(range(10))
    assert population.clients[0].x.shape[1:] == (1, 8, 8)
    assert population.classes == list("0123456789")
    for client, truth in zip(population.clients, population.truth, strict=True):
        assert client.y is None
        assert client.x.shape == (len(truth), 1, 8, 8)
        assert set(torch.bincount(truth).tolist()) <= {0, 50}
        assert list(client.state) == ["n_clusters"]
        assert int(client.state["n_clusters"]) == len(truth.unique())
        assert 2 <= int(client.state["n_clusters"]) <= 5


def test_true_starting_labels_are_the_truth_renumbered():
    population = LabelSkew(initial="true").build(0)
    for client, truth in zip(population.clients, population.truth, strict=True):
        given = client.state["given"]
        assert given.dtype == torch.int64
        assert torch.equal(truth.unique()[given], truth)


def test_the_same_seed_gives_the_same_population():
    one, same, other = (LabelSkew(initial="dirty").build(seed) for seed in (3, 3, 4))
    for a, b in zip(one.clients, same.clients, strict=True):
        assert torch.equal(a.x, b.x)
        assert torch.equal(a.state["given"], b.state["given"])
    assert any(a.tolist() != b.tolist() for a, b in zip(one.truth, other.truth, strict=True))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"initial": "dirt"}, "Unknown value for initial 'dirt'; did you mean 'dirty'?"),
        ({"n_classes": 0}, "n_classes is 0; allowed: 1 to 10, the number of classes in 'digits'."),
        ({"n_classes": 3, "max_classes": 4}, "A client would have up to 4 classes, but the data have only 3."),
        ({"clients": -1, "samples_per_class": 5}, "clients is -1; allowed: 1 or more."),
        ({"samples_per_class": 500}, "samples_per_class is 500, but the smallest class has only 174 samples."),
        ({"overlap": -1}, "overlap is -1; allowed: 0 to 1."),
    ],
)
def test_options_out_of_range_are_refused(options, sentence):
    with pytest.raises(FedkinError) as error:
        LabelSkew(**options).build(0)
    assert str(error.value).startswith(sentence)


def test_a_partitioned_table_is_sliced_with_its_columns(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,kind,label\n" + "".join(f"{i},{'uv'[i % 2]},{i % 3}\n" for i in range(30)))
    for scenario in (LabelSkew(str(path), clients=3), OwnClass(str(path)), Iid(str(path), clients=3)):
        population = scenario.build(0)
        for at, (client, truth) in enumerate(zip(population.clients, population.truth, strict=True)):
            assert client.x is client.table.values
            assert [one.kind for one in client.table.columns] == ["number", "category"]
            assert torch.equal(client.table.of("a") % 3, truth.double())
            assert torch.equal(client.table.of("a") % 2, client.table.of("kind"))
            if population.tests:
                x, y = population.tests[at]
                assert torch.equal(x[:, 0] % 3, y.double())
    kept = LabelSkew(str(path), clients=2, n_classes=2, min_classes=2).build(0)
    assert all(torch.equal(one.table.of("a") % 3, y.double()) for one, y in zip(kept.clients, kept.truth, strict=True))


TEN = torch.arange(10).repeat(100)


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def allocate(y=TEN, clients=5, low=2, high=5, samples=10, seed=0, overlap=0.0):
    options = {"classes_per_client": (low, high), "samples_per_class": samples}
    return label_skew(y, clients, **options, overlap=overlap, rng=rng(seed))


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 1000),
    clients=st.integers(1, 12),
    low=st.integers(1, 5),
    more=st.integers(0, 5),
    samples=st.integers(1, 100),
)
def test_every_client_has_a_few_classes_with_equally_many_distinct_samples(seed, clients, low, more, samples):
    parts = allocate(clients=clients, low=low, high=low + more, samples=samples, seed=seed)
    assert len(parts) == clients
    for part in parts:
        counts = torch.bincount(TEN[part], minlength=10)
        assert set(counts.tolist()) <= {0, samples}
        assert low <= int((counts > 0).sum()) <= low + more
        assert len(part.unique()) == len(part)


def test_only_a_class_that_ran_out_is_allocated_anew_and_its_last_samples_first():
    y = torch.tensor([0] * 10 + [1] * 100)
    parts = allocate(y, clients=3, low=2, high=2, samples=6)
    scarce = [set(part[y[part] == 0].tolist()) for part in parts]
    assert len(scarce[0] | scarce[1]) == 10
    assert all(len(held) == 6 for held in scarce)
    plenty = torch.cat([part[y[part] == 1] for part in parts])
    assert len(plenty.unique()) == 18
