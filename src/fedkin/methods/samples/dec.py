"""Deep embedded clustering (DEC; Xie, Girshick, Farhadi 2016) of all samples together, as a baseline.

**The data are moved**: every client sends its samples to the server. It is the centralised baseline of FedCRef's paper
(section 6.1).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from annotated_types import Ge
from torch import Tensor

from fedkin.clustering.k_means import share_margin
from fedkin.core import Client, Federation, Payload, Record, State, Task, client_task
from fedkin.core.federation import Replies
from fedkin.core.method import Count, Positive
from fedkin.core.payload import is_count, positive, reals, updates
from fedkin.methods.samples.centroid_method import one_round, send_samples
from fedkin.methods.samples.sample_method import SampleMethod, assign_samples, describe_clients
from fedkin.nn.deep_clustering import DeepClusters, DeepEmbeddedClustering
from fedkin.nn.stack import WIDTHS


@client_task(
    takes={
        "result": {
            "n_clusters": is_count, "widths": WIDTHS, "centre": reals("features"), "spread": positive,
            "encoder": updates(None), "centroids": reals("clusters", "code"),
        }
    }
)  # fmt: skip
def assign(client: Client, payload: Payload) -> Payload:
    """Assign every sample to the centroid nearest to its code; clusters stay at the client."""
    return assign_samples(client, payload, DECMethod)


@dataclass(frozen=True)
class DECState(State):
    """State of DEC: `width` of a flattened sample, and the fields of `DeepClusters` once they are `found`."""

    width: int = 0
    found: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class DECMethod(SampleMethod):
    """Deep embedded clustering (DEC), in a single step.

    Attributes
    ----------
    n_clusters : int
        Clusters to find.
    hidden : tuple of int, optional
        Widths of the encoder's hidden layers; by default 500-500-2000, and in proportion for fewer than 256 features.
    code : int
        Length of the code.
    pretrain_steps : int
        Steps of the autoencoder's training by Adam (the paper: 150,000 by SGD).
    learning_rate : float
        Learning rate of SGD, in self-training.
    batch_size : int
        Samples per optimiser step, of both trainings.
    max_refreshes : int
        Maximum number of updates of the target distribution.
    restarts : int
        Number of k-means starts on the code; the best is kept.
    """

    n_clusters: Count = 10
    hidden: tuple[Count, ...] | None = None
    code: Count = 10
    pretrain_steps: Count = 1000
    learning_rate: Positive = 0.01
    batch_size: Count = 256
    max_refreshes: Annotated[int, Ge(0)] = 50
    restarts: Count = 20

    traits = SampleMethod.traits.replace(moves_data=True, baseline=True, has_device=True)
    state_type: ClassVar[type[State]] = DECState
    assign_task: ClassVar[Task] = assign
    soft = True

    def init(self, fed: Federation) -> DECState:
        """Ask clients for the shape of their samples."""
        return DECState(width=math.prod(describe_clients(fed).shape))

    def step(self, fed: Federation, state: DECState) -> tuple[DECState, Record]:
        """Cluster all samples, and send clients the result."""

        def cluster(replies: Replies[Payload]) -> dict[str, Any]:
            search = DeepEmbeddedClustering(**self.shared_with(DeepEmbeddedClustering))
            clusters = search.train(replies.cat("points"), self.n_clusters, fed.rng("dec", state.steps))
            return {"found": {**vars(clusters), "widths": list(clusters.widths)}}

        return one_round(self, fed, state, send_samples, {"features": "raw"}, cluster, "points")

    def ready(self, state: DECState) -> bool:
        return state.finished

    def result(self, state: DECState) -> dict[str, Any]:
        return {"n_clusters": len(state.found.get("centroids", ())), **state.found}

    @staticmethod
    def predict(result: Mapping[str, Any], x: Tensor) -> Tensor:
        return DECMethod.memberships(result, x).argmax(dim=1)

    @staticmethod
    def confidence(result: Mapping[str, Any], x: Tensor) -> Tensor:
        return share_margin(DECMethod.memberships(result, x))

    @staticmethod
    def memberships(result: Mapping[str, Any], x: Tensor) -> Tensor:
        return _clusters_of(result).memberships(x.flatten(1))

    @staticmethod
    def embed(result: Mapping[str, Any], x: Tensor) -> Tensor:
        return _clusters_of(result).codes(x.flatten(1))


def _clusters_of(result: Mapping[str, Any]) -> DeepClusters:
    values = {name: result[name] for name in ("centre", "spread", "encoder", "centroids")}
    return DeepClusters(tuple(result["widths"]), **values)
