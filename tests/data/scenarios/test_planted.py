import numpy as np
import pandas as pd
import pytest
import torch

from fedkin.core import FedkinError
from fedkin.data.scenarios.hidden import Domain, LabelFlip, Rotation
from fedkin.data.scenarios.partition_scenario import Labelled


def images(n, side=3, classes=10):
    """Sample i has the number i in its upper left corner, and 0 elsewhere."""
    x = torch.zeros(n, 1, side, side)
    x[:, 0, 0, 0] = torch.arange(n) + 1
    return x, torch.arange(n) % classes


def labelled(n=600, n_test=None, **shape):
    return Labelled(
        "pictures", *images(n, **shape), list("0123456789"), test=None if n_test is None else images(n_test, **shape)
    )


def numbers(x):
    """The samples' numbers, wherever their corner has gone."""
    return x.flatten(1).amax(1).long() - 1


CORNERS = {0: (0, 0), 90: (-1, 0), 180: (-1, -1), 270: (0, -1)}
"""Where a quarter turn counter-clockwise takes the upper left corner."""


@pytest.mark.parametrize("n_test", [None, 400])
def test_clusters_are_turned_counter_clockwise(n_test):
    population = Rotation().partition(labelled(n_test=n_test), 0)
    assert population.clusters.tolist() == [i % 4 for i in range(20)]
    assert population.common_test is None
    for client, (x, y), cluster in zip(population.clients, population.tests, population.clusters.tolist(), strict=True):
        row, column = list(CORNERS.values())[cluster]
        for samples, labels in ((client.x, client.y), (x, y)):
            assert len(samples) > 0
            assert torch.equal(samples[:, 0, row, column].long() - 1, numbers(samples))
            assert torch.equal(numbers(samples) % 10, labels)
            assert samples.is_contiguous()


@pytest.mark.parametrize("n_test", [None, 400])
def test_clusters_call_classes_by_other_labels(n_test):
    population = LabelFlip().partition(labelled(n_test=n_test), 0)
    assert population.clusters.tolist() == [i % 4 for i in range(20)]
    assert population.common_test is None
    for client, truth, (x, y), cluster in zip(
        population.clients, population.truth, population.tests, population.clusters.tolist(), strict=True
    ):
        assert torch.equal(client.y, (numbers(client.x) - cluster) % 10)
        assert torch.equal(y, (numbers(x) - cluster) % 10)
        assert torch.equal(client.y, truth)


@pytest.mark.parametrize("scenario", [Rotation(), LabelFlip()])
def test_both_splits_are_allocated_once_and_by_the_seed(scenario):
    population = scenario.partition(labelled(600, 400), 0)
    for tensors, n in (([client.x for client in population.clients], 600), ([x for x, _ in population.tests], 400)):
        assert sorted(numbers(torch.cat(tensors)).tolist()) == list(range(n))
    same, other = scenario.partition(labelled(600, 400), 0), scenario.partition(labelled(600, 400), 1)
    assert all(torch.equal(a.x, b.x) for a, b in zip(population.clients, same.clients, strict=True))
    assert any(len(a) != len(b) for a, b in zip(population.clients, other.clients, strict=True))


@pytest.fixture
def domains(tmp_path):
    """A hundred samples each from three domains; sample i is the number i."""
    rows = np.arange(300)
    names = np.repeat(["sketch", "photo", "antique"], 100)
    np.savez(tmp_path / "d.npz", x=rows[:, None], y=rows % 5, domain=names, source=np.repeat([0, 1, 2], 100))
    return str(tmp_path / "d.npz")


@pytest.mark.parametrize("domain", [["a", "b"], [0, 1]])
@pytest.mark.parametrize("label", [["u", "v"], [3, 4]])
def test_the_domain_of_a_table_is_no_feature(tmp_path, domain, label):
    rows = np.arange(60)
    columns = {"a": rows, "domain": np.repeat(domain, 30), "kind": np.array(label)[rows % 2]}
    pd.DataFrame(columns).to_csv(tmp_path / "d.csv", index=False)
    population = Domain(str(tmp_path / "d.csv"), label="kind", clients_per_domain=1).build(0)
    assert population.features == ["a"]
    assert population.classes == [str(name) for name in label]
    for cluster, (client, (x, y)) in enumerate(zip(population.clients, population.tests, strict=True)):
        held = torch.cat([client.x, x])[:, 0].long()
        assert sorted(held.tolist()) == list(range(30 * cluster, 30 * cluster + 30))
        assert torch.equal(torch.cat([client.y, y]), held % 2)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda _: Rotation("iris").build(0), "'iris' is a table, but the scenario 'rotation' turns square images."),
        (lambda _: Rotation(angles=[0, 45]).build(0), "angles is [0, 45]; allowed: one or more multiples of 90."),
        (lambda _: Rotation(clients=3).build(0), "clients is 3; allowed: 4 or more, one for each cluster."),
        (lambda _: LabelFlip(clients=180).build(0), "1797 samples are too few for 180 clients with at least 10 each."),
        (
            lambda path: Domain(path, column="place").build(0),
            "Unknown array of labels in '{}' 'place'; allowed: domain, source, x, y.",
        ),
    ],
)
def test_impossible_options_are_refused(call, sentence, domains):
    with pytest.raises(FedkinError) as error:
        call(domains)
    assert str(error.value) == sentence.format(domains)
