"""Estimators that cluster clients: ``fit`` takes a list of ``(x, y)``, one pair per client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from fedkin.core import Client, FedkinError
from fedkin.core.seeds import derive_generator
from fedkin.engines.local import one_thread
from fedkin.estimators.estimator import Estimator, FitOutcome
from fedkin.estimators.labelled_clients import check_kind, clients_of, encoded, pairs_of, read_labels
from fedkin.estimators.torch_modules import ModuleOrName, architecture_of
from fedkin.nn.classifier import Classifier

_NEW = "The data given"


class ClientClusterer(Estimator):
    """Base of estimators that cluster clients with labelled samples and train a model for each cluster.

    `module` may also be a torch module, or a function ``(shape, classes)`` that makes one from the shape of a sample
    and the number of classes. It must give logits ``(n, classes)``. Of a torch module only the architecture is used:
    each fit draws new parameters, by the layers' own ``reset_parameters`` and from `random_state`, so that a fit
    depends on nothing that happened before it and methods with several models do not start them all alike. To start
    from given weights, pass a function that returns a copy of them.

    Attributes
    ----------
    client_labels_ : ndarray of int64, (n_clients,)
        Cluster of each client; -1 where it was never asked, or not since its cluster was divided.
    models_ : list of nn.Module
        One per cluster, in evaluation mode; from samples on the model's scale, ``preparation_.apply(x)``, to logits.
        They are copies: changes to them do not change what `predict` returns.
    classes_ : ndarray, (n_classes,)
        All clients' labels, sorted; the order of logits and probabilities.
    n_clusters_ : int
        Number of clusters; where it is given, clusters that no client chose are included.
    history_ : list of dict
        One entry per round: loss, clusters, labels and so on, with bytes sent and received so far.
    preparation_ : Preparation
        How samples were prepared; its ``notes`` say what was done to tables.
    result_ : dict
        All that the method found.
    n_features_in_ : int
        Numbers per sample.
    feature_names_in_ : ndarray of str
        Columns, if samples are DataFrames.
    """

    _kinds: ClassVar[Mapping[str, Any]] = {"module": ModuleOrName}

    def fit(self, clients: Sequence[tuple[ArrayLike, ArrayLike]] | Mapping[str, tuple[ArrayLike, ArrayLike]]) -> Self:
        """Find the clusters, and train their models.

        Parameters
        ----------
        clients : sequence or dict of (x, y)
            One pair per client, in a list or by the client's name. `x` is an array, tensor or DataFrame,
            ``(n, features)`` or images ``(n, height, width)`` or ``(n, channels, height, width)``, as for estimators
            that cluster samples; `y` holds one label per sample: integers, which may leave gaps, booleans or strings.

        Returns
        -------
        self

        Raises
        ------
        FedkinError
            A `ValueError`: if a client's data or a parameter cannot be used.
        """
        given = list(clients) if isinstance(clients, Mapping) else []
        pairs = self._pairs(list(clients.values()) if isinstance(clients, Mapping) else clients)
        made, classes, names = clients_of(pairs, self._table_options(), given)
        architecture = architecture_of(self.module)
        options = self._hyper_parameters()
        if architecture is not None:
            options["module"] = architecture.name
        outcome = self._run(made, names, options)
        self._remember(outcome, made, names)
        self._architecture, self._seed = architecture, outcome.seed
        self.classes_ = classes
        self.client_labels_ = self.result_["labels"].numpy().copy()
        trained = self.result_["models"] if self.result_["module"] else []
        self.models_ = [self._classifier().module(model) for model in trained]
        self._remember_more(outcome)
        return self

    def predict(self, x: ArrayLike, client: int | str | None = None, cluster: int | None = None) -> NDArray[Any]:
        """Class of new samples, by the model of a client or of a cluster.

        Parameters
        ----------
        x : array-like
            As in `fit`.
        client : int or str, optional
            A client of `fit`, by its position in the list, or its name. With "Sattler" it may have a cached model of
            its own choice.
        cluster : int, optional
            A cluster, such as `assign` gives to a newcomer. Where there is one cluster only, neither need be given.

        Returns
        -------
        ndarray, (n,)
            Labels as they were given to `fit`.

        Raises
        ------
        FedkinError
            If the samples cannot be used, or there is no such client or cluster.
        """
        check_is_fitted(self, "result_")
        labels: NDArray[Any] = self.classes_[self._logits(x, client, cluster).argmax(1).numpy()]
        return labels

    def predict_proba(
        self, x: ArrayLike, client: int | str | None = None, cluster: int | None = None
    ) -> NDArray[np.float64]:
        """Probability of each class of `classes_`, ``(n, n_classes)``; parameters and errors as in `predict`."""
        check_is_fitted(self, "result_")
        probabilities: NDArray[np.float64] = self._logits(x, client, cluster).double().softmax(1).numpy()
        return probabilities

    def score(self, x: ArrayLike, y: ArrayLike, client: int | str | None = None, cluster: int | None = None) -> float:
        """Accuracy on labelled samples, in [0, 1]; parameters and errors as in `predict`."""
        predicted = self.predict(x, client, cluster)
        labels = read_labels(y, len(predicted), _NEW)
        check_kind(labels, self.classes_, _NEW)
        return float((predicted == labels).mean())

    def assign(self, x: ArrayLike, y: ArrayLike | None = None) -> int:
        """Cluster of a newcomer, from its labelled samples.

        By the loss of every cluster's model on them; or, with OCFL, Sattler and Hierarchical, by training as the
        clients did when they were clustered, and comparing its update with theirs; or, with Embedding and LADD, by one
        message such as the clients sent. The model itself does not change.

        Parameters
        ----------
        x : array-like
            As a client's in `fit`.
        y : array-like, optional
            Its labels, which must be among `classes_`. Only Embedding's prototypes and LADD's style of a client do
            without, and then they are not looked at.

        Raises
        ------
        FedkinError
            If the data cannot be used.
        """
        check_is_fitted(self, "result_")
        samples = self._samples(x)
        labels = self._labels(y, len(samples)) if self._method.assigns_by_labels(self.result_) else None
        newcomer = Client.newcomer(samples, labels, derive_generator(self._seed, "assign"))
        with self._on_device(), one_thread():
            return int(self._method.assign(self.result_, newcomer))

    def _pairs(self, clients: Any) -> list[tuple[Any, Any]]:
        """What was given to `fit` as pairs."""
        return pairs_of(clients)

    def _remember_more(self, outcome: FitOutcome) -> None:
        """Set the attributes that only one estimator has."""

    def _labels(self, y: Any, samples: int) -> Tensor:
        """A newcomer's labels as numbers."""
        if y is None:
            raise FedkinError(f"{_NEW} has no labels, which a newcomer needs to find its cluster.")
        return encoded(read_labels(y, samples, _NEW), self.classes_, _NEW)

    def _classifier(self) -> Classifier:
        return Classifier.of(self.result_["module"])

    def _samples(self, x: Any) -> Tensor:
        return self._prepared(x, _NEW)

    def _logits(self, x: Any, client: int | str | None, cluster: int | None) -> Tensor:
        model, samples = self._model(client, cluster), self._samples(x)
        with self._on_device():
            return self._classifier().logits(model, samples)

    def _model(self, client: int | str | None, cluster: int | None) -> Tensor:
        """The parameter vector of the model of a client or a cluster."""
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
            return models[_position(cluster, len(models), "cluster")]
        if isinstance(client, str) and client in self.client_names_:
            client = self.client_names_.index(client)
        client = _position(client, len(self.client_labels_), "client")
        if self.client_labels_[client] < 0:
            raise FedkinError(
                f"The cluster of client {client} is not known; find it with assign(x, y) and give it as cluster=."
            )
        model: Tensor = self._method.model_of(self.result_, client)
        return model

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        architecture = getattr(self, "_architecture", None)
        if architecture is not None:  # it may have another name here
            self.result_["module"] = {**self.result_["module"], "name": architecture.name}


def _position(value: Any, count: int, kind: str) -> int:
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or not 0 <= value < count:
        raise FedkinError(f"{kind} is {value!r}; allowed: 0 to {count - 1}, the {kind}s of fit.")
    return int(value)
