"""Base class of estimators that cluster samples: ``fit`` takes clients without labels."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import ClusterMixin

from fedkin.core import Client, FedkinError
from fedkin.core.errors import FedkinWarning
from fedkin.core.keywords import checked_keywords
from fedkin.core.progress import Followers, callbacks_of
from fedkin.core.steps import used_clusters
from fedkin.data.inputs.client_input import ClientInput
from fedkin.data.inputs.federation_input import FederationInput, federation_input
from fedkin.data.population import Population
from fedkin.data.preparing.profile.cluster_profile import ClusterProfile, profile_clusters
from fedkin.data.reading.dataset import NO_LABELS
from fedkin.data.scenarios.already_split import ClientFiles
from fedkin.engines.local import LocalFederation
from fedkin.estimators.by_client import ByClient
from fedkin.estimators.estimator import prepared_samples, warn_of_missing, warn_of_questions
from fedkin.estimators.fit_rounds import Following
from fedkin.estimators.held_out import HeldOut, Samples, held_out_of
from fedkin.estimators.labelled_clients import read_labels
from fedkin.estimators.metrics_frame import Row, agreement_rows, sizes_of
from fedkin.estimators.python_advice import in_python, python_advice
from fedkin.estimators.sample_predictor import Floats, LabelArray, SamplePredictor
from fedkin.estimators.torch_modules import FeaturesOrName, GivenFeatures, extractor_of
from fedkin.experiment.client_remarks import fewer_clusters

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
            array or tensor, a DataFrame, a file, a torch ``Dataset`` or ``DataLoader``, a Hugging Face ``Dataset``, or
            any of these with labels, such as a pair ``(x, y)``. Arrays are ``(n, features)`` or images ``(n, height,
            width)`` or ``(n, channels, height, width)``, all finite. Tables may hold numbers, text, categories,
            booleans and dates, and empty cells; columns are matched by name.
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

    def _clients(self, data: Any, y: Any = None) -> tuple[list[Client], list[str]]:
        """Build the clients, and return them with their names."""
        given = federation_input(data, y)
        with python_advice():
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
            tests = held_out_of(held_out, "test", "eval", names, self._read.label, self._read_labelled)
        extractor = extractor_of(options["features"]) if "features" in options else None
        if extractor is not None:
            options = {**options, "features": extractor.name}
        outcome = self._run(clients, names, options, Following(callbacks=callbacks_of(callbacks)))
        self._extractor = extractor
        outcome = outcome.noted(self._read.notes, self._read.questions)
        warn_of_questions(outcome.preparation, 5)  # the caller of what checks the keywords of fit
        for guess in self._read.guesses:
            warnings.warn(in_python(guess), FedkinWarning, stacklevel=4)
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
