import numpy as np
import pytest
from sklearn.datasets import make_blobs

from fedkin.clustering.metrics import adjusted_rand
from fedkin.core import FedkinError
from fedkin.estimators import DEC, UIFCA


@pytest.fixture
def blobs():
    x, y = make_blobs([60, 60, 60], n_features=8, random_state=0)
    kept = [y != 2, y != 0, y != 1]
    return [x[rows] for rows in kept], [y[rows] for rows in kept]


@pytest.mark.parametrize(
    "estimator",
    [
        UIFCA(cluster_rounds=2, rounds=1, local_steps=20, learning_rate=0.01, width=16, n_clusters=3, random_state=0),
        DEC(n_clusters=3, pretrain_steps=150, random_state=0),
    ],
)
def test_clusters_of_blobs_and_of_new_samples(blobs, estimator):
    sites, truth = blobs
    estimator.fit(sites)
    assert adjusted_rand(np.concatenate(truth), np.concatenate(estimator.labels_)) > 0.95
    assert all(np.array_equal(estimator.predict(x), own) for x, own in zip(sites, estimator.labels_, strict=True))
    assert estimator.n_clusters_ == 3


def test_clients_alone_share_no_cluster_and_have_none_for_others(blobs):
    sites, _ = blobs
    model = DEC(n_clusters=2, scope="client", pretrain_steps=100, random_state=0).fit(sites)
    assert [set(labels.tolist()) for labels in model.labels_] == [{0, 1}, {2, 3}, {4, 5}]
    with pytest.raises(FedkinError, match="new samples have no cluster"):
        model.predict(sites[0])
