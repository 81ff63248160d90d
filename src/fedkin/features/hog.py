"""Histograms of oriented gradients (Dalal and Triggs 2005), many images at once."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, unfold

from fedkin.features.gradients import check_images

ORIENTATIONS, BLOCK = 8, 2
_MOST_CELLS, _LEAST_CELL = 8, 4
_CLIP, _SMALL = 0.2, 1e-5
_ON_THE_EDGE = 1e-6
"""So that 45 degrees, which pixels of few grey levels often have, are not just below by rounding."""


def cell_side(shape: tuple[int, ...]) -> int:
    """Side of a cell in pixels: 4, and more where the shorter side of an image would have over eight cells."""
    return max(_LEAST_CELL, min(shape[1:]) // _MOST_CELLS)


def hog(x: Tensor) -> Tensor:
    """How edges run in each part of an image, whatever their contrast.

    Eight directions without sign, square cells of four pixels or more, blocks of 2 x 2 cells that overlap, each block
    scaled to length 1, cut off at 0.2 and scaled again. Of several channels the one with the strongest gradient counts
    at each pixel. Pixels right and below of the last whole cell are left out, as they are in scikit-image.

    Parameters
    ----------
    x : Tensor
        float32 ``(n, channels, height, width)``, height and width 8 or more.

    Returns
    -------
    Tensor
        float32 ``(n, 32 * blocks)``, in the order of scikit-image: row and column of the block, row and column of the
        cell in it, direction. Values lie in [0, 1]; a block without any edge is 0.

    Raises
    ------
    FedkinError
        If the samples are no images, or too small.
    """
    check_images("hog", x)
    strength, bins = _gradients(x)
    histogram = x.new_zeros(len(x), ORIENTATIONS, *x.shape[2:]).scatter_(1, bins, strength)
    cells = avg_pool2d(histogram, cell_side(tuple(x.shape[1:])))
    blocks = unfold(cells, BLOCK).view(len(x), ORIENTATIONS, BLOCK * BLOCK, -1)
    blocks = blocks.permute(0, 3, 2, 1).flatten(2)
    return _scaled(_scaled(blocks).clamp_max(_CLIP)).flatten(1)


def _gradients(x: Tensor) -> tuple[Tensor, Tensor]:
    """Strength of the gradient and bin of its direction at each pixel, ``(n, 1, height, width)``; 0 at the border."""
    down, right = torch.zeros_like(x), torch.zeros_like(x)
    torch.sub(x[..., 2:, :], x[..., :-2, :], out=down[..., 1:-1, :])
    torch.sub(x[..., 2:], x[..., :-2], out=right[..., 1:-1])
    strength = torch.hypot(down, right)
    if x.shape[1] > 1:
        strength, channel = strength.max(1, keepdim=True)
        down, right = down.gather(1, channel), right.gather(1, channel)
    angle = torch.atan2(down, right).remainder_(math.pi)
    bins = (angle * (ORIENTATIONS / math.pi) + _ON_THE_EDGE).long().clamp_max_(ORIENTATIONS - 1)
    return strength, bins


def _scaled(blocks: Tensor) -> Tensor:
    return blocks / (blocks.square().sum(-1, keepdim=True) + _SMALL**2).sqrt()
