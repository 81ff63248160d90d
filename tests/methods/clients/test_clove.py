"""CLoVE: loss vectors are clustered, clusters matched to models, and planted clusters found."""

from typing import Any

import torch

import planted
from fedkin.core import Client
from fedkin.engines.local import LocalFederation
from fedkin.methods.clients.client_method import UNKNOWN
from fedkin.methods.clients.clove import CLoVEMethod

SETTINGS: dict[str, Any] = planted.LEARNING | {"rounds": 4, "n_clusters": 2}
CLUSTERS = [0, 1, 1, 0, 1, 0]


def people(clusters: list[int] = CLUSTERS) -> list[Client]:
    return planted.clients(clusters, planted.OPPOSITE)


def test_after_the_clustering_rounds_only_new_clients_send_losses():
    fed = LocalFederation(people(), workers=1, failures=[(2, 5), (4, 5)])
    method = CLoVEMethod(**SETTINGS, clustering_rounds=1)
    state, record = method.step(fed, method.init(fed))
    assert list(record.missing) == [5]
    assert int(state.labels[5]) == UNKNOWN
    before = state.labels[:5].tolist()
    state, record = method.step(fed, state)
    assert list(record.missing) == [5]
    state, record = method.step(fed, state)
    assert record.missing == {}
    assert state.labels[:5].tolist() == before
    assert int(state.labels[5]) != UNKNOWN
    exchanges = fed.exchange
    method.step(fed, state)
    assert fed.exchange == exchanges + 1


def test_a_round_is_the_mean_of_its_clusters_updates():
    method = CLoVEMethod(**(planted.FULL_BATCH | {"rounds": 1, "n_clusters": 2, "weighting": "clients"}))
    done = planted.run(method, people())
    before, after = done.states[0].models, done.states[1].models
    for cluster in range(2):
        members = [client for client, label in enumerate(done.labels) if label == cluster]
        gradients = [
            planted.gradient(done.result["module"], before[cluster], done.fed.clients[i].x, done.fed.clients[i].y)
            for i in members
        ]
        assert torch.allclose(after[cluster], before[cluster] - 0.5 * torch.stack(gradients).mean(0), atol=1e-5)
