"""Networks for contrastive learning: an encoder, and a predictor of one view's representation from another's; losses.

Grey images get the networks of CCFC as in its authors' code, sketched in section 4.1 of the paper: three convolutions
of 64, 128 and 256 channels, and a projector and a predictor of two fully connected layers each. Images with colour get
ResNet-18 (section 4.1). The networks for vectors and for images with a side below 8 are not from the paper. Losses are
cluster contrast, model contrast (CCFC, eqs. 1 to 7) and decorrelation (CCFC++).
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from fedkin.core.errors import FedkinError
from fedkin.nn.layers import normalised_layer, takes_convolutions
from fedkin.nn.networks import GROUPS, RESNET18, resnet

Backbone = Literal["auto", "convolutions", "resnet18", "perceptron"]
Normalization = Literal["batch", "group"]

_CHANNELS = (64, 128, 256)
_UNITS = (256, 256)
_LEAK = 0.2

Form = Literal["paper", "code"]
_NO_VARIANCE = 1e-8


@dataclass(frozen=True)
class Design:
    """Settings of a contrastive network, as plain values: the `shape` of a sample, and options of CCFC.

    `fedkin.methods.samples.ccfc.ccfc.CCFCMethod` describes them. The projector ends the encoder. A predictor that is
    narrow beside its input is what the authors use. Group normalisation keeps no statistics that averaging could spoil.
    Projector and predictor normalise by batch in any case: without that SimSiam learns far less (Chen and He 2021,
    table 3).
    """

    shape: tuple[int, ...]
    backbone: Backbone = "auto"
    latent: int = 256
    projector_units: int = 256
    predictor_units: int = 16
    normalization: Normalization = "batch"

    def spec(self) -> dict[str, Any]:
        """Return the design as a payload for `fedkin.methods.samples.ccfc.contrastive_training.Contrastive.of`."""
        return asdict(self) | {"shape": list(self.shape)}

    def decided(self) -> Design:
        """Return the design with "auto" replaced by the backbone that it stands for.

        Raises FedkinError if the backbone needs images of 8 x 8 pixels or more, and the samples are not such.
        """
        images = takes_convolutions(self.shape)
        if self.backbone == "auto":
            ours: Backbone = "convolutions" if self.shape[0] == 1 else "resnet18"
            return replace(self, backbone=ours if images else "perceptron")
        if not images and self.backbone != "perceptron":
            raise FedkinError(
                f"method.backbone = '{self.backbone}' takes images of at least 8 x 8 pixels, "
                f"and the samples have the shape {self.shape}; 'perceptron' takes any."
            )
        return self


class ContrastiveNetwork(nn.Module):
    """Contrastive network of an encoder f (backbone and projector) and a predictor h.

    The encoder turns samples into representations z, ``(n, latent)``, and the predictor these into predictions p, ``(n,
    latent)``. The design has a backbone that is named.
    """

    def __init__(self, design: Design) -> None:
        super().__init__()
        backbone, width = _backbone(design)
        hidden, latent = design.projector_units, design.latent
        projector = [*normalised_layer(width, hidden), nn.Linear(hidden, latent), nn.BatchNorm1d(latent, affine=False)]
        self.encoder = nn.Sequential(*backbone, *projector)
        self.predictor = nn.Sequential(
            *normalised_layer(latent, design.predictor_units), nn.Linear(design.predictor_units, latent)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return predictions ``(n, latent)`` of samples ``(n, *shape)``."""
        made: Tensor = self.predictor(self.encoder(x))
        return made


def _backbone(design: Design) -> tuple[nn.Sequential, int]:
    """Return the layers before the projector, and the number of their outputs."""
    if design.backbone == "resnet18":
        whole = resnet(design.shape, 1, name="resnet18", blocks=RESNET18, norm=design.normalization)
        *layers, last = whole
        return nn.Sequential(*layers), cast(nn.Linear, last).in_features
    if design.backbone == "convolutions":
        return _convolutions(design)
    layers = [nn.Flatten()]
    for inputs, units in pairwise((math.prod(design.shape), *_UNITS)):
        layers += [nn.Linear(inputs, units), _norm(design, units, nn.BatchNorm1d), nn.ReLU()]
    return nn.Sequential(*layers), _UNITS[-1]


def _convolutions(design: Design) -> tuple[nn.Sequential, int]:
    channels, height, width = design.shape
    layers: list[nn.Module] = []
    for below, above in pairwise((channels, *_CHANNELS)):
        layers += [nn.Conv2d(below, above, 4, stride=2, padding=1), _norm(design, above, nn.BatchNorm2d)]
        layers.append(nn.LeakyReLU(_LEAK))
        height, width = height // 2, width // 2
    return nn.Sequential(*layers, nn.Flatten()), _CHANNELS[-1] * height * width


def _norm(design: Design, width: int, batch: type[nn.Module]) -> nn.Module:
    return batch(width) if design.normalization == "batch" else nn.GroupNorm(GROUPS, width)


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
    with torch.autocast(latents.device.type, enabled=False):
        centred = latents.float() - latents.float().mean(0)
        scaled = centred / centred.square().mean(0).clamp_min(_NO_VARIANCE).sqrt()
        return (scaled.T @ scaled / len(latents)).square().mean()
