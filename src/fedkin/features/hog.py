"""Histograms of oriented gradients (Dalal and Triggs 2005), by scikit-image."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from fedkin.core.errors import require
from fedkin.features.gradients import check_images

_ORIENTATIONS, _BLOCK = 8, 2
_MAX_CELLS, _MIN_CELL = 8, 4


def cell_side(shape: tuple[int, ...]) -> int:
    """Return the side of a cell in pixels: 4, or more where the shorter side would have over eight cells."""
    return max(_MIN_CELL, min(shape[1:]) // _MAX_CELLS)


def hog(x: Tensor) -> Tensor:
    """Compute histograms of oriented gradients of images, which do not depend on contrast.

    Eight directions without sign, square cells of four pixels or more, blocks of 2 x 2 cells that overlap, each block
    scaled to length 1, cut off at 0.2 and scaled again ("L2-Hys").

    Of images ``(n, channels, height, width)``, height and width 8 or more, the features are float32 ``(n, 32 *
    blocks)``, in [0, 1], in the order of `skimage.feature.hog`; a block without any edge is 0. Raises FedkinError if
    the samples are no images or too small, or scikit-image is not installed.
    """
    check_images("hog", x)
    require("Feature extraction by 'hog'", "skimage", "hog")
    from skimage.feature import hog as histogram

    side = cell_side(tuple(x.shape[1:]))
    rows = [
        histogram(
            image, orientations=_ORIENTATIONS, pixels_per_cell=(side, side), cells_per_block=(_BLOCK, _BLOCK),
            block_norm="L2-Hys", channel_axis=0,
        )
        for image in x.numpy()
    ]  # fmt: skip
    width = len(rows[0]) if rows else hog(x.new_zeros(1, *x.shape[1:])).shape[1]
    return torch.from_numpy(np.array(rows, dtype=np.float32).reshape(len(x), width))
