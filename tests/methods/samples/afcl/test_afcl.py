"""AFCL: seeds meet in clusters; clients that are missing are stood in for; what is wrong is said."""

import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_rand_score

from fedkin.core import Client, FedkinError
from fedkin.engines.local import LocalFederation
from fedkin.methods.samples.afcl import AFCLMethod, propose_seeds, pull, send_group_means

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


def test_a_lost_client_is_stood_in_for_by_what_it_sent_last():
    people, truth = corners()
    lost = [(exchange, 1) for exchange in (4, 5)]
    state, records, found = run(AFCLMethod(seeds=6, rounds=3), people, failures=lost)
    assert list(records[-1].missing) == [1]
    assert 1 < state.times["1"] <= state.times["0"]
    assert len(found) == len(truth)


def test_clients_too_small_to_send_a_mean_are_assigned_all_the_same():
    people, _ = corners()
    people.append(Client(4, CORNERS[:1]))
    state, _, found = run(AFCLMethod(seeds=4, rounds=2), people)
    assert len(state.means["4"]) == 0
    assert int(found[-1]) in range(4)
    with pytest.raises(FedkinError, match=r"No client sent AFCL a seed in 20 attempts .*a client needs 9 samples"):
        run(AFCLMethod(members=9), [Client(0, torch.rand(8, 2)), Client(1, torch.rand(5, 2))])


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


SEEDS = torch.tensor([[0.0, 0.0], [1.0, 1.0], [8.0, 8.0]])


ASK = {"features": "raw", "members": 3, "seeds": SEEDS, "lowest": torch.zeros(2), "span": torch.ones(2)}


def client(count: int, seed: int = 0) -> Client:
    rng = torch.Generator().manual_seed(seed)
    return Client(0, torch.rand(count, 2, generator=rng), rng=rng)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 20, 41])
def test_no_mean_is_of_fewer_samples_and_all_are_counted(count: int):
    one = client(count)
    for task, ask in ((propose_seeds, {**ASK, "seeds": 4}), (send_group_means, ASK)):
        (reply,) = task.run([one], [ask])
        assert reply["counts"].tolist() == [] if count < 3 else int(reply["counts"].min()) >= 3
        if count >= 3:
            assert int(reply["counts"].sum()) == count
            whole = (reply["means"] * reply["counts"][:, None]).sum(0)
            torch.testing.assert_close(whole, one.x.sum(0), rtol=1e-4, atol=1e-4)
        assert task.refusal(reply) is None
