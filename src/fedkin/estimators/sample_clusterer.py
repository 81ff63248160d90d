"""Estimators that cluster samples: ``fit`` takes a list of clients, without labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClusterMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from fedkin.core import Client, FedkinError
from fedkin.data.preparing.cluster_profile import ClusterProfile
from fedkin.data.reading.client_files import collected
from fedkin.data.scenarios.label_skew import ClientFiles
from fedkin.estimators.estimator import Estimator
from fedkin.experiment.cluster_words import sentences
from fedkin.experiment.column_words import NOTHING, described

if TYPE_CHECKING:
    import pandas as pd

LabelArray = NDArray[np.int64]
LatentArray = NDArray[np.float32]
ConfidenceArray = NDArray[np.float32]


class SampleClusterer(ClusterMixin, Estimator):  # type: ignore[misc]
    """Base of estimators that cluster the samples of several clients.

    Attributes
    ----------
    labels_ : list of int64 arrays
        One per client: the cluster of every sample.
    n_clusters_ : int
        Number of clusters.
    result_ : dict
        All that the method found, such as ``centroids`` ``(n_clusters_, width)`` and the ``features`` they are of.
    history_ : list of dict
        One entry per step, with the bytes sent and received so far.
    preparation_ : Preparation
        How samples were prepared; its ``notes`` say what was done to tables.
    n_features_in_ : int
        Columns of DataFrames, or numbers per sample.
    client_names_ : list of str
        What the clients are called.
    feature_names_in_ : ndarray of str
        Columns, if the clients are DataFrames.
    """

    def fit(self, X: Sequence[ArrayLike], y: object = None) -> Self:  # noqa: N803
        """Find the clusters.

        Parameters
        ----------
        X : sequence or mapping of array-like, str or Path
            One DataFrame, file, array or tensor per client, in a list or by the client's name, or a folder with one
            file per client; rows are samples. Arrays are ``(n, features)`` or images ``(n, height, width)`` or
            ``(n, channels, height, width)``, all finite. Tables may hold numbers, text, categories, booleans and
            dates, and empty cells; columns are matched by name.
        y : ignored

        Returns
        -------
        self

        Raises
        ------
        FedkinError
            A `ValueError`: if a client's data or a parameter cannot be used.
        """
        clients, names = self._clients(X)
        return self._fitted(clients, names, self._hyper_parameters())

    def _clients(self, data: Any) -> tuple[list[Client], list[str]]:
        """The clients, and their names."""
        population = ClientFiles(_listed(data), table=self._table_options()).build()
        self._read_notes = population.notes
        return population.clients, population.names

    def _fitted(self, clients: list[Client], names: list[str], options: dict[str, Any]) -> Self:
        outcome = self._run(clients, names, options)
        notes = [*self._read_notes, *outcome.preparation.notes]
        outcome = replace(outcome, preparation=replace(outcome.preparation, notes=notes))
        self._remember(outcome, clients, names)
        self.labels_ = [client.state["clusters"].numpy() for client in clients]
        self._profile: ClusterProfile | None = outcome.profile
        return self

    def describe(self) -> pd.DataFrame:
        """The clusters of tables in original units.

        Returns
        -------
        DataFrame
            One row per cluster: ``samples``, as far as clients report them; ``sentence``, what tells it apart; and the
            columns of the tables, those that tell clusters apart the most first: the mean of numbers, ordinals as
            positions from 0 and booleans as shares of the second value; the mean date; the most frequent category.
            ``attrs["effects"]`` says by column how far it tells clusters apart, in [0, 1]. Cells of a cluster and a
            column at one client with fewer than five values are left out.

        Raises
        ------
        FedkinError
            If the clients had no tables, or the method is private, so that they were not asked.
        """
        from pandas import DataFrame

        profile = self._described()
        columns = described(profile)
        spoken = sentences(profile, self.client_names_)
        frame = DataFrame({column.name: column.values for column in columns}, index=range(len(spoken)))
        frame.index.name = "cluster"
        frame.insert(0, "samples", profile.samples.numpy(), allow_duplicates=True)
        frame.insert(1, "sentence", spoken, allow_duplicates=True)
        frame.attrs["effects"] = {column.name: column.effect for column in columns}
        return frame

    def _described(self) -> ClusterProfile:
        check_is_fitted(self, "result_")
        if self._profile is None:
            raise FedkinError(
                "The clusters cannot be described: clients need tables with named columns, such as DataFrames, and a "
                "method that promises no differential privacy."
            )
        return self._profile

    def representatives(self) -> pd.DataFrame:
        """A typical sample of each cluster of tables, in original units.

        Returns
        -------
        DataFrame
            One row per cluster: ``rows``, how many it is made of, and a text for each column, in the order of
            `describe`: the mean over the rows nearest to the cluster's middle at each client, or their most frequent
            category. It is nobody's row: cells of fewer than five rows of a client stay there, and what no client gives
            is ``"–"``.

        Raises
        ------
        FedkinError
            As `describe`.
        """
        from pandas import DataFrame

        profile = self._described()
        rows = profile.typical_filled.amax(1).numpy()
        columns = {column.name: column.typical or [NOTHING] * len(rows) for column in described(profile)}
        frame = DataFrame(columns, index=range(len(rows)))
        frame.index.name = "cluster"
        frame.insert(0, "rows", rows, allow_duplicates=True)
        return frame

    def confidence(self, X: ArrayLike | Sequence[ArrayLike]) -> ConfidenceArray | list[ConfidenceArray]:  # noqa: N803
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

    def predict(self, X: ArrayLike | Sequence[ArrayLike]) -> LabelArray | list[LabelArray]:  # noqa: N803
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
        if isinstance(given, Mapping):
            return {name: self._of_client(x, function, f"Client '{name}'") for name, x in given.items()}
        if (
            isinstance(given, list | tuple)
            and len(given)
            and (_dimensions(given[0]) > 1 or isinstance(given[0], str | Path))
        ):
            return [self._of_client(x, function, f"Client {i}") for i, x in enumerate(given)]
        return self._of_client(given, function, where)

    def _of_client(self, x: Any, function: Callable[[Any, Tensor], Tensor], where: str) -> NDArray[Any]:
        samples = self._prepared(x, where)
        with self._on_device():
            return function(self.result_, samples).numpy()


class LatentClusterer(SampleClusterer):
    """Base of estimators that find clusters in a representation of the samples, which has other uses as well."""

    def transform(self, X: ArrayLike | Sequence[ArrayLike]) -> LatentArray | list[LatentArray]:  # noqa: N803
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


def _listed(data: Any) -> str | Path | list[Any] | dict[str, Any]:
    """`data` as one array per client, in a list or by name, or the folder of them; a single table is refused."""
    data = collected(data)
    if isinstance(data, str | Path):
        return data
    if isinstance(data, Mapping):
        return dict(data)
    is_list = isinstance(data, list | tuple)
    wanted = "fit takes one table, file or array per client, in a list or by name, or a folder with such files"
    if not is_list and _dimensions(data) == 0:
        raise FedkinError(f"{wanted}; got {type(data).__name__}.")
    if (not is_list and _dimensions(data) <= 2) or any(_is_row(x) for x in data):
        raise FedkinError(f"{wanted}; got a single table.")
    return list(data)


def _is_row(value: Any) -> bool:
    """Whether it is a number or a list of numbers, rather than a client's samples or what can be none."""
    return not isinstance(value, str | Path | Mapping | Iterator | Set) and value is not None and _dimensions(value) < 2


def _dimensions(value: Any) -> int:
    try:
        return np.ndim(value)
    except ValueError:  # ragged; `as_tensor` has the sentence for it
        return 2
