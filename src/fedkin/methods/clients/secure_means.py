"""Mean updates from secure sums: the server sees one sum for each cluster, and no client's update."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from fedkin.core import Federation
from fedkin.methods.clients.client_method import ClientMethod, ClientMethodState, Participation
from fedkin.methods.clients.client_tasks import train
from fedkin.nn.aggregation import Means
from fedkin.secure.sum_tasks import Term
from fedkin.secure.sums import summed


def add_sums(
    means: Means,
    method: ClientMethod,
    fed: Federation,
    state: ClientMethodState,
    starts: Mapping[int, Tensor],
    clusters: Mapping[int, int],
) -> Participation:
    """Have clients train from `starts` and take the sum of each cluster's updates into `means`.

    Parameters
    ----------
    means : Means
    method : ClusterMethod
        Tells how clients train, and what an update's weight is.
    fed : Federation
    state : ClusterState
    starts : mapping of int to Tensor
        Models ``(size,)`` by client.
    clusters : mapping of int to int
        The cluster of each of them.
    """
    by = "samples" if method.weighting == "samples" else None
    terms = [Term("update", (state.models.shape[1],), by), Term("samples"), Term("loss")]
    sums = summed(fed, train, method.training(state, starts), terms, clusters)
    for cluster, sum_ in sums.items():
        weight = float(sum_.totals["samples"]) if by else float(len(sum_.clients))
        means.add(cluster, sum_.totals["update"] / weight, weight)
    answered = sorted(client for sum_ in sums.values() for client in sum_.clients)
    loss = float(sum(sum_.totals["loss"] for sum_ in sums.values())) / len(answered) if answered else None
    return Participation(answered, loss)
