from dataclasses import replace

import pytest
import torch

from fedkin.core import FedkinError
from fedkin.data.scenarios.mixtures import Dirichlet, Iid, Shards
from fedkin.data.scenarios.partition_scenario import Labelled

ALL = [Dirichlet(), Shards(), Iid()]


def numbered(n, classes=10):
    """Sample i is the number i, so that whoever holds it can be told."""
    return torch.arange(n, dtype=torch.float32)[:, None], torch.arange(n) % classes


def labelled(n=1000, n_test=None):
    x, y = numbered(n)
    return Labelled("numbers", x, y, list("0123456789"), test=None if n_test is None else numbered(n_test))


def ids(tensors):
    return [x[:, 0].long().tolist() for x in tensors]


@pytest.mark.parametrize("scenario", ALL, ids=lambda scenario: type(scenario).__name__)
def test_every_client_holds_samples_of_its_own_with_labels_and_tests(scenario):
    population = scenario.build(0)
    assert len(population.clients) == len(population.tests) == 10
    assert population.clusters is None
    assert population.common_test is None
    for client, truth, (x, y) in zip(population.clients, population.truth, population.tests, strict=True):
        assert client.y is truth
        assert client.x.shape == (len(truth), 1, 8, 8)
        assert len(x) == len(y) == round(0.2 * (len(truth) + len(y)))


@pytest.mark.parametrize("scenario", ALL, ids=lambda scenario: type(scenario).__name__)
def test_samples_keep_their_labels_and_are_allocated_once(scenario):
    population = scenario.partition(labelled(), 3)
    train, test = ids(client.x for client in population.clients), ids(x for x, _ in population.tests)
    together = [i for part in (*train, *test) for i in part]
    assert sorted(together) == list(range(1000))
    for part, client in zip(train, population.clients, strict=True):
        assert [i % 10 for i in part] == client.y.tolist()
    for part, (_, y) in zip(test, population.tests, strict=True):
        assert [i % 10 for i in part] == y.tolist()


@pytest.mark.parametrize("scenario", ALL, ids=lambda scenario: type(scenario).__name__)
def test_the_same_seed_gives_the_same_clients(scenario):
    one, same, other = (ids(c.x for c in scenario.partition(labelled(), seed).clients) for seed in (1, 1, 2))
    assert one == same
    assert one != other


@pytest.mark.parametrize("scenario", ALL, ids=lambda scenario: type(scenario).__name__)
def test_a_test_split_is_partitioned_like_the_training_split(scenario):
    data = labelled(1000, 500)
    population = replace(scenario, test_fraction=0.9).partition(data, 0)
    assert sum(len(client) for client in population.clients) == 1000
    assert sorted(i for part in ids(x for x, _ in population.tests) for i in part) == list(range(500))
    assert population.common_test is data.test
    if not isinstance(scenario, Iid):
        for client, (_, y) in zip(population.clients, population.tests, strict=True):
            apart = torch.bincount(client.y, minlength=10) / 2 - torch.bincount(y, minlength=10)
            assert float(apart.abs().max()) < 1


@pytest.mark.parametrize(
    ("scenario", "sentence"),
    [
        (Iid(clients=1001), "The number of clients is 1001; allowed: 1 to 1000, the number of samples."),
        (Iid(samples_per_client=0), "samples_per_client is 0; allowed: 1 or more."),
    ],
)
def test_impossible_options_are_refused(scenario, sentence):
    with pytest.raises(FedkinError) as error:
        scenario.partition(labelled(), 0)
    assert str(error.value).startswith(sentence)


def test_unlabelled_rows_are_dealt_out(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("a,b\n" + "".join(f"{i},{i % 7}\n" for i in range(30)))
    population = Iid(data=str(path), clients=3).build(0)
    assert population.truth is None
    assert [len(client) for client in population.clients] == [10, 10, 10]
    held = ids([client.table.values for client in population.clients])
    assert sorted(row for rows in held for row in rows) == list(range(30))
