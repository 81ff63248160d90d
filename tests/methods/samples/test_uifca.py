from typing import Any

import pytest
import torch

from fedkin.core import Client, Federation
from fedkin.engines.local import LocalFederation
from fedkin.methods.samples.uifca import UIFCAMethod, likelihoods
from fedkin.nn.flow import Flow, to_logits

TINY = {"n_clusters": 3, "local_steps": 2, "width": 6, "depth": 1, "couplings": 2}
MEANS = torch.tensor([[4.0, 0, 0, 0], [-4.0, 0, 0, 0], [0, 4.0, 0, 0]])


def make_clients(count: int = 3, each: int = 40) -> tuple[list[Client], torch.Tensor]:
    """Clients with two of three blobs each."""
    rng = torch.Generator().manual_seed(1)
    truth = torch.stack([torch.tensor([i % 3, (i + 1) % 3]).repeat(each // 2) for i in range(count)])
    clients = [Client(i, MEANS[own] + torch.randn(each, 4, generator=rng)) for i, own in enumerate(truth)]
    return clients, truth


@pytest.fixture
def crossed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[int, Any], dict[int, Any]]]:
    """Exchanges so far: name of the task, payloads and replies."""
    seen = []
    stream = Federation.stream

    def listen(fed: Federation, task: Any, payloads: Any, shapes: Any = None) -> Any:
        replies = dict(stream(fed, task, payloads, shapes))
        seen.append((task.name.rsplit(".", 1)[1], dict(payloads), replies))
        yield from replies.items()

    monkeypatch.setattr(Federation, "stream", listen)
    return seen


def test_a_flow_becomes_the_mean_of_the_clients_that_have_samples_of_it(crossed):
    clients, _ = make_clients()
    method = UIFCAMethod(**TINY, start="random")
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
    clients, _ = make_clients()
    method = UIFCAMethod(**TINY, cluster_rounds=2, rounds=3, start="random")
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


def test_only_flows_of_a_clients_own_clusters_cross(crossed):
    clients, _ = make_clients()
    fed = LocalFederation(clients, seed=2)
    method = UIFCAMethod(**TINY | {"n_clusters": 6}, cluster_rounds=1, rounds=2)
    state, _ = method.step(fed, method.init(fed))
    own = [client.state["clusters"].unique() for client in clients]
    method.step(fed, state)
    (_, first, _), (_, second, replies) = [one for one in crossed if one[0] == "choose_and_train"]
    for client, clusters in enumerate(own):
        assert len(clusters) < 6
        assert torch.equal(first[client]["clusters"], torch.arange(6))
        assert torch.equal(second[client]["clusters"], clusters)
        assert torch.equal(torch.stack(second[client]["models"]), state.models[clusters])
        assert torch.equal(replies[client]["clusters"], clusters)


def test_a_cluster_without_samples_keeps_its_flow():
    clients, _ = make_clients()
    method = UIFCAMethod(**TINY | {"n_clusters": 60}, start="random")
    fed = LocalFederation(clients, seed=2)
    state = method.init(fed)
    after, record = method.step(fed, state)
    empty = [cluster for cluster, size in enumerate(record.values["sizes"]) if size == 0]
    assert 0 < len(empty) == record.values["empty"] < 60
    changed = (after.models != state.models).any(1)
    assert changed.tolist() == [cluster not in empty for cluster in range(60)]


def test_images_are_given_as_logits_and_tables_as_they_are():
    rng = torch.Generator().manual_seed(0)
    images = [Client(i, torch.rand(8, 1, 3, 4, generator=rng)) for i in range(2)]
    method = UIFCAMethod(**TINY)
    state = method.init(LocalFederation(images))
    assert state.alpha == 0.05
    flow = Flow.of(state.flow)
    expected = flow.log_likelihoods(state.models, to_logits(images[0].x, 0.05)[0])
    assert torch.equal(likelihoods(method.result(state), images[0].x), expected)
    assert UIFCAMethod(**TINY, pixels="none").init(LocalFederation(images)).alpha is None
    assert UIFCAMethod(**TINY).init(LocalFederation(make_clients()[0])).alpha is None
