"""Parameters of estimators: those of the method, in signatures, and refused in a sentence."""

import dataclasses
import inspect
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedkin
from fedkin.core import FedkinError
from fedkin.estimators.parameters import EstimatorOptions
from fedkin.estimators.training import TrainingOptions
from fedkin.methods.clients import ocfl
from fedkin.methods.samples.fedcref import fedcref

CLIENTS = list(np.random.default_rng(0).normal(size=(3, 20, 4)))


def test_the_signature_is_that_of_the_method_for_samples() -> None:
    parameters = inspect.signature(fedkin.FedCRef).parameters
    method = inspect.signature(fedcref.FedCRefMethod).parameters
    assert set(method) - {"oracle"} == set(parameters) - {field.name for field in dataclasses.fields(EstimatorOptions)}
    assert all(parameters[name].default == method[name].default for name in method if name != "oracle")
    assert all(p.kind is p.KEYWORD_ONLY and p.annotation is not p.empty for p in parameters.values())
    assert set(fedkin.FedCRef().get_params()) == set(parameters)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"rounds": -1}, "'rounds' is -1 in FedCRef; it should be greater than or equal to 1."),
        ({"rounds": 2.5}, "'rounds' is 2.5 in FedCRef; it should be a valid integer."),
        ({"rounds": True}, "'rounds' is True in FedCRef; it should be a valid integer."),
        ({"learning_rate": float("nan")}, "'learning_rate' is nan in FedCRef; it should be a finite number."),
        ({"n_clusters": 0}, "'n_clusters' is 0 in FedCRef; it should be greater than or equal to 1"),
        (
            {"n_clusters": "many"},
            "'n_clusters' is 'many' in FedCRef; it should be a valid integer or 'auto' or 'given'.",
        ),
        ({"hidden": (8, 0)}, "'hidden' is (8, 0) in FedCRef; it should be greater than or equal to 1."),
        ({"n_clusters": [2, 2]}, "n_clusters has 2 numbers for 3 clients; give one for each."),
        ({"n_clusters": [2, 2, 2.5]}, "n_clusters[2] is 2.5; it should be an integer of 1 or more."),
        ({"n_clusters": [2, True, 2]}, "n_clusters[1] is True; it should be an integer of 1 or more."),
        ({"n_clusters": [0, 2, 2]}, "n_clusters[0] is 0; it should be an integer of 1 or more."),
        ({"initial": "k-means"}, "'initial' is 'k-means' in FedCRef; it should be "),
        ({"initial": "given"}, "method.initial = 'given', but client 0 has no given labels."),
        ({"associations": "perfect"}, "method.associations = 'perfect' needs the true classes"),
        ({"scaling": "sometimes"}, "Unknown scaling 'sometimes'; allowed: auto, none, standard."),
        ({"scaling": None}, "scaling is None; allowed: auto, none, standard."),
        ({"imputation": "mean"}, "Unknown imputation 'mean'; did you mean 'median'?"),
        ({"indicator": "yes"}, "indicator is 'yes'; it should be true or false."),
    ],
)
def test_parameters_for_samples_that_cannot_be_used_are_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(FedkinError) as raised:
        fedkin.FedCRef(**{"initial": "kmeans", "n_clusters": 2, "rounds": 1, "max_iterations": 1, **options}).fit(
            CLIENTS
        )
    assert str(raised.value).startswith(sentence)
    assert "\n" not in str(raised.value)


def test_the_signature_is_that_of_the_method_for_clients() -> None:
    parameters = inspect.signature(fedkin.OCFL).parameters
    method = inspect.signature(ocfl.OCFLMethod).parameters
    more = {field.name for kind in (EstimatorOptions, TrainingOptions) for field in dataclasses.fields(kind)}
    assert set(parameters) == set(method) | more
    assert all(parameters[name].default == method[name].default for name in method)
    assert repr(fedkin.OCFL(rounds=8, clusterer="kmeans")) == "OCFL(clusterer='kmeans', rounds=8)"


def test_truth_values_and_numbers_of_numpy_are_as_good_as_pythons() -> None:
    tables = [pd.DataFrame({"a": [*range(9), None], "b": range(10)}) for _ in range(2)]
    fitted = [fedkin.KFed(n_clusters=2, indicator=own, random_state=0).fit(tables) for own in (np.True_, True)]
    assert fitted[0].labels_[0].tolist() == fitted[1].labels_[0].tolist()
    with pytest.raises(FedkinError, match=r"^n_clusters is 21, but all clients together hold 20 samples\.$"):
        fedkin.KFed(n_clusters=np.int64(21)).fit(tables)
