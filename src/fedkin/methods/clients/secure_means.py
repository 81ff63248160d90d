"""Mean updates from secure aggregation: the server learns one sum per cluster, and no single update."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from fedkin.core import Federation
from fedkin.methods.clients.client_method import ClientMethod, ClientMethodState
from fedkin.methods.clients.client_tasks import train
from fedkin.methods.clients.round_record import Participation
from fedkin.nn.aggregation import Means
from fedkin.secure_aggregation.sum_tasks import Term
from fedkin.secure_aggregation.sums import summed


def add_sums(
    means: Means,
    method: ClientMethod,
    fed: Federation,
    state: ClientMethodState,
    starts: Mapping[int, Tensor],
    clusters: Mapping[int, int],
) -> Participation:
    """Have clients train from `starts`, and add the secure sum of each cluster's updates to `means`.

    `method` defines how clients train, and the weight of an update. `starts` are models ``(size,)``, and `clusters` the
    clusters, both by client.
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
