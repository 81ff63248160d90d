"""Query by which a client app describes its data, which some strategies need beyond training and evaluation.

For tasks in which fedkin trains it, a node has the network of the client app.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, Context, Message, RecordDict
from torch import Tensor, nn

from fedkin.core import Client, FedkinError, Payload, Task
from fedkin.core.errors import in_short
from fedkin.core.replies import is_name
from fedkin.core.seeds import derive_generator
from fedkin.data.tables import as_tensor
from fedkin.engines.flower_engine.messages import content, read
from fedkin.engines.local import one_thread
from fedkin.methods.clients import client_method, fedrc, flux, ladd, pacfl
from fedkin.methods.clients.embedding import class_sums, embedding
from fedkin.nn.modules import Classifier, forget, register

Load = Callable[[Context], tuple[Any, Any]]
MakeNetwork = Callable[[], nn.Module]
"""Returns a new network that turns float32 samples into logits, as the client app's ``Net`` does."""

ACTION = "fedkin"
"""What the query is registered as: ``app.query("fedkin")``."""
NAME = "fedkin.flower.name"
"""What asks a node for its name, in place of a task."""
_STATE = "fedkin"
_BY_NETWORK = (flux.describe_distribution, fedrc.weigh_and_train)
"""Tasks that need the client app's network."""
_OTHERS = (
    client_method.describe, embedding.extent, embedding.train_encoder, embedding.embed, class_sums.send_code_total,
    class_sums.send_class_sums, ladd.describe_style, pacfl.describe_subspace,
)  # fmt: skip
ALLOWED: dict[str, Task] = {task.name: task for task in (*_OTHERS, *_BY_NETWORK)}
"""Tasks that a server may ask for by it."""


def describes(
    load: Load | None = None, seed: int | None = None, network: MakeNetwork | None = None
) -> Callable[[Message, Context], Message]:
    """Return a query function that reports a node's name, and describes its data to the strategies that need it.

    These are `EmbeddingStrategy`, `LADDStrategy`, `PACFLStrategy`, `FLUXStrategy` and `FedRCStrategy`. The function
    does the tasks of these methods and no others. It reports the shape of a sample and the number of classes, the
    lowest and the highest value, an update of the encoder, the randomised bits of the embedding, LADD's styles, or
    PACFL's singular vectors. With a `network`, it also reports moments of latents for FLUX, and trains FedRC's models.
    Random values are drawn once in a run and remembered in the node's context.

    A node's name is ``name`` of its node configuration, or without one its ``partition-id``. A strategy with
    ``names=True`` asks for it.

    Parameters
    ----------
    load : callable, optional
        ``load(context) -> (x, y)``: the node's training samples ``(n, features)`` or ``(n, channels, height, width)``,
        and their labels ``0..k-1``, or ``None``. Arrays or tensors; use the scale that all nodes share. Without it, a
        node only says its name.
    seed : int, optional
        For reproducible runs. By default randomness is the system's, unknown to the server; whoever knows the seed also
        knows which bits were flipped.
    network : callable, optional
        ``network() -> torch.nn.Module``, such as the class of the client app's network, which turns samples into
        logits. `FLUXStrategy` describes data by it, and `FedRCStrategy` trains it.

    Returns
    -------
    callable
        For ``app.query("fedkin")``.

    Examples
    --------
    >>> from flwr.clientapp import ClientApp
    >>> from sklearn.datasets import load_digits
    >>> from fedkin.flower import describes
    >>> app = ClientApp()
    >>> def load(context):
    ...     x, y = load_digits(return_X_y=True)
    ...     mine = slice(context.node_config["partition-id"], None, context.node_config["num-partitions"])
    ...     return x[mine].reshape(-1, 1, 8, 8) / 16, y[mine]
    >>> answer = app.query("fedkin")(describes(load))
    """
    return _Describes(load, seed, network)


@dataclass(frozen=True)
class _Describes:
    """Query function that `describes` returns; a class, not a closure, because a simulation pickles the client app."""

    load: Load | None
    seed: int | None
    network: MakeNetwork | None

    def __call__(self, message: Message, context: Context) -> Message:
        request = read(message.content)
        name = request.text("task")
        if name == NAME:
            return Message(content(name=_name(context)), reply_to=message)
        if name not in ALLOWED:
            raise FedkinError(f"This node was asked for '{name}'; it answers only {', '.join(sorted(ALLOWED))}.")
        if self.load is None:
            raise FedkinError("This node only says its name: describes() was given no function that loads its data.")
        client = _client(self.load, context, self.seed, int(request.facts.get("exchange", 0)))
        with one_thread():
            reply = self._reply(ALLOWED[name], client, request.tree())
        context.state[_STATE] = ArrayRecord({key: Array(value.numpy()) for key, value in client.state.items()})
        return Message(content(reply), reply_to=message)

    def _reply(self, task: Task, client: Client, payload: Payload) -> Payload:
        """Do a task and return its reply, with the node's own network if it needs one."""
        with self._own_network(client.x) as module:
            if task in _BY_NETWORK:
                if module is None:
                    raise FedkinError("This node only describes its data: describes() was given no network.")
                size, models = Classifier.of(module).size, payload.get("models", payload.get("reference"))
                if not isinstance(models, Tensor) or models.shape[-1:] != (size,):
                    what = f"are of shape {tuple(models.shape)}" if isinstance(models, Tensor) else "are absent"
                    raise FedkinError(
                        f"The network given to describes() has {size} numbers, and the models of the server {what}; "
                        "initial_arrays must be of the same network."
                    )
                payload = payload | {"module": module}  # in place of the server's name for it
            if (reason := task.objection(payload)) is not None:
                raise FedkinError(f"Task '{task.name}' is not done with this request: {reason}.")
            (reply,) = task.run([client], [payload])
            if task is client_method.describe and module is not None:
                if reply["classes"] > module["classes"]:
                    labels = f"labels go up to {reply['classes'] - 1}"
                    raise FedkinError(f"The network given to describes() has {module['classes']} logits, but {labels}.")
                reply = reply | {"classes": module["classes"] if reply["classes"] else 0}
        return reply

    @contextmanager
    def _own_network(self, x: Tensor) -> Iterator[dict[str, Any] | None]:
        """Register the network for the time of a task, and yield how tasks are told of it; ``None`` without one."""
        if self.network is None:
            yield None
            return
        try:
            with torch.no_grad():
                logits = self.network().eval()(torch.zeros(2, *x.shape[1:]))
        except Exception as error:  # the user's own code
            raise FedkinError(f"The network given to describes() cannot be used: {in_short(error)}.") from error
        if not isinstance(logits, Tensor) or logits.ndim != 2 or len(logits) != 2:
            what = f"shape {tuple(logits.shape)}" if isinstance(logits, Tensor) else f"type {type(logits).__name__}"
            raise FedkinError(f"The network given to describes() turns two samples into {what}, not rows of logits.")
        # Another name for every task: in a simulation's process, each message brings a copy of this object.
        name, make = f"node-network#{secrets.token_hex(8)}", self.network
        register(name, lambda shape, classes: make())
        try:
            yield {"name": name, "shape": list(x.shape[1:]), "classes": logits.shape[1]}
        finally:
            forget(name)


def request(task: Task, payload: Payload, exchange: int) -> RecordDict:
    """Build the message that asks a node to do `task` in the exchange of this number."""
    return content(payload, task=task.name, exchange=exchange)


def name_in(reply: RecordDict) -> int | str:
    """Return the name in a node's reply; raise FedkinError if there is none."""
    name = read(reply).facts.get("name")
    if (isinstance(name, str) and is_name(name)) or (type(name) is int and name >= 0):
        return name
    raise FedkinError("it is not a reply of fedkin.flower.describes")


def _name(context: Context) -> int | str:
    """Return the name of the node."""
    name = context.node_config.get("name", context.node_config.get("partition-id"))
    if type(name) is int or (isinstance(name, str) and is_name(name)):
        return name
    raise FedkinError(
        "This node has no name; give it one in its node configuration, as in --node-config 'name=\"north\"'."
    )


def _client(load: Load, context: Context, seed: int | None, exchange: int) -> Client:
    """Build the client of a node, with its memory of this run and its own generator."""
    node = f"Node {context.node_config.get('partition-id', context.node_id)}"
    loaded = load(context)
    if not isinstance(loaded, tuple) or len(loaded) != 2:
        raise FedkinError(f"{node}: the function given to describes() must return (x, y), not {type(loaded).__name__}.")
    x, y = as_tensor(loaded[0], node), None
    if loaded[1] is not None:
        labels = np.asarray(loaded[1].detach().cpu() if isinstance(loaded[1], Tensor) else loaded[1])
        if labels.shape != (len(x),) or labels.dtype.kind not in "iu" or (labels < 0).any():
            raise FedkinError(
                f"{node} has labels of type {labels.dtype} and shape {labels.shape} for {len(x)} samples; they should "
                "be one whole number from 0 for each."
            )
        y = torch.from_numpy(labels.astype(np.int64))
    remembered = context.state.array_records.get(_STATE, ArrayRecord())
    state = {key: torch.from_numpy(array.numpy()) for key, array in remembered.items()}
    if seed is None:
        return Client(0, x, y, state, torch.Generator().manual_seed(secrets.randbits(32)))
    rng = derive_generator(seed, "node", int(context.node_config.get("partition-id", 0)), exchange)
    return Client(0, x, y, state, rng, noise=rng)
