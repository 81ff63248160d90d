"""CLoVE: clustering clients by the losses of all models on their data (Bhatia et al. 2025; arXiv 2506.22427)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedkin.clustering.k_means import k_means
from fedkin.clustering.matching import cheapest_matching
from fedkin.core import Federation, Record
from fedkin.core.method import Count
from fedkin.methods.clients.client_method import ClientMethod, ClientMethodState, round_record


@dataclass(frozen=True)
class CLoVEMethod(ClientMethod):
    """Keeps K models; clusters clients with similar losses under all of them, and trains one model per cluster.

    In every round each client sends the losses of all K models on its data. The server clusters these vectors by
    k-means, and matches clusters to models so that the total loss is minimal. Then every client trains the model of
    its cluster. A round is two exchanges.

    Attributes
    ----------
    n_clusters : int
        K, the number of clusters.
    """

    n_clusters: Count = 3

    traits = ClientMethod.traits.replace(finds_k=False, takes_k=True)

    def init(self, fed: Federation) -> ClientMethodState:
        """Return K different models, and no client in a cluster yet."""
        state: ClientMethodState = self.unplaced(fed, self.n_clusters)
        return state

    def step(self, fed: Federation, state: ClientMethodState) -> tuple[ClientMethodState, Record]:
        """Cluster the participants by their losses, have them train, and add to each model its mean update."""
        labels, participants = state.labels.clone(), self.participants(fed, state)
        vectors = self.losses_at(fed, state, participants)
        if vectors:
            clusters = clusters_of(torch.stack(list(vectors.values())), fed.rng("kmeans", state.steps))
            labels[list(vectors)] = torch.tensor(clusters)
        means = self.means(state)
        present = [client for client in participants if client not in vectors.missing]
        trained = self.train_clusters(fed, state, self.known_clusters(labels, present), means)
        return self.after_round(state, means, labels=labels), round_record(
            fed, trained, labels, missing=vectors.missing
        )


def clusters_of(vectors: Tensor, rng: torch.Generator) -> list[int]:
    """Assign each client to a model, by k-means of the loss vectors ``(n, K)``; return the models' indices.

    The K clusters of k-means are matched to models by minimal total loss; if k-means finds fewer clusters, some models
    have no client.
    """
    parts = k_means(vectors, vectors.shape[1], rng, exact=True).labels
    members = torch.nn.functional.one_hot(parts).double()
    model_of = cheapest_matching(members.T @ vectors.double())
    return [model_of[part] for part in parts.tolist()]
