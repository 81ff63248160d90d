"""Random augmentation of grey images, equal to the pixel to torchvision's transforms on 8-bit Pillow images.

A crop along pixel borders is enlarged to the image's size, rotated, and perhaps blurred. Pillow
rounds to 8 bits after every pass over rows or columns, and these roundings are part of what a network sees. Here a
pass over a whole batch is a product of matrices of integers, in float64, which holds them exactly.

The crops are those of torchvision's ``RandomResizedCrop`` with ``Image.resize`` (bilinear, and never reducing), the
rotations those of ``RandomRotation`` with ``Image.rotate`` (nearest pixel, black corners), the blur is
``ImageFilter.GaussianBlur``, three passes of a box (Gwosdek et al. 2011). The distributions are the same; the random
generator is another one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Draws = tuple[Tensor, ...]
"""Random numbers that make views, on the processor, with a row for each sample. They are drawn batch by batch; what is
made of them can be made for many batches at once."""

RATIO = math.log(4 / 3)
"""Of an enlarged part's width to its height, or of its height to its width: at most this, as a logarithm."""
DRAWS = 10
"""Parts that are drawn, of which the first that lies within the image is taken."""
BLUR = (0.1, 2.0)
"""Least and greatest radius in pixels."""
_WEIGHT_BITS = 22
"""Fractional bits of Pillow's weights for resizing: 32 bits less 8 of a pixel and 2 of reserve."""
_BLUR_BITS = 24
_TURN_BITS = 16
_PASSES = 3
_WHITE = 255


@dataclass(frozen=True)
class PillowAugmentation:
    """Random augmentation that makes a view of a grey image. The defaults are those of CCFC's authors for MNIST.

    `crop` is the smallest fraction of an image's area that is kept, before the sides are rounded to pixels; the ratio
    of the sides is 3/4 to 4/3, whatever that of the image. `turn` is the largest angle in degrees, in both directions.
    `blur` is the fraction of views that are blurred, with a radius of 0.1 to 2 pixels.
    """

    crop: float = 0.5
    turn: float = 10.0
    blur: float = 0.5

    def draw(self, shape: Sequence[int], rng: torch.Generator) -> Draws:
        """Draw what makes a view of each of the samples of `shape` ``(n, 1, height, width)``, all between 0 and 1.

        Return, of a crop, the area and the ratio of the sides, ``(n, 10)`` each, and the place ``(n, 2)``; and ``(n,)``
        each the angle, the blur's radius, and whether there is one.
        """
        n = shape[0]
        crops = drawn_crops(n, rng)
        return *crops, torch.rand(2, n, generator=rng).T, *(torch.rand(n, generator=rng) for _ in range(3))

    def apply(self, x: Tensor, draws: Draws) -> Tensor:
        """Return one view of every sample, float32 ``(n, 1, height, width)`` on the device of `x`, made by `draws`.

        Samples are in [0, 1], and rounded to multiples of 1/255; views have such multiples.
        """
        areas, ratios, corners, angles, radii, blurs = draws
        boxes = crop_boxes(areas, ratios, corners, x.shape[2:], self.crop)
        chosen = (blurs <= self.blur).nonzero()[:, 0]
        pixels = (x[:, 0] * _WHITE).round().clamp(0, _WHITE).double()
        pixels = turned(cropped(pixels, boxes), between(-self.turn, self.turn, angles))
        there = chosen.to(x.device)
        pixels[there] = blurred(pixels[there], between(*BLUR, radii[chosen]))
        return pixels.float().div(_WHITE)[:, None]


def drawn_crops(n: int, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw areas and ratios of sides of ten crops for each of `n` images, ``(n, 10)`` each, between 0 and 1."""
    areas, ratios = (torch.rand(n * DRAWS, generator=rng).view(n, DRAWS) for _ in range(2))
    return areas, ratios


def crop_boxes(areas: Tensor, ratios: Tensor, corners: Tensor, sides: Sequence[int], smallest: float) -> Tensor:
    """Return random crops as torchvision draws them: for each image the first of ten that lies within it.

    `areas` and `ratios` ``(n, 10)`` and `corners` ``(n, 2)`` are drawn between 0 and 1; `sides` are height and width;
    `smallest` is a fraction of the area. Crops are int64 ``(n, 4)``: left, top, right and bottom. Where no draw fits,
    the crop is the largest part in the middle whose sides have a ratio of 3/4 to 4/3.
    """
    n, (height, width) = len(areas), sides
    area, ratio = (
        between(smallest, 1.0, areas).double() * (height * width),
        between(-RATIO, RATIO, ratios).double().exp(),
    )
    wide, high = (side.sqrt().round().long() for side in (area * ratio, area / ratio))
    fits = (wide > 0) & (wide <= width) & (high > 0) & (high <= height)
    first = torch.arange(n), fits.byte().argmax(1)
    wide, high, fitting = wide[first], high[first], fits.any(1)
    left, top = (corners[:, 0] * (width - wide + 1)).long(), (corners[:, 1] * (height - high + 1)).long()
    best = min(max(width / height, 3 / 4), 4 / 3)
    max_width, max_height = min(width, round(height * best)), min(height, round(width / best))
    wide, high = torch.where(fitting, wide, max_width), torch.where(fitting, high, max_height)
    left, top = (
        torch.where(fitting, left, (width - max_width) // 2),
        torch.where(fitting, top, (height - max_height) // 2),
    )
    return torch.stack([left, top, left + wide, top + high], dim=1)


def cropped(pixels: Tensor, boxes: Tensor) -> Tensor:
    """Crop images and enlarge the crops to the images' size, as ``image.crop(box).resize(image.size, BILINEAR)`` does.

    Pixels are float64 ``(n, height, width)``, integers from 0 to 255, on any device; boxes are int64 ``(n, 4)``, left,
    top, right and bottom, within the image, on the processor.
    """
    n, height, width = pixels.shape
    left, top, right, bottom = boxes.to(pixels.device).T
    at = torch.arange(max(n, height, width), device=pixels.device)
    down = (top[:, None, None] + at[:height, None]).clamp_max(height - 1)
    across = (left[:, None, None] + at[:width]).clamp_max(width - 1)
    shifted = pixels[at[:n, None, None], down, across]  # weights beyond the crop are 0
    columns, rows = _enlarging(width, pixels.device)[right - left], _enlarging(height, pixels.device)[bottom - top]
    return _rounded(rows @ _rounded(shifted @ columns.mT, _WEIGHT_BITS), _WEIGHT_BITS)


def turned(pixels: Tensor, angles: Tensor) -> Tensor:
    """Rotate images ``(n, height, width)`` counterclockwise, as ``image.rotate(angle, NEAREST)`` does.

    Angles ``(n,)`` are in degrees, between -90 and 90. Pixels are 0 outside the rotated image.
    """
    n, height, width = pixels.shape
    a, b, c, d, e, f = torch.from_numpy(_turns(angles.double().numpy(), height, width)).to(pixels.device)[
        ..., None, None
    ]
    at = torch.arange(max(n, height, width), device=pixels.device)
    down, right = at[:height, None], at[:width]
    column, row = (c + a * right + b * down) >> _TURN_BITS, (f + d * right + e * down) >> _TURN_BITS
    inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
    found: Tensor = pixels[at[:n, None, None], row.clamp(0, height - 1), column.clamp(0, width - 1)]
    return torch.where(inside, found, 0)


def blurred(pixels: Tensor, radii: Tensor) -> Tensor:
    """Blur images as ``image.filter(GaussianBlur(radius))`` does; beyond an edge its pixels are repeated.

    Pixels are float64 ``(n, height, width)``, integers from 0 to 255; radii ``(n,)`` are above 0.
    """
    _, height, width = pixels.shape
    columns, rows = (_boxes(radii, side, pixels.device) for side in (width, height))
    for _ in range(_PASSES):
        pixels = _rounded(pixels @ columns.mT, _BLUR_BITS)
    for _ in range(_PASSES):
        pixels = _rounded(rows @ pixels, _BLUR_BITS)
    return pixels


def between(low: float, high: float, uniform: Tensor) -> Tensor:
    """Return numbers from `low` to `high`, of numbers from 0 to 1."""
    return uniform * (high - low) + low


def _rounded(sums: Tensor, bits: int) -> Tensor:
    """Round fixed-point sums of weighted pixels, with `bits` fractional bits, to 8-bit pixels."""
    return ((sums + 2.0 ** (bits - 1)) * 2.0**-bits).floor().clamp(0, _WHITE)


@lru_cache(maxsize=8)
def _enlarging(side: int, device: torch.device) -> Tensor:
    """Return weights that resize the first pixels of a line to `side` pixels, bilinearly.

    float64 ``(side + 1, side, side)``: at ``[length]`` those of the first `length` pixels. A new pixel is the weighted
    mean of its two neighbours; at the ends there is only one.
    """
    made = np.zeros((side + 1, side, side))
    for length in range(1, side + 1):
        at, places = np.arange(length), (np.arange(side)[:, None] + 0.5) * (length / side)
        near = (at >= (places - 0.5).astype(int)) & (at < (places + 1.5).astype(int))
        weights = np.maximum(1 - np.abs(at - places + 0.5), 0) * near
        made[length, :, :length] = np.floor(weights / weights.sum(1, keepdims=True) * 2**_WEIGHT_BITS + 0.5)
    return torch.from_numpy(made).to(device)


def _turns(angles: NDArray[np.float64], height: int, width: int) -> NDArray[np.int64]:
    """Return the inverse affine maps of rotations in units of 2**-16 pixels, ``(6, n)``.

    They have two rows: step to the right, step down and origin, each number rounded as Pillow does.
    """
    backwards = -np.radians(angles % 360.0)
    cosine, sine = (_to_15_digits(part) for part in (np.cos(backwards), np.sin(backwards)))
    right, down = width / 2, height / 2
    across = cosine * -right + sine * -down + 0.0 + right
    along = -sine * -right + cosine * -down + 0.0 + down
    places = np.stack(
        [
            cosine, sine, across + cosine * 0.5 + sine * 0.5,
            -sine, cosine, along - sine * 0.5 + cosine * 0.5,
        ]
    )  # fmt: skip
    return np.floor(places * 2.0**_TURN_BITS + 0.5).astype(np.int64)


def _to_15_digits(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Round to 15 decimal digits as Python does; numpy's own rounding is off by the last of them now and then."""
    made: NDArray[np.float64] = (np.rint(values.astype(np.longdouble) * 10**15) / 10**15).astype(np.float64)
    return made


def _boxes(radii: Tensor, side: int, device: torch.device) -> Tensor:
    """Return weights ``(n, side, side)`` of one box-filter pass; three passes blur by Gaussians of these radii.

    A box of whole pixels with a fraction of one more on either side, in single precision, as Pillow computes it.
    """
    square = radii.float().square() / _PASSES
    length = (12 * square.double() + 1).sqrt().float()
    whole = ((length - 1) / 2).floor()
    part = (2 * whole + 1) * (whole * (whole + 1) - 3 * square) / (6 * (square - (whole + 1) * (whole + 1)))
    reach = (whole + part).floor()
    inner = (2**_BLUR_BITS / ((whole + part) * 2 + 1)).floor().double()
    outer = ((2**_BLUR_BITS - (2 * reach + 1) * inner) / 2).floor()
    furthest = int(reach.max()) + 1 if len(radii) else 0
    distance = torch.arange(-furthest, furthest + 1).abs()
    near, far = distance <= reach[:, None], distance == reach[:, None] + 1
    weights = inner[:, None] * near + outer[:, None] * far
    boxes: Tensor = weights.to(device) @ _shifts(furthest, side, device)
    return boxes.view(-1, side, side)


@lru_cache(maxsize=64)
def _shifts(furthest: int, side: int, device: torch.device) -> Tensor:
    """Return one-hot matrices ``(2 furthest + 1, side * side)`` that shift a line of pixels left or right.

    Beyond an end, the last pixel is repeated.
    """
    at = torch.arange(side)
    places = (at + torch.arange(-furthest, furthest + 1)[:, None]).clamp(0, side - 1)
    return (places[:, :, None] == at).double().flatten(1).to(device)
