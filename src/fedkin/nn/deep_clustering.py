"""Deep Embedded Clustering of one client's data (Xie, Girshick, Farhadi 2016).

An autoencoder learns a short code, k-means places centroids in it, and encoder and centroids are then trained so that
soft assignments come close to a sharpened version of themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from math import ceil, prod
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedkin.clustering.k_means import k_means
from fedkin.core.device import device
from fedkin.core.errors import FedkinError
from fedkin.core.payload import Expected, is_shape
from fedkin.nn.descent import Adam, AdamMoments, LocalTraining, train_locally
from fedkin.nn.encoder import OUTPUT, Autoencoding, Encoder, Output, last_layers
from fedkin.nn.networks import UNITS, linear_layers
from fedkin.nn.resident import Resident, seeded_globally


@dataclass(frozen=True)
class DeepClusters:
    """Result of DEC: an encoder, and centroids ``(k, code)`` in its latent space.

    `widths` are the features, hidden units layer by layer, and the length of the code. `centre` ``(features,)`` is
    subtracted from samples, which are then divided by `spread`, a standard deviation. `encoder` ``(size,)`` has weights
    and biases of layer after layer.
    """

    widths: tuple[int, ...]
    centre: Tensor
    spread: float
    encoder: Tensor
    centroids: Tensor

    @torch.no_grad()
    def codes(self, x: Tensor) -> Tensor:
        """Return codes ``(n, code)`` of samples ``(n, features)``."""
        module = _module(self.widths)
        nn.utils.vector_to_parameters(self.encoder, module.parameters())
        module.to(device())
        parts = [module(((part - self.centre) / self.spread).to(device())).cpu() for part in x.split(4096)]
        return torch.cat(parts) if parts else torch.zeros(0, self.widths[-1])

    def memberships(self, x: Tensor) -> Tensor:
        """Return soft assignments of samples ``(n, features)`` to the clusters: ``(n, k)``, rows sum to 1."""
        return assignment(self.codes(x), self.centroids)


@dataclass(frozen=True)
class DeepEmbeddedClustering:
    """DEC with the options of `fedkin.methods.samples.dec.DECMethod`.

    The defaults are the paper's, except for how the autoencoder is pre-trained: there layer by layer with dropout and
    then end to end, by 150,000 steps of SGD from weights drawn with standard deviation 0.01; here Adam trains all
    layers at once on centred data, from He-scaled weights, in some hundred steps. A code is no longer than the number
    of features.
    """

    hidden: tuple[int, ...] | None = None
    code: int = 10
    pretrain_steps: int = 400
    learning_rate: float = 0.01
    batch_size: int = 256
    max_refreshes: int = 50
    restarts: int = 20

    def train(self, x: Tensor, n_clusters: int, rng: torch.Generator) -> DeepClusters:
        """Cluster the rows of `x` ``(n, features)``; return the encoder and centroids, which also assign new rows.

        A cluster may have lost all its rows. Raises FedkinError if `n_clusters` is more than n.
        """
        if n_clusters > len(x):
            raise FedkinError(f"DEC was asked for {n_clusters} clusters of {len(x)} samples.")
        # The mean squared length of rows becomes their number of features.
        centre = x.mean(dim=0)
        spread = float((x - centre).square().mean().sqrt()) or 1.0
        x = (x - centre) / spread
        widths = (x.shape[1], *(self.hidden or hidden_widths(x.shape[1])), min(self.code, x.shape[1]))
        encoder, decoder = (_drawn(path, rng).to(device()) for path in (widths, widths[::-1]))
        x = x.to(device())
        self._reconstruct(encoder, decoder, x, rng)
        with torch.no_grad():
            first = k_means(encoder(x).cpu(), n_clusters, rng, self.restarts).centres
        centroids = self._self_train(encoder, first.to(x.device), x, rng)
        vector = nn.utils.parameters_to_vector(encoder.parameters()).detach()
        return DeepClusters(widths, centre, spread, vector.cpu(), centroids.cpu())

    def _reconstruct(self, encoder: nn.Module, decoder: nn.Module, x: Tensor, rng: torch.Generator) -> None:
        optimizer = Adam([*encoder.parameters(), *decoder.parameters()], 1e-3)
        for rows in islice(_batches(len(x), self.batch_size, rng), self.pretrain_steps):
            optimizer.minimise(functional.mse_loss(decoder(encoder(x[rows])), x[rows]))

    def _self_train(self, encoder: nn.Module, centroids: Tensor, x: Tensor, rng: torch.Generator) -> Tensor:
        """Train `encoder` in place towards the sharpened assignments; return the final centroids."""
        centroids = centroids.clone().requires_grad_()
        parameters = [*encoder.parameters(), centroids]
        velocities = [torch.zeros_like(each) for each in parameters]
        labels = torch.full((len(x),), -1, device=x.device)
        batches = _batches(len(x), self.batch_size, rng)
        refresh = max(20, ceil(len(x) / self.batch_size))  # steps before a new target: an epoch, if that is more
        for _ in range(self.max_refreshes):
            with torch.no_grad():
                soft = assignment(encoder(x), centroids)
            previous, labels = labels, soft.argmax(dim=1)
            if (labels != previous).double().mean() < 0.001:  # as the paper
                break
            target = sharpened(soft)
            for rows in islice(batches, refresh):
                log_soft = assignment(encoder(x[rows]), centroids).log()
                loss = functional.kl_div(log_soft, target[rows], reduction="batchmean")
                gradients = torch.autograd.grad(loss, parameters)
                with torch.no_grad():
                    for values, velocity, gradient in zip(parameters, velocities, gradients, strict=True):
                        values.sub_(velocity.mul_(0.9).add_(gradient), alpha=self.learning_rate)
        return centroids.detach()


def assignment(code: Tensor, centroids: Tensor) -> Tensor:
    """Return soft assignments (Q) ``(n, k)``: Student's t similarity (one degree of freedom) to centroids.

    Codes are ``(n, length)``, and centroids ``(k, length)``. Assignments are normalised: positive, and rows sum to 1.
    """
    squared = (code[:, None] - centroids[None]).square().sum(dim=2)
    similarity = 1 / (1 + squared)
    return similarity / similarity.sum(dim=1, keepdim=True)


def sharpened(soft: Tensor) -> Tensor:
    """Return the target distribution (P) of soft assignments: squares over cluster frequency, normalised by row."""
    weight = soft.square() / soft.sum(dim=0)
    return weight / weight.sum(dim=1, keepdim=True)


def hidden_widths(features: int) -> tuple[int, ...]:
    """Return DEC's hidden widths for 256 features or more, in proportion below, with at least 32 units."""
    factor = min(1.0, features / 256)
    return tuple(max(32, round(width * factor)) for width in (500, 500, 2000))


def _drawn(widths: Sequence[int], rng: torch.Generator) -> nn.Sequential:
    """Return linear layers with ReLU in between, with He-scaled weights and zero biases."""
    module = _module(widths)
    for layer in module:
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, std=(2 / layer.in_features) ** 0.5, generator=rng)
            nn.init.zeros_(layer.bias)
    return module


def _module(widths: Sequence[int]) -> nn.Sequential:
    """Return linear layers with ReLU in between, whose parameters are still to be set."""
    with seeded_globally(0):  # torch draws some, without a trace; `skip_init` would import sympy
        return nn.Sequential(*linear_layers(widths))


def _batches(samples: int, size: int, rng: torch.Generator) -> Iterator[Tensor]:
    """Yield row numbers of batches without end, in a new random order for every epoch."""
    while True:
        yield from torch.randperm(samples, generator=rng).split(size)


# Deep clustering network (Yang et al. 2017): an autoencoder whose codes are pulled to their clusters' centroids.


DEEP_ENCODER: Expected = {"shape": is_shape, "output": OUTPUT, "code": UNITS}


class DeepEncoder(Encoder):
    """Fully connected autoencoder of DCN: 784-500-500-2000-code and back for 28 x 28 images, ReLU on all but the code.

    For samples of fewer than 256 numbers the hidden layers shrink in proportion, to no fewer than 32 units. The output
    "sigmoid" is for data in [0, 1]. A code has at most as many numbers as a sample.
    """

    def __init__(self, shape: tuple[int, ...], output: Output = "sigmoid", code: int = 10) -> None:
        self.code = min(code, prod(shape))
        super().__init__("deep", shape, output)

    def build(self) -> nn.Module:
        features = prod(self.shape)
        widths = [features, *hidden_widths(features), self.code]
        decoder = nn.Sequential(*linear_layers(widths[::-1]), *last_layers(self.output), nn.Unflatten(1, self.shape))
        return Autoencoding(nn.Sequential(nn.Flatten(), *linear_layers(widths)), decoder)


@dataclass(frozen=True)
class DeepClustering:
    """Hyper-parameters of DCN's training, which uses Adam, where the paper uses plain SGD.

    The loss of a sample x with code z in cluster c is ``||decoded(z) - x||^2 + 0.05 / 2 * ||z - centroid_c||^2``
    (their eq. 5). Networks, clusters and centroids take turns batch by batch (their algorithm 1).

    `pretrain_epochs` minimise the reconstruction error alone; with no `epochs` with the clusters k-means on the codes
    of an autoencoder is left. An epoch has at least `min_steps`: few samples are passed over more than once.
    """

    pretrain_epochs: int
    epochs: int
    min_steps: int = 1
    batch_size: int = 256

    def fit(self, encoder: DeepEncoder, x: Tensor, n_clusters: int, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        """Train the encoder on samples ``(n, *shape)``, and cluster them.

        Return the trained encoder's model ``(size,)``, and centroids ``(k, width)`` in its codes; k is `n_clusters`, or
        the number of different codes if that is less.
        """
        passes = ceil(self.min_steps / ceil(len(x) / self.batch_size))
        epochs = self.pretrain_epochs * passes
        training = LocalTraining(epochs, None, self.batch_size, "adam", 1e-3)
        model, _ = train_locally(encoder, encoder.initial(rng), x, x, rng, training)
        start = k_means(encoder.codes(model, x), n_clusters, rng)
        sizes = start.labels.bincount(minlength=len(start.centres)).float()
        with encoder.loaded(model, training=True) as resident:
            x = resident.placed(x)
            clusters = _Clusters(*(resident.placed(part) for part in (start.centres, start.labels, sizes)))
            moments = AdamMoments.like(resident.params)
            for _ in range(self.epochs * passes):
                for rows in resident.placed(torch.randperm(len(x), generator=rng)).split(self.batch_size):
                    self._step(resident, moments, x[rows], rows, clusters)
            return resident.vector(), clusters.centroids.cpu()

    def _step(self, resident: Resident, moments: AdamMoments, x: Tensor, rows: Tensor, clusters: _Clusters) -> None:
        module = cast(Autoencoding, resident.module)
        resident.grad.zero_()
        codes = module.encoder(x)
        cluster_loss = (codes - clusters.centroids[clusters.labels[rows]]).square().sum(1)
        error = (module.decoder(codes) - x).square().flatten(1).sum(1)
        (error + 0.05 / 2 * cluster_loss).mean().backward()
        moments.step(resident.params, resident.grad, 1e-3)
        with torch.no_grad():
            clusters.assign(rows, module.encoder(x))


@dataclass
class _Clusters:
    """State of DCN's clusters: centroids ``(k, width)``, the cluster of every sample ``(n,)``, and counts."""

    centroids: Tensor
    labels: Tensor
    counts: Tensor

    def assign(self, rows: Tensor, codes: Tensor) -> None:
        """Assign the samples at `rows` again, and move each centroid towards those assigned to it.

        A centroid moves by ``1 / count`` of the way to one sample after another, which makes it the mean of all that
        were ever assigned to it.
        """
        labels = torch.cdist(codes, self.centroids).argmin(1)
        self.labels[rows] = labels
        sums = torch.zeros_like(self.centroids).index_add(0, labels, codes)
        counts = self.counts + labels.bincount(minlength=len(self.counts))
        moved = (self.centroids * self.counts[:, None] + sums) / counts.clamp_min(1)[:, None]
        self.centroids = torch.where((counts > self.counts)[:, None], moved, self.centroids)
        self.counts = counts
