"""The estimator of kin-graph, whose features may be anything that turns samples into numbers."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self
from weakref import finalize

from numpy.typing import ArrayLike
from torch import Tensor, nn

from fedkin.core import FedkinError
from fedkin.estimators.sample_clusterer import LatentClusterer
from fedkin.estimators.torch_modules import Registered, label_of
from fedkin.features.extractors import forget, register
from fedkin.methods.samples.kingraph import kingraph

FeaturesOrName = str | nn.Module | Callable[[Tensor], Any]


class KinGraph(LatentClusterer, method=kingraph.KinGraphMethod):
    """Find the clusters across clients, and how many there are, by a graph of their small clusters.

    Nothing need be set. Each client sends sums of its samples' features, how neighbours differ, and means and sizes of
    many small clusters. See `fedkin.methods.samples.kingraph.kingraph.KinGraphMethod` for all parameters. The most useful
    ones:

    Parameters
    ----------
    n_clusters : int or "auto"
        Clusters to find; "auto" finds out how many there are.
    features : str, torch.nn.Module or callable
        What samples are compared by: a name of `fedkin.features.extractors`; "auto", which is "gradients" for images and
        the columns themselves for tables; or a trained module or function that turns float32 ``(n, *shape)`` into ``(n,
        width)``, such as `transform` of another estimator. Every fit copies a module as it is then, and uses it in
        evaluation mode. They are given scaled samples: with `transform` of one that scales by itself, set `scaling` to
        "none".
    micro_clusters, min_members : int
        Most small clusters of a client, and least samples in one: 5, and where samples are few, far more is found with 2
        or 1, if so little cover will do.
    broadcast_nodes : bool or "auto"
        Whether all clients are told all small clusters, and the nearest vote on each sample; "auto" if these are few.
    epsilon : float or None
        Differential privacy of all that leaves a client. It takes many samples; see the method.
    scaling : {"auto", "standard", "none"}
        "auto" leaves data in [0, 1] alone and standardises others with statistics that clients send.
    random_state : int, RandomState or None
        Same number, same result.
    verbose : bool
        Show progress on stderr.

    Attributes
    ----------
    labels_ : list of int64 arrays
        One per client: the cluster of every sample.
    n_clusters_ : int
        Number of clusters found.
    result_ : dict
        Among others ``centroids`` ``(m, d)``, ``counts`` and ``clusters`` ``(m,)`` of the graph's nodes.
    history_ : list of dict
        Three entries: what was found of the components, of differences and of the graph, with the bytes that crossed.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> import fedkin
    >>> x, y = make_blobs([60, 60, 60], n_features=8, random_state=0)
    >>> clients = [x[y != 2], x[y != 0], x[y != 1]]
    >>> model = fedkin.KinGraph(random_state=0).fit(clients)
    >>> model.n_clusters_
    3
    """

    _kinds: ClassVar[dict[str, Any]] = {"features": FeaturesOrName}

    def fit(self, X: Sequence[ArrayLike], y: object = None) -> Self:  # noqa: N803
        """As of all estimators; warns (`UserWarning`) if there are too few small clusters to tell clusters apart."""
        clients, columns = self._clients(X)
        extractor = extractor_of(self.features)
        options = self._hyper_parameters()
        if extractor is not None:
            options["features"] = extractor.name
        self._fitted(clients, columns, options)
        self._extractor = extractor
        for entry in self.history_:
            if "warning" in entry:
                warnings.warn(entry["warning"], stacklevel=2)
        return self

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        extractor = getattr(self, "_extractor", None)
        if extractor is not None:  # it may have another name here
            self.result_["space"]["features"] = extractor.name


class GivenFeatures(Registered):
    """A module or a function that was given, as a name of `fedkin.features.extractors.extract`.

    Parameters
    ----------
    label : str
        See `Registered`.
    function : callable
        From samples to their features.
    """

    def __init__(self, label: str, function: Callable[[Tensor], Any]) -> None:
        super().__init__(label)
        self.function = function
        register(self.name, function)
        finalize(self, forget, self.name)

    def __reduce__(self) -> tuple[Any, ...]:
        return GivenFeatures, (self.label, self.function)


def extractor_of(given: FeaturesOrName) -> GivenFeatures | None:
    """What `given` is registered as, anew at every call, for a module may have been trained since the last.

    Returns
    -------
    Extractor or None
        ``None`` for a name.

    Raises
    ------
    FedkinError
        If it is something else, or a module that cannot be copied.
    """
    if isinstance(given, str):
        return None
    if not callable(given):
        raise FedkinError(f"features is {given!r}; it should be a name, a dotted path, a torch module or a function.")
    return GivenFeatures(label_of(given), _copied(given) if isinstance(given, nn.Module) else given)


def _copied(module: nn.Module) -> nn.Module:
    try:
        return copy.deepcopy(module).eval()
    except RuntimeError as error:
        raise FedkinError(
            f"The module given as features ({type(module).__name__}) cannot be copied: {str(error).splitlines()[0]}"
        ) from error
