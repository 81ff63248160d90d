"""Methods that cluster by networks, and clusters of single clients."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkin.core import Client
from fedkin.engines.local import LocalFederation
from fedkin.methods.samples.fedcref.tasks import initial_labels
from fedkin.methods.samples.sda_fc import SDAFCMethod
from fedkin.methods.samples.uifca import UIFCAMethod, likelihoods


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def blobs(clusters, each, features=8, seed=0):
    rng = generator(seed)
    centres = 12 * torch.eye(clusters, features)
    truth = torch.arange(clusters).repeat_interleave(each)
    return centres[truth] + torch.randn(len(truth), features, generator=rng), truth


@given(
    samples=st.integers(1, 45),
    features=st.integers(1, 4),
    values=st.integers(1, 6),
    seed=st.integers(0, 99),
    data=st.data(),
)
@settings(max_examples=40, deadline=None)
def test_labels_are_compact_whatever_the_data(samples, features, values, seed, data):
    x = torch.randint(values, (samples, features), generator=generator(seed)).float()
    wanted = data.draw(st.none() | st.integers(1, 8))
    labels = initial_labels(x, data.draw(st.sampled_from(["embedding", "kmeans"])), wanted, generator(seed), 6)
    found = labels.unique().tolist()
    distinct = len(x.unique(dim=0))
    assert labels.dtype == torch.int64
    assert labels.shape == (samples,)
    assert found == list(range(len(found)))
    assert len(found) <= min(distinct, 6 if wanted is None else wanted)
    if wanted is not None and samples > 3:
        assert len(found) == min(wanted, distinct)


QUICK = {"n_clusters": 2, "epochs": 2, "min_steps": 1, "noise": 3, "capacity": 0.1}


NETWORKS = {"generator", "discriminator", "epochs"}


def synthetic_samples_make_clients(*sizes):
    rng = torch.Generator().manual_seed(1)
    return [Client(i, torch.rand(size, 5, generator=rng)) for i, size in enumerate(sizes)]


def test_networks_stay_at_their_client_and_are_dropped_in_the_end():
    clients = synthetic_samples_make_clients(7, 9)
    fed = LocalFederation(clients)
    method = SDAFCMethod(**QUICK)
    state, _ = method.step(fed, method.init(fed))
    assert all(client.state.keys() == NETWORKS for client in clients)
    received = fed.received
    state, _ = method.step(fed, state)
    assert fed.received - received < 500
    method.step(fed, state)
    assert all(client.state.keys() == {"clusters", "confidence"} for client in clients)


UIFCA_TINY = {"n_clusters": 3, "local_steps": 2, "width": 6, "depth": 1, "couplings": 2}


MEANS = torch.tensor([[4.0, 0, 0, 0], [-4.0, 0, 0, 0], [0, 4.0, 0, 0]])


def uifca_make_clients(count: int = 3, each: int = 40) -> tuple[list[Client], torch.Tensor]:
    """Clients with two of three blobs each."""
    rng = torch.Generator().manual_seed(1)
    truth = torch.stack([torch.tensor([i % 3, (i + 1) % 3]).repeat(each // 2) for i in range(count)])
    clients = [Client(i, MEANS[own] + torch.randn(each, 4, generator=rng)) for i, own in enumerate(truth)]
    return clients, truth


@pytest.fixture
def crossed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[int, Any], dict[int, Any]]]:
    """Exchanges so far: name of the task, payloads and replies."""
    seen = []
    deliver = LocalFederation.deliver

    def listen(fed: LocalFederation, task: Any, payloads: Any) -> Any:
        replies: dict[int, Any] = {}
        seen.append((task.name.rpartition(".")[2], dict(payloads), replies))
        for client, reply in deliver(fed, task, payloads):
            replies[client] = reply
            yield client, reply

    monkeypatch.setattr(LocalFederation, "deliver", listen)
    return seen


def test_a_flow_becomes_the_mean_of_the_clients_that_have_samples_of_it(crossed):
    clients, _ = uifca_make_clients()
    method = UIFCAMethod(**UIFCA_TINY, start="random")
    fed = LocalFederation(clients, seed=2)
    before = method.init(fed)
    after, _ = method.step(fed, before)
    _, _, replies = crossed[-1]
    assert len(replies) == 3
    for cluster in range(3):
        found = [
            (float((client.state["clusters"] == cluster).sum()), replies[client.id]["models"][at])
            for client in clients
            for at in (replies[client.id]["clusters"] == cluster).nonzero().flatten()
        ]
        expected = before.models[cluster]
        if found:
            weights = torch.tensor([weight for weight, _ in found])
            expected = (weights[:, None] * torch.stack([model for _, model in found])).sum(0) / weights.sum()
        assert torch.allclose(after.models[cluster], expected, atol=1e-6)


def test_samples_choose_the_likeliest_flow_once_in_a_cluster_round():
    clients, _ = uifca_make_clients()
    method = UIFCAMethod(**UIFCA_TINY, cluster_rounds=2, rounds=3, start="random")
    fed = LocalFederation(clients, seed=2)
    state = method.init(fed)
    for step in range(6):
        chosen = [likelihoods(method.result(state), client.x).argmax(0) for client in clients]
        before = [client.state.get("clusters") for client in clients]
        state, record = method.step(fed, state)
        expected = chosen if step % 3 == 0 else before
        if step < 5:
            assert all(
                torch.equal(client.state["clusters"], own) for client, own in zip(clients, expected, strict=True)
            )
        assert ("moved" in record.values) == (step % 3 == 0)
    assert state.finished
    final = [method.predict(method.result(state), client.x) for client in clients]
    assert all(torch.equal(client.state["clusters"], own) for client, own in zip(clients, final, strict=True))
