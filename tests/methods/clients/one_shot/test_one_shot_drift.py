"""Clients that report again: who moves, who founds a cluster, and what becomes of the one they left."""

from typing import Any

import pytest
import torch

import planted
from fedkin.methods.clients.one_shot.one_shot import nearest_cluster
from one_message import (
    CLUSTERS,
    SETTINGS,
    OneMessage,
    Watched,
    clustered,
    make_clients,
    mean_step,
    moves,
    report_means,
    steps,
)


def test_whose_data_change_goes_over_to_the_cluster_that_it_is_now_like():
    fed = Watched(make_clients())
    method = OneMessage(**SETTINGS, refresh=2)
    state = clustered(method, fed)
    before = state.labels.tolist()
    moves(fed, 0, 1)
    moves(fed, 5, 1)
    (state, record), (state, same) = steps(method, fed, state, 2)
    assert state.labels.tolist() == before  # nobody is asked yet
    assert "moved" not in record.values
    assert "moved" not in same.values
    after, record = method.step(fed, state)
    assert record.values["moved"] == [[0, before[0], before[1]], [5, before[5], before[1]]]
    assert planted.same_partition(after.labels.tolist(), [1 if i in (0, 5) else own for i, own in enumerate(CLUSTERS)])
    assert "founded" not in record.values
    for client in (0, 1, 5):
        (reply,) = report_means.run([fed.clients[client]], [{}])
        assert torch.equal(after.messages[client], reply["message"])
    members = [i for i in range(12) if after.labels[i] == before[1]]
    one = state.models[before[1]]
    assert torch.allclose(after.models[before[1]] - one, mean_step(fed, state.module, one, members), atol=1e-6)
    _, record = method.step(fed, after)
    assert "moved" not in record.values  # reported once


def strangers(count: int, min_size: int | None = 3, **options: Any) -> tuple[Watched, Any, Any, Any]:
    """So many clients of cluster 0 begin to see things as nobody has before, and the step that hears of it."""
    fed = Watched(make_clients())
    method = OneMessage(**(SETTINGS | options), refresh=1, min_size=min_size)
    state = steps(method, fed, method.init(fed), 2)[-1][0]
    for client in [0, 4, 7, 9][:count]:
        moves(fed, client, 3)
    return fed, state, *method.step(fed, state)


def test_strangers_that_are_enough_and_alike_found_a_cluster_from_the_model_they_had():
    fed, state, after, record = strangers(3)
    old = int(state.labels[0])
    assert record.values["founded"] == [3]
    assert record.values["moved"] == [[0, old, 3], [4, old, 3], [7, old, 3]]
    assert after.labels[[0, 4, 7]].tolist() == [3, 3, 3]
    assert torch.equal(after.labels[[1, 2, 3, 5, 6, 8, 9, 10, 11]], state.labels[[1, 2, 3, 5, 6, 8, 9, 10, 11]])
    assert after.models.shape == (4, state.models.shape[1])
    parent = state.models[old]
    assert torch.allclose(after.models[3] - parent, mean_step(fed, state.module, parent, [0, 4, 7]), atol=1e-6)
    assert torch.allclose(after.models[old] - parent, mean_step(fed, state.module, parent, [9]), atol=1e-6)


@pytest.mark.parametrize("count", [12, 36])
def test_a_cluster_that_lost_all_its_clients_keeps_its_model_and_nobody_is_drawn_to_it(count):
    many = [0, 1, 2] * (count // 3)
    fed = Watched(make_clients(many))
    method = OneMessage(**SETTINGS, refresh=1)
    state = steps(method, fed, method.init(fed), 2)[-1][0]
    left = int(state.labels[2])
    for client in range(2, count, 3):
        moves(fed, client, 0)
    now = [0 if own == 2 else own for own in many]
    for state_, record in steps(method, fed, state, 3):
        assert planted.same_partition(state_.labels.tolist(), now)
        assert left not in state_.labels
        assert torch.equal(state_.models[left], state.models[left])
        assert record.values["clusters"] == 2
    result = method.result(state_)
    assert result["n_clusters"] == 3
    assert not bool(result["centroids"][left].isfinite().any())
    message = report_means.run([fed.clients[1]], [{}])[0]["message"]
    assert nearest_cluster(result["centroids"], message) == int(state_.labels[1])


def test_who_did_not_report_again_stays_where_it_was_and_is_missing_though_it_trained():
    fed = Watched(make_clients(), failures=[(4, 0), (4, 1)])
    method = OneMessage(**SETTINGS, refresh=1)
    state = steps(method, fed, method.init(fed), 2)[-1][0]
    moves(fed, 0, 1)
    after, record = method.step(fed, state)
    assert fed.asked[-2][0] == "report_means"
    assert torch.equal(after.labels, state.labels)
    assert sorted(record.missing) == [0, 1]
    assert record.answered == [i for i in range(12) if i > 1]
    _, record = method.step(fed, after)
    assert record.values["moved"] == [[0, int(state.labels[0]), int(state.labels[1])]]
