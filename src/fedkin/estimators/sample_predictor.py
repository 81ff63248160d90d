"""Predictions and descriptions of estimators that cluster samples: clusters of new samples, and clusters in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from fedkin.clustering.metrics import adjusted_rand
from fedkin.core import FedkinError
from fedkin.core.contract import predicted_clusters
from fedkin.core.keywords import checked_keywords
from fedkin.data.inputs.federation_input import federation_input, holds_several
from fedkin.data.preparing.profile.cluster_profile import ClusterProfile
from fedkin.estimators.by_client import of_each
from fedkin.estimators.forgetting_fit import ForgettingEstimator
from fedkin.estimators.labelled_clients import data_and_labels, read_labels
from fedkin.experiment.report_content.cluster_words import remarks, sentences
from fedkin.experiment.report_content.column_words import described

if TYPE_CHECKING:
    import pandas as pd

LabelArray = NDArray[np.int64]
Floats = NDArray[np.float32]


class SamplePredictor(ForgettingEstimator):
    """Base class that predicts clusters for samples in any form that ``fit`` takes, and describes those of tables."""

    _profile: ClusterProfile | None
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
        found: NDArray[Any] | list[NDArray[Any]]
        found = of_each(given, lambda x, called: self._of_client(x, function, called, lacking), where)
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
            positions from 0 and booleans as shares of the second value; the geometric mean of columns in ``log`` or
            ``log1p``; the mean date; the most frequent category.
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
            order of `describe`: the mean over the rows nearest to the cluster's centre at each client, geometric for
            columns in ``log`` or ``log1p``, and rounded as its spread justifies, their mean date as a text, or their
            most frequent category, level or truth value. It is not a real row: clients do not send cells of fewer than
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
