"""Estimators that cluster clients before training, by one message from each."""

from __future__ import annotations

from typing import Any, cast

from fedkin.estimators.client_clusterer import ClientClusterer
from fedkin.estimators.estimator import FitOutcome
from fedkin.estimators.labelled_clients import perhaps_labelled
from fedkin.methods.clients import ladd
from fedkin.methods.clients.embedding import embedding


class Embedding(ClientClusterer, method=embedding.EmbeddingMethod):
    """Cluster clients before training, by a few randomised bits that each sends once (Prigent et al. 2024).

    See `ClientClusterer` for what all these estimators have in common, and
    `fedkin.methods.clients.embedding.embedding.EmbeddingMethod` and `fedkin.methods.clients.one_shot.one_shot.OneShotMethod` for all
    parameters. The first to try.

    With ``form="prototypes"`` clients need no labels: `fit` then also takes a list of samples `x` alone. What it finds
    without labels are clusters; `models_` and `classes_` are empty, and `predict` refuses.

    Attributes
    ----------
    embeddings_ : ndarray of uint8, (n_clients, n_bits)
        The last message of each client, zeros and ones as they were sent, flips included; prototypes are in the order
        in which the server matched them.
    epsilon_ : float
        What one whole message costs of a client's privacy at most, by pure differential privacy; infinite without
        flips. Training, of the encoder too, is not covered by it.
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

    def _pairs(self, clients: Any) -> list[tuple[Any, Any]]:
        return perhaps_labelled(clients) if self.form == "prototypes" else super()._pairs(clients)

    def _remember_more(self, outcome: FitOutcome) -> None:
        told = next(entry["clustering"] for entry in outcome.history if "clustering" in entry)
        self.embeddings_ = cast(embedding.EmbeddingState, outcome.state).messages.numpy().copy()
        self.epsilon_ = float(told["epsilon"])
        self.separable_ = bool(told["separable"])


class LADD(ClientClusterer, method=ladd.LADDMethod):
    """Cluster clients before training, by the style of their images: amplitudes of low frequencies (Shenaj et al. 2023).

    See `ClientClusterer`, and `fedkin.methods.clients.ladd.LADDMethod` for its parameters. A baseline: styles are sent
    as they are.
    """
