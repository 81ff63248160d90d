"""Baselines that give each client a model of its own, or each group that is declared one: computed by hand."""

from typing import Any

import pytest
import torch

import planted
from fedkin.core import Client, FedkinError
from fedkin.engines.local import LocalFederation
from fedkin.methods.clients.ditto import DittoMethod
from fedkin.methods.clients.fedavg import DeclaredMethod, FedAvgMethod, LocalMethod
from fedkin.methods.clients.fedrep import FedRepMethod

ONE_ROUND: dict[str, Any] = planted.FULL_BATCH | {"rounds": 1}
CLUSTERS = [0, 1, 0]


def clients() -> list[Any]:
    return planted.clients(CLUSTERS, planted.OPPOSITE)


def test_a_head_steps_first_and_the_mean_of_bodies_is_everybodys() -> None:
    """With a linear layer's biases as the head, its weights are the representation."""
    done = planted.run(FedRepMethod(**ONE_ROUND, head_tensors=1, weighting="clients"), clients())
    start, after = done.states
    bodies = []
    body = torch.arange(start.models.shape[1]) < start.models.shape[1] - planted.CLASSES
    for row, client in done.fed.clients.items():
        model = start.models[row]
        model = model - 0.5 * ~body * planted.gradient(start.module, model, client.x, client.y)
        assert torch.allclose(after.models[row][~body], model[~body], atol=1e-6)
        bodies.append((model - 0.5 * planted.gradient(start.module, model, client.x, client.y))[body])
    assert torch.allclose(after.models[:, body], torch.stack(bodies).mean(0).expand(3, -1), atol=1e-6)
    assert not torch.allclose(after.models[0], after.models[1], atol=1e-3)


def test_a_personal_model_is_drawn_to_the_common_one() -> None:
    settings = ONE_ROUND | {"rounds": 3}
    free = planted.run(DittoMethod(**settings, attraction=0.0), clients())
    alone, common = (planted.run(each(**settings), clients()).states[-1].models for each in (LocalMethod, FedAvgMethod))
    assert torch.allclose(free.states[-1].models, alone, atol=1e-6)
    assert torch.allclose(free.states[-1].common, common, atol=1e-6)
    before, after = planted.run(DittoMethod(**settings, attraction=0.7), clients()).states[-2:]
    for row, client in free.fed.clients.items():
        model = before.models[row]
        gradient = planted.gradient(before.module, model, client.x, client.y) + 0.7 * (model - before.common[0])
        assert torch.allclose(after.models[row], model - 0.5 * gradient, atol=1e-6)


@pytest.mark.parametrize("groups", [(), ("south", "north", "south")])
def test_declared_groups_train_by_themselves(groups: tuple[str, ...]) -> None:
    fed = LocalFederation(clients(), workers=1, names=["south-1", "north-1", "south_2"])
    method = DeclaredMethod(**ONE_ROUND, groups=groups)
    state, _ = method.step(fed, method.init(fed))
    assert state.labels.tolist() == CLUSTERS
    north = clients()[1]
    alone = planted.run(FedAvgMethod(**ONE_ROUND), [Client(0, north.x, north.y)])
    assert torch.allclose(state.models[1], alone.states[-1].models[0], atol=1e-6)
    with pytest.raises(FedkinError):
        DeclaredMethod(groups=("south",)).init(fed)
