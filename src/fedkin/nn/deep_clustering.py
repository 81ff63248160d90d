"""Deep Embedded Clustering of one client's data (Xie, Girshick, Farhadi 2016).

An autoencoder learns a short code, k-means places centroids in it, and encoder and centroids are then trained so that
soft assignments come close to a sharpened version of themselves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedkin.clustering.k_means import k_means
from fedkin.core.device import device
from fedkin.core.errors import FedkinError

_PAPER_WIDTHS = (500, 500, 2000)
PAPER_CODE = 10
_BATCH = 4096


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
        parts = [module(((part - self.centre) / self.spread).to(device())).cpu() for part in x.split(_BATCH)]
        return torch.cat(parts) if parts else torch.zeros(0, self.widths[-1])

    def assign(self, x: Tensor) -> Tensor:
        """Return the cluster of samples ``(n, features)``, that of the centroid nearest to the code: int64 ``(n,)``."""
        return self.memberships(x).argmax(dim=1)

    def memberships(self, x: Tensor) -> Tensor:
        """Return soft assignments of samples ``(n, features)`` to the clusters: ``(n, k)``, rows sum to 1."""
        return assignment(self.codes(x), self.centroids)


@dataclass(frozen=True)
class DeepEmbeddedClustering:
    """DEC with the options of `fedkin.methods.samples.dec.DECMethod`, of which `batch` is called `batch_size` there.

    The defaults are the paper's, except for how the autoencoder is pre-trained. The paper pre-trains layer by layer
    with dropout and then end to end, 150,000 steps of SGD in all, on data scaled but not centred and from weights drawn
    with standard deviation 0.01. Here Adam trains all layers at once on centred data, from He-scaled weights, in some
    hundred steps; from the paper's weights so few steps give a useless code. The hidden layers are mirrored in the
    decoder. A code is no longer than the number of features.
    """

    hidden: tuple[int, ...] | None = None
    code: int = PAPER_CODE
    pretrain_steps: int = 400
    pretrain_learning_rate: float = 1e-3
    learning_rate: float = 0.01
    momentum: float = 0.9
    batch: int = 256
    refresh: int | None = None
    max_refreshes: int = 50
    tolerance: float = 0.001
    restarts: int = 20

    def fit(self, x: Tensor, n_clusters: int, rng: torch.Generator) -> Tensor:
        """Cluster the rows of `x` ``(n, features)``; return their clusters in ``0..n_clusters-1``, int64 ``(n,)``.

        A cluster may have lost all its rows. Raises FedkinError if `n_clusters` is not in ``1..n``.
        """
        return self.memberships(x, n_clusters, rng).argmax(dim=1)

    def memberships(self, x: Tensor, n_clusters: int, rng: torch.Generator) -> Tensor:
        """Train as `fit` does; return soft assignments of the rows of `x` to the clusters: ``(n, n_clusters)``."""
        if n_clusters == 1 and len(x):
            return torch.ones(len(x), 1)
        return self.train(x, n_clusters, rng).memberships(x)

    def train(self, x: Tensor, n_clusters: int, rng: torch.Generator) -> DeepClusters:
        """Cluster the rows of `x` as `fit` does; return the encoder and centroids that also assign new rows.

        Raises FedkinError as in `fit`.
        """
        if not 1 <= n_clusters <= len(x):
            raise FedkinError(
                f"DEC was asked for {n_clusters} clusters of {len(x)} samples; 1 to {len(x)} are possible."
            )
        centre, spread = _scale(x)
        x = (x - centre) / spread
        widths = (x.shape[1], *(self.hidden or hidden_widths(x.shape[1])), min(self.code, x.shape[1]))
        encoder, decoder = (_mlp(path, rng).to(device()) for path in (widths, widths[::-1]))
        x = x.to(device())
        self._reconstruct(encoder, decoder, x, rng)
        with torch.no_grad():
            first = k_means(encoder(x).cpu(), n_clusters, rng, self.restarts).centres
        centroids = self._self_train(encoder, first.to(x.device), x, rng)
        vector = nn.utils.parameters_to_vector(encoder.parameters()).detach()
        return DeepClusters(widths, centre, spread, vector.cpu(), centroids.cpu())

    def _reconstruct(self, encoder: nn.Module, decoder: nn.Module, x: Tensor, rng: torch.Generator) -> None:
        parameters = [*encoder.parameters(), *decoder.parameters()]
        optimizer = torch.optim.Adam(parameters, lr=self.pretrain_learning_rate)
        for rows in islice(_batches(len(x), self.batch, rng), self.pretrain_steps):
            loss = functional.mse_loss(decoder(encoder(x[rows])), x[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    def _self_train(self, encoder: nn.Module, centroids: Tensor, x: Tensor, rng: torch.Generator) -> Tensor:
        """Train `encoder` in place towards the sharpened assignments; return the final centroids."""
        centroids = centroids.clone().requires_grad_()
        parameters = [*encoder.parameters(), centroids]
        optimizer = torch.optim.SGD(parameters, lr=self.learning_rate, momentum=self.momentum)
        labels = torch.full((len(x),), -1, device=x.device)
        batches = _batches(len(x), self.batch, rng)
        refresh = self.refresh or max(20, math.ceil(len(x) / self.batch))
        for _ in range(self.max_refreshes):
            with torch.no_grad():
                soft = assignment(encoder(x), centroids)
            previous, labels = labels, soft.argmax(dim=1)
            if (labels != previous).double().mean() < self.tolerance:
                break
            target = sharpened(soft)
            for rows in islice(batches, refresh):
                log_soft = assignment(encoder(x[rows]), centroids).log()
                loss = functional.kl_div(log_soft, target[rows], reduction="batchmean")
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
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
    return tuple(max(32, round(width * factor)) for width in _PAPER_WIDTHS)


def _scale(x: Tensor) -> tuple[Tensor, float]:
    """Return the shift and the scale that make the mean squared length of rows of `x` equal to its features."""
    centre = x.mean(dim=0)
    spread = float((x - centre).square().mean().sqrt())
    return centre, spread if spread > 0 else 1.0


def _mlp(widths: Sequence[int], rng: torch.Generator) -> nn.Sequential:
    """Return linear layers with ReLU in between, with He-scaled weights and zero biases."""
    module = _module(widths)
    for layer in module:
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, std=(2 / layer.in_features) ** 0.5, generator=rng)
            nn.init.zeros_(layer.bias)
    return module


def _module(widths: Sequence[int]) -> nn.Sequential:
    """Return linear layers with ReLU in between, whose parameters are still to be set."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers += [torch.nn.utils.skip_init(nn.Linear, inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def _batches(samples: int, size: int, rng: torch.Generator) -> Iterator[Tensor]:
    """Yield row numbers of batches without end, in a new random order for every epoch."""
    while True:
        yield from torch.randperm(samples, generator=rng).split(size)
