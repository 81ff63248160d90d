"""Values that sums for comparing clusters are over, beside sums of the true values, where some lie beyond limits.

Means and standard deviations are reported of the true values. Which columns tell clusters apart is read from values
within limits, as clustering has them. Since the difference of both sums must not be that of a few values, at least
`minimum` are changed in a cell of the profile, or none by more than the true sum says.
"""

from __future__ import annotations

import torch
from torch import Tensor


def counted_values(
    values: Tensor, inside: Tensor, clusters: Tensor, reported: Tensor, typical: Tensor, minimum: int
) -> tuple[Tensor, Tensor]:
    """Return the values that count for comparisons, float64 ``(n, columns)``, and the cells of typical samples.

    `values`, float64 ``(n, columns)``, are the true ones and `inside` those within limits. `reported` and `typical`,
    bool ``(n, columns)``, are the cells that sums by cluster and column are over, and those in the middle of the
    clusters. If at least `minimum` values of a cluster and column lie beyond the limits, these count as the limit. If
    fewer do, the `minimum` farthest ones count as the mean of the others. Where fewer than `minimum` others are left,
    all count as their common mean, or as the limit that it is beyond. Typical cells from which fewer than `minimum`
    values could be inferred then are left out.
    """
    beyond = reported & (values != inside) & ~values.isnan()
    counted, typical = values.clone(), typical.clone()
    for column in beyond.any(0).nonzero()[:, 0].tolist():
        for cluster in clusters[beyond[:, column]].unique().tolist():
            rows = (reported[:, column] & (clusters == cluster)).nonzero()[:, 0]
            own, limit, out = values[rows, column], inside[rows, column], beyond[rows, column]
            if len(rows) - max(int(out.sum()), minimum) < minimum:
                counted[rows, column] = own.mean().clamp(limit.min(), limit.max())
                continue
            if int(out.sum()) >= minimum:
                counted[rows, column] = limit
            else:
                farthest = torch.where(out, torch.inf, (own - own.median()).abs())
                out = torch.zeros_like(out).index_fill(
                    0, farthest.argsort(descending=True, stable=True)[:minimum], True
                )
                counted[rows[out], column] = own[~out].mean()
            middle = typical[rows, column]
            if any(0 < int(few.sum()) < minimum for few in (middle == out, middle != out)):
                typical[rows, column] = False
    return counted, typical
