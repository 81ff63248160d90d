"""Data that are split already."""

import numpy as np
import torch

from fedkin.data.options import TableOptions
from fedkin.data.scenarios.partitions import ClientFiles


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
