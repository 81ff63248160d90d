"""Means and standard deviations of the columns of a profile, by cluster."""

from __future__ import annotations

import torch

from fedkin.data.profile import ClusterProfile
from fedkin.data.scaling import constant


class Moments:
    """Means and standard deviations of all columns, as lists by column; meaningless for categorical columns.

    A column that varies by no more than rounding does has one mean everywhere, and no spread.
    """

    def __init__(self, profile: ClusterProfile) -> None:
        n = profile.filled.double()
        total = n.sum(0)
        means = profile.sum / n  # NaN where there is no cell
        mean = profile.sum.sum(0) / total.clamp_min(1)
        within = (profile.squares - n * (means - profile.around).square()).nan_to_num(0.0).clamp_min(0)
        between = n * (means - mean).square().nan_to_num(0.0)
        whole = (within + between).sum(0)
        one_value = constant(mean, (whole / total.clamp_min(1)).sqrt())
        means = torch.where(one_value & ~means.isnan(), mean, means)
        within, between = within.masked_fill(one_value, 0.0), between.masked_fill(one_value, 0.0)
        whole = whole.masked_fill(one_value, 0.0)
        self.n, self.total, self.whole = n.T.tolist(), total.tolist(), whole.tolist()
        self.means, self.mean, self.between = means.T.tolist(), mean.tolist(), between.sum(0).tolist()
        self.spread, self.scatter = (whole / total.clamp_min(1)).sqrt().tolist(), (within / n).sqrt().T.tolist()
        self.typical_filled, typical = profile.typical_filled.T.tolist(), profile.typical_sum
        if profile.has_typical:
            typical = torch.where(one_value, profile.typical_filled * mean, typical)
        self.typical_sum = typical.T.tolist()
