"""Estimators that cluster clients, one for each method."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from fedkin.core import Client
from fedkin.estimators.by_client import of_each
from fedkin.estimators.client_clusterer import ClientClusterer
from fedkin.estimators.client_predictor import NEW
from fedkin.estimators.estimator import FitOutcome
from fedkin.methods.clients import (
    cfl_gp,
    clove,
    fedavg,
    fedgroup,
    fedopt,
    fedrc,
    fesem,
    flux,
    gradient_loss,
    hierarchical,
    ifca,
    ladd,
    ocfl,
    pacfl,
    sattler,
)
from fedkin.methods.clients.embedding import embedding
from fedkin.methods.clients.embedding.embedding_state import EmbeddingState
from fedkin.methods.clients.feddrift import feddrift
from fedkin.nn.encoder import Encoder


class Embedding(ClientClusterer, method=embedding.EmbeddingMethod):
    """Cluster clients before training, by a few randomised bits that each sends once (Prigent et al. 2024).

    With ``message="sums"`` clients send sums with noise instead, which guarantee ``epsilon`` for one sample.
    With ``form="prototypes"`` clients need no labels: `fit` then also takes a list of samples `x` alone. What it finds
    without labels are clusters; `models_` and `classes_` are empty, and `predict` refuses.

    Attributes
    ----------
    embeddings_ : ndarray of uint8, (n_clients, n_bits)
        The last message of each client, zeros and ones as they were sent, flips included; prototypes are in the order
        in which the server matched them. Of sums float32, for each class the sum and half the count.
    epsilon_ : float
        Upper bound of what one whole message costs of a client's privacy, by pure differential privacy; infinite
        without flips. Of sums, the epsilon of one sample, with `delta`. Training, of the encoder too, is not covered.
    separable_ : bool
        False where messages show no clusters; all clients are in one then.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> import fedkin
    >>> x, y = load_digits(return_X_y=True)
    >>> clients = [(x[i::6], y[i::6] if i < 3 else 9 - y[i::6]) for i in range(6)]
    >>> model = fedkin.Embedding(rounds=8, random_state=0).fit(clients)
    >>> model.client_labels_.tolist()
    [0, 0, 0, 1, 1, 1]
    >>> model.embeddings_.shape
    (6, 200)
    >>> model.assign(x[:200], 9 - y[:200])
    1
    """

    def transform(self, x: Any) -> Any:
        """Codes of samples by the encoder that the clients trained together, or that came from a file.

        A function that `KinGraph` takes as `features`, for one: ``KinGraph(features=model.transform)``.

        Returns
        -------
        array, list or dict of array
            float32 ``(n, width)`` for one array of samples; a list or dict of them for several clients.

        Raises
        ------
        FedkinError
            If the samples cannot be used, or differ in shape from those of `fit` or lack their columns.
        """
        check_is_fitted(self, "result_")
        return of_each(x, self._codes, NEW)

    def _codes(self, x: Any, where: str) -> NDArray[np.float32]:
        samples = self._prepared(x, where)
        with self._on_device():
            return Encoder.of(self.result_["encoder"]).codes(self.result_["vector"], samples).numpy()

    def _labels_needed(self) -> bool:
        return bool(self.form != "prototypes")

    def _remember(self, outcome: FitOutcome, clients: Sequence[Client], names: Sequence[str]) -> None:
        super()._remember(outcome, clients, names)
        found = next(entry["clustering"] for entry in outcome.history if "clustering" in entry)
        self.embeddings_ = cast(EmbeddingState, outcome.state).messages.numpy().copy()
        self.epsilon_ = float(found["epsilon"])
        self.separable_ = bool(found["separable"])


class LADD(ClientClusterer, method=ladd.LADDMethod):
    """Cluster clients before training, by the style of their images (Shenaj et al. 2023).

    A style is made of the amplitudes of low frequencies. A baseline: styles are sent as they are. See `ClientClusterer`
    for the attributes of all these estimators.
    """


class PACFL(ClientClusterer, method=pacfl.PACFLMethod):
    """Cluster clients before training, by the principal angles between their data's subspaces (Vahidian et al. 2023).

    Singular vectors of each class are sent as they are.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> import fedkin
    >>> x, y = load_digits(return_X_y=True)
    >>> clients = [(x[i::6], y[i::6] if i < 3 else 9 - y[i::6]) for i in range(6)]
    >>> model = fedkin.PACFL(rounds=2, random_state=0).fit(clients)
    >>> model.client_labels_.tolist()
    [0, 0, 0, 1, 1, 1]
    >>> model.assign(x[:200], 9 - y[:200])
    1
    """


class FLUX(ClientClusterer, method=flux.FLUXMethod):
    """Cluster clients once, by moments of their data's latents after a few rounds (Fenoglio et al. 2025).

    A client without labels is assigned, too.
    """


class FedDrift(ClientClusterer, method=feddrift.FedDriftMethod):
    """Cluster clients anew in every time step, as they drift, and find how many (Jothimurugesan et al. 2023)."""


class FedAvg(ClientClusterer, method=fedavg.FedAvgMethod):
    """One model for all clients (McMahan et al. 2017), with FedProx's term if `proximal` is above 0; no clusters."""


class FedOpt(ClientClusterer, method=fedopt.FedOptMethod):
    """One model for all clients, its server an adaptive optimiser (Reddi et al. 2021); no clusters."""


class Local(ClientClusterer, method=fedavg.LocalMethod):
    """Every client alone: a cluster and a model for each. A baseline."""


class CLoVE(ClientClusterer, method=clove.CLoVEMethod):
    """Cluster clients in every round by their losses under `n_clusters` models (Bhatia et al. 2025)."""


class FedRC(ClientClusterer, method=fedrc.FedRCMethod):
    """`n_clusters` soft clusters that part clients only where the same classes look different (Guo et al. 2024).

    `memberships_` says to what part each client belongs to each; it predicts with all models, weighted so.
    """


class CFLGP(ClientClusterer, method=cfl_gp.CFLGPMethod):
    """Cluster clients by their updates of the same models, accumulated over rounds (Kim et al. 2024)."""


class FeSEM(ClientClusterer, method=fesem.FeSEMMethod):
    """Move `n_clusters` models like the centres of k-means over clients' models (Long et al. 2023)."""


class FedGroup(ClientClusterer, method=fedgroup.FedGroupMethod):
    """Cluster clients once by the cosines of their updates with the main directions (Duan et al. 2021)."""


class IFCA(ClientClusterer, method=ifca.IFCAMethod):
    """`n_clusters` models, of which each client in every round trains the one that fits it best (Ghosh et al. 2020)."""


class GradientLoss(ClientClusterer, method=gradient_loss.GradientLossMethod):
    """`n_clusters` models, among which clients choose by loss and gradient together (Lin et al.)."""


class OCFL(ClientClusterer, method=ocfl.OCFLMethod):
    """Find clusters of clients once, as soon as their updates diverge, and how many (Zuziak et al.).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> import fedkin
    >>> x, y = load_digits(return_X_y=True)
    >>> low, high = (x[y < 5], y[y < 5]), (x[y >= 5], y[y >= 5])
    >>> clients = [(x[i::3], y[i::3]) for x, y in (low, high) for i in range(3)]
    >>> model = fedkin.OCFL(rounds=8, random_state=0).fit(clients)
    >>> model.client_labels_.tolist()
    [0, 0, 0, 1, 1, 1]
    >>> model.assign(x[y == 7], y[y == 7])
    1
    >>> model.predict(x[:4], client=0).tolist()
    [0, 1, 2, 3]
    """


class Sattler(ClientClusterer, method=sattler.SattlerMethod):
    """Split clusters of clients in two, recursively, where one model no longer suits all (Sattler et al. 2020)."""


class Hierarchical(ClientClusterer, method=hierarchical.HierarchicalMethod):
    """Cluster clients once, by a tree of their updates cut at a given height (Briggs et al. 2020)."""
