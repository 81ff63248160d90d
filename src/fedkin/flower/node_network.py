"""Network of a user's client app at a node, for tasks in which fedkin trains it."""

from __future__ import annotations

import secrets
from collections.abc import Callable

import torch
from torch import Tensor, nn

from fedkin.core import FedkinError, Payload
from fedkin.core.errors import in_short
from fedkin.nn import register
from fedkin.nn.classifier import Classifier

MakeNetwork = Callable[[], nn.Module]
"""Returns a new network that turns float32 samples into logits, as the client app's ``Net`` does."""

_networks: dict[str, NodeNetwork] = {}


class NodeNetwork:
    """Network that fits the server's models, registered for fedkin's tasks under a name of this process.

    A copy in another process, such as a simulation's, has the same name there; all copies in a process refer to the
    first one.
    """

    def __init__(self, make: MakeNetwork) -> None:
        self.make, self.name = make, f"node-network#{secrets.token_hex(8)}"

    def __call__(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """Build a new network, see `fedkin.nn.register`."""
        return self.make()

    def classes(self, x: Tensor) -> int:
        """Return the number of logits for samples ``(n, *shape)``.

        Raises FedkinError if it does not give a row of logits for each sample.
        """
        try:
            with torch.no_grad():
                logits = self.make().eval()(torch.zeros(2, *x.shape[1:]))
        except Exception as error:  # the user's own code
            raise FedkinError(f"The network given to describes() cannot be used: {in_short(error)}.") from error
        if not isinstance(logits, Tensor) or logits.ndim != 2 or len(logits) != 2:
            what = f"shape {tuple(logits.shape)}" if isinstance(logits, Tensor) else f"type {type(logits).__name__}"
            raise FedkinError(f"The network given to describes() turns two samples into {what}, not rows of logits.")
        return logits.shape[1]

    def put_into(self, payload: Payload, x: Tensor) -> Payload:
        """Return `payload` with this network as its ``module``, in place of the server's name for it.

        Raises FedkinError if the ``models`` or the ``reference`` in it do not fit this network.
        """
        register(self.name, _networks.setdefault(self.name, self))
        module = {"name": self.name, "shape": list(x.shape[1:]), "classes": self.classes(x)}
        size, models = Classifier.of(module).size, payload.get("models", payload.get("reference"))
        if not isinstance(models, Tensor) or models.shape[-1:] != (size,):
            found = f"are of shape {tuple(models.shape)}" if isinstance(models, Tensor) else "are absent"
            raise FedkinError(
                f"The network given to describes() has {size} numbers, and the models of the server {found}; "
                "initial_arrays must be of the same network."
            )
        return payload | {"module": module}
