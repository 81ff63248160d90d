"""Predictions of estimators that cluster clients: classes of samples, and clusters of unseen clients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from fedkin.core import Client, FedkinError
from fedkin.core.keywords import checked_keywords
from fedkin.core.seeds import derive_generator
from fedkin.data.inputs.federation_input import as_given, holds_several, is_named, labels_beside, named_data
from fedkin.engines.local import one_thread
from fedkin.estimators.by_client import ByClient, fitted_position, is_position
from fedkin.estimators.forgetting_fit import ForgettingEstimator
from fedkin.estimators.held_out import by_client
from fedkin.estimators.label_truths import as_in_fit
from fedkin.estimators.labelled_clients import (
    check_kind,
    data_and_labels,
    encoded,
    labelled_data,
    read_labels,
    without_labels,
)

NEW = "The data given"


class ClientPredictor(ForgettingEstimator):
    """Base class that predicts with the models of client clusters, for samples in any form that ``fit`` takes."""

    classes_: NDArray[Any]
    client_labels_: NDArray[np.int64]
    _seed: int

    @checked_keywords
    def predict(self, x: Any, client: int | str | None = None, cluster: int | None = None) -> Any:
        """Predict the classes of new samples, by the model of a client or of a cluster.

        Parameters
        ----------
        x : array-like, or several clients' samples
            One client's samples in any form that `fit` takes; labels in them are ignored. Or those of several
            clients of `fit`, in a dict by name or of all of them in a list, each by its own model.
        client : int or str, optional
            A client of `fit`, by its position (a number) or its name (a text). With `Sattler` its model may be a cached
            one that it chose itself.
        cluster : int, optional
            A cluster, such as `assign` returns for an unseen client. With a single cluster, neither is needed.

        Returns
        -------
        ndarray, (n,)
            Labels as they were given to `fit`; for several clients a dict with the keys of `x`, or a list of arrays.

        Raises
        ------
        FedkinError
            If the samples cannot be used, or there is no such client or cluster.
        """
        return self._of_each(x, client, cluster, lambda logits: self.classes_[logits.argmax(1).numpy()])

    def predict_proba(self, x: Any, client: int | str | None = None, cluster: int | None = None) -> Any:
        """Predict the probabilities ``(n, n_classes)`` of the classes in `classes_`; otherwise as `predict`."""
        return self._of_each(x, client, cluster, lambda logits: logits.double().softmax(1).numpy())

    @checked_keywords
    def score(self, x: Any, y: Any = None, client: int | str | None = None, cluster: int | None = None) -> float:
        """Return the accuracy on labelled samples, in [0, 1]; for several clients the mean over them.

        Parameters
        ----------
        x : array-like, or several clients' samples
            As in `predict`, with or without labels.
        y : array-like, str, sequence or dict, optional
            The labels, as in `fit`, where `x` has none; of one client an array.
        client, cluster
            As in `predict`.

        Raises
        ------
        FedkinError
            As in `predict`, or if there are no labels.
        """
        check_is_fitted(self, "result_")
        if client is None and cluster is None and holds_several(x):
            given = by_client(_pairs(x, y, "score"), self.client_names_, "score")
            return float(np.mean([self.score(pair, client=at) for at, pair in given.items()]))
        data = data_and_labels(x, y, NEW, self._label)
        predicted = self.predict(data.x, client, cluster)
        labels = as_in_fit(read_labels(data.y, len(predicted), NEW), self.classes_)
        check_kind(labels, self.classes_, NEW)
        return float((predicted == labels).mean())

    @checked_keywords
    def assign(self, x: Any, y: Any = None) -> Any:
        """Assign an unseen client (a newcomer) to a cluster, by its labelled samples.

        The cluster is that whose model has the lowest loss on them. OCFL, Sattler and Hierarchical instead train as the
        clients did when they were clustered, and compare the update with theirs; Embedding and LADD use one message
        such as the clients sent. The fitted model does not change.

        Parameters
        ----------
        x : array-like, or several newcomers' samples
            As a client's in `fit`, with or without labels; or several, in a list or in a dict by name.
        y : array-like, str, sequence or dict, optional
            The labels where `x` has none, which must be among `classes_`. Only Embedding's prototypes and LADD's styles
            need no labels, and then ignore them.

        Returns
        -------
        int, list or dict
            The cluster; of several newcomers a list, or a dict by name.

        Raises
        ------
        FedkinError
            If the data cannot be used.
        """
        check_is_fitted(self, "result_")
        if holds_several(x):
            return as_given({name: self.assign(pair) for name, pair in _pairs(x, y, "assign").items()}, x)
        data = data_and_labels(x, y, NEW, self._label, needed=False)
        samples = self._prepared(data.x, NEW)
        labels = self._labels(data.y, len(samples)) if self._method.assigns_by_labels(self.result_) else None
        unseen = Client.unseen(samples, labels, derive_generator(self._seed, "assign"))
        with self._on_device(), one_thread():
            return int(self._method.assign(self.result_, unseen))

    def _of_each(
        self, x: Any, client: int | str | None, cluster: int | None, function: Callable[[Tensor], NDArray[Any]]
    ) -> Any:
        """Apply `function` to the logits of one client's samples, or of each of several clients'."""
        check_is_fitted(self, "result_")
        if client is not None or cluster is not None or not holds_several(x):
            return function(self._logits(x, client, cluster))
        given = by_client(named_data(x, "predict"), self.client_names_, "x")
        by_name = {self.client_names_[at]: function(self._logits(own, at, None)) for at, own in given.items()}
        found = as_given(by_name, x)
        return ByClient(found, by_name) if isinstance(found, list) else found

    def _labels(self, y: Any, samples: int) -> Tensor:
        """Return a newcomer's labels as numbers."""
        if y is None:
            raise FedkinError(f"{NEW} has no labels, which a newcomer needs to find its cluster.")
        return encoded(read_labels(y, samples, NEW), self.classes_, NEW)

    def _logits(self, x: Any, client: int | str | None, cluster: int | None) -> Tensor:
        whose, samples = self._whose(client, cluster), self._prepared(x, NEW)
        with self._on_device():
            logits: Tensor = self._method.logits_of(self.result_, samples, **whose)
            return logits

    def _whose(self, client: int | str | None, cluster: int | None) -> dict[str, int]:
        """Check the ``client`` or ``cluster`` whose model predicts, and return it by position."""
        models: Tensor = self.result_["models"]
        if not self.result_["module"]:
            raise FedkinError("The clients of fit had no labels, so there are clusters but no models to predict with.")
        if client is None and cluster is None and len(models) == 1:
            cluster = 0
        if (client is None) == (cluster is None):
            raise FedkinError(
                f"Say whose model is to be used, by client= or by cluster=; there are {len(models)} clusters."
            )
        if client is None:
            if not is_position(cluster, len(models)):
                raise FedkinError(f"cluster is {cluster!r}; allowed: 0 to {len(models) - 1}, the clusters of fit.")
            return {"cluster": int(cluster or 0)}
        client = fitted_position(client, self.client_names_)
        if self.client_labels_[client] < 0:
            name = self.client_names_[client]
            called = client if name == f"Client {client}" else f"'{name}'"
            raise FedkinError(
                f"The cluster of client {called} is not known; find it with assign(x, y) and give it as cluster=."
            )
        return {"client": client}


def _pairs(x: Any, y: Any, entrance: str) -> dict[Any, Any]:
    """Return several clients' data by name or position, as pairs of samples and labels if `y` holds labels."""
    named = named_data(x, entrance)
    if y is None:
        return named
    if isinstance(y, str):
        data = {key: without_labels(labelled_data(own, f"Client {key}", y)) for key, own in named.items()}
        return {key: (one.x, one.y) for key, one in data.items()}
    beside = labels_beside(y, list(named), is_named(x))
    return {key: (own, beside[key]) for key, own in named.items()}
