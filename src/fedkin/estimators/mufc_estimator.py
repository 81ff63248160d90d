"""Estimator of MUFC, which can forget samples after `fit`."""

from __future__ import annotations

from typing import Any, cast

import torch
from numpy.typing import ArrayLike

from fedkin.core import FedkinError
from fedkin.engines.local import one_thread
from fedkin.estimators.sample_clusterer import SampleClusterer
from fedkin.methods.samples import mufc


class MUFC(SampleClusterer, method=mufc.MUFCMethod):
    """Cluster samples in one round, so that some of them can be forgotten exactly (MUFC; Pan et al. 2023).

    `forget` removes samples, or a client: the clusters then have the distribution of those of a fit without them.

    Attributes
    ----------
    certificates_ : list of dict
        Certificate of each call of `forget`. With ``rows``, by client the number of forgotten rows, and how many of its
        centroids were ``kept`` and ``drawn`` again; the number of the ``request``, and of remaining ``samples``.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> import fedkin
    >>> x, y = make_blobs([60, 60, 60], n_features=8, random_state=0)
    >>> clients = [x[y != 2], x[y != 0], x[y != 1]]
    >>> model = fedkin.MUFC(n_clusters=3, random_state=0).fit(clients)
    >>> certificate = model.forget(1, clients, rows=[0, 5])
    >>> certificate["clients"]["1"]["rows"], certificate["samples"]
    (2, 358)
    >>> model.labels_[1][:6].tolist().count(-1)
    2
    """

    def _forget_rows(self, at: int, data: Any, y: Any, rows: ArrayLike) -> dict[str, Any]:
        clients = self._kept_clients(data, y)
        wanted = self._rows(rows, len(clients[at]))
        method = cast(mufc.MUFCMethod, self._made())
        fed = self._federation(clients)
        fed.away = self._absent
        with one_thread():
            state, done = method.unlearned(fed, cast(mufc.MUFCState, self._state), {at: wanted})
            self._take(method, state, clients, fed)
        return {"client": self.client_names_[at], "way": "exact", **done}

    def _rows(self, rows: ArrayLike, count: int) -> torch.Tensor:
        found = torch.as_tensor(rows)
        if found.ndim != 1 or found.is_floating_point() or found.dtype == torch.bool or not len(found):
            raise FedkinError("rows should be a list of one or more row numbers.")
        if int(found.min()) < 0 or int(found.max()) >= count:
            raise FedkinError(f"rows are from {int(found.min())} to {int(found.max())}; allowed: 0 to {count - 1}.")
        distinct: torch.Tensor = found.long().unique()
        return distinct
