"""k-FED: what a client does, what the server does, and that the two find planted clusters in one exchange."""

import pytest
import torch
from sklearn.metrics import adjusted_rand_score

from fedkin.clustering.k_means import awasthi_sheffet, farthest_points
from fedkin.core import Client
from fedkin.core.seeds import derive_generator
from fedkin.engines.local import LocalFederation
from fedkin.methods.samples.kfed import KFedMethod

CENTRES = 12 * torch.eye(6, 20)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def make_client(i: int, held: list[int], each: int = 30) -> tuple[Client, torch.Tensor]:
    truth = torch.tensor(held).repeat_interleave(each)
    return Client(i, CENTRES[truth] + torch.randn(len(truth), 20, generator=generator(100 + i))), truth


def planted(each: int = 30):
    """Six clusters, of which every client holds two."""
    made = [make_client(i, [i, (i + 1) % 6], each) for i in range(6)]
    return [client for client, _ in made], [truth for _, truth in made]


def run(method, clients, **options):
    fed = LocalFederation(clients, 0, workers=1, **options)
    state = method.init(fed)
    state, record = method.step(fed, state)
    return fed, state, record


def agreement(clients, truth):
    return adjusted_rand_score(torch.cat(truth), torch.cat([client.state["clusters"] for client in clients]))


@pytest.mark.parametrize("options", [{}, {"assign": "induced"}, {"server": "one-round"}, {"start": "largest"}])
def test_planted_clusters_are_found_where_no_client_holds_them_all(options):
    clients, truth = planted()
    _, state, record = run(KFedMethod(n_clusters=6, local_clusters=2, **options), clients)
    assert state.finished
    assert agreement(clients, truth) == 1.0
    assert torch.cdist(CENTRES, state.centroids).amin(1).max() < 1.0
    assert record.values["local_clusters"] == [2] * 6


def test_the_start_is_the_first_or_the_largest_client():
    clients = [make_client(0, [0, 1])[0], make_client(1, [2, 3], 50)[0], make_client(2, [4, 5])[0]]
    first = run(KFedMethod(n_clusters=6, local_clusters=2), clients)[2]
    largest = run(KFedMethod(n_clusters=6, local_clusters=2, start="largest"), clients)[2]
    assert (first.values["start"], largest.values["start"]) == (0, 1)
    lost = run(KFedMethod(n_clusters=6, local_clusters=2), clients, failures=[(2, 0)])[2]
    assert lost.values["start"] == 1
    assert lost.missing == {0: "lost on purpose"}


def test_induced_clusters_are_those_of_local_clusters_and_nearest_ones_are_not():
    clients, _ = planted()
    method = KFedMethod(n_clusters=3, local_clusters=2, assign="induced")
    _, state, _ = run(method, clients)
    for client in clients:
        expected = state.clusters[str(client.id)][client.state["local_clusters"]]
        assert torch.equal(client.state["clusters"], expected)
    _, state, _ = run(method, clients, failures=[(2, 3)])
    assert "3" not in state.clusters
    assert torch.equal(clients[3].state["clusters"], method.predict(method.result(state), clients[3].x))


def test_one_round_is_one_assignment_and_one_mean():
    clients, _ = planted()
    _, state, _ = run(KFedMethod(n_clusters=3, local_clusters=2, server="one-round", assign="induced"), clients)
    replies = [awasthi_sheffet(client.x, 2, client_rng(client.id)) for client in clients]
    pooled = torch.cat([reply.centres for reply in replies])
    start = farthest_points(replies[0].centres, pooled, 3)
    nearest = torch.cdist(pooled, start).argmin(1)
    expected = torch.stack([pooled[nearest == cluster].mean(0) for cluster in range(3)])
    torch.testing.assert_close(state.centroids, expected, atol=1e-4, rtol=1e-4)


def client_rng(i: int) -> torch.Generator:
    return derive_generator(0, "client", i, 2)


@pytest.mark.parametrize("server", ["until-stable", "one-round"])
@pytest.mark.parametrize("assign", ["nearest", "induced"])
def test_clients_with_few_samples_and_repeated_ones(server, assign):
    same = torch.full((9, 20), 0.3)
    clients = [Client(0, CENTRES[:1].clone()), Client(1, same), planted()[0][2], Client(3, torch.zeros(4, 20))]
    method = KFedMethod(n_clusters=4, local_clusters=3, server=server, assign=assign)
    _, state, record = run(method, clients)
    assert record.values["local_clusters"][:2] == [1, 1]
    assert record.values["local_clusters"][3] == 1
    assert method.result(state)["n_clusters"] == 4
    for client in clients:
        assert client.state["clusters"].shape == (len(client),)
        assert client.state["clusters"].max() < 4
