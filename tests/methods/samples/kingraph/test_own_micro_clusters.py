"""Smoothing that makes clients stand out is seen, said and turned off; clusters that a client has to itself stay."""

from typing import Any

import pytest
import torch

from fedkin.core import Client, FedkinError
from fedkin.engines.local import LocalFederation
from fedkin.methods.samples.kingraph.kingraph import KinGraphMethod
from fedkin.methods.samples.kingraph.own_micro_clusters import send_unsmoothed, unsmoothed_nodes


def noise(clients: int = 4, each: int = 600, apart: float = 0.0) -> list[Client]:
    """Clients with nothing but noise, of which those in the middle are near to all; or with a cluster each."""
    rng = torch.Generator().manual_seed(0)
    made = []
    for i in range(clients):
        reach = torch.exp(torch.randn(each, 1, generator=rng) / 2)
        made.append(Client(i, reach * torch.randn(each, 60, generator=rng) + apart * torch.eye(60)[i]))
    return made


def last(clients: list[Client], **options: Any) -> tuple[Any, dict[str, Any], LocalFederation]:
    method = KinGraphMethod(local_whitening=0.0, **options)
    fed = LocalFederation(clients, 0, workers=1)
    state, values = method.init(fed), {}
    if options.get("smoothing") is None:
        state = method.init(fed).next(smoothing=10)
    while not state.finished:
        state, record = method.step(fed, state)
        values = record.values
    return state, values, fed


def test_clients_with_the_same_noise_are_no_clusters() -> None:
    clients = noise()
    state, values, _ = last(clients)
    assert "Smoothing made clients stand out" in values["warning"]
    assert "Clusters are those without smoothing." in values["warning"]
    assert values["largest_client_share"] < 0.5
    assert state.smoothing == 0
    assert int(state.clusters.max()) + 1 == values["clusters"]
    again = torch.cat([client.state["clusters"] for client in clients]).unique()
    assert len(again) == values["clusters"]


def test_smoothing_that_was_asked_for_is_warned_of() -> None:
    state, values, _ = last(noise(), smoothing=10)
    assert values["warning"].endswith('set method.smoothing to 0 or "auto".')
    assert values["largest_client_share"] > 2 * values["share_without_smoothing"]
    assert state.smoothing == 10


def test_clusters_that_a_client_has_to_itself_stay() -> None:
    state, values, _ = last(noise(apart=60.0))
    assert "warning" not in values
    assert values["clusters"] == 4
    assert values["largest_client_share"] == values["share_without_smoothing"] == 1.0
    assert state.smoothing == 10


@pytest.mark.parametrize("apart", [0.0, 60.0])
def test_a_cut_asks_clients_for_nothing_and_keeps_what_was_decided(apart: float) -> None:
    state, _, fed = last(noise(apart=apart))
    method = KinGraphMethod(local_whitening=0.0, n_clusters=3)
    received = fed.traffic.received
    after, record = method.step(fed, method.before_cut(state))
    assert fed.traffic.received - received <= 2 * len(fed.ids)
    assert after.smoothing == state.smoothing == (10 if apart else 0)
    assert record.values["clusters"] == 3
    assert "share_without_smoothing" not in record.values


def test_means_before_smoothing_are_those_of_the_same_samples() -> None:
    clients = noise(2, 300)
    state, _, fed = last(clients, smoothing=10, max_nodes=40)
    means = unsmoothed_nodes(fed, state.space, state.own)
    assert means is not None
    assert means.shape == state.centroids.shape
    nodes = torch.cat(
        [state.own[state.own[:, 0] == client.id, 1][client.state["micro_clusters"]] for client in clients]
    )
    points = torch.cat([client.x for client in clients]) - state.mean
    wanted = torch.zeros(means.shape).index_add_(0, nodes, points @ state.directions) / nodes.bincount()[:, None]
    assert torch.allclose(means, wanted, atol=1e-4)


def test_without_an_answer_of_everyone_nothing_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    state, _, fed = last(noise(), smoothing=10)
    monkeypatch.setattr(fed, "ask", lambda *given: {})
    assert unsmoothed_nodes(fed, state.space, state.own) is None


def test_a_client_without_micro_clusters_says_so() -> None:
    state, _, _ = last(noise(), smoothing=10)
    with pytest.raises(FedkinError, match="The client has no micro-clusters"):
        send_unsmoothed.run([Client(0, torch.zeros(3, 60))], [{"space": state.space}])
