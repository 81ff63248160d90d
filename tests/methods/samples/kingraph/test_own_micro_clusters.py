"""Smoothing that makes clients stand out is seen, said and turned off; clusters that a client has to itself stay."""

from typing import Any

import pytest
import torch

from fedkin.core import Client
from fedkin.engines.local import LocalFederation
from fedkin.methods.samples.kingraph.kingraph import KinGraphMethod
from fedkin.methods.samples.kingraph.own_micro_clusters import unsmoothed_nodes


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


def test_without_an_answer_of_everyone_nothing_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    state, _, fed = last(noise(), smoothing=10)
    monkeypatch.setattr(fed, "ask", lambda *given: {})
    assert unsmoothed_nodes(fed, state.space, state.own) is None
