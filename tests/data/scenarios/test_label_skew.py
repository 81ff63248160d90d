import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkin.core import FedkinError
from fedkin.core.seeds import derive_generator
from fedkin.data.reading.sources import load
from fedkin.data.scenarios.heterogeneous import Iid
from fedkin.data.scenarios.label_skew import (
    LabelSkew,
    class_range,
    dirty,
    fitting_samples_per_class,
    label_skew,
)
from fedkin.data.scenarios.own_class import OwnClass


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


def test_truth_belongs_to_the_samples():
    digits = load("digits")
    client, truth = LabelSkew(clients=1).build(1).clients[0], LabelSkew(clients=1).build(1).truth[0]
    for sample, kind in zip(client.x, truth, strict=True):
        same = (digits.x == sample).flatten(1).all(1)
        assert kind in digits.y[same]


def test_true_starting_labels_are_the_truth_renumbered():
    population = LabelSkew(initial="true").build(0)
    for client, truth in zip(population.clients, population.truth, strict=True):
        given = client.state["given"]
        assert given.dtype == torch.int64
        assert torch.equal(truth.unique()[given], truth)


def test_dirty_starting_labels_differ_by_the_dirtiness_and_per_client():
    clean = LabelSkew(initial="true").build(0).clients
    dirt = LabelSkew(initial="dirty", dirtiness=0.3).build(0).clients
    assert all(torch.equal(one.x, other.x) for one, other in zip(clean, dirt, strict=True))
    moved = [one.state["given"] != other.state["given"] for one, other in zip(clean, dirt, strict=True)]
    assert float(torch.cat(moved).float().mean()) == pytest.approx(0.3, abs=0.05)
    assert not torch.equal(moved[0][:50], moved[1][:50])


def test_the_same_seed_gives_the_same_population():
    one, same, other = (LabelSkew(initial="dirty").build(seed) for seed in (3, 3, 4))
    for a, b in zip(one.clients, same.clients, strict=True):
        assert torch.equal(a.x, b.x)
        assert torch.equal(a.state["given"], b.state["given"])
    assert any(a.tolist() != b.tolist() for a, b in zip(one.truth, other.truth, strict=True))


def test_the_most_frequent_classes_are_kept_in_their_order(tmp_path):
    labels = np.repeat([7, 3, 5, 4], [9, 4, 6, 6])
    np.savez(tmp_path / "a.npz", x=labels[:, None].repeat(2, 1), y=labels)
    population = LabelSkew(data=str(tmp_path / "a.npz"), n_classes=3, clients=2, min_classes=3).build(0)
    assert population.classes == ["4", "5", "7"]
    assert population.clients[0].x.ndim == 2
    for client, truth in zip(population.clients, population.truth, strict=True):
        assert torch.equal(torch.tensor([4.0, 5.0, 7.0])[truth], client.x[:, 0])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"initial": "dirt"}, "Unknown value for initial 'dirt'; did you mean 'dirty'?"),
        ({"n_classes": 11}, "n_classes is 11; allowed: 1 to 10, the number of classes in 'digits'."),
        ({"n_classes": 0}, "n_classes is 0; allowed: 1 to 10, the number of classes in 'digits'."),
        ({"max_classes": 11}, "A client would have up to 11 classes, but the data have only 10."),
        ({"n_classes": 3, "max_classes": 4}, "A client would have up to 4 classes, but the data have only 3."),
        ({"clients": 0}, "clients is 0; allowed: 1 or more."),
        ({"clients": -1, "samples_per_class": 5}, "clients is -1; allowed: 1 or more."),
        ({"samples_per_class": -5}, "samples_per_class is -5; allowed: 1 or more."),
        ({"samples_per_class": 500}, "samples_per_class is 500, but the smallest class has only 174 samples."),
        ({"initial": "dirty", "dirtiness": 2}, "dirtiness is 2; allowed: 0 to 1."),
        ({"overlap": -1}, "overlap is -1; allowed: 0 to 1."),
    ],
)
def test_options_out_of_range_are_refused(options, sentence):
    with pytest.raises(FedkinError) as error:
        LabelSkew(**options).build(0)
    assert str(error.value) == sentence


def test_data_without_labels_cannot_be_partitioned(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a\n1\n")
    with pytest.raises(FedkinError) as error:
        LabelSkew(data=str(path)).build(0)
    assert str(error.value).startswith(f"'{path}' has no labels to partition its samples by; name their column")


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


def class_sets(y, parts):
    return [tuple(y[part].unique().tolist()) for part in parts]


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


def test_clients_are_disjoint_while_the_data_last():
    together = torch.cat(allocate(clients=10, low=5, high=5, samples=10))
    assert len(together.unique()) == len(together)


def test_only_a_class_that_ran_out_is_allocated_anew_and_its_last_samples_first():
    y = torch.tensor([0] * 10 + [1] * 100)
    parts = allocate(y, clients=3, low=2, high=2, samples=6)
    scarce = [set(part[y[part] == 0].tolist()) for part in parts]
    assert len(scarce[0] | scarce[1]) == 10
    assert all(len(held) == 6 for held in scarce)
    plenty = torch.cat([part[y[part] == 1] for part in parts])
    assert len(plenty.unique()) == 18


def test_class_sets_are_new_until_all_are_taken_and_then_again():
    y = torch.arange(4).repeat(50)
    sets = class_sets(y, allocate(y, clients=14, low=2, high=2, samples=1))
    assert len(set(sets[:6])) == len(set(sets[6:12])) == 6
    assert len(set(sets[12:])) == 2


def test_the_number_of_classes_is_uniform():
    sizes = torch.tensor([len(held) for held in class_sets(TEN, allocate(clients=200, low=2, high=5, samples=1))])
    shares = torch.bincount(sizes, minlength=6)[2:] / 200
    assert shares.sum() == 1
    assert ((shares - 0.25).abs() < 0.1).all()


def test_samples_are_shuffled():
    labels = TEN[allocate(clients=1, low=5, high=5, samples=50)[0]]
    assert int((labels[1:] != labels[:-1]).sum()) > 50


def test_classes_need_not_be_contiguous():
    y = torch.tensor([3, 8]).repeat(5)
    assert class_sets(y, allocate(y, clients=2, low=1, high=1, samples=2)) in ([(3,), (8,)], [(8,), (3,)])


def test_the_same_generator_gives_the_same_partition():
    one, same, other = allocate(seed=1), allocate(seed=1), allocate(seed=2)
    assert all(torch.equal(a, b) for a, b in zip(one, same, strict=True))
    assert any(a.tolist() != b.tolist() for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("overlap", [0.3, 0.5, 0.9, 1.0])
def test_the_pot_is_the_share_of_what_a_holder_has(overlap):
    y = torch.arange(2).repeat(4000)
    parts = [
        set(part[y[part] == 0].tolist()) for part in allocate(y, clients=5, low=2, high=2, samples=500, overlap=overlap)
    ]
    pot = set.intersection(*parts)
    assert len({len(part) for part in parts}) == 1
    assert len(pot) / len(parts[0]) == pytest.approx(overlap, abs=0.01)
    assert len(set.union(*parts)) == 5 * 500
    for part in parts:
        assert all((part - pot).isdisjoint(other - pot) for other in parts if other is not part)


def test_overlap_leaves_a_single_holder_unchanged():
    assert torch.equal(allocate(clients=1, overlap=0.5)[0].sort().values, allocate(clients=1)[0].sort().values)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"clients": 0}, "clients is 0; allowed: 1 or more."),
        ({"clients": -3}, "clients is -3; allowed: 1 or more."),
        ({"samples": 0}, "samples_per_class is 0; allowed: 1 or more."),
        ({"samples": 101}, "samples_per_class is 101, but the smallest class has only 100 samples."),
        ({"overlap": 1.5}, "overlap is 1.5; allowed: 0 to 1."),
        ({"overlap": float("nan")}, "overlap is nan; allowed: 0 to 1."),
        ({"high": 11}, "A client would have up to 11 classes, but the data have only 10."),
        ({"low": 0}, "Classes per client are 0 to 5; allowed: 1 <= minimum <= maximum <= 10."),
        ({"low": 6}, "Classes per client are 6 to 5; allowed: 1 <= minimum <= maximum <= 10."),
    ],
)
def test_numbers_out_of_range_are_refused(options, sentence):
    with pytest.raises(FedkinError) as error:
        allocate(**options)
    assert str(error.value) == sentence


@pytest.mark.parametrize(
    ("n_classes", "given", "expected"),
    [
        (10, {}, (2, 5)),
        (31, {}, (2, 15)),
        (3, {}, (2, 2)),
        (2, {}, (2, 2)),
        (1, {}, (1, 1)),
        (10, {"low": 7}, (7, 7)),
        (10, {"high": 1}, (1, 1)),
        (10, {"low": 1}, (1, 5)),
    ],
)
def test_the_usual_number_of_classes(n_classes, given, expected):
    assert class_range(n_classes, **given) == expected


def test_more_classes_than_exist_are_refused():
    with pytest.raises(FedkinError, match=r"^A client would have up to 4 classes, but the data have only 3\.$"):
        class_range(3, low=4)


@pytest.mark.parametrize(
    ("size", "n_classes", "clients", "bounds", "expected"),
    [
        (174, 10, 10, (2, 5), 50),
        (5421, 10, 25, (2, 5), 500),
        (48, 3, 10, (2, 2), 7),
        (5, 10, 1, (2, 5), 5),
        (1, 3, 99, (2, 2), 1),
    ],
)
def test_samples_per_class_that_fit(size, n_classes, clients, bounds, expected):
    y = torch.arange(n_classes).repeat(size)
    assert fitting_samples_per_class(y, clients, bounds) == expected


def test_dirt_moves_the_right_share_evenly():
    labels = torch.arange(4).repeat_interleave(5000)
    moved = dirty(labels, 0.3, rng())
    table = torch.zeros(4, 4).index_put_((labels, moved), torch.ones(20000), accumulate=True) / 5000
    expected = torch.full((4, 4), 0.1).fill_diagonal_(0.7)
    assert torch.allclose(table, expected, atol=0.02)


def test_dirt_at_its_limits():
    labels = torch.arange(3).repeat(20)
    assert torch.equal(dirty(labels, 0.0, rng()), labels)
    assert (dirty(labels, 1.0, rng()) != labels).all()
    assert torch.equal(dirty(torch.zeros(9, dtype=torch.int64), 1.0, rng()), torch.zeros(9, dtype=torch.int64))
    assert len(dirty(labels[:0], 0.5, rng())) == 0
    assert labels.tolist() == [0, 1, 2] * 20


@pytest.mark.parametrize("dirtiness", [-0.1, 1.1, float("nan")])
def test_dirtiness_out_of_range_is_refused(dirtiness):
    with pytest.raises(FedkinError, match=rf"^dirtiness is {dirtiness}; allowed: 0 to 1\.$"):
        dirty(torch.arange(2), dirtiness, derive_generator(0, "dirty"))
