"""CCFC and SCFC."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, normalize, one_hot

from fedkin.core import Client
from fedkin.engines.local import LocalFederation
from fedkin.methods.samples.ccfc.augmentation import Augmentation
from fedkin.methods.samples.ccfc.ccfc import CCFCMethod
from fedkin.methods.samples.ccfc.contrastive import (
    Contrastive,
    ContrastiveNetwork,
    ContrastiveTraining,
    Design,
    cluster_contrast,
    model_contrast,
)
from fedkin.nn.descent import AdamMoments
from fedkin.nn.resident import vector_of

TINY: dict[str, Any] = {
    "n_clusters": 3, "pretrain_rounds": 2, "cluster_rounds": 2, "batch_size": 8, "latent": 6
}  # fmt: skip


def make_clients(sizes: tuple[int, ...] = (24, 16, 20), spread: float = 0.08) -> tuple[list[Client], list[Tensor]]:
    """Samples around three corners of a cube of 12 dimensions, and which."""
    rng = torch.Generator().manual_seed(1)
    corners = (torch.rand(3, 12, generator=rng) > 0.5).float()
    truth = [torch.randint(3, (size,), generator=rng) for size in sizes]
    noise = [spread * torch.randn(size, 12, generator=rng) for size in sizes]
    return [Client(i, corners[y] + e) for i, (y, e) in enumerate(zip(truth, noise, strict=True))], truth


def run(method: CCFCMethod, clients: list[Client], **options: Any) -> tuple[list[Any], list[Any], LocalFederation]:
    fed = LocalFederation(clients, seed=3, **options)
    states, records = [method.init(fed)], []
    while not states[-1].finished:
        state, record = method.step(fed, states[-1])
        states.append(state)
        records.append(record)
    return states, records, fed


@pytest.fixture
def exchanges(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[int, Any], dict[int, Any]]]:
    """Every exchange: the task, what went out and what came back."""
    exchanges: list[tuple[str, dict[int, Any], dict[int, Any]]] = []
    deliver = LocalFederation.deliver

    def listen(fed: LocalFederation, task: Any, payloads: Any) -> Any:
        replies: dict[int, Any] = {}
        exchanges.append((task.name.rpartition(".")[2], dict(payloads), replies))
        for client, reply in deliver(fed, task, payloads):
            replies[client] = reply
            yield client, reply

    monkeypatch.setattr(LocalFederation, "deliver", listen)
    return exchanges


def test_local_centroids_are_of_the_clients_own_network_and_clusters_of_the_common_one(exchanges):
    clients, _ = make_clients()
    states, _, _ = run(CCFCMethod(**TINY), clients)
    network = Contrastive.of(states[0].network)
    _, asked, replies = exchanges[5]
    for i, reply in replies.items():
        nearest = torch.cdist(reply["centroids"], network.latents(reply["model"], clients[i].x))
        assert float(nearest.min(1).values.max()) < float(nearest.median())
        assert torch.equal(asked[i]["model"], states[3].models["all"])
        assert torch.equal(asked[i]["centroids"], states[3].centroids["all"])
    last = states[-1]
    assert torch.allclose(last.centroids["all"].norm(dim=1), torch.ones(3), atol=1e-5)
    for client in clients:
        latents = normalize(network.module(last.models["all"]).encoder(client.x), dim=1)
        assert torch.equal(client.state["clusters"], (latents @ last.centroids["all"].T).argmax(1))


def test_alone_every_client_has_its_own_network_and_clusters(exchanges):
    clients, _ = make_clients()
    method = CCFCMethod(**TINY, standalone=True)
    states, _, _ = run(method, clients)
    result = method.result(states[-1])
    assert result["n_clusters"] == 9
    assert result["clients"] == ["0", "1", "2"]
    assert [method.ready(state) for state in states] == [False] * 4 + [True]
    for i, client in enumerate(clients):
        assert set((client.state["clusters"] // 3).tolist()) == {i}
        for _, asked, _ in exchanges[2:6]:
            assert not torch.equal(asked[i]["model"], asked[(i + 1) % 3]["model"])
        assert torch.equal(exchanges[2][1][i]["model"], exchanges[1][2][i]["model"])
    assert method.predict(result, torch.rand(5, 12)).shape == (5,)
    assert method.embed(result, torch.rand(5, 12)).shape == (5, 18)


def some(n: int = 12, latent: int = 6) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    source = torch.Generator().manual_seed(3)
    p, z = torch.randn(n, latent, generator=source), torch.randn(n, latent, generator=source)
    return p, z, torch.tensor([0, 0, 0, 1, 1, 1, 1, 3, 0, 4, 4, 0])[:n]


@pytest.mark.parametrize("form", ["paper", "code"])
def test_samples_of_a_cluster_are_compared_in_pairs(form):
    p, z, clusters = some()
    terms = []
    for cluster in (0, 1, 4):  # cluster 2 is absent, cluster 3 has one sample
        rows = (clusters == cluster).nonzero()[:, 0].tolist()
        pairs = [(i, j) for i in rows for j in rows if i != j or form == "code"]
        terms.append(-sum(float(cosine_similarity(p[i], z[j], dim=0)) for i, j in pairs) / len(pairs))
    members = one_hot(clusters, 5).float()
    assert float(cluster_contrast(p, z, members, form)) == pytest.approx(sum(terms) / 3, abs=1e-5)


def test_clusters_count_the_same_in_the_paper_and_samples_in_the_code():
    p, z, clusters = some()
    members = one_hot(clusters, 5).float()
    each = -cosine_similarity(p, z)
    by_cluster = [float(each[clusters == cluster].mean()) for cluster in (0, 1, 3, 4)]
    assert float(model_contrast(p, z, members, "paper")) == pytest.approx(sum(by_cluster) / 4, abs=1e-6)
    assert float(model_contrast(p, z, members, "code")) == pytest.approx(float(each.mean()), abs=1e-6)


SMALL = Design((1, 8, 8), latent=6, projector_units=7, predictor_units=5).decided()


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def plain(start: torch.Tensor, batches: list[torch.Tensor], loss_of: Any) -> torch.Tensor:
    """Training without any of the library's ways."""
    module = copy.deepcopy(Contrastive.of(SMALL.spec()).module(start))
    assert isinstance(module, ContrastiveNetwork)
    common = copy.deepcopy(module).eval()
    module.train()
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-3)
    for rows in batches:
        optimizer.zero_grad()
        loss_of(rows, module, common).backward()
        optimizer.step()
    return vector_of(module)


def same_weights(model: torch.Tensor, expected: torch.Tensor) -> bool:
    """Biases before a normalisation have no gradient but rounding errors, of which Adam makes full steps."""
    network = Contrastive.of(SMALL.spec())
    pairs = zip(network.module(model).parameters(), network.module(expected).parameters(), strict=True)
    differences = torch.cat([(ours - theirs).flatten() for ours, theirs in pairs if ours.dim() > 1]).abs()
    return float((differences < 1e-4).float().mean()) > 0.99


def test_learning_by_views_is_simsiam_held_to_the_common_network():
    network, training = Contrastive.of(SMALL.spec()), ContrastiveTraining(batch_size=16, model_weight=0.3)
    start, x, how = network.initial(rng(1)), torch.rand(40, 1, 8, 8, generator=rng(2)), Augmentation()
    drawn = rng(7)
    batches = list(torch.randperm(40, generator=drawn).split(16))

    def loss_of(rows: torch.Tensor, module: ContrastiveNetwork, common: ContrastiveNetwork) -> torch.Tensor:
        first, second = (how.apply(x[rows], how.draw((len(rows), 1, 8, 8), drawn)) for _ in range(2))
        z1, z2 = module.encoder(first), module.encoder(second)
        p1, p2 = module.predictor(z1), module.predictor(z2)
        with torch.no_grad():
            g1, g2 = common(first), common(second)
        similar = cosine_similarity(p1, z2.detach()).mean() + cosine_similarity(p2, z1.detach()).mean()
        held = cosine_similarity(p1, g1).mean() + cosine_similarity(p2, g2).mean()
        return -similar / 2 - 0.3 * held / 2

    expected = plain(start, batches, loss_of)
    moments = AdamMoments.like(start[: network.parameters])
    model, loss = network.learn_views(start, x, rng(7), moments, how, training)
    assert loss is not None
    assert -1.3 <= loss <= 1.3
    assert same_weights(model, expected)
    assert not same_weights(model, start)
