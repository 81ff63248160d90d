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


def test_whoever_was_away_for_several_cuts_walks_down_to_its_cluster(found):
    rounds = [split["round"] for split in found.states[-1].splits]
    away = [(round_ + 1, client) for round_ in range(rounds[0], rounds[-1] + 1) for client in (2, 3)]
    done = planted.run(SattlerMethod(**SETTINGS), make_clients(), failures=away)
    labels = [values["labels"] for values in done.values]
    assert labels[rounds[0] - 2][2] == 0
    assert labels[rounds[0] - 1][2] == labels[rounds[-1] - 1][2] == -1
    assert done.states[-1].pending == {}
    assert planted.same_partition(done.labels, CLUSTERS)


def test_newcomers_walk_down_the_tree(found):
    for cluster in range(4):
        new = planted.client(80 + cluster, planted.LEVELS[cluster])
        assert SattlerMethod.assign(found.result, new) == found.labels[CLUSTERS.index(cluster)]
