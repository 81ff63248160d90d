"""Estimators that cluster samples, one for each method; the last ones are centralised baselines."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Self, cast

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from fedkin.clustering.node_votes import Votes, counted, counted_shares
from fedkin.core import Client, FedkinError
from fedkin.core.aliases import checked_keywords
from fedkin.core.errors import FedkinWarning
from fedkin.core.method import ServerData
from fedkin.core.progress import Followers
from fedkin.core.seeds import derive_generator
from fedkin.data.inputs import client_input
from fedkin.data.preparation import Preparation
from fedkin.engines.local import LocalFederation, one_thread
from fedkin.estimators.clients import ByClient
from fedkin.estimators.estimator import FitOutcome, prepared_samples
from fedkin.estimators.fitting import by_client
from fedkin.estimators.sample_clusterer import LatentClusterer, SampleClusterer
from fedkin.methods.samples import afcl, centralized, dec, feddp_kmeans, ffcm, kfed, mufc, ppfc_gan, sda_fc, uifca
from fedkin.methods.samples.ccfc import ccfc
from fedkin.methods.samples.fedcref import fedcref
from fedkin.methods.samples.kingraph import kingraph
from fedkin.methods.samples.kingraph.kingraph_space import nodes_of_samples


class KFed(SampleClusterer, method=kfed.KFedMethod):
    """Cluster every client's samples, then the clients' centres, in one round (k-FED; Dennis, Li, Smith 2021).

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


class FedDPKMeans(SampleClusterer, method=feddp_kmeans.FedDPKMeansMethod):
    """Differentially private k-means, initialised by the server's samples (FedDP-KMeans; Scott, Lampert, Saulpic 2025).

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> import fedkin
    >>> x, y = make_blobs(6300, centers=[[0.2, 0.2], [0.8, 0.2], [0.5, 0.8]], cluster_std=0.05, random_state=0)
    >>> model = fedkin.FedDPKMeans(n_clusters=3, epsilon=4.0, random_state=0)
    >>> model = model.fit([x[300:3300], x[3300:]], y=[y[300:3300], y[3300:]], server_data=x[:300])
    >>> round(model.score([(x[300:3300], y[300:3300])]), 1)
    1.0
    """

    @checked_keywords
    def fit(
        self, X: Any, y: Any = None, *, server_data: Any = None, eval: Any = None,  # noqa: N803
        callbacks: Followers = (),
    ) -> Self:  # fmt: skip
        """Find the clusters, initialised by samples of the server, if any.

        Parameters
        ----------
        X, y, eval, callbacks
            As for all estimators that cluster samples.
        server_data : array-like or DataFrame, optional
            Samples that the server has, as a client's in `X`, in place of the parameter `server_data`; they are
            prepared as the clients' are, and labels in them are ignored.

        Returns
        -------
        self

        Raises
        ------
        FedkinError
            A `ValueError`: if a client's data, the server's or a parameter cannot be used.
        """
        clients, names = self._clients(X, y)
        options = self._hyper_parameters()
        self._given = server_data
        if server_data is not None:
            options["server_data"] = "server_data of fit"
        try:
            return self._fitted(clients, names, options, eval, callbacks)
        finally:
            del self._given

    def _own_data(self, preparation: Preparation) -> ServerData:
        if self._given is None:
            return super()._own_data(preparation)
        given = client_input(self._given, "server_data")
        return lambda _: prepared_samples(preparation, given, "server_data", self._read.label)


class AFCL(SampleClusterer, method=afcl.AFCLMethod):
    """Cluster samples by seeds that merge until their number is that of the clusters (AFCL; Zhang et al. 2025).

    Attributes
    ----------
    records_ : list of dict
        One entry per round: clusters so far, distance that seeds moved, bytes sent and received.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> import fedkin
    >>> x, y = make_blobs([60, 60, 60], n_features=8, random_state=0)
    >>> clients = [x[y != 2], x[y != 0], x[y != 1]]
    >>> model = fedkin.AFCL(seeds=3, random_state=0).fit(clients)
    >>> model.n_clusters_
    3
    """


class FFCM(SampleClusterer, method=ffcm.FFCMMethod):
    """Federated fuzzy c-means: local updates of common centres, round after round (FFCM; Stallmann and Wilbik 2022).

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
    """Cluster samples by normalising flows, each the model of one cluster (UIFCA; Chung, Lee, Ramchandran 2022).

    Attributes
    ----------
    result_ : dict
        The flows, ``models`` ``(n_clusters_, size)``, and what they take.
    records_ : list of dict
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
    """Cluster synthetic samples of each client's generative network by k-means or FCM (SDA-FC; Yan et al. 2024).

    **Synthetic samples leave the clients, and can resemble or repeat real ones.** If no copies of samples may
    leave a client, use another method.

    Attributes
    ----------
    records_ : list of dict
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
    """Cluster synthetic samples of each client's generative network by a deep network (PPFC-GAN; Yan et al. 2022).

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
    """Cluster by a contrastive network, trained on views of a sample and then on clusters (CCFC; Liu, Yan, Zhang 2024).

    Attributes
    ----------
    n_clusters_ : int
        Number of clusters; with ``standalone=True`` those of all clients together.
    result_ : dict
        The network, its ``models``, and the ``centroids`` of the samples' latents.
    records_ : list of dict
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
    """Cluster by a contrastive network trained on views alone (SCFC, section 4.4 of CCFC; Liu, Yan, Zhang 2024).

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


class KMeans(SampleClusterer, method=centralized.KMeansMethod):
    """k-means of all clients' samples together: a centralised baseline, for which **the data are moved**.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> import fedkin
    >>> x, y = make_blobs([60, 60, 60], n_features=8, random_state=0)
    >>> fedkin.KMeans(n_clusters=3, random_state=0).fit([x[0::2], x[1::2]]).n_clusters_
    3
    """


class FuzzyCMeans(SampleClusterer, method=centralized.FuzzyCMeansMethod):
    """Fuzzy c-means of all clients' samples together: a centralised baseline, for which **the data are moved**.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> import fedkin
    >>> x, y = make_blobs([60, 60, 60], n_features=8, random_state=0)
    >>> fedkin.FuzzyCMeans(n_clusters=3, random_state=0).fit([x[0::2], x[1::2]]).n_clusters_
    3
    """


class DEC(LatentClusterer, method=dec.DECMethod):
    """Deep embedded clustering of all samples together, or of each client's alone (DEC; Xie, Girshick, Farhadi 2016).

    A centralised baseline: by default **the data are moved** to one place.

    Attributes
    ----------
    n_clusters_ : int
        Number of clusters; with ``scope="client"`` those of all clients together.
    result_ : dict
        ``encoder`` and ``centroids``, with ``scope="all"``.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> import fedkin
    >>> x, y = make_blobs([60, 60, 60], n_features=8, random_state=0)
    >>> clients = [x[y != 2], x[y != 0], x[y != 1]]
    >>> model = fedkin.DEC(n_clusters=3, pretrain_steps=150, random_state=0).fit(clients)
    >>> [len(set(labels)) for labels in model.labels_]
    [2, 2, 2]
    """


# Estimator of kin-graph, whose clusters can be cut again.


class KinGraph(LatentClusterer, method=kingraph.KinGraphMethod):
    """Find clusters across clients, and their number, by community detection in a graph of micro-clusters (kin-graph).

    No parameter needs to be set. Each client sends sums of its samples' features, how neighbours differ, and means and
    sizes of many micro-clusters.

    Attributes
    ----------
    scales_ : list of dict
        Coarser and finer clusters of the same graph, those with fewest clusters first: ``n_clusters``, lowest and
        highest of the ``resolutions``, ``stability``, ``samples`` of each cluster, ``parents`` among the clusters of
        the entry before, and whether these are ``chosen``. ``pandas.DataFrame(model.scales_)`` is a table of them.
    result_ : dict
        Among others ``centroids`` ``(m, d)``, ``counts`` and ``clusters`` ``(m,)`` of the graph's nodes.
    records_ : list of dict
        Three entries: on principal components, on differences between neighbours and on the graph, with the bytes sent
        and received.

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

    _graph: Any
    _memories: list[Votes]

    @checked_keywords
    def fit(
        self, X: Any, y: Any = None, *, eval: Any = None, callbacks: Followers = (),  # noqa: N803
    ) -> Self:  # fmt: skip
        """Find the clusters, as all estimators of samples do.

        Warns (`fedkin.FedkinWarning`) if there are too few micro-clusters to find clusters.
        """
        clients, names = self._clients(X, y)
        self._fitted(clients, names, self._hyper_parameters(), eval, callbacks)
        for entry in self.records_:
            if "warning" in entry:
                warnings.warn(entry["warning"], FedkinWarning, stacklevel=3)  # the caller of what checks the keywords
        return self

    def cut(self, n_clusters: int | None = None, *, resolution: float | None = None) -> KinGraph:
        """Cut the graph again, coarser or finer, without contacting the clients.

        Whether samples were smoothed stays as `fit` has decided it for its own number of clusters.

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
            If not one of both is given, or it is out of range: there can be as many clusters as micro-clusters.
        """
        check_is_fitted(self, "result_")
        if (n_clusters is None) == (resolution is None):
            raise FedkinError("Give either n_clusters or resolution.")
        cut = copy.copy(self)
        cut.set_params(n_clusters=n_clusters or "auto", resolution=resolution or "auto")
        with cut._on_device():
            return cut._cut_again({"n_clusters": n_clusters} if resolution is None else {"resolution": resolution})

    def _cut_again(self, wanted: Mapping[str, Any]) -> KinGraph:
        method: Any = self._made(**wanted)
        rng = derive_generator(self._seed, "server", "communities")  # as the server's when it cut the graph
        state, values = method.clusters_of(method.before_cut(self._graph), rng)
        self.result_ = {**method.result(state), "space": self.result_["space"]}
        self.scales_ = self.result_["scales"]
        kept = {name: value for name, value in self.records_[-1].items() if name not in ("note", "warning")}
        self.records_ = [*self.records_[:-1], {**kept, **values}]
        again = [
            before if at in self._absent else counted(memory, self.result_).numpy()
            for at, (memory, before) in enumerate(zip(self._memories, self.labels_, strict=True))
        ]
        self._set_labels(again)
        if "memberships_" in self.__dict__:
            parts = [counted_shares(memory, self.result_).numpy() for memory in self._memories]
            self.memberships_ = ByClient(parts, self.client_names_)
        self._profile, self._is_cut = None, True
        return self

    def _take(self, method: Any, state: Any, clients: Sequence[Client], fed: LocalFederation) -> None:
        super()._take(method, state, clients, fed)
        self._keep_graph(state, clients)

    def _keep_graph(self, state: Any, clients: Sequence[Client]) -> None:
        self.scales_, self._graph, self._is_cut = self.result_["scales"], state, False
        self._memories = [self._memory(client) for client in clients]

    def _memory(self, client: Client) -> Votes:
        """Return what a client stores to assign clusters to its samples; nothing if it has no part in the result."""
        if client.id in self._absent:
            return Votes(torch.zeros(0, 1, dtype=torch.int32), torch.zeros(0, 1))
        return nodes_of_samples(client, self._graph.own)

    def _remember(self, outcome: FitOutcome, clients: Sequence[Client], names: Sequence[str]) -> None:
        super()._remember(outcome, clients, names)
        self._seed = outcome.seed
        self._keep_graph(outcome.state, clients)


# Estimator of FedCRef, which accepts initial clusters, and numbers of clusters, of each client.


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


# Estimator of MUFC, which can forget samples after `fit`.


class MUFC(SampleClusterer, method=mufc.MUFCMethod):
    """Cluster samples in one round, so that some of them can be forgotten exactly (MUFC; Pan et al. 2023).

    `forget` removes samples, or a client: the clusters then have the distribution of those of a fit without them.

    Attributes
    ----------
    certificates_ : list of dict
        Certificate of each call of `forget`. With ``rows``, by client the number of forgotten rows, and how many of its
        centroids were ``kept`` and ``drawn`` again; the number of the ``request``, and of remaining ``samples``.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> import fedkin
    >>> x, y = make_blobs([60, 60, 60], n_features=8, random_state=0)
    >>> clients = [x[y != 2], x[y != 0], x[y != 1]]
    >>> model = fedkin.MUFC(n_clusters=3, random_state=0).fit(clients)
    >>> certificate = model.forget(1, clients, rows=[0, 5])
    >>> certificate["clients"]["1"]["rows"], certificate["samples"]
    (2, 358)
    >>> model.labels_[1][:6].tolist().count(-1)
    2
    """

    def _forget_rows(self, at: int, data: Any, y: Any, rows: ArrayLike) -> dict[str, Any]:
        clients = self._kept_clients(data, y)
        wanted = self._rows(rows, len(clients[at]))
        method = cast(mufc.MUFCMethod, self._made())
        fed = self._federation(clients)
        fed.leave(self._absent)
        with one_thread():
            state, done = method.unlearned(fed, cast(mufc.MUFCState, self._state), {at: wanted})
            self._take(method, state, clients, fed)
        return {"client": self.client_names_[at], "way": "exact", **done}

    def _rows(self, rows: ArrayLike, count: int) -> torch.Tensor:
        found = torch.as_tensor(rows)
        if found.ndim != 1 or found.is_floating_point() or found.dtype == torch.bool or not len(found):
            raise FedkinError("rows should be a list of one or more row numbers.")
        if int(found.min()) < 0 or int(found.max()) >= count:
            raise FedkinError(f"rows are from {int(found.min())} to {int(found.max())}; allowed: 0 to {count - 1}.")
        distinct: torch.Tensor = found.long().unique()
        return distinct
