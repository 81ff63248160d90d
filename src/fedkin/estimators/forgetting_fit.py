"""Forget a client of a fitted estimator: exactly where the method can, else by fitting again without it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from fedkin.core import Client, FedkinError, Method, State
from fedkin.core.method import CanForget
from fedkin.core.runner import do_step
from fedkin.engines.local import LocalFederation, one_thread
from fedkin.estimators.clients import fitted_position
from fedkin.estimators.estimator import Estimator, FitOutcome
from fedkin.experiment.config import checked_method
from fedkin.experiment.forgetting import kept_of

_NOT_COVERED = [
    "copies of the model, such as pickles, and what it has predicted",
    "the data of the client",
    "what the models before and after show together",
]
_SPACING = 1000
"""Exchanges between two requests to forget, so that no client draws the same numbers twice."""


class ForgettingEstimator(Estimator):
    """Base class of estimators that can forget clients after `fit`.

    Attributes
    ----------
    certificates_ : list of dict
        Certificate of each call of `forget`.
    """

    certificates_: list[dict[str, Any]]

    def forget(
        self, client: int | str, X: Any, y: Any = None, *, rows: ArrayLike | None = None,  # noqa: N803
        retrain: bool = False, **fit: Any,
    ) -> dict[str, Any]:  # fmt: skip
        """Forget a client; the model becomes one without it, and its samples get the label -1.

        Where the method stores each client's contribution separately, clusters are formed again from those of the
        others. Otherwise the model is fitted again without the client, which costs as much as `fit`. Positions of
        clients stay, and the seed is that of `fit`.

        Parameters
        ----------
        client : int or str
            By position (a number) or name (a text).
        X, y : as in `fit`
            The same clients with the same samples, since an estimator keeps none.
        rows : array-like of int, optional
            Rows of the samples to forget, for methods that can forget single samples; by default the whole client.
        retrain : bool
            Whether to fit again even where the method can leave the client out exactly.
        **fit
            Further arguments of `fit`, if it is fitted again.

        Returns
        -------
        dict
            The certificate, also appended to `certificates_`: the ``client``, the ``way``, ``"exact"`` or
            ``"retrained"``, what of it the model ``still_holds``, and what is ``not_covered``.

        Raises
        ------
        FedkinError
            A `ValueError`: if the clients are not those of `fit`, there is no such client, it is forgotten already,
            nobody would be left, or the method cannot forget single samples.
        """
        check_is_fitted(self, "result_")
        at = fitted_position(client, self.client_names_)
        if at in self._forgotten:
            raise FedkinError(f"Client '{self.client_names_[at]}' is forgotten already.")
        if rows is not None:
            certificate = self._forget_rows(at, X, y, rows)
        else:
            certificate = self._forget_client(at, X, y, retrain, fit)
        self.certificates_.append(certificate)
        return certificate

    def _forget_client(self, at: int, data: Any, y: Any, retrain: bool, fit: dict[str, Any]) -> dict[str, Any]:
        forgotten = self._forgotten | {at}
        if len(forgotten) == len(self.client_names_):
            raise FedkinError(f"There is no client but '{self.client_names_[at]}'; nothing would be left.")
        method: Method[Any] = self._made()
        state = None if retrain or not isinstance(method, CanForget) else method.without(self._state, {at})
        clients = None if state is None else self._kept_clients(data, y)
        if clients is None or state is None:
            self._fit_without(forgotten, data, y, fit)
        else:
            self._again(method, state, clients, forgotten)
        return {
            "client": self.client_names_[at],
            "way": "retrained" if clients is None else "exact",
            "still_holds": [] if clients is None else kept_of(method, self.preparation_),
            "not_covered": list(_NOT_COVERED),
        }

    def _fit_without(self, forgotten: frozenset[int], data: Any, y: Any, fit: dict[str, Any]) -> None:
        earlier = self.certificates_
        self._leaving = (forgotten, self._run_seed)
        try:
            self.fit(data, y, **fit)
        finally:
            self.__dict__.pop("_leaving", None)
        self.certificates_ = earlier

    def _again(self, method: Method[Any], state: State, clients: list[Client], forgotten: frozenset[int]) -> None:
        """Repeat the last step with the remaining clients."""
        with self._on_device(), one_thread():
            fed = self._federation(clients)
            fed.leave(self._absent | forgotten)
            state, record = do_step(method, fed, state)
            self._forgotten = forgotten
            self._take(method, state, clients, fed)
        self.records_ = [*self.records_[:-1], {**self.records_[-1], **record.values}]

    def _forget_rows(self, at: int, data: Any, y: Any, rows: ArrayLike) -> dict[str, Any]:
        raise FedkinError(f"{type(self).__name__} cannot forget single samples; forget the client, or use MUFC.")

    @property
    def _absent(self) -> set[int]:
        """The clients without a part in the result: those forgotten, and those missing."""
        return {*self._forgotten, *map(self.client_names_.index, self.missing_)}

    def _federation(self, clients: Sequence[Client]) -> LocalFederation:
        """Build a federation of the clients of `fit`, with other random numbers than before."""
        fed = LocalFederation(clients, self._run_seed, names=self.client_names_)
        fed.exchange = _SPACING * (len(self.certificates_) + 1)
        return fed

    def _made(self, **wanted: Any) -> Method[Any]:
        """Build the method of `fit`, with the hyper-parameters in `wanted` replaced."""
        method: Method[Any] = checked_method(self._method, {**self._hyper_parameters(), **wanted})
        return method

    def _remember(self, outcome: FitOutcome, clients: Sequence[Client], names: Sequence[str]) -> None:
        super()._remember(outcome, clients, names)
        self._run_seed, self._forgotten = outcome.seed, outcome.forgotten
        self.certificates_ = []
        if issubclass(self._method, CanForget):
            self._state = outcome.state
            self._private = [dict(client.state) for client in clients]

    def _take(self, method: Method[Any], state: Any, clients: Sequence[Client], fed: LocalFederation) -> None:
        """Set the attributes from a new state, and store what the clients remember after it."""
        self._state = state
        self._private = [{} if one.id in self._absent else dict(one.state) for one in clients]
        self.result_ = method.result(state)
        self.n_clusters_ = int(self.result_["n_clusters"])

    def _kept_clients(self, data: Any, y: Any) -> list[Client] | None:
        """Build the clients of `fit` with what they remember, prepared as then; ``None`` where that was not kept."""
        return None
