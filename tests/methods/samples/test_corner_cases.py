"""Federations that are easy to get wrong: few clients, lone clusters, unequal clusters."""

import numpy as np
from sklearn.metrics import adjusted_rand_score

import fedkin

CENTRES = np.random.default_rng(0).uniform(-10, 10, (8, 20))


def fit(held, sizes, **options):
    """The model of clients that hold blobs: ``held[i]`` their numbers and ``sizes[i]`` how many samples of each."""
    noise = np.random.default_rng(1)
    truth = [np.repeat(own, counts) for own, counts in zip(held, sizes, strict=True)]
    clients = [CENTRES[own] + noise.normal(0, 1, (len(own), 20)) for own in truth]
    model = fedkin.FedCRef(random_state=0, rounds=3, max_iterations=2, **options).fit(clients)
    return model, adjusted_rand_score(np.concatenate(truth), np.concatenate(model.labels_))


def test_two_clients_are_enough():
    model, agreement = fit([(0, 1, 2), (1, 2, 3)], [(60, 60, 60)] * 2)
    assert agreement == 1.0
    assert sorted(map(len, model.communities_)) == [1, 1, 2, 2]


def test_clusters_largest_client_share_stay_alone():
    model, agreement = fit([(0, 1, 6), (1, 2), (0, 2, 7), (0, 1, 2)], [(60,) * 3, (60,) * 2, (60,) * 3, (60,) * 3])
    assert agreement > 0.9
    assert model.n_clusters_ == 5


def test_one_cluster_is_one_where_clients_know_that_they_hold_one():
    model, _ = fit([(0,)] * 4, [(60,)] * 4, n_clusters=1)
    assert model.n_clusters_ == 1


def test_unequal_clusters_are_found_where_clients_know_their_number():
    model, agreement = fit(
        [(0, 1, 2), (1, 2), (0, 2), (0, 1)], [(300, 20, 60), (200, 15), (10, 150), (30, 300)], n_clusters=[3, 2, 2, 2]
    )
    assert agreement > 0.98
    assert model.n_clusters_ == 3


def test_a_single_client_keeps_its_clusters():
    model, agreement = fit([(0, 1, 2)], [(60, 60, 60)])
    assert agreement == 1.0
    assert [len(members) for members in model.communities_] == [1, 1, 1]
