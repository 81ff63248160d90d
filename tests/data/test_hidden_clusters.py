"""Scenarios of hidden clusters, and clients that drift or join late."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkin.data.scenarios import Arrivals, Domain, DriftSwap, LabelClusters, LabelFlip, Labelled, Rotation


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


def test_clusters_call_classes_by_other_labels():
    population = LabelFlip().partition(labelled(n_test=400), 0)
    assert population.common_test is None
    held = zip(population.clients, population.truth, population.tests, population.clusters.tolist(), strict=True)
    for client, truth, (x, y), cluster in held:
        assert torch.equal(client.y, (numbers(client.x) - cluster) % 10)
        assert torch.equal(y, (numbers(x) - cluster) % 10)
        assert client.y is truth


def test_the_domain_of_a_table_is_no_feature(tmp_path):
    rows = np.arange(60)
    columns = {"a": rows, "domain": np.repeat([0, 1], 30), "kind": np.array(["u", "v"])[rows % 2]}
    pd.DataFrame(columns).to_csv(tmp_path / "d.csv", index=False)
    population = Domain(str(tmp_path / "d.csv"), label="kind", clients_per_domain=1).build(0)
    assert (population.features, population.classes) == (["a"], ["u", "v"])
    for cluster, (client, (x, y)) in enumerate(zip(population.clients, population.tests, strict=True)):
        held = torch.cat([client.x, x])[:, 0].long()
        assert sorted(held.tolist()) == list(range(30 * cluster, 30 * cluster + 30))
        assert torch.equal(torch.cat([client.y, y]), held % 2)


DISJOINT = [{0, 1, 2, 3}, {4, 5, 6}, {7, 8, 9}]
OVERLAPPING = [{0, 1, 2, 3, 8, 9}, {4, 5, 6, 7, 8, 9}, {0, 1, 2, 3, 4, 5}]


def ten_classes(per_class=300, classes=10, name="numbers", test_per_class=None):
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
    population = scenario.partition(ten_classes(test_per_class=20), 0)
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


def test_the_authors_draw_leaves_the_distinct_images_of_the_paper():
    """60,000 balanced images at 15 clients: 3,693, 3,569 and 3,588 expected, at 30 clients 1,921, 1,888 and 1,893."""
    for clients, expected in ((15, [3693, 3556, 3556]), (30, [1921, 1893, 1893])):
        population = LabelClusters(clients=clients, drawing="replacement").partition(ten_classes(6000), 0)
        sizes = torch.tensor([len(numbers) for numbers in everything(population)], dtype=torch.float64)
        means = [float(sizes[population.clusters == cluster].mean()) for cluster in range(3)]
        assert means == pytest.approx(expected, rel=0.01)


def few_images(n_test=900):
    def drawn(n, seed):
        return torch.rand(n, 1, 3, 3, generator=torch.Generator().manual_seed(seed)), torch.arange(n) % 10

    return Labelled("pictures", *drawn(900, 0), list("0123456789"), test=None if n_test is None else drawn(n_test, 1))


def equal(one, other):
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("step", [3, 9])
def test_from_its_step_on_some_of_every_cluster_see_as_the_next_does(step):
    plain = Rotation(clients=20).partition(few_images(), 0)
    before = DriftSwap(clients=20, step=3).partition(few_images(), 0)
    after = before.at(step)
    drifted = after.drift.clients.tolist()
    assert torch.bincount(plain.clusters[drifted]).tolist() == [2] * 4
    assert drifted == sorted(drifted)
    assert after.drift.happened
    assert after.at(step + 1) is after
    for i in range(20):
        cluster = int(plain.clusters[i])
        now = (cluster + 1) % 4 if i in drifted else cluster
        assert int(after.clusters[i]) == now
        client, old = after.clients[i], plain.clients[i]
        assert equal((client.x, client.y), (torch.rot90(old.x, now - cluster, (2, 3)), old.y))
        x, y = plain.tests[i]
        assert equal(after.tests[i], (torch.rot90(x, now - cluster, (2, 3)), y))
        assert torch.equal(after.truth[i], client.y)
        assert client.x.is_contiguous()


@settings(max_examples=30, deadline=None)
@given(st.integers(8, 25), st.floats(0, 1, exclude_min=True))
def test_the_share_is_that_of_every_cluster(clients, share):
    population = DriftSwap(clients=clients, changed_fraction=share).partition(few_images(n_test=None), 0)
    sizes, drifted = torch.bincount(population.clusters), population.clusters[population.drift.clients]
    for cluster, size in enumerate(sizes.tolist()):
        gone = int((drifted == cluster).sum())
        assert gone == min(size - 1, max(1, round(share * size)))
    late = Arrivals(clients=clients, changed_fraction=share).partition(few_images(n_test=None), 0)
    there = late.arrivals == 0
    assert torch.equal(there, there.sort(descending=True).values)
    assert int((~there).sum()) == min(clients - 4, max(4, round(share * clients)))
    assert len(late.clusters[there].unique()) == len(late.clusters[~there].unique()) == 4
