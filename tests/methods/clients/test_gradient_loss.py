"""Clustering by gradient and loss: equations 1-7 by hand, and what is done about empty clusters."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import planted
from fedkin.engines.local import LocalFederation
from fedkin.methods.clients.gradient_loss import GradientLossMethod, preference

CLUSTERS = [0, 1, 1, 0, 1, 0, 0, 1]
SETTINGS = planted.FULL_BATCH | {"n_clusters": 2}
GRADIENTS = torch.tensor([[1.0, 0.0], [3.0, 4.0], [0.0, -2.0]])
MOVES = torch.tensor([[-2.0, 0.0], [0.0, 5.0], [1.0, 1.0]])
LOSSES = torch.tensor([0.5, 1.0, 2.0])
COSINES = torch.tensor([-1.0, 0.8, -(0.5**0.5)])  # of GRADIENTS and MOVES, row by row


def wanted(losses: Tensor, gradients: Tensor, moves: Tensor, **options: object) -> Tensor:
    defaults = {"balance": 0.25, "sign": "descent", "similarity": "cosine", "learning_rate": 0.5}
    return preference(losses, gradients, moves, defaults | options)


def make_clients() -> list[planted.Client]:
    return planted.clients(CLUSTERS, planted.OPPOSITE)


def test_the_preference_is_similarity_and_loss_in_balance():
    assert torch.allclose(wanted(LOSSES, GRADIENTS, MOVES, sign="printed"), 0.25 * COSINES - 0.75 * LOSSES)
    assert torch.allclose(wanted(LOSSES, GRADIENTS, MOVES, sign="descent"), -0.25 * COSINES - 0.75 * LOSSES)


def test_whoever_descends_along_the_last_move_wants_the_model():
    gradients, moves = torch.tensor([[1.0, 0.0], [1.0, 0.0]]), torch.tensor([[-1.0, 0.0], [1.0, 0.0]])
    even = torch.tensor([1.0, 1.0])
    assert int(wanted(even, gradients, moves).argmax()) == 0
    assert int(wanted(even, gradients, moves, sign="printed").argmax()) == 1


def test_similarity_is_0_where_it_is_not_defined():
    still = torch.zeros_like(MOVES)
    for similarity in ("cosine", "euclidean"):
        assert torch.allclose(wanted(LOSSES, GRADIENTS, still, similarity=similarity), -0.75 * LOSSES)
    assert torch.allclose(wanted(LOSSES, torch.zeros_like(GRADIENTS), MOVES), -0.75 * LOSSES)


def test_one_model_that_rested_does_not_change_the_others():
    moves = MOVES.clone()
    moves[1] = 0.0
    expected = -0.25 * COSINES * torch.tensor([1.0, 0.0, 1.0]) - 0.75 * LOSSES
    assert torch.allclose(wanted(LOSSES, GRADIENTS, moves), expected)


def test_the_euclidean_similarity_is_minus_the_distance_at_the_gradients_scale():
    """Moves over a learning rate of 0.5: (-4, 0), (0, 10), (2, 2); descent: (-1, 0), (-3, -4), (0, 2)."""
    distance = torch.tensor([3.0, (9.0 + 196.0) ** 0.5, 2.0])
    expected = -0.25 * distance - 0.75 * LOSSES
    assert torch.allclose(wanted(LOSSES, GRADIENTS, MOVES, similarity="euclidean"), expected)


def test_a_client_that_made_the_whole_move_is_at_no_distance():
    gradients = torch.tensor([[1.0, -2.0]])
    move = -0.5 * gradients
    assert torch.allclose(wanted(LOSSES[:1], gradients, move, similarity="euclidean"), -0.75 * LOSSES[:1])


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


def test_planted_clusters_are_found_and_the_printed_sign_drives_them_from_their_models():
    found = planted.run(GradientLossMethod(**SETTINGS, rounds=8, balance=0.5), make_clients(), seed=1)
    assert planted.same_partition(found.labels, CLUSTERS)
    printed = planted.run(GradientLossMethod(**SETTINGS, rounds=8, balance=0.9, sign="printed"), make_clients(), seed=1)
    assert found.values[-1]["loss"] < 0.5 * printed.values[-1]["loss"]


@pytest.mark.parametrize("seed", range(3))
def test_without_similarity_the_least_loss_decides(seed):
    done = planted.run(GradientLossMethod(**SETTINGS, rounds=3, balance=0.0, empty="keep"), make_clients(), seed=seed)
    for before, after in zip(done.states, done.states[1:], strict=False):
        for client in done.fed.clients.values():
            judged = planted.losses(before.module, before.models, client.x, client.y)
            assert judged.index(min(judged)) == int(after.labels[client.id])


def test_a_cluster_that_nobody_chose_is_given_a_client_in_the_same_exchange():
    settings = planted.FULL_BATCH | {"n_clusters": 5, "rounds": 4}
    alike = planted.clients([0] * 8)
    kept = planted.run(GradientLossMethod(**settings, empty="keep"), alike)
    assert any(len(set(state.labels.tolist())) < 5 for state in kept.states[1:])
    filled = planted.run(GradientLossMethod(**settings), alike)
    assert filled.exchanges == [1] * 4
    assert any(values["clusters"] < 5 for values in filled.values)
    for before, after in zip(filled.states, filled.states[1:], strict=False):
        assert bool(((after.models - before.models).norm(dim=1) > 0).all())


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


def test_a_cluster_whose_clients_were_not_asked_is_not_empty():
    settings = SETTINGS | {"rounds": 30}
    state = planted.run(GradientLossMethod(**settings), make_clients(), seed=1).states[8]
    assert planted.same_partition(state.labels.tolist(), CLUSTERS)
    few = [GradientLossMethod(**settings, participation=0.25, empty=empty) for empty in ("reassign", "keep")]
    of_one_cluster = 0
    for _ in range(8):
        (after, record), (other, _) = (method.step(LocalFederation(make_clients(), seed=1), state) for method in few)
        assert torch.equal(after.models, other.models)
        of_one_cluster += len({CLUSTERS[client] for client in record.answered}) == 1
        state = after
    assert of_one_cluster > 0


@pytest.mark.parametrize(("clusters", "asked"), [([0, 0], 1.0), ([0] * 8, 0.5)])
def test_fewer_clients_than_clusters_train_what_they_choose(clusters, asked):
    settings = planted.FULL_BATCH | {"n_clusters": 5, "rounds": 3, "participation": asked}
    one, other = (
        planted.run(GradientLossMethod(**settings, empty=empty), planted.clients(clusters))
        for empty in ("reassign", "keep")
    )
    assert torch.equal(one.states[-1].models, other.states[-1].models)
    assert one.labels == other.labels


def test_a_model_that_has_diverged_is_nobodys_choice():
    method = GradientLossMethod(**SETTINGS, empty="keep")
    fed = LocalFederation(make_clients(), workers=1)
    state = method.init(fed)
    state.models[0] = torch.nan
    after, record = method.step(fed, state)
    assert record.missing == {}
    assert after.labels.tolist() == [1] * 8
    assert not torch.equal(after.models[1], state.models[1])


def test_nobody_stands_in_where_every_cluster_has_a_client():
    settings = SETTINGS | {"rounds": 3}
    one = planted.run(GradientLossMethod(**settings, empty="reassign"), make_clients(), seed=1)
    other = planted.run(GradientLossMethod(**settings, empty="keep"), make_clients(), seed=1)
    assert all(set(state.labels.tolist()) == {0, 1} for state in other.states[1:])
    assert torch.equal(one.states[-1].models, other.states[-1].models)


def test_updates_count_the_same_unless_set_otherwise():
    unequal = [planted.client(0, samples=6), planted.client(1, planted.LEVELS[3], samples=18)]
    done = planted.run(GradientLossMethod(**(SETTINGS | {"n_clusters": 1}), rounds=1), unequal)
    gradients = [
        planted.gradient(done.states[0].module, done.states[0].models[0], client.x, client.y)
        for client in done.fed.clients.values()
    ]
    assert torch.allclose(done.states[1].moves[0], -0.5 * (gradients[0] + gradients[1]) / 2, atol=1e-6)


def test_permuted_clients_are_in_the_permuted_clusters():
    order = [3, 7, 0, 5, 1, 6, 2, 4]
    method = GradientLossMethod(**SETTINGS, rounds=5, empty="keep")
    one, other = planted.run(method, make_clients()), planted.run(method, planted.permuted(make_clients(), order))
    assert other.labels == [one.labels[old] for old in order]


def test_a_single_sample_and_a_batch_norm_are_a_missing_reply():
    method = GradientLossMethod(**(SETTINGS | {"module": "planted:normalised", "rounds": 2}), empty="keep")
    done = planted.run(method, [planted.client(0), planted.client(1), planted.client(2, samples=1)])
    assert [list(record.missing) for record in done.records] == [[2], [2]]


@pytest.mark.parametrize(
    "options", [{}, {"empty": "keep"}, {"similarity": "euclidean"}, {"module": "planted:normalised"}]
)
def test_lost_clients_are_no_accident(options):
    planted.outlives_losses(GradientLossMethod, n_clusters=3, **options)


def test_a_newcomer_joins_the_cluster_whose_model_fits():
    done = planted.run(GradientLossMethod(**SETTINGS, rounds=15), make_clients(), seed=1)
    for cluster in (0, 1):
        new = planted.client(50 + cluster, planted.OPPOSITE[cluster])
        assert GradientLossMethod.assign(done.result, new) == done.labels[CLUSTERS.index(cluster)]
