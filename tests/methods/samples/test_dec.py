import pytest
import torch

from fedkin.clustering.metrics import clustering_accuracy
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


def test_all_samples_are_clustered_together_and_new_ones_assigned():
    clients, truth = make_clients()
    method = DECMethod(**TINY, n_clusters=3)
    state, record = run(method, LocalFederation(clients))
    assert state.finished
    assert record.values["samples"] == 90
    result = method.result(state)
    clusters = torch.cat([client.state["clusters"] for client in clients])
    assert clustering_accuracy(torch.cat(truth), clusters) > 0.95
    assert torch.equal(clusters, torch.cat([method.predict(result, client.x) for client in clients]))
    assert sorted(method.predict(result, 8 * torch.eye(3, 6)).tolist()) == [0, 1, 2]
    assert method.embed(result, clients[0].x).shape == (30, 3)


def test_all_samples_cross_and_the_bytes_say_so():
    clients, _ = make_clients()
    fed = LocalFederation(clients)
    run(DECMethod(**TINY, n_clusters=3), fed)
    assert fed.traffic.received >= 90 * 6 * 4


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


def test_clients_bring_their_own_number():
    clients, _ = make_clients()
    for client, count in zip(clients, (2, 3, 1), strict=True):
        client.state["n_clusters"] = torch.tensor(count)
    method = DECMethod(**TINY, n_clusters="given", scope="client")
    state, _ = run(method, LocalFederation(clients))
    assert state.clusters == {"0": 2, "1": 3, "2": 1}
    assert method.result(state)["n_clusters"] == 6
    assert clients[2].state["clusters"].tolist() == [5] * 30


def test_a_small_client_looks_for_no_more_than_its_samples():
    clients = [Client(0, torch.rand(2, 6)), *make_clients()[0][1:]]
    state, _ = run(DECMethod(**TINY, n_clusters=4, scope="client"), LocalFederation(clients))
    assert state.clusters == {"0": 2, "1": 4, "2": 4}


def test_a_lost_client_is_asked_again():
    clients, _ = make_clients()
    fed = LocalFederation(clients, failures=[(3, 1)])
    state, record = run(DECMethod(**TINY, n_clusters=2, scope="client"), fed)
    assert state.finished
    assert (record.answered, record.missing, fed.exchange) == ([0, 1, 2], {}, 4)
    assert all("clusters" in client.state for client in clients)


def test_what_cannot_be_is_refused():
    clients, _ = make_clients()
    with pytest.raises(FedkinError, match=r"needs method\.scope"):
        DECMethod(n_clusters="given").init(LocalFederation(clients))
    with pytest.raises(FedkinError, match="client 0 has no number of its own"):
        DECMethod(n_clusters="given", scope="client").init(LocalFederation(clients))
    with pytest.raises(FedkinError, match="n_clusters is 91, but all clients together hold 90 samples"):
        DECMethod(n_clusters=91).init(LocalFederation(clients))
    fed = LocalFederation(clients)
    fed.away = {2}
    with pytest.raises(FedkinError, match="client 2 is away"):
        DECMethod(scope="client").init(fed)


def test_clients_alone_have_no_clusters_for_new_samples():
    method = DECMethod(**TINY, n_clusters=2, scope="client")
    clients, _ = make_clients()
    state, _ = run(method, LocalFederation(clients))
    with pytest.raises(FedkinError, match="new samples have no cluster"):
        method.predict(method.result(state), clients[0].x)
