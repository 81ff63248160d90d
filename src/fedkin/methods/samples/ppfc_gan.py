"""PPFC-GAN: federated deep clustering by generative networks (Yan, Liu, Qi and Zhang 2022).

Every client trains a generative network and sends samples that it generates, as in SDA-FC. The server trains a deep
clustering network on them (`fedkin.nn.deep_clustering`), and clients assign their own samples by its codes. There is no
public code, and CCFC's paper, whose baseline it is, gives no settings of that network; they are ours.

**Synthetic samples leave the clients**, see `synthetic_samples`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import torch
from annotated_types import Ge
from torch import Tensor

from fedkin.clustering.k_means import distance_margin, nearest_centroids, pairwise_distances
from fedkin.core import Client, Federation, Payload, State, Task, client_task
from fedkin.core.method import Count
from fedkin.core.payload import is_count, reals, updates
from fedkin.methods.samples.sample_method import assign_samples
from fedkin.methods.samples.synthetic_samples import SyntheticMethod, SyntheticState, delete_networks
from fedkin.nn.deep_clustering import DEEP_ENCODER, DeepClustering, DeepEncoder


@client_task(
    takes={
        "result": {
            "n_clusters": is_count, "centroids": reals("clusters", "code"), "encoder": updates(None),
            "architecture": DEEP_ENCODER,
        }
    }
)  # fmt: skip
def assign(client: Client, payload: Payload) -> Payload:
    """Assign every sample to the centroid nearest to its code, and delete the client's networks."""
    delete_networks(client)
    return assign_samples(client, payload, PPFCGANMethod)


@dataclass(frozen=True)
class PPFCGANState(SyntheticState):
    """State of PPFC-GAN: the samples' shape and, at the end, the deep clustering network.

    `encoder` ``(size,)`` has its parameters, and `centroids` ``(k, code)`` are in its codes.
    """

    encoder: Tensor = field(default_factory=lambda: torch.zeros(0))
    centroids: Tensor = field(default_factory=lambda: torch.zeros(0, 0))


@dataclass(frozen=True)
class PPFCGANMethod(SyntheticMethod):
    """Deep clustering of synthetic samples, which can resemble, or repeat, real ones.

    Attributes
    ----------
    code : int
        Length of a sample's code.
    pretrain_epochs : int
        Epochs of the server's autoencoder alone.
    cluster_epochs : int
        Epochs of the server's network with the clusters, in which the squared distance of a code from its centroid
        counts 0.05 times beside the squared error of reconstruction; 0 leaves k-means on the codes.
    """

    code: Count = 10
    pretrain_epochs: Count = 50
    cluster_epochs: Annotated[int, Ge(0)] = 50

    state_type: ClassVar[type[State]] = PPFCGANState
    assign_task: ClassVar[Task] = assign

    def ready(self, state: Any) -> bool:
        return len(state.centroids) > 0

    def cluster(self, fed: Federation, state: Any, x: Tensor) -> dict[str, Any]:
        training = DeepClustering(self.pretrain_epochs, self.cluster_epochs, self.min_steps)
        model, centroids = training.fit(self._encoder(state), x, self.n_clusters, fed.rng("grouping"))
        return {"encoder": model, "centroids": centroids}

    def result(self, state: Any) -> dict[str, Any]:
        return {
            "n_clusters": len(state.centroids),
            "centroids": state.centroids,
            "encoder": state.encoder,
            "architecture": self._encoder(state).spec(),
        }

    @staticmethod
    def predict(result: Mapping[str, Any], x: Tensor) -> Tensor:
        return nearest_centroids(PPFCGANMethod.embed(result, x), result["centroids"])

    @staticmethod
    def confidence(result: Mapping[str, Any], x: Tensor) -> Tensor | None:
        return distance_margin(pairwise_distances(PPFCGANMethod.embed(result, x), result["centroids"]))

    @staticmethod
    def embed(result: Mapping[str, Any], x: Tensor) -> Tensor:
        return DeepEncoder.of(result["architecture"]).codes(result["encoder"], x)

    def _encoder(self, state: Any) -> DeepEncoder:
        return DeepEncoder.of({"shape": state.shape, "output": state.output, "code": self.code})
