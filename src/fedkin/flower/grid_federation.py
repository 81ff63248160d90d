"""Federation of the nodes of a Flower grid, which do tasks by the messages that FedAvg would send to a client app."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, cast

import torch
from annotated_types import Ge, Interval, MinLen
from flwr.app import ConfigRecord, Context, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from torch import Tensor

from fedkin.core import Federation, FedkinError, Payload, Task
from fedkin.core.errors import listing
from fedkin.core.method import Fraction
from fedkin.core.payload import Failure, failure_kind, is_name, payload_bytes
from fedkin.engines.flower_engine.grid import NOWHERE
from fedkin.engines.flower_engine.messages import Key, content, poll, push, read
from fedkin.flower.array_layout import ArrayLayout
from fedkin.methods.clients import client_method, ifca
from fedkin.nn.modules import lowest_loss

Aggregate = Callable[[list[RecordDict], str], MetricRecord]
"""Makes one record of metrics from several, weighted by the metric of a name."""
Config = Mapping[str, Any] | Callable[[int], Mapping[str, Any]]
"""A configuration for the client app, or a function that returns that of a round."""
Models = Mapping[tuple[int, int], Tensor]
"""Models ``(size,)`` to send, by client and number."""
Answers = Iterator[tuple[int, Payload | str]]
"""Replies of clients, or why there is none."""

_LATECOMERS = 1000
"""Seats for nodes that come during a run: a state has a label for each, so that there are only so many."""

log = logging.getLogger("flwr")


@dataclass(frozen=True)
class StrategyOptions:
    """Parameters of every strategy beside its method's: those of Flower's FedAvg, by its names, and a few more.

    Attributes
    ----------
    fraction_train : float
        Fraction of the connected nodes that train in a round, above 0.
    fraction_evaluate : float
        Fraction of the nodes whose cluster is known that evaluate its model.
    min_train_nodes, min_evaluate_nodes, min_available_nodes : int
        Minimum number of nodes that train, that evaluate, and that are connected before a round begins.
    weighted_by_key : str
        Metric by which means of metrics are weighted, a number of samples.
    arrayrecord_key, configrecord_key : str
        Names under which the app finds arrays and configuration in a message.
    train_metrics_aggr_fn, evaluate_metrics_aggr_fn : callable, optional
        Make one record of metrics from several, as of Flower's FedAvg; the records hold metrics only.
    train_loss_key : str
        Metric that is the loss of a training; only reported, and may be absent.
    eval_loss_key : str
        Metric that is the loss of an evaluation.
    eval_accuracy_key : str
        Metric that is the accuracy of an evaluation, for the page of a run; may be absent.
    seed : int
        Seed of the server's random numbers. Flower draws node ids itself, so two simulations with one seed can differ,
        unless `names` is true.
    names : bool
        Whether nodes are asked for their names, or partitions, when they appear, see `fedkin.flower.report_name`.
        Results are then by name, clients in order of name, and a node that returns under another id is known.
    """

    fraction_train: Annotated[float, Interval(gt=0, le=1)] = 1.0
    fraction_evaluate: Fraction = 1.0
    min_train_nodes: Annotated[int, Ge(0)] = 2
    min_evaluate_nodes: Annotated[int, Ge(0)] = 2
    min_available_nodes: Annotated[int, Ge(0)] = 2
    weighted_by_key: Annotated[str, MinLen(1)] = "num-examples"
    arrayrecord_key: Annotated[str, MinLen(1)] = "arrays"
    configrecord_key: Annotated[str, MinLen(1)] = "config"
    train_metrics_aggr_fn: Aggregate | None = None
    evaluate_metrics_aggr_fn: Aggregate | None = None
    train_loss_key: Annotated[str, MinLen(1)] = "train_loss"
    eval_loss_key: Annotated[str, MinLen(1)] = "eval_loss"
    eval_accuracy_key: Annotated[str, MinLen(1)] = "eval_acc"
    seed: Annotated[int, Ge(0)] = 0
    names: bool = False


class GridFederation(Federation):
    """Federation of the nodes of a Flower grid, which maps each task to few messages that any FedAvg app supports.

    Clients are numbered as in `NodeAssignment`. Ids for later ones take no part until then, and a client not while it
    is not connected.

    `layout` is that of the client app's model. `configs` are sent to the app, by type of message, with
    ``server-round``, the number of the `round`; `timeout` is that of an exchange in seconds. `seats` is the maximum
    number of clients, by default 1000 more than are connected; `names` are at first those of the run that is resumed,
    later all seen so far, in order of id. `trained` has metrics of the last training, by client, and `has_losses` says
    whether all of them reported a loss; a missing loss counts as 0 in what methods report.
    """

    attempts = 3
    has_latecomers = True

    def __init__(
        self, grid: Grid, layout: ArrayLayout, options: StrategyOptions, configs: Mapping[str, Config], timeout: float,
        seats: int | None = None, names: Sequence[Name] = (),
    ) -> None:  # fmt: skip
        self.grid, self.layout, self.options, self.configs, self.timeout = grid, layout, options, configs, timeout
        self.round = 0
        self.trained: dict[int, MetricRecord] = {}
        self.has_losses = True
        self._useless: dict[int, str] = {}
        count = len(list(grid.get_node_ids())) + _LATECOMERS if seats is None else seats
        super().__init__(range(count), options.seed, on_drop=log.warning)
        self.seats = NodeAssignment(count, partial(names_of, grid, timeout) if options.names else None, names)
        self.names = self.seats.names
        self.connect()
        if options.names:
            # Who comes during a run holds up the others until it has said its name.
            self.seats.ask = partial(names_of, grid, min(timeout, 60.0))

    def connect(self) -> None:
        """Update which nodes are connected."""
        connected = self.seats.update(self.grid.get_node_ids())
        self.leave(self.ids)
        self.join(connected)

    def client_label(self, client: int) -> str:
        """Return the name of a node in messages: its own, or the id that Flower has given it."""
        return f"Node {self.names[client]}"

    def deliver(self, task: Task, payloads: Mapping[int, Payload]) -> Answers:
        self._useless = {}
        if task.name not in self._tasks:
            raise FedkinError(
                f"The method asks clients for '{task.name}', which a client app for FedAvg cannot do; run it with "
                "fedkin's own client app, see `fedkin federation init`."
            )
        if payloads:
            yield from self._tasks[task.name](self, dict(sorted(payloads.items())))
        if len(self._useless) == len(payloads) > 1:
            reasons = "; ".join(dict.fromkeys(self._useless.values())).rstrip(".")
            sentence = f"No reply of the client app can be used: {reasons}."
            if task is client_method.losses and self.round > 0:  # of newcomers, which must not end the run
                log.warning(sentence)
            else:
                raise FedkinError(sentence)

    def evaluate(self, models: Mapping[int, Tensor]) -> dict[int, MetricRecord]:
        """Evaluate models ``(size,)`` at clients; return their metrics, without unusable replies."""
        usable = {}
        for (client, _), reply in self._exchange(MessageType.EVALUATE, _one_each(models)).items():
            metrics = self._metrics(client, reply)
            if isinstance(metrics, str):
                log.warning("%s is left out of the evaluation: %s", self.client_label(client), metrics)
            else:
                usable[client] = metrics
        self.sent += sum(model.nbytes for model in models.values())
        self.received += sum(payload_bytes(dict(metrics)) for metrics in usable.values())
        return usable

    # Messages, and what is read of the replies.

    def _exchange(self, kind: str, models: Models) -> dict[tuple[int, int], RecordDict | Failure]:
        """Send models to be trained or evaluated; return the replies under the same keys."""
        config = self.configs[kind]
        try:
            values = config(self.round) if callable(config) else config
            record = ConfigRecord({**values, "server-round": self.round})
        except (TypeError, ValueError) as error:
            raise FedkinError(f"{kind}_config is no configuration that Flower can send: {error}.") from error
        contents: dict[int, RecordDict] = {}  # what several are sent is one object
        for model in models.values():
            if model.data_ptr() not in contents:
                arrays = {self.options.arrayrecord_key: self.layout.record(model)}
                contents[model.data_ptr()] = RecordDict({**arrays, self.options.configrecord_key: record})
        messages = {
            key: Message(contents[model.data_ptr()], self.seats.nodes[key[0]], kind, group_id=str(self.round))
            for key, model in models.items()
        }
        return exchange(self.grid, messages, self.timeout)

    def _refuse(self, client: int, reason: str) -> Failure:
        """Record that a reply of the client app is unusable."""
        self._useless[client] = reason
        return Failure("unusable", reason)

    def _metrics(self, client: int, reply: RecordDict | Failure) -> MetricRecord | str:
        """Return the metrics of a reply, which include a weight, or why there are none."""
        if isinstance(reply, str):
            return reply
        records, key = list(reply.metric_records.values()), self.options.weighted_by_key
        # As with FedAvg, records go by their type: an app may call them as it likes.
        if len(records) != 1:
            return self._refuse(client, f"its reply has {len(records)} MetricRecords instead of one")
        weight = records[0].get(key)
        if not isinstance(weight, int | float) or not 0 < weight < math.inf:
            what = f"is {weight}" if key in records[0] else "is absent"
            return self._refuse(client, f"'{key}' {what} in its metrics; it should be a number above 0")
        return records[0]

    def _trained(self, models: Models) -> Iterator[tuple[tuple[int, int], Payload | str]]:
        """Train models at clients, and yield replies as of `client_method.train`."""
        replies = self._exchange(MessageType.TRAIN, models)
        sent: dict[int, Tensor] = {}  # as the client app had them, by the place of the model in memory
        for key, start in models.items():
            if start.data_ptr() not in sent:
                sent[start.data_ptr()] = cast(Tensor, self.layout.vector(self.layout.record(start)))
            yield key, self._update(key[0], replies.pop(key), sent[start.data_ptr()])

    def _update(self, client: int, reply: RecordDict | Failure, start: Tensor) -> Payload | str:
        """Convert a client's training from `start`, as it was sent, to the reply of `client_method.train`."""
        metrics = self._metrics(client, reply)
        if isinstance(reply, str) or isinstance(metrics, str):
            return str(metrics)
        records = list(reply.array_records.values())
        if len(records) != 1:
            return self._refuse(client, f"its training replied with {len(records)} ArrayRecords instead of one")
        model = self.layout.vector(records[0])
        if isinstance(model, str):
            return self._refuse(client, f"in its training's reply, {model}")
        self.trained[client] = metrics
        loss = metrics.get(self.options.train_loss_key)
        has_loss = isinstance(loss, int | float)
        self.has_losses &= has_loss
        samples = metrics[self.options.weighted_by_key]
        # From the start as it arrived, which a type narrower than float32 has rounded.
        return {"update": model.sub_(start), "samples": samples, "loss": float(loss) if has_loss else 0.0}  # type: ignore[arg-type]

    def _judged(self, payloads: Mapping[int, Payload]) -> dict[int, Tensor | str]:
        """Evaluate each client's ``models`` ``(K, size)``: their losses ``(K,)`` by client, or why there are none."""
        losses: dict[int, Tensor | str] = {i: torch.zeros(len(payload["models"])) for i, payload in payloads.items()}
        models = {(i, row): model for i, payload in payloads.items() for row, model in enumerate(payload["models"])}
        # All models in one exchange: a node looks for messages every three seconds only.
        for (client, row), reply in self._exchange(MessageType.EVALUATE, models).items():
            metrics, key = self._metrics(client, reply), self.options.eval_loss_key
            if isinstance(metrics, str):
                losses[client] = metrics
            elif not isinstance(loss := metrics.get(key), int | float):
                names = listing(sorted(ascii(name)[:40] for name in metrics), 5)
                reason = f"its evaluation has no number '{key}', but {names}, which eval_loss_key can name"
                losses[client] = self._refuse(client, reason)
            elif isinstance(judged := losses[client], Tensor):
                judged[row] = loss
        return losses

    # How each task is done.

    def _describe(self, payloads: Mapping[int, Payload]) -> Answers:
        """Answer `client_method.describe` here: the stand-in for the network asks for neither shape nor classes."""
        return ((client, {"shape": [1], "classes": 2}) for client in payloads)

    def _train(self, payloads: Mapping[int, Payload]) -> Answers:
        """Do `client_method.train` with one message to each client."""
        models = {client: payload["model"] for client, payload in payloads.items()}
        return ((client, reply) for (client, _), reply in self._trained(_one_each(models)))

    def _losses(self, payloads: Mapping[int, Payload]) -> Answers:
        """Do `client_method.losses` with as many messages to each client as there are models, all at once."""
        judged = self._judged(payloads)
        return ((i, losses if isinstance(losses, str) else {"losses": losses}) for i, losses in judged.items())

    def _choose_and_train(self, payloads: Mapping[int, Payload]) -> Answers:
        """Do `ifca.choose_and_train`: the losses of all models first, then training of the best."""
        judged = self._judged(payloads)
        chosen = {i: lowest_loss(losses) for i, losses in judged.items() if not isinstance(losses, str)}
        starts = {(client, cluster): payloads[client]["models"][cluster] for client, cluster in chosen.items()}
        self.sent += sum(model.nbytes for model in starts.values())
        trained = {client: reply for (client, _), reply in list(self._trained(starts))}
        for client, losses in judged.items():
            reply = losses if isinstance(losses, str) else trained[client]
            if isinstance(losses, str) or isinstance(reply, str):
                yield client, reply
                continue
            loss = reply["loss"] if self.has_losses else float(losses[chosen[client]])
            yield client, reply | {"cluster": chosen[client], "loss": loss}

    _tasks: ClassVar[Mapping[str, Callable[[Any, Mapping[int, Payload]], Answers]]] = {
        client_method.describe.name: _describe,
        client_method.train.name: _train,
        client_method.losses.name: _losses,
        ifca.choose_and_train.name: _choose_and_train,
    }
    """The tasks that messages of FedAvg can do."""


def _one_each(models: Mapping[int, Tensor]) -> Models:
    return {(client, 0): model for client, model in models.items()}


# Nodes: messages to them and their replies, their names, and the numbers that they have as clients.


Name = int | str
"""What a client is called in results: its partition or its name; without names, its node id."""
Ask = Callable[[Sequence[int]], tuple[dict[int, Name], dict[int, str]]]
"""Given node ids, the names of nodes, and why others have none; those that are silent now are in neither."""

_QUERY = f"{MessageType.QUERY}.fedkin"


def exchange(grid: Grid, messages: Mapping[Key, Message], timeout: float) -> dict[Key, RecordDict | Failure]:
    """Send messages and wait for the replies; return by key the reply, or the reason why there is none.

    `timeout` is in seconds; those that have not replied by then count as missing. A reason is "failed" if the client
    app failed, rather than the way to it.
    """
    unsent = Failure("absent", "the message could not be sent")
    answers: dict[Key, RecordDict | Failure] = dict.fromkeys(messages, unsent)
    if messages:
        waiting = push(grid, messages)
        answers.update(dict.fromkeys(waiting.values(), Failure("absent", f"no reply in {timeout:g} seconds")))
        for key, reply in poll(grid, waiting, timeout):
            answers[key] = _failure(reply) if reply.has_error() else reply.content
    return answers


def _failure(reply: Message) -> Failure:
    """Return why a node could not do its task, in one line."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", reply.error.reason or "")  # a simulation's is coloured
    reason = " ".join(text.split())[-300:] or "no reason given"  # a line of a log; Ray's traceback ends with the reason
    is_app = reply.error.code in (0, 2)  # Flower's codes of errors in the client app: unknown, and raised
    return Failure("failed" if is_app else "absent", f"error {reply.error.code}: {reason}")


def report_name(message: Message, context: Context) -> Message:
    """Answer the question for a node's name, which strategies with ``names=True`` ask.

    The name is ``name`` of the node configuration, or without one its ``partition-id``.

    Examples
    --------
    >>> from flwr.clientapp import ClientApp
    >>> from fedkin.flower import report_name
    >>> app = ClientApp()
    >>> answer = app.query("fedkin")(report_name)
    """
    name = context.node_config.get("name", context.node_config.get("partition-id"))
    if not _is_name(name):
        raise FedkinError(
            "This node has no name; give it one in its node configuration, as in --node-config 'name=\"north\"'."
        )
    return Message(content(name=name), reply_to=message)  # type: ignore[arg-type]


def _is_name(name: Any) -> bool:
    return (type(name) is int and name >= 0) or (isinstance(name, str) and is_name(name))


def names_of(grid: Grid, timeout: float, nodes: Sequence[int]) -> tuple[dict[int, Name], dict[int, str]]:
    """Ask nodes for their names; see `Ask`."""
    names: dict[int, Name] = {}
    nameless: dict[int, str] = {}
    messages = {node: Message(content(), node, _QUERY, group_id="names") for node in nodes}
    for node, reply in exchange(grid, messages, timeout).items():
        if isinstance(reply, Failure):
            if failure_kind(reply) == "failed":
                nameless[node] = f"it has not said its name ({reply})"
            continue
        try:
            name = read(reply).facts.get("name")
        except FedkinError:
            name = None
        if _is_name(name):
            names[node] = name  # type: ignore[assignment]
        else:
            nameless[node] = "its reply is not that of fedkin.flower.report_name"
    return names, nameless


class NodeAssignment:
    """Numbering of nodes as clients, in the order in which they were first seen; those seen together in order of name.

    A client keeps its number while it is away. A node that reports a name gets the number of that name back under
    another node id; without names, a new id is a new client. `count` is the maximum number of clients, and `names`
    those of the run that is resumed. A node is known by its id if `ask` is ``None``. `nodes` has the node id of each
    client, or `NOWHERE` where it was here in an earlier process and has not come back.
    """

    def __init__(self, count: int, ask: Ask | None = None, names: Sequence[Name] = ()) -> None:
        self.count, self.ask = count, ask
        self.names: list[Name] = list(names)
        self.nodes: list[int] = [NOWHERE if ask else int(name) for name in names]
        self._ignored: set[int] = set()

    def update(self, connected: Iterable[int]) -> set[int]:
        """Number new nodes, and return the clients that are connected now.

        Raises FedkinError if nodes are asked for names, but no node has one, now or before in this process.
        """
        connected = set(connected)
        new = sorted(connected.difference(self.nodes, self._ignored))
        named: dict[int, Name] = {node: node for node in new}
        if self.ask:
            named, nameless = self.ask(new) if new else ({}, {})
            for node, reason in nameless.items():
                if not named and all(node == NOWHERE for node in self.nodes):
                    raise FedkinError(
                        "names=True needs app.query('fedkin')(fedkin.flower.report_name) in the client app; node "
                        f"{node}: {reason}."
                    )
                self._ignore(node, reason)
        for node, name in sorted(named.items(), key=lambda item: (isinstance(item[1], str), item[1])):
            if name in self.names and (holder := self.nodes[self.names.index(name)]) in connected:
                self._ignore(node, f"it is {name}, as node {holder} says it is")
            elif name in self.names:
                self.nodes[self.names.index(name)] = node
                log.info("Node %s is back.", name)
            elif len(self.names) < self.count:
                self.names.append(name)
                self.nodes.append(node)
            else:
                self._ignore(node, f"all {self.count} seats are taken")
        return {client for client, node in enumerate(self.nodes) if node in connected}

    def _ignore(self, node: int, reason: str) -> None:
        log.warning("Node %d is ignored: %s.", node, reason)
        self._ignored.add(node)
