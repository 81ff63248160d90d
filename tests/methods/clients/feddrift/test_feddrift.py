"""FedDrift: models merge if they are as good on each other's clients, and a client whose data change leaves its own."""

import dataclasses
from typing import Any

import pytest
import torch

import planted
from fedkin.core import Client
from fedkin.engines.local import LocalFederation
from fedkin.methods.clients.client_method import UNKNOWN
from fedkin.methods.clients.feddrift import (
    HELD_OUT,
    FedDriftMethod,
    FedDriftState,
    distances_of,
    errors_between,
    judge,
    merges,
    train_on_kept,
)

SETTINGS: dict[str, Any] = planted.LEARNING | {"rounds": 8, "period": 2, "local_steps": 20}
CLUSTERS = [0, 1, 1, 0, 2, 2, 3, 0, 3]


def fed_of(clusters: list[int] = CLUSTERS, **engine: Any) -> LocalFederation:
    return LocalFederation(planted.clients(clusters, samples=48), workers=1, **engine)


def drifts(fed: LocalFederation, client: int, cluster: int) -> None:
    """From now on the client's labels are those of `cluster`."""
    fed.clients[client].y = planted.client(client, planted.LEVELS[cluster], 48).y


def steps(method: FedDriftMethod, fed: LocalFederation, state: Any, count: int) -> tuple[Any, list[Any]]:
    records = []
    for _ in range(count):
        state, record = method.step(fed, state)
        records.append(record)
    return state, records


def test_errors_on_clusters_are_weighted_by_samples():
    judged = torch.tensor([[0.0, 1.0], [0.4, 0.5], [1.0, 0.2]], dtype=torch.float64)
    members = torch.tensor([[True, False], [True, False], [False, True]])
    found = errors_between(judged, torch.tensor([30.0, 10.0, 5.0], dtype=torch.float64), members)
    assert found.flatten().tolist() == pytest.approx([0.1, 1.0, 0.875, 0.2])
    assert distances_of(found).flatten().tolist() == pytest.approx([0.0, 0.9, 0.9, 0.0])  # the worse of 0.9 and 0.675


def test_models_merge_if_all_of_them_are_near():
    distances = torch.tensor(
        [[0.0, 0.05, 0.3, 0.04], [0.05, 0, 0.3, 0.2], [0.3, 0.3, 0, 0.3], [0.04, 0.2, 0.3, 0]], dtype=torch.float64
    )
    assert merges(distances, 0.1) == [[0, 3], [1], [2]]  # 1 is near 0, but not near 3
    assert merges(distances, 0.25) == [[0, 1, 3], [2]]


def test_planted_clusters_are_found_from_a_model_each():
    done = planted.run(FedDriftMethod(**SETTINGS), planted.clients(CLUSTERS, samples=48))
    assert done.values[0]["labels"] == list(range(9))
    assert planted.same_partition(done.labels, CLUSTERS)
    assert done.exchanges == [1, 1, 2, 1, 2, 1, 2, 1]
    assert done.result["n_clusters"] == 4 == len(done.result["models"])
    assert sorted(len(part) for part in done.values[2]["merged"]) == [2, 2, 2, 3]


def test_merged_models_are_the_mean_of_their_clients():
    method = FedDriftMethod(**SETTINGS)
    state = FedDriftState(
        models=torch.tensor([[0.0, 0.0], [3.0, 6.0], [9.0, 9.0]]), labels=torch.tensor([0, 1, 1, 2]), steps=2
    )
    members = torch.tensor([[True, False, False], [False, True, False], [False, True, False], [False, False, True]])
    between = torch.tensor([[0.1, 0.1, 0.8], [0.1, 0.1, 0.8], [0.8, 0.8, 0.1]], dtype=torch.float64)
    after, found = method.merged(state, between, members)
    assert found == [[0, 1]]
    assert after.models[0].tolist() == [2.0, 4.0]
    assert after.labels.tolist() == [0, 0, 0, 2]


def test_together_everybody_begins_with_one_model():
    done = planted.run(FedDriftMethod(**SETTINGS, start="together"), planted.clients([0] * 4, samples=48))
    assert done.labels == [0] * 4
    assert done.values[0]["clusters"] == 1
    assert [record.values.get("drifted") for record in done.records[::2]] == [None, [], [], []]


def test_a_client_that_drifts_to_a_known_concept_takes_its_model():
    fed, method = fed_of(), FedDriftMethod(**SETTINGS)
    state, _ = steps(method, fed, method.init(fed), 4)
    assert planted.same_partition(state.labels.tolist(), CLUSTERS)
    drifts(fed, 0, 3)
    state, records = steps(method, fed, state, 2)
    assert records[0].values["drifted"] == []
    assert planted.same_partition(state.labels.tolist(), [3, *CLUSTERS[1:]])


def test_clients_that_drift_to_a_new_concept_train_alone_and_then_merge():
    clusters = [0, 0, 0, 0, 1, 1, 1]
    fed, method = fed_of(clusters), FedDriftMethod(**SETTINGS)
    state, _ = steps(method, fed, method.init(fed), 4)
    assert planted.same_partition(state.labels.tolist(), clusters)
    for client in (1, 2):
        drifts(fed, client, 2)
    before = state.models[int(state.labels[1])]
    state, records = steps(method, fed, state, 1)
    assert records[0].values["drifted"] == [1, 2]
    assert planted.same_partition(state.labels.tolist(), [0, 2, 3, 0, 1, 1, 1])
    assert not torch.equal(state.models[int(state.labels[1])], before)
    state, records = steps(method, fed, state, 2)
    assert records[1].values["merged"] == [sorted([int(label) for label in records[0].values["labels"][1:3]])]
    assert planted.same_partition(state.labels.tolist(), [0, 2, 2, 0, 1, 1, 1])
    assert state.models.shape[0] == 3


def test_isolation_lasts_as_many_time_steps_as_wanted():
    clusters = [0, 0, 0, 0, 1, 1, 1]
    fed, method = fed_of(clusters), FedDriftMethod(**(SETTINGS | {"rounds": 12}), isolation=2)
    state, _ = steps(method, fed, method.init(fed), 4)
    for client in (1, 2):
        drifts(fed, client, 2)
    state, _ = steps(method, fed, state, 3)
    assert int(state.labels.max()) == 3  # alone in the second time step, too
    state, _ = steps(method, fed, state, 2)
    assert planted.same_partition(state.labels.tolist(), [0, 2, 2, 0, 1, 1, 1])


def test_a_client_that_joins_late_waits_for_a_time_step_and_takes_the_best_model_or_leaves_it():
    clusters = [0, 0, 0, 1, 1, 1, 1, 2]
    fed, method = fed_of(clusters), FedDriftMethod(**SETTINGS)
    fed.away = frozenset({6, 7})
    state, _ = steps(method, fed, method.init(fed), 4)
    assert state.labels[6:].tolist() == [UNKNOWN] * 2
    fed.away = frozenset()
    state, records = steps(method, fed, state, 1)
    assert records[0].values["drifted"] == [7]
    assert planted.same_partition(state.labels.tolist(), clusters)


def test_who_did_not_judge_keeps_its_model_and_is_missing():
    fed, method = fed_of(failures=[(4, 0)]), FedDriftMethod(**SETTINGS)
    state, records = steps(method, fed, method.init(fed), 3)
    assert list(records[2].missing) == [0]
    assert 0 not in records[2].answered
    assert int(state.labels[0]) != UNKNOWN
    state, _ = steps(method, fed, state, 2)
    assert planted.same_partition(state.labels.tolist(), CLUSTERS)


def test_a_time_step_in_which_nobody_answers_changes_nothing():
    fed, method = fed_of(failures=[(4, client) for client in range(9)]), FedDriftMethod(**SETTINGS)
    state, _ = steps(method, fed, method.init(fed), 2)
    after, records = steps(method, fed, state, 1)
    assert torch.equal(after.labels, state.labels)
    assert torch.equal(after.models, state.models)
    assert len(records[0].missing) == 9


def test_samples_that_judge_are_never_trained_on_and_stay_the_same():
    fed, method = fed_of(), FedDriftMethod(**SETTINGS, held_out=0.25)
    state, _ = steps(method, fed, method.init(fed), 1)
    held = fed.clients[0].state[HELD_OUT].clone()
    assert int(held.sum()) == 12
    fed.clients[0].x[held] = 1e6  # whoever trained on them would diverge
    after, _ = steps(method, fed, state, 2)
    assert torch.equal(fed.clients[0].state[HELD_OUT], held)
    assert float(after.models.abs().max()) < 100


def test_other_samples_are_held_out_if_their_number_changes():
    fed, method = fed_of(), FedDriftMethod(**SETTINGS)
    state, _ = steps(method, fed, method.init(fed), 1)
    fed.clients[0].x, fed.clients[0].y = fed.clients[0].x[:20], fed.clients[0].y[:20]
    steps(method, fed, state, 2)
    assert fed.clients[0].state[HELD_OUT].shape == (20,)


def test_without_held_out_samples_all_are_trained_on_and_judged_by():
    one = planted.client(0)
    spec = {"name": "planted:linear", "shape": [planted.CLASSES], "classes": planted.CLASSES}
    model = torch.zeros(planted.CLASSES * (planted.CLASSES + 1))
    (reply,) = judge.run([one], [{"module": spec, "models": torch.stack([model, model + torch.nan]), "held_out": 0.0}])
    assert reply["samples"] == 24
    assert reply["errors"].tolist() == pytest.approx([5 / 6, 1.0])  # always the first class; diverged
    assert HELD_OUT not in one.state


def test_a_single_sample_is_trained_on_and_judged_by():
    alone = [Client(i, torch.ones(1, 3), torch.tensor([i % 2])) for i in range(3)]
    done = planted.run(FedDriftMethod(**SETTINGS), alone)
    assert bool(done.states[-1].models.isfinite().all())
    assert not torch.equal(done.states[-1].models[0], done.states[0].models[0])
    assert all(float(record["loss"]) < 0.1 for record in done.values[-1:])  # one sample is learned by heart


def test_errors_that_cannot_be_are_refused():
    assert judge.refusal({"errors": torch.tensor([0.0, 1.0]), "samples": 3}) is None
    assert judge.refusal({"errors": torch.tensor([1.1]), "samples": 3}) is not None
    assert judge.refusal({"errors": torch.tensor([0.5]), "samples": -1}) is not None
    assert train_on_kept.refusal({"update": torch.zeros(2), "samples": 3}) is not None


@pytest.mark.parametrize("chunk", [1, 4])
def test_how_many_clients_train_at_once_changes_nothing(chunk):
    one = planted.run(FedDriftMethod(**SETTINGS), planted.clients(CLUSTERS))
    other = planted.run(FedDriftMethod(**SETTINGS), planted.clients(CLUSTERS), chunk=chunk)
    assert torch.equal(one.result["models"], other.result["models"])


def test_a_newcomer_joins_the_model_with_the_lowest_loss():
    done = planted.run(FedDriftMethod(**SETTINGS), planted.clients(CLUSTERS, samples=48))
    for cluster, swaps in planted.LEVELS.items():
        new = planted.client(70, swaps)
        assert FedDriftMethod.assign(done.result, new) == done.labels[CLUSTERS.index(cluster)]


def test_a_model_that_nobody_has_is_dropped():
    fed, method = fed_of([0, 0, 1, 1]), FedDriftMethod(**SETTINGS)
    state, _ = steps(method, fed, method.init(fed), 4)
    assert len(state.models) == 2
    for client in (2, 3):
        drifts(fed, client, 0)
    state, _ = steps(method, fed, state, 1)
    assert state.labels.tolist() == [0] * 4
    assert len(state.models) == 1


def test_lost_clients_harm_nobody():
    planted.outlives_losses(FedDriftMethod, rounds=6, period=2)


def test_state_is_complete():
    fed, method = fed_of(), FedDriftMethod(**SETTINGS)
    state = method.init(fed)
    assert {"errors", "until", "models", "labels"} <= set(state.tree())
    assert dataclasses.replace(state).errors.tolist() == [-1.0] * 9
