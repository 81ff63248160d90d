"""Losses of contrastive networks: cluster contrast, model contrast (CCFC, eqs. 1 to 7) and decorrelation (CCFC++)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import normalize

Form = Literal["paper", "code"]


_NO_VARIANCE = 1e-8


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
