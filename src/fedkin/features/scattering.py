"""The scattering transform of images (Bruna and Mallat 2013): wavelets and moduli, twice, without any training.

With round Morlet wavelets, which are products of waves along columns and along rows, all of it is products of small
matrices. The usual ones are longer across their waves, which makes no difference to how often neighbours are of one
class (``docs/results/federated-clustering.md``).
"""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, normalize

from fedkin.features.gradients import check_images

DIRECTIONS = 8
_SIDE, _STEP = 28, 4
_FREQUENCY, _WIDTH = 3 * math.pi / 4, 0.8
"""Of the finer wavelets: radians per pixel, and standard deviation of the envelope in pixels."""
_REACH = 4
"""Where an envelope ends, in standard deviations."""
_TOGETHER = 256
"""Images at a time; each takes about a megabyte on the way."""


def scattering(x: Tensor) -> Tensor:
    """How much an image varies at each place, by scale and direction, and how much that varies in turn.

    An image is convolved with Morlet wavelets of two scales, the second twice the first, and eight directions, and the
    moduli are taken. Those of the finer scale are convolved with the wavelets of the coarser one, and moduli taken
    again. All is blurred (a Gaussian of 1.6 pixels) and read at every fourth pixel. Of several channels the modulus is
    the length of their vector. What lies outside of an image mirrors what lies inside. Images with sides of 56 and more
    are first shrunk by whole factors.

    Parameters
    ----------
    x : Tensor
        float32 ``(n, channels, height, width)``, height and width 8 or more.

    Returns
    -------
    Tensor
        float32 ``(n, 81 * points)``: the blurred mean of the channels, 8 maps of the finer scale, 8 of the coarser and
        64 of both, each with row and column of the point. 3,969 numbers for 28 x 28. Those of an image are scaled to
        length 1; an image of zeros has zeros.

    Raises
    ------
    FedkinError
        If the samples are no images, or too small.
    """
    check_images("scattering", x)
    factor = min(x.shape[2:]) // _SIDE
    x = avg_pool2d(x, factor) if factor > 1 else x
    return normalize(torch.cat([_coefficients(part) for part in x.split(_TOGETHER)]), dim=1)


def _coefficients(x: Tensor) -> Tensor:
    """Orders 0, 1 and 2 of images, a row for each."""
    starts = [(length - 1) % _STEP // 2 for length in x.shape[2:]]
    fine = torch.linalg.vector_norm(_waves(x, 0, [0, 0], 1), dim=1)
    coarse = torch.linalg.vector_norm(_waves(x, 1, starts, 2), dim=1)
    both = _waves(fine, 1, starts, 2).abs().flatten(1, 2)
    whole = torch.cat([x.mean(1, keepdim=True), fine], 1)
    blurred = [_blurred(whole, 1, starts, _STEP), _blurred(torch.cat([coarse, both], 1), 0, [0, 0], 2)]
    return torch.cat(blurred, 1).flatten(1)


def _waves(x: Tensor, scale: int, starts: list[int], step: int) -> Tensor:
    """Maps by the wavelets of all directions, at some pixels: complex64 ``(n, maps, 8, rows, columns)``.

    A wavelet is a wave in a Gaussian envelope, less as much of the envelope as makes it blind to what is constant.
    """
    turns = [math.pi * number / DIRECTIONS for number in range(DIRECTIONS)]
    frequency = _FREQUENCY / 2**scale
    down, across = (
        torch.stack([_along(length, start, step, scale, frequency * part(turn)) for turn in turns])
        for length, start, part in zip(x.shape[2:], starts, (math.sin, math.cos), strict=True)
    )
    flat = x.flatten(0, 1)
    half = torch.einsum("mhw,lwq->lmqh", flat.to(torch.complex64), across)
    waves = torch.einsum("lmqh,lhp->mlpq", half, down)
    level = down[:, :, 0].sum(1) * across[:, :, 0].sum(1)
    waves -= level[:, None, None] * _blurred(x, scale, starts, step).flatten(0, 1)[:, None]
    return waves.view(*x.shape[:2], *waves.shape[1:])


def _blurred(x: Tensor, scale: int, starts: list[int], step: int) -> Tensor:
    """Maps ``(n, maps, height, width)`` by the envelope of a scale, at some pixels."""
    down, across = (
        _along(length, start, step, scale, 0.0).real for length, start in zip(x.shape[2:], starts, strict=True)
    )
    return torch.einsum("nmhw,hp,wq->nmpq", x, down, across)


@lru_cache(maxsize=128)
def _along(length: int, start: int, step: int, scale: int, frequency: float) -> Tensor:
    """How pixels of one axis count at every `step`-th of them: complex64 ``(length, points)``, mirrored at the ends."""
    width = _WIDTH * 2**scale
    reach = math.ceil(_REACH * width)
    apart = torch.arange(-reach, reach + 1)
    envelope = torch.exp(-apart.square() / (2 * width**2))
    wave = torch.polar(envelope / envelope.sum(), frequency * apart)
    points = torch.arange(start, length, step)
    there = (points[:, None] + apart).remainder(2 * (length - 1))
    there = torch.minimum(there, 2 * (length - 1) - there)
    counts = torch.zeros(len(points), length, dtype=torch.complex64)
    return counts.scatter_add_(1, there, wave.expand(len(points), -1)).T.contiguous()
