"""FeSEM: clustering clients by the distance of their trained models from centres (Long et al. 2023; algorithm 1)."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import torch
from torch import Tensor

from fedkin.clustering.k_means import kmeans_plusplus_seeds, pairwise_distances
from fedkin.clustering.matching import renumbered
from fedkin.core import Federation, Record
from fedkin.core.method import Count
from fedkin.methods.clients.client_method import UNKNOWN, ClientMethod, ClientMethodState, Trained, round_record
from fedkin.nn.modules import Classifier


@dataclass(frozen=True)
class FeSEMMethod(ClientMethod):
    """Clusters clients by k-means of their models: each centre becomes the mean of the nearest clients' models.

    In every round clients train the model of their cluster; the server assigns each trained model to the nearest of the
    K models by Euclidean distance (expectation) and averages those of each cluster (maximisation). In the first round
    all train one and the same model.

    Attributes
    ----------
    n_clusters : int
        K, the number of clusters.
    """

    n_clusters: Count = 3

    traits = ClientMethod.traits.replace(finds_k=False, takes_k=True)

    def init(self, fed: Federation) -> ClientMethodState:
        """Return K copies of one new model, and no client in a cluster yet."""
        state: ClientMethodState = self.unplaced(fed)
        return dataclasses.replace(state, models=state.models.repeat(self.n_clusters, 1))

    def step(self, fed: Federation, state: ClientMethodState) -> tuple[ClientMethodState, Record]:
        """Have clients train, assign their models to the nearest centres, and average them by cluster."""
        labels, participants = state.labels.clone(), self.participants(fed, state)
        first = not (labels != UNKNOWN).any()
        missing = {} if first else self.place_by_loss(fed, state, participants, labels)
        models = list(state.models)
        starts = {i: models[max(0, int(labels[i]))] for i in participants if i not in missing}
        trained: dict[int, tuple[Tensor, float]] = {}
        losses: dict[int, float] = {}
        replies = self.trained(fed, state, starts)
        for client, reply in replies:
            trained[client] = starts[client] + reply["update"], self.weight(reply)
            losses[client] = reply["loss"]
        means = self.means(state)
        if trained:
            clusters = self._nearest(fed, state, torch.stack([model for model, _ in trained.values()]), first)
            for (client, (model, weight)), cluster in zip(trained.items(), clusters, strict=True):
                labels[client] = cluster
                means.add(cluster, model - state.models[cluster], weight, client)
        record = round_record(fed, Trained.each(losses, replies.missing), labels, missing=missing)
        return self.after_round(state, means, labels=labels), record

    def _nearest(self, fed: Federation, state: ClientMethodState, trained: Tensor, first: bool) -> list[int]:
        """Return the index of the centre nearest to each trained model ``(n, size)``."""
        trainable = Classifier.of(state.module).parameters
        points, centres = trained[:, :trainable], state.models[:, :trainable]
        if first:
            centres = kmeans_plusplus_seeds(points, self.n_clusters, fed.rng("start"))
        nearest = pairwise_distances(points, centres).argmin(1)
        # Two of the first centres may be one model, so that a number would have no client.
        clusters: list[int] = (renumbered(nearest) if first else nearest).tolist()
        return clusters
