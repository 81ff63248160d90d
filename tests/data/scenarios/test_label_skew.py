import numpy as np
import pandas as pd
import pytest
import torch

from fedkin.core import FedkinError
from fedkin.data.reading.sources import load
from fedkin.data.reading.table_options import TableOptions
from fedkin.data.scenarios.heterogeneous import Iid
from fedkin.data.scenarios.label_skew import ClientFiles, LabelSkew
from fedkin.data.scenarios.own_class import OwnClass


def test_the_default_is_digits_at_ten_clients_with_fifty_per_class():
    population = LabelSkew().build(seed=0)
    assert [client.id for client in population.clients] == list(range(10))
    assert population.kind == "image"
    assert population.image_shape == (1, 8, 8)
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
    assert population.kind == "table"
    assert population.image_shape is None
    for client, truth in zip(population.clients, population.truth, strict=True):
        assert torch.equal(torch.tensor([4.0, 5.0, 7.0])[truth], client.x[:, 0])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"initial": "dirt"}, "Unknown value for initial 'dirt'; did you mean 'dirty'?"),
        ({"n_classes": 11}, "n_classes is 11; allowed: 1 to 10, the number of classes in 'digits'."),
        ({"n_classes": 0}, "n_classes is 0; allowed: 1 to 10, the number of classes in 'digits'."),
        ({"max_classes": 11}, "A client was to have up to 11 classes, but the data have only 10."),
        ({"n_classes": 3, "max_classes": 4}, "A client was to have up to 4 classes, but the data have only 3."),
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


def test_clients_hold_out_a_share_in_the_order_of_their_rows(tmp_path):
    for name, n in (("a", 10), ("b", 1)):
        np.savez(tmp_path / f"{name}.npz", x=np.arange(n)[:, None], y=np.arange(n))
    population = ClientFiles(str(tmp_path), test_fraction=0.3).build(1)
    assert [(len(client), len(y)) for client, (_, y) in zip(population.clients, population.tests, strict=True)] == [
        (7, 3),
        (1, 0),
    ]
    for client, truth, (x, y) in zip(population.clients, population.truth, population.tests, strict=True):
        assert client.x[:, 0].tolist() == truth.tolist() == client.y.tolist() == sorted(truth.tolist())
        assert x[:, 0].tolist() == y.tolist()
        assert not set(y.tolist()) & set(truth.tolist())
    assert torch.equal(ClientFiles(str(tmp_path), test_fraction=0.3).build(1).tests[0][1], population.tests[0][1])


def test_tests_of_clients_need_labels(tmp_path):
    (tmp_path / "a.csv").write_text("a\n1\n2\n")
    with pytest.raises(FedkinError, match=r"test_fraction is 0.5, but not every client has labels to test against\."):
        ClientFiles(str(tmp_path), test_fraction=0.5).build()
    with pytest.raises(FedkinError, match=r"test_fraction is -0.5; allowed: 0 to 1\."):
        ClientFiles(str(tmp_path), test_fraction=-0.5).build()


def test_labels_of_a_folder_of_clients_are_the_clients_own_and_the_truth(tmp_path):
    (tmp_path / "a.csv").write_text("a,kind\n1,dog\n2,cat\n")
    (tmp_path / "b.csv").write_text("a,kind\n3,fish\n")
    population = ClientFiles(str(tmp_path), label="kind").build()
    assert [client.x.tolist() for client in population.clients] == [[[1], [2]], [[3]]]
    assert [truth.tolist() for truth in population.truth] == [[1, 0], [2]]
    assert population.classes == ["cat", "dog", "fish"]
    assert [client.y.tolist() for client in population.clients] == [[1, 0], [2]]
    assert all(client.state == {} for client in population.clients)
    assert population.tests == []


def test_labels_at_some_clients_only_are_no_truth(tmp_path):
    (tmp_path / "a.csv").write_text("a,label\n1,dog\n")
    (tmp_path / "b.csv").write_text("a\n3\n")
    population = ClientFiles(str(tmp_path)).build()
    assert population.truth is None
    assert population.classes == []


def test_a_list_of_arrays_is_taken_as_it_is():
    population = ClientFiles([np.zeros((2, 8, 8)), torch.ones(1, 8, 8)]).build(seed=5)
    assert [client.x.shape for client in population.clients] == [(2, 1, 8, 8), (1, 1, 8, 8)]
    assert population.image_shape == (1, 8, 8)
    assert population.truth is None


@pytest.mark.parametrize(
    ("clients", "sentence"),
    [
        ([], "The list of clients is empty; at least one is needed."),
        (
            [[[1.0]], [[np.nan]]],
            "Client 1 has missing or infinite values in 1 of 1 samples; all must be finite float32.",
        ),
        (
            [[[1.0]], [[1.0]], [[1.0, 2.0]]],
            "Client 2 has 2 features where others have 1 features; all clients need the same.",
        ),
    ],
)
def test_lists_that_cannot_be_used_are_refused(clients, sentence):
    with pytest.raises(FedkinError) as error:
        ClientFiles(clients).build()
    assert str(error.value) == sentence


def test_clients_keep_their_files_names(tmp_path):
    for name in ("south", "north"):
        (tmp_path / f"{name}.csv").write_text("a,b\n1,2\n3,4\n")
    assert ClientFiles(str(tmp_path)).build().names == ["north.csv", "south.csv"]


def test_clients_have_tables_as_they_were_read(tmp_path):
    (tmp_path / "north.csv").write_text("sex,age,label\nm,30,u\nf,?,v\n")
    (tmp_path / "south.csv").write_text("age,ill,label\n50,yes,u\n")
    population = ClientFiles(str(tmp_path)).build()
    assert population.names == ["north.csv", "south.csv"]
    assert population.features == ["sex", "age", "ill"]
    north, south = population.clients
    assert north.x is north.table.values
    assert north.table.columns[0].categories == ("f", "m")
    assert north.x.nan_to_num(-1).tolist() == [[1, 30], [0, -1]]
    assert (south.table.names, south.x.tolist()) == (["age", "ill"], [[50, 1]])
    dropped = ClientFiles(str(tmp_path), table=TableOptions(drop=["sex"], id="age")).build().clients[0].table
    assert (dropped.names, dropped.id) == (["age"], "age")


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


def test_clients_may_be_frames_with_labels_and_options():
    frames = {"n": pd.DataFrame({"a": [1, 2], "k": [1, 2], "ill": [0, 1]}), "s": pd.DataFrame({"a": [3], "ill": [1]})}
    population = ClientFiles(frames, label="ill", table=TableOptions(categorical=["k"])).build()
    assert population.names == ["n", "s"]
    assert [client.y.tolist() for client in population.clients] == [[0, 1], [1]]
    assert population.clients[0].table.columns[1].categories == ("1", "2")


def test_columns_taken_for_labels_are_told(tmp_path):
    for name, text in (("a", "v,class\n1,x\n2,y\n"), ("b", "v,class\n1,x\n2,y\n")):
        (tmp_path / f"{name}.csv").write_text(text)
    assert ClientFiles(str(tmp_path)).build().notes == (
        "Column 'class' is taken for labels, so it is no feature; if it is one, rename it, or name the labels with "
        "data.label.",
    )
    assert ClientFiles(str(tmp_path), label="class").build().notes == ()
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text("v,label\n1,x\n2,y\n")
    assert ClientFiles(str(tmp_path)).build().notes == ()
    (tmp_path / "a.csv").write_text("v,class\n1,x\n2,y\n")
    (tmp_path / "b.csv").write_text("v\n1\n2\n")
    built = ClientFiles(str(tmp_path)).build()
    assert built.notes == (
        "Column 'class' of a.csv is called like labels, but none are in b.csv, so it is left out and nothing is "
        "compared with labels; if it is a feature, rename it.",
    )
    assert (built.truth, built.features) == (None, ["v"])


def test_files_that_are_not_read_are_told(tmp_path):
    (tmp_path / "a.csv").write_text("v\n1\n2\n")
    for name in ("b.xlsx", "notes.txt", "picture.png"):
        (tmp_path / name).touch()
    assert ClientFiles(str(tmp_path)).build().notes == (
        "b.xlsx, notes.txt are no files that fedkin reads, and no client's; save tables as .csv or .parquet.",
    )
