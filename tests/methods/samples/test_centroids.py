"""Methods that cluster by centroids."""

from collections import Counter

import pytest
import torch

from fedkin.clustering.k_means import awasthi_sheffet, farthest_points
from fedkin.core import Client, FedkinError
from fedkin.core.seeds import derive_generator
from fedkin.engines.local import LocalFederation
from fedkin.methods.samples.ffcm import FFCMMethod
from fedkin.methods.samples.kfed import KFedMethod
from fedkin.methods.samples.mufc import FORGOTTEN, MUFCMethod, draw_centroids, drawn_rows, forget
from fedkin.secure_aggregation.sums import secure

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


def test_induced_clusters_are_those_of_local_clusters_and_nearest_ones_are_not():
    clients, _ = planted()
    method = KFedMethod(n_clusters=3, local_clusters=2, assign="induced")
    _, state, _ = run(method, clients)
    for client in clients:
        expected = state.clusters[state.owners == client.id][client.state["local_clusters"]]
        assert torch.equal(client.state["clusters"], expected)
    _, state, _ = run(method, clients, failures=[(2, 3)])
    assert 3 not in state.owners.tolist()
    assert torch.equal(clients[3].state["clusters"], method.predict(method.result(state), clients[3].x))


def test_one_round_is_one_assignment_and_one_mean():
    clients, _ = planted()
    _, state, _ = run(KFedMethod(n_clusters=3, local_clusters=2, max_iter=1, assign="induced"), clients)
    replies = [awasthi_sheffet(client.x, 2, client_rng(client.id)) for client in clients]
    pooled = torch.cat([reply.centres for reply in replies])
    start = farthest_points(replies[0].centres, pooled, 3)
    nearest = torch.cdist(pooled, start).argmin(1)
    expected = torch.stack([pooled[nearest == cluster].mean(0) for cluster in range(3)])
    torch.testing.assert_close(state.centroids, expected, atol=1e-4, rtol=1e-4)


def client_rng(i: int) -> torch.Generator:
    return derive_generator(0, "client", i, 2)


FFCM_CENTRES = 8 * torch.eye(4, 6)


def ffcm_make_client(i: int, held: list[int], each: int = 25) -> tuple[Client, torch.Tensor]:
    truth = torch.tensor(held).repeat_interleave(each)
    rng = torch.Generator().manual_seed(50 + i)
    return Client(i, FFCM_CENTRES[truth] + torch.randn(len(truth), 6, generator=rng)), truth


def ffcm_planted():
    made = [ffcm_make_client(i, [0, 1, 2, 3]) for i in range(3)]
    return [client for client, _ in made], [truth for _, truth in made]


def ffcm_run(method, clients, secure_sums=False, **options):
    fed = LocalFederation(clients, 0, workers=1, **options)
    if secure_sums:
        secure(fed)
    state = method.init(fed)
    states, records = [state], []
    while not state.finished:
        state, record = method.step(fed, state)
        states.append(state)
        records.append(record)
    return states, records


def test_with_sums_alone_it_finds_the_same_centres():
    method = FFCMMethod(n_clusters=4, aggregation="mean", start="uniform", fuzziness=2.0)
    (open_, plain), (hidden, secret) = (
        ffcm_run(method, ffcm_planted()[0], secure_sums=secure_sums) for secure_sums in (False, True)
    )
    assert len(plain) == len(secret) > 1
    for one, other in zip(open_, hidden, strict=True):
        torch.testing.assert_close(other.centroids, one.centroids, rtol=0, atol=1e-4)
    for one, other in zip(plain, secret, strict=True):
        assert other.answered == one.answered == [0, 1, 2]


MUFC_CENTRES = 12 * torch.eye(4, 6)


HOW = {"features": "raw", "local_clusters": 3, "grid": 0.0}


def mufc_planted(each: int = 15) -> tuple[list[Client], list[torch.Tensor]]:
    """Four clusters, of which every client holds two."""
    truths = [torch.tensor([i, (i + 1) % 4]).repeat_interleave(each) for i in range(4)]
    people = [
        Client(i, MUFC_CENTRES[t] + 0.5 * torch.randn(len(t), 6, generator=generator(i))) for i, t in enumerate(truths)
    ]
    return people, truths


def test_seeds_are_drawn_by_their_squared_distance():
    """The second seed of four points on a line, the first being the first: 1, 4 and 9 of 14."""
    points, everybody = torch.tensor([[[0.0], [1.0], [2.0], [3.0]]]), torch.ones(1, 4, dtype=torch.bool)
    rng = generator(5)
    drawn = Counter(int(drawn_rows(points, everybody, 2, [rng], [0])[0, 1]) for _ in range(1400))
    assert [drawn[row] for row in range(4)] == pytest.approx([0, 100, 400, 900], abs=60)
    alike = drawn_rows(torch.ones(1, 5, 2), torch.ones(1, 5, dtype=torch.bool), 3, [rng])[0]
    assert alike[0] >= 0
    assert alike[1:].tolist() == [-1, -1]


def test_forgetting_leaves_the_distribution_of_a_run_without_the_samples():
    """Seeds of five points, one of which is forgotten afterwards, against seeds of the four: the same, pair by pair."""
    points = torch.tensor([[0.0], [1.0], [2.5], [4.0], [7.0]])
    without, afterwards = Counter(), Counter()
    rng = generator(1)
    present = torch.tensor([True, True, True, False, True])
    for _ in range(1000):
        without[tuple(drawn_rows(points[None], present[None], 2, [rng])[0].tolist())] += 1
        client = Client(0, points, rng=rng)
        draw_centroids.run([client], [HOW | {"local_clusters": 2}])
        forget.run([client], [HOW | {"local_clusters": 2, "rows": torch.tensor([3])}])
        afterwards[tuple(client.state["centroid_rows"].tolist())] += 1
    assert set(without) == set(afterwards)
    assert all(3 not in pair for pair in afterwards)
    for pair, count in without.items():
        assert afterwards[pair] == pytest.approx(count, abs=4 * (2 * count) ** 0.5 + 5)


def test_samples_are_forgotten_with_a_certificate():
    people, _ = mufc_planted()
    method = MUFCMethod(n_clusters=4)
    fed, state, _ = run(method, people)
    state, certificate = method.unlearned(fed, state, {1: torch.tensor([0, 1, 2])})
    assert certificate["request"] == 1
    assert certificate["samples"] == 4 * 30 - 3
    assert certificate["clients"]["1"]["rows"] == 3
    assert state.owners.unique().tolist() == [0, 1, 2, 3]
    assert people[1].state["clusters"][:3].tolist() == [FORGOTTEN] * 3
    assert int(people[1].state["clusters"][3:].min()) >= 0
    state, certificate = method.unlearned(fed, state, {1: torch.arange(3, 30)})
    assert state.owners.unique().tolist() == [0, 2, 3]
    assert certificate["request"] == 2
    with pytest.raises(FedkinError, match="Nothing would be left"):
        method.unlearned(fed, state, {client: torch.arange(30) for client in (0, 2, 3)})
    with pytest.raises(FedkinError, match="has no part in the clusters"):
        method.unlearned(fed, state, {1: torch.arange(30)})
