"""FedOpt: adaptive federated optimisation at the server (Reddi et al. 2021)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal

import torch
from annotated_types import Interval
from torch import Tensor

from fedkin.core import Federation, Record
from fedkin.core.method import Positive
from fedkin.methods.clients.client_method import ClientMethod, ClientMethodState, round_record
from fedkin.nn.modules import Classifier

Decay = Annotated[float, Interval(ge=0, lt=1)]


@dataclass(frozen=True)
class FedOptState(ClientMethodState):
    """State of FedOpt: the moments m and v of the server's optimiser (algorithm 2), float32 ``(1, parameters)``."""

    mean: Tensor = field(default_factory=lambda: torch.zeros(0, 0))
    square: Tensor = field(default_factory=lambda: torch.zeros(0, 0))


@dataclass(frozen=True)
class FedOptMethod(ClientMethod):
    """Trains one model for all clients; the server's optimiser treats their mean update as a gradient (algorithm 2).

    Attributes
    ----------
    server_optimizer : {"adam", "yogi", "adagrad", "momentum"}
        "momentum" adds up updates, ``m = decay m + update``, and takes no square roots (FedAvgM, Hsu et al. 2019).
    server_learning_rate : float
        eta. 1 suits "momentum"; the adaptive ones need a small one.
    decay : float
        beta 1: decay of the mean of updates.
    square_decay : float
        beta 2: decay of the mean of squared updates.
    adaptivity : float
        tau, which keeps steps finite where a parameter has hardly moved; also the initial value of the root of v.
    """

    server_optimizer: Literal["adam", "yogi", "adagrad", "momentum"] = "adam"
    server_learning_rate: Positive = 0.03
    decay: Decay = 0.9
    square_decay: Decay = 0.99
    adaptivity: Positive = 1e-3

    state_type: ClassVar[type[ClientMethodState]] = FedOptState
    traits = ClientMethod.traits.replace(baseline=True, sums_suffice={"aggregation": "mean"})

    def init(self, fed: Federation) -> FedOptState:
        """Return the state of FedAvg, with initial moments."""
        state = super().init(fed)
        moments = torch.zeros(1, Classifier.of(state.module).parameters)
        first: FedOptState = replace(state, mean=moments, square=moments + self.adaptivity**2)
        return first

    def step(self, fed: Federation, state: Any) -> tuple[FedOptState, Record]:
        """Do a round of FedAvg, with the server's optimiser applied to the mean update; buffers are averaged."""
        trained, means = self.averaged(fed, state)
        update, trainable = means.all(), state.mean.shape[1]
        mean, square, step = state.mean, state.square, torch.zeros_like(state.mean)
        if trained.answered:
            mean, square, step = self._optimised(state, update[:, :trainable])
        models = state.models + torch.cat([step, update[:, trainable:]], dim=1)
        means.check(models, state.models)
        after = state.next(models=models, mean=mean, square=square, finished=self.finished(state))
        return after, round_record(fed, trained, state.labels)

    def _optimised(self, state: FedOptState, update: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return both moments after this update, and the optimiser's step."""
        if self.server_optimizer == "momentum":
            mean = self.decay * state.mean + update
            return mean, state.square, self.server_learning_rate * mean
        mean = self.decay * state.mean + (1 - self.decay) * update
        squared = update.square()
        if self.server_optimizer == "adagrad":
            square = state.square + squared
        elif self.server_optimizer == "yogi":
            square = state.square - (1 - self.square_decay) * squared * torch.sign(state.square - squared)
        else:
            square = self.square_decay * state.square + (1 - self.square_decay) * squared
        return mean, square, self.server_learning_rate * mean / (square.sqrt() + self.adaptivity)
