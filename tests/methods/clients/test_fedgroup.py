"""FedGroup: cosines with the main directions, clusters in one round, and the cold start."""

from typing import Any

import numpy as np
import pytest
import torch

import planted
from fedkin.engines.local import LocalFederation
from fedkin.methods.clients.fedgroup import FedGroupMethod, decomposed_cosines, with_others

SETTINGS: dict[str, Any] = planted.LEARNING | {"rounds": 3, "n_clusters": 4}
CLUSTERS = [0, 1, 2, 3, 3, 0, 1, 2, 0]


def test_cosines_with_the_main_directions_are_numpys():
    updates = torch.randn(5, 30, generator=torch.Generator().manual_seed(0))
    _, _, vectors = np.linalg.svd(updates.double().numpy(), full_matrices=False)
    expected = updates.double().numpy() @ vectors[:3].T / np.linalg.norm(updates.double().numpy(), axis=1)[:, None]
    assert np.allclose(np.abs(decomposed_cosines(updates, 3).numpy()), np.abs(expected))


@pytest.mark.parametrize("round_", [1, 2])
def test_planted_clusters_are_found_in_one_round(round_):
    done = planted.run(FedGroupMethod(**SETTINGS, clustering_round=round_), planted.clients(CLUSTERS))
    assert planted.same_partition(done.labels, CLUSTERS)
    assert [values["splits"] for values in done.values] == [int(at >= round_) for at in (1, 2, 3)]
    assert done.exchanges == [1, 1, 1]


def test_a_lost_client_and_a_newcomer_join_by_the_cold_start():
    fed = LocalFederation(planted.clients(CLUSTERS), workers=1, failures=[(2, 8)])
    method = FedGroupMethod(**SETTINGS)
    state = method.init(fed)
    while not state.finished:
        state, _ = method.step(fed, state)
    assert planted.same_partition(state.labels.tolist(), CLUSTERS)
    for cluster, swaps in planted.LEVELS.items():
        new = planted.client(70 + cluster, swaps)
        assert FedGroupMethod.assign(method.result(state), new) == int(state.labels[CLUSTERS.index(cluster)])


def test_models_move_towards_the_others_directions():
    models = torch.tensor([[3.0, 4.0], [0.0, 2.0], [0.0, 0.0]])
    expected = torch.tensor([[3.0, 4.5], [0.3, 2.4], [0.3, 0.9]])
    assert torch.allclose(with_others(models, 0.5), expected)
    alone = planted.run(FedGroupMethod(**SETTINGS), planted.clients(CLUSTERS))
    together = planted.run(FedGroupMethod(**SETTINGS, between_clusters=0.1), planted.clients(CLUSTERS))
    assert planted.same_partition(together.labels, CLUSTERS)
    assert torch.allclose(together.states[1].models, with_others(alone.states[1].models, 0.1), atol=1e-6)
