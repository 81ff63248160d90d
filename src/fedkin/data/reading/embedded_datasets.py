"""Data sets that come with scikit-learn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from fedkin.core.table import Table
from fedkin.data.reading.dataset import Dataset
from fedkin.data.reading.table_options import NO_OPTIONS, TableOptions


def embedded(name: str, options: TableOptions = NO_OPTIONS) -> Dataset:
    """Load one of `dataset_names.EMBEDDED`: digits as images, the others as tables of float32 numbers."""
    from sklearn import datasets

    if name == "blobs":
        x, y = datasets.make_blobs(n_samples=2000, n_features=20, centers=5, random_state=0)
        return _table(name, x, y, [str(i) for i in range(5)], [f"x{i}" for i in range(20)], options)
    bunch = getattr(datasets, f"load_{name.replace('-', '_')}")()
    classes = [str(target) for target in bunch.target_names]
    if name == "digits":
        return Dataset(name, _float(bunch.images)[:, None] / 16, torch.from_numpy(bunch.target).long(), classes)
    return _table(name, bunch.data, bunch.target, classes, [str(feature) for feature in bunch.feature_names], options)


def _table(name: str, x: Any, y: Any, classes: list[str], features: list[str], options: TableOptions) -> Dataset:
    dropped = [feature for feature in features if feature in options.drop]
    kept = [at for at, feature in enumerate(features) if feature not in dropped]
    table = replace(Table.of_numbers(_float(x)[:, kept], [features[at] for at in kept]), id=options.id)
    return Dataset(name, table.values, torch.from_numpy(y).long(), classes, table, left_out=tuple(dropped))


def _float(array: Any) -> torch.Tensor:
    return torch.tensor(array, dtype=torch.float32)
