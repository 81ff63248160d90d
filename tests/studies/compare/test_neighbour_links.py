import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs

from fedkin.studies.compare.criteria import cohesion
from fedkin.studies.compare.neighbour_links import KappaFloor, KeptLinks, floors_of, kept, normal_like
from fedkin.studies.compare.spaces import space_of_points

SIZES = [100, 100, 100]


def test_normal_points_have_the_mean_and_covariance() -> None:
    rng = np.random.default_rng(0)
    points = rng.uniform(size=(1500, 3)) @ np.array([[5.0, 0, 0], [2.0, 1, 0], [0, 0, 0.1]]) + 7
    drawn = normal_like(points, rng)
    assert drawn.shape == points.shape
    assert drawn.mean(axis=0) == pytest.approx(points.mean(axis=0), abs=0.2)
    assert np.cov(drawn.T) == pytest.approx(np.cov(points.T), abs=0.25)
    assert (np.sort(drawn, axis=0) != np.sort(points, axis=0)).all()


def test_in_few_dimensions_clusters_without_structure_keep_many_links() -> None:
    rng = np.random.default_rng(0)
    flat, _ = floors_of(rng.normal(size=(300, 2)), SIZES)
    wide, within = floors_of(rng.normal(size=(300, 20)), SIZES)
    assert 0.7 < flat.at(2) < 0.95
    assert wide.at(2) < flat.at(2) - 0.2
    assert flat.at(10) < flat.at(2)
    assert within.at(2) > 0


def test_the_floor_does_not_move_with_units() -> None:
    points = np.random.default_rng(0).normal(size=(120, 2))
    one, other = (floors_of(points * unit, [60, 60])[0] for unit in (1.0, 1000.0))
    assert one.at(3) == pytest.approx(other.at(3), abs=1e-6)


def test_between_known_numbers_the_floor_is_interpolated_and_beyond_them_constant() -> None:
    floor = KappaFloor((np.log(2), np.log(8)), (0.8, 0.4))
    assert floor.at(4) == pytest.approx(0.6)
    assert floor.at(1) == 0.8
    assert floor.at(30) == 0.4
    assert KappaFloor().at(3) == 0


def test_a_large_cluster_and_a_few_samples_are_little_more_than_one() -> None:
    assert KeptLinks(0.0, 0.9).number == pytest.approx(1.11, abs=0.01)
    assert KeptLinks(0.0, 0.25).number == 4
    assert KeptLinks(0.0, 0.0).number == 1


def test_only_what_is_above_the_floor_counts() -> None:
    floor = KappaFloor((0.0,), (0.5,))
    assert floor.above(KeptLinks(0.45, 0.5)) == pytest.approx(0.8)  # kappa is 0.9
    assert floor.above(KeptLinks(0.2, 0.5)) == 0
    assert floor.above(KeptLinks(0.0, 1.0)) == 0
    assert KappaFloor().above(KeptLinks(0.45, 0.5)) == pytest.approx(0.9)


def test_small_clusters_need_not_keep_more_links_than_they_can() -> None:
    truth = np.repeat(np.arange(40), 10)
    points = np.random.default_rng(0).normal(size=(400, 3)) / 20 + np.stack([truth % 4, truth // 4 % 4, truth // 16], 1)
    order = np.argsort(np.arange(400) % 2, kind="stable")  # half of each at each of two clients
    space = space_of_points(np.arange(400), points[order], [200, 200])
    everywhere, within = (kept(links, truth[order]) for links in space.links)
    assert everywhere is not None
    assert within is not None
    assert (everywhere.possible, within.possible) == (9 / 15, 1)
    assert everywhere.kappa == pytest.approx(1)
    assert within.kappa < 0.5
    pairs, true = cohesion(space, truth[order] // 2), cohesion(space, truth[order])
    assert true > 0.75
    assert pairs < true - 0.1


def test_links_of_some_samples_have_the_clusters_of_all() -> None:
    truth = np.repeat(np.arange(40), 10)
    points = np.stack([truth, np.tile(np.arange(10) / 100, 40)], 1).astype(np.float64)
    half = space_of_points(np.arange(400), points, [400]).links[0].of(np.arange(400) % 2 == 0)
    found = kept(half, truth)
    assert found is not None
    assert found.possible == 9 / 15
    assert found.kappa == pytest.approx(1)


def test_too_few_points_have_no_floor() -> None:
    for count in (1, 2, 9):
        floor, within = floors_of(np.random.default_rng(0).normal(size=(count, 2)), [count])
        assert floor.at(2) == within.at(2) == 0


def test_equal_points_have_no_floor() -> None:
    floor, _ = floors_of(np.ones((40, 2)), [20, 20])
    assert floor == KappaFloor()


def test_clusters_of_points_without_structure_have_no_cohesion() -> None:
    points = np.random.default_rng(1).normal(size=(300, 2))
    space = space_of_points(np.arange(300), points, SIZES)
    for number in (2, 4, 8, 25, 50):
        labels = KMeans(number, n_init=1, random_state=0).fit_predict(points).astype(np.int64)
        assert cohesion(space, labels) < 0.03


def test_cutting_two_round_clouds_into_four_is_no_better() -> None:
    """Modularity alone prefers the four."""
    points, truth = make_blobs([150, 150], centers=[[0.0, 0.0], [5.0, 0.0]], random_state=0)
    order = np.random.default_rng(0).permutation(300)
    points, truth = points[order], truth[order].astype(np.int64)
    space = space_of_points(np.arange(300), points, SIZES)
    quarters = truth * 2 + (points[:, 1] > 0)
    assert cohesion(space, truth) > cohesion(space, quarters) + 0.1
    two, four = (kept(space.links[0], labels) for labels in (truth, quarters))
    assert two is not None
    assert four is not None
    assert four.modularity > two.modularity
