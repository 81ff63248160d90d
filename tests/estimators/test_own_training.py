"""Networks, losses, optimisers, schedules and augmentation of a user's own, in the forms in which people write them."""

import functools
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import make_blobs
from torch import Tensor, nn
from torch.optim.lr_scheduler import ReduceLROnPlateau, StepLR

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


def fitted(**options: Any) -> fedkin.FedAvg:
    return fedkin.FedAvg(**OPTIONS | options).fit(CLIENTS)


def models(**options: Any) -> Tensor:
    found: Tensor = fitted(**options).result_["models"]
    return found


@pytest.fixture(scope="module")
def plain() -> Tensor:
    return models(module=Net)


@pytest.mark.parametrize(
    "optimizer",
    [
        partial(torch.optim.SGD, lr=0.05),
        torch.optim.SGD,
        lambda parameters: torch.optim.SGD(parameters, lr=0.05),
    ],
)
def test_an_optimiser_is_given_in_any_form(optimizer: Any, plain: Tensor) -> None:
    assert torch.allclose(models(module=Net, optimizer=optimizer, learning_rate=0.05), plain, atol=1e-6)


def test_a_schedule_goes_by_rounds() -> None:
    own = models(module=Net, lr_scheduler=partial(StepLR, step_size=1, gamma=0.5), learning_rate=0.2)
    assert torch.equal(own, models(module=Net, learning_rates=[0.2, 0.1, 0.05]))
    assert not torch.equal(own, models(module=Net, learning_rate=0.2))
    with_own = models(module=Net, optimizer=partial(torch.optim.SGD, lr=0.2), lr_scheduler=partial(StepLR, step_size=1))
    assert torch.allclose(with_own, models(module=Net, learning_rates=[0.2, 0.02, 0.002]), atol=1e-6)
    by_function = models(
        module=Net,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.2),
        lr_scheduler=partial(StepLR, step_size=1),
    )
    assert torch.allclose(by_function, with_own, atol=1e-6)


def test_augmentation_changes_training_alone() -> None:
    shapes: list[Any] = []

    def noisy(x: Tensor) -> Tensor:
        shapes.append(tuple(x.shape))
        return x + 0.5 * torch.randn_like(x)

    first = fitted(module=Net, augmentation=noisy)
    assert set(shapes) == {(30, 4)}
    count = len(shapes)
    first.predict(CLIENTS[0][0])
    assert len(shapes) == count == 9
    assert torch.equal(first.result_["models"], models(module=Net, augmentation=noisy))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"loss": "mse"}, "loss is of type str; it should be a loss of torch's or a function."),
        ({"loss": nn.CrossEntropyLoss(reduction="none")}, "The loss given returns shape (2,) for a"),
        ({"optimizer": 7}, "optimizer is of type int; it should be 'sgd', 'adam', a class of torch.optim, a partial"),
        ({"optimizer": partial(torch.optim.SGD, lr=-1)}, "'learning_rate' is -1 in FedAvg; it should"),
        ({"lr_scheduler": 7}, "lr_scheduler cannot be made of an optimizer: TypeError"),
        ({"lr_scheduler": ReduceLROnPlateau}, "lr_scheduler made a ReduceLROnPlateau; give a schedule"),
        (
            {"lr_scheduler": partial(StepLR, step_size=1), "learning_rates": [0.1]},
            "FedAvg has lr_scheduler and learning_rates; leave one out.",
        ),
        ({"augmentation": 7}, "augmentation is of type int; it should be a function of a batch of samples."),
    ],
)
def test_what_cannot_be_used_is_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(FedkinError) as raised:
        fitted(**options)
    assert str(raised.value).startswith(sentence)


X, Y = make_blobs([30, 30], n_features=4, random_state=0)
TORCH_MODULES_CLIENTS = [(X[i::2], Y[i::2]) for i in range(2)]


def net(seed: int = 0) -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(0.1), nn.Linear(6, 2))


def small(shape: tuple[int, ...], classes: int, width: int = 3) -> nn.Module:
    return nn.Sequential(nn.Linear(shape[0], width), nn.Tanh(), nn.Linear(width, classes))


def torch_modules_fitted(module: Any, **options: Any) -> Any:
    return fedkin.FedAvg(module=module, rounds=2, random_state=0, **options).fit(TORCH_MODULES_CLIENTS)


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
    model = torch_modules_fitted(module, local_epochs=30)
    assert model.get_params()["module"] is module
    assert model.score(X, Y) > 0.9
    assert torch.equal(torch_modules_fitted(module, local_epochs=30).result_["models"], model.result_["models"])


@pytest.mark.parametrize(
    ("module", "sentence"),
    [
        (5, "module is 5; it should be a name, a dotted"),
        ("nowhere:net", "Model 'nowhere:net': module 'nowhere' cannot be imported"),
        (lambda shape: None, "Model '<lambda>#"),
    ],
)
def test_what_cannot_be_trained_is_refused(module: Any, sentence: str) -> None:
    with pytest.raises(FedkinError) as raised:
        torch_modules_fitted(module)
    assert str(raised.value).startswith(sentence)
    assert "\n" not in str(raised.value)
