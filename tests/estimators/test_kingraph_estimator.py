"""The estimator of kin-graph: nothing need be said, and features may be anything."""

import copy
import gc
import operator
import pickle
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits, make_blobs
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from torch import nn

import fedkin
from fedkin.core import FedkinError
from fedkin.estimators import KinGraph
from fedkin.features import extractors

X, Y = make_blobs([60, 60, 60], n_features=8, random_state=0)
SITES = [X[Y != 2], X[Y != 0], X[Y != 1]]
TRUTH = np.concatenate([Y[Y != 2], Y[Y != 0], Y[Y != 1]])


@pytest.fixture(scope="module")
def fitted():
    """A model of the sites that was told nothing; nobody may change it."""
    return KinGraph(random_state=0).fit(SITES)


def test_it_needs_no_argument(fitted):
    model = fitted
    assert model.n_clusters_ == 3
    assert adjusted_rand_score(TRUTH, np.concatenate(model.labels_)) == 1.0
    assert adjusted_rand_score(Y, model.predict(X)) == 1.0
    assert [entry["phase"] for entry in model.records_] == ["components", "differences", "graph"]


def test_images_are_told_apart_with_no_argument_either():
    x, y = load_digits(return_X_y=True)
    sites = [x[y % 3 == i].reshape(-1, 8, 8) / 16 for i in range(3)]
    model = KinGraph(random_state=0).fit(sites)
    truth = np.concatenate([y[y % 3 == i] for i in range(3)])
    assert normalized_mutual_info_score(truth, np.concatenate(model.labels_)) > 0.85
    assert model.result_["space"]["features"] == "gradients"


def test_too_few_micro_clusters_are_warned_of():
    x = np.random.default_rng(0).normal(size=(80, 20))
    with pytest.warns(UserWarning, match="One cluster was found among .* micro-clusters, too few") as warned:
        model = KinGraph(random_state=0).fit([x[:40], x[40:]])
    assert model.n_clusters_ == 1
    assert [warning.filename for warning in warned] == [__file__]


def twice(x: torch.Tensor) -> torch.Tensor:
    return 2 * x.flatten(1)


@pytest.mark.parametrize("given", [nn.Sequential(nn.Dropout(0.9), nn.Linear(8, 8)), twice])
@pytest.mark.parametrize(
    "made",
    [
        KinGraph,
        *(partial(kind, n_clusters=3) for kind in (fedkin.FFCM, fedkin.FuzzyCMeans, fedkin.KMeans, fedkin.MUFC)),
    ],
)
def test_features_may_be_a_module_or_a_function(made, given):
    torch.manual_seed(0)
    model = made(features=given, random_state=0).fit(SITES)
    assert adjusted_rand_score(TRUTH, np.concatenate(model.labels_)) == 1.0
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(again.predict(SITES)[0], model.predict(SITES)[0])
    np.testing.assert_array_equal(np.concatenate(clone(model).fit(SITES).labels_), np.concatenate(model.labels_))


def test_features_may_be_what_another_estimator_has_learnt():
    first = KinGraph(components=3, random_state=0).fit(SITES)
    assert [points.shape for points in first.transform(SITES)] == [(len(site), 3) for site in SITES]
    np.testing.assert_array_equal(first.transform(X), np.concatenate([first.transform(x) for x in np.split(X, 3)]))
    with pytest.raises(FedkinError, match=r"shape \(7,\), but the model was made for \(8,\)"):
        first.transform(X[:, :7])

    model = KinGraph(features=first.transform, scaling="none", random_state=0).fit(SITES)
    assert adjusted_rand_score(TRUTH, np.concatenate(model.labels_)) == 1.0
    np.testing.assert_array_equal(clone(model).fit(SITES).predict(X), model.predict(X))


def linear(seed, width=4):
    torch.manual_seed(seed)
    return nn.Linear(8, width)


def test_a_module_that_was_trained_further_is_used_as_it_is_now():
    given = linear(0)
    model = KinGraph(features=given, random_state=0).fit(SITES)
    before, name = model.transform(X), model.result_["space"]["features"]
    with torch.no_grad():
        given.weight.mul_(torch.tensor([[5.0], [0.1], [1.0], [-2.0]]))
    np.testing.assert_array_equal(model.transform(X), before)
    expected = KinGraph(features=copy.deepcopy(given), random_state=0).fit(SITES).transform(X)
    np.testing.assert_array_equal(model.fit(SITES).transform(X), expected)
    assert not np.array_equal(expected, before)
    assert model.result_["space"]["features"] != name


@pytest.mark.parametrize("other", [linear(1), twice, "raw"])
def test_what_is_set_after_fit_waits_for_the_next(other):
    model = KinGraph(features=linear(0, width=8), random_state=0).fit(SITES)
    before = model.transform(X)
    model.set_params(features=other)
    np.testing.assert_array_equal(model.transform(X), before)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).transform(X), before)
    np.testing.assert_array_equal(copy.deepcopy(model).transform(X), before)


@dataclass
class Scaled:
    """Compared by its number, and so without a hash."""

    by: float

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self.by * x


@pytest.mark.parametrize("given", [Scaled(2.0), operator.itemgetter(slice(None))])
def test_any_callable_will_do(given):
    model = KinGraph(features=given, random_state=0).fit(SITES)
    assert adjusted_rand_score(TRUTH, np.concatenate(model.labels_)) == 1.0
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))


def test_a_module_that_is_gone_is_forgotten():
    gc.collect()
    before = set(extractors._FEATURES)
    model = KinGraph(features=nn.Linear(8, 4), random_state=0).fit(SITES)
    twin = copy.deepcopy(model)
    for _ in range(2):
        model.fit(SITES)
        gc.collect()
        assert len(set(extractors._FEATURES) - before) == 2  # its own, and the twin's
    del model
    assert len(twin.predict(X)) == len(X)
    del twin
    gc.collect()
    assert set(extractors._FEATURES) == before


def test_other_features_are_refused():
    with pytest.raises(FedkinError, match="features is 3"):
        KinGraph(features=3).fit(SITES)
    with pytest.raises(FedkinError, match="Unknown features 'gradient'; did you mean 'gradients'"):
        KinGraph(features="gradient").fit(SITES)


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
        assert all(map(np.array_equal, cut.labels_, given.labels_))
        assert np.array_equal(cut.predict(X), given.predict(X))
        assert cut.scales_ == given.scales_
        assert cut.get_params()["n_clusters"] == n_clusters
        assert cut.records_[-1]["clusters"] == n_clusters
    assert model.n_clusters_ == 3
    assert model.n_clusters == "auto"
    assert all(map(np.array_equal, model.labels_, before))
    assert model.cut(2).cut(3).labels_[0].tolist() == before[0].tolist()


def test_a_cut_may_be_by_resolution_and_scales_show_what_there_is(fitted):
    model = fitted
    fine = model.cut(resolution=8.0)
    assert fine.n_clusters_ > 3
    (chosen,) = [scale for scale in model.scales_ if scale["chosen"]]
    assert chosen["n_clusters"] == 3
    assert chosen["samples"] == np.bincount(np.concatenate(model.labels_)).tolist()


@pytest.mark.parametrize("given", [{}, {"n_clusters": 2, "resolution": 1.0}, {"n_clusters": 0}, {"resolution": -1.0}])
def test_a_cut_needs_one_number(fitted, given):
    with pytest.raises(FedkinError):
        fitted.cut(**given)
    assert fitted.n_clusters_ == 3


@pytest.mark.filterwarnings("ignore:.* clusters were asked for")
def test_more_clusters_than_micro_clusters_are_refused_by_cut_and_noted_by_fit(fitted):
    model = fitted
    most = len(model.result_["centroids"])
    said = f"n_clusters is 5,000; here there can be at most {most}, the number of micro-clusters."
    with pytest.raises(FedkinError) as error:
        model.cut(5000)
    assert str(error.value) == said
    assert (model.n_clusters_, model.n_clusters) == (3, "auto")
    assert model.cut(most).n_clusters_ == most
    with pytest.warns(UserWarning, match=said.replace("5,000", "300")):
        assert KinGraph(n_clusters=300, random_state=0).fit(SITES).n_clusters_ == most


def test_a_cut_does_not_describe_what_clients_have_not_described():
    pandas = pytest.importorskip("pandas")
    model = KinGraph(random_state=0).fit([pandas.DataFrame(x, columns=list("abcdefgh")) for x in SITES])
    assert len(model.describe()) == 3
    with pytest.raises(FedkinError, match="of a cut are not described, since that asks the clients; fit again"):
        model.cut(2).describe()


@pytest.mark.filterwarnings("ignore:One cluster was found among")
@pytest.mark.parametrize(("rows", "dimensions"), [(12, 2), (20, 5), (300, 2), (150, 6)])
@pytest.mark.parametrize("n_clusters", ["auto", 3, 4])
def test_a_record_and_its_scales_have_one_stability(rows: int, dimensions: int, n_clusters: int | str) -> None:
    rng = np.random.default_rng(rows)
    clients = [rng.normal(size=(rows, dimensions)) + 5 * rng.integers(0, 3, (rows, 1)) for _ in range(2)]
    model = KinGraph(n_clusters=n_clusters, random_state=0).fit(clients)
    chosen = next(scale for scale in model.scales_ if scale["chosen"])
    assert model.records_[-1].get("stability") == chosen["stability"]
