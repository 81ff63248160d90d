import pytest
import torch

from fedkin.core import Client, FedkinError
from fedkin.data.population import Population
from fedkin.engines.local import LocalFederation
from fedkin.experiment.evaluation import evaluate_samples
from fedkin.methods.samples.dec import DECMethod

TINY = {"hidden": (16,), "code": 3, "pretrain_steps": 150, "restarts": 2, "max_refreshes": 5}


def make_clients(each=30):
    """Three clients, each with two of three blobs in six dimensions."""
    rng = torch.Generator().manual_seed(1)
    truth = [torch.tensor([i, (i + 1) % 3]).repeat(each // 2) for i in range(3)]
    blobs = [8 * torch.eye(3, 6)[own] + torch.randn(each, 6, generator=rng) for own in truth]
    return [Client(i, x) for i, x in enumerate(blobs)], truth


def run(method, fed):
    state = method.init(fed)
    return method.step(fed, state)


def test_clients_that_do_not_answer_are_left_out_and_reported():
    clients, _ = make_clients()
    _, record = run(DECMethod(**TINY, n_clusters=3), LocalFederation(clients, failures=[(2, 1)]))
    assert record.values["samples"] == 60
    assert list(record.missing) == [1]
    assert all("clusters" in client.state for client in clients)


def test_with_nobody_there_it_tries_again_and_gives_up_in_the_end():
    clients, _ = make_clients()
    method = DECMethod(**TINY, n_clusters=3)
    fed = LocalFederation(clients, failures=[(exchange, i) for exchange in range(2, 99) for i in range(3)])
    state = method.init(fed)
    state, record = method.step(fed, state)
    assert not state.finished
    assert not method.ready(state)
    assert sorted(record.missing) == [0, 1, 2]
    for _ in range(18):
        state, _ = method.step(fed, state)
    with pytest.raises(FedkinError, match="0 samples arrived in 20 attempts"):
        method.step(fed, state)


def test_clients_alone_have_clusters_of_their_own():
    clients, truth = make_clients()
    method, fed = DECMethod(**TINY, n_clusters=2, scope="client"), LocalFederation(clients)
    state, record = run(method, fed)
    assert state.finished
    assert record.answered == [0, 1, 2]
    assert method.result(state)["n_clusters"] == 6
    for client in clients:
        assert set(client.state["clusters"].tolist()) <= {2 * client.id, 2 * client.id + 1}
    metrics = evaluate_samples(method, Population(clients, truth, list("abc")), fed, state)
    assert metrics["accuracy"] > 0.85
    assert metrics["pooled_accuracy"] < 0.6


def test_nothing_of_clients_alone_leaves_them():
    clients, _ = make_clients()
    fed = LocalFederation(clients)
    run(DECMethod(**TINY, n_clusters=2, scope="client"), fed)
    assert fed.traffic.received < 1000
