"""Networks, losses, optimisers, schedules and augmentation of a user's own, in the forms in which people write them."""

import copy
import pickle
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
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


def focal(logits: Tensor, y: Tensor) -> Tensor:
    chosen = logits.log_softmax(1).gather(1, y[:, None])
    return -((1 - chosen.exp()) ** 2 * chosen).mean()


def fitted(**options: Any) -> fedkin.FedAvg:
    return fedkin.FedAvg(**OPTIONS | options).fit(CLIENTS)


def models(**options: Any) -> Tensor:
    found: Tensor = fitted(**options).result_["models"]
    return found


@pytest.fixture(scope="module")
def plain() -> Tensor:
    return models(module=Net)


@pytest.mark.parametrize("module", [Net, lambda: Net(), lambda shape, classes: Net(), partial(Net, hidden=6)])
def test_a_network_is_given_in_any_form(module: Any, plain: Tensor) -> None:
    assert torch.equal(models(module=module), plain)


@pytest.mark.parametrize(
    "optimizer",
    [
        partial(torch.optim.SGD, lr=0.05),
        torch.optim.SGD,
        torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.05),
        lambda parameters: torch.optim.SGD(parameters, lr=0.05),
    ],
)
def test_an_optimiser_is_given_in_any_form(optimizer: Any, plain: Tensor) -> None:
    assert torch.allclose(models(module=Net, optimizer=optimizer, learning_rate=0.05), plain, atol=1e-6)


@pytest.mark.filterwarnings("ignore:.* clusters were asked for")
def test_a_loss_of_ones_own_is_learned_by_and_chosen_by() -> None:
    seen: list[float] = []

    def counted(logits: Tensor, y: Tensor) -> Tensor:
        seen.append(float(focal(logits, y).detach()))
        return focal(logits, y)

    model = fedkin.IFCA(n_clusters=2, loss=counted, module="perceptron", **OPTIONS | {"rounds": 1}).fit(CLIENTS)
    assert len(seen) == 1 + 3 * 3  # once to try it; then each client tries both models, and trains one
    assert not torch.equal(model.result_["models"][0], models(module="perceptron", rounds=1)[0])
    before = len(seen)
    model.assign(*CLIENTS[0])
    assert len(seen) == before + 2


def test_weights_of_classes_are_a_loss() -> None:
    weighted = nn.CrossEntropyLoss(weight=torch.tensor([10.0, 1.0, 1.0, 1.0])[:3])
    predicted = fitted(loss=weighted, rounds=8, learning_rate=0.2).predict(CLIENTS[0][0])
    assert (predicted == 0).mean() > (fitted(rounds=8, learning_rate=0.2).predict(CLIENTS[0][0]) == 0).mean()


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


def test_pickles_copies_and_clones_keep_them() -> None:
    options = {"module": Net, "loss": focal, "optimizer": partial(torch.optim.AdamW, lr=0.01), "rounds": 2}
    model = fedkin.OCFL(**OPTIONS | options).fit(CLIENTS)
    found = model.assign(*CLIENTS[0])
    for twin in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert twin.assign(*CLIENTS[0]) == found
        assert np.array_equal(twin.predict_proba(CLIENTS[0][0], client=0), model.predict_proba(CLIENTS[0][0], client=0))
    again = clone(model).fit(CLIENTS)
    assert torch.equal(again.result_["models"], model.result_["models"])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"loss": "mse"}, "loss is of type str; it should be a loss of torch's or a function."),
        ({"loss": lambda logits, y: 3}, "The loss given returns int for a batch; it should be one number that has a"),
        (
            {"loss": nn.CrossEntropyLoss(reduction="none")},
            "The loss given returns shape (2,) for a batch; it should be",
        ),
        ({"loss": lambda logits: logits}, "The loss given fails on logits (2, 3) and two classes: TypeError"),
        ({"optimizer": 7}, "optimizer is of type int; it should be 'sgd', 'adam', a class of torch.optim, a partial"),
        ({"optimizer": torch.optim.SGD, "momentum": 0.9}, "FedAvg has momentum=0.9 beside an optimizer of your own"),
        (
            {"optimizer": partial(torch.optim.SGD, lr=-1)},
            "'learning_rate' is -1 in FedAvg; it should be greater",
        ),
        ({"optimizer": torch.optim.SGD, "recipe": "a:b"}, "FedAvg has recipe and an optimizer or augmentation of your"),
        ({"lr_scheduler": 7}, "lr_scheduler cannot be made of an optimizer: TypeError"),
        ({"lr_scheduler": StepLR}, "lr_scheduler cannot be made of an optimizer: TypeError"),
        ({"lr_scheduler": ReduceLROnPlateau}, "lr_scheduler made a ReduceLROnPlateau, which follows a metric"),
        ({"lr_scheduler": lambda optimizer: optimizer}, "lr_scheduler made a SGD, which is none"),
        (
            {"lr_scheduler": partial(StepLR, step_size=1), "learning_rates": [0.1]},
            "FedAvg has lr_scheduler and learning_rates; leave one out.",
        ),
        ({"learning_rates": []}, "'learning_rates' is [] in FedAvg; it should"),
        ({"augmentation": 7}, "augmentation is of type int; it should be a function of a batch of samples."),
        ({"module": lambda: 7}, "Model '<lambda>"),
    ],
)
def test_what_cannot_be_used_is_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(FedkinError) as raised:
        fitted(**options)
    assert str(raised.value).startswith(sentence)
