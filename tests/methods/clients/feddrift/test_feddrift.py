"""FedDrift: models merge if they are as good on each other's clients, and a client whose data change leaves its own."""

from typing import Any

import torch

import planted
from fedkin.engines.local import LocalFederation
from fedkin.methods.clients.client_method import UNKNOWN
from fedkin.methods.clients.feddrift import (
    HELD_OUT,
    FedDriftMethod,
    FedDriftState,
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


def test_a_client_that_joins_late_waits_for_a_time_step_and_takes_the_best_model_or_leaves_it():
    clusters = [0, 0, 0, 1, 1, 1, 1, 2]
    fed, method = fed_of(clusters), FedDriftMethod(**SETTINGS)
    fed.leave({6, 7})
    state, _ = steps(method, fed, method.init(fed), 4)
    assert state.labels[6:].tolist() == [UNKNOWN] * 2
    fed.join(fed.ids)
    state, records = steps(method, fed, state, 1)
    assert records[0].values["drifted"] == [7]
    assert planted.same_partition(state.labels.tolist(), clusters)


def test_samples_that_judge_are_never_trained_on_and_stay_the_same():
    fed, method = fed_of(), FedDriftMethod(**SETTINGS, held_out=0.25)
    state, _ = steps(method, fed, method.init(fed), 1)
    held = fed.clients[0].state[HELD_OUT].clone()
    assert int(held.sum()) == 12
    fed.clients[0].x[held] = 1e6  # whoever trained on them would diverge
    after, _ = steps(method, fed, state, 2)
    assert torch.equal(fed.clients[0].state[HELD_OUT], held)
    assert float(after.models.abs().max()) < 100
