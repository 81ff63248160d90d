"""Reading of torch data sets and loaders into arrays, in the order of the data set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import (
    DataLoader,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    TensorDataset,
    default_collate,
)
from torch.utils.data import Dataset as TorchDataset

from fedkin.core.errors import FedkinError
from fedkin.data.inputs.dataset_items import Items, read_items


def read_torch_dataset(data: TorchDataset[Any], where: str, label: str | None = None) -> Items:
    """Read all items of a data set: ``(x, y)``, ``{"x": x, "y": y}`` or ``x``.

    Transforms are applied once; see an estimator's `augmentation` for those that should differ from epoch to epoch.
    Raises FedkinError, see `read_items`.
    """
    whole, rows = _resolved(data)
    if isinstance(whole, TensorDataset):
        return _of_tensors(whole, rows, where)
    if isinstance(whole, IterableDataset) or not isinstance(whole, Sized):
        return read_items(iter(whole), None, where, label)
    chosen = range(len(whole)) if rows is None else rows
    return read_items((whole[i] for i in chosen), len(chosen), where, label)


def read_loader(loader: DataLoader[Any], where: str, label: str | None = None) -> Items:
    """Read all samples of a loader, none dropped, as its ``collate_fn`` makes them.

    They come in the order of the data set, whether it shuffles or not, or in that of its sampler if this chooses some.
    Its batch size is the number of items that its ``collate_fn`` gets; training has the estimator's own. Raises
    FedkinError, see `read_items`.
    """
    data = loader.dataset
    if isinstance(data, IterableDataset):
        return read_items(_items_of(loader), None, where, label)
    rows = _rows_of(loader)
    if loader.collate_fn is default_collate or loader.batch_size is None:
        return read_torch_dataset(data if rows is None else Subset(data, rows), where, label)
    chosen: Sequence[int] = range(len(data)) if rows is None else rows  # type: ignore[arg-type]
    parts = (chosen[at : at + loader.batch_size] for at in range(0, len(chosen), loader.batch_size))
    return read_items(_items_of(loader.collate_fn([data[i] for i in part]) for part in parts), None, where, label)


def reads_all(loader: DataLoader[Any]) -> bool:
    """Return whether a loader gives all items of its data set, unchanged."""
    return loader.collate_fn is default_collate and _rows_of(loader) is None


def _rows_of(loader: DataLoader[Any]) -> list[int] | None:
    """Return the rows that a loader reads; ``None`` for all, in order."""
    sampler = loader.sampler
    every = isinstance(sampler, RandomSampler) and not sampler.replacement and len(sampler) == len(loader.dataset)  # type: ignore[arg-type]
    if every or isinstance(sampler, SequentialSampler):
        return None
    indices = getattr(sampler, "indices", None)  # of torch's SubsetRandomSampler, in the order they were given
    return [int(i) for i in (sampler if indices is None else indices)]


def _resolved(data: TorchDataset[Any]) -> tuple[TorchDataset[Any], Sequence[int] | None]:
    """Return the data set under nested subsets, and the rows of it that they take; ``None`` for all."""
    rows: Sequence[int] | None = None
    while type(data) is Subset:
        rows = [int(data.indices[i]) for i in (range(len(data.indices)) if rows is None else rows)]
        data = data.dataset
    return data, rows


def _of_tensors(data: TensorDataset, rows: Sequence[int] | None, where: str) -> Items:
    tensors = (
        data.tensors if rows is None else tuple(one[torch.tensor(rows, dtype=torch.int64)] for one in data.tensors)
    )
    if len(tensors) not in (1, 2):
        raise FedkinError(f"{where} is a TensorDataset of {len(tensors)} tensors; it should be x alone, or x and y.")
    return tensors[0].detach().cpu(), tensors[1].detach().cpu().numpy() if len(tensors) == 2 else None


def _items_of(batches: Iterable[Any]) -> Iterator[Any]:
    """Yield the items of collated batches."""
    for batch in batches:
        if isinstance(batch, dict):
            yield from (dict(zip(batch, values, strict=True)) for values in zip(*batch.values(), strict=True))
        elif isinstance(batch, Tensor):
            yield from batch
        else:
            yield from zip(*batch, strict=True)
