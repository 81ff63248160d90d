"""OCFL: the temperature, when it fires, and that it fires once."""

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import planted
from fedkin.core import Client
from fedkin.engines.local import LocalFederation
from fedkin.methods.clients.ocfl import OCFLMethod, OCFLState, temperature
from fedkin.methods.clients.update_splits import Round, UpdateDistances, cosine_distances

CLUSTERS = [1, 0, 0, 2, 1, 2, 0, 1, 2, 0, 2, 1]
SWAPS = {0: [], 1: [(0, 1), (2, 3)], 2: [(2, 3), (4, 5)]}
SETTINGS = planted.LEARNING | {"rounds": 8}


def make_clients() -> list[planted.Client]:
    return planted.clients(CLUSTERS, SWAPS)


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


@given(
    st.lists(st.lists(st.floats(-9, 9), min_size=4, max_size=4), min_size=2, max_size=6),
    st.lists(st.floats(0.01, 100), min_size=6, max_size=6),
)
def test_the_lengths_of_updates_do_not_matter_to_it(rows, lengths):
    updates = torch.tensor(rows, dtype=torch.float64).round(decimals=2)
    now = temperature(cosine_distances(updates))
    assert 0.0 <= now <= 1.0 + 1e-9
    stretched = updates * torch.tensor(lengths[: len(rows)], dtype=torch.float64)[:, None]
    assert temperature(cosine_distances(stretched)) == pytest.approx(now, abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_it_fires_at_the_first_rise_of_the_temperature(seed):
    done = planted.run(OCFLMethod(**SETTINGS), make_clients(), seed=seed)
    seen, at = temperatures(done), fired_in(done)
    assert at >= 2
    assert len(seen) == at  # nobody watches any longer
    assert seen[-1] > seen[-2]
    assert all(later <= earlier for earlier, later in pairwise(seen[:-1]))


def test_the_same_updates_move_the_models_of_the_new_clusters():
    unequal = [planted.client(i, SWAPS[cluster], samples=12 + 6 * (i % 3)) for i, cluster in enumerate(CLUSTERS)]
    settings = planted.FULL_BATCH | {"rounds": 20, "clusterer": "kmeans"}
    done = planted.run(OCFLMethod(**settings), unequal)
    at = fired_in(done)
    before, after = done.states[at - 1 : at + 1]
    assert len(after.models) == 3
    for cluster in range(3):
        steps = [
            -0.5 * planted.gradient(before.module, before.models[0], client.x, client.y)
            for client in done.fed.clients.values()
            if int(after.labels[client.id]) == cluster
        ]
        assert torch.allclose(after.models[cluster] - before.models[0], torch.stack(steps).mean(0), atol=1e-6)


def test_temperatures_are_compared_over_clients_that_were_there_in_both_rounds():
    """Clients 0-2 and 3-5 pull apart; with one side away the temperature falls, and rises when it is back."""
    apart = torch.tensor([[1.0, 0.0]] * 3 + [[-1.0, 0.0]] * 3)
    ocfl, fed = OCFLMethod(rounds=5), LocalFederation([Client(i, torch.zeros(1, 1)) for i in range(6)])
    state = OCFLState(labels=torch.zeros(6, dtype=torch.int64))

    def seen(state, clients):
        part = Round(0, clients, apart[clients], apart[clients], [1.0] * len(clients))
        parts, distances, values = ocfl.divided(fed, state, part)
        return (
            replace(state, **ocfl.kept(state, [UpdateDistances(clients, distances, values)])),
            parts,
            values["temperature"],
        )

    state, parts, all_there = seen(state, [0, 1, 2, 3, 4, 5])
    assert parts is None
    state, parts, some_there = seen(state, [0, 1, 2])
    assert parts is None
    assert some_there < all_there
    state, parts, all_there_again = seen(state, [0, 1, 2, 3, 4, 5])
    assert all_there_again > some_there
    assert parts is None  # among clients 0-2, who were there both times, nothing has risen


def test_a_counter_of_batches_drowns_everything_else():
    settings = planted.LEARNING | {"module": "planted:normalised", "local_steps": 20, "rounds": 1}
    first = {}
    for compare in ("parameters", "floats", "everything"):
        done = planted.run(OCFLMethod(**settings, compare=compare), make_clients(), seed=1)
        first[compare] = temperatures(done)[0]
    assert first["everything"] < 0.1 * first["parameters"]
    assert first["floats"] != first["parameters"]


def drifting(method: OCFLMethod, moves: dict[int, int], at: int = 7) -> tuple[list[OCFLState], list[dict[str, Any]]]:
    """Run `method` on the planted clients; before round `at` clients move to other clusters."""
    fed = LocalFederation(make_clients(), seed=1, workers=1)
    states, values = [method.init(fed)], []
    while not states[-1].finished:
        if states[-1].steps + 1 == at:
            for number, cluster in moves.items():
                fed.clients[number] = planted.client(number, SWAPS[cluster])
        state, record = method.step(fed, states[-1])
        states.append(state)
        values.append(record.values)
    return states, values


def test_clients_that_drift_are_placed_again():
    """Client 0 moves from cluster 1 to 0, and client 3 from 2 to 1."""
    moves, settings = {0: 0, 3: 1}, SETTINGS | {"rounds": 12}
    now = [moves.get(number, cluster) for number, cluster in enumerate(CLUSTERS)]
    once, _ = drifting(OCFLMethod(**settings), moves)
    assert planted.same_partition(once[-1].labels.tolist(), CLUSTERS)
    states, values = drifting(OCFLMethod(**settings, again=0.1), moves)
    assert planted.same_partition(states[-1].labels.tolist(), now)
    assert any(values[6]["rises"].values())
    left = {int(once[-1].labels[0]), int(once[-1].labels[3])}
    assert {name for name, rises in values[6]["rises"].items() if rises} == {str(cluster) for cluster in left}
    waiting = {number for number, label in enumerate(states[6].labels.tolist()) if label in left}
    assert set(states[7].pending) == {str(number) for number in waiting}
    assert states[7].labels.tolist() == states[6].labels.tolist()  # meanwhile they keep their cluster's model
    assert states[8].pending == {}


def test_a_single_cluster_that_comes_apart_is_clustered_again():
    people = {number: 1 for number in range(12) if number % 2}
    settings = SETTINGS | {"rounds": 12, "clusterer": "linkage"}

    def last(again: float | None) -> OCFLState:
        method = OCFLMethod(**settings, again=again)
        fed = LocalFederation([planted.client(number) for number in range(12)], seed=1, workers=1)
        state = replace(method.init(fed), fired=True)
        while not state.finished:
            if state.steps + 1 == 6:
                for number, cluster in people.items():
                    fed.clients[number] = planted.client(number, SWAPS[cluster])
            state, _ = method.step(fed, state)
        return state

    assert set(last(None).labels.tolist()) == {0}
    found = last(0.05)
    assert planted.same_partition(found.labels.tolist(), [number % 2 for number in range(12)])
    assert len(found.splits) == 1


def test_as_printed_the_first_round_fires():
    method = OCFLMethod(trigger="printed")
    assert method.fires(None, 0.0)
    assert method.fires(0.5, 0.5)
    assert not method.fires(0.5, 0.4)
