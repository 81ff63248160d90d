"""Estimators that cluster samples: ``fit`` takes a list of clients, without labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import ClusterMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from fedkin.clustering.metrics import adjusted_rand
from fedkin.core import Client, FedkinError
from fedkin.core.keywords import checked_keywords
from fedkin.core.progress import Followers, callbacks_of
from fedkin.data.given.given_clients import GivenClients, given_clients, holds_several, is_named, named_data
from fedkin.data.given.given_data import GivenData
from fedkin.data.population import Population
from fedkin.data.preparing.cluster_profile import profile_clusters
from fedkin.data.scenarios.label_skew import ClientFiles
from fedkin.engines.local import LocalFederation
from fedkin.estimators.by_client import ByClient
from fedkin.estimators.describing_estimator import DescribingEstimator
from fedkin.estimators.estimator import prepared_samples
from fedkin.estimators.fit_rounds import Following
from fedkin.estimators.held_out import HeldOut, Samples, held_out_of
from fedkin.estimators.labelled_clients import labelled_data, read_labels, without_labels
from fedkin.estimators.metrics_frame import Row, agreement_rows, sizes_of

LabelArray = NDArray[np.int64]
LatentArray = NDArray[np.float32]
ConfidenceArray = NDArray[np.float32]
MembershipArray = NDArray[np.float32]
FORGOTTEN = -1
"""Cluster of the samples of a client that is forgotten."""


class SampleClusterer(ClusterMixin, DescribingEstimator):  # type: ignore[misc]
    """Base of estimators that cluster the samples of several clients.

    Attributes
    ----------
    labels_ : list of int64 arrays
        One per client: the cluster of every sample; -1 if it is forgotten. Also by the client's name,
        ``labels_["north"]``; ``dict(labels_)``.
    memberships_ : list of float32 arrays
        One per client, ``(n, n_clusters_)``: to what part each sample belongs to each cluster, rows summing to 1; none
        for a client that is forgotten. Only of methods with fuzzy clusters.
    n_clusters_ : int
        Number of clusters.
    result_ : dict
        All that the method found, such as ``centroids`` ``(n_clusters_, width)`` and the ``features`` they are of.
    history_ : list of dict
        One entry per step, with the bytes sent and received so far.
    metrics_ : DataFrame
        The same, sizes of clusters and agreement with labels, a row for each number: ``round``, ``client``,
        ``cluster``, ``split``, ``metric``, ``value``.
    preparation_ : Preparation
        How samples were prepared; its ``notes`` say what was done to tables.
    n_features_in_ : int
        Columns of DataFrames, or numbers per sample.
    client_names_ : list of str
        What the clients are called.
    feature_names_in_ : ndarray of str
        Columns, if the clients are DataFrames.
    """

    @checked_keywords
    def fit(
        self, X: Any, y: Any = None, *, eval: Any = None, callbacks: Followers = (),  # noqa: N803
    ) -> Self:  # fmt: skip
        """Find the clusters.

        Parameters
        ----------
        X : sequence, dict, str or Path, or FederatedDataset
            The clients, in a list, in a dict by name, as a table divided by ``groupby``, or as a folder with one file
            each; or a ``FederatedDataset`` of Flower's with a partitioner, or a partitioner with its data. Each is an
            array or tensor, a DataFrame, a file, a torch ``Dataset`` or ``DataLoader``, a Hugging Face ``Dataset``, or
            any of these with labels, such as a pair ``(x, y)``. Arrays are ``(n, features)`` or images ``(n, height,
            width)`` or ``(n, channels, height, width)``, all finite. Tables may hold numbers, text, categories,
            booleans and dates, and empty cells; columns are matched by name.
        y : str, sequence or dict, optional
            The name of a column of labels, which is then no feature; or one array of labels per client, in order or by
            name. Labels, also those in `X`, are not looked at to find clusters; `metrics_` compares with them.
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
        clients, names = self._clients(X, y)
        return self._fitted(clients, names, self._hyper_parameters(), eval, callbacks)

    def _clients(self, data: Any, y: Any = None) -> tuple[list[Client], list[str]]:
        """The clients, and their names."""
        given = given_clients(data, y)
        population = ClientFiles(given.source, given.label, table=self._table_options()).build()
        self._read = _Read(population.notes, given.label, _truth(given, population))
        return population.clients, population.names

    def _fitted(
        self, clients: list[Client], names: list[str], options: dict[str, Any], held_out: Any = None,
        callbacks: Followers = (),
    ) -> Self:  # fmt: skip
        tests = None
        if held_out is not None:
            tests = held_out_of(held_out, "test", "eval", names, self._read.label, self._read_labelled)
        outcome = self._run(clients, names, options, Following(callbacks=callbacks_of(callbacks)))
        notes = [*self._read.notes, *outcome.preparation.notes]
        outcome = replace(outcome, preparation=replace(outcome.preparation, notes=notes))
        self._remember(outcome, clients, names)
        self._label = self._read.label
        self._set_clusters(clients)
        self._profile = outcome.profile
        self._tested = None if tests is None else self._test(tests)
        return self

    def _set_clusters(self, clients: Sequence[Client]) -> None:
        """Set the clusters of the clients' samples, -1 where a client is forgotten, and memberships where some are."""
        self.__dict__.pop("memberships_", None)
        gone = self._forgotten
        nothing = [torch.full((len(client),), FORGOTTEN) for client in clients]
        found = [none if one.id in gone else one.state["clusters"] for one, none in zip(clients, nothing, strict=True)]
        self.labels_ = ByClient([clusters.numpy() for clusters in found], self.client_names_)
        if not self._method.soft:
            return
        nobody = torch.zeros(0, self.n_clusters_)
        parts = [nobody if one.id in gone else self._method.client_memberships(self.result_, one) for one in clients]
        if all(part is not None for part in parts):
            self.memberships_ = ByClient([part.numpy() for part in parts], self.client_names_)

    def _people(self, data: Any, y: Any) -> list[Client]:
        clients, names = self._clients(data, y)
        if names != self.client_names_:
            raise FedkinError(f"The clients are {names}, but those of fit were {self.client_names_}.")
        people = []
        for one, private, labels, name in zip(clients, self._private, self.labels_, names, strict=True):
            x = self.preparation_.of(one)
            if len(x) != len(labels):
                raise FedkinError(f"Client {name} has {len(x)} rows, but had {len(labels)} in fit.")
            people.append(Client(one.id, x, state=dict(private), table=one.table))
        return people

    def _take(self, method: Any, state: Any, people: Sequence[Client], fed: LocalFederation) -> None:
        super()._take(method, state, people, fed)
        self._set_clusters(people)
        encoding = self.preparation_.encoding
        described = encoding is not None and not method.is_private()
        self._profile = profile_clusters(fed, encoding, self.n_clusters_) if described and encoding else None

    def _read_labelled(self, data: GivenData, where: str) -> Samples:
        """Labelled samples, whose labels become numbers."""
        codes = np.unique(read_labels(data.y, len(data.y), where), return_inverse=True)[1]
        label = self._read.label
        return lambda preparation: prepared_samples(preparation, data, where, label), torch.from_numpy(codes)

    def _test(self, tests: HeldOut) -> list[tuple[str | None, LabelArray, NDArray[Any]]]:
        """Client, clusters that `predict` gives, and labels of what was held out."""
        listed = [(None, tests.common)] if tests.common else list(zip(self.client_names_, tests.clients, strict=True))
        with self._on_device():
            return [
                (name, self._method.predict(self.result_, one[0](self.preparation_)).numpy(), one[1].numpy())
                for name, one in listed
                if one is not None
            ]

    def _more_rows(self) -> Iterator[Row]:
        last = int(self.history_[-1]["step"])
        there = [at for at in range(len(self.client_names_)) if at not in self._forgotten]
        names, labels = [self.client_names_[at] for at in there], [self.labels_[at] for at in there]
        yield from sizes_of(last, names, labels)
        if self._read.truth is not None:
            known = list(zip(names, labels, [self._read.truth[at] for at in there], strict=True))
            yield from agreement_rows(last, "train", known)
        if self._tested is not None:
            yield from agreement_rows(last, "test", self._tested)

    def score(self, X: Any, y: Any = None) -> float:  # noqa: N803
        """Adjusted Rand index of the clusters that `predict` gives, and labels; 1 if they agree, 0 as by chance.

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
        if not holds_several(X):
            data = GivenData(X, y) if y is not None and not isinstance(y, str) else self._labelled(X, y, "The data")
            clusters = self._of_client(data.x, self._method.predict, "The data")
            return _rand(clusters, read_labels(data.y, len(data.y), "The data"), "The data")
        given = given_clients(X, self._label if y is None else y, entrance="score", seek_labels=True)
        if not given.labels or any(one is None for one in given.labels):
            raise FedkinError("score compares clusters with labels; give clients as pairs (x, y), or labels as y.")
        sources = list(given.source.values()) if isinstance(given.source, dict) else given.source
        found = [self._of_client(one, self._method.predict, f"Client {i}") for i, one in enumerate(sources)]
        whole = [read_labels(one, len(own), "A client") for one, own in zip(given.labels, found, strict=True)]
        return _rand(np.concatenate(found), np.concatenate(whole), "The data")

    def _labelled(self, x: Any, y: str | None, where: str) -> GivenData:
        data = labelled_data(x, where, y or self._label)
        if data.y is None:
            raise FedkinError(f"{where} has no labels to compare with; give them as y, or samples as a pair (x, y).")
        return without_labels(data)

    def confidence(self, X: Any) -> ConfidenceArray | list[ConfidenceArray]:  # noqa: N803
        """How clearly samples belong to the clusters that `predict` gives them.

        Returns
        -------
        array or list of array
            float32 ``(n,)`` in [0, 1] for one array of samples, a list of them for a list of clients: 0 halfway between
            two clusters, 1 without doubt. It is no probability, and two methods' are not comparable.

        Raises
        ------
        FedkinError
            If the method has no such number, or the samples cannot be used.
        """
        found: ConfidenceArray | list[ConfidenceArray] = self._of_each(X, self._confidence, "The data")
        return found

    def _confidence(self, result: Any, x: Tensor) -> Tensor:
        found: Tensor | None = self._method.confidence(result, x)
        if found is None:
            raise FedkinError(f"{type(self).__name__} does not say how clearly samples belong to their clusters.")
        return found

    @available_if(lambda self: self._method.soft)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> MembershipArray | list[MembershipArray]:  # noqa: N803
        """To what part samples belong to each cluster; only of methods whose clusters are fuzzy.

        They are fuzzy c-means' memberships, DEC's soft assignments, or in `KinGraph` the shares of the nearest nodes'
        votes; the parts of a sample in `fit` are in `memberships_`. A number is no probability of being right.

        Returns
        -------
        array or list of array
            float32 ``(n, n_clusters_)`` for one array of samples, a list of them for a list of clients; rows sum to 1.

        Raises
        ------
        FedkinError
            If a parameter makes the clusters hard, or the samples cannot be used.
        """
        parts: MembershipArray | list[MembershipArray] = self._of_each(X, self._memberships, "The data")
        return parts

    def _memberships(self, result: Any, x: Tensor) -> Tensor:
        found: Tensor | None = self._method.memberships(result, x)
        if found is None:
            raise FedkinError(f"The clusters of this {type(self).__name__} are hard ones, without memberships.")
        return found

    def predict(self, X: Any) -> LabelArray | list[LabelArray]:  # noqa: N803
        """Cluster of new samples: int64 ``(n,)`` for one array of samples, a list of such arrays for a list of clients.

        Raises
        ------
        FedkinError
            If the samples cannot be used, or differ in shape from those of `fit` or lack their columns.
        """
        clusters: LabelArray | list[LabelArray] = self._of_each(X, self._method.predict, "The data to predict")
        return clusters

    def _of_each(self, given: Any, function: Callable[[Any, Tensor], Tensor], where: str) -> Any:
        """What `function` makes of the result and samples, or of each client's samples."""
        check_is_fitted(self, "result_")
        if not holds_several(given):
            return self._of_client(given, function, where)
        named = named_data(given, "predict")
        called = "Client '{}'" if is_named(given) else "Client {}"
        found = {name: self._of_client(x, function, called.format(name)) for name, x in named.items()}
        return found if is_named(given) else list(found.values())

    def _of_client(self, x: Any, function: Callable[[Any, Tensor], Tensor], where: str) -> NDArray[Any]:
        samples = self._prepared(x, where)
        with self._on_device():
            return function(self.result_, samples).numpy()


class LatentClusterer(SampleClusterer):
    """Base of estimators that find clusters in a representation of the samples, which has other uses as well."""

    def transform(self, X: Any) -> LatentArray | list[LatentArray]:  # noqa: N803
        """The representation of samples in which clusters are found.

        A function that `KinGraph` takes as `features`, for one: ``KinGraph(features=model.transform)``.

        Returns
        -------
        array or list of array
            float32 ``(n, width)`` for one array of samples, a list of them for a list of clients.

        Raises
        ------
        FedkinError
            If the samples cannot be used, or differ in shape from those of `fit` or lack their columns.
        """
        latents: LatentArray | list[LatentArray] = self._of_each(X, self._method.embed, "The data to transform")
        return latents


@dataclass(frozen=True)
class _Read:
    """What is known of the clients besides their data: notes, the column of labels, and the labels."""

    notes: tuple[str, ...]
    label: str | None
    truth: list[NDArray[Any]] | None


def _truth(given: GivenClients, population: Population) -> list[NDArray[Any]] | None:
    """The labels of every client, if all have them."""
    if population.truth is not None:
        return [one.numpy() for one in population.truth]
    if not given.labels or any(one is None for one in given.labels):
        return None
    sizes = [(len(client), name) for client, name in zip(population.clients, population.names, strict=True)]
    return [read_labels(one, *size) for one, size in zip(given.labels, sizes, strict=True)]


def _rand(clusters: LabelArray, labels: NDArray[Any], where: str) -> float:
    if len(clusters) != len(labels):
        raise FedkinError(f"{where} has {len(clusters)} samples and {len(labels)} labels; it needs one for each.")
    return adjusted_rand(np.unique(labels, return_inverse=True)[1], clusters)
