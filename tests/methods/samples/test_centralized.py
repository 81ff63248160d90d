"""The yardsticks see all samples, and say so."""

import pytest
import torch

from fedkin.clustering.k_means import k_means
from fedkin.core import Client, FedkinError
from fedkin.engines.local import LocalFederation
from fedkin.methods.samples.centralized import FuzzyCMeansMethod, KMeansMethod, send_samples

CORNERS = 5 * torch.eye(3, 4)


def make_clients(count: int = 3, each: int = 20) -> list[Client]:
    rng = torch.Generator().manual_seed(1)
    return [Client(i, CORNERS[i % 3] + torch.randn(each, 4, generator=rng)) for i in range(count)]


def run(method, clients, **options):
    fed = LocalFederation(clients, 0, workers=1, **options)
    state = method.init(fed)
    records = []
    while not state.finished:
        state, record = method.step(fed, state)
        records.append(record)
    return fed, state, records


@pytest.mark.parametrize("made", [KMeansMethod, FuzzyCMeansMethod])
def test_planted_clusters_are_found_although_every_client_has_one(made):
    clients = make_clients()
    _, state, records = run(made(n_clusters=3), clients)
    clusters = [client.state["clusters"] for client in clients]
    assert all(len(own.unique()) == 1 for own in clusters)
    assert len({int(own[0]) for own in clusters}) == 3
    assert torch.cdist(CORNERS, state.centroids).amin(1).max() < 1.0
    assert records[0].answered == [0, 1, 2]


def test_it_is_k_means_of_the_union():
    clients = make_clients()
    fed, state, _ = run(KMeansMethod(n_clusters=5, n_init=3), clients)
    expected = k_means(torch.cat([client.x for client in clients]), 5, fed.rng("centroids"), n_init=3).centres
    assert torch.equal(state.centroids, expected)


def test_the_data_are_moved_and_counted():
    clients = make_clients()
    fed, _, _ = run(KMeansMethod(n_clusters=3), clients)
    assert fed.traffic.received > sum(client.x.numel() * 4 for client in clients)


def test_images_are_compared_by_cosine():
    rng = torch.Generator().manual_seed(0)
    clients = [Client(i, torch.rand(15, 1, 4, 4, generator=rng)) for i in range(2)]
    for method in (KMeansMethod(n_clusters=3), FuzzyCMeansMethod(n_clusters=3)):
        _, state, _ = run(method, clients)
        assert state.features == "unit"
        torch.testing.assert_close(state.centroids.norm(dim=1), torch.ones(3))
        result = method.result(state)
        bright = torch.cat([client.x for client in clients]) * 7.0
        assert torch.equal(method.predict(result, bright), torch.cat([client.state["clusters"] for client in clients]))


def test_clients_that_fail_are_left_out_and_reported_in_the_end():
    clients = make_clients()
    records = run(KMeansMethod(n_clusters=3), clients, failures=[(2, 1)])[2]
    assert records[0].answered == [0, 2]
    assert records[0].missing == {1: "lost on purpose"}
    assert len(clients[1].state["clusters"]) == len(clients[1])


def test_if_nobody_answers_the_next_step_tries_again_but_not_for_ever():
    clients = make_clients(2)
    _, state, records = run(KMeansMethod(n_clusters=2), clients, failures=[(2, 0), (2, 1)])
    assert [record.answered for record in records] == [[], [0, 1]]
    assert state.finished
    with pytest.raises(FedkinError, match="No client answered KMeans in 20 attempts"):
        run(
            KMeansMethod(n_clusters=2), clients, failures=[(exchange, i) for exchange in range(2, 30) for i in range(2)]
        )


def test_what_a_client_sends_are_its_features():
    client = make_clients(1)[0]
    reply = send_samples.run([client], [{"features": "unit"}])[0]
    torch.testing.assert_close(reply["points"], client.x / client.x.norm(dim=1, keepdim=True))


def test_fewer_samples_than_clusters():
    clients = [Client(0, torch.tensor([[0.0, 1.0], [1.0, 0.0]])), Client(1, torch.tensor([[1.0, 0.0]]))]
    for method in (KMeansMethod(n_clusters=5), FuzzyCMeansMethod(n_clusters=5)):
        _, state, _ = run(method, clients)
        assert method.result(state)["n_clusters"] == 2
        assert clients[0].state["clusters"].unique().numel() == 2
