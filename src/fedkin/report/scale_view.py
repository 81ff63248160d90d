"""Clusters of the same samples at coarser and finer resolutions, in plain Python values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedkin.core.errors import FedkinError


@dataclass(frozen=True)
class Scale:
    """Partition of the samples at one resolution, with numbers of samples by cluster.

    `parents` are by cluster the one of the scale before that it is part of; empty in the first scale. `stability`, at
    most 1, is that of the partition when some micro-clusters are left out. Exactly one scale of a tree is `chosen`, as
    the clusters found.
    """

    samples: Sequence[int]
    parents: Sequence[int]
    stability: float | None
    chosen: bool


@dataclass(frozen=True)
class ScaleTree:
    """Hierarchy of partitions of the same samples, from coarse to fine, with a caption that says what to see.

    Raises FedkinError if parents are not clusters of the scale before, or not one scale is chosen.
    """

    title: str
    caption: str
    scales: Sequence[Scale]

    def __post_init__(self) -> None:
        for at, scale in enumerate(self.scales):
            before = len(self.scales[at - 1].samples) if at else 0
            right = len(scale.parents) == (len(scale.samples) if at else 0)
            if not right or not all(0 <= parent < before for parent in scale.parents):
                raise FedkinError(f"Parents of scale {at} of '{self.title}' are not clusters of the scale before.")
        if sum(scale.chosen for scale in self.scales) != 1:
            raise FedkinError(f"Exactly one scale of '{self.title}' must be chosen.")
