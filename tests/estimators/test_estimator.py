"""What every estimator that clusters samples promises, whatever its method."""

import copy
import dataclasses
import inspect
import pickle
import re
from functools import cache
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError

import fedkin
from fedkin.core import FedkinError
from fedkin.estimators.estimator import common_options
from fedkin.estimators.sample_estimators import SampleClusterer

X, Y = make_blobs([36, 36, 36], n_features=6, random_state=0)
SITES = [X[Y != 2], X[Y != 0], X[Y != 1]]
NETWORKS = {"epochs": 2, "min_steps": 2, "noise": 4, "capacity": 0.1}


QUICK: dict[str, dict[str, Any]] = {
    "AFCL": {"rounds": 2},
    "CCFC": {"pretrain_rounds": 2, "cluster_rounds": 1, "batch_size": 16, "latent": 8},
    "DEC": {"hidden": (16,), "code": 3, "pretrain_steps": 20, "restarts": 2, "max_refreshes": 3},
    "FFCM": {"rounds": 2},
    "FedCRef": {"initial": "kmeans", "local_epochs": 1, "rounds": 1, "min_steps": 10, "max_iterations": 1},
    "FedDPKMeans": {"epsilon": 50.0},
    "FuzzyCMeans": {},
    "KFed": {"local_clusters": 2},
    "KMeans": {"n_init": 2},
    "KinGraph": {"min_members": 2, "neighbours": 4},
    "MUFC": {},
    "PPFCGAN": {**NETWORKS, "pretrain_epochs": 2, "cluster_epochs": 1},
    "SCFC": {"pretrain_rounds": 2, "batch_size": 16, "latent": 8},
    "SDAFC": NETWORKS,
    "UIFCA": {"cluster_rounds": 2, "rounds": 1, "local_steps": 3, "width": 8, "depth": 1},
}


def quick(name: str) -> SampleClusterer:
    number = "seeds" if name == "AFCL" else "n_clusters"
    made: SampleClusterer = getattr(fedkin, name)(**{number: 3}, random_state=0, **QUICK[name])
    return made


@cache
def fitted(name: str) -> SampleClusterer:
    return quick(name).fit(SITES)


def test_every_estimator_is_held_to_them() -> None:
    made = {name for name in fedkin.__all__ if isinstance(getattr(fedkin, name), type)}
    assert {name for name in made if issubclass(getattr(fedkin, name), SampleClusterer)} == set(QUICK)


@pytest.mark.parametrize("name", QUICK)
def test_the_signature_is_the_methods(name: str) -> None:
    made = getattr(fedkin, name)
    fields = {field.name for field in dataclasses.fields(made._method)} - {"oracle", "read", "first"}
    own = {option.name for option in common_options()} - (set() if made._method.traits.has_device else {"device"})
    parameters, plain = inspect.signature(made).parameters, made._method()
    assert set(parameters) == fields | own | {"variant"} == set(made().get_params())
    assert all(parameters[field].default == getattr(plain, field) for field in fields)
    wrong, meant = ("n_seeds", "seeds") if name == "AFCL" else ("clusters", "n_clusters")
    with pytest.raises(TypeError, match=rf"^{name} has no parameter '{wrong}'; did you mean '{meant}'\?$"):
        made(**{wrong: 3})


@pytest.mark.parametrize(
    "name",
    sorted({name for name in fedkin.__all__ if hasattr(getattr(fedkin, name), "fit")}),
)
def test_the_docstring_describes_every_parameter(name: str) -> None:
    """In the signature's order, in one section that stands before the others."""
    made = getattr(fedkin, name)
    summary, _, rest = (inspect.getdoc(made) or "").partition("\n\nParameters\n----------\n")
    section, *others = re.split(r"^\w+\n-+\n", rest, flags=re.MULTILINE)
    entries = re.findall(r"^(\w+) : (.+), default (.+)\n    (.+)$", section, re.MULTILINE)
    parameters = inspect.signature(made).parameters
    assert [entry[0] for entry in entries] == list(parameters)
    assert [entry[2] for entry in entries] == [repr(parameter.default) for parameter in parameters.values()]
    assert summary
    assert not any("Parameters" in other for other in others)


@pytest.mark.filterwarnings("ignore:Synthetic samples left")
@pytest.mark.parametrize("name", QUICK)
def test_every_sample_gets_a_cluster_and_so_do_new_ones(name: str) -> None:
    model = fitted(name)
    assert [(labels.dtype, labels.shape) for labels in model.labels_] == [(np.dtype(np.int64), (72,))] * 3
    clusters = model.predict(X)
    assert (clusters.dtype, clusters.shape) == (np.int64, (108,))
    assert {*np.concatenate(model.labels_), *clusters} <= set(range(model.n_clusters_))
    assert np.array_equal(np.concatenate(model.predict([X[:5], X[5:]])), clusters)
    assert [entry["step"] for entry in model.records_] == list(range(1, len(model.records_) + 1))
    assert model.records_[-1]["received"] > 0
    assert model.n_features_in_ == 6
    with pytest.raises(FedkinError, match=r"shape \(5,\), but the model was made for \(6,\)"):
        model.predict(X[:, :5])
    with pytest.raises(NotFittedError, match=f"{name} instance is not fitted yet"):
        quick(name).predict(X)


@pytest.mark.filterwarnings("ignore:Synthetic samples left")
@pytest.mark.parametrize("name", QUICK)
def test_clones_pickles_and_copies_do_the_same(name: str) -> None:
    model = fitted(name)
    twin = clone(model)
    assert not hasattr(twin, "labels_")
    assert twin.get_params() == model.get_params()
    for other in (twin.fit(SITES), pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert all(map(np.array_equal, other.labels_, model.labels_))
        assert np.array_equal(other.predict(X), model.predict(X))


CLIENTS = list(np.random.default_rng(0).normal(size=(3, 20, 4)))
