"""Models of FedCRef's communities: their federated training, and their reuse in the next iteration."""

from __future__ import annotations

from dataclasses import asdict

from torch import Tensor

from fedkin.core import Payload
from fedkin.core.replies import updates, whole
from fedkin.methods.samples.fedcref import fedcref_tasks
from fedkin.methods.samples.fedcref.association import AssociationGraph
from fedkin.methods.samples.fedcref.fedcref_parameters import FedCRefParameters
from fedkin.methods.samples.fedcref.fedcref_state import FedCRefState, Iteration
from fedkin.nn.aggregation import Aggregation, Means
from fedkin.nn.stack import StackTraining


def train_communities(method: FedCRefParameters, work: Iteration, graph: AssociationGraph, frozen: list[int]) -> Tensor:
    """Train one model per community by federated averaging over its local clusters (lines 22-24)."""
    state = work.state
    models = state.model.initial([work.fed.rng("community", state.steps, g) for g in range(len(graph.communities))])
    if method.continuity:
        continue_models(models, state, graph)
    known = reusable_models(state, graph, frozen)
    for cluster, before in known.items():
        models[cluster] = state.community_models[before]
    members: dict[int, list[tuple[int, int]]] = {}
    for cluster, community in enumerate(graph.communities):
        for client, local_cluster in (graph.nodes[a] for a in community if cluster not in known):
            members.setdefault(client, []).append((cluster, local_cluster))
    for round_ in range(method.rounds if members else 0):
        epochs = method.round_epochs if round_ else method.first_epochs
        training = StackTraining(epochs, method.min_steps // method.rounds, method.batch_size, method.learning_rate)
        common = {**fedcref_tasks.spec(state.model), "training": asdict(training)}
        payloads: dict[int, Payload] = {
            client: {
                **common,
                "models": models[[g for g, _ in own]],
                "clusters": [local_cluster for _, local_cluster in own],
            }
            for client, own in members.items()
        }
        replies = work.ask(
            fedcref_tasks.train_community,
            payloads,
            lambda i: {"models": updates(len(members[i]), state.model.size), "samples": whole(len(members[i]))},
        )
        average_models(models, members, replies, method.aggregation)
    return models


def reusable_models(state: FedCRefState, graph: AssociationGraph, frozen: list[int]) -> dict[int, int]:
    """Return the previous number of each community whose members are the same and all frozen."""
    still_frozen = {i for i in frozen if i in state.frozen}
    before = {str([state.nodes[a] for a in members]): g for g, members in enumerate(state.communities)}
    now = {g: [graph.nodes[a] for a in members] for g, members in enumerate(graph.communities)}
    return {
        g: before[str(members)]
        for g, members in now.items()
        if str(members) in before and all(client in still_frozen for client, _ in members)
    }


def continue_models(models: Tensor, state: FedCRefState, graph: AssociationGraph) -> None:
    """Initialise every community's model, in place, from the previous cluster of most of its members, if any."""
    for cluster, community in enumerate(graph.communities):
        nodes = [graph.nodes[a] for a in community]
        before = [
            state.clusters[str(client)][local_cluster]
            for client, local_cluster in nodes
            if str(client) in state.clusters
        ]
        if before:
            models[cluster] = state.cluster_models[max(sorted(set(before)), key=before.count)]


def average_models(
    models: Tensor,
    members: dict[int, list[tuple[int, int]]],
    replies: dict[int, Payload],
    aggregation: Aggregation = "mean",
) -> None:
    """Average models per community, weighted by samples, in place; without replies a community keeps its model.

    Raises DivergedError if a model is not finite, or has exploded.
    """
    clusters, size = models.shape
    means, received = Means(clusters, size, aggregation=aggregation), set()
    for client, reply in replies.items():
        for (cluster, _), model, samples in zip(members[client], reply["models"], reply["samples"], strict=True):
            means.add(cluster, model, float(samples), client)
            received.add(cluster)
    averaged = models.clone()
    for cluster in received:
        averaged[cluster] = means.of(cluster)
    means.check(averaged)
    models.copy_(averaged)
