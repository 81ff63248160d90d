"""Training of one client's contrastive network, by pairs of views or by clusters (CCFC, sections 3.1 and 3.2).

Equations are those of the paper: (1) and (2) pull samples of one cluster together, (4) to (7) keep a client's network
near the global one. Both are computed within a batch; clusters with a single sample in it are left out of the first.
CCFC++ adds a term that keeps the dimensions of representations uncorrelated.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, one_hot

from fedkin.core.device import device
from fedkin.nn.architecture import Architecture
from fedkin.nn.augmentation import Augmentation, Views
from fedkin.nn.contrastive import ContrastiveNetwork, Design
from fedkin.nn.contrastive_losses import Form, cluster_contrast, mean_correlation, model_contrast, negative_cosine
from fedkin.nn.optimisers import AdamMoments
from fedkin.nn.pillow_augmentation import PillowAugmentation
from fedkin.nn.resident import Resident

Precision = Literal["float32", "bfloat16"]

_BATCH = 500


@dataclass(frozen=True)
class ContrastiveTraining:
    """Settings of a client's contrastive training, see `fedkin.methods.samples.ccfc.ccfc.CCFCMethod`.

    A last batch of a single sample is left out, for a batch norm cannot learn from it. With a `model_weight` of 0 the
    common network is not computed in rounds by views. Whatever the `precision` of products, parameters, statistics,
    losses and Adam's moments are float32; "bfloat16" is much slower where a processor has no instructions for it.
    """

    local_epochs: int = 1
    batch_size: int = 128
    learning_rate: float = 1e-3
    model_weight: float = 0.001
    decorrelation: float = 0.0
    form: Form = "paper"
    precision: Precision = "float32"
    views: Views = "affine"

    def products(self) -> AbstractContextManager[Any]:
        """Return a context in which matrix products and convolutions have the chosen precision."""
        return nullcontext() if self.precision == "float32" else torch.autocast(device().type, dtype=torch.bfloat16)


class Contrastive(Architecture):
    """An `Architecture` of a `ContrastiveNetwork`.

    Parameters
    ----------
    design
        The fields of a `Design` with a backbone that is named.
    """

    criterion = staticmethod(negative_cosine)

    def __init__(self, **design: Any) -> None:
        self.design = Design(**design)
        super().__init__(self.design.backbone, self.design.shape)

    def spec(self) -> dict[str, Any]:
        """Return the design's plain values."""
        return self.design.spec()

    def build(self) -> nn.Module:
        """Return a new module."""
        return ContrastiveNetwork(self.design)

    def _takes_channels_last(self) -> bool:
        """Whether the module accepts the channels-last memory format; not used with batch normalisation.

        On a CPU torch adds up batch statistics one value after another where channels are last: on digits, mostly
        black, activations were 4e-5 off and gradients up to 7e-3, for steps that are 6 % faster.
        """
        return self.design.normalization != "batch" and super()._takes_channels_last()

    def targets(self, x: Tensor) -> Tensor:
        """Return ones as placeholder targets, which the loss ignores."""
        return torch.ones(len(x), self.design.latent)

    def latents(self, vector: Tensor, x: Tensor) -> Tensor:
        """Return the samples' representations, each scaled to length 1.

        Parameters
        ----------
        vector : Tensor, (size,)
        x : Tensor
            float32 ``(n, *shape)``.

        Returns
        -------
        Tensor
            float32 ``(n, latent)``, by the statistics that batch norms remember.
        """
        return normalize(self._both(vector, x, with_predictions=False)[0], dim=1)

    def anchors(self, vector: Tensor, x: Tensor, training: ContrastiveTraining) -> tuple[Tensor, Tensor]:
        """Return representations scaled to length 1, and predictions (eq. 7), of samples: ``(n, latent)`` each."""
        with training.products():
            latents, predictions = self._both(vector, x, with_predictions=True)
        return normalize(latents, dim=1), predictions

    def learn_views(
        self,
        start: Tensor,
        x: Tensor,
        rng: torch.Generator,
        moments: AdamMoments,
        how: Augmentation | PillowAugmentation,
        training: ContrastiveTraining,
    ) -> tuple[Tensor, float | None]:
        """Learn to predict one view of a sample from another (SimSiam; Chen and He 2021, algorithm 1).

        Parameters
        ----------
        start : Tensor, (size,)
            Not modified; also the common network of the model-contrastive term, which is the mean over both views.
        x : Tensor
            float32 ``(n, *shape)``.
        rng : torch.Generator
            Shuffles, and draws views.
        moments : Moments
            Adam's moments; modified.
        how : Augmentation or PillowAugmentation
        training : Training

        Returns
        -------
        model : Tensor, (size,)
        loss : float or None
            Mean over the samples of all batches; None if there was no batch of two samples or more.
        """
        with self.loaded(start) as common:
            samples = common.placed(x)

            def loss_of(rows: Tensor, resident: Resident) -> Tensor:
                chosen, student = samples[rows], _network(resident)
                first, second = (resident.laid(how.views(chosen, rng)) for _ in range(2))
                z1, z2 = student.encoder(first), student.encoder(second)
                p1, p2 = student.predictor(z1).float(), student.predictor(z2).float()
                loss = (negative_cosine(p1, z2.float()) + negative_cosine(p2, z1.float())) / 2
                if training.decorrelation:
                    loss = loss + training.decorrelation * (mean_correlation(z1) + mean_correlation(z2)) / 2
                if not training.model_weight:
                    return loss
                with torch.no_grad():
                    anchors = common.module(torch.cat([first, second])).float()
                return loss + training.model_weight * negative_cosine(torch.cat([p1, p2]), anchors)

            return self._descended(start, len(x), rng, moments, training, loss_of)

    def learn_clusters(
        self, start: Tensor, x: Tensor, clusters: Tensor, anchors: Tensor, rng: torch.Generator, moments: AdamMoments,
        training: ContrastiveTraining,
    ) -> tuple[Tensor, float | None]:  # fmt: skip
        """Learn to predict samples of a cluster from each other (eq. 4), without augmentation.

        Parameters
        ----------
        start : Tensor, (size,)
            Not modified.
        x : Tensor
            float32 ``(n, *shape)``.
        clusters : Tensor
            int64 ``(n,)``, the cluster of each sample.
        anchors : Tensor
            float32 ``(n, latent)``, the common network's predictions.
        rng, moments, training
            As for `learn_views`; the returned values are also the same.
        """
        count = int(clusters.max()) + 1
        samples, own, goals = (part.to(device()) for part in (x, clusters, anchors))

        def loss_of(rows: Tensor, resident: Resident) -> Tensor:
            student = _network(resident)
            z = student.encoder(resident.laid(samples[rows]))
            p, z = student.predictor(z).float(), z.float()
            members = one_hot(own[rows], count).float()
            loss = cluster_contrast(p, z, members, training.form)
            if training.model_weight:
                loss = loss + training.model_weight * model_contrast(p, goals[rows], members, training.form)
            if training.decorrelation:
                loss = loss + training.decorrelation * mean_correlation(z)
            return loss

        return self._descended(start, len(x), rng, moments, training, loss_of)

    def _descended(
        self, start: Tensor, n: int, rng: torch.Generator, moments: AdamMoments, training: ContrastiveTraining,
        loss_of: Callable[[Tensor, Resident], Tensor],
    ) -> tuple[Tensor, float | None]:  # fmt: skip
        losses, counts = [], []
        with self.loaded(start, rng, training=True) as resident:
            moments.move(resident.device)
            for _ in range(training.local_epochs):
                for rows in resident.placed(torch.randperm(n, generator=rng)).split(training.batch_size):
                    if len(rows) > 1:
                        resident.grad.zero_()
                        with training.products():
                            loss = loss_of(rows, resident)
                        loss.backward()
                        moments.step(resident.params, resident.grad, training.learning_rate)
                        losses.append(loss.detach())
                        counts.append(len(rows))
            model = resident.vector()
            moments.move("cpu")
        if not losses:
            return model, None
        weights = torch.tensor(counts, dtype=torch.float32)
        return model, float(torch.stack(losses).cpu() @ weights / weights.sum())

    @torch.no_grad()
    def _both(self, vector: Tensor, x: Tensor, with_predictions: bool) -> tuple[Tensor, Tensor]:
        latents, predictions = [torch.zeros(0, self.design.latent)], [torch.zeros(0, self.design.latent)]
        with self.loaded(vector) as resident:
            network = _network(resident)
            for part in x.split(_BATCH) if len(x) else ():
                z = network.encoder(resident.laid(part))
                latents.append(z.float().cpu())
                if with_predictions:
                    predictions.append(network.predictor(z).float().cpu())
        return torch.cat(latents), torch.cat(predictions)


def _network(resident: Resident) -> ContrastiveNetwork:
    return cast(ContrastiveNetwork, resident.module)
