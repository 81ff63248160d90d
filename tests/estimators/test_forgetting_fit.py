"""Estimators forget a client: as a fit without it, with the same positions, or with what the others have sent."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score

import fedkin
from fedkin.core import FedkinError

X, Y = make_blobs([60, 60, 60], n_features=8, random_state=0)
CLIENTS = {f"client {i}": X[i::4] for i in range(4)}
TRUTH = [Y[i::4] for i in range(4)]


@pytest.mark.parametrize(
    "model",
    [
        fedkin.KFed(n_clusters=3, random_state=0, scaling="none"),
        fedkin.MUFC(n_clusters=3, random_state=0, scaling="none"),
        fedkin.KinGraph(random_state=0, common_micro_clusters=False, scaling="none"),
    ],
)
def test_exactly(model) -> None:
    model.fit(CLIENTS)
    before = {name: own.copy() for name, own in model.labels_.items()}
    certificate = model.forget("client 2", CLIENTS)
    assert certificate["client"] == "client 2"
    assert model.certificates_ == [certificate]
    assert set(model.labels_["client 2"].tolist()) == {-1}
    assert len(model.labels_["client 2"]) == len(before["client 2"])
    for i in (0, 1, 3):
        assert adjusted_rand_score(TRUTH[i], model.labels_[i]) == 1.0
    assert len(model.predict(CLIENTS["client 2"])) == 45
    assert model.forget(0, CLIENTS)["client"] == "client 0"
    assert set(model.labels_[0].tolist()) == set(model.labels_[2].tolist()) == {-1}
    with pytest.raises(FedkinError, match="Client 'client 2' is forgotten already"):
        model.forget(2, CLIENTS)


@pytest.mark.parametrize("made", [fedkin.KFed, fedkin.MUFC])
def test_it_is_as_a_fit_of_the_others(made) -> None:
    model = made(n_clusters=3, random_state=0, scaling="none").fit(CLIENTS)
    model.forget("client 3", CLIENTS)
    others = made(n_clusters=3, random_state=0, scaling="none").fit(list(CLIENTS.values())[:3])
    ours, theirs = (np.concatenate(labels) for labels in (model.labels_[:3], others.labels_))
    assert adjusted_rand_score(ours, theirs) == 1, "the same but for numbers, which are those of before"
    assert np.array_equal(model.result_["centroids"], others.result_["centroids"])
    assert model.fit(CLIENTS).certificates_ == [], "a new fit is of all clients"
    assert model.labels_["client 3"].min() >= 0


def test_methods_that_cannot_have_no_such_function() -> None:
    assert not hasattr(fedkin.IFCA(), "forget")
    assert not hasattr(fedkin.FFCM(), "forget")
    model = fedkin.KinGraph(random_state=0, scaling="none").fit(CLIENTS)
    with pytest.raises(FedkinError, match="cannot be separated from what others did"):
        model.forget(0, CLIENTS)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"client": "north"}, "Unknown client 'north'; allowed: "),
        ({"client": 0, "rows": [1]}, "KFed cannot forget single samples"),
        ({"client": 0, "X": {"a": X[:5], "b": X[5:]}}, "The clients are not those of fit"),
        ({"client": 0, "X": {**CLIENTS, "client 3": X[:3]}}, "The clients are not those of fit"),
    ],
)
def test_what_cannot_be_forgotten_is_refused(asked, said) -> None:
    model = fedkin.KFed(n_clusters=3, random_state=0).fit(CLIENTS)
    before = model.result_["centroids"].clone()
    with pytest.raises(FedkinError, match=said):
        model.forget(**{"X": CLIENTS, **asked})
    assert model.certificates_ == []
    assert np.array_equal(model.result_["centroids"], before)
