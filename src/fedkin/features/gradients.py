"""Maps of oriented gradients: histograms of oriented gradients with soft bins in direction and position.

After DAISY (Tola, Lepetit, Fua 2010): each map of one direction is blurred and read at the points of a grid. Unlike
cells and bins, which a line crosses all at once, these change little where an image changes little.
"""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, normalize

from fedkin.core.errors import FedkinError

DIRECTIONS = 8
"""Directions of edges, as DAISY has."""
MIN_SIDE = 8
"""Pixels that an image needs in height and width."""
_SIDE = 28
"""Shorter side of images for which the width of the blur, 2, and the step of the grid, 4 pixels, hold: MNIST's."""


def gradients(x: Tensor) -> Tensor:
    """Compute maps of oriented gradients: how strong edges of eight directions are around each point of a grid.

    An image is sheared upright, as far as its own moments say that it leans. The strength of each pixel's gradient is
    divided between the two nearest of eight directions of the whole circle. The map of each direction is blurred (a
    Gaussian of 2 pixels for images of 28 x 28, and in proportion for others) and read at the points of a grid of about
    7 x 7. Roots are taken of all, and the features of an image scaled to length 1. Of several channels the one with the
    strongest gradient counts at each pixel. Images with sides of 56 and more are first shrunk by whole factors.

    Of images ``(n, channels, height, width)``, height and width 8 or more, the features are float32 ``(n, 8 *
    points)``, not negative: direction, row and column of the point; 392 numbers for 28 x 28, zeros for an image without
    any edge. Raises FedkinError if the samples are no images, or too small.
    """
    if x.ndim != 4 or min(x.shape[2:]) < MIN_SIDE:
        form = f"{MIN_SIDE} x {MIN_SIDE} pixels or more; the samples have shape {tuple(x.shape[1:])}"
        raise FedkinError(f"Features 'gradients' need images of {form}.")
    factor = min(x.shape[2:]) // _SIDE
    x = upright(avg_pool2d(x, factor) if factor > 1 else x)
    strength, turn = _edges(x)
    lower = turn.floor()
    upper_part = turn - lower
    first = lower.long().remainder_(DIRECTIONS)
    maps = strength.new_zeros(len(x), DIRECTIONS, *x.shape[2:])
    maps.scatter_(1, first, strength * (1 - upper_part))
    maps.scatter_(1, (first + 1).remainder_(DIRECTIONS), strength * upper_part)
    height, width = x.shape[2:]
    down, across = _blur(height, min(height, width)), _blur(width, min(height, width))
    half = (maps @ across.T).transpose(2, 3).contiguous()
    return normalize((half @ down.T).transpose(2, 3).sqrt().flatten(1), dim=1)


def upright(x: Tensor) -> Tensor:
    """Deslant images ``(n, channels, height, width)``: shear their rows so that what is bright does not lean; float32.

    How far a row moves is its distance from the centre of mass times the covariance of rows and columns over the
    variance of rows, at most 1; between pixels it is linear, and what comes from outside is 0. Values below 0 have no
    mass, and an image without mass stays as it is.
    """
    height, width = x.shape[2:]
    rows, columns = torch.arange(float(height))[:, None], torch.arange(float(width))
    mass = x.mean(1).clamp_min(0)
    total = mass.sum((1, 2)).clamp_min(1e-6)  # so that an image without mass stays as it is
    row = ((mass * rows).sum((1, 2)) / total)[:, None, None]
    column = ((mass * columns).sum((1, 2)) / total)[:, None, None]
    variance = (mass * (rows - row).square()).sum((1, 2)) / total
    covariance = (mass * (rows - row) * (columns - column)).sum((1, 2)) / total
    lean = (covariance / variance.clamp_min(1e-6)).clamp(-1, 1)[:, None, None]
    source = columns + lean * (rows - row)
    left = source.floor()
    part = (source - left)[:, None]
    return _pixels(x, left) * (1 - part) + _pixels(x, left + 1) * part


def _pixels(x: Tensor, columns: Tensor) -> Tensor:
    """Return the pixels of ``(n, channels, height, width)`` at integer `columns` ``(n, height, width)``; 0 outside."""
    width = x.shape[3]
    inside = (columns >= 0) & (columns < width)
    index = columns.clamp(0, width - 1).long()[:, None].expand(x.shape)
    return x.gather(3, index) * inside[:, None]


def _edges(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return strength and direction, in eighths of a circle, of each pixel's gradient: ``(n, 1, height, width)``."""
    down, right = torch.zeros_like(x), torch.zeros_like(x)
    torch.sub(x[..., 2:, :], x[..., :-2, :], out=down[..., 1:-1, :])
    torch.sub(x[..., 2:], x[..., :-2], out=right[..., 1:-1])
    strength = torch.hypot(down, right)
    if x.shape[1] > 1:
        strength, channel = strength.max(1, keepdim=True)
        down, right = down.gather(1, channel), right.gather(1, channel)
    return strength, torch.atan2(down, right).mul_(DIRECTIONS / (2 * math.pi))


@lru_cache(maxsize=16)
def _blur(length: int, shorter: int) -> Tensor:
    """Return weights ``(points, length)`` of the pixels of one axis in each point: a Gaussian cut at 3 sigma."""
    unit = shorter / _SIDE
    step = max(1, round(4 * unit))
    points = torch.arange((length - 1) % step // 2, length, step)  # as far from one end as from the other
    sigma = 2.0 * unit
    reach = math.floor(3 * sigma + 0.5)
    kernel = torch.exp(-torch.arange(-reach, reach + 1).square() / (2 * sigma**2))
    distances = (torch.arange(length) - points[:, None]).abs()
    weights = torch.exp(-distances.square() / (2 * sigma**2)) * (distances <= reach)
    return (weights / kernel.sum()).float()


# Images whose pixels are the columns of a table, as they come in files of digits.


def side_of(width: int) -> int | None:
    """Return the side of square images of `width` pixels; ``None`` if it is no square, or too small for edges."""
    side = math.isqrt(width)
    return side if side**2 == width and side >= MIN_SIDE else None


def flat_images(x: Tensor) -> list[bool | None]:
    """Return whether rows of clients ``(clients, n, width)`` look like square images of one channel, row after row.

    In images a pixel correlates with its right and its lower neighbour, and less with one half a row away. ``None`` if
    that is not clear, as with fewer than 20 rows.
    """
    side = side_of(x.shape[2]) if x.ndim == 3 else None
    if side is None:
        return [False] * len(x)
    fewest = 20  # rows from which correlations say anything
    if x.shape[1] < fewest:
        return [None] * len(x)
    # A thousand rows tell it, and four million cells, which take 32 MB.
    x = x[:, :: -(-x.shape[1] // min(1_000, max(fewest, (1 << 22) // x.shape[2])))].double()
    x = x - x.mean(1, keepdim=True)
    images = x.unflatten(2, (side, side))
    across = _likeness(images[..., 1:], images[..., :-1])
    down = _likeness(images[:, :, 1:], images[:, :, :-1])
    nearer = torch.minimum(across, down) - _likeness(x[..., side // 2 :], x[..., : -(side // 2)])
    # Digits of 8 x 8 have 0.2, those of one class 0.06 to 0.3, images of 28 x 28 and more 0.5, and tables hardly any.
    return [True if like >= 0.15 else None if like >= 0.05 else False for like in nearer.tolist()]


def _likeness(a: Tensor, b: Tensor) -> Tensor:
    """Return the correlation of pairs of centred pixels, over all pairs of each client; 0 if none varies."""
    squares = (a.square() + b.square()).flatten(1).sum(1)
    return torch.where(squares > 0, 2 * (a * b).flatten(1).sum(1) / squares, 0.0)


def flat_gradients(x: Tensor) -> Tensor:
    """Return the `gradients` of square images whose pixels are the columns of ``(n, width)``."""
    side = side_of(x.shape[1]) if x.ndim == 2 else None
    return gradients(x if side is None else x.unflatten(1, (1, side, side)))
