"""Methods in scikit-learn's clothes: ``fit`` takes a list of sites instead of one table.

An estimator's parameters are its method's hyper-parameters, with the same names and defaults, plus `random_state` and
`scaling`. A new method needs three lines here.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from fedkin.config import checked_method
from fedkin.core import Client, FedkinError, Method
from fedkin.data.arrays import as_tensor
from fedkin.data.scaling import scale
from fedkin.data.scenario import Sites
from fedkin.engines.local import LocalFederation
from fedkin.methods.federated_clustering import fedcref

Groups = NDArray[np.int64]


class SiteClusterer(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Base of estimators that cluster the samples of several sites."""

    _method: ClassVar[type[Any]]

    def __init_subclass__(cls, method: type[Any], **more: Any) -> None:
        """Give the estimator the hyper-parameters of `method`, a method's dataclass, as its own."""
        super().__init_subclass__(**more)
        cls._method = method
        own = [f for f in dataclasses.fields(method) if f.name != "oracle"]
        parameters = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
        parameters += [_keyword(field.name, field.default) for field in own]
        parameters += [_keyword("scaling", "auto"), _keyword("random_state", None)]
        defaults = {p.name: p.default for p in parameters[1:]}

        def initialise(self: SiteClusterer, **options: Any) -> None:
            for name in options:
                if name not in defaults:
                    raise TypeError(f"{cls.__name__} has no parameter '{name}'.")
            self.__dict__.update(defaults | options)

        initialise.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        cls.__init__ = initialise  # type: ignore[assignment]

    def fit(self, X: Sequence[ArrayLike], y: object = None, *, labels: Sequence[ArrayLike] | None = None) -> Self:  # noqa: N803
        """Find the groups.

        Parameters
        ----------
        X : sequence of array-like
            One array, tensor or DataFrame per site; rows are samples, ``(n, features)`` or images
            ``(n, height, width)`` or ``(n, channels, height, width)``. All numbers must be finite.
        y : ignored
        labels : sequence of array-like of int, optional
            Each site's own first clusters, ``(n,)`` with values 0 or more, to start from.

        Returns
        -------
        self

        Raises
        ------
        FedkinError
            A `ValueError`: if a site's data or a parameter cannot be used.
        """
        clients = Sites(_listed(X)).build().clients
        if labels is not None:
            _bring(clients, labels)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        fed = LocalFederation(clients, seed)
        method = self._checked_method(clients)
        self.n_features_in_ = clients[0].x[0].numel()
        self.scaling_ = scale(fed, self.scaling)
        self.history_: list[dict[str, Any]] = []
        state = method.init(fed)
        while not state.finished:
            state, record = method.step(fed, state)
            traffic = {"sent": fed.traffic.sent, "received": fed.traffic.received}
            self.history_.append({"step": state.steps, **record.values, **traffic})
        self.result_ = method.result(state)
        self.labels_ = [client.state["groups"].numpy() for client in clients]
        self.n_clusters_ = int(self.result_["n_groups"])
        self.communities_ = [[tuple(node) for node in members] for members in self.result_["communities"]]
        return self

    def predict(self, X: ArrayLike | Sequence[ArrayLike]) -> Groups | list[Groups]:  # noqa: N803
        """Group of new samples: an int64 array ``(n,)`` for one array of samples, a list of them for a list of sites.

        Raises
        ------
        FedkinError
            If the samples cannot be used or have another shape than those of `fit`.
        """
        check_is_fitted(self, "result_")
        if isinstance(X, list | tuple) and len(X) and np.ndim(X[0]) > 1:
            return [self._predict_site(x, f"Site {i}") for i, x in enumerate(X)]
        return self._predict_site(X, "The data to predict")

    def _predict_site(self, x: Any, where: str) -> Groups:
        groups: Groups = self._method.predict(self.result_, self.scaling_.apply(as_tensor(x, where))).numpy()
        return groups

    def _checked_method(self, clients: Sequence[Client]) -> Method[Any]:
        options = {name: value for name, value in self.get_params().items() if name not in ("scaling", "random_state")}
        counts = options.get("n_clusters")
        if isinstance(counts, Sequence) and not isinstance(counts, str):
            if len(counts) != len(clients):
                raise FedkinError(f"n_clusters has {len(counts)} numbers for {len(clients)} sites; give one for each.")
            for client, count in zip(clients, counts, strict=True):
                client.state["n_groups"] = torch.tensor(int(count))
            options["n_clusters"] = "given"
        method: Method[Any] = checked_method(self._method, options)
        return method

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        return tags


class FedCRef(SiteClusterer, method=fedcref.FedCRef):
    """Find the groups across sites, and how many there are (FedCRef; Nardi, Valerio, Passarella).

    Every parameter has a default that works; see `fedkin.methods.federated_clustering.fedcref.FedCRef` for them all.
    The most useful ones:

    Parameters
    ----------
    n_clusters : int, list of int or "auto"
        Local clusters of every site, or of each; "auto" lets sites estimate. The number of groups is always found.
    initial : {"auto", "embedding", "kmeans", "dec", "given"}
        How sites make their first clusters; "auto" starts from the `labels` given to `fit`, else "embedding".
    local_epochs, rounds : int
        Training of clusters' own models, and rounds of federated averaging for each community.
    scaling : {"auto", "standard", "none"}
        "auto" leaves data in [0, 1] alone and standardises others with statistics that sites send.
    random_state : int, RandomState or None
        Same number, same result.

    Attributes
    ----------
    labels_ : list of int64 arrays
        One per site: the global group of every sample.
    n_clusters_ : int
        Number of groups found.
    communities_ : list of lists of (site, cluster)
        The local clusters in each group.
    history_ : list of dict
        One entry per iteration: communities, isolated clusters, bytes sent and received, and so on.
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> import fedkin
    >>> x, y = make_blobs([60, 60, 60], n_features=8, random_state=0)
    >>> sites = [x[y != 2], x[y != 0], x[y != 1]]
    >>> model = fedkin.FedCRef(random_state=0).fit(sites)
    >>> model.n_clusters_
    3
    """


def _keyword(name: str, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)


def _listed(sites: Any) -> list[Any]:
    """`sites` as a list of one array per site; a single table is an easy mistake and gets a sentence of its own."""
    is_array = not isinstance(sites, list | tuple)
    if (is_array and np.ndim(sites) <= 2) or any(np.ndim(site) < 2 for site in sites):
        raise FedkinError("fit takes a list with one array per site, each (n, features) or images; got a single table.")
    return list(sites)


def _bring(clients: Sequence[Client], labels: Sequence[ArrayLike]) -> None:
    """Hand the sites their own first clusters, numbered 0..k-1."""
    if len(labels) != len(clients):
        raise FedkinError(f"labels has {len(labels)} arrays for {len(clients)} sites; give one for each.")
    for client, own in zip(clients, labels, strict=True):
        array = np.asarray(own)
        if array.shape != (len(client),) or array.dtype.kind not in "iu":
            raise FedkinError(
                f"labels[{client.id}] is {array.dtype} of shape {array.shape}; "
                f"site {client.id} needs {len(client)} integers."
            )
        client.state["given"] = torch.from_numpy(np.unique(array, return_inverse=True)[1].astype(np.int64))
