"""Training of every cluster's model by its clients, in the open or so that the server learns one sum per cluster."""

from __future__ import annotations

from collections.abc import Mapping

from fedkin.core import Federation, FedkinError
from fedkin.methods.clients.client_method import ClientMethod, ClientMethodState
from fedkin.methods.clients.client_tasks import train
from fedkin.methods.clients.round_record import Participation
from fedkin.nn.aggregation import Means
from fedkin.nn.classifier import Classifier
from fedkin.secure_aggregation.sum_tasks import Term
from fedkin.secure_aggregation.sums import summed


def train_clusters(
    method: ClientMethod, fed: Federation, state: ClientMethodState, clusters: Mapping[int, int], means: Means
) -> Participation:
    """Have clients train the models of their `clusters`, given by client, and add their updates to `means`.

    Where only sums over clients may be known, the secure sum of each cluster's updates is added, and no client's loss
    is known. `method` defines how clients train, and the weight of an update. Raises FedkinError if a cluster has no
    model.
    """
    models = list(state.models)
    if clusters and not 0 <= min(clusters.values()) <= max(clusters.values()) < len(models):
        raise FedkinError(
            f"{type(method).__name__} has numbers {min(clusters.values())} to {max(clusters.values())} in its state's "
            f"labels; they should be from 0 to {len(models) - 1}, the last of its models."
        )
    starts = {client: models[cluster] for client, cluster in clusters.items()}
    if not fed.secure_sums:
        return Participation.each(method.add_each(means, method.trained(fed, state, starts), clusters))
    by = "samples" if method.weighting == "samples" else None
    terms = [Term("update", (state.models.shape[1],), by), Term("samples"), Term("loss")]
    sums = summed(fed, train, method.training(state, starts), terms, clusters)
    for cluster, sum_ in sums.items():
        weight = float(sum_.totals["samples"]) if by else float(len(sum_.clients))
        means.add(cluster, sum_.totals["update"] / weight, weight)
    answered = sorted(client for sum_ in sums.values() for client in sum_.clients)
    loss = float(sum(sum_.totals["loss"] for sum_ in sums.values())) / len(answered) if answered else None
    return Participation(answered, loss)


def check_differ(state: ClientMethodState, shared_layers: int, instead: str) -> None:
    """Raise FedkinError if several models are the same in all but `shared_layers`; `instead` says what helps."""
    models = state.models[:, Classifier.of(state.module).leading(shared_layers) :]
    if len(models) > 1 and models.shape[1] > 0 and bool((models == models[0]).all()):
        raise FedkinError(
            f"All {len(models)} models start with the same weights, so clients cannot choose among them; {instead}."
        )
