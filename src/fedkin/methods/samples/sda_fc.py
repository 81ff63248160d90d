"""SDA-FC: federated clustering aided by synthetic data (Yan, Liu, Ning and Zhang 2024).

Every client trains a generative network and sends samples that it makes; the server clusters these, by k-means or fuzzy
c-means, and clients assign their own samples to the centroids that it found. As in CCFC's experiments (section 4.2)
images are compared by cosine. Details that the papers leave open are those of the authors' code.

**Synthetic samples leave the clients**, see `synthetic`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Gt
from torch import Tensor

from fedkin.clustering.fuzzy_c_means import fuzzy_c_means
from fedkin.clustering.k_means import k_means, kmeans_plusplus_seeds
from fedkin.core import Client, Federation, Payload, State, task
from fedkin.features.extractors import extract
from fedkin.methods.samples.centroid_method import CentroidMethod, CentroidState, nearest, on_its_sphere
from fedkin.methods.samples.sample_method import broadcast
from fedkin.methods.samples.sample_tasks import keep_clusters
from fedkin.methods.samples.synthetic_samples import SyntheticMethod, SyntheticState, forget


@dataclass(frozen=True)
class SDAFCState(SyntheticState, CentroidState):
    """Shape of the samples, and in the end the centroids."""


@dataclass(frozen=True)
class SDAFCMethod(SyntheticMethod, CentroidMethod):
    """k-means or fuzzy c-means of synthetic samples that clients send; these can resemble, or repeat, real ones.

    Attributes
    ----------
    clustering : {"kmeans", "fuzzy"}
        How the server clusters the synthetic samples: SDA-FC-KM or SDA-FC-FCM.
    fuzziness : float
        Fuzziness m of fuzzy c-means.
    """

    clustering: Literal["kmeans", "fuzzy"] = "kmeans"
    fuzziness: Annotated[float, Gt(1)] = 1.1

    state_type: ClassVar[type[State]] = SDAFCState

    def ready(self, state: Any) -> bool:
        """Once the server has its centroids."""
        return len(state.centroids) > 0

    def clustered(self, fed: Federation, state: Any, x: Tensor) -> dict[str, Any]:
        """Centroids of the synthetic samples."""
        space, rng = self.space(tuple(state.shape)), fed.rng("clustering")
        points = extract(space, x)
        if self.clustering == "kmeans":
            centroids = k_means(points, self.n_clusters, rng).centres
        else:
            centroids = fuzzy_c_means(points, kmeans_plusplus_seeds(points, self.n_clusters, rng), self.fuzziness).centres
        return {"features": space, "centroids": on_its_sphere(space, centroids)}

    def end(self, fed: Federation, state: Any) -> None:
        """Have every client assign its samples to the centroids, and forget its networks."""
        payload: Payload = {"result": self.result(state)}
        broadcast(fed, assign, dict.fromkeys(fed.present, payload))


@task
def assign(clients: Sequence[Client], payloads: Sequence[Payload]) -> list[Payload]:
    """Every sample's cluster is that of its nearest centroid; the client's networks have served."""
    forget(clients)
    return keep_clusters(clients, payloads, nearest)
