"""Recursive bipartition: planted clusters in two levels, and when a cluster is cut at all."""

import dataclasses
from typing import Any

import pytest
import torch
from sklearn.metrics import adjusted_rand_score

import planted
from fedkin.engines.local import LocalFederation
from fedkin.methods.clients.sattler import SattlerMethod, SattlerState, bipartition
from fedkin.methods.clients.update_splits import Round, cosine_distances

CLUSTERS = [3, 0, 2, 1, 1, 3, 0, 2, 0, 2, 3, 1, 0, 1, 2, 3]
SETTINGS = planted.LEARNING | {"rounds": 30, "cooldown": 3}


@pytest.fixture(scope="module")
def found() -> planted.Run:
    """A run that finds the four clusters."""
    return planted.run(SattlerMethod(**SETTINGS), make_clients())


def make_clients(clusters: list[int] = CLUSTERS) -> list[planted.Client]:
    return planted.clients(clusters)


def halves(split: dict[str, Any], clusters: list[int] = CLUSTERS) -> set[frozenset[int]]:
    """Planted clusters in each half of a split."""
    pairs = list(zip(split["clients"], split["parts"], strict=True))
    return {frozenset(clusters[client] for client, part in pairs if part == half) for half in (0, 1)}


@pytest.mark.parametrize("seed", range(3))
def test_two_levels_of_planted_clusters_are_found(seed):
    done = planted.run(SattlerMethod(**SETTINGS), make_clients(), seed=seed)
    splits = done.states[-1].splits
    assert len(splits) == 3
    assert halves(splits[0]) == {frozenset({0, 1}), frozenset({2, 3})}
    assert sorted(splits[0]["clients"]) == list(range(16))
    below = {frozenset(half) for split in splits[1:] for half in halves(split)}
    assert below == {frozenset({cluster}) for cluster in range(4)}
    for split in splits[1:]:  # positions in the cluster, not ids, are what a second cut gets to see
        inside = {CLUSTERS[client] for client in split["clients"]}
        assert inside in ({0, 1}, {2, 3})
        assert split["clients"] == [client for client in range(16) if CLUSTERS[client] in inside]
    assert adjusted_rand_score(CLUSTERS, done.labels) == 1.0
    assert adjusted_rand_score(CLUSTERS, done.values[-1]["labels"]) == 1.0
    assert done.result["n_clusters"] == 4


def test_every_cluster_ends_with_a_model_that_serves_it():
    done = planted.run(SattlerMethod(**SETTINGS, cache=False), make_clients())
    for client in done.fed.clients.values():
        assert torch.equal(SattlerMethod.predict(done.result, client.x, client.id), client.y)


@pytest.mark.parametrize("order", [[5, 3, 15, 0, 9, 1, 7, 11, 2, 14, 8, 13, 6, 4, 12, 10], list(range(15, -1, -1))])
def test_permuted_clients_are_in_the_permuted_clusters(found, order):
    other = planted.run(SattlerMethod(**SETTINGS), planted.permuted(make_clients(), order))
    assert planted.same_partition(other.labels, [found.labels[old] for old in order])
    rounds = [[split["round"] for split in done.states[-1].splits] for done in (found, other)]
    assert rounds[0] == rounds[1]


def test_clients_of_one_cluster_stay_together():
    done = planted.run(SattlerMethod(**SETTINGS), make_clients([2] * 10))
    assert done.labels == [0] * 10
    assert done.states[-1].splits == []


@pytest.mark.parametrize("cooldown", [0, 2, 6])
def test_no_cluster_is_cut_before_its_time(cooldown):
    done = planted.run(SattlerMethod(**(SETTINGS | {"cooldown": cooldown})), make_clients())
    born = {0: 0}
    assert len(done.states[-1].splits) >= 3
    for split in done.states[-1].splits:
        assert split["round"] - born[split["cluster"]] > cooldown
        born |= dict.fromkeys(split["clusters"], split["round"])


def part(*updates: tuple[float, ...], weights: list[float] | None = None) -> Round:
    stack = torch.tensor(updates)
    return Round(0, list(range(len(stack))), stack, stack, weights or [1.0] * len(stack))


def cut(method: SattlerMethod, cluster: Round, **state: Any) -> list[int] | None:
    fed = LocalFederation(make_clients([0] * len(cluster.clients)))
    return method.divided(fed, SattlerState(steps=9, **state), cluster)[0]


RIGHT, LEFT, LITTLE = (2.0, 0.1), (-2.0, 0.1), (0.02, 0.0)


def test_a_cluster_is_cut_where_its_mean_rests_and_its_clients_do_not():
    assert cut(SattlerMethod(), part(RIGHT, LEFT, RIGHT, LEFT)) in ([0, 1, 0, 1], [1, 0, 1, 0])
    assert cut(SattlerMethod(), part(RIGHT, RIGHT, RIGHT, LEFT)) is None  # the mean still moves: (1.0, 0.1)
    assert cut(SattlerMethod(), part(RIGHT, LEFT)) is None  # two clients are no cluster to cut


def test_relative_norms_measure_the_mean_by_this_round_and_the_greatest_by_all():
    cluster = part(RIGHT, LEFT, RIGHT, LEFT)  # the mean is 0.05 of the greatest, 2.0
    assert cut(SattlerMethod(mean_below=0.051), cluster)
    assert cut(SattlerMethod(mean_below=0.049), cluster) is None
    assert cut(SattlerMethod(largest_above=0.5), cluster, greatest_norm=3.9)
    assert cut(SattlerMethod(largest_above=0.5), cluster, greatest_norm=4.1) is None
    far = part(*((1e-6 * a, 1e-6 * b) for a, b in (RIGHT, LEFT, RIGHT, LEFT)))
    assert cut(SattlerMethod(), far)  # the scale of a model does not matter


def test_absolute_norms_are_lengths():
    cluster = part(RIGHT, LEFT, RIGHT, LEFT)
    method = SattlerMethod(norms="absolute", mean_below=0.11, largest_above=1.9)
    assert cut(method, cluster, greatest_norm=100.0)
    assert cut(dataclasses.replace(method, mean_below=0.09), cluster) is None
    assert cut(dataclasses.replace(method, largest_above=2.1), cluster) is None


def test_the_mean_is_weighted_as_updates_are():
    cluster = part(RIGHT, LEFT, LITTLE, weights=[1.0, 3.0, 1.0])
    assert cut(SattlerMethod(), cluster) is None
    assert cut(SattlerMethod(), dataclasses.replace(cluster, weights=[1.0, 1.0, 1.0]))


def test_the_record_tells_the_norms():
    settings = planted.FULL_BATCH | {"rounds": 3}
    done = planted.run(SattlerMethod(**settings), make_clients([0, 3, 3]))
    for before, values, after in zip(done.states, done.values, done.states[1:], strict=False):
        updates = torch.stack(
            [
                -0.5 * planted.gradient(before.module, before.models[0], client.x, client.y)
                for client in done.fed.clients.values()
            ]
        )
        mean, largest = values["norms"]["0"]
        assert mean == pytest.approx(float(updates.mean(0).norm()), rel=1e-4)
        assert largest == pytest.approx(float(updates.norm(dim=1).max()), rel=1e-4)
        assert after.greatest_norm == max(values["norms"]["0"][1] for values in done.values[: after.steps])


@pytest.mark.parametrize(("linkage", "halves"), [("complete", [0, 0, 1, 1, 1, 1]), ("single", [0, 1, 1, 1, 1, 1])])
def test_the_cut_is_that_of_the_linkage(linkage, halves):
    """The widest gap is after the first direction, where single linkage cuts."""
    angles = torch.deg2rad(torch.tensor([0.0, 35.0, 60.0, 80.0, 98.0, 114.0]))
    updates = torch.stack([angles.cos(), angles.sin()], dim=1)
    assert planted.same_partition(bipartition(cosine_distances(updates), linkage), halves)
    always = SattlerMethod(mean_below=2.0, separation=1.0, linkage=linkage)
    assert planted.same_partition(cut(always, part(*updates.tolist())), halves)
    assert SattlerMethod().linkage == "complete"


def test_a_client_takes_a_cached_model_that_serves_it_better(found):
    method, done = SattlerMethod(**SETTINGS), found
    assert done.exchanges[-1] == 2
    assert all(exchanges == 1 for exchanges in done.exchanges[:-1])
    last = done.states[-2]
    spoilt = int(last.labels[0])
    models = last.models.clone()
    models[spoilt] = -3 * models[spoilt]
    fed = LocalFederation(make_clients(), workers=1)
    after, _ = method.step(fed, dataclasses.replace(last, models=models))
    assert set(after.choices) == {str(client) for client in range(16) if int(last.labels[client]) == spoilt}
    result = method.result(after)
    for client, choice in after.choices.items():
        site = fed.clients[int(client)]
        options = torch.stack([after.models[spoilt], *(split["model"] for split in after.splits)])
        judged = planted.losses(after.module, options, site.x, site.y)
        way = [at for at, split in enumerate(after.splits) if int(client) in split["clients"]]
        assert choice == min(way, key=lambda at: judged[1 + at])
        assert torch.equal(method.model_of(result, int(client)), after.splits[choice]["model"])
    other = next(client for client in range(16) if str(client) not in after.choices)
    assert torch.equal(method.model_of(result, other), after.models[int(after.labels[other])])


def test_a_client_that_does_not_say_which_cached_model_it_takes_is_missing(found):
    fed = LocalFederation(make_clients(), workers=1, failures=[(2, 5)])
    _, record = SattlerMethod(**SETTINGS).step(fed, found.states[-2])
    assert record.missing == {5: "lost on purpose"}
    assert record.answered == [client for client in range(16) if client != 5]


def test_without_the_cache_nobody_asks():
    done = planted.run(SattlerMethod(**SETTINGS, cache=False), make_clients())
    assert set(done.exchanges) == {1}
    assert done.result["choices"] == {}


def test_a_client_that_was_placed_later_may_go_back_as_well(found):
    rounds = [split["round"] for split in found.states[-1].splits]
    method = SattlerMethod(**SETTINGS)
    away = [(round_ + 1, 4) for round_ in range(rounds[0], rounds[-1] + 1)]
    last = planted.run(method, make_clients(), failures=away).states[-2]
    assert all(4 not in split["clients"] for split in last.splits)
    spoilt = int(last.labels[4])
    models = last.models.clone()
    models[spoilt] = -3 * models[spoilt]
    after, _ = method.step(LocalFederation(make_clients(), workers=1), dataclasses.replace(last, models=models))
    peer = next(client for client in range(16) if client != 4 and int(last.labels[client]) == spoilt)
    assert after.choices["4"] == after.choices[str(peer)]


def test_whoever_was_away_for_several_cuts_walks_down_to_its_cluster(found):
    rounds = [split["round"] for split in found.states[-1].splits]
    away = [(round_ + 1, client) for round_ in range(rounds[0], rounds[-1] + 1) for client in (2, 3)]
    done = planted.run(SattlerMethod(**SETTINGS), make_clients(), failures=away)
    labels = [values["labels"] for values in done.values]
    assert labels[rounds[0] - 2][2] == 0
    assert labels[rounds[0] - 1][2] == labels[rounds[-1] - 1][2] == -1
    assert done.states[-1].pending == {}
    assert planted.same_partition(done.labels, CLUSTERS)


def test_lost_clients_are_no_accident():
    planted.outlives_losses(SattlerMethod, rounds=8, cooldown=0)


def test_newcomers_walk_down_the_tree(found):
    for cluster in range(4):
        new = planted.client(80 + cluster, planted.LEVELS[cluster])
        assert SattlerMethod.assign(found.result, new) == found.labels[CLUSTERS.index(cluster)]
