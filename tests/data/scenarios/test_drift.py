import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkin.core import FedkinError
from fedkin.data.scenarios.hidden import Arrivals, DriftSwap, LabelFlip, Rotation
from fedkin.data.scenarios.partition_scenario import Labelled


def samples(n, classes, channels, seed):
    return torch.rand(n, channels, 3, 3, generator=torch.Generator().manual_seed(seed)), torch.arange(n) % classes


def labelled(n=900, n_test=900, classes=10, channels=1):
    test = None if n_test is None else samples(n_test, classes, channels, 1)
    return Labelled("pictures", *samples(n, classes, channels, 0), [str(c) for c in range(classes)], test=test)


def world(kind, clients=20, **options):
    """The scenario without events, and each cluster's samples as any cluster would have them."""
    made = Rotation if kind == "rotation" else LabelFlip
    return made(clients=clients, **options).partition(labelled(), 0)


def seen_from(kind, x, y, cluster, other):
    """Samples of one cluster as another one sees them."""
    if kind == "rotation":
        return torch.rot90(x, other - cluster, (2, 3)), y
    return x, (y - (other - cluster)) % 10


def equal(one, other):
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("kind", ["rotation", "label-flip"])
def test_before_its_step_nothing_has_changed(kind):
    plain, population = world(kind), DriftSwap(kind=kind, clients=20, step=3).partition(labelled(), 0)
    for step in (0, 1, 2):
        assert population.at(step) is population
    assert torch.equal(population.clusters, plain.clusters)
    assert all(equal((a.x, a.y), (b.x, b.y)) for a, b in zip(population.clients, plain.clients, strict=True))
    assert all(equal(a, b) for a, b in zip(population.tests, plain.tests, strict=True))


@pytest.mark.parametrize("step", [3, 9])
@pytest.mark.parametrize("kind", ["rotation", "label-flip"])
def test_from_its_step_on_some_of_every_cluster_see_as_the_next_does(kind, step):
    plain, before = world(kind), DriftSwap(kind=kind, clients=20, step=3).partition(labelled(), 0)
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
        assert equal((client.x, client.y), seen_from(kind, old.x, old.y, cluster, now))
        assert equal(after.tests[i], seen_from(kind, *plain.tests[i], cluster, now))
        assert torch.equal(after.truth[i], client.y)
        assert client.x.is_contiguous()


@pytest.mark.parametrize(
    ("angles", "seen"),
    [([0, 180], lambda upright: upright.rot90(1, (2, 3))), ([90, 0, 180, 270], lambda upright: upright.flip(3))],
)
def test_a_new_world_is_a_quarter_that_is_free_or_mirrored(angles, seen):
    plain = world("rotation", angles=angles)
    population = DriftSwap(clients=20, angles=angles, step=1, to="new").partition(labelled(), 0).at(1)
    assert len(population.drift.clients) > 0
    for i in population.drift.clients.tolist():
        upright = plain.clients[i].x.rot90(-angles[i % len(angles)] // 90, (2, 3))
        assert torch.equal(population.clients[i].x, seen(upright))
        assert int(population.clusters[i]) == len(angles)


@settings(max_examples=30, deadline=None)
@given(st.integers(8, 25), st.floats(0, 1))
def test_the_share_is_that_of_every_cluster(clients, share):
    population = DriftSwap(clients=clients, changed_fraction=share).partition(labelled(n_test=None), 0)
    sizes, drifted = torch.bincount(population.clusters), population.clusters[population.drift.clients]
    for cluster, size in enumerate(sizes.tolist()):
        gone = int((drifted == cluster).sum())
        assert gone == (min(size - 1, max(1, round(share * size))) if share else 0)
    late = Arrivals(clients=clients, changed_fraction=share).partition(labelled(n_test=None), 0)
    if share == 0:
        assert late.arrivals is None
        return
    there = late.arrivals == 0
    assert torch.equal(there, there.sort(descending=True).values)
    assert int((~there).sum()) == min(clients - 4, max(4, round(share * clients)))
    assert len(late.clusters[there].unique()) == len(late.clusters[~there].unique()) == 4


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: DriftSwap(clients=4).partition(labelled(), 0), "clients is 4; allowed: 5 or more, so that"),
        (
            lambda: DriftSwap(kind="label-flip", clients=20, n_clusters=10, to="new").partition(labelled(), 0),
            "n_clusters is 10; allowed: less than the 10 classes, to have a shift to spare.",
        ),
        (lambda: DriftSwap(angles=[45]).partition(labelled(), 0), "angles is [45]; allowed: one or more"),
    ],
)
def test_impossible_options_are_refused(call, sentence):
    with pytest.raises(FedkinError) as error:
        call()
    assert str(error.value).startswith(sentence)
