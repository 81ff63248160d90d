"""Deep Embedded Clustering of one site's data (Xie, Girshick, Farhadi 2016).

An autoencoder learns a short code, k-means places centroids in it, and encoder and centroids are then trained so that
soft assignments come close to a sharpened version of themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, pairwise

import torch
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits
from torch import Tensor, nn
from torch.nn import functional

from fedkin.core.errors import FedkinError
from fedkin.core.seeds import draw_seed

PAPER_WIDTHS = (500, 500, 2000)
PAPER_CODE = 10


@dataclass(frozen=True)
class DeepEmbeddedClustering:
    """Hyper-parameters of DEC; the defaults are the paper's, except for how the autoencoder is pre-trained.

    The paper pre-trains layer by layer with dropout and then end to end, 150,000 steps of SGD in all, on data scaled
    but not centred and from weights drawn with standard deviation 0.01. Here Adam trains all layers at once on centred
    data, from He-scaled weights, in some hundred steps; from the paper's weights so few steps give a useless code.

    Attributes
    ----------
    hidden : tuple of int, optional
        Widths of the encoder's hidden layers, mirrored in the decoder; by default the paper's 500-500-2000 for 256
        features or more, and in proportion for fewer.
    code : int
        Length of the code, at most the number of features.
    pretrain_steps : int
        Steps of reconstruction.
    pretrain_learning_rate : float
        Adam's, in reconstruction.
    learning_rate, momentum : float
        SGD's, in self-training.
    batch : int
        Samples per step, in both.
    refresh : int
        Steps of self-training on one target distribution.
    max_refreshes : int
        Bound on the number of targets.
    tolerance : float
        Self-training ends when a smaller share of samples than this has changed cluster since the last refresh.
    restarts : int
        k-means runs on the code, of which the best is kept.
    """

    hidden: tuple[int, ...] | None = None
    code: int = PAPER_CODE
    pretrain_steps: int = 400
    pretrain_learning_rate: float = 1e-3
    learning_rate: float = 0.01
    momentum: float = 0.9
    batch: int = 256
    refresh: int = 20
    max_refreshes: int = 50
    tolerance: float = 0.001
    restarts: int = 20

    def fit(self, x: Tensor, n_clusters: int, rng: torch.Generator) -> Tensor:
        """Cluster the rows of `x`.

        Parameters
        ----------
        x : Tensor
            float32 ``(n, features)``.
        n_clusters : int
            Clusters to look for, in ``1..n``.
        rng : torch.Generator
            The only source of randomness.

        Returns
        -------
        Tensor
            int64 ``(n,)``, the cluster of each row in ``0..n_clusters-1``. A cluster may have lost all its rows.

        Raises
        ------
        FedkinError
            If `n_clusters` is not in ``1..n``.
        """
        if not 1 <= n_clusters <= len(x):
            raise FedkinError(
                f"DEC was asked for {n_clusters} clusters of {len(x)} samples; 1 to {len(x)} are possible."
            )
        if n_clusters == 1:
            return torch.zeros(len(x), dtype=torch.int64)
        x = _unit_scale(x)
        encoder, decoder = self._networks(x.shape[1], rng)
        self._reconstruct(encoder, decoder, x, rng)
        with torch.no_grad():
            centroids = self._centroids(encoder(x), n_clusters, rng)
        return self._self_train(encoder, centroids, x, rng)

    def _networks(self, features: int, rng: torch.Generator) -> tuple[nn.Sequential, nn.Sequential]:
        hidden = self.hidden or _hidden_for(features)
        widths = [features, *hidden, min(self.code, features)]
        return _mlp(widths, rng), _mlp(widths[::-1], rng)

    def _reconstruct(self, encoder: nn.Module, decoder: nn.Module, x: Tensor, rng: torch.Generator) -> None:
        parameters = [*encoder.parameters(), *decoder.parameters()]
        optimizer = torch.optim.Adam(parameters, lr=self.pretrain_learning_rate)
        for rows in islice(_batches(len(x), self.batch, rng), self.pretrain_steps):
            loss = functional.mse_loss(decoder(encoder(x[rows])), x[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    def _centroids(self, code: Tensor, n_clusters: int, rng: torch.Generator) -> Tensor:
        search = KMeans(n_clusters, n_init=self.restarts, random_state=draw_seed(rng))
        with threadpool_limits(1, user_api="openmp"):
            return torch.from_numpy(search.fit(code.numpy()).cluster_centers_).float()

    def _self_train(self, encoder: nn.Module, centroids: Tensor, x: Tensor, rng: torch.Generator) -> Tensor:
        centroids = centroids.clone().requires_grad_()
        parameters = [*encoder.parameters(), centroids]
        optimizer = torch.optim.SGD(parameters, lr=self.learning_rate, momentum=self.momentum)
        labels = torch.full((len(x),), -1)
        batches = _batches(len(x), self.batch, rng)
        for _ in range(self.max_refreshes):
            with torch.no_grad():
                soft = assignment(encoder(x), centroids)
            previous, labels = labels, soft.argmax(dim=1)
            if (labels != previous).double().mean() < self.tolerance:
                break
            target = sharpened(soft)
            for rows in islice(batches, self.refresh):
                log_soft = assignment(encoder(x[rows]), centroids).log()
                loss = functional.kl_div(log_soft, target[rows], reduction="batchmean")
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        return labels


def assignment(code: Tensor, centroids: Tensor) -> Tensor:
    """Soft assignment (Q): similarity to each centroid under Student's t with one degree of freedom, normalised.

    Parameters
    ----------
    code : Tensor
        ``(n, length)``.
    centroids : Tensor
        ``(k, length)``.

    Returns
    -------
    Tensor
        ``(n, k)``; positive, rows sum to 1.
    """
    squared = (code[:, None] - centroids[None]).square().sum(dim=2)
    similarity = 1 / (1 + squared)
    return similarity / similarity.sum(dim=1, keepdim=True)


def sharpened(soft: Tensor) -> Tensor:
    """Target distribution (P) of a soft assignment: squared, divided by cluster frequency, normalised by row."""
    weight = soft.square() / soft.sum(dim=0)
    return weight / weight.sum(dim=1, keepdim=True)


def _hidden_for(features: int) -> tuple[int, ...]:
    """The paper's widths from 256 features on, in proportion below, and never fewer than 32 units."""
    share = min(1.0, features / 256)
    return tuple(max(32, round(width * share)) for width in PAPER_WIDTHS)


def _unit_scale(x: Tensor) -> Tensor:
    """`x` centred, and scaled so that the mean squared length of a row is its number of features."""
    centred = x - x.mean(dim=0)
    spread = centred.square().mean().sqrt()
    return centred / spread if spread > 0 else centred


def _mlp(widths: list[int], rng: torch.Generator) -> nn.Sequential:
    """Linear layers with a ReLU between them; He-scaled weights, biases of zero."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        linear = torch.nn.utils.skip_init(nn.Linear, inputs, outputs)
        nn.init.normal_(linear.weight, std=(2 / inputs) ** 0.5, generator=rng)
        nn.init.zeros_(linear.bias)
        layers += [linear, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def _batches(samples: int, size: int, rng: torch.Generator) -> Iterator[Tensor]:
    """Row numbers of batch after batch, epoch after epoch, without end."""
    while True:
        yield from torch.randperm(samples, generator=rng).split(size)
