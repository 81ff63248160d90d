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
from fedkin.core import Client, FedkinError
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


def test_the_temperature_is_a_half_of_orthogonal_updates():
    for n in (2, 3, 10):
        assert temperature(cosine_distances(torch.eye(n))) == pytest.approx(0.5)


def test_the_temperature_is_0_of_equal_updates_and_1_of_two_opposite_ones():
    assert temperature(cosine_distances(torch.ones(4, 3))) == pytest.approx(0.0, abs=1e-7)
    assert temperature(cosine_distances(torch.tensor([[1.0, 2.0], [-2.0, -4.0]]))) == pytest.approx(1.0)
    assert temperature(torch.zeros(1, 1)) == 0.0


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


def test_the_first_rise_is_strict_and_never_comes_first():
    method = OCFLMethod()
    assert not method.fires(None, 0.9)
    assert not method.fires(0.5, 0.5)
    assert not method.fires(0.5, 0.4)
    assert method.fires(0.5, 0.5000001)


def test_as_printed_the_first_round_fires():
    method = OCFLMethod(trigger="printed")
    assert method.fires(None, 0.0)
    assert method.fires(0.5, 0.5)
    assert not method.fires(0.5, 0.4)


@pytest.mark.parametrize("seed", range(3))
def test_it_fires_at_the_first_rise_of_the_temperature(seed):
    done = planted.run(OCFLMethod(**SETTINGS), make_clients(), seed=seed)
    seen, at = temperatures(done), fired_in(done)
    assert at >= 2
    assert len(seen) == at  # nobody watches any longer
    assert seen[-1] > seen[-2]
    assert all(later <= earlier for earlier, later in pairwise(seen[:-1]))


@pytest.mark.parametrize(
    "options", [{}, *({"clusterer": one} for one in ("kmeans", "affinity", "linkage")), {"again": 0.2}]
)
def test_planted_clusters_are_found_and_stay(options):
    done = planted.run(OCFLMethod(**SETTINGS, **options), make_clients(), seed=1)
    at = fired_in(done)
    assert planted.same_partition(done.labels, CLUSTERS)
    assert all(values["labels"] == done.labels for values in done.values[at - 1 :])
    assert all(set(values["labels"]) == {0} for values in done.values[: at - 1])
    assert done.result["n_clusters"] == 3
    for client in done.fed.clients.values():
        assert torch.equal(OCFLMethod.predict(done.result, client.x, client.id), client.y)


def test_as_printed_clients_are_clustered_in_the_first_round():
    assert fired_in(planted.run(OCFLMethod(**SETTINGS, trigger="printed", clusterer="kmeans"), make_clients())) == 1


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


def test_one_cluster_is_clustered_once_too():
    """Where the clusterer finds a single cluster that is final (line 21 of the algorithm)."""
    done = planted.run(OCFLMethod(**SETTINGS, clusterer="kmeans", n_clusters=1), make_clients())
    seen = temperatures(done)
    assert 2 <= len(seen) < 8
    assert seen[-1] > seen[-2]
    assert done.labels == [0] * 12
    assert done.states[-1].fired


def test_a_lone_answer_has_no_temperature():
    lost = [(3, client) for client in range(1, 12)]
    done = planted.run(OCFLMethod(**SETTINGS), make_clients(), failures=lost)
    assert done.values[1]["temperature"] is None
    assert done.states[2].present == done.states[1].present == list(range(12))
    assert not done.states[2].fired


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


def test_whoever_missed_the_clustering_is_placed_on_coming_back():
    at = fired_in(planted.run(OCFLMethod(**SETTINGS), make_clients(), seed=1))
    lost = [(at + 1, 3), (at + 1, 7), (at + 2, 7)]
    done = planted.run(OCFLMethod(**SETTINGS), make_clients(), seed=1, failures=lost)
    assert fired_in(done) == at
    after, later, last = (done.states[at + more] for more in range(3))
    assert after.labels[[3, 7]].tolist() == [-1, -1]
    assert set(after.pending) == {"3", "7"}
    assert int(later.labels[3]) >= 0
    assert int(later.labels[7]) == -1
    assert last.pending == {}
    assert planted.same_partition(done.labels, CLUSTERS)


def test_whoever_never_answered_has_no_cluster_and_the_first_model():
    lost = [(exchange, 5) for exchange in range(2, 12)]
    done = planted.run(OCFLMethod(**SETTINGS), make_clients(), seed=1, failures=lost)
    assert done.labels[5] == -1
    assert torch.equal(OCFLMethod.model_of(done.result, 5), done.result["models"][0])
    rest = [at for at in range(12) if at != 5]
    assert planted.same_partition([done.labels[at] for at in rest], [CLUSTERS[at] for at in rest])


def test_a_counter_of_batches_drowns_everything_else():
    settings = planted.LEARNING | {"module": "planted:normalised", "local_steps": 20, "rounds": 1}
    first = {}
    for compare in ("parameters", "floats", "everything"):
        done = planted.run(OCFLMethod(**settings, compare=compare), make_clients(), seed=1)
        first[compare] = temperatures(done)[0]
    assert first["everything"] < 0.1 * first["parameters"]
    assert first["floats"] != first["parameters"]


def test_permuted_clients_are_in_the_permuted_clusters():
    order = [3, 7, 0, 11, 5, 1, 9, 6, 2, 10, 4, 8]
    one = planted.run(OCFLMethod(**SETTINGS), make_clients())
    other = planted.run(OCFLMethod(**SETTINGS), planted.permuted(make_clients(), order))
    assert temperatures(one) == pytest.approx(temperatures(other), abs=1e-4)
    assert planted.same_partition(other.labels, [one.labels[old] for old in order])


def test_a_round_is_one_exchange():
    done = planted.run(OCFLMethod(**SETTINGS), make_clients())
    assert done.exchanges == [1] * 8


@pytest.mark.parametrize("clusterer", ["hdbscan", "kmeans", "meanshift", "affinity", "linkage"])
def test_lost_clients_are_no_accident(clusterer):
    planted.outlives_losses(OCFLMethod, rounds=6, clusterer=clusterer)
    planted.outlives_losses(OCFLMethod, rounds=6, clusterer=clusterer, again=0.01)


def test_newcomers_join_by_their_updates():
    done = planted.run(OCFLMethod(**SETTINGS), make_clients(), seed=1)
    for cluster in SWAPS:
        new = planted.client(70 + cluster, SWAPS[cluster])
        assert OCFLMethod.assign(done.result, new) == done.labels[CLUSTERS.index(cluster)]


def test_the_clustering_draws_from_the_seed():
    def labels(seed: int) -> list[int]:
        method = OCFLMethod(clusterer="kmeans", n_clusters=4)
        rough = torch.rand(12, 12, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        return method.clustered(LocalFederation(make_clients(), seed=seed), method.state_type(), rough + rough.T)

    assert labels(1) == labels(1)
    assert any(labels(seed) != labels(1) for seed in range(2, 9))


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_a_given_number_of_clusters_is_what_linkage_finds(count):
    done = planted.run(OCFLMethod(**SETTINGS, n_clusters=count), make_clients())
    assert done.result["n_clusters"] == len(set(done.labels)) == count


@pytest.mark.parametrize(
    ("options", "said"),
    [
        *[
            (
                {"clusterer": name, "n_clusters": 5},
                f"n_clusters is 5, but it has no effect with clusterer = '{name}', which finds the number itself "
                "('linkage' and 'kmeans' take one); leave it out.",
            )
            for name in ("hdbscan", "meanshift", "affinity")
        ],
        ({"smallest_cluster": 0.3}, "smallest_cluster is 0.3, but it has no effect with clusterer = 'linkage'; leave"),
        ({"clusterer": "kmeans", "noise": "nearest"}, "noise is 'nearest', but it has no effect with clusterer = 'kme"),
        ({"clusterer": "hdbscan", "similarity": "paper"}, "similarity is 'paper', but it has no effect with clus"),
    ],
)
def test_an_option_without_effect_is_refused(options, said):
    with pytest.raises(FedkinError) as caught:
        OCFLMethod(**options)
    assert str(caught.value).startswith(said)


def test_k_means_has_three_clusters_if_none_are_given():
    done = planted.run(OCFLMethod(**SETTINGS, clusterer="kmeans"), make_clients())
    assert planted.same_partition(done.labels, CLUSTERS)


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
