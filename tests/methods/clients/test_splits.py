"""Methods that part clients by their updates."""

import dataclasses
import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pytest
import torch

import planted
from fedkin.core import Client, Federation
from fedkin.engines.local import LocalFederation
from fedkin.methods.clients.ocfl import OCFLMethod, OCFLState, temperature
from fedkin.methods.clients.sattler import SattlerMethod, SattlerState, bipartition
from fedkin.methods.clients.update_splits import (
    Division,
    SplitState,
    UpdateMethod,
    Updates,
    cosine_distances,
)

CLUSTERS = [0, 3, 0, 3, 0, 3]


@dataclass(frozen=True)
class PlannedSplit(UpdateMethod):
    """Divides the clients by their planted clusters in the given round, counted from 1."""

    at: int = 2

    def can_split(self, state: SplitState) -> bool:
        return state.steps + 1 == self.at

    def split(self, fed: Federation, state: SplitState, part: Updates) -> Division:
        parts = [7 - CLUSTERS[client] for client in part.clients]
        return Division(parts, {"seen": part.cluster})


def test_a_split_is_remembered_and_its_first_part_keeps_the_number():
    done = planted.run(PlannedSplit(**planted.FULL_BATCH, rounds=3), planted.clients(CLUSTERS))
    assert [values["labels"] for values in done.values] == [[0] * 6, [0, 1] * 3, [0, 1] * 3]
    assert [values["fired"] for values in done.values] == [False, True, False]
    assert [values["sizes"] for values in done.values] == [[6], [3, 3], [3, 3]]
    assert done.values[1]["seen"] == 0
    (split,) = done.states[-1].splits
    assert (split["round"], split["cluster"], split["clusters"]) == (2, 0, [0, 1])
    assert (split["clients"], split["parts"]) == (list(range(6)), [0, 1] * 3)
    assert torch.equal(split["model"], done.states[1].models[0])
    steps = torch.stack(
        [
            -0.5 * planted.gradient(done.states[1].module, split["model"], client.x, client.y)
            for client in done.fed.clients.values()
        ]
    )
    assert torch.allclose(split["directions"], torch.stack([steps[::2].mean(0), steps[1::2].mean(0)]), atol=1e-6)
    assert torch.allclose(done.states[2].models, split["model"] + split["directions"], atol=1e-6)


def test_whoever_missed_a_split_trains_the_model_of_that_time_and_moves_no_other():
    lost = [(3, 1), (3, 4), (4, 4)]
    done = planted.run(PlannedSplit(**planted.FULL_BATCH, rounds=4), planted.clients(CLUSTERS), failures=lost)
    assert [values["labels"] for values in done.values[1:]] == [
        [0, -1, 0, 1, -1, 1],
        [0, 1, 0, 1, -1, 1],
        [0, 1, 0, 1, 0, 1],
    ]
    before, after = done.states[2:4]
    inside = [
        -0.5 * planted.gradient(before.module, before.models[1], client.x, client.y)
        for client in (done.fed.clients[3], done.fed.clients[5])
    ]
    assert torch.allclose(after.models[1] - before.models[1], torch.stack(inside).mean(0), atol=1e-6)


SATTLER_CLUSTERS = [3, 0, 2, 1, 1, 3, 0, 2, 0, 2, 3, 1, 0, 1, 2, 3]
SETTINGS = planted.LEARNING | {"rounds": 30, "cooldown": 3}


@pytest.fixture(scope="module")
def found() -> planted.Run:
    """A run that finds the four clusters."""
    return planted.run(SattlerMethod(**SETTINGS), make_clients())


def make_clients(clusters: list[int] = SATTLER_CLUSTERS) -> list[planted.Client]:
    return planted.clients(clusters)


def halves(split: dict[str, Any], clusters: list[int] = SATTLER_CLUSTERS) -> set[frozenset[int]]:
    """Planted clusters in each half of a split."""
    pairs = list(zip(split["clients"], split["parts"], strict=True))
    return {frozenset(clusters[client] for client, part in pairs if part == half) for half in (0, 1)}


def part(*updates: tuple[float, ...], weights: list[float] | None = None) -> Updates:
    stack = torch.tensor(updates)
    return Updates(0, list(range(len(stack))), stack, stack, weights or [1.0] * len(stack))


def cut(method: SattlerMethod, cluster: Updates, **state: Any) -> list[int] | None:
    fed = LocalFederation(make_clients([0] * len(cluster.clients)))
    return method.split(fed, SattlerState(steps=9, **state), cluster).parts


RIGHT, LEFT, LITTLE = (2.0, 0.1), (-2.0, 0.1), (0.02, 0.0)


def test_a_cluster_is_cut_where_its_mean_rests_and_its_clients_do_not():
    assert cut(SattlerMethod(), part(RIGHT, LEFT, RIGHT, LEFT)) in ([0, 1, 0, 1], [1, 0, 1, 0])
    assert cut(SattlerMethod(), part(RIGHT, RIGHT, RIGHT, LEFT)) is None  # the mean still moves: (1.0, 0.1)
    assert cut(SattlerMethod(), part(RIGHT, LEFT)) is None  # two clients are no cluster to cut


def test_the_cut_is_that_of_complete_linkage():
    """The widest gap is after the first direction, where single linkage cuts."""
    halves = [0, 0, 1, 1, 1, 1]
    angles = torch.deg2rad(torch.tensor([0.0, 35.0, 60.0, 80.0, 98.0, 114.0]))
    updates = torch.stack([angles.cos(), angles.sin()], dim=1)
    assert planted.same_partition(bipartition(cosine_distances(updates)), halves)
    always = SattlerMethod(mean_below=2.0, separation=1.0)
    assert planted.same_partition(cut(always, part(*updates.tolist())), halves)


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
    assert planted.same_partition(done.labels, SATTLER_CLUSTERS)


OCFL_CLUSTERS = [1, 0, 0, 2, 1, 2, 0, 1, 2, 0, 2, 1]
SWAPS = {0: [], 1: [(0, 1), (2, 3)], 2: [(2, 3), (4, 5)]}
OCFL_SETTINGS = planted.LEARNING | {"rounds": 8}


def ocfl_make_clients() -> list[planted.Client]:
    return planted.clients(OCFL_CLUSTERS, SWAPS)


def temperatures(done: planted.Run) -> list[float]:
    return [values["temperature"] for values in done.values if "temperature" in values]


def fired_in(done: planted.Run) -> int:
    """The round, counted from 1."""
    rounds = [number for number, values in enumerate(done.values, 1) if values["fired"]]
    assert len(rounds) == 1
    return rounds[0]


def test_the_temperature_is_equation_4_by_hand():
    gamma = torch.tensor([[0.0, 0.5, 1.5], [0.5, 0.0, 1.0], [1.5, 1.0, 0.0]])
    assert temperature(gamma) == pytest.approx(math.sqrt(2 * (0.25 + 2.25 + 1.0)) / math.sqrt(3 * 2 * 4))


@pytest.mark.parametrize("seed", range(3))
def test_it_fires_at_the_first_rise_of_the_temperature(seed):
    done = planted.run(OCFLMethod(**OCFL_SETTINGS), ocfl_make_clients(), seed=seed)
    seen, at = temperatures(done), fired_in(done)
    assert at >= 2
    assert len(seen) == at  # nobody watches any longer
    assert seen[-1] > seen[-2]
    assert all(later <= earlier for earlier, later in pairwise(seen[:-1]))


def test_temperatures_are_compared_over_clients_that_were_there_in_both_rounds():
    """Clients 0-2 and 3-5 pull apart; with one side away the temperature falls, and rises when it is back."""
    apart = torch.tensor([[1.0, 0.0]] * 3 + [[-1.0, 0.0]] * 3)
    ocfl, fed = OCFLMethod(rounds=5), LocalFederation([Client(i, torch.zeros(1, 1)) for i in range(6)])
    state = OCFLState(labels=torch.zeros(6, dtype=torch.int64))

    def seen(state, clients):
        part = Updates(0, clients, apart[clients], apart[clients], [1.0] * len(clients))
        division = ocfl.split(fed, state, part)
        return replace(state, **division.changes), division.parts, division.values["temperature"]

    state, parts, all_there = seen(state, [0, 1, 2, 3, 4, 5])
    assert parts is None
    state, parts, some_there = seen(state, [0, 1, 2])
    assert parts is None
    assert some_there < all_there
    state, parts, all_there_again = seen(state, [0, 1, 2, 3, 4, 5])
    assert all_there_again > some_there
    assert parts is None  # among clients 0-2, who were there both times, nothing has risen
