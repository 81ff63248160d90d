"""The comparison with the authors' code: models are carried over as they are, and steps on given batches are taken."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity


class Theirs(nn.Module):
    """Layers in the order of the authors' network, one of them never computed."""

    def __init__(self) -> None:
        super().__init__()
        parts: list[nn.Module] = []
        for below, above in ((1, 64), (64, 128), (128, 256)):
            parts += [nn.Conv2d(below, above, 4, 2, 1), nn.BatchNorm2d(above), nn.LeakyReLU(0.2)]
        self.backbone = nn.Sequential(*parts)
        self.projector = nn.ModuleDict({
            "layer1": nn.Sequential(nn.Linear(2304, 256), nn.BatchNorm1d(256), nn.ReLU()),
            "layer2": nn.Sequential(nn.Linear(256, 256), nn.BatchNorm1d(256)),
            "layer3": nn.Sequential(nn.Linear(256, 256), nn.BatchNorm1d(256, affine=False)),
        })  # fmt: skip
        self.predictor = nn.Sequential(nn.Linear(256, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 256))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        z = self.projector["layer3"](self.projector["layer1"](self.backbone(x).flatten(1)))
        return z, self.predictor(z)


@pytest.fixture
def module() -> Theirs:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Theirs()


def batches(count: int = 2) -> list[tuple[list[Tensor], Tensor]]:
    rng = torch.Generator().manual_seed(1)
    return [([torch.rand(6, 1, 28, 28, generator=rng) for _ in range(2)], torch.arange(6)) for _ in range(count)]


def test_a_model_is_the_same_without_the_layer_that_is_not_computed(benchmark: ModuleType, module: Theirs) -> None:
    x = batches(1)[0][0][0]
    with torch.no_grad():
        module(x)  # batch norms have seen something
        module.eval()
        own = benchmark.NETWORK.module(benchmark.flat(module))
        assert torch.allclose(own(x), module(x)[1], atol=1e-6)


def test_a_round_on_given_views_is_theirs(benchmark: ModuleType, module: Theirs) -> None:
    start, given = benchmark.flat(module), batches()
    moments = benchmark.AdamMoments.new(benchmark.NETWORK.parameters)
    training = benchmark.ContrastiveTraining(batch_size=6, model_weight=0.0, form="code")
    made = benchmark.by_views(start, given, moments, training)
    optimiser = torch.optim.Adam(module.parameters(), lr=1e-3)
    module.train()
    for (first, second), _ in given:
        optimiser.zero_grad()
        (z1, p1), (z2, p2) = module(first), module(second)
        similar = cosine_similarity(p1, z2.detach()).mean() + cosine_similarity(p2, z1.detach()).mean()
        (-similar / 2).backward()
        optimiser.step()
    there = benchmark.flat(module)
    for part, near in ((benchmark.weights, 0.2), (benchmark.variances, 0.01)):
        assert benchmark.distance(part(made), part(there), part(start)) < near


def test_samples_of_a_round_by_clusters_keep_the_order_of_the_batches(
    benchmark: ModuleType, module: Theirs, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[int]] = []
    contrast = benchmark.Contrastive.learn_clusters

    def listen(network: object, start: Tensor, x: Tensor, clusters: Tensor, *more: object) -> object:
        seen.append(clusters.tolist())
        assert torch.randperm(4, generator=torch.Generator()).tolist() == [0, 1, 2, 3]
        return contrast(network, start, x, clusters, *more)

    monkeypatch.setattr(benchmark.Contrastive, "learn_clusters", listen)
    given = [
        (pair[0], torch.tensor(rows))
        for (pair, _), rows in zip(batches(), ([5, 0, 3, 1, 9, 2], [4, 6, 8, 7, 11, 10]), strict=True)
    ]
    moments = benchmark.AdamMoments.new(benchmark.NETWORK.parameters)
    training = benchmark.ContrastiveTraining(batch_size=6, form="code")
    start = benchmark.flat(module)
    made = benchmark.by_clusters(start, given, moments, training, torch.arange(12) % 3)
    assert seen == [[2, 0, 0, 1, 0, 2, 1, 0, 2, 1, 2, 1]]
    assert not torch.equal(made, start)
