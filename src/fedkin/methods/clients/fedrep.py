"""FedRep: one representation for all clients, and a head for each (Collins et al. 2021; algorithm 1)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fedkin.core import Client, Federation, Payload
from fedkin.core.federation import ReplyStream
from fedkin.core.method import Count
from fedkin.core.payload import MANY, counts_to
from fedkin.methods.clients.client_method import ClientMethod, ClientMethodState
from fedkin.methods.clients.local_work import Training, training_of, training_task
from fedkin.nn.aggregation import Means
from fedkin.nn.modules import Classifier


@dataclass(frozen=True)
class FedRepMethod(ClientMethod):
    """Averages all clients' representations; each client keeps a head of its own.

    In a round a client first trains its head, for `head_epochs`, then the representation, for `local_epochs`, while the
    other part rests. A personalised baseline, without clusters; heads reach the server only to be scored. A batch
    norm's statistics belong to the client, too.

    Attributes
    ----------
    head_epochs : int
        Passes over the data in which a client trains its head, in every round (paper: 10).
    head_tensors : int
        Number of parameter tensors at the end of the network that are the head; a linear layer has two.
    local_epochs : int
        Passes over the data in which a client trains the representation (paper: 1, of CIFAR-100 5).
    """

    head_epochs: Count = 10
    head_tensors: Count = 2
    local_epochs: Count = 1

    traits = ClientMethod.traits.replace(baseline=True)

    init = ClientMethod.one_each

    def means(self, state: ClientMethodState, shared: int = 0) -> Means:
        return super().means(state, Classifier.of(state.module).leading(-self.head_tensors))

    def trained(self, fed: Federation, state: ClientMethodState, starts: Mapping[int, Tensor]) -> ReplyStream[int]:
        """Have clients train their heads and then the representation."""
        more = {"head_epochs": self.head_epochs, "head_tensors": self.head_tensors}
        payloads = self.training(state, starts, **more)
        return fed.stream(train_head_and_body, payloads, {"update": (state.models.shape[1],)})


@training_task({"head_epochs": counts_to(MANY), "head_tensors": counts_to(MANY)})
def train_head_and_body(client: Client, payload: Payload) -> Training:
    """Train the head, then all that is before it; report the update, the number of samples and the last loss."""
    job = training_of(client, payload, payload["model"])
    body = torch.arange(job.architecture.parameters) < job.architecture.leading(-payload["head_tensors"])
    epochs = dataclasses.replace(job.training, epochs=payload["head_epochs"])
    ((model, _),) = yield [dataclasses.replace(job, training=epochs, frozen=body)]
    ((model, loss),) = yield [dataclasses.replace(job, start=model, frozen=~body)]
    return {"update": model.sub_(job.start), "samples": len(job.x), "loss": loss}
