"""PPFC-GAN: federated deep clustering by generative networks (Yan, Liu, Qi and Zhang 2022).

Every client trains a generative network and sends samples that it makes, as in SDA-FC; the server trains a deep
clustering network on them (`fedkin.nn.dcn`), and clients assign their own samples in the codes of that network.
There is no public code, and the paper of CCFC that uses it as a baseline gives no settings; those of the deep
clustering network are ours.

**Synthetic samples leave the clients**, see `synthetic`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import torch
from annotated_types import Ge
from torch import Tensor

from fedkin.clustering.nearest import nearest_centroids
from fedkin.core import Client, Federation, Payload, State, task
from fedkin.core.method import Count, Positive
from fedkin.methods.samples.sample_method import broadcast
from fedkin.methods.samples.sample_tasks import keep_clusters
from fedkin.methods.samples.synthetic_samples import SyntheticMethod, SyntheticState, forget
from fedkin.nn.dcn import DeepClustering, DeepEncoder


@dataclass(frozen=True)
class PPFCGANState(SyntheticState):
    """Shape of the samples, and in the end the deep clustering network.

    Attributes
    ----------
    encoder : Tensor
        ``(size,)``, model of the network.
    centroids : Tensor
        ``(k, code)``, in its codes.
    """

    encoder: Tensor = field(default_factory=lambda: torch.zeros(0))
    centroids: Tensor = field(default_factory=lambda: torch.zeros(0, 0))


@dataclass(frozen=True)
class PPFCGANMethod(SyntheticMethod):
    """A deep clustering network of synthetic samples that clients send; these can resemble, or repeat, real ones.

    Attributes
    ----------
    code : int
        Numbers that the network compresses a sample to.
    pretrain_epochs : int
        Epochs of the server's autoencoder alone.
    cluster_epochs : int
        Epochs of the server's network with the clusters; 0 leaves k-means on the codes.
    cluster_weight : float
        Weight of a code's squared distance from its centroid, beside the squared error of reconstruction.
    cluster_rate : float
        Adam's learning rate for the server's network.
    """

    code: Count = 10
    pretrain_epochs: Count = 50
    cluster_epochs: Annotated[int, Ge(0)] = 50
    cluster_weight: Annotated[float, Ge(0)] = 0.05
    cluster_rate: Positive = 1e-3

    state_type: ClassVar[type[State]] = PPFCGANState

    def ready(self, state: Any) -> bool:
        """Once the server has trained its network."""
        return len(state.centroids) > 0

    def clustered(self, fed: Federation, state: Any, x: Tensor) -> dict[str, Any]:
        """The network of the synthetic samples."""
        training = DeepClustering(
            self.pretrain_epochs,
            self.cluster_epochs,
            self.cluster_weight,
            min_steps=self.min_steps,
            learning_rate=self.cluster_rate,
        )
        model, centroids = training.fit(self._encoder(state), x, self.n_clusters, fed.rng("clustering"))
        return {"encoder": model, "centroids": centroids}

    def end(self, fed: Federation, state: Any) -> None:
        """Have every client assign its samples by the network, and forget its own."""
        payload: Payload = {"result": self.result(state)}
        broadcast(fed, assign, dict.fromkeys(fed.present, payload))

    def result(self, state: Any) -> dict[str, Any]:
        """The network and its centroids."""
        return {
            "n_clusters": len(state.centroids),
            "centroids": state.centroids,
            "encoder": state.encoder,
            "architecture": self._encoder(state).spec(),
        }

    @staticmethod
    def predict(result: Mapping[str, Any], x: Tensor) -> Tensor:
        """Cluster of samples ``(n, *shape)``: that of the centroid nearest to their code; int64 ``(n,)``."""
        return by_codes(result, x)

    @staticmethod
    def embed(result: Mapping[str, Any], x: Tensor) -> Tensor:
        """The codes of samples ``(n, *shape)``: float32 ``(n, code)``."""
        return DeepEncoder.of(result["architecture"]).codes(result["encoder"], x)

    def _encoder(self, state: Any) -> DeepEncoder:
        return DeepEncoder.of({"shape": state.shape, "output": state.output, "code": self.code})


@task
def assign(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """Every sample's cluster is that of the centroid nearest to its code; the client's own networks have served."""
    forget(clients)
    return keep_clusters(clients, payloads, by_codes)


def by_codes(result: Mapping[str, Any], x: Tensor) -> Tensor:
    """Index of the centroid nearest to the code of each sample of ``(n, *shape)``, int64 ``(n,)``."""
    return nearest_centroids(PPFCGANMethod.embed(result, x), result["centroids"])
