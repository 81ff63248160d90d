"""CFL-GP: updates of the same models are accumulated, projected and clustered."""

from typing import Any

import numpy as np
import pytest
import torch

import planted
from fedkin.core import FedkinError
from fedkin.engines.local import LocalFederation
from fedkin.methods.clients.cfl_gp import (
    CFLGPMethod,
    number_of_clusters,
    reduced,
    train_and_profile,
)

SETTINGS: dict[str, Any] = planted.LEARNING | {"rounds": 4, "n_clusters": 4, "coordinates": None}
CLUSTERS = [0, 1, 2, 3, 3, 0, 1, 2, 0]


@pytest.mark.parametrize("settings", [{}, {"coordinates": 20}, {"n_clusters": None, "period": 1}])
def test_planted_clusters_are_found_in_the_first_round(settings):
    clusters = [0, 1, 1, 0, 0, 1] if "n_clusters" in settings else CLUSTERS
    levels = planted.OPPOSITE if "n_clusters" in settings else planted.LEVELS
    done = planted.run(CFLGPMethod(**(SETTINGS | settings)), planted.clients(clusters, levels))
    assert planted.same_partition(done.states[1].labels.tolist(), clusters)
    assert planted.same_partition(done.labels, clusters)
    assert done.result["n_clusters"] == len(set(clusters))
    assert done.exchanges == [1, 1, 1, 1]


def test_every_model_has_its_turn_and_profiles_are_means_of_updates():
    method = CFLGPMethod(**(SETTINGS | {"rounds": 5, "n_clusters": 2, "period": 1, "clustering_rounds": None}))
    done = planted.run(method, planted.clients([0, 1, 0, 1], planted.OPPOSITE))
    assert [values["criterion"] for values in done.values] == [0, 1, 0, 1, 0]
    assert done.states[-1].counts.tolist() == [[3] * 4, [2] * 4]
    first, later = done.states[1], done.states[3]
    own = done.fed.clients[2]
    model = first.models[0] * 0 + done.states[2].models[0]
    expected = model.clone()
    for _ in range(5):
        expected = expected - 0.5 * planted.gradient(done.result["module"], expected, own.x, own.y)
    mean = (first.profiles[0, 2] + (expected - model)) / 2
    assert torch.allclose(later.profiles[0, 2], mean, atol=1e-4)


def test_rows_are_projected_to_their_first_singular_vectors():
    matrix = torch.randn(6, 9, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    left, _, _ = np.linalg.svd(matrix.T.numpy(), full_matrices=False)
    assert np.allclose(np.abs(reduced(matrix, 2).numpy()), np.abs((left[:, :2].T @ matrix.T.numpy()).T))


@pytest.mark.parametrize("count", [2, 4])
def test_the_number_is_that_of_the_greatest_silhouette(count):
    rng = torch.Generator().manual_seed(count)
    centres = 10 * torch.randn(count, 12, generator=rng, dtype=torch.float64)
    rows = centres.repeat(4, 1) + 0.1 * torch.randn(4 * count, 12, generator=rng, dtype=torch.float64)
    assert number_of_clusters(rows, rng) == count
    assert number_of_clusters(rows[:2], rng) == 1


def test_a_place_beyond_the_model_is_refused_at_the_client():
    fed = LocalFederation(planted.clients([0]), workers=1)
    method = CFLGPMethod(**SETTINGS)
    state = method.init(fed)
    (payload,) = method.training(state, {0: state.models[0]}).values()
    with pytest.raises(FedkinError, match="beyond the model's 42 numbers"):
        train_and_profile.run([planted.client(0)], [payload | {"places": torch.tensor([42])}])
    assert train_and_profile.objection(payload | {"places": torch.tensor([-1])}) is not None


def test_a_profile_of_another_length_counts_as_missing():
    fed = LocalFederation(planted.clients(CLUSTERS), workers=1)
    method = CFLGPMethod(**SETTINGS)
    state = method.init(fed)
    _, expected = method._asked(fed, state, {0: state.models[0]}, state.models[0])
    reply = {"update": torch.zeros(42), "samples": 1, "loss": 0.5, "profile": torch.zeros(41)}
    assert "profile" in str(train_and_profile.refusal(reply, expected))
