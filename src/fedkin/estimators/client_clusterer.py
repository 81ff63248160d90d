"""Base class of estimators that cluster clients: ``fit`` takes labelled clients, in any form."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from torch import Tensor

from fedkin.core import Client, FedkinError
from fedkin.core.errors import FedkinWarning, listing, mid_sentence
from fedkin.core.keywords import checked_keywords
from fedkin.core.progress import Followers, callbacks_of
from fedkin.core.steps import used_clusters
from fedkin.data.inputs.client_input import ClientInput
from fedkin.data.inputs.federation_input import federation_input
from fedkin.data.preparing.preparation import Preparation
from fedkin.estimators.by_client import NumbersByClient
from fedkin.estimators.client_predictor import ClientPredictor
from fedkin.estimators.estimator import prepared_samples, warn_of_missing, warn_of_questions
from fedkin.estimators.fit_rounds import Following
from fedkin.estimators.held_out import HeldOut, Samples, held_out_of, split_off
from fedkin.estimators.labelled_clients import ClassLabels, clients_of, encoded, notes_on_clients, read_labels
from fedkin.estimators.other_libraries import ATTRIBUTES_OF_CLIENTS
from fedkin.estimators.own_metrics import Metric, own_metrics
from fedkin.estimators.own_training import TRAINING_KINDS, TrainingOptions, loss_function, own_options
from fedkin.estimators.torch_modules import ModuleOrName, architecture_of
from fedkin.experiment.client_remarks import fewer_clusters
from fedkin.nn.classifier import Classifier
from fedkin.nn.modules import LogitsError

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
            outcome = self._run(made, names, options, Following(held_out, callbacks_of(callbacks), measured))
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
