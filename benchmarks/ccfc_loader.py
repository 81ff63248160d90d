"""What stands in for the loaders of CCFC's authors' code where a GPU would wait for them: whole batches at once.

Their loaders start processes for every client and round, which open, crop, turn and blur image after image. These have
all images on the device, and make views there with `PillowAugmentation`, whose pixels are those of their transforms for
the same draws. Batches, their order and the rows that come with them are as their loaders have them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from fedkin.core.device import device_named
from fedkin.methods.samples.ccfc.augmentation import PillowAugmentation

_AT_ONCE = 4096
"""Images whose views are made together, about."""


def loader_of(x: Tensor) -> Callable[..., Any]:
    """Return what takes the place of ``DataLoader``, for data sets that have images `x` ``(n, 1, 28, 28)`` in order."""
    images = x.to(device_named("auto", "device"))

    class Batched:
        """Batches of a loader: images, or two views of them, on the device; and rows on the processor."""

        def __init__(self, data: Any, size: int, sampler: Iterable[int] | None = None, **_: Any) -> None:
            transform = data.datasets[0].transform
            self.size, self.sampler, self.views = size, sampler, hasattr(transform, "base_transform")
            self.count = len(data)

        def __iter__(self) -> Iterator[tuple[Any, Tensor]]:
            rows = torch.arange(self.count) if self.sampler is None else torch.tensor(list(map(int, self.sampler)))
            for part in rows.split(max(1, _AT_ONCE // self.size) * self.size):
                batches = part.split(self.size)
                if not self.views:
                    yield from zip(images[part.to(images.device)].split(self.size), batches, strict=True)
                    continue
                first, second = (_view(images[part.to(images.device)]).split(self.size) for _ in range(2))
                for one, other, own in zip(first, second, batches, strict=True):
                    yield [one, other], own

    return Batched


def _view(x: Tensor) -> Tensor:
    """One view of each image, of draws by torch's global generator."""
    how = PillowAugmentation()
    return how.apply(x, how.draw(x.shape, torch.default_generator))
