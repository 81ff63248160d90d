"""FeSEM: models are put to the nearest centre and averaged there, as in k-means."""

from typing import Any

import pytest
import torch

import planted
from fedkin.engines.local import LocalFederation
from fedkin.methods.clients.client_method import UNKNOWN
from fedkin.methods.clients.fesem import FeSEMMethod

SETTINGS: dict[str, Any] = planted.LEARNING | {"rounds": 4, "n_clusters": 2}
CLUSTERS = [0, 1, 1, 0, 1, 0]


@pytest.mark.parametrize("seed", range(3))
def test_planted_clusters_are_found(seed):
    done = planted.run(FeSEMMethod(**SETTINGS), planted.clients(CLUSTERS, planted.OPPOSITE), seed=seed)
    assert planted.same_partition(done.labels, CLUSTERS)
    assert done.exchanges == [1, 1, 1, 1]


def test_a_centre_is_the_mean_of_the_models_nearest_to_it():
    method = FeSEMMethod(**(planted.FULL_BATCH | {"rounds": 2, "n_clusters": 2, "weighting": "clients"}))
    done = planted.run(method, planted.clients(CLUSTERS, planted.OPPOSITE))
    before, after = done.states[1], done.states[2]
    trained = []
    for client, one in done.fed.clients.items():
        start = before.models[before.labels[client]]
        trained.append(start - 0.5 * planted.gradient(done.result["module"], start, one.x, one.y))
    nearest = torch.cdist(torch.stack(trained), before.models).argmin(1)
    assert torch.equal(nearest, after.labels)
    for cluster in range(2):
        mean = torch.stack([model for model, own in zip(trained, nearest, strict=True) if own == cluster]).mean(0)
        assert torch.allclose(after.models[cluster], mean, atol=1e-5)


def test_a_late_client_starts_from_the_model_with_the_lowest_loss():
    fed = LocalFederation(planted.clients(CLUSTERS, planted.OPPOSITE), workers=1, failures=[(2, 5)])
    method = FeSEMMethod(**SETTINGS)
    state, _ = method.step(fed, method.init(fed))
    assert int(state.labels[5]) == UNKNOWN
    before = fed.exchange
    state, record = method.step(fed, state)
    assert fed.exchange == before + 2
    assert record.missing == {}
    assert planted.same_partition(state.labels.tolist(), CLUSTERS)


def test_random_sets_are_a_start_too():
    starts = [
        planted.run(
            FeSEMMethod(**(SETTINGS | {"rounds": 1}), start="random"),
            planted.clients(CLUSTERS, planted.OPPOSITE),
            seed=seed,
        ).labels
        for seed in range(4)
    ]
    assert any(not planted.same_partition(labels, CLUSTERS) for labels in starts)
