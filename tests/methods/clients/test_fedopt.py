"""The server's optimisers against the formulas of Reddi et al. 2021 (algorithm 2), written out for two rounds."""

import pytest
import torch
from torch import Tensor

import planted
from fedkin.methods.clients.fedopt import FedOptMethod, FedOptState
from fedkin.nn.modules import Classifier

ETA, BETA1, BETA2, TAU = 0.07, 0.8, 0.95, 0.01
SETTINGS = planted.FULL_BATCH | {
    "server_learning_rate": ETA,
    "decay": BETA1,
    "square_decay": BETA2,
    "adaptivity": TAU,
}


def by_hand(name: str, m: Tensor, v: Tensor, delta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """One round of the algorithm: m, v and the step, in double precision."""
    if name == "momentum":
        m = BETA1 * m + delta
        return m, v, ETA * m
    m = BETA1 * m + (1 - BETA1) * delta
    v = {
        "adagrad": v + delta**2,
        "yogi": v - (1 - BETA2) * delta**2 * torch.sign(v - delta**2),
        "adam": BETA2 * v + (1 - BETA2) * delta**2,
    }[name]
    return m, v, ETA * m / (v**0.5 + TAU)


@pytest.mark.parametrize("name", ["adam", "yogi", "adagrad", "momentum"])
def test_two_rounds_follow_the_formulas(name):
    done = planted.run(FedOptMethod(**SETTINGS, rounds=2, server_optimizer=name), [planted.client(0)])
    client, model = done.fed.clients[0], done.states[0].models[0].double()
    m, v = torch.zeros_like(model), torch.full_like(model, TAU**2)
    for state in done.states[1:]:
        delta = -0.5 * planted.gradient(state.module, model.float(), client.x, client.y).double()
        m, v, step = by_hand(name, m, v, delta)
        model = model + step
        assert torch.allclose(state.models[0].double(), model, atol=2e-6)
        assert torch.allclose(state.mean[0].double(), m, atol=1e-6)
        if name != "momentum":
            assert torch.allclose(state.square[0].double(), v, atol=1e-6)


def test_running_statistics_are_averaged_and_have_no_moments():
    settings = SETTINGS | {"module": "planted:normalised", "rounds": 1}
    done = planted.run(FedOptMethod(**settings), planted.clients([0, 1]))
    start, end = done.states
    classifier = Classifier.of(start.module)
    assert end.mean.shape == end.square.shape == (1, classifier.parameters)
    mean = start.models[0, classifier.parameters : classifier.floats].clone().split(planted.CLASSES)[0]
    expected = torch.stack([0.9 * mean + 0.1 * client.x.mean(0) for client in done.fed.clients.values()]).mean(0)
    assert torch.allclose(end.models[0, classifier.parameters :][: planted.CLASSES], expected, atol=1e-6)


def test_a_round_without_any_answer_changes_neither_model_nor_moments():
    sites = planted.clients([0, 1])
    done = planted.run(FedOptMethod(**SETTINGS, rounds=2), sites, failures=[(3, 0), (3, 1)])
    assert isinstance(done.states[2], FedOptState)
    for name in ("models", "mean", "square"):
        assert torch.equal(getattr(done.states[2], name), getattr(done.states[1], name))


def test_the_optimisers_differ():
    names = ["adam", "yogi", "adagrad", "momentum"]
    sites = planted.clients([0, 1])
    ends = [
        planted.run(FedOptMethod(**SETTINGS, rounds=2, server_optimizer=name), sites).states[-1].models
        for name in names
    ]
    assert all(not torch.allclose(one, other, atol=1e-4) for at, one in enumerate(ends) for other in ends[:at])
