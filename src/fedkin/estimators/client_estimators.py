"""Estimators that cluster clients, one for each method."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from fedkin.core import Client
from fedkin.estimators.client_clusterer import NEW, ClientClusterer
from fedkin.estimators.clients import map_clients
from fedkin.estimators.estimator import FitOutcome
from fedkin.methods.clients import (
    cfl_gp,
    clove,
    fedavg,
    feddrift,
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
from fedkin.methods.clients.embedding.embedding import EmbeddingState
from fedkin.nn.encoder import Encoder


class Embedding(ClientClusterer, method=embedding.EmbeddingMethod):
    """Cluster clients before training by randomised bits that an encoder makes of their data (Prigent et al. 2024).

    Each client sends a few bits once. With ``message="sums"`` clients send sums with noise instead, which guarantee
    ``epsilon`` for one sample. With ``form="prototypes"`` clients need no labels: `fit` then also takes a list of
    samples `x` alone. Without labels only clusters are found: `models_` and `classes_` are empty, and `predict`
    refuses.

    Attributes
    ----------
    embeddings_ : ndarray of uint8, (n_clients, n_bits)
        Last message of each client, as it was sent, flips included; prototypes are in the order in which the server
        matched them. With sums it is float32: for each class the sum and half the count.
    epsilon_ : float
        Epsilon of a whole message (an upper bound) by pure differential privacy; infinite without flips. With sums, the
        epsilon of one sample, with `delta`. Training, also that of the encoder, is not covered.
    separable_ : bool
        Whether messages show clusters; if not, all clients are in one.

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
        """Encode samples by the encoder that the clients trained together, or that came from a file.

        `KinGraph` can use it as features: ``KinGraph(features=model.transform)``.

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
        return map_clients(x, self._codes, NEW)

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
    """Cluster clients before training by the style of their images (LADD; Shenaj et al. 2023).

    A style consists of the amplitudes of low frequencies. A baseline: styles are sent as they are. See
    `ClientClusterer` for the attributes of all these estimators.
    """


class PACFL(ClientClusterer, method=pacfl.PACFLMethod):
    """Cluster clients before training by principal angles between their data subspaces (PACFL; Vahidian et al. 2023).

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
    """Cluster clients once by moments of their data's latents, after a few rounds (FLUX; Fenoglio et al. 2025).

    It can also assign a client without labels.
    """


class FedDrift(ClientClusterer, method=feddrift.FedDriftMethod):
    """Find clusters of clients again in every time step as their data drift (FedDrift; Jothimurugesan et al. 2023)."""


class FedAvg(ClientClusterer, method=fedavg.FedAvgMethod):
    """Train one model for all clients (FedAvg; McMahan et al. 2017), with FedProx's term if `proximal` is above 0."""


class FedOpt(ClientClusterer, method=fedopt.FedOptMethod):
    """Train one model for all clients with an adaptive optimiser at the server (FedOpt; Reddi et al. 2021)."""


class Local(ClientClusterer, method=fedavg.LocalMethod):
    """Train a model for each client on its own data alone: a baseline."""


class CLoVE(ClientClusterer, method=clove.CLoVEMethod):
    """Cluster clients in every round by their losses under `n_clusters` models (CLoVE; Bhatia et al. 2025)."""


class FedRC(ClientClusterer, method=fedrc.FedRCMethod):
    """Train soft clusters that separate clients only by concept shift (FedRC; Guo et al. 2024).

    Concept shift means that the same classes look different or are labelled differently. `memberships_` are each
    client's memberships in the clusters; a client predicts with all models, weighted by them.
    """


class CFLGP(ClientClusterer, method=cfl_gp.CFLGPMethod):
    """Cluster clients by their updates of the same models, accumulated over rounds (CFL-GP; Kim et al. 2024)."""


class FeSEM(ClientClusterer, method=fesem.FeSEMMethod):
    """Cluster clients by k-means of their models, round by round (FeSEM; Long et al. 2023)."""


class FedGroup(ClientClusterer, method=fedgroup.FedGroupMethod):
    """Cluster clients once by the cosines of their updates with main directions (FedGroup; Duan et al. 2021)."""


class IFCA(ClientClusterer, method=ifca.IFCAMethod):
    """Train `n_clusters` models; in every round each client trains the one of lowest loss (IFCA; Ghosh et al. 2020)."""


class GradientLoss(ClientClusterer, method=gradient_loss.GradientLossMethod):
    """Train `n_clusters` models, among which clients choose by loss and gradient together (Lin et al.)."""


class OCFL(ClientClusterer, method=ocfl.OCFLMethod):
    """Find clusters of clients and their number once, as soon as the clients' updates diverge (OCFL; Zuziak et al.).

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
    """Split clusters of clients recursively where one model no longer fits all (CFL; Sattler et al. 2020)."""


class Hierarchical(ClientClusterer, method=hierarchical.HierarchicalMethod):
    """Cluster clients once by a dendrogram of their updates, cut at a given height (FL+HC; Briggs et al. 2020)."""
