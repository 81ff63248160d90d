"""Clients without a cluster join that of the model with the lowest loss."""

import torch

import planted
from fedkin.engines.local import LocalFederation
from fedkin.methods.clients.fedavg import FedAvgMethod
from fedkin.methods.clients.loss_placement import place_by_loss


def test_the_lowest_loss_decides():
    fed = LocalFederation(planted.clients([0, 3, 0], planted.LEVELS), workers=1, failures=[(2, 2)])
    state = FedAvgMethod(**planted.LEARNING).init(fed)
    models = torch.randn(3, state.models.shape[1], generator=torch.Generator().manual_seed(0))
    state = state.next(models=models)
    labels = torch.tensor([-1, -1, -1])
    assert list(place_by_loss(fed, state, [0, 1, 2], labels)) == [2]
    assert labels[2] == -1
    for client in (0, 1):
        own = fed.clients[client]
        losses = planted.losses(state.module, models, own.x, own.y)
        assert labels[client] == losses.index(min(losses))


def test_nobody_is_asked_for_nobody():
    fed = LocalFederation(planted.clients([0, 1]), workers=1)
    state = FedAvgMethod(**planted.LEARNING).init(fed)
    before = fed.exchange
    assert place_by_loss(fed, state, [0], torch.tensor([1, -1])) == {}
    assert fed.exchange == before
