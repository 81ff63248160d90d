"""Deep clustering network (Yang et al. 2017): an autoencoder whose codes are pulled to their clusters' centroids.

The loss of a sample x with code z in cluster c is ``||decoded(z) - x||^2 + weight / 2 * ||z - centroid_c||^2`` (their
eq. 5). Networks, clusters and centroids take turns batch by batch (their algorithm 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod
from typing import cast

import torch
from torch import Tensor, nn

from fedkin.clustering.k_means import k_means
from fedkin.nn.deep_clustering import hidden_widths
from fedkin.nn.descent import Descent, descend
from fedkin.nn.encoder import Autoencoding, Encoder, Output, last_layers
from fedkin.nn.layers import linear_layers
from fedkin.nn.optimisers import adam_for
from fedkin.nn.resident import Resident


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

    At least one of `pretrain_epochs` minimises the reconstruction error alone; with no `epochs` with the clusters
    k-means on the codes of an autoencoder is left. `weight` is that of a code's squared distance from its centroid, at
    least 0. An epoch has at least `min_steps` of an optimiser: few samples are passed over more than once. Of so many
    `restarts` of k-means on the first codes the best is kept.
    """

    pretrain_epochs: int = 50
    epochs: int = 50
    weight: float = 0.05
    batch_size: int = 256
    min_steps: int = 1
    learning_rate: float = 1e-3
    restarts: int = 10

    def fit(self, encoder: DeepEncoder, x: Tensor, n_clusters: int, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        """Train the encoder on samples ``(n, *shape)``, and cluster them.

        Return the trained encoder's model ``(size,)``, and centroids ``(k, width)`` in its codes; k is `n_clusters`, or
        the number of different codes if that is less.
        """
        passes = ceil(self.min_steps / ceil(len(x) / self.batch_size))
        descent = Descent(
            epochs=self.pretrain_epochs * passes,
            batch_size=self.batch_size,
            optimizer="adam",
            learning_rate=self.learning_rate,
        )
        model, _ = descend(encoder, encoder.initial(rng), x, x, rng, descent)
        start = k_means(encoder.codes(model, x), n_clusters, rng, self.restarts)
        sizes = start.labels.bincount(minlength=len(start.centres)).float()
        with encoder.loaded(model, training=True) as resident:
            x = resident.placed(x)
            clusters = _Clusters(*(resident.placed(part) for part in (start.centres, start.labels, sizes)))
            optimizer = adam_for(resident, self.learning_rate)
            for _ in range(self.epochs * passes):
                for rows in resident.placed(torch.randperm(len(x), generator=rng)).split(self.batch_size):
                    self._step(resident, optimizer, x[rows], rows, clusters)
            return resident.vector(), clusters.centroids.cpu()

    def _step(
        self, resident: Resident, optimizer: torch.optim.Optimizer, x: Tensor, rows: Tensor, clusters: _Clusters
    ) -> None:
        module = cast(Autoencoding, resident.module)
        resident.grad.zero_()
        codes = module.encoder(x)
        cluster_loss = (codes - clusters.centroids[clusters.labels[rows]]).square().sum(1)
        error = (module.decoder(codes) - x).square().flatten(1).sum(1)
        (error + self.weight / 2 * cluster_loss).mean().backward()
        optimizer.step()
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
