"""The estimator as a scikit-learn user meets it: tiny blobs, two rounds, well under a second each."""

import copy
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_wine, make_blobs
from sklearn.utils.estimator_checks import parametrize_with_checks

import fedkin
from fedkin.core import FedkinError

QUICK = {
    "initial": "kmeans",
    "n_clusters": 2,
    "local_epochs": 1,
    "rounds": 2,
    "min_steps": 40,
    "max_iterations": 2,
    "random_state": 0,
}
X, Y = make_blobs([24, 24, 24], n_features=8, random_state=0)
SITES = [X[Y != 2], X[Y != 0], X[Y != 1]]
NAMES = [f"f{i}" for i in range(8)]


def quick(**options: Any) -> fedkin.FedCRef:
    return fedkin.FedCRef(**{**QUICK, **options})


@pytest.fixture(scope="module")
def fitted() -> fedkin.FedCRef:
    return quick().fit(SITES)


def same(first: fedkin.FedCRef, second: fedkin.FedCRef) -> bool:
    labels = all(np.array_equal(a, b) for a, b in zip(first.labels_, second.labels_, strict=True))
    return labels and torch.equal(first.result_["models"], second.result_["models"])


class OneSite(fedkin.FedCRef):
    """A federation of one client, so that scikit-learn's own checks, which all have one table, can be run."""

    def fit(self, X: Any, y: object = None) -> "OneSite":  # noqa: N803
        super().fit([X])
        self.labels_ = self.labels_[0]
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        return tags


OUR_WORDS = "bad data get a sentence that names the client, not scikit-learn's own"
OTHER_SENTENCES = {
    "check_n_features_in_after_fitting": OUR_WORDS,
    "check_complex_data": OUR_WORDS,
    "check_estimators_empty_data_messages": OUR_WORDS,
    "check_fit2d_predict1d": OUR_WORDS,
    "check_dtype_object": "objects are refused, numbers or not",
}


@parametrize_with_checks(
    [OneSite(initial="kmeans", n_clusters=3, local_epochs=1, rounds=1, min_steps=10, max_iterations=1, random_state=0)],
    expected_failed_checks=lambda estimator: OTHER_SENTENCES,
)
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of scikit-learn about its own test data
        check(estimator)


def test_fitting_again_gives_the_same_and_other_data_leave_no_trace(fitted: fedkin.FedCRef) -> None:
    model = quick().fit([pd.DataFrame(x[:, :5], columns=NAMES[:5]) for x in SITES])
    assert model.n_features_in_ == 5
    model.fit(SITES)
    assert same(model, fitted)
    assert vars(model).keys() == vars(fitted).keys()
    assert len(model.records_) == len(fitted.records_)


def as_frame(x: Any) -> pd.DataFrame:
    return pd.DataFrame(x.astype(np.float32))


@pytest.mark.parametrize("kind", [np.asfortranarray, lambda x: torch.from_numpy(x).requires_grad_(), as_frame])
def test_clients_may_be_of_any_kind(kind: Any, fitted: fedkin.FedCRef) -> None:
    model = quick().fit([kind(x) for x in SITES])
    assert same(model, fitted)
    assert np.array_equal(model.predict(kind(X)), fitted.predict(X))


def test_the_callers_data_stay_as_they_are() -> None:
    sites = [torch.from_numpy(x.copy()) for x in SITES]
    model = quick().fit(sites)
    model.predict(sites)
    assert all(torch.equal(x, torch.from_numpy(before)) for x, before in zip(sites, SITES, strict=True))


def test_clients_with_numbers_for_names_are_called_by_texts_and_numbers_are_positions():
    rng = np.random.default_rng(0)
    clients = {7: rng.normal(size=(30, 3)), 9: rng.normal(size=(40, 3)), 1: rng.normal(size=(50, 3))}
    model = fedkin.KFed(n_clusters=2, random_state=0).fit(clients)
    assert model.client_names_ == ["7", "9", "1"]
    assert list(map(len, model.labels_)) == [30, 40, 50]
    assert len(model.labels_[1]) == 40
    assert len(model.labels_["1"]) == len(dict(model.labels_)["1"]) == 50
    assert list(model.predict(clients)) == list(model.confidence(clients)) == [7, 9, 1]
    assert list(model.predict({np.int64(9): clients[9], "8": clients[1]})) == [9, "8"]
    positions = "numbers are positions, 0 to 2, in the order of fit"
    with pytest.raises(IndexError):
        model.labels_[7]
    with pytest.raises(ValueError, match=f"^client is 9; {positions}"):
        model.forget(9, clients)
    model.forget(np.int64(1), clients)
    assert (model.labels_["9"] == -1).all()


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("model", [fedkin.KFed(n_clusters=3, random_state=0), fedkin.KinGraph(random_state=0)])
def test_rows_with_empty_cells_keep_their_clusters_in_predict_alone_and_together(model: Any) -> None:
    wine = load_wine(as_frame=True).data
    wine["cup"] = np.where(wine["proline"] > 700, "large", "small")
    wine = wine.mask(np.random.default_rng(1).random(wine.shape) < 1 / 3)
    clients = [wine[at::3] for at in range(3)]
    model.fit(clients)
    together = [model.predict(client) for client in clients]
    others = [found != labels for found, labels in zip(together, model.labels_, strict=True)]
    assert np.concatenate(others).mean() < 0.05
    assert [int(model.predict(clients[0][at : at + 1])[0]) for at in range(20)] == together[0][:20].tolist()


MEMBERSHIPS_X, MEMBERSHIPS_Y = make_blobs([40, 40, 40], n_features=4, random_state=0)
CLIENTS = {"north": MEMBERSHIPS_X[::2], "south": MEMBERSHIPS_X[1::2]}


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


def test_a_failed_fit_leaves_the_model_as_it_was(fitted: fedkin.FedCRef) -> None:
    model = copy.deepcopy(fitted)
    with pytest.raises(FedkinError):
        model.fit([SITES[0], *(x[:, :5] for x in SITES[1:])])
    assert same(model, fitted)
    assert model.n_features_in_ == 8
