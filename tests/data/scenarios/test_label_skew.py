import numpy as np
import pytest
import torch

from fedkin.core import FedkinError
from fedkin.data.reading.sources import load
from fedkin.data.scenarios.heterogeneous import Iid
from fedkin.data.scenarios.label_skew import LabelSkew
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
