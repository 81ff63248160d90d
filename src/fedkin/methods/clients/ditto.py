"""Ditto: a personal model for each client, held near the common one (Li, Hu, Beirami, Smith 2021; algorithm 1)."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from fedkin.core import Client, Federation, Payload, Record
from fedkin.core.payload import updates, within
from fedkin.methods.clients.client_method import ClientMethod, ClientMethodState, NotNegative, round_record
from fedkin.methods.clients.local_work import TRAINED, Training, training_of, training_task


@dataclass(frozen=True)
class DittoState(ClientMethodState):
    """State of Ditto: the personal models, one per client, and the `common` one, float32 ``(1, size)``."""

    common: Tensor = field(default_factory=lambda: torch.zeros(0, 0))


@dataclass(frozen=True)
class DittoMethod(ClientMethod):
    """Trains one model by federated averaging, and beside it a personal model of each client that stays near it.

    A client trains both models in a round by the same settings; the loss of the personal one gains ``attraction / 2``
    times its squared distance from the common model that the client was sent. A personalised baseline, without
    clusters; personal models reach the server only to be scored.

    Attributes
    ----------
    attraction : float
        lambda, the weight of that distance; 0 is training alone. The paper tries 0.05 to 2.
    """

    attraction: NotNegative = 0.1

    traits = ClientMethod.traits.replace(baseline=True)
    state_type: ClassVar[type[ClientMethodState]] = DittoState

    def init(self, fed: Federation) -> DittoState:
        """Return one new model, the common one and each client's own."""
        state: DittoState = self.one_each(fed)
        return dataclasses.replace(state, common=state.models[:1].clone())

    def step(self, fed: Federation, state: Any) -> tuple[DittoState, Record]:
        """Have clients train both models; average the changes of the common one."""
        size = state.models.shape[1]
        common = {"module": state.module, "training": self.training_settings(), "model": state.common[0]}
        payloads = {
            client: common | {"attraction": self.attraction, "personal": state.models[client]}
            for client in self.participants(fed, state)
        }
        means, personal = self.means_of(1, size), self.means(state)

        def keep_personal(client: int, reply: Payload) -> int:
            personal.add(client, reply["personal"], 1.0, client)
            return 0

        replies = fed.stream(train_both, payloads, {"update": (size,), "personal": (size,)})
        trained = self.add_each(means, replies, keep_personal)
        after = self.after_round(state, personal, common=means.apply_to(state.common))
        return after, round_record(fed, trained, state.labels)


@training_task(
    {"personal": updates("size"), "attraction": within(0)},
    holds={**TRAINED, "personal": updates(None)},
    sends="What training has changed in two networks, the number of rows, and how wrong they were",
)
def train_both(client: Client, payload: Payload) -> Training:
    """Train the common and the personal model; report both changes, the number of samples and the personal loss."""
    job = training_of(client, payload, payload["model"])
    ((common, _),) = yield [job]
    held = dataclasses.replace(job.training, proximal=payload["attraction"])
    ((personal, loss),) = yield [
        dataclasses.replace(job, start=payload["personal"], training=held, anchor=payload["model"])
    ]
    changes = {"update": common.sub_(job.start), "personal": personal.sub_(payload["personal"])}
    return {**changes, "samples": len(job.x), "loss": loss}
