"""Loaders that have whole batches on the device give what those of the authors' code give."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace

import torch
from torch.utils.data import SubsetRandomSampler


def test_batches_are_the_images_and_rows_of_the_sampler_and_views_are_two(benchmark: ModuleType) -> None:
    x = torch.rand(50, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    loader = benchmark.loader_of(x)

    class Data:
        def __init__(self, transform: object) -> None:
            self.datasets = [SimpleNamespace(transform=transform)]

        def __len__(self) -> int:
            return len(x)

    whole = list(loader(Data(None), 16, shuffle=False, num_workers=3))
    assert torch.equal(torch.cat([images.cpu() for images, _ in whole]), x)
    assert [len(rows) for _, rows in whole] == [16, 16, 16, 2]
    chosen = [3, 1, 4, 15, 9, 26, 5]
    torch.manual_seed(1)
    order = list(SubsetRandomSampler(chosen))
    torch.manual_seed(1)
    some = list(loader(Data(SimpleNamespace(base_transform=None)), 4, sampler=SubsetRandomSampler(chosen)))
    assert torch.cat([rows for _, rows in some]).tolist() == order
    for (first, second), rows in some:
        assert first.shape == second.shape == (len(rows), 1, 28, 28)
        assert not torch.equal(first, second)
        assert (255 * first - (255 * first).round()).abs().max() < 1e-4
