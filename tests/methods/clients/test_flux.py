"""FLUX: descriptors are moments by hand, dense regions are found without their number, and newcomers need no labels."""

import math
from typing import Any

import pytest
import torch

import pictures
import planted
from fedkin.core import Client
from fedkin.engines.local import LocalFederation
from fedkin.methods.clients.client_method import UNKNOWN
from fedkin.methods.clients.flux import (
    FLUXMethod,
    dense,
    describe_distribution,
    descriptor_of,
    knee,
    moments_of,
    nearest_distances,
    scaled,
    without_small,
)
from fedkin.nn.modules import Classifier

SHORT: dict[str, Any] = planted.LEARNING | {"rounds": 4, "warm_up": 2}
CLUSTERS = [0, 1, 1, 0, 2, 2, 3, 0, 3]
TURNED: dict[str, Any] = pictures.TRAINING | {"rounds": 3, "local_steps": 3}
RENAMED = TURNED | {"rounds": 4, "warm_up": 2, "min_size": 2}
SPEC = {"name": "planted:linear", "shape": (planted.CLASSES,), "classes": planted.CLASSES}
IDENTITY = torch.eye(planted.CLASSES)


def renamed(number: int, shift: int) -> Client:
    """A client that calls class c the class c + `shift`."""
    one = pictures.client(number, samples=80)
    return Client(number, one.x, (one.y + shift) % pictures.CLASSES)


def people() -> list[Client]:
    return [renamed(number, shift) for number, shift in enumerate(pictures.TURNS)]


def how() -> dict[str, Any]:
    classifier = Classifier.of(SPEC)
    reference = classifier.initial(torch.Generator().manual_seed(0))
    return {"module": classifier.spec(), "reference": reference, "projection": IDENTITY}


def test_moments_are_those_of_what_the_last_layer_is_given():
    one = planted.client(0)
    keep = one.y != 2
    one.x, one.y = torch.cat([one.x[keep], one.x[:1]]), torch.cat([one.y[keep], torch.tensor([2])])
    means, deviations = moments_of(one, how())
    assert means.shape == deviations.shape == (1 + planted.CLASSES, planted.CLASSES)
    assert torch.allclose(means[0], one.x.mean(0), atol=1e-6)
    assert torch.allclose(deviations[2], one.x[one.y == 1].std(0, correction=0), atol=1e-6)
    assert means[3].tolist() == deviations[3].tolist() == [-1.0] * planted.CLASSES  # one sample has no deviation
    one.y = None
    assert torch.equal(moments_of(one, how())[0][0], means[0])
    assert bool((moments_of(one, how())[0][1:] == -1).all())


def test_a_descriptor_begins_with_all_samples():
    means, deviations = torch.arange(6.0).view(3, 2), 10 + torch.arange(6.0).view(3, 2)
    assert descriptor_of(means, deviations).tolist() == [0, 1, 10, 11, 2, 3, 4, 5, 12, 13, 14, 15]


def test_segments_are_scaled_by_the_range_of_the_first_clients():
    found = scaled(
        torch.tensor([[1.0, 3.0, 5.0, 5.0], [2.0, 5.0, 5.0, 7.0]]), torch.tensor([1.0, 5.0]), torch.tensor([3.0, 5.0])
    )
    assert found.tolist() == [[0.0, 1.0, 0.0, 0.0], [0.5, 2.0, 0.0, 2.0]]


def test_a_distance_between_descriptors_is_wassersteins_for_one_class_of_one_dimension():
    """Of two normal distributions it is the distance of means and deviations, which descriptors hold side by side."""
    rng = torch.Generator().manual_seed(0)
    one, other = torch.randn(20_000, 1, generator=rng).double(), 1 + 3 * torch.randn(20_000, 1, generator=rng).double()
    exact = float((one.sort(0).values - other.sort(0).values).square().mean().sqrt())
    moments = [torch.stack([x.mean(), x.std(correction=0)]) for x in (one, other)]
    assert float((moments[0] - moments[1]).norm()) == pytest.approx(exact, rel=0.01)


def test_the_curve_bends_where_it_leaves_the_floor():
    assert knee([1.0, 1.1, 1.2, 1.3, 1.4, 8.0, 9.0]) == 1.4
    assert knee([0.1] * 10 + [5.0]) == 0.1
    assert knee([2.0, 2.0, 2.0]) == 2.0
    assert knee([1.0, 4.0]) == 4.0
    assert knee([]) == 0.0
    heights = [0.0, 1.0, 2.0, 3.0, 4.0]
    assert knee(heights) in heights  # a straight line bends nowhere, and has an answer all the same


def test_the_bend_is_that_of_hyperbolas():
    """Of x -> 1 / (1 - x) the point farthest below its chord is known."""
    places = [at / 1000 for at in range(901)]
    heights = [1 / (1 - place) for place in places]
    slope = (heights[-1] - heights[0]) / 0.9
    assert knee(heights) == pytest.approx(math.sqrt(slope), rel=0.01)


def test_dense_regions_and_points_that_are_alone():
    points = torch.tensor([[0.0], [0.9], [1.8], [9.0], [5.0], [9.5]])
    assert nearest_distances(points)[0] == pytest.approx(0.5)
    assert dense(points, 1.0).tolist() == [0, 0, 0, 1, 2, 1]
    assert without_small(points, dense(points, 1.0), 2).tolist() == [0, 0, 0, 1, 0, 1]
    assert without_small(points, dense(points, 1.0), 7).tolist() == [0, 0, 0, 1, 2, 1]
    for seed in range(100):
        assert dense(torch.randn(84, generator=torch.Generator().manual_seed(seed)).repeat(5, 1), 0.0).sum() == 0


@pytest.mark.parametrize("seed", range(5))
def test_a_radius_that_is_the_distance_of_two_points_joins_them(seed):
    points = torch.rand(2, 37, generator=torch.Generator().manual_seed(seed))
    radius = nearest_distances(points)[0]
    assert dense(points, radius * (1 - 1e-12)).tolist() == [0, 0]  # as rounding has it
    assert dense(points, radius * (1 - 1e-6)).tolist() == [0, 1]


def test_clients_that_name_classes_differently_are_separated_after_the_warm_up():
    done = planted.run(FLUXMethod(**RENAMED), people())
    assert planted.same_partition(done.labels, pictures.TURNS)
    assert [record.values["phase"] for record in done.records] == ["warm-up", "warm-up", "embedding", *["training"] * 2]
    assert done.exchanges == [1] * 5
    assert done.values[2]["clustering"]["mode"] == "descriptors"
    assert done.result["models"].shape[0] == 3
    assert done.values[0]["labels"] == [0] * 15


def test_whoever_is_in_no_dense_region_is_a_cluster_alone_with_the_authors_rule():
    alone = planted.run(FLUXMethod(**(RENAMED | {"min_size": 1})), people())
    radius, nearest = (alone.values[2]["clustering"][name] for name in ("radius", "nearest"))
    beyond = sum(distance > radius + 1e-6 for distance in nearest)
    assert beyond > 0
    sizes = sorted(alone.values[-1]["sizes"])
    assert sizes[:beyond] == [1] * beyond
    assert len(sizes) == 3 + beyond


def test_the_descriptors_model_is_the_one_of_the_last_warm_up_round():
    done = planted.run(FLUXMethod(**SHORT), planted.clients(CLUSTERS))
    assert torch.equal(done.result["reference"], done.states[2].models[0])
    assert torch.equal(done.states[3].models[0], done.states[2].models[0])


def test_warm_up_leaves_a_round_for_clusters_and_none_is_possible():
    assert len(planted.run(FLUXMethod(**(SHORT | {"rounds": 2, "warm_up": 9})), planted.clients(CLUSTERS)).records) == 3
    done = planted.run(FLUXMethod(**(SHORT | {"warm_up": 0})), planted.clients(CLUSTERS))
    assert done.values[0]["phase"] == "embedding"


def test_turned_pictures_are_told_apart_and_newcomers_without_labels_join_them():
    # The radius found after three steps is so close to distances within a cluster that processors disagree.
    done = planted.run(FLUXMethod(**TURNED, min_size=2, radius_scale=1.2), pictures.clients())
    assert planted.same_partition(done.labels, pictures.TURNS)
    assert not FLUXMethod.assigns_by_labels(done.result)
    for turn in range(3):
        new = pictures.client(50 + turn, turn, samples=60)
        with_labels = FLUXMethod.assign(done.result, new)
        new.y = None
        assert FLUXMethod.assign(done.result, new) == with_labels == done.labels[pictures.TURNS.index(turn)]


def test_labels_place_a_newcomer_that_samples_alone_do_not():
    done = planted.run(FLUXMethod(**RENAMED), people())
    for shift in range(3):
        assert FLUXMethod.assign(done.result, renamed(50 + shift, shift)) == done.labels[pictures.TURNS.index(shift)]


def test_a_client_lost_at_first_joins_later():
    method = FLUXMethod(**RENAMED, radius=1.8)
    fed = LocalFederation(people(), workers=1, failures=[(4, 8)])
    state, records = method.init(fed), []
    while not state.finished:
        state, record = method.step(fed, state)
        records.append(record)
    assert list(records[2].missing) == [8]
    assert records[2].values["labels"][8] == UNKNOWN
    assert records[3].values["newcomers"] == [[8, int(state.labels[5])]]
    assert planted.same_partition(state.labels.tolist(), pictures.TURNS)


def test_clients_that_change_move_with_refresh():
    fed, method = LocalFederation(people(), workers=1), FLUXMethod(**(RENAMED | {"rounds": 6, "refresh": 2}))
    state, moved = method.init(fed), []
    while not state.finished:
        if state.steps == 4:
            fed.clients[0].y = renamed(0, 1).y
        state, record = method.step(fed, state)
        moved += record.values.get("moved", [])
    assert moved == [[0, 0, 1]]
    assert state.labels.tolist()[:2] == [1, 1]


def test_equal_clients_are_one_cluster():
    same = [Client(i, *(getattr(planted.client(0, seed=1), name) for name in "xy")) for i in range(5)]
    assert planted.run(FLUXMethod(**SHORT), same).labels == [0] * 5


def test_learning_rates_count_rounds_of_training():
    method = FLUXMethod(learning_rates=(0.4, 0.3, 0.2, 0.1), warm_up=2)
    assert [method.descent(step).learning_rate for step in range(6)] == [0.4, 0.3, 0.3, 0.2, 0.1, 0.1]


def test_deviations_that_cannot_be_are_refused():
    zeros = torch.zeros(3, 2)
    assert describe_distribution.refusal({"means": zeros, "deviations": zeros - 1}) is None
    assert describe_distribution.refusal({"means": zeros, "deviations": zeros - 2}) is not None
    assert describe_distribution.refusal({"means": zeros, "deviations": torch.zeros(2, 2)}) is not None


def test_permuted_clients_are_in_the_permuted_clusters():
    order = [3, 7, 0, 5, 1, 6, 2, 4, 8]
    one = planted.run(FLUXMethod(**SHORT), planted.clients(CLUSTERS))
    other = planted.run(FLUXMethod(**SHORT), planted.permuted(planted.clients(CLUSTERS), order))
    assert planted.same_partition(other.labels, [one.labels[old] for old in order])


def test_lost_clients_harm_nobody():
    done = planted.run(FLUXMethod(**(SHORT | {"rounds": 5})), planted.clients(CLUSTERS), drop_rate=0.3, seed=2)
    assert bool(done.states[-1].models.isfinite().all())
    assert any(record.missing for record in done.records)


@pytest.mark.parametrize("chunk", [1, 4])
def test_how_many_clients_train_at_once_changes_nothing(chunk):
    one = planted.run(FLUXMethod(**SHORT), planted.clients(CLUSTERS))
    other = planted.run(FLUXMethod(**SHORT), planted.clients(CLUSTERS), chunk=chunk)
    assert torch.equal(one.result["models"], other.result["models"])
    assert one.labels == other.labels
