"""Clusters found at once: training, drift, and cuts of a tree."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score, calinski_harabasz_score
from torch import Tensor

import planted
from fedkin.clustering import ward
from fedkin.clustering.tree_cuts import Clustering, cluster
from fedkin.core import FedkinError
from fedkin.methods.clients.client_method import UNKNOWN
from one_message import (
    CLUSTERS,
    SETTINGS,
    OneMessage,
    Watched,
    clustered,
    make_clients,
    steps,
)


def test_everybody_sends_one_message_and_then_every_cluster_trains_a_model_of_its_own():
    fed = Watched(make_clients())
    method = OneMessage(**SETTINGS)
    made = steps(method, fed, method.init(fed), 5)
    everyone = list(range(12))
    assert fed.asked == [("describe", everyone), ("report_means", everyone), *[("train", everyone)] * 4]
    records = [record for _, record in made]
    assert [record.values["phase"] for record in records] == ["embedding", *["training"] * 4]
    assert all(record.answered == everyone and not record.missing for record in records)
    assert all(planted.same_partition(record.values["labels"], CLUSTERS) for record in records)
    assert all(record.values["sizes"] == [4, 4, 4] for record in records)
    assert [state.finished for state, _ in made] == [False] * 4 + [True]
    assert "newcomers" not in records[-1].values


def test_a_newcomer_joins_the_nearest_cluster():
    fed = Watched(make_clients([*CLUSTERS, 1]))
    fed.leave({12})
    method = OneMessage(**SETTINGS)
    state = clustered(method, fed)
    fed.join(fed.ids)
    after, record = method.step(fed, state)
    assert record.values["newcomers"] == [[12, int(state.labels[1])]]
    assert planted.same_partition(after.labels.tolist(), [*CLUSTERS, 1])
    assert "newcomers" not in method.step(fed, after)[1].values  # told once


@pytest.mark.parametrize("seed", range(3))
def test_lost_clients_are_no_accident(seed):
    clusters = [0, 1, 2] * 8
    done = planted.run(OneMessage(**(SETTINGS | {"rounds": 6})), make_clients(clusters), seed=seed, drop_rate=0.3)
    assert len(done.records) == 7
    assert bool(done.states[-1].models.isfinite().all())
    assert any(record.missing for record in done.records)
    for record in done.records:
        assert not set(record.answered) & set(record.missing)
    known = [i for i in range(24) if done.labels[i] != UNKNOWN]
    assert len(known) > 20
    assert planted.same_partition([done.labels[i] for i in known], [clusters[i] for i in known])


def test_messages_are_asked_for_again_but_not_for_ever():
    exchanges = [(1 + attempt, client) for attempt in range(1, 30) for client in range(12)]
    fed = Watched(make_clients(), failures=exchanges)
    method = OneMessage(**SETTINGS)
    state = method.init(fed)
    for _ in range(19):
        state, record = method.step(fed, state)
        assert record.values["labels"] == [-1] * 12
    with pytest.raises(FedkinError, match=r"messages of 1 or more clients .* attempt 20 of 20 \(lost on purpose\)"):
        method.step(fed, state)


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def tree_cuts_planted(sizes: list[int], bits: int = 200, flips: float = 0.1, seed: int = 0) -> tuple[Tensor, list[int]]:
    """Bits of clusters with random centres, flipped, in a shuffled order; and the clusters."""
    draws = rng(seed)
    truth = torch.tensor([number for number, size in enumerate(sizes) for _ in range(size)])
    truth = truth[torch.randperm(len(truth), generator=draws)]
    centres = torch.rand(len(sizes), bits, generator=draws) < 0.5
    noise = torch.rand(len(truth), bits, generator=draws) < flips
    return (centres[truth] ^ noise).to(torch.uint8), truth.tolist()


def agreement(found: Clustering, truth: list[int]) -> float:
    return float(adjusted_rand_score(truth, found.labels.tolist()))


@settings(max_examples=10, deadline=None)
@given(st.integers(5, 40), st.integers(2, 12), st.integers(0, 10_000))
def test_every_cut_of_the_tree_is_scored_as_scikit_learn_does(n, d, seed):
    numbers = torch.randn(n, d, generator=rng(seed), dtype=torch.float64).numpy()
    tree = ward.ward_tree(numbers)
    index = tree.calinski_harabasz()
    assert np.isnan(index[[0, -1]]).all()
    for done in range(1, n - 1):
        labels = tree.labels(done)
        assert len(set(labels.tolist())) == n - done
        assert index[done] == pytest.approx(calinski_harabasz_score(numbers, labels))
        assert tree.too_small(3)[done] == (np.bincount(labels) < 3).sum()


@pytest.mark.parametrize("n", [40, 100])
@pytest.mark.parametrize("flips", [0.0, 0.1, 0.5])
def test_one_population_is_nearly_always_one_cluster(n, flips):
    separable = 0
    for seed in range(6):
        found = cluster(tree_cuts_planted([n], flips=flips, seed=seed)[0], "exact", 3, rng(seed))
        separable += found.separable
        assert found.separable or found.labels.tolist() == [0] * n
        assert found.separable or found.cut is None
    assert separable <= 1


@settings(max_examples=4, deadline=None)
@given(order=st.permutations(range(60)), seed=st.integers(0, 100))
def test_the_order_of_clients_does_not_matter(order, seed):
    points, _ = tree_cuts_planted([20, 25, 15], seed=seed)
    straight, shuffled = (cluster(each, "exact", 5, rng(seed)) for each in (points, points[list(order)]))
    assert adjusted_rand_score(straight.labels[list(order)].tolist(), shuffled.labels.tolist()) == 1.0


@pytest.mark.parametrize("mode", ["bayes", "exact"])
def test_planted_clusters_are_found(mode):
    points, truth = tree_cuts_planted([60, 50, 40], flips=0.1)
    assert agreement(cluster(points, mode, 10, rng()), truth) == 1.0
