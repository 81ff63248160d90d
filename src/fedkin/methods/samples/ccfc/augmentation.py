"""Random augmentation of samples for contrastive learning, a whole batch at once.

Crop, zoom, rotation and flip are one affine map with one interpolation. Blur is a product with a banded matrix from
either side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample

from fedkin.core.errors import FedkinError
from fedkin.methods.samples.ccfc.pillow_augmentation import BLUR, RATIO, Draws, PillowAugmentation, between, drawn_crops

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
