"""What kin-graph's server knows between its steps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from fedkin.core import Payload, State


@dataclass(frozen=True)
class KinGraphState(State):
    """State of the server.

    Attributes
    ----------
    features : str
        Name of the features that samples are compared by.
    width : int
        Number of features.
    common : bool
        Whether micro-clusters are common to all clients.
    standardise : bool
        Whether features are standardised before the principal components.
    projection : int or None
        Seed of the random projection of too many features.
    bound : float or None
        Divisor of the features, or their own length if that is greater; ``None`` leaves them unchanged.
    large : list of int
        Clients with enough samples for the scatter between neighbours.
    smoothing : int
        Number of neighbours that a client's points are averaged with.
    samples : float
        With differential privacy, the noisy number of all clients' samples.
    mean, directions, variances : Tensor
        The principal components, once found; see `fedkin.features.pca.Components`.
    whitened : bool
        Whether directions are whitened by the scatter between neighbours.
    centroids : Tensor
        float32 ``(m, d)``, nodes of the graph.
    counts, clusters : Tensor
        int64 ``(m,)``, samples and cluster of each node.
    own : Tensor
        int64 ``(p, 3)``, client, node and samples of each micro-cluster that a client sent, in order of clients; empty
        where they are common.
    scales : list of dict
        Partitions of the nodes, see `fedkin.methods.samples.kingraph.scales`.
    """

    features: str = "raw"
    width: int = 0
    common: bool = False
    standardise: bool = False
    projection: int | None = None
    bound: float | None = None
    large: list[int] = field(default_factory=list)
    smoothing: int = 0
    samples: float = 0.0
    mean: Tensor = field(default_factory=lambda: torch.zeros(0))
    directions: Tensor = field(default_factory=lambda: torch.zeros(0, 0))
    variances: Tensor = field(default_factory=lambda: torch.zeros(0))
    whitened: bool = False
    centroids: Tensor = field(default_factory=lambda: torch.zeros(0, 0))
    counts: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))
    clusters: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))
    own: Tensor = field(default_factory=lambda: torch.zeros(0, 3, dtype=torch.int64))
    scales: list[dict[str, Any]] = field(default_factory=list)

    @property
    def space(self) -> Payload:
        """The parameters that turn samples into points."""
        return {
            "features": self.features,
            "projection": self.projection,
            "bound": self.bound,
            "mean": self.mean,
            "directions": self.directions,
        }
