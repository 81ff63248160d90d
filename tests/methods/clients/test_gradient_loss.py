"""Clustering by gradient and loss: equations 1-7 by hand, and what is done about empty clusters."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import planted
from fedkin.engines.local import LocalFederation
from fedkin.methods.clients.gradient_loss import GradientLossMethod, preference

MOVES = torch.tensor([[-2.0, 0.0], [0.0, 5.0], [1.0, 1.0]])


GRADIENTS = torch.tensor([[1.0, 0.0], [3.0, 4.0], [0.0, -2.0]])


LOSSES = torch.tensor([0.5, 1.0, 2.0])


CLUSTERS = [0, 1, 1, 0, 1, 0, 0, 1]
SETTINGS = planted.FULL_BATCH | {"n_clusters": 2}


def wanted(losses: Tensor, gradients: Tensor, moves: Tensor, **options: object) -> Tensor:
    defaults = {"balance": 0.25, "sign": "descent", "similarity": "cosine", "learning_rate": 0.5}
    return preference(losses, gradients, moves, defaults | options)


def make_clients() -> list[planted.Client]:
    return planted.clients(CLUSTERS, planted.OPPOSITE)


numbers = st.lists(st.floats(-5, 5, width=32), min_size=6, max_size=6)


@given(numbers, numbers, numbers)
def test_preferences_stay_between_their_bounds(losses, gradients, moves):
    loss = torch.tensor(losses[:3]).abs()
    gradient, move = torch.tensor(gradients).view(3, 2), torch.tensor(moves).view(3, 2)
    similarity = wanted(loss, gradient, move, balance=1.0)
    assert bool((similarity.abs() <= 1 + 1e-5).all())
    assert torch.allclose(wanted(loss, gradient, move, balance=1.0, sign="printed"), -similarity)
    assert torch.equal(wanted(loss, gradient, move, balance=0.0), -loss)


def test_a_round_is_computed_by_hand():
    done = planted.run(GradientLossMethod(**SETTINGS, rounds=3, balance=0.4, empty="keep"), make_clients(), seed=1)
    for before, after in zip(done.states, done.states[1:], strict=False):
        sums, counts = torch.zeros_like(before.models), torch.zeros(2, 1)
        for client in done.fed.clients.values():
            gradients = torch.stack([planted.gradient(before.module, one, client.x, client.y) for one in before.models])
            judged = torch.tensor(planted.losses(before.module, before.models, client.x, client.y))
            lengths = (gradients.norm(dim=1) * before.moves.norm(dim=1)).clamp_min(1e-30)
            cluster = int((0.4 * -(gradients * before.moves).sum(1) / lengths - 0.6 * judged).argmax())
            assert cluster == int(after.labels[client.id])
            sums[cluster] -= 0.5 * gradients[cluster]
            counts[cluster] += 1
        moves = sums / counts.clamp_min(1)
        assert torch.allclose(after.moves, moves, atol=1e-6)
        assert torch.allclose(after.models, before.models + moves, atol=1e-6)


def test_a_stand_in_trains_the_cluster_it_stands_in_for_and_stays_in_its_own():
    settings = planted.FULL_BATCH | {"n_clusters": 3, "rounds": 1}
    sites = [planted.client(0), planted.client(1), planted.client(2)]
    method, chosen = (
        GradientLossMethod(**settings),
        planted.run(GradientLossMethod(**settings, empty="keep"), sites).labels,
    )
    done = planted.run(method, sites)
    start, end = done.states
    assert len(set(chosen)) < 3
    assert done.labels == done.values[0]["labels"] == chosen
    stand_ins = method._stand_ins(done.fed, start, [0, 1, 2])
    assert sorted(stand_ins.values()) == [0, 1, 2]
    for client, cluster in stand_ins.items():
        site = done.fed.clients[client]
        gradient = planted.gradient(start.module, start.models[cluster], site.x, site.y)
        assert torch.allclose(end.models[cluster], start.models[cluster] - 0.5 * gradient, atol=1e-6)


def test_a_model_that_has_diverged_is_nobodys_choice():
    method = GradientLossMethod(**SETTINGS, empty="keep")
    fed = LocalFederation(make_clients(), workers=1)
    state = method.init(fed)
    state.models[0] = torch.nan
    after, record = method.step(fed, state)
    assert record.missing == {}
    assert after.labels.tolist() == [1] * 8
    assert not torch.equal(after.models[1], state.models[1])


def test_a_single_sample_and_a_batch_norm_are_a_missing_reply():
    method = GradientLossMethod(**(SETTINGS | {"module": "planted:normalised", "rounds": 2}), empty="keep")
    done = planted.run(method, [planted.client(0), planted.client(1), planted.client(2, samples=1)])
    assert [list(record.missing) for record in done.records] == [[2], [2]]


def test_the_euclidean_similarity_is_minus_the_distance_at_the_gradients_scale():
    """Moves over a learning rate of 0.5: (-4, 0), (0, 10), (2, 2); descent: (-1, 0), (-3, -4), (0, 2)."""
    distance = torch.tensor([3.0, (9.0 + 196.0) ** 0.5, 2.0])
    expected = -0.25 * distance - 0.75 * LOSSES
    assert torch.allclose(wanted(LOSSES, GRADIENTS, MOVES, similarity="euclidean"), expected)
