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
)
from fedkin.nn.descent import AdamMoments
from fedkin.nn.resident import vector_of

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
    model, loss = network.learn_views(start, x, rng(7), AdamMoments.new(network.parameters), how, training)
    assert loss is not None
    assert -1.3 <= loss <= 1.3
    assert same_weights(model, expected)
    assert not same_weights(model, start)


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
