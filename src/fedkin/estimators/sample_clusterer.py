"""Base class of estimators that cluster samples: ``fit`` takes clients without labels."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.base import ClusterMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from fedkin.clustering.metrics import adjusted_rand
from fedkin.core import Client, FedkinError
from fedkin.core.aliases import checked_keywords
from fedkin.core.contract import predicted_clusters, used_clusters
from fedkin.core.doors import PYTHON, at_door
from fedkin.core.errors import FedkinWarning
from fedkin.core.progress import Followers, callbacks_of
from fedkin.data.inputs import ClientInput, FederationInput, federation_input, holds_several
from fedkin.data.options import NO_LABELS
from fedkin.data.population import Population
from fedkin.data.profile import ClusterProfile, profile_clusters
from fedkin.data.scenarios.already_split import ClientFiles
from fedkin.engines.local import LocalFederation
from fedkin.estimators.clients import ByClient, data_and_labels, map_clients, read_labels
from fedkin.estimators.estimator import prepared_samples, warn_of_missing, warn_of_questions
from fedkin.estimators.fitting import FitHooks, HeldOut, Samples, held_out_of
from fedkin.estimators.forgetting_fit import ForgettingEstimator
from fedkin.estimators.metrics import Row, agreement_rows, sizes_of
from fedkin.estimators.texts import with_texts_encoded
from fedkin.estimators.training import FeaturesOrName, GivenFeatures, extractor_of
from fedkin.experiment.terminal import fewer_clusters
from fedkin.features.encoders import EMBEDDED
from fedkin.report.words import described, remarks, sentences

# Predictions and descriptions of estimators that cluster samples: clusters of new samples, and clusters in words.


LabelArray = NDArray[np.int64]
Floats = NDArray[np.float32]


class SamplePredictor(ForgettingEstimator):
    """Base class that predicts clusters for samples in any form that ``fit`` takes, and describes those of tables."""

    _profile: ClusterProfile | None
    _of_texts = False
    """Whether samples were texts, which `features` has encoded."""
    _is_cut = False
    """Whether the clusters are those of a cut, which clients have not described."""

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
        X = self._with_texts_encoded(X)  # noqa: N806
        if not holds_several(X):
            data = data_and_labels(X, y, "The data", self._label)
            clusters = self._of_client(data.x, self._method.predict, "The data")
            return _rand(clusters, read_labels(data.y, len(data.y), "The data"))
        given = federation_input(X, self._label if y is None else y, entrance="score", seek_labels=True)
        if not given.labels or any(one is None for one in given.labels):
            raise FedkinError("score compares clusters with labels; give clients as pairs (x, y), or labels as y.")
        sources = list(given.source.values()) if isinstance(given.source, dict) else given.source
        found = [self._of_client(one, self._clusters_of, f"Client {i}") for i, one in enumerate(sources)]
        whole = [read_labels(one, len(own), "A client") for one, own in zip(given.labels, found, strict=True)]
        return _rand(np.concatenate(found), np.concatenate(whole))

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
        lacking = f"{type(self).__name__} does not say how clearly samples belong to their clusters."
        return self._of_each(X, self._method.confidence, "The data", lacking)

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
        lacking = f"The clusters of this {type(self).__name__} are hard ones, without memberships."
        return self._of_each(X, self._method.memberships, "The data", lacking)

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

    def _with_texts_encoded(self, data: Any) -> Any:
        """Return clients' data, of which those that are texts are embeddings by `features`."""
        return with_texts_encoded(data, getattr(self, "features", None))[0]

    def _clusters_of(self, result: Any, x: Tensor) -> Tensor:
        """Predict the clusters of prepared samples, int64 ``(n,)``."""
        return predicted_clusters(self._method, result, x)

    def _of_each(
        self, given: Any, function: Callable[[Any, Tensor], Tensor | None], where: str, lacking: str = ""
    ) -> NDArray[Any] | list[NDArray[Any]]:
        """Apply `function` to the result and one client's samples, or those of each of several clients.

        Where it returns ``None``, the error is `lacking`.
        """
        check_is_fitted(self, "result_")
        given = self._with_texts_encoded(given)
        found: NDArray[Any] | list[NDArray[Any]]
        found = map_clients(given, lambda x, called: self._of_client(x, function, called, lacking), where)
        return found

    def _of_client(
        self, x: Any, function: Callable[[Any, Tensor], Tensor | None], where: str, lacking: str = ""
    ) -> NDArray[Any]:
        samples = self._prepared(x, where)
        with self._on_device():
            found = function(self.result_, samples)
        if found is None:
            raise FedkinError(lacking)
        return found.numpy()

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
            are missing for it, and what else a reader should know.

        Raises
        ------
        FedkinError
            If the clients had no tables, or the method is private, so that they were not asked.
        """
        profile = self._described()
        columns = described(profile)
        leading = {"samples": profile.samples.numpy(), "sentence": sentences(profile, self.client_names_)}
        frame = _by_cluster(leading, {column.name: column.values for column in columns})
        frame.attrs["effects"] = {column.name: column.effect for column in columns}
        frame.attrs["remarks"] = remarks(profile, self.client_names_, columns)
        return frame

    def _described(self) -> ClusterProfile:
        check_is_fitted(self, "result_")
        if self._profile is None and self._is_cut:
            raise FedkinError(
                "The clusters of a cut are not described, since that asks the clients; fit again with this n_clusters "
                "or resolution and the same random_state, which finds the same clusters."
            )
        if self._profile is None:
            raise FedkinError(
                "The clusters cannot be described: clients need tables with named columns, such as DataFrames, and a "
                "method that promises no differential privacy."
            )
        return self._profile

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


def _rand(clusters: LabelArray, labels: NDArray[Any]) -> float:
    if len(clusters) != len(labels):
        raise FedkinError(f"The data has {len(clusters)} samples and {len(labels)} labels; it needs one for each.")
    return adjusted_rand(np.unique(labels, return_inverse=True)[1], clusters)


def _by_cluster(leading: Mapping[str, Any], columns: Mapping[str, Any]) -> pd.DataFrame:
    """Return a table with a row for each cluster; the clients' columns may have the names of the leading ones."""
    from pandas import DataFrame

    frame = DataFrame(columns, index=range(len(next(iter(leading.values())))))
    frame.index.name = "cluster"
    for at, (name, values) in enumerate(leading.items()):
        frame.insert(at, name, values, allow_duplicates=True)
    return frame


NO_CLUSTER = -1
"""Cluster of the samples of a client that is forgotten or missing."""


class SampleClusterer(ClusterMixin, SamplePredictor):  # type: ignore[misc]
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
        clusters of the result that no sample is in; a number in `labels_` is a position among these.
    result_ : dict
        Complete result of the method, such as ``centroids`` ``(k, width)`` and the ``features`` they are of.
    metrics_ : DataFrame
        Values of every step, sizes of clusters and agreement with labels, a row for each: ``round``, ``client``,
        ``cluster``, ``split``, ``metric``, ``value``.
    records_ : list of dict
        One entry per step as the method recorded it, with the bytes sent and received so far.
    """

    _clusters = "samples"
    _kinds: ClassVar[dict[str, Any]] = {"features": FeaturesOrName}
    _extractor: GivenFeatures | None = None
    """Features of the last fit that are a user's module or function."""

    @checked_keywords
    def fit(
        self, X: Any, y: Any = None, *, eval: Any = None, callbacks: Followers = (),  # noqa: N803
    ) -> Self:  # fmt: skip
        """Find the clusters.

        Warns (`fedkin.FedkinWarning`) once if something looks wrong in the data, which are used as they are, of columns
        that are labels, or are none, by their name alone, of clients that have no part in the result, and if fewer
        clusters than were asked for have samples.

        Parameters
        ----------
        X : sequence, dict, str or Path, or FederatedDataset
            The clients, in a list, in a dict by name, as a table divided by ``groupby``, or as a folder with one file
            each; or a ``FederatedDataset`` of Flower's with a partitioner, or a partitioner with its data. Each is an
            array or tensor, a DataFrame, a file, a list of texts (which `features` encodes), a torch ``Dataset`` or
            ``DataLoader``, a Hugging Face ``Dataset``, or any of these with labels, such as a pair ``(x, y)``. Arrays
            are ``(n, features)`` or images ``(n, height, width)`` or ``(n, channels, height, width)``, all finite.
            Tables may hold numbers, text, categories, booleans and dates, and empty cells; columns are matched by name.
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
        clients, names = self._clients(X, y)
        return self._fitted(clients, names, self._hyper_parameters(), eval, callbacks)

    @at_door(PYTHON)
    def _clients(self, data: Any, y: Any = None) -> tuple[list[Client], list[str]]:
        """Build the clients, and return them with their names."""
        data, self._of_texts = with_texts_encoded(data, getattr(self, "features", None))
        given = federation_input(data, y)
        population = ClientFiles(given.source, given.column, table=self._table_options()).build()
        notes, questions = ((*given.notes, *own) for own in (population.notes, population.questions))
        guesses = () if given.label == NO_LABELS else population.guesses
        self._read = _Read(notes, questions, guesses, given.label, _truth(given, population))
        return population.clients, population.names

    def _fitted(
        self, clients: list[Client], names: list[str], options: dict[str, Any], held_out: Any = None,
        callbacks: Followers = (),
    ) -> Self:  # fmt: skip
        n_clusters, samples = options.get("n_clusters"), sum(map(len, clients))
        if isinstance(n_clusters, int | np.integer) and n_clusters > samples:
            raise FedkinError(f"n_clusters is {n_clusters}, but all clients together hold {samples} samples.")
        tests = None
        if held_out is not None:
            held_out = self._with_texts_encoded(held_out)
            tests = held_out_of(held_out, "test", "eval", names, self._read.label, self._read_labelled)
        if self._of_texts:
            options = {**options, "features": EMBEDDED}
        extractor = extractor_of(options["features"]) if "features" in options else None
        if extractor is not None:
            options = {**options, "features": extractor.name}
        outcome = self._run(clients, names, options, FitHooks(callbacks=callbacks_of(callbacks)))
        self._extractor = extractor
        outcome = outcome.noted(self._read.notes, self._read.questions)
        warn_of_questions(outcome.preparation, 5)  # the caller of what checks the keywords of fit
        for guess in self._read.guesses:
            warnings.warn(guess, FedkinWarning, stacklevel=4)
        self._remember(outcome, clients, names)
        warn_of_missing(self.missing_, 5)
        self._label = self._read.label
        self._set_clusters(clients)
        for text in fewer_clusters(self.n_clusters_, n_clusters, "samples"):
            warnings.warn(text, FedkinWarning, stacklevel=4)
        self._set_profile(outcome.profile)
        self._tested = None if tests is None else self._test(tests)
        return self

    def _made(self, **wanted: Any) -> Any:
        extractor = {} if self._extractor is None else {"features": self._extractor.name}
        return super()._made(**wanted, **extractor)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if self._extractor is not None:  # it may have another name here
            self.result_.get("space", self.result_)["features"] = self._extractor.name
            kept: Any = self.__dict__.get("_state")
            if hasattr(kept, "features"):
                self._state = replace(kept, features=self._extractor.name)

    def _set_clusters(self, clients: Sequence[Client]) -> None:
        """Set the clusters of the clients' samples, -1 for those without any, and memberships if there are any."""
        self.__dict__.pop("memberships_", None)
        away = self._absent
        nothing = [torch.full((len(client),), NO_CLUSTER) for client in clients]
        found = [none if one.id in away else one.state["clusters"] for one, none in zip(clients, nothing, strict=True)]
        self._set_labels([clusters.numpy() for clusters in found])
        if not self._method.soft:
            return
        nobody = torch.zeros(0, int(self.result_["n_clusters"]))
        parts = [nobody if one.id in away else self._method.client_memberships(self.result_, one) for one in clients]
        if all(part is not None for part in parts):
            self.memberships_ = ByClient([part.numpy() for part in parts], self.client_names_)

    def _set_labels(self, labels: Sequence[LabelArray]) -> None:
        """Set the clusters of every client's samples, and the number of clusters that have samples."""
        self.labels_ = ByClient(labels, self.client_names_)
        self.n_clusters_ = used_clusters(map(torch.from_numpy, labels))

    def _kept_clients(self, data: Any, y: Any) -> list[Client]:
        given, names = self._clients(data, y)
        if names != self.client_names_:
            raise FedkinError(f"The clients are {names}, but those of fit were {self.client_names_}.")
        clients = []
        for one, private, labels, name in zip(given, self._private, self.labels_, names, strict=True):
            x = self.preparation_.of(one)
            if len(x) != len(labels):
                raise FedkinError(f"Client {name} has {len(x)} rows, but had {len(labels)} in fit.")
            clients.append(Client(one.id, x, state=dict(private), table=one.table))
        return clients

    def _take(self, method: Any, state: Any, clients: Sequence[Client], fed: LocalFederation) -> None:
        super()._take(method, state, clients, fed)
        self._set_clusters(clients)
        encoding = self.preparation_.encoding
        described = encoding is not None and not method.is_private()
        self._set_profile(
            profile_clusters(fed, encoding, int(self.result_["n_clusters"])) if described and encoding else None
        )

    def _set_profile(self, profile: ClusterProfile | None) -> None:
        """Set what is known of the clusters of tables, by which empty cells of new rows are imputed, too."""
        self._profile, encoding = profile, self.preparation_.encoding
        centres = None if profile is None or encoding is None else profile.centres(encoding)
        self.preparation_ = replace(self.preparation_, centres=centres)

    def _read_labelled(self, data: ClientInput, where: str) -> Samples:
        """Read labelled samples, and encode their labels as numbers."""
        codes = np.unique(read_labels(data.y, len(data.y), where), return_inverse=True)[1]
        label = self._read.label
        return lambda preparation: prepared_samples(preparation, data, where, label), torch.from_numpy(codes)

    def _test(self, tests: HeldOut) -> list[tuple[str | None, LabelArray, NDArray[Any]]]:
        """Predict the clusters of held-out samples; return client, clusters and labels."""
        listed = [(None, tests.common)] if tests.common else list(zip(self.client_names_, tests.clients, strict=True))
        with self._on_device():
            return [
                (name, self._clusters_of(self.result_, one[0](self.preparation_)).numpy(), one[1].numpy())
                for name, one in listed
                if one is not None
            ]

    def _more_rows(self) -> Iterator[Row]:
        last = int(self.records_[-1]["step"])
        there = [at for at in range(len(self.client_names_)) if at not in self._absent]
        names, labels = [self.client_names_[at] for at in there], [self.labels_[at] for at in there]
        yield from sizes_of(last, names, labels)
        if self._read.truth is not None:
            known = list(zip(names, labels, [self._read.truth[at] for at in there], strict=True))
            yield from agreement_rows(last, "train", known)
        if self._tested is not None:
            yield from agreement_rows(last, "test", self._tested)


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


@dataclass(frozen=True)
class _Read:
    """Information on the clients besides samples: notes, the questions among them, guesses, label column, labels."""

    notes: tuple[str, ...]
    questions: tuple[str, ...]
    guesses: tuple[str, ...]
    label: str | None
    truth: list[NDArray[Any]] | None


def _truth(given: FederationInput, population: Population) -> list[NDArray[Any]] | None:
    """Return the labels of every client, if all have them."""
    if population.truth is not None:
        return [one.numpy() for one in population.truth]
    if not given.labels or any(one is None for one in given.labels):
        return None
    sizes = [(len(client), name) for client, name in zip(population.clients, population.names, strict=True)]
    return [read_labels(one, *size) for one, size in zip(given.labels, sizes, strict=True)]
