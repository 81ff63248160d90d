"""Estimators that cluster samples, one for each method; `fit` takes clients without labels."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self, cast

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClusterMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from fedkin.clustering.metrics import adjusted_rand
from fedkin.clustering.node_votes import Votes, counted, counted_shares
from fedkin.core import Client, FedkinError
from fedkin.core.errors import checked_keywords
from fedkin.core.method import ServerData
from fedkin.core.progress import Followers
from fedkin.core.runner import predicted_clusters, used_clusters
from fedkin.core.seeds import derive_generator
from fedkin.data.cluster_words import words_of_clusters
from fedkin.data.inputs import client_input, holds_several
from fedkin.data.preparation import Preparation
from fedkin.data.profile import ClusterProfile, profile_clusters
from fedkin.engines.local import LocalFederation, one_thread
from fedkin.estimators.clients import (
    ByClient,
    Inputs,
    by_client,
    held_out_of,
    labelled_clients,
    labelled_data,
    map_clients,
    needed_labels,
    prepared,
    read_clients,
)
from fedkin.estimators.estimator import Estimator, warn_of_records
from fedkin.estimators.metrics import Row, agreement_rows, sizes_of
from fedkin.estimators.training import FeaturesOrName, Registered, features_of
from fedkin.experiment.terminal import fewer_clusters
from fedkin.features.encoders import EMBEDDED
from fedkin.methods.samples import afcl, centralized, dec, feddp_kmeans, ffcm, kfed, mufc, ppfc_gan, sda_fc, uifca
from fedkin.methods.samples.ccfc import ccfc
from fedkin.methods.samples.fedcref import fedcref
from fedkin.methods.samples.kingraph import kingraph
from fedkin.methods.samples.kingraph.kingraph_space import nodes_of_samples
from fedkin.report.words import described, remarks, sentences

LabelArray = NDArray[np.int64]
Floats = NDArray[np.float32]
NO_CLUSTER = -1
"""Cluster of the samples of a client that is forgotten or missing."""


class SampleClusterer(ClusterMixin, Estimator):  # type: ignore[misc]
    """Base class of estimators that cluster the samples of several clients.

    Where there is a parameter `features`, it may also be a trained module or a function that turns float32
    ``(n, *shape)`` into ``(n, width)``, as `transform` of another estimator does. Every fit copies a module, and uses
    the copy in evaluation mode. Samples are scaled first: with `transform` of an estimator that scales by itself, set
    `scaling` to "none".

    Attributes
    ----------
    labels_ : list of int64 arrays
        Cluster of every sample, an array per client in the order of `client_names_`; -1 if the client is forgotten
        or in `missing_`. Also by the client's name, ``labels_["north"]``, and by all names, ``dict(labels_)``. A
        number is a position: of clients
        given as ``{7: x, 9: y}``, ``labels_[0]`` and ``labels_["7"]`` are the first one's.
    memberships_ : list of float32 arrays
        Membership of each sample in each cluster, ``(n, result_["n_clusters"])`` per client, rows summing to 1; no
        rows for a client that is forgotten or missing. Only of methods with fuzzy clusters.
    n_clusters_ : int
        Number of clusters with samples, which may be less than was asked for. ``result_["n_clusters"]`` also counts
        clusters of the result that no sample is in; a number in `labels_` is a position among these. Where each client
        is clustered alone, the clusters of all clients together.
    result_ : dict
        Complete result of the method, such as ``centroids`` ``(k, width)`` and the ``features`` they are of.
    metrics_ : DataFrame
        Values of every step, sizes of clusters and agreement with labels, a row for each: ``round``, ``client``,
        ``cluster``, ``split``, ``metric``, ``value``.

    Examples
    --------
    All estimators of samples are used alike.

    >>> from sklearn.datasets import make_blobs
    >>> import fedkin
    >>> x, y = make_blobs([60, 60, 60], n_features=8, random_state=0)
    >>> clients = [x[y != 2], x[y != 0], x[y != 1]]
    >>> model = fedkin.KFed(n_clusters=3, local_clusters=2, random_state=0).fit(clients)
    >>> [len(set(labels)) for labels in model.labels_]
    [2, 2, 2]
    """

    _clusters = "samples"
    _types: ClassVar[dict[str, Any]] = {"features": FeaturesOrName}
    _features: tuple[str, Registered | None] | None = None
    """Name of the features of the last fit, and they themselves if they are a user's own."""
    _profile: ClusterProfile | None

    @checked_keywords
    def fit(
        self, X: Any, y: Any = None, *, eval: Any = None, callbacks: Followers = (),  # noqa: N803
    ) -> Self:  # fmt: skip
        """Find the clusters.

        Warns (`fedkin.FedkinWarning`) once if something looks wrong in the data, which are used as they are, of columns
        that are labels, or are none, by their name alone, of clients that have no part in the result, of what the
        method doubts, and if fewer clusters than were asked for have samples.

        Parameters
        ----------
        X : sequence, dict, str or Path, or FederatedDataset
            The clients, in a list, in a dict by name, as a table divided by ``groupby``, or as a folder with one file
            each; or a ``FederatedDataset`` of Flower's with a partitioner, or a partitioner with its data. Each is an
            array or tensor, a DataFrame, a file, a list or folder of images, texts or series (which `features` encode),
            a torch ``Dataset`` or ``DataLoader``, a Hugging Face ``Dataset``, or any of these with labels, such as a
            pair ``(x, y)``. Arrays are ``(n, features)`` or images ``(n, height, width)`` or ``(n, channels, height,
            width)``, all finite. Tables may hold numbers, text, categories, booleans and dates, and empty cells;
            columns are matched by name.
        y : str, sequence or dict, optional
            The name of a column of labels, which is then no feature, or "none" if there is none; or one array of
            labels per client, in order or by name. By default labels are in the pairs, or, as by command line, in the
            first column called ``label``, ``labels``, ``class``, ``target`` or ``y`` that can hold some. Labels,
            also those in `X`, are not used to find clusters;
            `metrics_` compares with them.
        eval : as X, optional
            Labelled samples beside those clustered, of all or some clients, by name, or of as many in a list; or one
            data set for all. In the end the clusters that `predict` gives them are compared with their labels.
        callbacks : sequence of Callback or callable
            `fedkin.Callback`; a function is called with each step's record, a dict.

        Returns
        -------
        self

        Raises
        ------
        FedkinError
            A `ValueError`: if a client's data or a parameter cannot be used.
        """
        inputs, options = self._read(X, y)
        return self._fit(inputs, options, eval, callbacks)

    def _read(self, data: Any, y: Any) -> tuple[Inputs, dict[str, Any]]:
        """Read the clients, and return them with the method's options."""
        inputs, options = read_clients(data, y, self._table_options()), self._options()
        if inputs.clients[0].samples is not None and callable(options.get("features")):  # which has encoded them
            options["features"] = EMBEDDED
        return inputs, options

    def _fit(self, inputs: Inputs, options: dict[str, Any], held_out: Any, callbacks: Followers) -> Self:
        n_clusters, samples = options.get("n_clusters"), sum(map(len, inputs.clients))
        if isinstance(n_clusters, int | np.integer) and n_clusters > samples:
            raise FedkinError(f"n_clusters is {n_clusters}, but all clients together hold {samples} samples.")
        tests = None
        if held_out is not None:
            tests = held_out_of(held_out, "test", "eval", inputs.names, inputs.label, _codes)
        features = None
        if "features" in options:
            registered = features_of(options["features"])
            if registered is not None:
                options["features"] = registered.name
            features = options["features"], registered
        self._run(inputs, options, callbacks=callbacks)
        self._features, self._truth = features, inputs.truth
        listed: list[tuple[str | None, Any]] = []
        if tests is not None:
            listed = list(zip(self.client_names_, tests.clients, strict=False))
        if tests is not None and tests.common is not None:
            listed = [(None, tests.common)]
        with self._on_device():
            self._tested = [
                (name, self._clusters_of(self.result_, test[0](self.preparation_)).numpy(), test[1].numpy())
                for name, test in listed
                if test is not None
            ]
        warn_of_records(self.records_, fewer_clusters(self.n_clusters_, n_clusters, "samples"))
        return self

    def _made(self, **changes: Any) -> Any:
        return super()._made(**({} if self._features is None else {"features": self._features[0]}), **changes)

    def _take(
        self, method: Any, fed: LocalFederation, state: Any, result: dict[str, Any], clients: Sequence[Client]
    ) -> None:
        super()._take(method, fed, state, result, clients)
        absent = self._absent
        self._set_labels(
            [
                np.full(len(client), NO_CLUSTER) if client.id in absent else client.state["clusters"].numpy()
                for client in clients
            ]
        )
        self.__dict__.pop("memberships_", None)
        if self._method.soft:
            nobody = torch.zeros(0, int(result["n_clusters"]))
            parts = [nobody if client.id in absent else method.client_memberships(result, client) for client in clients]
            if all(part is not None for part in parts):
                self.memberships_ = ByClient([part.numpy() for part in parts], self.client_names_)
        encoding, self._profile = self.preparation_.encoding, None
        if encoding is not None and not method.is_private():
            self._profile = profile_clusters(fed, encoding, int(result["n_clusters"]))
        self._words: list[list[str]] = []
        if self.preparation_.has_texts and not method.is_private():
            self._words = words_of_clusters(fed, int(result["n_clusters"]))
        # Empty cells of new rows are imputed by the clusters' means.
        centres = None if self._profile is None or encoding is None else self._profile.centres(encoding)
        self.preparation_ = replace(self.preparation_, centres=centres)

    def _set_labels(self, labels: Sequence[LabelArray]) -> None:
        """Set the clusters of every client's samples, and the number of clusters that have samples."""
        self.labels_ = ByClient(labels, self.client_names_)
        self.n_clusters_ = used_clusters(map(torch.from_numpy, labels))

    def _fitted_clients(self, data: Any, y: Any) -> list[Client]:
        inputs, _ = self._read(data, y)
        if inputs.names != self.client_names_:
            raise FedkinError(f"The clients are {inputs.names}, but those of fit were {self.client_names_}.")
        clients = []
        for client, private, labels, name in zip(
            inputs.clients, self._private, self.labels_, inputs.names, strict=True
        ):
            x = self.preparation_.of(client)
            if len(x) != len(labels):
                raise FedkinError(f"Client {name} has {len(x)} rows, but had {len(labels)} in fit.")
            clients.append(Client(client.id, x, state=dict(private), table=client.table, samples=client.samples))
        return clients

    def _rows(self) -> Iterator[Row]:
        last = int(self.records_[-1]["step"])
        present = [i for i in range(len(self.client_names_)) if i not in self._absent]
        names, labels = [self.client_names_[i] for i in present], [self.labels_[i] for i in present]
        yield from sizes_of(last, names, labels)
        if self._truth is not None:
            truth = [self._truth[i] for i in present]
            yield from agreement_rows(last, "train", list(zip(names, labels, truth, strict=True)))
        if self._tested:
            yield from agreement_rows(last, "test", self._tested)

    @checked_keywords
    def predict(self, X: Any) -> LabelArray | list[LabelArray]:  # noqa: N803
        """Predict the clusters of new samples: int64 ``(n,)`` for one array, such arrays for several clients.

        Clients in a list have a list of arrays, those in a dict a dict with the same keys.

        Raises
        ------
        FedkinError
            If the samples cannot be used, or differ in shape from those of `fit` or lack their columns.
        """
        return self._of_each(X, self._clusters_of, "The data to predict")

    @available_if(lambda self: self._method.soft)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Floats | list[Floats]:  # noqa: N803
        """Return the membership of samples in each cluster; only for methods with fuzzy clusters.

        They are fuzzy c-means' memberships, DEC's soft assignments, or in `KinGraph` the shares of the nearest nodes'
        votes; the memberships of the samples of `fit` are in `memberships_`. They are not probabilities of being right.

        Returns
        -------
        array or list of array
            float32 ``(n, result_["n_clusters"])`` for one array of samples, a list of them for a list of clients; rows
            sum to 1.

        Raises
        ------
        FedkinError
            If a parameter makes the clusters hard, or the samples cannot be used.
        """
        hard = f"The clusters of this {type(self).__name__} are hard ones, without memberships."
        return self._of_each(X, self._method.memberships, "The data", hard)

    def confidence(self, X: Any) -> Floats | list[Floats]:  # noqa: N803
        """Return the confidence with which samples belong to their predicted clusters.

        Returns
        -------
        array or list of array
            float32 ``(n,)`` in [0, 1] for one array of samples, a list of them for a list of clients: 0 halfway between
            two clusters, 1 without doubt. It is not a probability, and not comparable between methods.

        Raises
        ------
        FedkinError
            If the method has no confidence, or the samples cannot be used.
        """
        unsure = f"{type(self).__name__} does not say how clearly samples belong to their clusters."
        return self._of_each(X, self._method.confidence, "The data", unsure)

    def score(self, X: Any, y: Any = None) -> float:  # noqa: N803
        """Return the adjusted Rand index of predicted clusters and labels; 1 if they agree, 0 by chance.

        Parameters
        ----------
        X : array-like, or several clients' samples
            As in `predict`, with or without labels.
        y : array-like, str, sequence or dict, optional
            The labels, as in `fit`, where `X` has none; of one client an array.

        Raises
        ------
        FedkinError
            If the samples cannot be used, or there are no labels.
        """
        several = holds_several(X)
        data = (
            labelled_clients(X, y, self._label, "score") if several else {"": labelled_data(X, y, _DATA, self._label)}
        )
        clusters, labels = [], []
        for key, client in data.items():
            subject = f"Client {key}" if several else _DATA
            clusters.append(self._of_client(client.x, self._clusters_of, subject))
            labels.append(needed_labels(client, subject, len(clusters[-1])))
        return adjusted_rand(np.unique(np.concatenate(labels), return_inverse=True)[1], np.concatenate(clusters))

    def _clusters_of(self, result: Any, x: Tensor) -> Tensor:
        """Predict the clusters of prepared samples, int64 ``(n,)``."""
        return predicted_clusters(self._method, result, x)

    def _of_each(
        self, data: Any, function: Callable[[Any, Tensor], Tensor | None], subject: str, otherwise: str = ""
    ) -> NDArray[Any] | list[NDArray[Any]]:
        """Apply `function` to the result and one client's samples, or those of each of several clients.

        Where it returns ``None``, the error is `otherwise`.
        """
        check_is_fitted(self, "result_")
        arrays: NDArray[Any] | list[NDArray[Any]] = map_clients(
            data, lambda x, name: self._of_client(x, function, name, otherwise), subject
        )
        return arrays

    def _of_client(
        self, x: Any, function: Callable[[Any, Tensor], Tensor | None], subject: str, otherwise: str = ""
    ) -> NDArray[Any]:
        samples = self._prepared(x, subject)
        with self._on_device():
            values = function(self.result_, samples)
        if values is None:
            raise FedkinError(otherwise)
        return values.numpy()

    def describe(self) -> pd.DataFrame:
        """Describe the clusters of tables in original units.

        Returns
        -------
        DataFrame
            One row per cluster: ``samples``, as far as clients report them; ``sentence``, what distinguishes it; and
            the columns of the tables, those that distinguish clusters most first: the mean of numbers, ordinals as
            positions from 0 and booleans as shares of the second value; the mean date; the most frequent category.
            Means are of the true values, also where values count as a limit for clustering. If few values far beyond
            hide a difference, the sentence has means within limits, and calls them ``limited``.
            ``attrs["effects"]`` says by column how far it distinguishes clusters, in [0, 1]. Cells of a cluster and a
            column at one client with fewer than five values are left out; ``attrs["remarks"]`` says how many samples
            are missing for it, and what else a reader should know. Of texts: ``samples`` and ``words``, the most
            telling first, each in five texts or more of two clients.

        Raises
        ------
        FedkinError
            If the clients had no tables or texts, the method is private, so that they were not asked, or the clusters
            are those of a cut.
        """
        if self._profile is None and any(getattr(self, "_words", [])):
            sizes = np.bincount(np.concatenate(self.labels_).clip(-1) + 1, minlength=len(self._words) + 1)[1:]
            return _by_cluster({"samples": sizes, "words": [", ".join(words) for words in self._words]}, {})
        profile = self._described()
        columns = described(profile)
        leading = {"samples": profile.samples.numpy(), "sentence": sentences(profile, self.client_names_)}
        frame = _by_cluster(leading, {column.name: column.values for column in columns})
        frame.attrs["effects"] = {column.name: column.effect for column in columns}
        frame.attrs["remarks"] = remarks(profile, self.client_names_, columns)
        if any(getattr(self, "_words", [])):
            frame.insert(2, "words", [", ".join(own) for own in self._words], allow_duplicates=True)
        return frame

    def representatives(self) -> pd.DataFrame:
        """Return a typical sample of each cluster of tables, in original units.

        Returns
        -------
        DataFrame
            One row per cluster: ``rows``, the number of rows that it summarises, and the columns of the tables, in the
            order of `describe`: the mean over the rows nearest to the cluster's centre at each client, rounded as its
            spread justifies, their mean date as a text, or their most frequent category, level or truth value. It is
            not a real row: clients do not send cells of fewer than
            five rows, and a value that no client sends is missing.

        Raises
        ------
        FedkinError
            As `describe`.
        """
        profile = self._described()
        rows = profile.typical_filled.amax(1).numpy()
        columns = {column.name: column.typical_values() or [None] * len(rows) for column in described(profile)}
        return _by_cluster({"rows": rows}, columns)

    def _described(self) -> ClusterProfile:
        check_is_fitted(self, "result_")
        if self._profile is None:
            raise FedkinError(
                "The clusters cannot be described: clients need tables with named columns, such as DataFrames, and a "
                "method that promises no differential privacy. Those of a cut are not described, since that asks the "
                "clients; fit again with its n_clusters or resolution and the same random_state."
            )
        return self._profile


_DATA = "The data"


def _codes(labels: NDArray[Any], subject: str) -> Tensor:
    return torch.from_numpy(np.unique(labels, return_inverse=True)[1])


def _by_cluster(leading: Mapping[str, Any], columns: Mapping[str, Any]) -> pd.DataFrame:
    """Return a table with a row for each cluster; the clients' columns may have the names of the leading ones."""
    frame = pd.DataFrame(columns, index=range(len(next(iter(leading.values())))))
    frame.index.name = "cluster"
    for position, (name, values) in enumerate(leading.items()):
        frame.insert(position, name, values, allow_duplicates=True)
    return frame


class LatentClusterer(SampleClusterer):
    """Base class of estimators that cluster a latent representation of the samples, which `transform` returns."""

    def transform(self, X: Any) -> Floats | list[Floats]:  # noqa: N803
        """Transform samples to the latent representation in which clusters are found.

        `KinGraph` can use it as features: ``KinGraph(features=model.transform)``.

        Returns
        -------
        array or list of array
            float32 ``(n, width)`` for one array of samples, a list of them for a list of clients.

        Raises
        ------
        FedkinError
            If the samples cannot be used, or differ in shape from those of `fit` or lack their columns.
        """
        return self._of_each(X, self._method.embed, "The data to transform")


class KFed(SampleClusterer, method=kfed.KFedMethod):
    """Cluster every client's samples, then the clients' centres, in one round (k-FED; Dennis, Li, Smith 2021)."""


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
            As of all estimators that cluster samples, and so are what is returned, warned of and raised.
        server_data : array-like or DataFrame, optional
            Samples that the server has, as a client's in `X`, in place of the parameter `server_data`; they are
            prepared as the clients' are, and labels in them are ignored.
        """
        inputs, options = self._read(X, y)
        self._given = server_data, inputs.label
        if server_data is not None:
            options["server_data"] = "server_data of fit"
        try:
            return self._fit(inputs, options, eval, callbacks)
        finally:
            del self._given

    def _server_data(self, preparation: Preparation) -> ServerData:
        samples, label = self._given
        if samples is None:
            return super()._server_data(preparation)
        data = client_input(samples, "server_data")
        return lambda _: prepared(preparation, data, "server_data", label)[0]


class AFCL(SampleClusterer, method=afcl.AFCLMethod):
    """Cluster samples by seeds that merge until their number is that of the clusters (AFCL; Zhang et al. 2025)."""


class FFCM(SampleClusterer, method=ffcm.FFCMMethod):
    """Federated fuzzy c-means: local updates of common centres, round after round (FFCM; Stallmann and Wilbik 2022)."""


class UIFCA(LatentClusterer, method=uifca.UIFCAMethod):
    """Cluster samples by normalising flows, each the model of one cluster (UIFCA; Chung, Lee, Ramchandran 2022).

    Attributes
    ----------
    result_ : dict
        The flows, ``models`` ``(n_clusters_, size)``, and what they take.
    """


class SDAFC(SampleClusterer, method=sda_fc.SDAFCMethod):
    """Cluster synthetic samples of each client's generative network by k-means or FCM (SDA-FC; Yan et al. 2024).

    **Synthetic samples leave the clients, and can resemble or repeat real ones.** If no copies of samples may
    leave a client, use another method.
    """


class PPFCGAN(LatentClusterer, method=ppfc_gan.PPFCGANMethod):
    """Cluster synthetic samples of each client's generative network by a deep network (PPFC-GAN; Yan et al. 2022).

    **Synthetic samples leave the clients, and can resemble or repeat real ones.** If no copies of samples may
    leave a client, use another method.
    """


class CCFC(LatentClusterer, method=ccfc.CCFCMethod):
    """Cluster by a contrastive network, trained on views of a sample and then on clusters (CCFC; Liu, Yan, Zhang 2024).

    Attributes
    ----------
    result_ : dict
        The network, its ``models``, and the ``centroids`` of the samples' latents.
    """


class SCFC(LatentClusterer, method=ccfc.SCFCMethod):
    """Cluster by a contrastive network trained on views alone (SCFC, section 4.4 of CCFC; Liu, Yan, Zhang 2024).

    The attributes are those of `CCFC`; `cluster_rounds` is 0.
    """


class KMeans(SampleClusterer, method=centralized.KMeansMethod):
    """k-means of all clients' samples together: a centralised baseline, for which **the data are moved**."""


class FuzzyCMeans(SampleClusterer, method=centralized.FuzzyCMeansMethod):
    """Fuzzy c-means of all clients' samples together: a centralised baseline, for which **the data are moved**."""


class DEC(LatentClusterer, method=dec.DECMethod):
    """Deep embedded clustering of all samples together, or of each client's alone (DEC; Xie, Girshick, Farhadi 2016).

    A centralised baseline: by default **the data are moved** to one place.

    Attributes
    ----------
    result_ : dict
        ``encoder`` and ``centroids``, with ``scope="all"``.
    """


class KinGraph(LatentClusterer, method=kingraph.KinGraphMethod):
    """Find clusters across clients, and their number, by community detection in a graph of micro-clusters (kin-graph).

    No parameter needs to be set. Each client sends sums of its samples' features, how neighbours differ, and means and
    sizes of many micro-clusters. `fit` warns if there are too few of these to find clusters.

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
    _votes: list[Votes]
    """What each client stores to assign clusters to its samples; nothing if it has no part in the result."""

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
            cut._cut_again({"n_clusters": n_clusters} if resolution is None else {"resolution": resolution})
        return cut

    def _cut_again(self, changes: Mapping[str, Any]) -> None:
        method = self._made(**changes)
        rng = derive_generator(self._run_seed, "server", "communities")  # as the server's when it cut the graph
        state, values = method.clusters_of(method.before_cut(self._graph), rng)
        self.result_ = {**method.result(state), "space": self.result_["space"]}
        self.scales_ = self.result_["scales"]
        before = {name: value for name, value in self.records_[-1].items() if name not in ("note", "warning")}
        self.records_ = [*self.records_[:-1], {**before, **values}]
        self._set_labels(
            [
                labels if i in self._absent else counted(votes, self.result_).numpy()
                for i, (votes, labels) in enumerate(zip(self._votes, self.labels_, strict=True))
            ]
        )
        if "memberships_" in self.__dict__:
            parts = [counted_shares(votes, self.result_).numpy() for votes in self._votes]
            self.memberships_ = ByClient(parts, self.client_names_)
        self._profile = None

    def _take(
        self, method: Any, fed: LocalFederation, state: Any, result: dict[str, Any], clients: Sequence[Client]
    ) -> None:
        super()._take(method, fed, state, result, clients)
        self.scales_, self._graph = result["scales"], state
        nothing = Votes(torch.zeros(0, 1, dtype=torch.int32), torch.zeros(0, 1))
        self._votes = [
            nothing if client.id in self._absent else nodes_of_samples(client, state.own) for client in clients
        ]


class FedCRef(SampleClusterer, method=fedcref.FedCRefMethod):
    """Find clusters across clients, and their number, by matching local clusters (FedCRef; Nardi, Valerio, Passarella).

    `predict` assigns a sample to the cluster whose model reconstructs it best. Samples of `fit` may get another cluster
    than in `labels_`, for which a client chooses among fewer models.

    `n_clusters` may also be a list with the number of local clusters of each client.

    Attributes
    ----------
    communities_ : list of lists of (client, cluster)
        The local clusters in each cluster.
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
            As of all estimators that cluster samples, and so are what is returned, warned of and raised.
        initial_labels : sequence or dict of array-like of int, optional
            Initial clusters of each client, ``(n,)`` with values 0 or more; in order, or by name.
        """
        inputs, options = self._read(X, y)
        if initial_labels is not None:
            if options["initial"] not in ("auto", "given"):
                raise FedkinError(f"initial_labels would be ignored with initial='{self.initial}'; leave it at 'auto'.")
            named = initial_labels if isinstance(initial_labels, Mapping) else dict(enumerate(initial_labels))
            labels = by_client(named, inputs.names, "initial_labels")
            for client in inputs.clients:
                array = np.asarray(labels.get(client.id, ()))
                if array.shape != (len(client),) or array.dtype.kind not in "iu" or array.min() < 0:
                    raise FedkinError(
                        f"initial_labels[{client.id}] is {array.dtype} of shape {array.shape}; client {client.id} "
                        f"needs {len(client)} integers of 0 or more."
                    )
                client.state["given"] = torch.from_numpy(np.unique(array, return_inverse=True)[1].astype(np.int64))
        if isinstance(counts := options["n_clusters"], list | tuple | np.ndarray):
            if len(counts) != len(inputs.clients):
                raise FedkinError(
                    f"n_clusters has {len(counts)} numbers for {len(inputs.clients)} clients; give one for each."
                )
            for client, count in zip(inputs.clients, counts, strict=True):
                if not isinstance(count, int | np.integer) or isinstance(count, bool) or count < 1:
                    raise FedkinError(f"n_clusters[{client.id}] is {count!r}; it should be an integer of 1 or more.")
                client.state["n_clusters"] = torch.tensor(int(count))
            options["n_clusters"] = "given"
        self._fit(inputs, options, eval, callbacks)
        self.communities_ = [[tuple(node) for node in members] for members in self.result_["communities"]]
        return self


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

    def _forget_rows(self, position: int, data: Any, y: Any, rows: ArrayLike) -> dict[str, Any]:
        clients = self._fitted_clients(data, y)
        numbers, count = torch.as_tensor(rows), len(clients[position])
        if numbers.ndim != 1 or numbers.is_floating_point() or numbers.dtype == torch.bool or not len(numbers):
            raise FedkinError("rows should be a list of one or more row numbers.")
        if int(numbers.min()) < 0 or int(numbers.max()) >= count:
            raise FedkinError(f"rows are from {int(numbers.min())} to {int(numbers.max())}; allowed: 0 to {count - 1}.")
        method = cast(mufc.MUFCMethod, self._made())
        fed = self._federation(clients)
        fed.leave(self._absent)
        with one_thread():
            state, report = method.unlearned(
                fed, cast(mufc.MUFCState, self._state), {position: numbers.long().unique()}
            )
            self._take(method, fed, state, method.result(state), clients)
        return {"client": self.client_names_[position], "way": "exact", **report}
