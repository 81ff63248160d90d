"""Federation of the nodes of a Flower grid, which do tasks by the messages that FedAvg would send to a client app."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch
from annotated_types import Ge, Interval, MinLen
from flwr.app import ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from torch import Tensor

from fedkin.core import Federation, FedkinError, Payload, Task
from fedkin.core.errors import listing
from fedkin.core.method import Fraction
from fedkin.core.payload import payload_bytes
from fedkin.core.replies import Failure, failure_kind
from fedkin.engines.flower_engine.grid import NOWHERE
from fedkin.engines.flower_engine.messages import Key, content, poll, push, read
from fedkin.flower import query
from fedkin.flower.array_layout import ArrayLayout
from fedkin.methods.clients import cfl_gp, client_method, feddrift, fedrc, gradient_loss, ifca
from fedkin.nn.modules import Classifier

Aggregate = Callable[[list[RecordDict], str], MetricRecord]
"""Makes one record of metrics from several, weighted by the metric of a name."""
Config = Mapping[str, Any] | Callable[[int], Mapping[str, Any]]
"""A configuration for the client app, or a function that returns that of a round."""
Name = int | str
"""What a client is called in results: its partition or its name; without names, its node id."""
Models = Mapping[tuple[int, int], Tensor]
"""Models ``(size,)`` to send, by client and number."""
Answers = Iterator[tuple[int, Payload | str]]
"""Replies of clients, or why there is none."""

_QUERY = f"{MessageType.QUERY}.{query.ACTION}"
_LATECOMERS = 1000
"""Seats for nodes that come during a run: a state has a label for each, so that there are only so many."""
_PATIENCE = 60.0
"""Seconds that a node that comes during a run has to say its name, by which it holds up the others."""

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
        Metric that is the accuracy of an evaluation; may be absent, but with FedDrift.
    seed : int
        Seed of the server's random numbers. Flower draws node ids itself, so two simulations with one seed can differ,
        unless `names` is true.
    names : bool
        Whether nodes are asked for their names, or partitions, when they appear, see `fedkin.flower.describes`. Results
        are then by name, clients in order of name, and a node that returns under another id is known.
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


@dataclass(frozen=True)
class AppContract:
    """What a strategy asks of the client app.

    The configurations, by type of message, are sent with every one; ``server-round`` is added. `timeout` is that of an
    exchange in seconds. `describes` is the code with which the client app must register its query, empty if it need
    not. Samples without labels are refused with the end of a sentence, `labels_needed`, unless it is empty.
    """

    options: StrategyOptions
    configs: Mapping[str, Config]
    timeout: float
    describes: str
    labels_needed: str


def exchange(grid: Grid, messages: Mapping[Key, Message], timeout: float) -> dict[Key, RecordDict | Failure]:
    """Send messages and wait for the replies; return by key the reply, or the reason why there is none.

    `timeout` is in seconds; those that have not replied by then count as missing. A reason is "failed" if the client
    app failed, rather than the way to it.
    """
    answers: dict[Key, RecordDict | Failure] = dict.fromkeys(
        messages, Failure("absent", "the message could not be sent")
    )
    if messages:
        waiting = push(grid, messages)
        answers.update(dict.fromkeys(waiting.values(), Failure("absent", f"no reply in {timeout:g} seconds")))
        for key, reply in poll(grid, waiting, timeout):
            answers[key] = _failure(reply) if reply.has_error() else reply.content
    return answers


def _failure(reply: Message) -> Failure:
    """Return why a node could not do its task, in one line."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", reply.error.reason or "")
    # A simulation reports Ray's traceback, coloured, and the app's own message behind these words of Flower's.
    _, is_simulated, message = text.rpartition("Exception ClientAppException occurred. Message: ")
    text = message.removesuffix("'>") if is_simulated else text
    reason = " ".join(text.split())[:300] or "no reason given"  # a line of a log
    is_app = reply.error.code in (0, 2)  # Flower's codes of errors in the client app: unknown, and raised
    return Failure("failed" if is_app else "absent", f"error {reply.error.code}: {reason}")


# Assignment of a grid's nodes to clients, by the names that nodes report or by their ids.


Ask = Callable[[Sequence[int]], Mapping[int, Name | FedkinError | None]]
"""Given node ids, the name of each; an error if it cannot give one, ``None`` if it is silent now."""


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
        named = self._named(new) if self.ask else {node: node for node in new}
        before = len(self.names)
        for node, name in sorted(named.items(), key=lambda item: (isinstance(item[1], str), item[1])):
            if name not in self.names and len(self.names) < self.count:
                self.names.append(name)
                self.nodes.append(node)
            elif name not in self.names:
                self._ignore(node, f"all {self.count} seats are taken")
            elif (holder := self.nodes[self.names.index(name)]) in connected:
                self._ignore(node, f"it is {name}, as node {holder} says it is")
            else:
                if holder != NOWHERE:
                    log.info("Node %s is back.", name)
                self.nodes[self.names.index(name)] = node
        if before and len(self.names) > before:
            log.info("New nodes: %s", self.names[before:])
        return {client for client, node in enumerate(self.nodes) if node in connected}

    def _named(self, nodes: Sequence[int]) -> dict[int, Name]:
        """Ask new nodes for their names; nodes without one are ignored, silent ones are asked again next time."""
        answers = self.ask(nodes) if self.ask and nodes else {}
        named = {node: name for node, name in answers.items() if isinstance(name, int | str)}
        for node, error in answers.items():
            if isinstance(error, FedkinError):
                if not named and all(node == NOWHERE for node in self.nodes):
                    raise error
                self._ignore(node, str(error).rstrip("."))
        return named

    def _ignore(self, node: int, reason: str) -> None:
        log.warning("Node %d is ignored: %s.", node, reason)
        self._ignored.add(node)


def names_of(grid: Grid, timeout: float, nodes: Sequence[int]) -> dict[int, Name | FedkinError | None]:
    """Ask nodes for their names; see `Ask`."""
    messages = {node: Message(content(task=query.NAME), node, _QUERY, group_id="names") for node in nodes}
    names: dict[int, Name | FedkinError | None] = {}
    for node, reply in exchange(grid, messages, timeout).items():
        if not isinstance(reply, Failure):
            try:
                names[node] = query.name_in(reply)
            except FedkinError as error:
                names[node] = FedkinError(f"A node has not said its name ({error}).")
        elif failure_kind(reply) == "failed":
            names[node] = FedkinError(
                "names=True needs app.query('fedkin')(fedkin.flower.describes()) in the client app; a node has not "
                f"said its name ({reply})."
            )
        else:
            names[node] = None
    return names


# The federation.


class GridFederation(Federation):
    """Federation of the nodes of a Flower grid, which maps each task to few messages that any FedAvg app supports.

    Clients are numbered as in `NodeAssignment`. Ids for later ones take no part until then, and a client not while it
    is not connected.

    `layout` is that of the client app's model. `seats` is the maximum number of clients, by default 1000 more than are
    connected; `names` are at first those of the run that is resumed, later all seen so far, in order of id. The number
    of the `round` is sent to clients as ``server-round``. `trained` has metrics of the last training, by client, and
    `has_losses` says whether all of them reported a loss; a missing loss counts as 0 in what methods report.
    """

    attempts = 3
    has_latecomers = True

    def __init__(
        self, grid: Grid, layout: ArrayLayout, contract: AppContract, seats: int | None = None,
        names: Sequence[Name] = (),
    ) -> None:  # fmt: skip
        self.grid, self.layout, self.contract, self.options = grid, layout, contract, contract.options
        self.round = 0
        self.trained: dict[int, MetricRecord] = {}
        self.has_losses = True
        self._useless: dict[int, str] = {}
        count = len(list(grid.get_node_ids())) + _LATECOMERS if seats is None else seats
        super().__init__(range(count), self.options.seed, on_drop=log.warning)
        patience = contract.timeout  # of nodes that are there from the start; later ones hold up the others

        def ask(nodes: Sequence[int]) -> Mapping[int, Name | FedkinError | None]:
            return names_of(grid, patience, nodes)

        self.seats = NodeAssignment(count, ask if self.options.names else None, names)
        self.names = self.seats.names
        self.connect()
        patience = min(patience, _PATIENCE)

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
        if payloads:
            do = self._tasks.get(task.name, GridFederation._query)
            yield from do(self, task, dict(sorted(payloads.items())))
        if len(self._useless) == len(payloads) > 1:
            reasons = "; ".join(dict.fromkeys(self._useless.values())).rstrip(".")
            sentence = f"No reply of the client app can be used: {reasons}."
            if task is client_method.losses and self.round > 0:  # Sattler's last exchange, which must not end the run
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
        self.traffic.sent += sum(model.nbytes for model in models.values())
        self.traffic.received += sum(payload_bytes(dict(metrics)) for metrics in usable.values())
        return usable

    # Messages, and what is read of the replies.

    def _exchange(self, kind: str, models: Models) -> dict[tuple[int, int], RecordDict | Failure]:
        """Send models to be trained or evaluated; return the replies under the same keys."""
        config = self.contract.configs[kind]
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
        messages = {key: self._message(key[0], kind, contents[model.data_ptr()]) for key, model in models.items()}
        return exchange(self.grid, messages, self.contract.timeout)

    def _message(self, client: int, kind: str, content: RecordDict) -> Message:
        return Message(content, self.seats.nodes[client], kind, group_id=str(self.round))

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
                sent[start.data_ptr()] = self.layout.as_sent(start)
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

    def _judged(self, payloads: Mapping[int, Payload], key: str) -> tuple[dict[int, Tensor | str], dict[int, float]]:
        """Evaluate each client's ``models`` ``(K, size)``: the metric `key` of each ``(K,)`` by client, or why not.

        The second result is the number of samples that it was measured on, by client.
        """
        values: dict[int, Tensor | str] = {i: torch.zeros(len(payload["models"])) for i, payload in payloads.items()}
        weights: dict[int, float] = {}
        # All models in one exchange: a node looks for messages every three seconds only.
        for (client, row), reply in self._exchange(MessageType.EVALUATE, _all_of(payloads)).items():
            metrics = self._metrics(client, reply)
            if isinstance(metrics, str):
                values[client] = metrics
                continue
            value, weight = metrics.get(key), metrics[self.options.weighted_by_key]
            if not isinstance(value, int | float):
                names = sorted(ascii(name)[:40] for name in metrics if name != self.options.weighted_by_key)
                hint = f", but {listing(names, 5)}, which the strategy's keys can name" if names else ""
                values[client] = self._refuse(client, f"its evaluation has no number '{key}'{hint}")
            elif isinstance(judged := values[client], Tensor):
                judged[row], weights[client] = value, float(weight)  # type: ignore[arg-type]
        return values, weights

    # How each task is done.

    def _query(self, task: Task, payloads: Mapping[int, Payload]) -> Answers:
        """Do a task that the client app supports by `fedkin.flower.describes`."""
        requests = {id(payload): query.request(task, payload, self.exchange) for payload in payloads.values()}
        messages = {i: self._message(i, _QUERY, requests[id(payload)]) for i, payload in payloads.items()}
        for client, reply in exchange(self.grid, messages, self.contract.timeout).items():
            if not isinstance(reply, Failure):
                try:
                    yield client, read(reply).tree()
                except (KeyError, RuntimeError, TypeError, ValueError) as error:  # text nested too deep is the second
                    yield client, self._refuse(client, f"it is not a reply of fedkin.flower.describes ({error})")
            elif failure_kind(reply) == "failed":
                code = f"app.query('fedkin')(fedkin.flower.{self.contract.describes})"
                yield client, self._refuse(client, f"it needs {code} ({reply})")
            else:
                yield client, reply

    def _describe(self, task: Task, payloads: Mapping[int, Payload]) -> Answers:
        """Do `client_method.describe`; answered at the server for methods that need to know nothing of the data."""
        if not self.contract.describes:  # placeholders: the stand-in for the network asks for neither
            yield from ((client, {"shape": [1], "classes": 2}) for client in payloads)
            return
        for client, reply in self._query(task, payloads):
            if isinstance(reply, str) or reply.get("classes"):
                yield client, reply
            elif self.contract.labels_needed:
                yield client, self._refuse(client, f"its samples have no labels, {self.contract.labels_needed}")
            else:
                yield client, reply | {"classes": 2}  # only to say that there are models to train

    def _train(self, task: Task, payloads: Mapping[int, Payload]) -> Answers:
        """Do `client_method.train` with one message to each client."""
        models = {client: payload["model"] for client, payload in payloads.items()}
        return ((client, reply) for (client, _), reply in self._trained(_one_each(models)))

    def _losses(self, task: Task, payloads: Mapping[int, Payload]) -> Answers:
        """Do `client_method.losses` with as many messages to each client as there are models, all at once."""
        judged, _ = self._judged(payloads, self.options.eval_loss_key)
        return ((i, losses if isinstance(losses, str) else {"losses": losses}) for i, losses in judged.items())

    def _train_and_profile(self, task: Task, payloads: Mapping[int, Payload]) -> Answers:
        """Do `cfl_gp.train_and_profile`: train a client's model and, if it is another one, the common model."""
        models = {(client, 0): payload["model"] for client, payload in payloads.items()}
        models |= {(client, 1): payload["criterion"] for client, payload in payloads.items() if "criterion" in payload}
        replies = dict(self._trained(dict(sorted(models.items(), key=lambda item: (item[0][0], -item[0][1])))))
        for client, payload in payloads.items():
            update = replies[client, 0]
            common = replies.get((client, 1), update)
            if isinstance(update, str) or isinstance(common, str):
                yield client, update if isinstance(update, str) else common
                continue
            yield client, update | ({"profile": common["update"][payload["places"]]} if "places" in payload else {})

    def _weigh_and_train(self, task: Task, payloads: Mapping[int, Payload]) -> Answers:
        """Do `fedrc.weigh_and_train` by `fedkin.flower.describes`, and log its training as the client app's."""
        for client, reply in self._query(task, payloads):
            if not isinstance(reply, str) and task.refusal(reply) is None:
                metrics = {self.options.train_loss_key: float(reply["loss"])}
                self.trained[client] = MetricRecord({**metrics, self.options.weighted_by_key: reply["samples"]})
            yield client, reply

    def _judge(self, task: Task, payloads: Mapping[int, Payload]) -> Answers:
        """Do `feddrift.judge` on the samples that the client app evaluates with."""
        key = self.options.eval_accuracy_key
        judged, weights = self._judged(payloads, key)
        for client, accuracies in judged.items():
            if isinstance(accuracies, str):
                yield client, accuracies
            elif not bool(((accuracies > -1e-6) & (accuracies < 1 + 1e-6)).all()):  # what float32 may add to 1
                yield client, self._refuse(client, f"'{key}' is outside of [0, 1]")
            else:
                yield client, {"errors": 1 - accuracies.clamp(0, 1), "samples": weights[client]}

    def _choose_and_train(self, task: Task, payloads: Mapping[int, Payload]) -> Answers:
        """Do `ifca.choose_and_train`: the losses of all models first, then training of the best."""
        judged, _ = self._judged(payloads, self.options.eval_loss_key)
        chosen = {i: client_method.lowest_loss(losses) for i, losses in judged.items() if not isinstance(losses, str)}
        starts = {(client, cluster): payloads[client]["models"][cluster] for client, cluster in chosen.items()}
        self.traffic.sent += sum(model.nbytes for model in starts.values())
        trained = {client: reply for (client, _), reply in list(self._trained(starts))}
        for client, losses in judged.items():
            yield (
                client,
                losses if isinstance(losses, str) else self._with_choice(trained[client], chosen[client], losses),
            )

    def _choose_and_step(self, task: Task, payloads: Mapping[int, Payload]) -> Answers:
        """Do `gradient_loss.choose_and_step`: losses and training of all models; an update stands for the gradient."""
        judged, _ = self._judged(payloads, self.options.eval_loss_key)
        usable = {client: payloads[client] for client, losses in judged.items() if not isinstance(losses, str)}
        self.traffic.sent += sum(payload["models"].nbytes for payload in usable.values())
        trained = dict(self._trained(_all_of(usable)))
        for client, losses in judged.items():
            steps = [] if isinstance(losses, str) else [trained[client, row] for row in range(len(losses))]
            failed = [step for step in (losses, *steps) if isinstance(step, str)]
            if failed or isinstance(losses, str):
                yield client, failed[0]
                continue
            payload = payloads[client]
            updates = torch.stack([step["update"] for step in steps if not isinstance(step, str)])
            size = Classifier.of(payload["module"]).parameters
            preference = gradient_loss.preference(losses, -updates[:, :size], payload["moves"][:, :size], payload)
            cluster = client_method.lowest_loss(-preference)
            rows = [cluster, payload["stand_in"]] if "stand_in" in payload else [cluster]
            yield client, self._with_choice(steps[cluster], cluster, losses) | {"update": updates[rows]}  # type: ignore[operator]

    def _with_choice(self, reply: Payload | str, cluster: int, losses: Tensor) -> Payload | str:
        """Add the cluster that a client chose by its `losses` ``(K,)`` to the reply of its training."""
        if isinstance(reply, str):
            return reply
        return reply | {"cluster": cluster, "loss": reply["loss"] if self.has_losses else float(losses[cluster])}

    _tasks: ClassVar[Mapping[str, Callable[[Any, Task, Mapping[int, Payload]], Answers]]] = {
        client_method.describe.name: _describe,
        client_method.train.name: _train,
        feddrift.train_on_kept.name: _train,
        client_method.losses.name: _losses,
        ifca.choose_and_train.name: _choose_and_train,
        gradient_loss.choose_and_step.name: _choose_and_step,
        cfl_gp.train_and_profile.name: _train_and_profile,
        fedrc.weigh_and_train.name: _weigh_and_train,
        feddrift.judge.name: _judge,
    }
    """How tasks are done that are no mere queries."""


def _one_each(models: Mapping[int, Tensor]) -> Models:
    return {(client, 0): model for client, model in models.items()}


def _all_of(payloads: Mapping[int, Payload]) -> Models:
    """Return the models of payloads, by client and row."""
    return {(client, row): model for client, payload in payloads.items() for row, model in enumerate(payload["models"])}
