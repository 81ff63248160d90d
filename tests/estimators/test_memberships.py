"""Memberships in estimators: `predict_proba` and `memberships_` where clusters are fuzzy, and nowhere else."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs

import fedkin

X, Y = make_blobs([40, 40, 40], n_features=4, random_state=0)
CLIENTS = {"north": X[::2], "south": X[1::2]}


@pytest.mark.parametrize(
    "model",
    [fedkin.FFCM(n_clusters=3, rounds=2, random_state=0), fedkin.KinGraph(min_members=2, random_state=0)],
)
def test_parts_of_samples_sum_to_one(model) -> None:
    model.fit(CLIENTS)
    for name, x in CLIENTS.items():
        parts = model.memberships_[name]
        assert parts.shape == (60, model.n_clusters_)
        assert np.allclose(parts.sum(1), 1, atol=1e-5)
        assert np.mean(parts.argmax(1) == model.labels_[name]) > 0.95
        assert np.allclose(model.predict_proba(x).sum(1), 1, atol=1e-5)
    assert [len(parts) for parts in model.predict_proba(list(CLIENTS.values()))] == [60, 60]
    model.forget("south", CLIENTS)
    assert model.memberships_["south"].shape == (0, model.n_clusters_)
