"""Random augmentation of samples for contrastive learning, a whole batch at once.

Crop, zoom, rotation and flip are one affine map with one interpolation. Blur is a product with a banded matrix from
either side.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample

from fedkin.core.errors import FedkinError

#
# Random augmentation of grey images, equal to the pixel to torchvision's transforms on 8-bit Pillow images.
#
# A crop along pixel borders is enlarged to the image's size, rotated, and perhaps blurred_pixels. Pillow rounds to 8
# bits after every pass over rows or columns, and these roundings are part of what a network sees. Here a pass over a
# whole batch is a product of matrices of integers, in float64, which holds them exactly.
#
# The crops are those of torchvision's ``RandomResizedCrop`` with ``Image.resize`` (bilinear, and never reducing), the
# rotations those of ``RandomRotation`` with ``Image.rotate`` (nearest pixel, black corners), the blur is
# ``ImageFilter.GaussianBlur``, three passes of a box (Gwosdek et al. 2011). The distributions are the same; the
# random generator is another one.


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
    `blur` is the fraction of views that are blurred_pixels, with a radius of 0.1 to 2 pixels.
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
        pixels[there] = blurred_pixels(pixels[there], between(*BLUR, radii[chosen]))
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


def blurred_pixels(pixels: Tensor, radii: Tensor) -> Tensor:
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


Views = Literal["affine", "pillow"]

_BLUR_SIDE = 28
_NO_BLUR = 1e-2
_LUMA = (0.299, 0.587, 0.114)


@dataclass(frozen=True)
class Augmentation:
    """Random augmentation that makes a view of a sample. The defaults are CCFC's for grey images.

    `crop` is the smallest fraction of an image's area that is kept, in (0, 1]; the kept part is enlarged to the image's
    size. The ratio of its sides is that of the image, times 3/4 to 4/3. `turn` is the largest angle in degrees, in both
    directions. `jitter` is the largest change of brightness, contrast and saturation, one after another; 0.4 is 0.6 to
    1.4 times as much. The others are fractions: of views that are blurred, with a standard deviation of 0.1 to 2 pixels
    in 28, and in proportion in other sizes; that are mirror images, left to right; whose colours change, `jittered`;
    and without colour; and for vectors, of the features that are replaced by another sample's.
    """

    crop: float = 0.5
    turn: float = 10.0
    blur: float = 0.5
    mirror: float = 0.0
    jitter: float = 0.0
    jittered: float = 0.8
    grey: float = 0.0
    replaced: float = 0.0

    def draw(self, shape: Sequence[int], rng: torch.Generator) -> Draws:
        """Draw what makes a view of each of some samples, of shape ``(n, *shape)``; see `PillowAugmentation.draw`."""
        n = shape[0]
        if len(shape) != 4:
            return torch.randint(n, tuple(shape), generator=rng), torch.rand(tuple(shape), generator=rng)
        colours = self.jitter or self.grey
        lengths = [1, 1, 1, 1, *((1, 3, 1) if colours else ()), *((1, 1) if self.blur else ())]
        return *drawn_crops(n, rng), *(torch.rand(length, n, generator=rng).T for length in lengths)

    def apply(self, x: Tensor, draws: Draws) -> Tensor:
        """Return one view of every sample, float32 ``(n, *shape)`` as `x` and on its device, made by `draws`.

        Images are in [0, 1] if colours change. What lies outside of an image is 0.
        """
        if x.dim() != 4:
            others, chances = (part.to(x.device) for part in draws)
            return torch.where(chances < self.replaced, x.gather(0, others), x)
        grid = affine_grid(self._maps(draws, *x.shape[2:]).to(x.device), list(x.shape), align_corners=False)
        x = grid_sample(x, grid, align_corners=False)
        if self.jitter or self.grey:
            x = self._coloured(x, *draws[6:9])
        return blurred(x, self._spreads(draws, min(x.shape[2:])).to(x.device)) if self.blur else x

    def _maps(self, draws: Draws, height: int, width: int) -> Tensor:
        """Return crops, rotations and mirror images as affine maps, ``(n, 2, 3)``."""
        areas, ratios, *others = draws
        rights, downs, angles, mirrors = (part[:, 0] for part in others[:4])
        wide, high = self.kept(areas, ratios)
        right, down = between(-1.0, 1.0, rights) * (1 - wide), between(-1.0, 1.0, downs) * (1 - high)
        angle = torch.deg2rad(between(-self.turn, self.turn, angles))
        mirrored = torch.where(mirrors < self.mirror, -1.0, 1.0)
        cosine, sine = angle.cos(), angle.sin()
        across = torch.stack([wide * mirrored * cosine, -wide * mirrored * sine * (height / width), right], dim=1)
        along = torch.stack([high * sine * (width / height), high * cosine, down], dim=1)
        return torch.stack([across, along], dim=1)

    def kept(self, areas: Tensor, ratios: Tensor) -> Tensor:
        """Return the fractions of width and height that random crops keep, ``(2, n)``: the first of ten that fits.

        Large crops that are wide or high do not fit in the image and are drawn again, so that crops are smaller on
        average than `crop` alone would make them. Where no draw fits, the whole image is kept.
        """
        area, ratio = between(self.crop, 1.0, areas), between(-RATIO, RATIO, ratios).exp()
        sides = torch.stack([(area * ratio).sqrt(), (area / ratio).sqrt()])
        fits = (sides <= 1).all(0)
        first = sides[:, torch.arange(len(areas)), fits.byte().argmax(1)]
        return torch.where(fits.any(1), first, 1.0)

    def _coloured(self, x: Tensor, chosen: Tensor, changes: Tensor, greys: Tensor) -> Tensor:
        """Change brightness, contrast and saturation at random, and turn some images grey."""
        factors = 1 + (chosen < self.jittered).float() * between(-self.jitter, self.jitter, changes)
        brightness, contrast, saturation = factors.to(x.device).T.reshape(3, len(x), 1, 1, 1)
        x = (x * brightness).clamp(0, 1)
        x = (_luma(x).mean(dim=(2, 3), keepdim=True).lerp(x, contrast)).clamp(0, 1)
        colourless = (greys < self.grey).view(-1, 1, 1, 1).to(x.device)
        return _luma(x).expand_as(x).lerp(x, torch.where(colourless, 0.0, saturation)).clamp(0, 1)

    def _spreads(self, draws: Draws, side: int) -> Tensor:
        """Return the standard deviation of every blur in pixels, ``(n,)``."""
        *_, spreads, chances = draws
        spread = between(*BLUR, spreads) * (side / _BLUR_SIDE)
        return torch.where(chances < self.blur, spread, _NO_BLUR)[:, 0]


def augmentation_for(
    shape: tuple[int, ...], unit: bool = True, views: Views = "affine"
) -> Augmentation | PillowAugmentation:
    """Return the augmentation for samples of `shape`; `unit` says whether all their values lie in [0, 1].

    Images with one channel get CCFC's augmentation, with "pillow" exact to the pixel. Images with more channels get
    that of SimSiam for CIFAR-10 (Chen and He 2021, appendix D) without changes of hue; colours change only where there
    are three channels of values in [0, 1]. Of a vector, 30 % of the features are replaced by the same feature of other
    samples: CCFC takes no vectors, and SCARF (Bahri et al. 2022) replaces 60 %. Raises FedkinError if `views` is
    "pillow" and the samples are not images with one channel and values in [0, 1].
    """
    if views == "pillow":
        if len(shape) != 3 or shape[0] != 1 or not unit:
            beyond = "" if unit else " and values beyond [0, 1]"
            raise FedkinError(
                "method.views = 'pillow' takes images with one channel and values in [0, 1], and the samples have the "
                f"shape {tuple(shape)}{beyond}; 'affine' takes any."
            )
        return PillowAugmentation()
    if len(shape) != 3:
        return Augmentation(replaced=0.3)
    if shape[0] == 1:
        return Augmentation()
    colour = shape[0] == 3 and unit
    return Augmentation(0.2, turn=0.0, blur=0.0, mirror=0.5, jitter=0.4 * colour, grey=0.2 * colour)


def blurred(x: Tensor, spread: Tensor) -> Tensor:
    """Blur images by Gaussians with these standard deviations ``(n,)``."""
    n, channels, height, width = x.shape
    rows, columns = _smoothing(spread, height), _smoothing(spread, width)
    flat = x.transpose(0, 1).reshape(channels * n, height, width)
    blurred = rows.repeat(channels, 1, 1) @ flat @ columns.repeat(channels, 1, 1).mT
    return blurred.view(channels, n, height, width).transpose(0, 1)


def _smoothing(spread: Tensor, side: int) -> Tensor:
    """Return matrices ``(n, side, side)`` of a 1-D Gaussian filter, cut off at the edges."""
    at = torch.arange(side, dtype=torch.float32, device=spread.device)
    weights = (-0.5 * ((at[:, None] - at) / spread.view(-1, 1, 1)).square()).exp()
    return weights / weights.sum(2, keepdim=True)


def _luma(x: Tensor) -> Tensor:
    return (x * torch.tensor(_LUMA).view(1, 3, 1, 1).to(x.device)).sum(1, keepdim=True)
