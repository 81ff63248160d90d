"""Predictions of estimators that cluster samples: clusters, confidence, memberships and scores of new samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from fedkin.clustering.metrics import adjusted_rand
from fedkin.core import FedkinError
from fedkin.core.keywords import checked_keywords
from fedkin.data.inputs.federation_input import federation_input, holds_several
from fedkin.estimators.by_client import of_each
from fedkin.estimators.describing_estimator import DescribingEstimator
from fedkin.estimators.labelled_clients import data_and_labels, read_labels

LabelArray = NDArray[np.int64]
Floats = NDArray[np.float32]


class SamplePredictor(DescribingEstimator):
    """Base class that predicts clusters for samples in any form that ``fit`` takes."""

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
            return _rand(clusters, read_labels(data.y, len(data.y), "The data"), "The data")
        given = federation_input(X, self._label if y is None else y, entrance="score", seek_labels=True)
        if not given.labels or any(one is None for one in given.labels):
            raise FedkinError("score compares clusters with labels; give clients as pairs (x, y), or labels as y.")
        sources = list(given.source.values()) if isinstance(given.source, dict) else given.source
        found = [self._of_client(one, self._method.predict, f"Client {i}") for i, one in enumerate(sources)]
        whole = [read_labels(one, len(own), "A client") for one, own in zip(given.labels, found, strict=True)]
        return _rand(np.concatenate(found), np.concatenate(whole), "The data")

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
            float32 ``(n, n_clusters_)`` for one array of samples, a list of them for a list of clients; rows sum to 1.

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
        return self._of_each(X, self._method.predict, "The data to predict")

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


def _rand(clusters: LabelArray, labels: NDArray[Any], where: str) -> float:
    if len(clusters) != len(labels):
        raise FedkinError(f"{where} has {len(clusters)} samples and {len(labels)} labels; it needs one for each.")
    return adjusted_rand(np.unique(labels, return_inverse=True)[1], clusters)
