"""Estimator of kin-graph, whose clusters can be cut again."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Self

import torch
from sklearn.utils.validation import check_is_fitted

from fedkin.clustering.node_votes import Votes, counted, counted_shares
from fedkin.core import Client, FedkinError
from fedkin.core.errors import FedkinWarning
from fedkin.core.keywords import checked_keywords
from fedkin.core.progress import Followers
from fedkin.core.seeds import derive_generator
from fedkin.engines.local import LocalFederation
from fedkin.estimators.by_client import ByClient
from fedkin.estimators.estimator import FitOutcome
from fedkin.estimators.sample_clusterer import LatentClusterer
from fedkin.methods.samples.kingraph import kingraph
from fedkin.methods.samples.kingraph.kingraph_space import nodes_of_samples


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
        state, values = method.clusters_of(method.uncut(self._graph), rng)
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
