"""Estimator of FedCRef, which accepts initial clusters, and numbers of clusters, of each client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import torch

from fedkin.core import Client, FedkinError
from fedkin.core.keywords import checked_keywords
from fedkin.core.progress import Followers
from fedkin.estimators.held_out import by_client
from fedkin.estimators.sample_clusterer import SampleClusterer
from fedkin.methods.samples.fedcref import fedcref


class FedCRef(SampleClusterer, method=fedcref.FedCRefMethod):
    """Find clusters across clients, and their number, by matching local clusters (FedCRef; Nardi, Valerio, Passarella).

    `predict` assigns a sample to the cluster whose model reconstructs it best. Samples of `fit` may get another cluster
    than in `labels_`, for which a client chooses among fewer models.

    `n_clusters` may also be a list with the number of local clusters of each client.

    Attributes
    ----------
    communities_ : list of lists of (client, cluster)
        The local clusters in each cluster.
    records_ : list of dict
        One entry per iteration: communities, unmatched clusters, bytes sent and received, and so on.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> import fedkin
    >>> x, y = make_blobs([60, 60, 60], n_features=8, random_state=0)
    >>> clients = [x[y != 2], x[y != 0], x[y != 1]]
    >>> model = fedkin.FedCRef(random_state=0).fit(clients)
    >>> model.n_clusters_
    3
    """

    @checked_keywords
    def fit(
        self, X: Any, y: Any = None, *, initial_labels: Any = None, eval: Any = None,  # noqa: N803
        callbacks: Followers = (),
    ) -> Self:  # fmt: skip
        """Find the clusters, starting from the clients' own initial clusters if given.

        Parameters
        ----------
        X, y, eval, callbacks
            As for all estimators that cluster samples.
        initial_labels : sequence or dict of array-like of int, optional
            Initial clusters of each client, ``(n,)`` with values 0 or more; in order, or by name.

        Returns
        -------
        self

        Raises
        ------
        FedkinError
            A `ValueError`: if a client's data or a parameter cannot be used.
        """
        clients, names = self._clients(X, y)
        options = self._hyper_parameters()
        if initial_labels is not None:
            _give_labels(clients, initial_labels, options["initial"], names)
        if isinstance(options["n_clusters"], list | tuple | np.ndarray):
            _give_counts(clients, options["n_clusters"])
            options["n_clusters"] = "given"
        self._fitted(clients, names, options, eval, callbacks)
        self.communities_ = [[tuple(node) for node in members] for members in self.result_["communities"]]
        return self


def _give_labels(clients: Sequence[Client], labels: Any, initial: str, names: Sequence[str]) -> None:
    """Set the clients' own initial clusters, renumbered 0..k-1."""
    if initial not in ("auto", "given"):
        raise FedkinError(f"initial_labels would be ignored with initial='{initial}'; leave it at 'auto'.")
    if len(labels) != len(clients):
        raise FedkinError(f"initial_labels has {len(labels)} arrays for {len(clients)} clients; give one for each.")
    by_position = by_client(labels if isinstance(labels, Mapping) else dict(enumerate(labels)), names, "initial_labels")
    for client in clients:
        own = by_position[client.id]
        array = np.asarray(own)
        if array.shape != (len(client),) or array.dtype.kind not in "iu":
            raise FedkinError(
                f"initial_labels[{client.id}] is {array.dtype} of shape {array.shape}; "
                f"client {client.id} needs {len(client)} integers."
            )
        if array.min() < 0:
            raise FedkinError(f"initial_labels[{client.id}] holds {array.min()}; a sample's cluster is 0 or more.")
        client.state["given"] = torch.from_numpy(np.unique(array, return_inverse=True)[1].astype(np.int64))


def _give_counts(clients: Sequence[Client], counts: Any) -> None:
    """Set every client's own number of clusters."""
    if len(counts) != len(clients):
        raise FedkinError(f"n_clusters has {len(counts)} numbers for {len(clients)} clients; give one for each.")
    for client, count in zip(clients, counts, strict=True):
        if not isinstance(count, int | np.integer) or isinstance(count, bool) or count < 1:
            raise FedkinError(f"n_clusters[{client.id}] is {count!r}; it should be an integer of 1 or more.")
        client.state["n_clusters"] = torch.tensor(int(count))
