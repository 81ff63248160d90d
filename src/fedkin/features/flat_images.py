"""Images whose pixels are the columns of a table, as they come in files of digits, and features of their edges."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from fedkin.core.errors import FedkinError
from fedkin.features.gradients import MIN_SIDE, gradients

_MIN_ROWS = 20
"""Rows from which correlations say anything."""


def side_of(width: int) -> int | None:
    """Return the side of square images of `width` pixels; ``None`` if it is no square, or too small for edges."""
    side = math.isqrt(width)
    return side if side**2 == width and side >= MIN_SIDE else None


def are_flat_images(x: Tensor) -> bool | None:
    """Return whether rows ``(n, width)`` look like square images of one channel, pixel after pixel, row after row.

    In images a pixel correlates with its right and its lower neighbour, and less with one half a row away. ``None`` if
    that is not clear, as with fewer than 20 rows.
    """
    return flat_images_of_sets(x[None])[0]


def flat_images_of_sets(x: Tensor) -> list[bool | None]:
    """Do `are_flat_images` for rows of several clients ``(clients, n, width)``."""
    side = side_of(x.shape[2]) if x.ndim == 3 else None
    if side is None:
        return [False] * len(x)
    if x.shape[1] < _MIN_ROWS:
        return [None] * len(x)
    # A thousand rows tell it, and four million cells, which take 32 MB.
    x = x[:, :: -(-x.shape[1] // min(1_000, max(_MIN_ROWS, (1 << 22) // x.shape[2])))].double()
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
    """Return the `gradients` of square images whose pixels are the columns of ``(n, width)``.

    Raises FedkinError if samples are no rows, or their width is not the square of 8 or more.
    """
    side = side_of(x.shape[1]) if x.ndim == 2 else None
    if side is None:
        form = f"{MIN_SIDE} x {MIN_SIDE} pixels or more; the samples have shape {tuple(x.shape[1:])}"
        raise FedkinError(f"Features 'flat-gradients' need rows that are square images of {form}.")
    return gradients(x.unflatten(1, (1, side, side)))


def all_flat_images(answers: list[bool | None]) -> bool:
    """Return whether clients' samples are flat images: some client's are, and no other's are clearly none."""
    return True in answers and False not in answers
