"""Methods in scikit-learn's clothes: ``fit`` takes a list of sites instead of one table.

An estimator's parameters are its method's hyper-parameters, with the same names and defaults, plus `scaling`,
`random_state` and `verbose`. A new method needs three lines and a docstring here.
"""

from __future__ import annotations

import dataclasses
import inspect
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_type_hints

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
from fedkin.engines.local import LocalFederation, one_thread
from fedkin.methods.federated_clustering import fedcref
from fedkin.terminal import Bar, Quiet

Groups = NDArray[np.int64]

_OWN = {
    "scaling": (Literal["auto", "standard", "none"], "auto"),
    "random_state": (int | np.random.RandomState | None, None),
    "verbose": (bool, False),
}
"""Parameters every estimator has: types and defaults."""


def _initialiser(name: str, method: type[Any]) -> Any:
    """An ``__init__`` with keywords for the fields of `method` that a user can give, types and defaults included."""
    kinds = get_type_hints(method)
    known = {f.name: (kinds[f.name], f.default) for f in dataclasses.fields(method) if f.name != "oracle"} | _OWN
    defaults = {parameter: default for parameter, (_, default) in known.items()}

    def __init__(self: Any, **options: Any) -> None:  # noqa: N807
        for option in options:
            if option not in defaults:
                raise TypeError(f"{name} has no parameter '{option}'; it has {', '.join(sorted(defaults))}.")
        vars(self).update(defaults | options)

    keywords = [
        inspect.Parameter(parameter, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for parameter, (kind, default) in known.items()
    ]
    myself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    __init__.__signature__ = inspect.Signature([myself, *keywords], return_annotation=None)  # type: ignore[attr-defined]
    __init__.__qualname__ = f"{name}.__init__"
    return __init__


class SiteClusterer(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Base of estimators that cluster the samples of several sites."""

    _method: ClassVar[type[Any]]

    if TYPE_CHECKING:  # what a type checker cannot see: `__init_subclass__` makes the real one

        def __init__(self, **parameters: Any) -> None: ...

    def __init_subclass__(cls, method: type[Any] | None = None, **more: Any) -> None:
        """Give the estimator the hyper-parameters of `method`, a method's dataclass, as its own."""
        super().__init_subclass__(**more)
        if method:
            cls._method = method
            cls.__init__ = _initialiser(cls.__name__, method)  # type: ignore[method-assign]

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
        sites = _listed(X)
        columns = _columns(sites)
        clients = Sites(sites).build().clients
        if labels is not None:
            _bring(clients, labels, self.get_params().get("initial", "given"))
        method = self._checked_method(clients)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        history: list[dict[str, Any]] = []
        with one_thread(), Bar() if self.verbose else Quiet() as progress:
            fed = LocalFederation(clients, seed, on_progress=progress.part)
            scaling = scale(fed, self.scaling)
            state = method.init(fed)
            while not state.finished:
                progress.phase(f"Step {state.steps + 1}")
                began = time.perf_counter()
                state, record = method.step(fed, state)
                traffic = {"sent": fed.traffic.sent, "received": fed.traffic.received}
                history.append({"step": state.steps, **record.values, **traffic})
                line = {"step": state.steps, "values": record.values, "metrics": {}}
                progress.step(line, time.perf_counter() - began)
        self.history_ = history
        self.scaling_ = scaling
        self.result_ = method.result(state)
        self.labels_ = [client.state["groups"].numpy() for client in clients]
        self.n_clusters_ = int(self.result_["n_groups"])
        self.communities_ = [[tuple(node) for node in members] for members in self.result_["communities"]]
        self.n_features_in_ = clients[0].x[0].numel()
        self.__dict__.pop("feature_names_in_", None)
        if columns:
            self.feature_names_in_ = np.array(columns, dtype=object)
        return self

    def predict(self, X: ArrayLike | Sequence[ArrayLike]) -> Groups | list[Groups]:  # noqa: N803
        """Group of new samples: an int64 array ``(n,)`` for one array of samples, a list of them for a list of sites.

        A sample gets the group whose model reconstructs it best. Samples of `fit` may get another one than in
        `labels_`, for there a site chooses among fewer models.

        Raises
        ------
        FedkinError
            If the samples cannot be used or differ in shape or columns from those of `fit`.
        """
        check_is_fitted(self, "result_")
        if isinstance(X, list | tuple) and len(X) and _dimensions(X[0]) > 1:
            return [self._predict_site(x, f"Site {i}") for i, x in enumerate(X)]
        return self._predict_site(X, "The data to predict")

    def _predict_site(self, x: Any, where: str) -> Groups:
        known, given = getattr(self, "feature_names_in_", None), _column_names(x)
        if known is not None and given:
            _check_columns(given, list(known), where, "the sites in fit")
        groups: Groups = self._method.predict(self.result_, self.scaling_.apply(as_tensor(x, where))).numpy()
        return groups

    def _checked_method(self, clients: Sequence[Client]) -> Method[Any]:
        options = {name: value for name, value in self.get_params().items() if name not in _OWN}
        counts = options.get("n_clusters")
        if isinstance(counts, list | tuple | np.ndarray):
            _bring_counts(clients, counts)
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
        How a site makes its first clusters; "auto" takes those given to `fit`, else "embedding".
    local_epochs : int
        Epochs of each local cluster's own model. More may find finer differences, and takes longer.
    stability : float
        Share of its samples that must keep their cluster before a site rests. Lower ends sooner.
    max_iterations : int
        Most iterations, should the sites not settle before.
    scaling : {"auto", "standard", "none"}
        "auto" leaves data in [0, 1] alone and standardises others with statistics that sites send.
    random_state : int, RandomState or None
        Same number, same result.
    verbose : bool
        Show progress on stderr.

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
        Numbers per sample.
    feature_names_in_ : array of str
        Columns, if the sites are DataFrames whose column names are strings.

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


def _listed(sites: Any) -> list[Any]:
    """`sites` as a list of one array per site; a single table is an easy mistake and gets a sentence of its own."""
    is_list = isinstance(sites, list | tuple)
    if (not is_list and _dimensions(sites) <= 2) or any(_dimensions(site) < 2 for site in sites):
        raise FedkinError("fit takes a list with one array per site, each (n, features) or images; got a single table.")
    return list(sites)


def _dimensions(value: Any) -> int:
    try:
        return np.ndim(value)
    except ValueError:  # ragged; `as_tensor` has the sentence for it
        return 2


def _columns(sites: Sequence[Any]) -> list[str]:
    """The columns that all DataFrames among the sites share, or an empty list."""
    named = [(f"Site {i}", names) for i, site in enumerate(sites) if (names := _column_names(site))]
    for where, names in named:
        _check_columns(names, named[0][1], where, named[0][0])
    return named[0][1] if named else []


def _column_names(x: Any) -> list[str]:
    names = list(getattr(x, "columns", []))
    return names if all(isinstance(name, str) for name in names) else []


def _check_columns(names: list[str], expected: list[str], where: str, others: str) -> None:
    for name, other in zip(names, expected, strict=False):  # another number of columns is told with the shapes
        if name != other:
            raise FedkinError(
                f"{where} has column '{name}' where {others} had '{other}'; give the same columns in the same order."
            )


def _bring(clients: Sequence[Client], labels: Sequence[ArrayLike], initial: str) -> None:
    """Hand the sites their own first clusters, numbered 0..k-1."""
    if initial not in ("auto", "given"):
        raise FedkinError(f"labels would be ignored with initial='{initial}'; leave it at 'auto'.")
    if len(labels) != len(clients):
        raise FedkinError(f"labels has {len(labels)} arrays for {len(clients)} sites; give one for each.")
    for client, own in zip(clients, labels, strict=True):
        array = np.asarray(own)
        if array.shape != (len(client),) or array.dtype.kind not in "iu":
            raise FedkinError(
                f"labels[{client.id}] is {array.dtype} of shape {array.shape}; "
                f"site {client.id} needs {len(client)} integers."
            )
        if array.min() < 0:
            raise FedkinError(f"labels[{client.id}] holds {array.min()}; every sample needs a cluster, 0 or more.")
        client.state["given"] = torch.from_numpy(np.unique(array, return_inverse=True)[1].astype(np.int64))


def _bring_counts(clients: Sequence[Client], counts: Any) -> None:
    """Hand every site its own number of clusters."""
    if len(counts) != len(clients):
        raise FedkinError(f"n_clusters has {len(counts)} numbers for {len(clients)} sites; give one for each.")
    for client, count in zip(clients, counts, strict=True):
        if not isinstance(count, int | np.integer) or isinstance(count, bool) or count < 1:
            raise FedkinError(f"n_clusters[{client.id}] is {count!r}; it should be an integer of 1 or more.")
        client.state["n_groups"] = torch.tensor(int(count))
