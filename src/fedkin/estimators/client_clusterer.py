"""Base class of estimators that cluster clients: ``fit`` takes labelled clients, in any form."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from fedkin.core import Client, FedkinError
from fedkin.core.aliases import checked_keywords
from fedkin.core.contract import used_clusters
from fedkin.core.errors import FedkinWarning, listing, mid_sentence
from fedkin.core.progress import Followers, callbacks_of
from fedkin.core.seeds import derive_generator
from fedkin.data.inputs import (
    ClientInput,
    as_given,
    federation_input,
    holds_several,
    is_named,
    labels_beside,
    named_data,
)
from fedkin.data.preparation import Preparation
from fedkin.engines.local import one_thread
from fedkin.estimators.clients import (
    ByClient,
    ClassLabels,
    NumbersByClient,
    check_kind,
    clients_of,
    data_and_labels,
    encoded,
    fitted_position,
    is_position,
    labelled_data,
    notes_on_clients,
    read_labels,
    without_labels,
)
from fedkin.estimators.estimator import prepared_samples, warn_of_missing, warn_of_questions
from fedkin.estimators.fitting import (
    FitHooks,
    HeldOut,
    Metric,
    Samples,
    by_client,
    held_out_of,
    own_metrics,
    split_off,
)
from fedkin.estimators.forgetting_fit import ForgettingEstimator
from fedkin.estimators.parameters import ATTRIBUTES_OF_CLIENTS
from fedkin.estimators.training import (
    TRAINING_KINDS,
    ModuleOrName,
    TrainingOptions,
    architecture_of,
    loss_function,
    own_options,
)
from fedkin.experiment.terminal import fewer_clusters
from fedkin.nn.modules import Classifier, LogitsError

# Predictions of estimators that cluster clients: classes of samples, and clusters of unseen clients.


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
        labels = read_labels(data.y, len(predicted), NEW)
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


_SPLITS = {"eval": "test", "validation": "validation"}
"""What the arguments of `fit` are called in metrics."""


class ClientClusterer(ClientPredictor):
    """Base class of estimators that cluster clients with labelled samples and train a model for each cluster.

    `module` may also be a torch module, its class, or a function that makes one: of ``(shape, classes)``, the shape of
    a sample and the number of classes, of the number of classes alone, or of nothing. It must give logits
    ``(n, classes)``. Of a torch module only the architecture is used: each fit draws new parameters, by the layers' own
    ``reset_parameters`` and from `random_state`, so that a fit depends on nothing that happened before it and methods
    with several models do not start them all alike. To start from given weights, pass a function that returns a copy of
    them; `IFCA` then takes ``start="kmeans"``.

    `optimizer` may also be a class of ``torch.optim`` or a ``partial`` of one, an optimiser, whose class and settings
    are taken, or a function from parameters to an optimiser; clients begin each round with a new one. It has the
    learning rate that it was given, or else `learning_rate`. Plain SGD and Adam by their names are faster.

    Attributes
    ----------
    client_labels_ : ndarray of int64, (n_clients,)
        Cluster of each client, in the order of `client_names_`; -1 if it never took part, or not since its cluster was
        split, or is in `missing_`. Also by the client's name, ``client_labels_["north"]``; a number is a position.
    clusters_ : dict of str to int
        The same by the client's name.
    memberships_ : ndarray of float32, (n_clients, n_clusters)
        Membership of each client in each cluster, rows summing to 1; only of methods with soft clusters. A client
        then predicts with all models, weighted by membership; `client_labels_` are the clusters of highest membership.
    models_ : list of nn.Module
        Models from prepared samples to logits, one per cluster, in evaluation mode. Samples are prepared by
        ``preparation_.apply(x)``, which takes a DataFrame, an array or a tensor:
        ``models_[0](preparation_.apply(df))``. They are copies: changes to them do not change what `predict` returns.
    classes_ : ndarray, (n_classes,)
        All clients' labels, sorted; the order of logits and probabilities.
    n_clusters_ : int
        Number of clusters; where it is given, clusters that no client chose are included.
    metrics_ : DataFrame
        Values and scores of every round, a row for each: ``round``, ``client``, ``cluster``, ``split``, ``metric``,
        ``value``.
    records_ : list of dict
        One entry per round as the method recorded it: loss, clusters, labels and so on, with bytes sent and received so
        far.
    """

    _clusters = "clients"
    _elsewhere: ClassVar[Mapping[str, str]] = ATTRIBUTES_OF_CLIENTS
    _kinds: ClassVar[Mapping[str, Any]] = {"module": ModuleOrName, **TRAINING_KINDS}
    _more: ClassVar[type[Any] | None] = TrainingOptions

    @checked_keywords
    def fit(
        self, clients: Any, y: Any = None, *, eval: Any = None, validation: Any = None,
        metrics: Mapping[str, Metric] | Sequence[Metric] | Metric | None = None, callbacks: Followers = (),
    ) -> Self:  # fmt: skip
        """Find the clusters, and train their models.

        Warns (`fedkin.FedkinWarning`) once if something looks wrong in the data, which are used as they are, if the
        method doubts its clusters, and of clients that have no part in the result.

        Parameters
        ----------
        clients : sequence, dict, str or Path, or FederatedDataset
            The clients, in a list, in a dict by name, as a table divided by ``groupby``, or as a folder with one file
            each; or a ``FederatedDataset`` of
            Flower's with a partitioner, or a partitioner with its data. Each is a pair ``(x, y)``, a DataFrame or a
            file with a column of labels, a dict of ``x`` and ``y``, a torch ``Dataset`` or ``DataLoader`` of pairs, a
            Hugging Face ``Dataset``, or samples alone, with their labels in `y`. Samples are ``(n, features)`` or
            images ``(n, height, width)`` or ``(n, channels, height, width)``; labels are one per sample: integers,
            which may leave gaps, booleans or strings.
        y : str, sequence or dict, optional
            The name of the column of labels; or one array of labels per client, in order or by name. By default labels
            are in the pairs, or in the first column called ``label``, ``labels``, ``class``, ``target`` or ``y``.
        eval : float, or as clients, optional
            Labelled samples that clients do not train on, of all or some clients, by name, or of as many in a list; one
            data set for all; ``(x, y)`` as `clients` and `y`; or a fraction of each client's samples, in (0, 1), which
            is then held out of training. After each round the model of every client's cluster is evaluated on the
            client's own samples, see `metrics_`.
        validation : as eval, optional
            The same for early stopping and model selection.
        metrics : dict of str to callable, or callables, optional
            Additional metrics by name, measured where accuracy is: functions of the true and the predicted labels of a
            client's held-out samples, such as scikit-learn's ``cohen_kappa_score``. Without a dict a function has its
            own name. They are rows of `metrics_`, and
            their means over clients are for callbacks, as ``"validation_NAME"`` on `validation`.
        callbacks : sequence of Callback or callable
            `fedkin.Callback`, such as `fedkin.EarlyStopping`; a function is called with each round's record, a dict.

        Returns
        -------
        self

        Raises
        ------
        FedkinError
            A `ValueError`: if a client's data or a parameter cannot be used.
        """
        given = federation_input(clients, y, seek_labels=True)
        made, classes, names, written = clients_of(given, self._table_options(), self._labels_needed())
        notes, questions = notes_on_clients(made, classes, names)
        made, held_out = self._judging({"eval": eval, "validation": validation}, made, names, given.label, classes)
        measured = own_metrics(metrics, classes, names, bool(held_out))
        architecture = architecture_of(self.module, loss_function(self.loss, len(classes)))
        options = self._hyper_parameters()
        own, recipe = own_options(type(self).__name__, self.get_params())
        options |= own | ({} if architecture is None else {"module": architecture.name})
        try:
            outcome = self._run(made, names, options, FitHooks(held_out, callbacks_of(callbacks), measured))
        except LogitsError as error:
            found = listing([str(name) for name in classes])
            raise FedkinError(f"{error} The labels of all clients have {len(classes)} classes: {found}.") from error
        outcome = outcome.noted([*given.notes, *written, *notes], [*given.notes, *questions])
        warn_of_questions(outcome.preparation, 4)  # the caller of what checks the keywords
        said = [str(entry["warning"]) for entry in outcome.history if "warning" in entry]
        used, wanted = used_clusters([outcome.result["labels"]]), getattr(self, "n_clusters", None)
        for text in [*said, *fewer_clusters(used, wanted, "clients")]:
            warnings.warn(text, FedkinWarning, stacklevel=3)
        self._remember(outcome, made, names)
        warn_of_missing(self.missing_, 4)
        self._architecture, self._recipe, self._seed, self._label = architecture, recipe, outcome.seed, given.label
        self.classes_ = classes
        self.client_labels_ = NumbersByClient(self.result_["labels"].numpy(), names)
        self.clusters_ = dict(zip(names, self.client_labels_.tolist(), strict=True))
        trained = self.result_["models"] if self.result_["module"] else []
        self.models_ = [Classifier.of(self.result_["module"]).module(model) for model in trained]
        if "memberships" in self.result_:
            self.memberships_ = self.result_["memberships"].numpy().copy()
        return self

    def _labels_needed(self) -> bool:
        """Return whether clients must have labels."""
        return True

    def _judging(
        self, given: Mapping[str, Any], clients: list[Client], names: Sequence[str], label: str | None,
        classes: ClassLabels,
    ) -> tuple[list[Client], tuple[HeldOut, ...]]:  # fmt: skip
        """Return the clients without their held-out samples, and the held-out samples."""

        def read(data: ClientInput, where: str) -> Samples:
            y = encoded(read_labels(data.y, len(data.y), where), classes, where)
            return lambda preparation: _fitting(preparation, data, y, where, label), y

        held_out = []
        for entrance, one in given.items():
            split = _SPLITS[entrance]
            if isinstance(one, float | int):
                clients, part = split_off(clients, one, self._drawn_seed(), split, entrance)
                held_out.append(part)
            elif one is not None:
                held_out.append(held_out_of(one, split, entrance, names, label, read))
        return clients, tuple(held_out)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        architecture = getattr(self, "_architecture", None)
        if architecture is not None:  # it may have another name here
            self.result_["module"] = {**self.result_["module"], "name": architecture.name}
        recipe = getattr(self, "_recipe", None)
        if recipe is not None:
            self.result_["training"] = {**self.result_["training"], "recipe": recipe.name}


def _fitting(preparation: Preparation, data: ClientInput, y: Tensor, where: str, label: str | None) -> Tensor:
    """Prepare labelled samples as `fit` did, and check that there are as many as labels; errors begin with `where`."""
    try:
        samples = prepared_samples(preparation, data, where, label)
    except FedkinError as error:
        if where in str(error):
            raise
        raise FedkinError(f"{where} does not fit: {mid_sentence(str(error))}") from error
    if len(samples) != len(y):
        raise FedkinError(f"{where} has {len(samples)} samples and {len(y)} labels; it needs one for each.")
    return samples
