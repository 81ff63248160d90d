"""SDA-FC: federated clustering aided by synthetic data (Yan, Liu, Ning and Zhang 2024).

Every client trains a generative network and sends samples that it generates. The server clusters them by k-means or
fuzzy c-means, and clients assign their own samples to its centroids. As in CCFC's experiments (section 4.2), images are
compared by cosine. Details follow the authors' code, but that one-hot kinds alternate.

**Synthetic samples leave the clients**, see `synthetic_samples`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Gt
from torch import Tensor

from fedkin.clustering.fuzzy_c_means import fuzzy_c_means
from fedkin.clustering.k_means import k_means, kmeans_plusplus_seeds
from fedkin.core import Client, Federation, Payload, State, Task, client_task
from fedkin.features.extractors import extract
from fedkin.methods.samples.centroid_method import (
    CENTROIDS,
    CentroidMethod,
    CentroidState,
    assign_to_centroids,
    features_for,
    scaled_like_features,
)
from fedkin.methods.samples.synthetic_samples import SyntheticMethod, SyntheticState, delete_networks


@client_task(takes={"result": CENTROIDS})
def assign(client: Client, payload: Payload) -> Payload:
    """Assign every sample to its nearest centroid, and delete the client's networks."""
    delete_networks(client)
    return assign_to_centroids.run([client], [payload])[0]


@dataclass(frozen=True)
class SDAFCState(SyntheticState, CentroidState):
    """State of SDA-FC: the samples' shape and, at the end, the centroids."""


@dataclass(frozen=True)
class SDAFCMethod(SyntheticMethod, CentroidMethod):
    """k-means or fuzzy c-means of synthetic samples, which can resemble, or repeat, real ones.

    Attributes
    ----------
    clustering : {"kmeans", "fuzzy"}
        How the server clusters the synthetic samples: SDA-FC-KM or SDA-FC-FCM.
    fuzziness : float
        Fuzziness m of fuzzy c-means.
    """

    clustering: Literal["kmeans", "fuzzy"] = "kmeans"
    fuzziness: Annotated[float, Gt(1)] = 1.1

    traits = SyntheticMethod.traits.replace(paper={"synthetic_samples": 7000, "min_steps": 1})
    state_type: ClassVar[type[State]] = SDAFCState
    assign_task: ClassVar[Task] = assign
    soft = True

    def cluster(self, fed: Federation, state: Any, x: Tensor) -> dict[str, Any]:
        space, rng = features_for(self.features, tuple(state.shape))["features"], fed.rng("grouping")
        points = extract(space, x)
        if self.clustering == "kmeans":
            centroids = k_means(points, self.n_clusters, rng).centres
        else:
            seeds = kmeans_plusplus_seeds(points, self.n_clusters, rng)
            centroids = fuzzy_c_means(points, seeds, self.fuzziness).centres
        return {"features": space, "centroids": scaled_like_features(space, centroids)}

    def result(self, state: Any) -> dict[str, Any]:
        return super().result(state) | ({"fuzziness": self.fuzziness} if self.clustering == "fuzzy" else {})
