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
LABELLED = {f"client {i}": (X[i::4], Y[i::4]) for i in range(4)}


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
    assert certificate["way"] == "exact"
    assert model.certificates_ == [certificate]
    assert set(model.labels_["client 2"].tolist()) == {-1}
    assert len(model.labels_["client 2"]) == len(before["client 2"])
    for i in (0, 1, 3):
        assert adjusted_rand_score(TRUTH[i], model.labels_[i]) == 1.0
    assert len(model.predict(CLIENTS["client 2"])) == 45
    assert "client 2" not in set(model.metrics_["client"].dropna())
    assert model.forget(0, CLIENTS)["way"] == "exact"
    assert set(model.labels_[0].tolist()) == set(model.labels_[2].tolist()) == {-1}
    with pytest.raises(FedkinError, match="Client 'client 2' is forgotten already"):
        model.forget(2, CLIENTS)


@pytest.mark.parametrize("made", [fedkin.KFed, fedkin.MUFC])
def test_exactly_is_as_fitted_again(made) -> None:
    model, again = (made(n_clusters=3, random_state=0, scaling="none").fit(CLIENTS) for _ in range(2))
    assert again.forget(1, CLIENTS, retrain=True)["way"] == "retrained"
    model.forget(1, CLIENTS)
    for ours, theirs in zip(model.labels_, again.labels_, strict=True):
        assert np.array_equal(ours, theirs)
    assert np.array_equal(model.result_["centroids"], again.result_["centroids"])


@pytest.mark.filterwarnings("ignore:.* clusters were asked for")
def test_clusters_of_clients_are_found_again() -> None:
    model = fedkin.IFCA(n_clusters=2, rounds=2, random_state=0).fit(LABELLED)
    certificate = model.forget("client 1", LABELLED)
    assert certificate["way"] == "retrained"
    assert certificate["still_holds"] == []
    assert model.client_labels_[1] == -1
    assert min(model.client_labels_[[0, 2, 3]]) >= 0
    assert len(model.predict(LABELLED["client 0"][0], client=0)) == 45
    again = fedkin.IFCA(n_clusters=2, rounds=2, random_state=0).fit(LABELLED)
    again.forget(1, LABELLED)
    assert all(
        np.array_equal(a.detach(), b.detach())
        for one, other in zip(model.models_, again.models_, strict=True)
        for a, b in zip(one.parameters(), other.parameters(), strict=True)
    )
    fresh = model.fit(LABELLED)
    assert min(fresh.client_labels_) >= 0, "a new fit is of all clients"
    assert fresh.certificates_ == []


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"client": "north"}, "Unknown client 'north'; allowed: "),
        ({"client": 0, "rows": [1]}, "KFed cannot forget single samples; forget the client, or use MUFC"),
        ({"client": 0, "X": {"a": X[:5], "b": X[5:]}}, "The clients are .*, but those of fit were"),
        ({"client": 0, "X": {**CLIENTS, "client 3": X[:3]}}, "Client client 3 has 3 rows, but had 45 in fit"),
    ],
)
def test_what_cannot_be_forgotten_is_refused(asked, said) -> None:
    model = fedkin.KFed(n_clusters=3, random_state=0).fit(CLIENTS)
    before = model.result_["centroids"].clone()
    with pytest.raises(FedkinError, match=said):
        model.forget(**{"X": CLIENTS, **asked})
    assert model.certificates_ == []
    assert np.array_equal(model.result_["centroids"], before)
