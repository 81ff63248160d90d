"""The estimator of kin-graph: nothing need be said, and features may be anything."""

import pickle

import numpy as np
import pytest
import torch
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score

from fedkin import KinGraph

X, Y = make_blobs([60, 60, 60], n_features=8, random_state=0)
SITES = [X[Y != 2], X[Y != 0], X[Y != 1]]


@pytest.fixture(scope="module")
def fitted():
    """A model of the sites that was told nothing; nobody may change it."""
    return KinGraph(random_state=0).fit(SITES)


def twice(x: torch.Tensor) -> torch.Tensor:
    return 2 * x.flatten(1)


@pytest.mark.parametrize(
    ("options", "numbers"), [({}, (1, 2, 5)), ({"broadcast_nodes": False}, (2,)), ({"features": twice}, (5,))]
)
def test_a_cut_has_the_labels_of_a_fit_that_was_given_the_number(fitted, options, numbers):
    model = KinGraph(random_state=0, **options).fit(SITES) if options else fitted
    before = [labels.copy() for labels in model.labels_]
    for n_clusters in numbers:
        cut = pickle.loads(pickle.dumps(model)).cut(n_clusters)
        given = KinGraph(random_state=0, n_clusters=n_clusters, **options).fit(SITES)
        assert cut.n_clusters_ == given.n_clusters_ == n_clusters
        assert adjusted_rand_score(np.concatenate(cut.labels_), np.concatenate(given.labels_)) == 1
        assert adjusted_rand_score(cut.predict(X), given.predict(X)) == 1
        assert np.array_equal(cut.predict(X) == cut.labels_[0][0], given.predict(X) == given.labels_[0][0])
        assert cut.scales_ == given.scales_
        assert cut.get_params()["n_clusters"] == n_clusters
        assert cut.records_[-1]["clusters"] == n_clusters
    assert model.n_clusters_ == 3
    assert model.n_clusters == "auto"
    assert all(map(np.array_equal, model.labels_, before))
    assert adjusted_rand_score(model.cut(2).cut(3).labels_[0], before[0]) == 1
