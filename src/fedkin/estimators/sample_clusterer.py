"""Estimators that cluster samples: ``fit`` takes a list of clients, without labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClusterMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from fedkin.core import Client, FedkinError
from fedkin.data.reading.arrays import as_tensor
from fedkin.data.scenarios.label_skew import ClientFiles
from fedkin.estimators.estimator import Estimator, common_columns
from fedkin.methods.samples.fedcref import fedcref

LabelArray = NDArray[np.int64]
LatentArray = NDArray[np.float32]


class SampleClusterer(ClusterMixin, Estimator):  # type: ignore[misc]
    """Base of estimators that cluster the samples of several clients."""

    def fit(self, X: Sequence[ArrayLike], y: object = None) -> Self:  # noqa: N803
        """Find the clusters.

        Parameters
        ----------
        X : sequence of array-like
            One array, tensor or DataFrame per client; rows are samples, ``(n, features)`` or images
            ``(n, height, width)`` or ``(n, channels, height, width)``. All numbers must be finite.
        y : ignored

        Returns
        -------
        self

        Raises
        ------
        FedkinError
            A `ValueError`: if a client's data or a parameter cannot be used.
        """
        clients, columns = self._clients(X)
        return self._fitted(clients, columns, self._hyper_parameters())

    def _clients(self, sites: Any) -> tuple[list[Client], list[str]]:
        """The clients as clients, and their common columns."""
        listed = _listed(sites)
        columns = common_columns({f"Client {i}": site for i, site in enumerate(listed)})
        return ClientFiles(listed).build().clients, columns

    def _fitted(self, clients: list[Client], columns: list[str], options: dict[str, Any]) -> Self:
        outcome = self._run(clients, options)
        self._remember(outcome, clients, columns)
        self.labels_ = [client.state["clusters"].numpy() for client in clients]
        return self

    def predict(self, X: ArrayLike | Sequence[ArrayLike]) -> LabelArray | list[LabelArray]:  # noqa: N803
        """Cluster of new samples: an int64 array ``(n,)`` for one array of samples, a list of them for a list of clients.

        Raises
        ------
        FedkinError
            If the samples cannot be used or differ in shape or columns from those of `fit`.
        """
        clusters: LabelArray | list[LabelArray] = self._of_each(X, self._method.predict, "The data to predict")
        return clusters

    def _of_each(self, given: Any, function: Callable[[Any, Tensor], Tensor], where: str) -> Any:
        """What `function` makes of the result and samples, or of each client's samples."""
        check_is_fitted(self, "result_")
        if isinstance(given, list | tuple) and len(given) and _dimensions(given[0]) > 1:
            return [self._of_client(x, function, f"Client {i}") for i, x in enumerate(given)]
        return self._of_client(given, function, where)

    def _of_client(self, x: Any, function: Callable[[Any, Tensor], Tensor], where: str) -> NDArray[Any]:
        self._check_known_columns(x, where)
        samples = self.scaling_.apply(as_tensor(x, where))
        with self._on_device():
            return function(self.result_, samples).numpy()


class LatentClusterer(SampleClusterer):
    """Base of those whose clusters are found in a representation of their own making, which serves other ends as well."""

    def transform(self, X: ArrayLike | Sequence[ArrayLike]) -> LatentArray | list[LatentArray]:  # noqa: N803
        """The representation of samples in which clusters are found.

        A function that `KinGraph` takes as `features`, for one: ``KinGraph(features=model.transform)``.

        Returns
        -------
        array or list of array
            float32 ``(n, width)`` for one array of samples, a list of them for a list of clients.

        Raises
        ------
        FedkinError
            If the samples cannot be used or differ in shape or columns from those of `fit`.
        """
        latents: LatentArray | list[LatentArray] = self._of_each(X, self._method.embed, "The data to transform")
        return latents


class FedCRef(SampleClusterer, method=fedcref.FedCRefMethod):
    """Find the clusters across clients, and how many there are (FedCRef; Nardi, Valerio, Passarella).

    `predict` gives a sample the cluster whose model reconstructs it best. Samples of `fit` may get another one than in
    `labels_`, for there a client chooses among fewer models.

    Every parameter has a default that works; see `fedkin.methods.samples.fedcref.fedcref.FedCRefMethod` for them all.
    The most useful ones:

    Parameters
    ----------
    n_clusters : int, list of int or "auto"
        Local clusters of every client, or of each; "auto" lets clients estimate. The number of clusters is always found.
    initial : {"auto", "embedding", "kmeans", "dec", "given"}
        How a client makes its first clusters; "auto" takes those given to `fit`, else "embedding".
    local_epochs : int
        Epochs of each local cluster's own model. More may find finer differences, and takes longer.
    stability : float
        Share of its samples that must keep their cluster before a client rests. Lower ends sooner.
    max_iterations : int
        Most iterations, should the clients not settle before.
    scaling : {"auto", "standard", "none"}
        "auto" leaves data in [0, 1] alone and standardises others with statistics that clients send.
    random_state : int, RandomState or None
        Same number, same result.
    verbose : bool
        Show progress on stderr.

    Attributes
    ----------
    labels_ : list of int64 arrays
        One per client: the global cluster of every sample.
    n_clusters_ : int
        Number of clusters found.
    communities_ : list of lists of (client, cluster)
        The local clusters in each cluster.
    history_ : list of dict
        One entry per iteration: communities, unmatched clusters, bytes sent and received, and so on.
    n_features_in_ : int
        Numbers per sample.
    feature_names_in_ : array of str
        Columns, if the clients are DataFrames whose column names are strings.

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

    def fit(self, X: Sequence[ArrayLike], y: object = None, *, labels: Sequence[ArrayLike] | None = None) -> Self:  # noqa: N803
        """Find the clusters, from first clusters of the clients' own if they have any.

        Parameters
        ----------
        X : sequence of array-like
            One array, tensor or DataFrame per client; rows are samples, ``(n, features)`` or images
            ``(n, height, width)`` or ``(n, channels, height, width)``. All numbers must be finite.
        y : ignored
        labels : sequence of array-like of int, optional
            Each client's own first clusters, ``(n,)`` with values 0 or more, to start from.

        Returns
        -------
        self

        Raises
        ------
        FedkinError
            A `ValueError`: if a client's data or a parameter cannot be used.
        """
        clients, columns = self._clients(X)
        options = self._hyper_parameters()
        if labels is not None:
            _bring(clients, labels, options["initial"])
        if isinstance(options["n_clusters"], list | tuple | np.ndarray):
            _bring_counts(clients, options["n_clusters"])
            options["n_clusters"] = "given"
        self._fitted(clients, columns, options)
        self.communities_ = [[tuple(node) for node in members] for members in self.result_["communities"]]
        return self


def _listed(sites: Any) -> list[Any]:
    """`clients` as a list of one array per client; a single table is an easy mistake and gets a sentence of its own."""
    is_list = isinstance(sites, list | tuple)
    if (not is_list and _dimensions(sites) <= 2) or any(_dimensions(site) < 2 for site in sites):
        raise FedkinError(
            "fit takes a list with one array per client, each (n, features) or images; got a single table."
        )
    return list(sites)


def _dimensions(value: Any) -> int:
    try:
        return np.ndim(value)
    except ValueError:  # ragged; `as_tensor` has the sentence for it
        return 2


def _bring(clients: Sequence[Client], labels: Sequence[ArrayLike], initial: str) -> None:
    """Hand the clients their own first clusters, numbered 0..k-1."""
    if initial not in ("auto", "given"):
        raise FedkinError(f"labels would be ignored with initial='{initial}'; leave it at 'auto'.")
    if len(labels) != len(clients):
        raise FedkinError(f"labels has {len(labels)} arrays for {len(clients)} clients; give one for each.")
    for client, own in zip(clients, labels, strict=True):
        array = np.asarray(own)
        if array.shape != (len(client),) or array.dtype.kind not in "iu":
            raise FedkinError(
                f"labels[{client.id}] is {array.dtype} of shape {array.shape}; "
                f"client {client.id} needs {len(client)} integers."
            )
        if array.min() < 0:
            raise FedkinError(f"labels[{client.id}] holds {array.min()}; every sample needs a cluster, 0 or more.")
        client.state["given"] = torch.from_numpy(np.unique(array, return_inverse=True)[1].astype(np.int64))


def _bring_counts(clients: Sequence[Client], counts: Any) -> None:
    """Hand every client its own number of clusters."""
    if len(counts) != len(clients):
        raise FedkinError(f"n_clusters has {len(counts)} numbers for {len(clients)} clients; give one for each.")
    for client, count in zip(clients, counts, strict=True):
        if not isinstance(count, int | np.integer) or isinstance(count, bool) or count < 1:
            raise FedkinError(f"n_clusters[{client.id}] is {count!r}; it should be an integer of 1 or more.")
        client.state["n_clusters"] = torch.tensor(int(count))
