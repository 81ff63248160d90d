"""Networks of a user's own, in the forms in which people write them."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import fedkin
from fedkin.core import FedkinError

RNG = np.random.default_rng(0)
CLIENTS = [(RNG.normal(size=(30, 4)).astype(np.float32), RNG.integers(0, 3, 30)) for _ in range(3)]
OPTIONS: dict[str, Any] = {"rounds": 3, "local_epochs": 1, "scaling": "none", "random_state": 0}


class Net(nn.Module):
    def __init__(self, hidden: int = 6) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, hidden), nn.ReLU(), nn.Linear(hidden, 3))

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.layers(x)
        return logits


def small(shape: tuple[int, ...], classes: int, width: int = 3) -> nn.Module:
    return nn.Sequential(nn.Linear(shape[0], width), nn.BatchNorm1d(width), nn.Tanh(), nn.Linear(width, classes))


def fitted(**options: Any) -> fedkin.FedAvg:
    return fedkin.FedAvg(**OPTIONS | options).fit(CLIENTS)


def models(**options: Any) -> Tensor:
    trained: Tensor = fitted(**options).result_["models"]
    return trained


@pytest.mark.parametrize(
    "module",
    ["perceptron", "fedkin.nn.networks:perceptron", Net, small, partial(small, width=5), lambda k: small((4,), k)],
    ids=["name", "path", "class", "function", "partial", "of classes"],
)
def test_any_form_of_network_is_trained(module: Any) -> None:
    model = fitted(module=module, rounds=30)
    assert model.get_params()["module"] is module
    assert model.records_[-1]["loss"] < model.records_[0]["loss"]
    assert torch.equal(models(module=module, rounds=30), model.result_["models"])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"module": 5}, "module is of type int; it should be a name, a dotted path,"),
        ({"module": Net()}, "module is of type Net; it should be a name, a dotted path,"),
        ({"module": "nowhere:net"}, "Model 'nowhere:net' cannot be imported"),
        ({"module": lambda shape: None}, "Model '<lambda>' is made as a NoneType"),
    ],
)
def test_what_cannot_be_used_is_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(FedkinError) as raised:
        fitted(**options)
    assert str(raised.value).startswith(sentence)
    assert "\n" not in str(raised.value)
