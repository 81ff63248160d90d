import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedkin.core import Client
from fedkin.data.population import Population
from fedkin.studies.compare.criteria import agreement, cohesion, consensus, silhouette, spread, stability, togetherness
from fedkin.studies.compare.neighbour_links import NeighbourLinks
from fedkin.studies.compare.spaces import space_of

CENTRES = torch.tensor([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])


def population(sites: int = 4, samples: int = 30) -> tuple[Population, np.ndarray]:
    """Clients that hold three far apart blobs alike, and the blob of each sample."""
    rng = torch.Generator().manual_seed(0)
    own = [torch.randint(3, (samples,), generator=rng) for _ in range(sites)]
    clients = [Client(i, CENTRES[y] + torch.randn(samples, 2, generator=rng)) for i, y in enumerate(own)]
    return Population(clients, None, []), torch.cat(own).numpy()


def client_of_each(people: Population) -> np.ndarray:
    return np.repeat(np.arange(len(people.clients)), [len(client) for client in people.clients])


@st.composite
def graphs(draw: st.DrawFn) -> tuple[NeighbourLinks, np.ndarray]:
    count = draw(st.integers(2, 12))
    ends = st.lists(st.integers(0, count - 1), min_size=1, max_size=40)
    here = np.array(draw(ends))
    there = np.array(draw(st.lists(st.integers(0, count - 1), min_size=len(here), max_size=len(here))))
    labels = np.array(draw(st.lists(st.integers(0, 3), min_size=count, max_size=count)))
    return NeighbourLinks(here, there), labels


@given(graphs(), st.permutations([0, 1, 2, 3]))
def test_togetherness_does_not_depend_on_names_and_has_a_bound(
    graph: tuple[NeighbourLinks, np.ndarray], names: list[int]
) -> None:
    links, labels = graph
    value = togetherness(links, labels)
    assert value == pytest.approx(togetherness(links, np.array(names)[labels]))
    assert 0 <= value <= 0.5 * math.sqrt(math.log2(len(np.unique(labels)) ** 2)) + 1e-9


@given(graphs())
def test_one_cluster_keeps_nothing_together_above_chance(graph: tuple[NeighbourLinks, np.ndarray]) -> None:
    links, labels = graph
    assert togetherness(links, np.zeros_like(labels)) == pytest.approx(0)


def test_samples_without_a_cluster_do_not_count() -> None:
    links = NeighbourLinks(np.array([0, 1, 2, 3, 0]), np.array([1, 0, 3, 2, 4]))
    assert togetherness(links, np.array([0, 0, 1, 1, -1])) == pytest.approx(0.5)
    assert togetherness(links, np.full(5, -1)) == 0


def test_true_clusters_keep_together_more_than_any_other() -> None:
    people, truth = population()
    space = space_of(people, seed=0)
    true = cohesion(space, truth)
    rng = np.random.default_rng(0)
    assert 0.4 < true < 2 / 3
    assert abs(cohesion(space, rng.integers(0, 3, len(truth)))) < 0.1
    assert cohesion(space, np.where(truth == 2, 1, truth)) < true - 0.1  # two of them joined
    assert cohesion(space, truth * 4 + client_of_each(people)) < true - 0.1  # cut by client
    assert cohesion(space, client_of_each(people)) < true - 0.1
    split = np.where((truth == 0) & (space.points[:, 0] > np.median(space.points[truth == 0, 0])), 3, truth)
    assert cohesion(space, split) < true - 0.02


def test_surer_clusters_are_better_and_more_of_them_where_they_are_as_sure() -> None:
    """A chain cut into halves loses fewer links than one cut into ten; two chains apart lose none."""
    here = np.repeat(np.arange(80), 6)
    there = here + np.tile([-3, -2, -1, 1, 2, 3], 80)
    inside = (there >= 0) & (there < 80)
    chain = NeighbourLinks(here[inside], there[inside])
    two, four = np.arange(80) // 40, np.arange(80) // 20
    a, b = two[chain.here], two[chain.there]
    kappa = ((a == b).mean() - 0.5) / 0.5
    assert kappa < 1
    assert togetherness(chain, two) == pytest.approx(0.5 * kappa**2, rel=0.01)
    apart = here[inside] // 20 == there[inside] // 20
    four_chains = NeighbourLinks(here[inside][apart], there[inside][apart])
    assert togetherness(four_chains, two) == pytest.approx(0.5)
    assert togetherness(four_chains, four) == pytest.approx(0.5 * math.sqrt(2))


def test_the_spread_is_that_of_halves_and_shrinks_with_samples() -> None:
    few, truth = population(samples=15)
    many, more = population(samples=240)
    wrong = np.random.default_rng(0).random(len(truth)) < 0.05
    noisy = np.where(wrong, (truth + 1) % 3, truth)
    wrong = np.random.default_rng(0).random(len(more)) < 0.05
    noisier = np.where(wrong, (more + 1) % 3, more)
    large = spread(space_of(few, seed=0), [noisy])
    small = spread(space_of(many, seed=0), [noisier])
    assert 0 < small < large / 2
    assert spread(space_of(few, seed=0), [np.zeros_like(truth)]) == 0


def test_links_stay_among_all_or_within_a_client() -> None:
    people, _ = population()
    space = space_of(people, seed=0)
    client = client_of_each(people)
    everywhere, within = space.links
    assert (client[within.here] == client[within.there]).all()
    assert (client[everywhere.here] != client[everywhere.there]).any()
    assert np.bincount(everywhere.here).tolist() == [15] * 120
    assert np.bincount(within.here).tolist() == [10] * 120
    assert (everywhere.here != everywhere.there).all()


def test_a_space_shows_so_many_samples_of_all_clients() -> None:
    people, _ = population()
    space = space_of(people, seed=1, limit=50)
    assert len(space.rows) == len(space.points) == len(np.unique(space.rows)) == 50
    everything = torch.cat([client.x for client in people.clients])[space.rows].numpy().astype(float)
    assert space.points == pytest.approx(everything)  # as methods see them
    assert (space_of(people, seed=1, limit=50).rows == space.rows).all()
    assert (space_of(people, seed=2, limit=50).rows != space.rows).any()


def test_small_clients_are_linked_as_far_as_they_go() -> None:
    people = Population(
        [Client(0, torch.randn(1, 3)), Client(1, torch.randn(3, 3)), Client(2, torch.randn(2, 3))], None, []
    )
    _, within = space_of(people, seed=0).links
    assert np.bincount(within.here, minlength=6).tolist() == [0, 2, 2, 2, 1, 1]


def test_images_are_shown_by_their_edges() -> None:
    images = torch.rand(20, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    bright = Population([Client(0, images), Client(1, images * 0.5)], None, [])
    points = space_of(bright, seed=0).points
    assert points[:20] == pytest.approx(points[20:], abs=1e-3)  # edges do not depend on brightness


def test_stability_is_the_agreement_of_every_two_runs() -> None:
    one = np.array([0, 0, 1, 1, 2, 2])
    assert stability([one]) is None
    assert stability([one, 2 - one]) == 1
    mixed = np.array([0, 1, 0, 1, 0, 1])
    assert stability([one, one, mixed]) == pytest.approx((1 + 2 * agreement(one, mixed)) / 3)
    assert agreement(np.array([0, 0, 1, -1]), np.array([5, 5, 6, 6])) == 1
    assert agreement(np.array([-1, -1]), np.array([0, 1])) == 0


def test_every_other_method_counts_once_for_consensus() -> None:
    one = np.array([0, 0, 1, 1])
    other = np.array([0, 1, 0, 1])
    assert consensus([one], {}) is None
    apart = agreement(one, other)
    assert consensus([one], {"a": [one], "b": [other, other]}) == pytest.approx((1 + apart) / 2)


def test_silhouette_of_one_cluster_or_of_samples_alone_is_nothing() -> None:
    points = np.array([[0.0], [0.1], [5.0], [5.1]])
    assert silhouette(points, np.array([0, 0, 1, 1])) > 0.9
    assert silhouette(points, np.zeros(4, dtype=int)) == 0
    assert silhouette(points, np.arange(4)) == 0
    assert silhouette(points, np.array([0, 0, 1, -1])) > 0.6
