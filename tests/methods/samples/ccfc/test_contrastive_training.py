"""Training of contrastive networks, beside plain torch."""

import copy
from typing import Any

import pytest
import torch
from torch.nn.functional import cosine_similarity, one_hot

from fedkin.methods.samples.ccfc.augmentation import Augmentation, augmentation_for
from fedkin.methods.samples.ccfc.contrastive import (
    Contrastive,
    ContrastiveNetwork,
    ContrastiveTraining,
    Design,
    cluster_contrast,
    mean_correlation,
    negative_cosine,
)
from fedkin.nn.descent import AdamMoments
from fedkin.nn.resident import vector_of

SMALL = Design((1, 8, 8), latent=6, projector_units=7, predictor_units=5).decided()


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_dimensions_that_are_held_apart_vary_together_less():
    network, x = Contrastive.of(SMALL.spec()), torch.rand(64, 1, 8, 8, generator=rng(2))
    clusters, how, left = torch.arange(64) % 3, Augmentation(), {}
    for weight in (0.0, 20.0):
        training = ContrastiveTraining(local_epochs=15, batch_size=32, learning_rate=0.01, decorrelation=weight)
        model = network.initial(rng(1))
        moments = AdamMoments.new(network.parameters)
        by_views = network.learn_views(model, x, rng(7), moments, how, training)[0]
        anchors, moments = network.anchors(model, x, training)[1], AdamMoments.new(network.parameters)
        by_clusters = network.learn_clusters(model, x, clusters, anchors, rng(7), moments, training)[0]
        ends = [network.module(end).train() for end in (by_views, by_clusters)]
        left[weight] = [float(mean_correlation(end.encoder(x).detach())) for end in ends]  # type: ignore[operator]
    assert all(held < 0.8 * free for held, free in zip(left[20.0], left[0.0], strict=True))


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
    model, loss = network.learn_views(start, x, rng(7), AdamMoments.new(network.parameters), how, training)
    assert loss is not None
    assert -1.3 <= loss <= 1.3
    assert same_weights(model, expected)
    assert not same_weights(model, start)


def test_gradients_of_mostly_black_images_are_exact_to_rounding():
    design = Design((1, 28, 28), latent=16, projector_units=16).decided()
    network, drawn = Contrastive.of(design.spec()), rng(2)
    x = torch.zeros(32, 1, 28, 28)
    x[:, :, 10:18, 12:16] = torch.rand(32, 1, 8, 4, generator=drawn)
    moments, start = AdamMoments.new(network.parameters), network.initial(rng(1))
    network.learn_views(start, x, rng(7), moments, Same(), ContrastiveTraining(batch_size=32, model_weight=0.0))  # type: ignore[arg-type]
    module = copy.deepcopy(network.module(start)).double().train()
    assert isinstance(module, ContrastiveNetwork)
    x = x[torch.randperm(32, generator=rng(7))].double()
    first, second = ((module.predictor(z), z) for z in (module.encoder(x), module.encoder(x)))
    loss = negative_cosine(first[0], second[1]) + negative_cosine(second[0], first[1])
    (loss / 2).backward()
    exact = torch.cat([part.grad.flatten() for part in module.parameters() if part.grad is not None])
    assert float((10 * moments.mean.double() - exact).norm() / exact.norm()) < 1e-5


class Same:
    """Views that are the images themselves."""

    def draw(self, shape: tuple[int, ...], rng: torch.Generator) -> tuple[torch.Tensor, ...]:
        return ()

    def apply(self, x: torch.Tensor, draws: tuple[torch.Tensor, ...]) -> torch.Tensor:
        return x


def test_learning_by_clusters_uses_anchors_of_the_common_network_and_no_views():
    network, training = Contrastive.of(SMALL.spec()), ContrastiveTraining(batch_size=16, model_weight=0.5, form="code")
    start, x = network.initial(rng(1)), torch.rand(40, 1, 8, 8, generator=rng(2))
    clusters = torch.arange(40) % 3
    batches = list(torch.randperm(40, generator=rng(7)).split(16))

    def loss_of(rows: torch.Tensor, module: ContrastiveNetwork, common: ContrastiveNetwork) -> torch.Tensor:
        z = module.encoder(x[rows])
        p = module.predictor(z)
        with torch.no_grad():
            anchors = common(x[rows])
        loss = cluster_contrast(p, z, one_hot(clusters[rows], 3).float(), "code")
        return loss - 0.5 * cosine_similarity(p, anchors).mean()

    expected = plain(start, batches, loss_of)
    latents, anchors = network.anchors(start, x, training)
    assert torch.allclose(latents.norm(dim=1), torch.ones(40), atol=1e-5)
    moments = AdamMoments.new(network.parameters)
    model, _ = network.learn_clusters(start, x, clusters, anchors, rng(7), moments, training)
    assert same_weights(model, expected)
    assert float(moments.steps) == 3


def test_the_common_network_is_left_out_without_its_weight(monkeypatch: pytest.MonkeyPatch):
    network = Contrastive.of(SMALL.spec())
    calls = []
    monkeypatch.setattr(ContrastiveNetwork, "forward", lambda self, x: calls.append(x))
    start, x = network.initial(rng(1)), torch.rand(20, 1, 8, 8, generator=rng(2))
    training = ContrastiveTraining(batch_size=10, model_weight=0.0)
    network.learn_views(start, x, rng(), AdamMoments.new(network.parameters), Augmentation(), training)
    assert not calls


def test_a_single_sample_teaches_nothing():
    network = Contrastive.of(SMALL.spec())
    start, x = network.initial(rng(1)), torch.rand(1, 1, 8, 8, generator=rng(2))
    model, loss = network.learn_views(
        start, x, rng(), AdamMoments.new(network.parameters), Augmentation(), ContrastiveTraining()
    )
    assert loss is None
    assert torch.equal(model, start)


@pytest.mark.parametrize("shape", [(3, 8, 8), (5,)])
def test_other_samples_and_half_precision_train_too(shape):
    design = Design(shape, latent=6, projector_units=7, predictor_units=5).decided()
    network, training = Contrastive.of(design.spec()), ContrastiveTraining(batch_size=4, precision="bfloat16")
    start, x = network.initial(rng(1)), torch.rand(4, *shape, generator=rng(2))
    moments = AdamMoments.new(network.parameters)
    model, _ = network.learn_views(start, x, rng(), moments, augmentation_for(shape), training)
    assert model.isfinite().all()
    assert model.dtype == torch.float32
    assert network.latents(model, x).shape == (4, 6)
    assert network.latents(model, x[:0]).shape == (0, 6)
