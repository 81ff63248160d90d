"""Random views of samples for contrastive learning, a whole batch at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from PIL import Image, ImageFilter
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample

from fedkin.core.errors import FedkinError

Views = Literal["affine", "pillow"]
Draws = tuple[Tensor, ...]
"""Random numbers between 0 and 1 that make views, on the processor, with a row for each sample."""

BLUR = (0.1, 2.0)
"""Least and greatest radius, or standard deviation, of a blur in pixels."""


def between(low: float, high: float, uniform: Tensor) -> Tensor:
    """Return numbers from `low` to `high`, of numbers from 0 to 1."""
    return uniform * (high - low) + low


def drawn_crops(n: int, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw areas and ratios of sides of ten crops for each of `n` images, ``(n, 10)`` each, between 0 and 1."""
    areas, ratios = (torch.rand(n * 10, generator=rng).view(n, 10) for _ in range(2))
    return areas, ratios


def ratio_of(uniform: Tensor) -> Tensor:
    """Return logarithms of ratios of sides, which are uniform from 3/4 to 4/3, of numbers from 0 to 1."""
    return between(-math.log(4 / 3), math.log(4 / 3), uniform)


@dataclass(frozen=True)
class PillowAugmentation:
    """Random augmentation of grey images by Pillow, as CCFC's authors have it for MNIST by torchvision.

    A crop along pixel borders is enlarged to the image's size, rotated, and perhaps blurred; Pillow rounds to 8 bits
    after every pass, and these roundings are part of what a network sees. The distributions are those of torchvision's
    ``RandomResizedCrop``, ``RandomRotation`` and ``GaussianBlur``; the random generator is another one.

    `crop` is the smallest fraction of an image's area that is kept, before the sides are rounded to pixels; the ratio
    of the sides is 3/4 to 4/3, whatever that of the image. `turn` is the largest angle in degrees, in both directions.
    `blur` is the fraction of views that are blurred, with a radius of 0.1 to 2 pixels.
    """

    crop: float = 0.5
    turn: float = 10.0
    blur: float = 0.5

    def draw(self, shape: Sequence[int], rng: torch.Generator) -> Draws:
        """Draw what makes a view of each of the samples of `shape` ``(n, 1, height, width)``.

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
        height, width = x.shape[2:]
        boxes = crop_boxes(areas, ratios, corners, (height, width), self.crop)
        pixels = (x[:, 0] * 255).round().clamp(0, 255).byte().cpu().numpy()
        turns, spreads = between(-self.turn, self.turn, angles).tolist(), between(*BLUR, radii).tolist()
        views = []
        for i, box in enumerate(boxes.tolist()):
            view = Image.fromarray(pixels[i]).crop(box).resize((width, height), Image.Resampling.BILINEAR)
            view = view.rotate(turns[i], Image.Resampling.NEAREST)
            if blurs[i] <= self.blur:
                view = view.filter(ImageFilter.GaussianBlur(spreads[i]))
            views.append(np.asarray(view))
        stacked = np.stack(views) if views else pixels
        return torch.from_numpy(stacked).to(x.device).float().div(255)[:, None]


def crop_boxes(areas: Tensor, ratios: Tensor, corners: Tensor, sides: Sequence[int], smallest: float) -> Tensor:
    """Return random crops as torchvision draws them: for each image the first of ten that lies within it.

    `areas` and `ratios` ``(n, 10)`` and `corners` ``(n, 2)`` are drawn between 0 and 1; `sides` are height and width;
    `smallest` is a fraction of the area. Crops are int64 ``(n, 4)``: left, top, right and bottom. Where no draw fits,
    the crop is the largest part in the middle whose sides have a ratio of 3/4 to 4/3.
    """
    n, (height, width) = len(areas), sides
    area, ratio = between(smallest, 1.0, areas).double() * (height * width), ratio_of(ratios).double().exp()
    wide, high = (side.sqrt().round().long() for side in (area * ratio, area / ratio))
    fits = (wide > 0) & (wide <= width) & (high > 0) & (high <= height)
    first = torch.arange(n), fits.byte().argmax(1)
    wide, high, fitting = wide[first], high[first], fits.any(1)
    left, top = (corners[:, 0] * (width - wide + 1)).long(), (corners[:, 1] * (height - high + 1)).long()
    best = min(max(width / height, 3 / 4), 4 / 3)
    widest, highest = min(width, round(height * best)), min(height, round(width / best))
    wide, high = torch.where(fitting, wide, widest), torch.where(fitting, high, highest)
    left, top = torch.where(fitting, left, (width - widest) // 2), torch.where(fitting, top, (height - highest) // 2)
    return torch.stack([left, top, left + wide, top + high], dim=1)


@dataclass(frozen=True)
class Augmentation:
    """Random augmentation that makes a view of a sample. The defaults are CCFC's for grey images.

    Crop, zoom, rotation and flip are one affine map with one interpolation. `crop` is the smallest fraction of an
    image's area that is kept, in (0, 1]; the kept part is enlarged to the image's size. The ratio of its sides is that
    of the image, times 3/4 to 4/3. `turn` is the largest angle in degrees, in both directions. `jitter` is the largest
    change of brightness, contrast and saturation, one after another, in four of five views; 0.4 is 0.6 to 1.4 times as
    much. The others are fractions: of views that are blurred, with a standard deviation of 0.1 to 2 pixels in 28, and
    in proportion in other sizes; that are mirror images, left to right; and without colour; and for vectors, of the
    features that are replaced by another sample's.
    """

    crop: float = 0.5
    turn: float = 10.0
    blur: float = 0.5
    mirror: float = 0.0
    jitter: float = 0.0
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
        if not self.blur:
            return x
        *_, spreads, chances = draws
        spread = between(*BLUR, spreads) * (min(x.shape[2:]) / 28)
        return blurred(x, torch.where(chances < self.blur, spread, 0.01)[:, 0].to(x.device))  # 0.01 blurs nothing

    def _maps(self, draws: Draws, height: int, width: int) -> Tensor:
        """Return crops, rotations and mirror images as affine maps, ``(n, 2, 3)``."""
        areas, ratios, *others = draws
        rights, downs, angles, mirrors = (part[:, 0] for part in others[:4])
        wide, high = self.crop_fractions(areas, ratios)
        right, down = between(-1.0, 1.0, rights) * (1 - wide), between(-1.0, 1.0, downs) * (1 - high)
        angle = torch.deg2rad(between(-self.turn, self.turn, angles))
        mirrored = torch.where(mirrors < self.mirror, -1.0, 1.0)
        cosine, sine = angle.cos(), angle.sin()
        across = torch.stack([wide * mirrored * cosine, -wide * mirrored * sine * (height / width), right], dim=1)
        along = torch.stack([high * sine * (width / height), high * cosine, down], dim=1)
        return torch.stack([across, along], dim=1)

    def crop_fractions(self, areas: Tensor, ratios: Tensor) -> Tensor:
        """Return the fractions of width and height that random crops keep, ``(2, n)``: the first of ten that fits.

        Large crops that are wide or high do not fit in the image and are drawn again, so that crops are smaller on
        average than `crop` alone would make them. Where no draw fits, the whole image is kept.
        """
        area, ratio = between(self.crop, 1.0, areas), ratio_of(ratios).exp()
        sides = torch.stack([(area * ratio).sqrt(), (area / ratio).sqrt()])
        fits = (sides <= 1).all(0)
        first = sides[:, torch.arange(len(areas)), fits.byte().argmax(1)]
        return torch.where(fits.any(1), first, 1.0)

    def _coloured(self, x: Tensor, chosen: Tensor, changes: Tensor, greys: Tensor) -> Tensor:
        """Change brightness, contrast and saturation at random, and turn some images grey."""
        factors = 1 + (chosen < 0.8).float() * between(-self.jitter, self.jitter, changes)
        brightness, contrast, saturation = factors.to(x.device).T.reshape(3, len(x), 1, 1, 1)
        x = (x * brightness).clamp(0, 1)
        x = (_luma(x).mean(dim=(2, 3), keepdim=True).lerp(x, contrast)).clamp(0, 1)
        colourless = (greys < self.grey).view(-1, 1, 1, 1).to(x.device)
        return _luma(x).expand_as(x).lerp(x, torch.where(colourless, 0.0, saturation)).clamp(0, 1)


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
    """Blur images by Gaussians with these standard deviations ``(n,)``, a banded matrix from either side."""
    n, channels, height, width = x.shape
    rows, columns = _smoothing(spread, height), _smoothing(spread, width)
    flat = x.transpose(0, 1).reshape(channels * n, height, width)
    smooth = rows.repeat(channels, 1, 1) @ flat @ columns.repeat(channels, 1, 1).mT
    return smooth.view(channels, n, height, width).transpose(0, 1)


def _smoothing(spread: Tensor, side: int) -> Tensor:
    """Return matrices ``(n, side, side)`` of a 1-D Gaussian filter, cut off at the edges."""
    place = torch.arange(side, dtype=torch.float32, device=spread.device)
    weights = (-0.5 * ((place[:, None] - place) / spread.view(-1, 1, 1)).square()).exp()
    return weights / weights.sum(2, keepdim=True)


def _luma(x: Tensor) -> Tensor:
    """Return the brightness of images in colour, by the weights of ITU-R BT.601."""
    return (x * torch.tensor((0.299, 0.587, 0.114)).view(1, 3, 1, 1).to(x.device)).sum(1, keepdim=True)
