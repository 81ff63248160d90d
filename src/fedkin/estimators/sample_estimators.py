"""Estimators that cluster samples, one for each method."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from fedkin.core import Client, FedkinError
from fedkin.core.seeds import derive_generator
from fedkin.estimators.estimator import FitOutcome
from fedkin.estimators.given_clusters import give_counts, give_labels
from fedkin.estimators.sample_clusterer import LatentClusterer, SampleClusterer
from fedkin.estimators.torch_modules import FeaturesOrName, extractor_of
from fedkin.experiment.config import checked_method
from fedkin.methods.samples import ffcm, kfed, ppfc_gan, sda_fc, uifca
from fedkin.methods.samples.ccfc import ccfc
from fedkin.methods.samples.fedcref import fedcref
from fedkin.methods.samples.kingraph import kingraph
from fedkin.methods.samples.kingraph.kingraph_tasks import Votes, clusters_again, nodes_of_samples


class FedCRef(SampleClusterer, method=fedcref.FedCRefMethod):
    """Find the clusters across clients, and how many there are (FedCRef; Nardi, Valerio, Passarella).

    `predict` gives a sample the cluster whose model reconstructs it best. Samples of `fit` may get another one than in
    `labels_`, for there a client chooses among fewer models.

    `n_clusters` may also be a list with the number of local clusters of each client.

    Attributes
    ----------
    communities_ : list of lists of (client, cluster)
        The local clusters in each cluster.
    history_ : list of dict
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
        clients, names = self._clients(X)
        options = self._hyper_parameters()
        if labels is not None:
            give_labels(clients, labels, options["initial"])
        if isinstance(options["n_clusters"], list | tuple | np.ndarray):
            give_counts(clients, options["n_clusters"])
            options["n_clusters"] = "given"
        self._fitted(clients, names, options)
        self.communities_ = [[tuple(node) for node in members] for members in self.result_["communities"]]
        return self


class KinGraph(LatentClusterer, method=kingraph.KinGraphMethod):
    """Find the clusters across clients, and how many there are, by a graph of their micro-clusters.

    Nothing need be set. Each client sends sums of its samples' features, how neighbours differ, and means and sizes of
    many micro-clusters.

    `features` may also be a trained module or a function that turns float32 ``(n, *shape)`` into ``(n, width)``, as
    `transform` of another estimator does. Every fit copies a module, and uses the copy in evaluation mode. Samples
    are scaled first: with `transform` of an estimator that scales by itself, set `scaling` to "none".

    Attributes
    ----------
    scales_ : list of dict
        Coarser and finer clusters of the same graph, those with fewest clusters first: ``n_clusters``, lowest and
        highest of the ``resolutions``, ``stability``, ``samples`` of each cluster, ``parents`` among the clusters of
        the entry before, and whether these are ``chosen``. ``pandas.DataFrame(model.scales_)`` is a table of them.
    result_ : dict
        Among others ``centroids`` ``(m, d)``, ``counts`` and ``clusters`` ``(m,)`` of the graph's nodes.
    history_ : list of dict
        Three entries: on components, on differences and on the graph, with the bytes sent and received.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> import fedkin
    >>> x, y = make_blobs([60, 60, 60], n_features=8, random_state=0)
    >>> clients = [x[y != 2], x[y != 0], x[y != 1]]
    >>> model = fedkin.KinGraph(random_state=0).fit(clients)
    >>> model.n_clusters_
    3
    >>> model.cut(2).n_clusters_
    2
    """

    _kinds: ClassVar[dict[str, Any]] = {"features": FeaturesOrName}
    _graph: Any
    _memories: list[Votes]

    def fit(self, X: Sequence[ArrayLike], y: object = None) -> Self:  # noqa: N803
        """As of all estimators; warns (`UserWarning`) if there are too few micro-clusters to find clusters."""
        clients, names = self._clients(X)
        extractor = extractor_of(self.features)
        options = self._hyper_parameters()
        if extractor is not None:
            options["features"] = extractor.name
        self._fitted(clients, names, options)
        self._extractor = extractor
        for entry in self.history_:
            if "warning" in entry:
                warnings.warn(entry["warning"], stacklevel=2)
        return self

    def cut(self, n_clusters: int | None = None, *, resolution: float | None = None) -> KinGraph:
        """Cut the graph again, coarser or finer; clients are asked for nothing.

        Parameters
        ----------
        n_clusters : int, optional
            Clusters to find, at least 1.
        resolution : float, optional
            Resolution of the clusters instead of their number, greater than 0.

        Returns
        -------
        KinGraph
            A fitted copy with these parameters, whose labels are those of a fit with the same `random_state`. It cannot
            `describe` its clusters, since clients describe those of `fit`.

        Raises
        ------
        FedkinError
            If not one of both is given, or it is out of range.
        """
        check_is_fitted(self, "result_")
        if (n_clusters is None) == (resolution is None):
            raise FedkinError("Give either n_clusters or resolution.")
        cut = copy.copy(self)
        cut.set_params(n_clusters=n_clusters or "auto", resolution=resolution or "auto")
        return cut._cut_again({"n_clusters": n_clusters, "resolution": resolution})

    def _cut_again(self, wanted: Mapping[str, Any]) -> KinGraph:
        given = {name: value for name, value in wanted.items() if value is not None}
        extractor = {} if self._extractor is None else {"features": self._extractor.name}
        method: Any = checked_method(self._method, {**self._hyper_parameters(), **given, **extractor})
        state, values = method.clusters_of(self._graph, self._cut_rng())
        self.result_ = {**method.result(state), "space": self.result_["space"]}
        self.n_clusters_, self.scales_ = self.result_["n_clusters"], self.result_["scales"]
        self.history_ = [*self.history_[:-1], {**self.history_[-1], **values}]
        self.labels_ = [clusters_again(memory, self.result_).numpy() for memory in self._memories]
        self._profile = None
        return self

    def _cut_rng(self) -> torch.Generator:
        """As the server's when it cut the graph."""
        return derive_generator(self._seed, "server", "communities")

    def _remember(self, outcome: FitOutcome, clients: Sequence[Client], names: Sequence[str]) -> None:
        super()._remember(outcome, clients, names)
        self.scales_ = outcome.result["scales"]
        self._seed, self._graph = outcome.seed, outcome.state
        self._memories = [nodes_of_samples(client, self._graph.own) for client in clients]

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        extractor = getattr(self, "_extractor", None)
        if extractor is not None:  # it may have another name here
            self.result_["space"]["features"] = extractor.name


class KFed(SampleClusterer, method=kfed.KFedMethod):
    """Cluster every client's samples, and the clients' centres; one round (k-FED; Dennis, Li, Smith 2021).

    Attributes
    ----------
    result_ : dict
        ``centroids`` ``(n_clusters_, width)`` and the ``features`` they are of.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> import fedkin
    >>> x, y = make_blobs([60, 60, 60], n_features=8, random_state=0)
    >>> clients = [x[y != 2], x[y != 0], x[y != 1]]
    >>> model = fedkin.KFed(n_clusters=3, local_clusters=2, random_state=0).fit(clients)
    >>> [len(set(labels)) for labels in model.labels_]
    [2, 2, 2]
    """


class FFCM(SampleClusterer, method=ffcm.FFCMMethod):
    """Fuzzy c-means at every client, round after round from common centres (FFCM; Stallmann and Wilbik 2022).

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> import fedkin
    >>> x, y = make_blobs([60, 60, 60], n_features=8, random_state=0)
    >>> clients = [x[0::2], x[1::2]]
    >>> model = fedkin.FFCM(n_clusters=3, random_state=0).fit(clients)
    >>> model.n_clusters_
    3
    """


class UIFCA(LatentClusterer, method=uifca.UIFCAMethod):
    """Let samples choose among normalising flows that all clients train together (Chung, Lee, Ramchandran 2022).

    Attributes
    ----------
    result_ : dict
        The flows, ``models`` ``(n_clusters_, size)``, and what they take.
    history_ : list of dict
        One entry per round: samples in each cluster, how many samples moved, loss, bytes sent and received.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> import fedkin
    >>> x, y = make_blobs([60, 60, 60], n_features=8, random_state=0)
    >>> clients = [x[y != 2], x[y != 0], x[y != 1]]
    >>> small = dict(cluster_rounds=2, rounds=1, local_steps=20, learning_rate=0.01, width=16)
    >>> model = fedkin.UIFCA(n_clusters=3, **small, random_state=0).fit(clients)
    >>> [len(set(labels)) for labels in model.labels_]
    [2, 2, 2]
    """


class SDAFC(SampleClusterer, method=sda_fc.SDAFCMethod):
    """k-means or fuzzy c-means of synthetic samples from each client's generative network (SDA-FC; Yan et al. 2024).

    **Synthetic samples leave the clients, and can resemble or repeat real ones.** If no copies of samples may
    leave a client, use another method.

    Attributes
    ----------
    result_ : dict
        ``centroids`` ``(n_clusters_, width)`` and the ``features`` they are of.
    history_ : list of dict
        One entry per epoch, with the networks' losses, and one for the synthesis.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> import fedkin
    >>> x, y = make_blobs([60, 60, 60], n_features=8, random_state=0)
    >>> clients = [x[y != 2], x[y != 0], x[y != 1]]
    >>> model = fedkin.SDAFC(n_clusters=3, epochs=10, random_state=0).fit(clients)
    >>> model.n_clusters_
    3
    """


class PPFCGAN(LatentClusterer, method=ppfc_gan.PPFCGANMethod):
    """A deep clustering network of synthetic samples from each client's generative network (PPFC-GAN; Yan et al. 2022).

    **Synthetic samples leave the clients, and can resemble or repeat real ones.** If no copies of samples may
    leave a client, use another method.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> import fedkin
    >>> x, y = make_blobs([60, 60, 60], n_features=8, random_state=0)
    >>> clients = [x[y != 2], x[y != 0], x[y != 1]]
    >>> options = {"epochs": 10, "pretrain_epochs": 10, "cluster_epochs": 10}
    >>> model = fedkin.PPFCGAN(n_clusters=3, random_state=0, **options).fit(clients)
    >>> model.n_clusters_
    3
    """


class CCFC(LatentClusterer, method=ccfc.CCFCMethod):
    """Train a contrastive network together, by views of a sample and then by clusters (CCFC; Liu, Yan, Zhang 2024).

    Attributes
    ----------
    n_clusters_ : int
        Number of clusters; with ``standalone=True`` those of all clients together.
    result_ : dict
        The network, its ``models``, and the ``centroids`` of what it makes of samples.
    history_ : list of dict
        One entry per round: phase, loss, bytes sent and received.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> import fedkin
    >>> x, y = make_blobs([60, 60, 60], n_features=8, random_state=0)
    >>> clients = [x[y != 2], x[y != 0], x[y != 1]]
    >>> small = dict(pretrain_rounds=4, cluster_rounds=2, batch_size=32, latent=16, projector_units=32)
    >>> model = fedkin.CCFC(n_clusters=3, **small, random_state=0).fit(clients)
    >>> model.n_clusters_
    3
    """


class SCFC(LatentClusterer, method=ccfc.SCFCMethod):
    """Train a network together by views of a sample alone, then cluster (section 4.4 of CCFC; Liu, Yan, Zhang 2024).

    The attributes are those of `CCFC`; `cluster_rounds` is 0.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> import fedkin
    >>> x, y = make_blobs([60, 60, 60], n_features=8, random_state=0)
    >>> small = dict(pretrain_rounds=4, batch_size=32, latent=16, projector_units=32)
    >>> model = fedkin.SCFC(n_clusters=3, **small, random_state=0).fit([x[0::2], x[1::2]])
    >>> model.n_clusters_
    3
    """
