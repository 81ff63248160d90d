"""AFCL: seeds meet in clusters; clients that are missing are stood in for; what is wrong is said."""

import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_rand_score

import fedkin
from fedkin.core import Client, FedkinError
from fedkin.engines.local import LocalFederation
from fedkin.methods.samples.afcl import (
    AFCLMethod,
    AFCLState,
    _balanced,
    centroids_of,
    feature_weights,
    pull,
    spread_of,
)

RATES = np.full(2, 0.1)
CORNERS = torch.tensor([[1.0, 1.0], [1.0, 5.0], [5.0, 5.0], [5.0, 1.0]])


def corners(seed: int = 0, clients: int = 4) -> tuple[list[Client], torch.Tensor]:
    """The paper's first synthetic data set, a third of it: four round clusters of unequal size."""
    rng = torch.Generator().manual_seed(seed)
    truth = torch.repeat_interleave(torch.arange(4), torch.tensor([500, 166, 66, 33]))
    x = CORNERS[truth] + 0.1**0.5 * torch.randn(len(truth), 2, generator=rng)
    own = torch.randperm(len(truth), generator=rng) % clients
    return [Client(i, x[own == i]) for i in range(clients)], torch.cat([truth[own == i] for i in range(clients)])


def run(method: AFCLMethod, people: list[Client], **options):
    fed, records = LocalFederation(people, 0, workers=1, **options), []
    state = method.init(fed)
    while not state.finished:
        state, record = method.step(fed, state)
        records.append(record)
    return state, records, torch.cat([one.state["clusters"] for one in people])


def test_the_papers_corners_are_found():
    people, truth = corners()
    state, records, found = run(AFCLMethod(seeds=4, features="raw"), people)
    assert len(state.centroids) == 4
    assert adjusted_rand_score(truth, found) == pytest.approx(1, abs=0.01)
    assert records[-1].values["clusters"] == 4


def test_seeds_of_one_cluster_meet():
    """Two clusters, six seeds: those in a cluster come together, and the number is found."""
    rng = torch.Generator().manual_seed(1)
    truth = torch.arange(600) % 2
    x = 4 * truth[:, None] + 0.2 * torch.randn(600, 2, generator=rng)
    people = [Client(i, x[i::3]) for i in range(3)]
    state, records, found = run(AFCLMethod(seeds=6, learning_rate=0.02), people)
    assert records[1].values["clusters"] > 2
    assert len(state.centroids) == 2
    assert adjusted_rand_score(torch.cat([truth[i::3] for i in range(3)]), found) == 1


def test_rounds_are_bounded():
    state, records, _ = run(AFCLMethod(seeds=8, rounds=3), corners()[0])
    assert (state.steps, len(records)) == (4, 4)


def test_a_lost_client_is_stood_in_for_by_what_it_sent_last():
    people, truth = corners()
    lost = [(exchange, 1) for exchange in (4, 5)]
    state, records, found = run(AFCLMethod(seeds=6, rounds=3), people, failures=lost)
    assert list(records[-1].missing) == [1]
    assert 1 < state.times["1"] <= state.times["0"]
    assert len(found) == len(truth)


def test_rare_clients_move_seeds_further_and_again():
    assert _balanced({}, ["0", "1"]) == {"0": pytest.approx(2 / 3), "1": pytest.approx(2 / 3)}
    shares = _balanced({"0": 9, "1": 1}, ["0"])
    assert list(shares) == ["0", "1"]
    assert shares["1"] > shares["0"]
    assert list(_balanced({"0": 1, "1": 9}, ["0"])) == ["0"]


def test_some_clients_are_asked_by_turns():
    _, records, _ = run(AFCLMethod(seeds=4, participation=0.5, rounds=6), corners()[0])
    assert all(len(record.answered) == 2 for record in records[1:])
    assert set(records[1].missing.values()) == {"not asked in this round"}
    assert len({tuple(record.answered) for record in records[1:]}) > 1


def test_seeds_that_have_met_are_one_cluster_and_those_without_samples_none():
    state = AFCLState(
        seeds=torch.tensor([[0.0], [0.0005], [0.5], [1.0]]), lowest=torch.tensor([10.0]), span=torch.tensor([2.0]),
        means={"0": torch.tensor([[0.1], [0.9]])},
    )  # fmt: skip
    assert centroids_of(state).flatten().tolist() == pytest.approx([10.0005, 12.0])


def test_clients_too_small_to_send_a_mean_are_assigned_all_the_same():
    people, _ = corners()
    people.append(Client(4, CORNERS[:1]))
    state, _, found = run(AFCLMethod(seeds=4, rounds=2), people)
    assert len(state.means["4"]) == 0
    assert int(found[-1]) in range(4)
    with pytest.raises(FedkinError, match=r"No client sent AFCL a seed in 20 attempts .*a client needs 9 samples"):
        run(AFCLMethod(members=9), [Client(0, torch.rand(8, 2)), Client(1, torch.rand(5, 2))])


def test_the_estimator_finds_the_number():
    people, truth = corners()
    model = fedkin.AFCL(seeds=4, random_state=0).fit([one.x.numpy() for one in people])
    assert model.n_clusters_ == 4
    assert adjusted_rand_score(truth, np.concatenate([*model.labels_])) > 0.98
    with pytest.raises(FedkinError, match="learning_rate"):
        fedkin.AFCL(learning_rate=0.0).fit([one.x.numpy() for one in people])


def moved_seeds(seeds: list[list[float]], means: list[list[float]], counts: list[int]) -> np.ndarray:
    after = np.array(seeds)
    pull(after, np.array(means), np.array(counts), RATES)
    return after


def test_the_winner_moves_and_with_it_seeds_nearer_to_it_than_the_mean_is():
    after = moved_seeds([[0.0, 0.0], [0.1, 0.0], [5.0, 5.0]], [[-1.0, 0.0]], [1])
    assert after == pytest.approx(np.array([[-0.1, 0.0], [-0.01, 0.0], [5.0, 5.0]]))


def test_a_mean_of_several_samples_moves_seeds_as_each_of_them_would():
    once = moved_seeds([[0.0, 0.0]], [[1.0, 2.0]], [3])
    assert once == pytest.approx(moved_seeds([[0.0, 0.0]], [[1.0, 2.0]] * 3, [1, 1, 1]))
    assert moved_seeds([[0.0, 0.0]], [[1.0, 2.0]], [2**53]) == pytest.approx(np.array([[1.0, 2.0]]))


def test_who_has_won_often_lets_others_win():
    seeds = [[0.0, 0.0], [2.0, 0.0]]
    assert moved_seeds(seeds, [[0.5, 0.0], [0.5, 0.0]], [1, 1])[1] == pytest.approx([2.0, 0.0])
    assert moved_seeds(seeds, [[-0.5, 0.0], [0.5, 0.0]], [30, 1])[1] == pytest.approx([1.85, 0.0])


def test_features_in_which_samples_differ_less_have_more_weight():
    even = torch.full((3,), 1 / 3, dtype=torch.float64)
    gaps = torch.tensor([[1.0, 0.1, 0.0], [-1.0, 0.1, 0.0]], dtype=torch.float64)
    weights = feature_weights(gaps, even)
    assert float(weights.sum()) == pytest.approx(1)
    assert float(weights[1] / weights[0]) == pytest.approx(10 ** (1 / 7))
    assert float(weights[2]) == 0
    assert feature_weights(torch.zeros_like(gaps), weights).equal(even)


def test_one_cluster_has_no_spread():
    means = torch.tensor([[0.0], [1.0], [9.0], [10.0]])
    assert spread_of(means, torch.tensor([[0.5], [9.5]])) == pytest.approx(1 / 9)
    assert spread_of(means, torch.tensor([[5.0]])) == 0
