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
from fedkin.nn.pillow_augmentation import BLUR, DRAWS, RATIO, Draws, PillowAugmentation, between

Views = Literal["affine", "pillow"]

_BLUR_SIDE = 28
_NO_BLUR = 1e-2
_LUMA = (0.299, 0.587, 0.114)


@dataclass(frozen=True)
class Augmentation:
    """Random augmentation that makes a view of a sample. The defaults are CCFC's for grey images.

    Attributes
    ----------
    crop : float
        Smallest fraction of an image's area that is kept, in (0, 1]; the kept part is enlarged to the image's size. The
        ratio of its sides is that of the image, times 3/4 to 4/3.
    turn : float
        Largest angle in degrees, in both directions.
    blur : float
        Fraction of views that are blurred. The standard deviation is 0.1 to 2 pixels in 28, and in proportion in other
        sizes.
    mirror : float
        Fraction of views that are mirror images, left to right.
    jitter : float
        Largest change of brightness, contrast and saturation, one after another; 0.4 is 0.6 to 1.4 times as much.
    jittered : float
        Fraction of views whose colours change.
    grey : float
        Fraction of views without colour.
    replaced : float
        For vectors: fraction of the features that are replaced by another sample's.
    """

    crop: float = 0.5
    turn: float = 10.0
    blur: float = 0.5
    mirror: float = 0.0
    jitter: float = 0.0
    jittered: float = 0.8
    grey: float = 0.0
    replaced: float = 0.0

    def views(self, x: Tensor, rng: torch.Generator) -> Tensor:
        """Return one randomly augmented view of every sample.

        Parameters
        ----------
        x : Tensor
            float32 ``(n, *shape)``, images in [0, 1] if colours change.
        rng : torch.Generator

        Returns
        -------
        Tensor
            float32 ``(n, *shape)``, on the device of `x`. What lies outside of an image is 0.
        """
        return self.apply(x, self.draw(x.shape, rng))

    def draw(self, shape: Sequence[int], rng: torch.Generator) -> Draws:
        """Draw what makes a view of each of some samples, of shape ``(n, *shape)``, in the order of `apply`."""
        if len(shape) != 4:
            others = torch.randint(shape[0], tuple(shape), generator=rng)
            return others, torch.rand(tuple(shape), generator=rng) < self.replaced
        n, _, height, width = shape
        draws: Draws = (self._maps(n, height, width, rng),)
        if self.jitter or self.grey:
            chosen = (torch.rand(n, generator=rng) < self.jittered).float()
            factors = 1 + chosen * between(-self.jitter, self.jitter, 3 * n, rng).view(3, n)
            draws = *draws, factors.T, torch.rand(n, generator=rng) < self.grey
        if self.blur:
            spread = between(*BLUR, n, rng) * (min(height, width) / _BLUR_SIDE)
            draws = *draws, torch.where(torch.rand(n, generator=rng) < self.blur, spread, _NO_BLUR)
        return draws

    def apply(self, x: Tensor, draws: Draws) -> Tensor:
        """Return the views that `draws` make of samples ``(n, *shape)``, as `views` does."""
        first, *rest = (part.to(x.device) for part in draws)
        if x.dim() != 4:
            return torch.where(rest[0], x.gather(0, first), x)
        x = grid_sample(x, affine_grid(first, list(x.shape), align_corners=False), align_corners=False)
        if self.jitter or self.grey:
            x = _coloured(x, rest[0], rest[1])
        return blurred(x, rest[-1]) if self.blur else x

    def _maps(self, n: int, height: int, width: int, rng: torch.Generator) -> Tensor:
        """Draw crops, rotations and mirror images as affine maps, ``(n, 2, 3)``."""
        wide, high = self._kept(n, rng)
        right, down = (between(-1.0, 1.0, n, rng) * (1 - side) for side in (wide, high))
        angle = torch.deg2rad(between(-self.turn, self.turn, n, rng))
        mirrored = torch.where(torch.rand(n, generator=rng) < self.mirror, -1.0, 1.0)
        cosine, sine = angle.cos(), angle.sin()
        across = torch.stack([wide * mirrored * cosine, -wide * mirrored * sine * (height / width), right], dim=1)
        along = torch.stack([high * sine * (width / height), high * cosine, down], dim=1)
        return torch.stack([across, along], dim=1)

    def _kept(self, n: int, rng: torch.Generator) -> Tensor:
        """Draw the fractions of width and height that random crops keep, ``(2, n)``: the first of ten draws that fits.

        Large crops that are wide or high do not fit in the image and are drawn again, so that crops are smaller on
        average than `crop` alone would make them. Where no draw fits, the whole image is kept.
        """
        area = between(self.crop, 1.0, n * DRAWS, rng).view(n, DRAWS)
        ratio = between(-RATIO, RATIO, n * DRAWS, rng).view(n, DRAWS).exp()
        sides = torch.stack([(area * ratio).sqrt(), (area / ratio).sqrt()])
        fits = (sides <= 1).all(0)
        first = sides[:, torch.arange(n), fits.byte().argmax(1)]
        return torch.where(fits.any(1), first, 1.0)


def augmentation_for(
    shape: tuple[int, ...], unit: bool = True, views: Views = "affine"
) -> Augmentation | PillowAugmentation:
    """Return the augmentation for samples of `shape`; `unit` says whether all their values lie in [0, 1].

    Images with one channel get CCFC's augmentation, with "pillow" exact to the pixel. Images with more channels get
    that of SimSiam for CIFAR-10 (Chen and He 2021, appendix D) without changes of hue; colours change only where there
    are three channels of values in [0, 1]. Of a vector, 30 % of the features are replaced by the same feature of other
    samples: CCFC takes no vectors, and SCARF (Bahri et al. 2022) replaces 60 %.

    Raises
    ------
    FedkinError
        If `views` is "pillow" and the samples are not images with one channel and values in [0, 1].
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


def _coloured(x: Tensor, factors: Tensor, colourless: Tensor) -> Tensor:
    """Change brightness, contrast and saturation by `factors` ``(n, 3)``; turn `colourless` ``(n,)`` images grey."""
    brightness, contrast, saturation = factors.T.reshape(3, len(x), 1, 1, 1)
    x = (x * brightness).clamp(0, 1)
    x = (_luma(x).mean(dim=(2, 3), keepdim=True).lerp(x, contrast)).clamp(0, 1)
    return _luma(x).expand_as(x).lerp(x, torch.where(colourless.view(-1, 1, 1, 1), 0.0, saturation)).clamp(0, 1)


def _smoothing(spread: Tensor, side: int) -> Tensor:
    """Return matrices ``(n, side, side)`` of a 1-D Gaussian filter, cut off at the edges."""
    at = torch.arange(side, dtype=torch.float32, device=spread.device)
    weights = (-0.5 * ((at[:, None] - at) / spread.view(-1, 1, 1)).square()).exp()
    return weights / weights.sum(2, keepdim=True)


def _luma(x: Tensor) -> Tensor:
    return (x * torch.tensor(_LUMA).view(1, 3, 1, 1).to(x.device)).sum(1, keepdim=True)
