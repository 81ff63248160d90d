"""Imputation of empty cells from similar rows of the same client."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

Imputation = Literal["neighbours", "median"]

_NEIGHBOURS = 5
"""Number of similar rows whose mean an empty cell takes."""

_MAX_DONORS = 1_000
"""Maximum number of rows among which similar ones are sought, evenly spaced in the table."""


def from_neighbours(x: Tensor, empty: Tensor, donors: Tensor, donors_empty: Tensor) -> Tensor:
    """Replace empty cells by the mean of the five most similar donors that are not empty there.

    Rows are compared in the cells that both have, as in Troyanskaya et al. (2001), with at most 1,000 donors. `x`,
    float32 ``(n, width)``, are encoded rows with fill values in `empty` cells, bool ``(n, width)``. `donors` ``(m,
    width)`` are encoded in the same way, with `donors_empty`; rows of `x` may be among them. Return float32 ``(n,
    width)``. Fill values stay in columns that are empty in all donors, and in rows that have no cell in any other
    column.
    """
    some = torch.linspace(0, len(donors) - 1, min(len(donors), _MAX_DONORS)).long()
    columns = (~donors_empty[some]).any(0).nonzero()[:, 0]
    rows = (empty[:, columns].any(1) & ~empty[:, columns].all(1)).nonzero()[:, 0]
    if not len(rows):
        return x
    from sklearn.impute import KNNImputer

    imputer = KNNImputer(n_neighbors=_NEIGHBOURS).fit(_with_nan(donors, donors_empty)[some][:, columns].numpy())
    found = torch.from_numpy(imputer.transform(_with_nan(x, empty)[rows][:, columns].numpy()))
    x = x.clone()
    x[rows[:, None], columns] = found.float()
    return x


def _with_nan(x: Tensor, empty: Tensor) -> Tensor:
    return x.double().masked_fill(empty, torch.nan)
