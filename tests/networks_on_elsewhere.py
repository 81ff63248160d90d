"""Tests of networks that compute on a device, run as `on_elsewhere`."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import second_device
from fedkin.core.device import on
from fedkin.methods.samples.ccfc.augmentation import augmentation_for
from fedkin.methods.samples.ccfc.contrastive import Backbone, Contrastive, ContrastiveTraining, Design
from fedkin.nn.client_stack import Job, can_stack, train_all
from fedkin.nn.deep_clustering import DeepClustering, DeepEmbeddedClustering, DeepEncoder
from fedkin.nn.descent import AdamMoments, LocalTraining, train_locally
from fedkin.nn.encoder import Encoder
from fedkin.nn.flow import Flow
from fedkin.nn.gan import Adversaries, Blueprint
from fedkin.nn.modules import Classifier
from fedkin.nn.stack import Autoencoder, StackTraining, fit
from second_device import drawn

ELSEWHERE = second_device.DEVICE
IMAGES, COLOURS, VECTORS = (1, 16, 16), (3, 8, 8), (12,)
LARGER = (3, 16, 16)
"""For a ResNet-18, whose training magnifies rounding a hundred thousand times where its last maps are one pixel."""


def normed(shape: tuple[int, ...], classes: int) -> nn.Module:
    """A network with batch normalisation, which one sample teaches nothing."""
    return nn.Sequential(
        nn.Conv2d(shape[0], 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, classes)
    )


NORMED = f"{__name__}:normed"


def contrastive(shape: tuple[int, ...], backbone: Backbone = "auto") -> list[Tensor]:
    design = Design(shape, backbone, latent=16, projector_units=32, predictor_units=8)
    network = Contrastive.of(design.decided().spec())
    training = ContrastiveTraining(batch_size=8)
    rng, x = drawn(shape, 14)
    moments = AdamMoments.like(torch.zeros(network.parameters))
    model, loss = network.learn_views(network.initial(rng), x, rng, moments, augmentation_for(shape), training)
    latents, anchors = network.anchors(model, x, training)
    clusters = torch.arange(14) % 3
    after, other = network.learn_clusters(model, x, clusters, anchors, rng, moments, training)
    found = [torch.tensor([loss, other]), latents, anchors, network.latents(after, x)]
    return by_adam(model, after, moments.mean, moments.square, moments.steps) + loosely(*found)


ADAMS_RATE = 1e-3


def by_adam(*models: Tensor) -> list[Tensor]:
    """Models that Adam trained, to be the same to its rate; none on a real device, where they drift further.

    Adam divides a gradient by itself: where that is nothing but rounding, as of biases before a batch norm, the
    processor's kernels decide how far a parameter goes, and only that it is at most the rate a step is sure.
    """
    return [] if second_device.REAL else [model * (second_device.TOLERANCE / ADAMS_RATE) for model in models]


def loosely(*found: Tensor) -> list[Tensor]:
    """What such models put out, to be the same to a tolerance ten times as large."""
    return [part / 10 for part in found]


def classifier(module: str, shape: tuple[int, ...], samples: int = 20, **descent: Any) -> list[Tensor]:
    network = Classifier.of({"name": module, "shape": shape, "classes": 3})
    rng, x = drawn(shape, samples)
    y = torch.arange(samples) % 3
    model, loss = train_locally(
        network, network.initial(rng), x, y, rng, LocalTraining(epochs=2, batch_size=8, **descent)
    )
    found = [torch.tensor(loss), network.logits(model, x)]
    if "adam" in descent.values():
        return by_adam(model) + loosely(*found)
    if module == "resnet18":  # so deep that an accelerator's rounding grows in its parameters
        return ([] if second_device.REAL else [model]) + loosely(*found)
    return [model, *found]


def encoder() -> list[Tensor]:
    network = Encoder.of({"name": "conv-autoencoder", "shape": IMAGES, "output": "sigmoid"})
    rng, x = drawn(IMAGES, 20)
    model, loss = train_locally(network, network.initial(rng), x, x, rng, LocalTraining(optimizer="adam", batch_size=8))
    codes = network.codes(model, x)
    return by_adam(model) + loosely(torch.tensor(loss), codes, network.decoded(model, codes))


def adversaries() -> list[Tensor]:
    networks = Adversaries.of(Blueprint(IMAGES, capacity=0.05))
    rng, x = drawn(IMAGES, 20)
    first = (networks.generator.initial(rng), networks.discriminator.initial(rng))
    maker, judge, losses = networks.epoch(*first, x, rng, (1e-3, 1e-3), batch_size=8)
    return by_adam(maker, judge) + loosely(losses, networks.samples(maker, 5, rng))


def flow() -> list[Tensor]:
    network = Flow.of({"shape": VECTORS, "width": 8, "depth": 2, "couplings": 2})
    rng, x = drawn(VECTORS, 20)
    model, loss = train_locally(network, network.initial(rng), x, x, rng, LocalTraining(optimizer="adam", batch_size=8))
    likelihoods = network.log_likelihoods(torch.stack([model, model]), x)
    return by_adam(model) + loosely(torch.tensor(loss), likelihoods)


def deep_clustering() -> list[Tensor]:
    rng, x = drawn(VECTORS, 40)
    how = DeepClustering(pretrain_epochs=2, epochs=2, batch_size=16)
    return list(how.fit(DeepEncoder(VECTORS, code=3), x, 3, rng))


def stack() -> list[Tensor]:
    model, rng = Autoencoder((12, 6, 3)), torch.Generator().manual_seed(0)
    data = [drawn(VECTORS, count)[1] for count in (20, 5, 33)]
    rngs = [torch.Generator().manual_seed(k) for k in range(3)]
    trained = fit(model, model.initial([rng] * 3), data, rngs, StackTraining(epochs=3, batch_size=8))
    return by_adam(trained) + loosely(model.errors(trained, data[0]))


def few_at_once() -> list[Tensor]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedkin.nn.resident._ASSUMED", 1)
        return stack()


def embedded_clustering() -> list[Tensor]:
    rng, x = drawn(VECTORS, 40)
    how = DeepEmbeddedClustering(hidden=(16,), code=3, pretrain_steps=10, max_refreshes=2, batch_size=16)
    found = how.train(x, 3, rng)
    return by_adam(found.encoder, found.centroids) + loosely(found.codes(x), found.memberships(x))


SIZES = (20, 8, 13, 33, 20)


def jobs(module: str, shape: tuple[int, ...], descent: LocalTraining) -> list[Job]:
    network = Classifier.of({"name": module, "shape": shape, "classes": 3})
    made = []
    for seed, samples in enumerate(SIZES):
        rng = torch.Generator().manual_seed(seed)
        x = torch.rand(samples, *shape, generator=rng)
        made.append(Job(network, network.initial(rng), x, torch.arange(samples) % 3, rng, descent))
    return made


@pytest.mark.parametrize(
    "descent",
    second_device.some(
        [
            LocalTraining(epochs=2, batch_size=8),
            LocalTraining(epochs=2, batch_size=8, momentum=0.9, proximal=0.1),
            LocalTraining(epochs=2, batch_size=8, optimizer="adam", weight_decay=0.1),
            LocalTraining(steps=5, batch_size=8),
        ],
        2,
    ),
    ids=second_device.some(["plain", "momentum", "Adam", "steps"], 2),
)
@pytest.mark.parametrize(("module", "shape"), [("lenet5", IMAGES), ("perceptron", VECTORS), (NORMED, COLOURS)])
def test_clients_train_together_as_alone(module: str, shape: tuple[int, ...], descent: LocalTraining) -> None:
    alone = [job.train() for job in jobs(module, shape, descent)]
    with on(ELSEWHERE):
        assert can_stack(jobs(module, shape, descent)[0].architecture)
        together = train_all(jobs(module, shape, descent))
    for (model, loss), (ours, our_loss) in zip(alone, together, strict=True):
        # Adam's first steps divide a gradient by itself, however small it is.
        tolerance = 2e-3 if descent.optimizer == "adam" else 1e-5
        assert torch.allclose(model, ours, rtol=0, atol=max(second_device.TOLERANCE, tolerance))
        assert loss == pytest.approx(our_loss, rel=1e-3)


def test_every_tensor_begins_where_a_gpu_can_read_sixteen_bytes() -> None:
    network = Classifier.of({"name": "lenet5", "shape": IMAGES, "classes": 3})
    vector = network.initial(torch.Generator().manual_seed(0))
    with on(ELSEWHERE), network.loaded(vector) as resident:
        assert {part.storage_offset() % 4 for part in resident.module.parameters()} == {0}
        assert torch.equal(resident.vector(), vector)
        laid_out = resident.laid_out(vector[: network.parameters])
        assert len(laid_out) > network.parameters
        assert torch.equal(laid_out.cpu(), resident.params.cpu())
        assert torch.equal(resident.collected(laid_out), vector[: network.parameters])


@pytest.mark.parametrize(
    "made",
    second_device.some(
        [
            pytest.param(lambda: contrastive(IMAGES), id="contrastive, grey"),
            pytest.param(lambda: contrastive(COLOURS, "convolutions"), id="contrastive, colour"),
            pytest.param(lambda: contrastive(VECTORS), id="contrastive, vectors"),
            pytest.param(lambda: classifier("lenet5", IMAGES), id="gradient descent"),
            pytest.param(lambda: classifier("lenet5", IMAGES, momentum=0.9, proximal=0.1), id="momentum"),
            pytest.param(lambda: classifier("lenet5", IMAGES, optimizer="adam", weight_decay=0.1), id="Adam"),
            pytest.param(lambda: classifier("resnet18", LARGER, samples=8), id="residual blocks"),
            pytest.param(lambda: classifier("perceptron", VECTORS), id="perceptron"),
            pytest.param(encoder, id="encoder"),
            pytest.param(adversaries, id="adversaries"),
            pytest.param(flow, id="flow"),
            pytest.param(deep_clustering, id="deep clustering"),
            pytest.param(stack, id="stacked autoencoders"),
            pytest.param(few_at_once, id="stacked autoencoders, one at a time"),
            pytest.param(embedded_clustering, id="deep embedded clustering"),
        ],
        2,
    ),
)
def test_training_is_the_same(made: Callable[[], list[Tensor]]) -> None:
    ours = made()
    with on(ELSEWHERE):
        theirs = made()
    for one, other in zip(ours, theirs, strict=True):
        assert type(other) is Tensor
        assert torch.allclose(one, other, rtol=0, atol=second_device.TOLERANCE)
