import pytest
import torch

from fedkin.core import FedkinError
from fedkin.data.scenarios.hidden import LabelClusters, MissingClasses
from fedkin.data.scenarios.partition_scenario import Labelled

DISJOINT = [{0, 1, 2, 3}, {4, 5, 6}, {7, 8, 9}]
OVERLAPPING = [{0, 1, 2, 3, 8, 9}, {4, 5, 6, 7, 8, 9}, {0, 1, 2, 3, 4, 5}]


def labelled(per_class=300, classes=10, name="numbers", test_per_class=None):
    """Sample i is the number i, so that whoever holds it can be told."""

    def numbered(count):
        return torch.arange(count * classes, dtype=torch.float32)[:, None], torch.arange(count * classes) % classes

    test = None if test_per_class is None else numbered(test_per_class)
    return Labelled(name, *numbered(per_class), [str(c) for c in range(classes)], test=test)


def everything(population):
    """Per client, the numbers of all its samples."""
    pairs = zip(population.clients, population.tests, strict=True)
    return [torch.cat([client.x, x])[:, 0].long() for client, (x, _) in pairs]


def classes_by_cluster(population):
    held = {}
    for client, (_, y), cluster in zip(population.clients, population.tests, population.clusters.tolist(), strict=True):
        held.setdefault(cluster, set()).update(client.y.tolist(), y.tolist())
    return [held[cluster] for cluster in sorted(held)]


@pytest.mark.parametrize("drawing", ["disjoint", "replacement"])
@pytest.mark.parametrize("balanced", [True, False])
@pytest.mark.parametrize(("overlap", "classes"), [(False, DISJOINT), (True, OVERLAPPING)])
def test_clusters_hold_their_classes(overlap, classes, balanced, drawing):
    scenario = LabelClusters(overlap=overlap, balanced=balanced, drawing=drawing)
    population = scenario.partition(labelled(test_per_class=20), 0)
    assert all(held <= own for held, own in zip(classes_by_cluster(population), classes, strict=True))
    if balanced:
        assert classes_by_cluster(population) == classes
    for client, numbers, truth in zip(population.clients, everything(population), population.truth, strict=True):
        assert len(numbers.unique()) == len(numbers)
        assert torch.equal(client.x[:, 0].long() % 10, client.y)
        assert truth is client.y
        assert round(0.7 * len(numbers)) == pytest.approx(len(client), abs=1)
    together = torch.cat(everything(population))
    assert (len(together.unique()) == len(together)) == (drawing == "disjoint")
    assert len(population.common_test[1]) == 200


@pytest.mark.parametrize(
    ("clients", "balanced", "sizes"),
    [
        (15, True, [5, 5, 5]),
        (30, True, [10, 10, 10]),
        (15, False, [3, 7, 5]),
        (30, False, [7, 14, 9]),
        (3, False, [1, 1, 1]),
        (60, False, [12, 28, 20]),
    ],
)
def test_sizes_of_clusters(clients, balanced, sizes):
    clusters = LabelClusters(clients=clients, balanced=balanced).partition(labelled(), 0).clusters
    assert torch.bincount(clusters).tolist() == sizes
    assert clusters.tolist() == sorted(clusters.tolist())


def test_the_authors_draw_leaves_the_distinct_images_of_the_paper():
    """60,000 balanced images at 15 clients: 3,693, 3,569 and 3,588 expected, at 30 clients 1,921, 1,888 and 1,893."""
    for clients, expected in ((15, [3693, 3556, 3556]), (30, [1921, 1893, 1893])):
        population = LabelClusters(clients=clients, drawing="replacement").partition(labelled(6000), 0)
        sizes = torch.tensor([len(numbers) for numbers in everything(population)], dtype=torch.float64)
        means = [float(sizes[population.clusters == cluster].mean()) for cluster in range(3)]
        assert means == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("scenario", [LabelClusters(), LabelClusters(drawing="replacement"), MissingClasses()])
def test_the_defaults_work_with_digits_and_the_seed_decides(scenario):
    one, same, other = (scenario.build(seed) for seed in (0, 0, 1))
    assert all(torch.equal(a.x, b.x) for a, b in zip(one.clients, same.clients, strict=True))
    assert any(
        a.x.shape != b.x.shape or not torch.equal(a.x, b.x) for a, b in zip(one.clients, other.clients, strict=True)
    )
    assert len(one.clients) == (20 if isinstance(scenario, MissingClasses) else 15)


@pytest.mark.parametrize(
    ("scenario", "classes", "sentence"),
    [
        (LabelClusters(clients=2), 10, "clients is 2; allowed: 3 or more, one for each cluster."),
        (LabelClusters(), 11, "'numbers' has 11 classes, but the clusters"),
        (MissingClasses(clients=3), 10, "clients is 3; allowed: 4 or more, one for each cluster."),
        (MissingClasses(missing=[[0], [10]]), 10, "missing names class 10 for cluster 1; allowed: 0 to 9."),
    ],
)
def test_impossible_options_are_refused(scenario, classes, sentence):
    with pytest.raises(FedkinError) as error:
        scenario.partition(labelled(classes=classes), 0)
    assert str(error.value).startswith(sentence)
