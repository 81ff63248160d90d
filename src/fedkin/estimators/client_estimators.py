"""Estimators that cluster clients, one for each method; `fit` takes labelled clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from fedkin.core import Client, FedkinError
from fedkin.core.errors import checked_keywords
from fedkin.core.runner import Callback
from fedkin.core.seeds import derive_generator
from fedkin.data.inputs import clients_of, split_clients
from fedkin.engines.local import LocalFederation, one_thread
from fedkin.estimators.clients import (
    by_client,
    coded_labels,
    fitted_position,
    is_position,
    labelled_data,
    read_labelled_clients,
)
from fedkin.estimators.estimator import Estimator
from fedkin.estimators.training import ModuleOrName, network_of
from fedkin.nn.modules import Classifier

_DATA = "The data given"


class ClientClusterer(Estimator):
    """Base class of estimators that cluster clients with labelled samples and train a model for each cluster.

    `module` may also be the class of a torch module, or a function that makes one: of ``(shape, classes)``, the shape
    of a sample and the number of classes, of the number of classes alone, or of nothing. It must give logits
    ``(n, classes)``. Each fit draws new parameters from `random_state`; to start from given weights, pass a function
    that returns a copy of them (`IFCA` then takes ``start="kmeans"``).

    Attributes
    ----------
    client_labels_ : ndarray of int64, (n_clients,)
        Cluster of each client, in the order of `client_names_`; -1 if it never took part, or not since its cluster was
        split, or is in `missing_`.
    clusters_ : dict of str to int
        The same by the client's name.
    memberships_ : ndarray of float32, (n_clients, n_clusters)
        Membership of each client in each cluster, rows summing to 1; only of methods with soft clusters. A client
        then predicts with all models, weighted by membership; `client_labels_` are the clusters of highest membership.
    models_ : list of nn.Module
        Models from prepared samples to logits, one per cluster, in evaluation mode:
        ``models_[0](preparation_.apply(x))`` of a DataFrame, an array or a tensor. They are copies: changes to them do
        not change what `predict` returns.
    classes_ : ndarray, (n_classes,)
        All clients' labels, sorted; the order of logits and probabilities.
    n_clusters_ : int
        Number of clusters; where it is given, clusters that no client chose are included.
    """

    _clusters = "clients"
    _types: ClassVar[Mapping[str, Any]] = {"module": ModuleOrName}
    classes_: NDArray[Any]
    client_labels_: NDArray[np.int64]

    @checked_keywords
    def fit(
        self, clients: Any, y: Any = None, *, eval: Any = None, validation: Any = None,
        callbacks: Sequence[Callback] = (),
    ) -> Self:  # fmt: skip
        """Find the clusters, and train their models.

        Parameters
        ----------
        clients : sequence, dict, str or Path, or FederatedDataset
            The clients, in the forms that estimators of samples take, with labels: pairs ``(x, y)``, tables or
            files with a column of labels, data sets of pairs, or samples alone, with their labels in `y`. Labels are
            one per sample: integers, which may leave gaps, booleans or strings.
        y : str, sequence or dict, optional
            The name of the column of labels; or one array of labels per client, in order or by name. By default labels
            are in the pairs, or in the first column called ``label``, ``labels``, ``class``, ``target`` or ``y``.
        eval, validation : as clients, optional
            Labelled samples that clients do not train on, of all or some clients by name, or of as many in a list.
            After each round the model of every client's cluster is evaluated on the client's own samples, see
            `records_`; what is measured on `validation`, for early stopping, begins with ``validation_``.
        """
        inputs = read_labelled_clients(clients, y, self._table_options())
        # At every fit again, as what a function makes may have changed.
        network = None if isinstance(self.module, str) else network_of(self.module)
        named = {} if network is None else {"module": network.name}
        self._run(inputs, named, {"eval": eval, "validation": validation}, callbacks)
        self._registered, self.classes_ = (network,), inputs.classes
        return self

    def _take(
        self, method: Any, fed: LocalFederation, state: Any, result: dict[str, Any], clients: Sequence[Client]
    ) -> None:
        super()._take(method, fed, state, result, clients)
        self.client_labels_ = result["labels"].numpy().copy()
        self.clusters_ = dict(zip(self.client_names_, self.client_labels_.tolist(), strict=True))
        self.models_ = [Classifier.of(result["module"]).module(model) for model in result["models"]]
        self.__dict__.pop("memberships_", None)
        if "memberships" in result:
            self.memberships_ = result["memberships"].numpy().copy()

    def _members(self) -> pd.DataFrame:
        return pd.DataFrame({"client": self.client_names_, "cluster": self.client_labels_})

    @checked_keywords
    def predict(self, x: Any, client: int | str | None = None, cluster: int | None = None) -> NDArray[Any]:
        """Predict the classes of new samples ``(n,)``, as labels of `fit`, by the model of a client or of a cluster.

        Parameters
        ----------
        x : array-like
            One client's samples in any form that `fit` takes; labels in them are ignored.
        client : int or str, optional
            A client of `fit`, by its position (a number) or its name (a text). With `Sattler` its model may be a cached
            one that it chose itself.
        cluster : int, optional
            A cluster, such as `assign` returns for an unseen client. With a single cluster, neither is needed.
        """
        check_is_fitted(self, "result_")
        logits = self._logits(self._prepared(x, _DATA), client, cluster)
        labels: NDArray[Any] = self.classes_[logits.argmax(1).numpy()]
        return labels

    def predict_proba(self, x: Any, client: int | str | None = None, cluster: int | None = None) -> Any:
        """Predict the probabilities ``(n, n_classes)`` of the classes in `classes_`; otherwise as `predict`."""
        check_is_fitted(self, "result_")
        return self._logits(self._prepared(x, _DATA), client, cluster).double().softmax(1).numpy()

    @checked_keywords
    def score(self, x: Any, y: Any = None, client: int | str | None = None, cluster: int | None = None) -> float:
        """Return the accuracy on labelled samples, in [0, 1], of one client, as in `predict`, or the mean over several.

        `x` may also be the samples of several clients of `fit`, in a dict by name or of all of them in a list, each by
        its own model. `y` are one client's labels, or the column of all, where `x` is no pair.
        """
        check_is_fitted(self, "result_")
        if client is None and cluster is None and split_clients(x) is not None:
            data = by_client(clients_of(x, "score"), self.client_names_, "score")
            return float(np.mean([self.score(each, y, i) for i, each in data.items()]))
        samples, read = labelled_data(self.preparation_, x, y, _DATA, self._label)
        predicted = self._logits(samples, client, cluster).argmax(1)
        return float((predicted == coded_labels(read, self.classes_, _DATA)).double().mean())

    @checked_keywords
    def assign(self, x: Any, y: Any = None) -> int:
        """Assign an unseen client (a newcomer) to a cluster, by its labelled samples, which are as a client's in `fit`.

        The cluster is that whose model has the lowest loss on them. OCFL, Sattler and Hierarchical instead train as the
        clients did when they were clustered, and compare the update with theirs; Embedding and LADD use one message
        such as the clients sent. Labels must be among `classes_`; LADD's styles need none. The fitted model does not
        change.
        """
        check_is_fitted(self, "result_")
        samples, read = labelled_data(self.preparation_, x, y, _DATA, self._label)
        labels = coded_labels(read, self.classes_, _DATA) if self._method.assigns_by_labels(self.result_) else None
        newcomer = Client.unseen(samples, labels, derive_generator(self._run_seed, "assign"))
        with self._on_device(), one_thread():
            return int(self._method.assign(self.result_, newcomer))

    def _logits(self, samples: Tensor, client: int | str | None, cluster: int | None) -> Tensor:
        """Return logits of prepared samples by the model of the ``client`` or ``cluster``, once it is known which."""
        count = len(self.result_["models"])
        if client is None and cluster is None and count == 1:
            cluster = 0
        if (client is None) == (cluster is None):
            raise FedkinError(f"Say whose model is to be used, by client= or by cluster=; there are {count} clusters.")
        if client is None and not is_position(cluster, count):
            raise FedkinError(f"cluster is {cluster!r}; allowed: 0 to {count - 1}, the clusters of fit.")
        whose = {"cluster": cluster} if client is None else {"client": fitted_position(client, self.client_names_)}
        if client is not None and self.client_labels_[whose["client"]] < 0:
            raise FedkinError(f"The cluster of {client!r} is not known; find it with assign(x, y), and give cluster=.")
        with self._on_device():
            logits: Tensor = self._method.logits_of(self.result_, samples, **whose)
            return logits


class Embedding(ClientClusterer, method="embedding"):
    """Cluster clients before training by randomised bits that an encoder makes of their data (Prigent et al. 2024).

    Each client sends a few bits once. With ``message="sums"`` clients send sums with noise instead, which guarantee
    ``epsilon`` for one sample.

    Attributes
    ----------
    embeddings_ : ndarray of uint8, (n_clients, n_bits)
        Last message of each client, as it was sent, flips included. With sums it is float32: for each class the sum and
        half the count. What they cost is under ``clustering`` in `records_`.
    """

    def _take(
        self, method: Any, fed: LocalFederation, state: Any, result: dict[str, Any], clients: Sequence[Client]
    ) -> None:
        super()._take(method, fed, state, result, clients)
        self.embeddings_ = state.messages.numpy().copy()


class LADD(ClientClusterer, method="ladd"):
    """Cluster clients before training by the style of their images (LADD; Shenaj et al. 2023).

    A style consists of the amplitudes of low frequencies. A baseline: styles are sent as they are.
    """


class PACFL(ClientClusterer, method="pacfl"):
    """Cluster clients before training by principal angles between their data subspaces (PACFL; Vahidian et al. 2023).

    Singular vectors of each class are sent as they are.
    """


class FedDAG(ClientClusterer, method="feddag"):
    """Cluster clients once by data and updates together; clusters learn from each other (FedDAG; Pramanik et al. 2026).

    Singular vectors and numbers of samples of each class are sent as they are.
    """


class FLUX(ClientClusterer, method="flux"):
    """Cluster clients once by moments of their data's latents, after a few rounds (FLUX; Fenoglio et al. 2025).

    It can also assign a client without labels.
    """


class FedDrift(ClientClusterer, method="feddrift"):
    """Find clusters of clients again in every time step as their data drift (FedDrift; Jothimurugesan et al. 2023)."""


class FedAvg(ClientClusterer, method="fedavg"):
    """Train one model for all clients (FedAvg; McMahan et al. 2017), with FedProx's term if `proximal` is above 0."""


class FedOpt(ClientClusterer, method="fedopt"):
    """Train one model for all clients with an adaptive optimiser at the server (FedOpt; Reddi et al. 2021)."""


class Local(ClientClusterer, method="local"):
    """Train a model for each client on its own data alone: a baseline."""


class Declared(ClientClusterer, method="declared"):
    """Train a model for each group that clients declare, such as a region or a kind of device: a baseline."""


class FedRep(ClientClusterer, method="fedrep"):
    """Train one representation for all clients and a head for each (FedRep; Collins et al. 2021): a baseline."""


class Ditto(ClientClusterer, method="ditto"):
    """Train a model for each client that stays near a common one (Ditto; Li et al. 2021): a baseline."""


class CLoVE(ClientClusterer, method="clove"):
    """Cluster clients in every round by their losses under `n_clusters` models (CLoVE; Bhatia et al. 2025)."""


class FedRC(ClientClusterer, method="fedrc"):
    """Train soft clusters that separate clients only by concept shift (FedRC; Guo et al. 2024).

    Concept shift means that the same classes look different or are labelled differently. `memberships_` are each
    client's memberships in the clusters; a client predicts with all models, weighted by them.
    """


class CFLGP(ClientClusterer, method="cfl-gp"):
    """Cluster clients by their updates of the same models, accumulated over rounds (CFL-GP; Kim et al. 2024)."""


class FeSEM(ClientClusterer, method="fesem"):
    """Cluster clients by k-means of their models, round by round (FeSEM; Long et al. 2023)."""


class FedGroup(ClientClusterer, method="fedgroup"):
    """Cluster clients once by the cosines of their updates with main directions (FedGroup; Duan et al. 2021)."""


class IFCA(ClientClusterer, method="ifca"):
    """Train `n_clusters` models; in every round each client trains the one of lowest loss (IFCA; Ghosh et al. 2020)."""


class GradientLoss(ClientClusterer, method="gradient-loss"):
    """Train `n_clusters` models, among which clients choose by loss and gradient together (Lin et al.)."""


class OCFL(ClientClusterer, method="ocfl"):
    """Find clusters of clients and their number once, as soon as the clients' updates diverge (OCFL; Zuziak et al.)."""


class Sattler(ClientClusterer, method="sattler"):
    """Split clusters of clients recursively where one model no longer fits all (CFL; Sattler et al. 2020)."""


class Hierarchical(ClientClusterer, method="hierarchical"):
    """Cluster clients once by a dendrogram of their updates, cut at a given height (FL+HC; Briggs et al. 2020)."""
