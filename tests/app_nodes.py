"""Nodes of Flower in this process: a grid that hands every message, as bytes and back, to a real client app."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from fedkin.core import Client

START = ConfigRecord({"steps": 5, "rate": 0.5})
"""What planted.LEARNING tells fedkin's own clients."""


class Fleet(Grid):
    """Nodes 1000, 1007, ... with the partitions 0, 1, ... of one client app.

    Attributes
    ----------
    sent : list of Message
        All that was sent so far.
    away : set of int
        Partitions that are not connected.
    troubles : callable or None
        Given a message and its partition, a word if it is lost, or an error that takes the place of the reply.
    """

    def __init__(self, app: ClientApp, nodes: int) -> None:
        with suppress(ImportError):  # since 1.38 Flower tells processes that it has started who they are
            from flwr.supercore.task_identity import TaskIdentity

            TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
        self.app, self.sent, self.away = app, [], set()
        self.contexts = {
            1000 + 7 * at: Context(
                run_id=1,
                node_id=1000 + 7 * at,
                node_config={"partition-id": at, "num-partitions": nodes},
                state=RecordDict(),
                run_config={},
            )
            for at in range(nodes)
        }
        self.troubles: Callable[[Message, int], Any] | None = None
        self._replies: dict[str, Message] = {}
        self.exchanges = 0

    def partition(self, node: int) -> int:
        return int(self.contexts[node].node_config["partition-id"])

    def node(self, partition: int) -> int:
        return list(self.contexts)[partition]

    def get_node_ids(self) -> Iterable[int]:
        """In no order that could be relied on."""
        return [node for node in reversed(self.contexts) if self.partition(node) not in self.away]

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        self.exchanges += 1
        numbers = []
        for message in messages:
            number = message.metadata.__dict__["_message_id"] = message.object_id
            self.sent.append(message)
            if self.partition(message.metadata.dst_node_id) not in self.away:
                numbers.append(number)
                self._work(copied(message, number))
        return numbers

    def _work(self, message: Message) -> None:
        context = self.contexts[message.metadata.dst_node_id]
        trouble = self.troubles(message, self.partition(context.node_id)) if self.troubles else None
        if isinstance(trouble, str):
            return
        try:
            reply = Message(trouble, reply_to=message) if trouble else self.app(message, context)
        except Exception as error:
            reply = Message(Error(2, f"{type(error)}:<'{error}'>"), reply_to=message)
        self._replies[message.metadata.message_id] = reply

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        ready = [number for number in message_ids if number in self._replies]
        return [copied(self._replies.pop(number), "") for number in ready]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        raise AssertionError("Flower's own waits three seconds at a time.")

    def set_run(self, run: Any) -> None:
        raise AssertionError

    @property
    def run(self) -> Any:
        raise AssertionError

    def create_message(self, *arguments: Any, **more: Any) -> Message:
        raise AssertionError("It is deprecated.")


def copied(message: Message, number: str) -> Message:
    """What arrives of a message that is sent as bytes."""
    objects = {key: one.deflate() for key, one in get_all_nested_objects(message).items()}
    arrived = inflate_object_from_contents(message.object_id, objects)
    arrived.metadata.__dict__["_message_id"] = number
    return arrived


def client_app(
    clients: Sequence[Client], network: Callable[[], nn.Module], more: Callable[[Client], dict[str, Any]] | None = None,
    mods: Sequence[Any] = (),
) -> ClientApp:  # fmt: skip
    """An app such as Flower's quickstart for PyTorch has, whose partitions are `clients`.

    It takes ``steps`` of full batches at ``rate``, so that it does what planted.LEARNING has fedkin's own clients do.
    `mods` are Flower's, around the training.
    """
    app = ClientApp()

    def loaded(message: Message, context: Context) -> tuple[nn.Module, Client]:
        module = network()
        module.load_state_dict(message.content["arrays"].to_torch_state_dict())
        return module, clients[int(context.node_config["partition-id"])]

    @app.train(mods=list(mods))
    def train(message: Message, context: Context) -> Message:
        module, client = loaded(message, context)
        optimizer = torch.optim.SGD(module.parameters(), lr=message.content["config"]["rate"])
        module.train()
        for _ in range(message.content["config"]["steps"]):
            optimizer.zero_grad()
            loss = cross_entropy(module(client.x), client.y)
            loss.backward()
            optimizer.step()
        metrics = {"train_loss": float(loss.detach()), "num-examples": len(client.x)}
        metrics |= more(client) if more else {}
        content = RecordDict({"arrays": ArrayRecord(module.state_dict()), "metrics": MetricRecord(metrics)})
        return Message(content=content, reply_to=message)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        module, client = loaded(message, context)
        module.eval()
        with torch.no_grad():
            logits = module(client.x)
        metrics = {
            "eval_loss": float(cross_entropy(logits, client.y)),
            "eval_acc": float((logits.argmax(1) == client.y).float().mean()),
            "num-examples": len(client.x),
        }
        return Message(content=RecordDict({"metrics": MetricRecord(metrics)}), reply_to=message)

    return app


def arrays(network: Callable[[], nn.Module], seed: int = 0) -> ArrayRecord:
    """A new model, as a ServerApp makes it."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return ArrayRecord(network().state_dict())


def vector(record: ArrayRecord) -> Tensor:
    """All numbers of a record, in its order."""
    return torch.cat([torch.from_numpy(array.numpy()).flatten().float() for array in record.values()])
