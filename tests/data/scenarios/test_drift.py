import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkin.core import FedkinError
from fedkin.data.scaling import standardise
from fedkin.data.scenarios.drift import Arrivals, DriftSwap
from fedkin.data.scenarios.partition_scenario import Labelled
from fedkin.data.scenarios.planted import LabelFlip, Rotation
from fedkin.data.scenarios.preview import preview


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


def test_a_new_world_has_labels_that_nobody_had():
    plain = world("label-flip")
    population = DriftSwap(kind="label-flip", clients=20, step=1, to="new").partition(labelled(), 0).at(1)
    for i in population.drift.clients.tolist():
        true = plain.clients[i].y + i % 4
        assert torch.equal(population.clients[i].y, (true - 4) % 10)
        assert int(population.clusters[i]) == 4


def test_who_drifts_is_drawn_from_the_seed():
    chosen = [DriftSwap(clients=40).partition(labelled(), seed).drift.clients.tolist() for seed in (0, 0, 1)]
    assert chosen[0] == chosen[1] != chosen[2]


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


@pytest.mark.parametrize("to", ["next", "new"])
@pytest.mark.parametrize("kind", ["rotation", "label-flip"])
def test_drifting_and_scaling_may_change_places(kind, to):
    drift = DriftSwap(kind=kind, clients=8, to=to).partition(labelled(channels=3), 0).drift
    x, y = labelled(channels=3).x[:20], torch.arange(20) % 10
    mean, spread = torch.tensor([0.1, 0.7, 2.0]).double(), torch.tensor([3.0, 0.3, 1.7]).double()
    i = int(drift.clients[0])
    first, last = drift.change(i, standardise(x, mean, spread), y), drift.change(i, x, y)
    assert torch.equal(first[0], standardise(last[0], mean, spread))
    assert torch.equal(first[1], last[1])
    assert not (torch.equal(last[0], x) and torch.equal(last[1], y))


def test_previews_show_who_changes_and_who_comes():
    lines = preview(DriftSwap(clients=8, step=7).partition(labelled(), 0)).splitlines()
    assert lines[1] == "4 drift at step 7"
    rows = [line.split()[:3] for line in lines[3:]]
    assert {(cluster, then) for _, cluster, then in rows} == {
        (str(cluster), then) for cluster in range(4) for then in (".", str((cluster + 1) % 4))
    }
    lines = preview(Arrivals(clients=8, step=7).partition(labelled(), 0)).splitlines()
    assert lines[1] == "4 join at step 7"
    assert [line.split()[2] for line in lines[3:]] == ["."] * 4 + ["7"] * 4


def rare_class_comes_late():
    """Every class but one is allocated to every client; the last goes to the last client alone."""
    data = labelled(classes=3)
    data.y[:] = torch.arange(900) % 2
    data.y[-1] = 2
    for seed in range(200):
        plain = Rotation(clients=8, test_fraction=0.0).partition(data, seed)
        holder = next((client.id for client in plain.clients if 2 in client.y.tolist()), 0)
        if holder >= 4:
            return Arrivals(clients=8, changed_fraction=0.5, test_fraction=0.0).partition(data, seed)
    raise AssertionError


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda: DriftSwap(clients=4).partition(labelled(), 0),
            "clients is 4; allowed: 5 or more, so that some of a cluster can drift.",
        ),
        (
            lambda: DriftSwap(clients=8, angles=[90]).partition(labelled(), 0),
            "to is 'next', but there is only one cluster; allowed: 'new', or two clusters or more.",
        ),
        (
            lambda: DriftSwap(kind="label-flip", clients=20, n_clusters=10, to="new").partition(labelled(), 0),
            "n_clusters is 10; allowed: less than the 10 classes, to have a shift to spare.",
        ),
        (
            lambda: Arrivals(clients=7).partition(labelled(), 0),
            "clients is 7; allowed: 8 or more, so that some of each cluster can join later.",
        ),
        (
            lambda: DriftSwap(angles=[45]).partition(labelled(), 0),
            "angles is [45]; allowed: one or more multiples of 90.",
        ),
    ],
)
def test_impossible_options_are_refused(call, sentence):
    with pytest.raises(FedkinError) as error:
        call()
    assert str(error.value) == sentence


def test_a_class_that_comes_too_late_is_refused():
    with pytest.raises(FedkinError, match=r"^Client \d joins with the class '2', which no client had before; use"):
        rare_class_comes_late()
