"""What can be given as `module`: names, paths, modules and functions that make one."""

import copy
import functools
import gc
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import make_blobs
from torch import nn

import fedkin
from fedkin.core import FedkinError
from fedkin.estimators.training import architecture_of

X, Y = make_blobs([30, 30], n_features=4, random_state=0)
CLIENTS = [(X[i::2], Y[i::2]) for i in range(2)]


def net(seed: int = 0) -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(0.1), nn.Linear(6, 2))


def small(shape: tuple[int, ...], classes: int, width: int = 3) -> nn.Module:
    return nn.Sequential(nn.Linear(shape[0], width), nn.Tanh(), nn.Linear(width, classes))


class Marked(nn.Module):
    """A layer that cannot draw its parameter anew."""

    def __init__(self) -> None:
        super().__init__()
        self.mark = nn.Parameter(torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.mark


def fitted(module: Any, **options: Any) -> Any:
    return fedkin.FedAvg(module=module, rounds=2, random_state=0, **options).fit(CLIENTS)


FORMS = [
    "perceptron",
    "fedkin.nn.networks:perceptron",
    net(),
    small,
    functools.partial(small, width=5),
    lambda shape, classes: small(shape, classes, width=4),
]


@pytest.mark.parametrize("module", FORMS, ids=["name", "path", "module", "function", "partial", "lambda"])
def test_any_form_is_trained(module: Any) -> None:
    model = fitted(module, local_epochs=30)
    assert model.get_params()["module"] is module
    assert model.score(X, Y) > 0.9
    assert torch.equal(fitted(module, local_epochs=30).result_["models"], model.result_["models"])


def test_a_modules_architecture_is_taken_and_its_weights_are_drawn_anew() -> None:
    given = net()
    before = copy.deepcopy(given.state_dict())
    first, other = fitted(given), fitted(net(seed=5))
    assert isinstance(first.models_[0], nn.Sequential)
    assert torch.equal(first.result_["models"], other.result_["models"])
    assert not torch.equal(first.result_["models"], fitted(given, batch_size=7).result_["models"])
    assert all(torch.equal(value, before[name]) for name, value in given.state_dict().items())
    assert given.training
    assert type(given[3]) is nn.Dropout


def test_every_fit_names_what_it_was_given_anew() -> None:
    for given in (net(), small):
        assert fitted(given).result_["module"]["name"] != fitted(given).result_["module"]["name"]
    assert architecture_of("perceptron") is None


def test_a_module_whose_layers_have_changed_is_another_one() -> None:
    given = net()
    first = fitted(given)
    before = first.predict_proba(X)
    given[0], given[1], given[4] = nn.Linear(4, 9), nn.BatchNorm1d(9), nn.Linear(9, 2)
    second = fitted(given)
    assert second.models_[0][0].out_features == 9
    assert np.array_equal(first.predict_proba(X), before)


def test_a_fitted_estimator_does_without_the_module_it_was_given() -> None:
    model = fitted(net())
    expected = model.predict_proba(X)
    model.set_params(module="perceptron")
    gc.collect()
    assert np.array_equal(model.predict_proba(X), expected)


def test_pickles_and_copies_bring_the_module_along() -> None:
    model = fitted(net())
    expected = model.predict_proba(X)
    text, twin = pickle.dumps(model), copy.deepcopy(model)
    del model
    gc.collect()
    read = pickle.loads(text)
    assert read.result_["module"]["name"] == read._architecture.name
    for other in (read, twin):
        assert np.array_equal(other.predict_proba(X), expected)
        assert other.assign(X, Y) == 0
    assert np.array_equal(clone(read).fit(CLIENTS).predict_proba(X), expected)


@pytest.mark.parametrize(
    ("module", "sentence"),
    [
        (
            5,
            "module is 5; it should be a name, a dotted path, a torch.nn.Module or a function (shape, classes).",
        ),
        ("perceptrn", "Unknown model 'perceptrn'; did you mean 'perceptron'?"),
        ("nowhere:net", "Model 'nowhere:net': module 'nowhere' cannot be imported"),
        (nn.Linear(4, 7), "Model 'Linear' turns two samples"),
        (lambda shape: None, "Model '<lambda>#"),
        (
            nn.Sequential(Marked(), nn.Linear(4, 2)),
            "Layer '0' (Marked) of the module given has parameters but no method reset_parameters",
        ),
    ],
)
def test_what_cannot_be_trained_is_refused(module: Any, sentence: str) -> None:
    with pytest.raises(FedkinError) as raised:
        fitted(module)
    assert str(raised.value).startswith(sentence)
    assert "\n" not in str(raised.value)
