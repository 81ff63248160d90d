"""Functions of Flower's strategies that another strategy, which wraps one, would call; here they raise errors."""

from __future__ import annotations

from typing import Any, NoReturn

from flwr.serverapp.strategy import Strategy

from fedkin.core import FedkinError

_NEVER_CALLED = {"configure_train", "aggregate_train", "configure_evaluate", "aggregate_evaluate"}


class StartedStrategy(Strategy):
    """A strategy that nothing but its own `start` runs."""

    def __init_subclass__(cls, **more: Any) -> None:
        """Check a strategy's functions.

        Raises FedkinError if the class defines a function that Flower's strategies call, but these do not.
        """
        super().__init_subclass__(**more)
        for name in sorted(_NEVER_CALLED & vars(cls).keys()):
            raise FedkinError(
                f"{cls.__name__}.{name} would never be called: what is sent and how it is averaged is the method's. "
                "train_config of start() may be a function of the round, and evaluate_fn is called after every round."
            )

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise FedkinError(
            f"{type(self).__name__} has a model for every cluster, so no other strategy can wrap it; call its start(). "
            "Flower's differential privacy at the server protects the mean of one model, but neither the choice of "
            "clusters nor means of a few nodes; add LocalDpMod to the client app instead."
        )

    configure_train = aggregate_train = configure_evaluate = aggregate_evaluate = _refuse
