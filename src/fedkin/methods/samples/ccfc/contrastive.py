"""Networks for contrastive learning: an encoder, and a predictor of one view's representation from another's; losses.

Grey images get the networks of CCFC as in its authors' code, sketched in section 4.1 of the paper: three convolutions
of 64, 128 and 256 channels, and a projector and a predictor of two fully connected layers each. Images with colour get
ResNet-18 (section 4.1). The networks for vectors and for images with a side below 8 are not from the paper. Losses are
cluster contrast, model contrast (CCFC, eqs. 1 to 7) and decorrelation (CCFC++).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, one_hot

from fedkin.core import payload as forms
from fedkin.core.device import device
from fedkin.core.errors import FedkinError
from fedkin.methods.samples.ccfc.augmentation import Augmentation, PillowAugmentation, Views
from fedkin.nn.descent import AdamMoments
from fedkin.nn.networks import UNITS, normalised_layer, resnet, takes_convolutions
from fedkin.nn.resident import Architecture, Resident

Backbone = Literal["auto", "convolutions", "resnet18", "perceptron"]
Form = Literal["paper", "code"]


DESIGN: forms.Expected = {
    "shape": forms.is_shape, "backbone": forms.one_of("auto", "convolutions", "resnet18", "perceptron"),
    "latent": UNITS, "projector_units": UNITS, "predictor_units": UNITS,
}  # fmt: skip
CONTRASTIVE_TRAINING: forms.Expected = {
    "local_epochs": forms.counts_to(forms.MANY), "batch_size": forms.counts_to(forms.MANY),
    "learning_rate": forms.positive, "model_weight": forms.within(0), "decorrelation": forms.within(0),
    "form": forms.one_of("paper", "code"), "views": forms.one_of("affine", "pillow"),
}  # fmt: skip


@dataclass(frozen=True)
class Design:
    """Settings of a contrastive network, as plain values: the `shape` of a sample, and options of CCFC.

    `fedkin.methods.samples.ccfc.ccfc.CCFCMethod` describes them. The projector ends the encoder. A predictor that is
    narrow beside its input is what the authors use.
    """

    shape: tuple[int, ...]
    backbone: Backbone = "auto"
    latent: int = 256
    projector_units: int = 256
    predictor_units: int = 16

    def spec(self) -> dict[str, Any]:
        """Return the design as a payload for `Contrastive.of`."""
        return asdict(self) | {"shape": list(self.shape)}

    def decided(self) -> Design:
        """Return the design with "auto" replaced by the backbone that it stands for.

        Raises FedkinError if the backbone needs images of 8 x 8 pixels or more, and the samples are not such.
        """
        images = takes_convolutions(self.shape)
        if self.backbone == "auto":
            convolutional: Backbone = "convolutions" if self.shape[0] == 1 else "resnet18"
            return replace(self, backbone=convolutional if images else "perceptron")
        if not images and self.backbone != "perceptron":
            raise FedkinError(
                f"method.backbone = '{self.backbone}' takes images of at least 8 x 8 pixels, "
                f"and the samples have the shape {self.shape}; 'perceptron' takes any."
            )
        return self


class ContrastiveNetwork(nn.Module):
    """Encoder f (backbone and projector), from samples to representations z ``(n, latent)``, and predictor h of p."""

    def __init__(self, design: Design) -> None:
        super().__init__()
        backbone, width = _backbone(design)
        hidden, latent = design.projector_units, design.latent
        projector = [*normalised_layer(width, hidden), nn.Linear(hidden, latent), nn.BatchNorm1d(latent, affine=False)]
        self.encoder = nn.Sequential(*backbone, *projector)
        units = design.predictor_units
        self.predictor = nn.Sequential(*normalised_layer(latent, units), nn.Linear(units, latent))

    def forward(self, x: Tensor) -> Tensor:
        predictions: Tensor = self.predictor(self.encoder(x))
        return predictions


def _backbone(design: Design) -> tuple[nn.Sequential, int]:
    """Return the layers before the projector, and the number of their outputs."""
    if design.backbone == "resnet18":
        whole = resnet(design.shape, 1, name="resnet18")
        *layers, last = whole
        return nn.Sequential(*layers), cast(nn.Linear, last).in_features
    if design.backbone == "perceptron":
        layers = [nn.Flatten()]
        for inputs, outputs in pairwise((math.prod(design.shape), 256, 256)):
            layers += [nn.Linear(inputs, outputs), nn.BatchNorm1d(outputs), nn.ReLU()]
        return nn.Sequential(*layers), 256
    channels, height, width = design.shape
    layers = []
    for inputs, outputs in pairwise((channels, 64, 128, 256)):
        layers += [nn.Conv2d(inputs, outputs, 4, stride=2, padding=1), nn.BatchNorm2d(outputs)]
        layers.append(nn.LeakyReLU(0.2))
        height, width = height // 2, width // 2
    return nn.Sequential(*layers, nn.Flatten()), 256 * height * width


def negative_cosine(predicted: Tensor, other: Tensor) -> Tensor:
    """Return the negative mean cosine similarity between rows of ``(n, latent)``; `other` gets no gradient (eq. 5)."""
    return -(normalize(predicted, dim=1) * normalize(other.detach(), dim=1)).sum(1).mean()


def cluster_contrast(predicted: Tensor, latents: Tensor, members: Tensor, form: Form) -> Tensor:
    """Return the cluster-contrastive loss, which pulls samples of a cluster together (CCFC, eqs. 1 and 2).

    It is the mean over clusters with two samples or more of the negative mean cosine of pairs; 0 without a gradient if
    there is no such cluster. `predicted` and `latents` are p and z, ``(n, latent)``; no gradient flows into the latter.
    `members` ``(n, k)`` are 1 where a sample belongs to a cluster. The form "paper" leaves out the pair of a sample
    with itself, as eq. 1 does; "code" has it, as the authors' code does.
    """
    p, z = normalize(predicted, dim=1), normalize(latents.detach(), dim=1)
    sizes = members.sum(0)
    pairs = ((members.T @ p) * (members.T @ z)).sum(1)
    if form == "paper":
        similar = (pairs - members.T @ (p * z).sum(1)) / (sizes * (sizes - 1)).clamp_min(1)
    else:
        similar = pairs / sizes.square().clamp_min(1)
    counted = (sizes > 1).float()
    return -(similar * counted).sum() / counted.sum().clamp_min(1)


def model_contrast(predicted: Tensor, anchors: Tensor, members: Tensor, form: Form) -> Tensor:
    """Return the model-contrastive loss: negative similarity to the global network's predictions (CCFC, eq. 4).

    `predicted` and `anchors` are ``(n, latent)``; no gradient flows into the latter. `members` ``(n, k)`` are 1 where a
    sample belongs to a cluster. The form "paper" is the mean over clusters of the mean in each, as in eq. 4; in "code",
    as the authors' code does, all samples count the same.
    """
    if form == "code":
        return negative_cosine(predicted, anchors)
    away = -(normalize(predicted, dim=1) * normalize(anchors.detach(), dim=1)).sum(1)
    sizes = members.sum(0)
    return ((members.T @ away) / sizes.clamp_min(1)).sum() / (sizes > 0).sum()


def mean_correlation(latents: Tensor) -> Tensor:
    """Return the mean squared correlation between dimensions in a batch (CCFC++; FedDecorr, Shi et al. 2023).

    It is in [0, 1]: the mean of the squared entries of the correlation matrix of the latents z ``(n, latent)``,
    ``||K||_F^2 / latent^2``. Gradients flow into the latents. A dimension that is constant in the batch is correlated
    with none.
    """
    centred = latents - latents.mean(0)
    scaled = centred / centred.square().mean(0).clamp_min(1e-8).sqrt()
    return (scaled.T @ scaled / len(latents)).square().mean()


# Training of one client's contrastive network, by pairs of views or by clusters (CCFC, sections 3.1 and 3.2).


@dataclass(frozen=True)
class ContrastiveTraining:
    """Settings of a client's contrastive training, see `fedkin.methods.samples.ccfc.ccfc.CCFCMethod`."""

    local_epochs: int = 1
    batch_size: int = 128
    learning_rate: float = 1e-3
    model_weight: float = 0.001
    decorrelation: float = 0.0
    form: Form = "paper"
    views: Views = "affine"


class Contrastive(Architecture):
    """An `Architecture` of a `ContrastiveNetwork`, from the fields of a `Design` with a backbone that is named."""

    criterion = staticmethod(negative_cosine)

    def __init__(self, **design: Any) -> None:
        self.design = Design(**design)
        super().__init__(self.design.backbone, self.design.shape)

    def spec(self) -> dict[str, Any]:
        return self.design.spec()

    def build(self) -> nn.Module:
        return ContrastiveNetwork(self.design)

    def _takes_channels_last(self) -> bool:
        # On a CPU torch adds up batch statistics one value after another where channels are last: on digits, mostly
        # black, activations were 4e-5 off and gradients up to 7e-3, for steps that are 6 % faster.
        return False

    def targets(self, x: Tensor) -> Tensor:
        return torch.ones(len(x), self.design.latent)  # which the loss ignores

    def latents(self, vector: Tensor, x: Tensor) -> Tensor:
        """Return representations ``(n, latent)`` of samples ``(n, *shape)``, each scaled to length 1.

        Batch norms use the statistics that they remember.
        """
        return self.anchors(vector, x, with_predictions=False)[0]

    @torch.no_grad()
    def anchors(self, vector: Tensor, x: Tensor, with_predictions: bool = True) -> tuple[Tensor, Tensor]:
        """Return representations scaled to length 1, and predictions (eq. 7), of samples: ``(n, latent)`` each."""
        latents, predictions = [torch.zeros(0, self.design.latent)], [torch.zeros(0, self.design.latent)]
        with self.loaded(vector) as resident:
            network = _network(resident)
            for part in x.split(500) if len(x) else ():
                z = network.encoder(resident.laid(part))
                latents.append(z.cpu())
                if with_predictions:
                    predictions.append(network.predictor(z).cpu())
        return normalize(torch.cat(latents), dim=1), torch.cat(predictions)

    def learn_views(
        self, start: Tensor, x: Tensor, rng: torch.Generator, moments: AdamMoments,
        how: Augmentation | PillowAugmentation, training: ContrastiveTraining,
    ) -> tuple[Tensor, float | None]:  # fmt: skip
        """Learn to predict one view of a sample from another (SimSiam; Chen and He 2021, algorithm 1).

        `start` ``(size,)`` is not modified; it is also the common network of the model-contrastive term, which is the
        mean over both views. `rng` shuffles, and draws views; Adam's `moments` are modified. Return the model and the
        mean loss over the samples of all batches; None if there was no batch of two samples or more.
        """
        with self.loaded(start) as common:
            samples = common.placed(x)

            def inputs(rows: Tensor, resident: Resident) -> tuple[Tensor, ...]:
                draws = [how.draw((len(rows), *x.shape[1:]), rng) for _ in range(2)]
                return tuple(resident.laid(how.apply(samples[rows], view)) for view in draws)

            def loss(student: ContrastiveNetwork, first: Tensor, second: Tensor) -> Tensor:
                z1, z2 = student.encoder(first), student.encoder(second)
                p1, p2 = student.predictor(z1), student.predictor(z2)
                loss = (negative_cosine(p1, z2) + negative_cosine(p2, z1)) / 2
                if training.decorrelation:
                    loss = loss + training.decorrelation * (mean_correlation(z1) + mean_correlation(z2)) / 2
                if not training.model_weight:
                    return loss
                with torch.no_grad():
                    anchors = common.module(torch.cat([first, second]))
                return loss + training.model_weight * negative_cosine(torch.cat([p1, p2]), anchors)

            return self._learn(start, len(x), rng, moments, training, inputs, loss)

    def learn_clusters(
        self, start: Tensor, x: Tensor, clusters: Tensor, anchors: Tensor, rng: torch.Generator, moments: AdamMoments,
        training: ContrastiveTraining,
    ) -> tuple[Tensor, float | None]:  # fmt: skip
        """Learn to predict samples of a cluster from each other (eq. 4), without augmentation.

        `clusters`, int64 ``(n,)``, are those of the samples, and `anchors` ``(n, latent)`` the common network's
        predictions. The rest, and what is returned, is as for `learn_views`.
        """
        count = int(clusters.max()) + 1
        samples, labels, goals = (part.to(device()) for part in (x, clusters, anchors))

        def inputs(rows: Tensor, resident: Resident) -> tuple[Tensor, ...]:
            return resident.laid(samples[rows]), labels[rows], goals[rows]

        def loss(student: ContrastiveNetwork, x: Tensor, labels: Tensor, goals: Tensor) -> Tensor:
            z = student.encoder(x)
            p, members = student.predictor(z), one_hot(labels, count).float()
            loss = cluster_contrast(p, z, members, training.form)
            if training.model_weight:
                loss = loss + training.model_weight * model_contrast(p, goals, members, training.form)
            if training.decorrelation:
                loss = loss + training.decorrelation * mean_correlation(z)
            return loss

        return self._learn(start, len(x), rng, moments, training, inputs, loss)

    def _learn(
        self, start: Tensor, n: int, rng: torch.Generator, moments: AdamMoments, training: ContrastiveTraining,
        inputs: Callable[[Tensor, Resident], tuple[Tensor, ...]], loss: Callable[..., Tensor],
    ) -> tuple[Tensor, float | None]:  # fmt: skip
        """Minimise `loss` of the `inputs` of every batch's rows by Adam."""
        losses: list[Tensor] = []
        counts: list[int] = []
        with self.loaded(start, rng, training=True) as resident:
            there = AdamMoments.like(resident.params)
            there.take(moments, resident.laid_out)
            for _ in range(training.local_epochs):
                order = resident.placed(torch.randperm(n, generator=rng))
                for rows in order.split(training.batch_size):
                    if len(rows) > 1:  # a batch norm cannot learn from one sample
                        resident.grad.zero_()
                        value = loss(_network(resident), *inputs(rows, resident))
                        value.backward()
                        there.step(resident.params, resident.grad, training.learning_rate)
                        losses.append(value.detach())
                        counts.append(len(rows))
            model = resident.vector()
            moments.take(there, resident.collected)
        if not losses:
            return model, None
        weights = torch.tensor(counts, dtype=torch.float32)
        return model, float(torch.stack(losses).cpu() @ weights / weights.sum())


def _network(resident: Resident) -> ContrastiveNetwork:
    return cast(ContrastiveNetwork, resident.module)
