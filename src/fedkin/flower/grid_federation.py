"""Mapping of each task of clustered federated learning to messages of a user's client app."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import torch
from flwr.app import Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from torch import Tensor

from fedkin.core import Federation, FedkinError, Payload, Task
from fedkin.core.errors import listing
from fedkin.core.payload import payload_bytes
from fedkin.core.replies import Failure
from fedkin.engines.flower_engine.transport import Key, content, poll, push, read
from fedkin.flower import query
from fedkin.flower.array_layout import ArrayLayout
from fedkin.flower.strategy_options import AppContract
from fedkin.methods.clients import cfl_gp, client_method, feddrift, fedrc, flux, gradient_loss, ifca, ladd, pacfl
from fedkin.methods.clients.embedding import class_sums, embedding
from fedkin.nn.modules import Classifier

# Exchange with nodes: a message to each, and its reply or the reason why there is none.


_LONGEST_REASON = 300
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_OF_APP = "Exception ClientAppException occurred. Message: "
"""What stands before the app's own message where Flower's simulation reports an error, see its `ClientAppException`."""

RAISED = ("error 0:", "error 2:")
"""How the reason of a reply begins if the client app failed, rather than the way to it."""


def exchange(grid: Grid, messages: Mapping[Key, Message], timeout: float) -> dict[Key, RecordDict | str]:
    """Send messages and wait for the replies; return by key the reply, or the reason why there is none.

    `timeout` is in seconds; those that have not replied by then count as missing.
    """
    answers: dict[Key, RecordDict | str] = dict.fromkeys(messages, "the message could not be sent")
    if messages:
        waiting = push(grid, messages)
        answers.update(dict.fromkeys(waiting.values(), f"no reply in {timeout:g} seconds"))
        for key, reply in poll(grid, waiting, timeout):
            answers[key] = _failure(reply) if reply.has_error() else reply.content
    return answers


def trained_model(reply: RecordDict, layout: ArrayLayout) -> Tensor | str:
    """Return the trained model ``(size,)`` of a reply, or why it is unusable."""
    records = list(reply.array_records.values())
    if len(records) != 1:
        return f"its training replied with {len(records)} ArrayRecords instead of one"
    model = layout.vector(records[0])
    return f"in its training's reply, {model}" if isinstance(model, str) else model


def weighted_metrics(reply: RecordDict, key: str) -> MetricRecord | str:
    """Return the metrics of a reply, with the weight named `key` among them, or why they are unusable."""
    records = list(reply.metric_records.values())
    if len(records) != 1:
        return f"its reply has {len(records)} MetricRecords instead of one"
    weight = records[0].get(key)
    if not isinstance(weight, int | float) or not 0 < weight < math.inf:
        what = f"is {weight}" if key in records[0] else "is absent"
        return f"'{key}' {what} in its metrics; it should be a number above 0"
    return records[0]


def _failure(reply: Message) -> str:
    """Return why a node could not do its task, in one line.

    Of an error in a simulation that is the app's own message, which comes after Ray's traceback.
    """
    given = _COLOURS.sub("", reply.error.reason or "")
    *_, own = given.rpartition(_OF_APP)
    reason = " ".join(own.removesuffix("'>").split() if own != given else given.split()) or "no reason given"
    return f"error {reply.error.code}: {reason[:_LONGEST_REASON]}"


# Assignment of a grid's nodes to clients, by the names that nodes report or by their ids.


Name = int | str
"""What a client is called in results: its partition or its name; without names, its node id."""
Ask = Callable[[Sequence[int]], Mapping[int, Name | FedkinError | None]]
"""Given node ids, the name of each; an error if it cannot give one, ``None`` if it is silent now."""

PATIENCE = 60.0
"""Seconds that a node that comes during a run has to say its name."""
_NEEDED = "names=True needs app.query('fedkin')(fedkin.flower.describes()) in the client app"
NOWHERE = 0
"""Node of a client that was here in an earlier process and has not come back."""


class NodeAssignment:
    """Numbering of nodes as clients, in the order in which they were first seen; those seen together in order of name.

    A client keeps its number while it is away. A node that reports a name gets the number of that name back under
    another node id; without names, a new id is a new client. `count` is the maximum number of clients, and `names`
    those of the run that is resumed. A node is known by its id if `ask` is ``None``. `nodes` has the node id of each
    client, or `NOWHERE`.
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
        there = set(connected)
        new = sorted(there.difference(self.nodes, self._ignored))
        named = self._named(new) if self.ask else {node: node for node in new}
        clients = {name: at for at, name in enumerate(self.names)}
        began, full = len(self.names), 0
        for node, name in sorted(named.items(), key=lambda one: (isinstance(one[1], str), one[1])):
            if name in clients:
                self._return(clients[name], node, there)
            elif len(self.names) < self.count:
                clients[name] = len(self.names)
                self.names.append(name)
                self.nodes.append(node)
            else:
                full += 1
                self._ignored.add(node)
        if full:
            log.warning("%d nodes are ignored: %d came after the first round, the maximum.", full, self.count - began)
        if began and len(self.names) > began:
            log.info("New nodes: %s", self.names[began:])
        return {at for at, node in enumerate(self.nodes) if node in there}

    def _return(self, client: int, node: int, there: set[int]) -> None:
        """Give a node the number that belongs to its name, unless another connected node has it."""
        if self.nodes[client] in there:
            log.warning(
                "Node %d is ignored: it says that it is %s, as node %d does.",
                node,
                self.names[client],
                self.nodes[client],
            )
            self._ignored.add(node)
            return
        if self.nodes[client] != NOWHERE:
            log.info("Node %s is back.", self.names[client])
        self.nodes[client] = node

    def _named(self, nodes: Sequence[int]) -> dict[int, Name]:
        """Ask new nodes for their names; nodes without one are ignored, silent ones are asked again next time."""
        answers = self.ask(nodes) if self.ask and nodes else {}
        failed = {node: name for node, name in answers.items() if isinstance(name, FedkinError)}
        found = {node: name for node, name in answers.items() if isinstance(name, int | str)}
        if failed and not found and all(node == NOWHERE for node in self.nodes):
            raise next(iter(failed.values()))
        for node, error in failed.items():
            log.warning("Node %d is ignored: %s", node, error)
        self._ignored |= failed.keys()
        return found


def names_of(grid: Grid, timeout: float, nodes: Sequence[int]) -> dict[int, Name | FedkinError | None]:
    """Ask nodes for their names; see `Ask`."""
    kind = f"{MessageType.QUERY}.{query.ACTION}"
    messages = {node: Message(content(task=query.NAME), node, kind, group_id="names") for node in nodes}
    found: dict[int, Name | FedkinError | None] = {}
    for node, reply in exchange(grid, messages, timeout).items():
        if isinstance(reply, str):
            raised = reply.startswith(RAISED)
            found[node] = FedkinError(f"{_NEEDED}; a node has not said its name ({reply}).") if raised else None
            continue
        try:
            found[node] = query.name_in(reply)
        except FedkinError as error:
            found[node] = FedkinError(f"A node has not said its name ({error}).")
    return found


# Federation of nodes that run a user's client app, reached by the messages of Flower's own strategies.


_LATECOMERS = 1000

_NO_QUERY = "it needs app.query('fedkin')(fedkin.flower.{})"

log = logging.getLogger("flwr")

Way = Callable[[Any, Task, Mapping[int, Payload]], Iterator[tuple[int, Payload | str]]]


class MessageFederation(Federation):
    """Federation of the nodes of a Flower grid, which do tasks by the messages that FedAvg would send.

    Clients are numbered as in `NodeAssignment`. Ids for later ones take no part until then, and a client not while it
    is not connected.

    `layout` is that of the client app's model. `seats` is the maximum number of clients, by default 1000 more than are
    connected; `known` are those of the run that is resumed, in order of id. The number of the `round` is sent to
    clients as ``server-round``. `trained` has metrics of the last training, by client, and `has_losses` says whether
    all of them reported a loss; a missing loss counts as 0 in what methods report.
    """

    attempts = 3
    has_latecomers = True

    def __init__(
        self,
        grid: Grid,
        layout: ArrayLayout,
        terms: AppContract,
        seed: int = 0,
        seats: int | None = None,
        known: Sequence[Name] = (),
    ) -> None:
        self.grid, self.layout, self.terms = grid, layout, terms
        self.round = 0
        self.trained: dict[int, MetricRecord] = {}
        self.has_losses = True
        self._useless: dict[int, str] = {}
        count = len(list(grid.get_node_ids())) + _LATECOMERS if seats is None else seats
        super().__init__(range(count), seed, on_drop=log.warning)
        self.seats = NodeAssignment(
            len(self.ids), partial(names_of, grid, terms.timeout) if terms.names else None, known
        )
        self.connect()
        if terms.names:  # of those that come later, one that is silent must not hold up the others
            self.seats.ask = partial(names_of, grid, min(terms.timeout, PATIENCE))

    @property
    def names(self) -> list[Name]:
        """Names in results of the clients seen so far."""
        return self.seats.names

    def connect(self) -> None:
        """Update which nodes are connected."""
        there = self.seats.update(self.grid.get_node_ids())
        self.leave(self.ids)
        self.join(there)

    def client_label(self, client: int) -> str:
        """Return the name of a node in messages: its own, or the id that Flower has given it."""
        return f"Node {self.names[client]}"

    def deliver(self, task: Task, payloads: Mapping[int, Payload]) -> Iterator[tuple[int, Payload | str]]:
        self._useless = {}
        if payloads:
            yield from self._ways[task.name](self, task, dict(sorted(payloads.items())))
        if len(self._useless) == len(payloads) > 1:
            reasons = "; ".join(dict.fromkeys(self._useless.values())).rstrip(".")
            sentence = f"No reply of the client app can be used: {reasons}."
            if task is client_method.losses and self.round > 0:  # Sattler's last exchange, which must not end the run
                log.warning(sentence)
            else:
                raise FedkinError(sentence)

    def evaluate(self, models: Mapping[int, Tensor]) -> dict[int, MetricRecord]:
        """Evaluate models ``(size,)`` at clients; return their metrics, without unusable replies."""
        found = {}
        for (client, _), reply in self._exchange(MessageType.EVALUATE, {(i, 0): m for i, m in models.items()}).items():
            metrics = reply if isinstance(reply, str) else self._metrics(client, reply)
            if isinstance(metrics, str):
                log.warning("%s is left out of the evaluation: %s", self.client_label(client), metrics)
            else:
                found[client] = metrics
        self.traffic.sent += sum(model.nbytes for model in models.values())
        self.traffic.received += sum(payload_bytes(dict(metrics)) for metrics in found.values())
        return found

    def _query(self, task: Task, payloads: Mapping[int, Payload]) -> Iterator[tuple[int, Payload | str]]:
        """Do a task that the client app supports by `fedkin.flower.describes`."""
        requests = {id(payload): query.request(task, payload, self.exchange) for payload in payloads.values()}
        kind = f"{MessageType.QUERY}.{query.ACTION}"
        messages = {i: self._message(i, kind, requests[id(payload)]) for i, payload in payloads.items()}
        for client, reply in exchange(self.grid, messages, self.terms.timeout).items():
            if isinstance(reply, str):
                raised = reply.startswith(RAISED)
                needed = _NO_QUERY.format(self.terms.query_needed)
                yield client, self._refuse(client, f"{needed} ({reply})") if raised else reply
                continue
            try:
                yield client, read(reply).tree()
            except (KeyError, RuntimeError, TypeError, ValueError) as error:  # text nested too deep is the second
                yield client, self._refuse(client, f"it is not a reply of fedkin.flower.describes ({error})")

    def _trained_reply(self, client: int, reply: RecordDict | str, start: Tensor) -> Payload | str:
        """Convert the reply to one of several trainings of a client to that of `client_method.train`."""
        return reply if isinstance(reply, str) else self._update(client, reply, self.layout.as_sent(start))

    def _judged(self, models: Mapping[int, Tensor], key: str = "") -> tuple[dict[int, Tensor | str], dict[int, float]]:
        """Evaluate each client's models ``(K, size)``: one metric ``(K,)`` by client, by default the loss, or why not.

        The second result is the number of samples that it was measured on, by client.
        """
        key, weights = key or self.terms.eval_loss_key, dict.fromkeys(models, 0.0)
        asked = {(client, row): model for client, stack in models.items() for row, model in enumerate(stack)}
        values = {client: torch.zeros(len(stack)) for client, stack in models.items()}
        failed: dict[int, str] = {}
        for (client, row), reply in self._exchange(MessageType.EVALUATE, asked).items():
            metrics = reply if isinstance(reply, str) else self._metrics(client, reply)
            if isinstance(metrics, str):
                failed[client] = metrics
                continue
            value, weight = metrics.get(key), metrics[self.terms.weighted_by_key]
            if isinstance(value, int | float) and isinstance(weight, int | float):
                values[client][row], weights[client] = value, float(weight)
            else:
                others = sorted(ascii(name)[:40] for name in metrics if name != self.terms.weighted_by_key)
                there = f", but {listing(others, 5)}, which the strategy's keys can name" if others else ""
                failed[client] = self._refuse(client, f"its evaluation has no number '{key}'{there}")
        return {client: failed.get(client, found) for client, found in values.items()}, weights

    def _trained(self, starts: Mapping[int, Tensor]) -> Iterator[tuple[int, Payload | str]]:
        """Train the models `starts` at clients, and yield replies as of `client_method.train`."""
        replies = self._exchange(MessageType.TRAIN, {(client, 0): model for client, model in starts.items()})
        sent: dict[int, Tensor] = {}  # as the client app had them, by the place of the model in memory
        for client, start in starts.items():
            reply = replies.pop((client, 0))
            key = start.data_ptr()
            if key not in sent:
                sent[key] = self.layout.as_sent(start)
            yield client, reply if isinstance(reply, str) else self._update(client, reply, sent[key])

    def _update(self, client: int, reply: RecordDict, start: Tensor) -> Payload | str:
        """Convert a client's training to a payload, or return why it is unusable."""
        metrics = self._metrics(client, reply)
        if isinstance(metrics, str):
            return metrics
        model = trained_model(reply, self.layout)
        if isinstance(model, str):
            return self._refuse(client, model)
        self.trained[client] = metrics
        loss = metrics.get(self.terms.train_loss_key)
        self.has_losses &= isinstance(loss, int | float)
        return {
            "update": model.sub_(start),
            "samples": metrics[self.terms.weighted_by_key],
            "loss": float(loss) if isinstance(loss, int | float) else 0.0,
        }

    def _metrics(self, client: int, reply: RecordDict) -> MetricRecord | str:
        """Return the metrics of a reply, which include a weight, or why they are unusable."""
        metrics = weighted_metrics(reply, self.terms.weighted_by_key)
        return self._refuse(client, metrics) if isinstance(metrics, str) else metrics

    def _refuse(self, client: int, reason: str) -> Failure:
        """Record that a reply of the client app is unusable."""
        self._useless[client] = reason
        return Failure("unusable", reason)

    def _exchange(self, kind: str, models: Mapping[tuple[int, int], Tensor]) -> dict[tuple[int, int], RecordDict | str]:
        """Send models, by client and number, to be trained or evaluated."""
        config = self.terms.config(kind == MessageType.TRAIN, self.round)
        contents: dict[int, RecordDict] = {}  # what several are sent is one object
        for model in models.values():
            if model.data_ptr() not in contents:
                record = self.layout.record(model)
                contents[model.data_ptr()] = RecordDict(
                    {self.terms.arrayrecord_key: record, self.terms.configrecord_key: config}
                )
        messages = {key: self._message(key[0], kind, contents[model.data_ptr()]) for key, model in models.items()}
        return exchange(self.grid, messages, self.terms.timeout)

    def _message(self, client: int, kind: str, content: RecordDict) -> Message:
        return Message(content, self.seats.nodes[client], kind, group_id=str(self.round))

    _ways: ClassVar[Mapping[str, Way]] = {}
    """How each task is done, by its name."""


_ROUNDED = 1e-6
_NO_LABELS = (
    "its samples have no labels, which this strategy needs; let the function given to describes() return (x, y)"
)


class GridFederation(MessageFederation):
    """Federation of the nodes of a Flower grid, which maps each task to few messages that any FedAvg app supports."""

    def _describe(self, task: Task, payloads: Mapping[int, Payload]) -> Iterator[tuple[int, Payload | str]]:
        """Do `client_method.describe`; answered at the server for methods that need to know nothing of the data."""
        if not self.terms.asks:
            yield from ((client, {"shape": [1], "classes": 2}) for client in payloads)
            return
        for client, reply in self._query(task, payloads):
            if not isinstance(reply, str) and not reply.get("classes"):
                if self.terms.labels_needed:
                    instead = f", or use {self.terms.without_labels}" if self.terms.without_labels else ""
                    yield client, self._refuse(client, _NO_LABELS + instead)
                    continue
                reply = reply | {"classes": 2}  # only to say that there are models to train
            yield client, reply

    def _train(self, task: Task, payloads: Mapping[int, Payload]) -> Iterator[tuple[int, Payload | str]]:
        """Do `client_method.train` with one message to each client."""
        return self._trained({client: payload["model"] for client, payload in payloads.items()})

    def _losses(self, task: Task, payloads: Mapping[int, Payload]) -> Iterator[tuple[int, Payload | str]]:
        """Do `client_method.losses` with as many messages to each client as there are models, all at once."""
        judged, _ = self._judged({client: payload["models"] for client, payload in payloads.items()})
        return ((i, found if isinstance(found, str) else {"losses": found}) for i, found in judged.items())

    def _train_and_profile(self, task: Task, payloads: Mapping[int, Payload]) -> Iterator[tuple[int, Payload | str]]:
        """Do `cfl_gp.train_and_profile`: train a client's model and, if it is another one, the common model."""
        asked = {(client, 0): payload["model"] for client, payload in payloads.items()}
        asked |= {(client, 1): payload["criterion"] for client, payload in payloads.items() if "criterion" in payload}
        replies = self._exchange(MessageType.TRAIN, asked)
        for client, payload in payloads.items():
            common = self._trained_reply(client, replies[client, 1], asked[client, 1]) if (client, 1) in asked else None
            own = self._trained_reply(client, replies[client, 0], payload["model"])
            if isinstance(own, str) or isinstance(common, str):
                yield client, own if isinstance(own, str) else common  # type: ignore[misc]
                continue
            update = (common or own)["update"]
            yield client, own | ({"profile": update[payload["places"]]} if "places" in payload else {})

    def _weigh_and_train(self, task: Task, payloads: Mapping[int, Payload]) -> Iterator[tuple[int, Payload | str]]:
        """Do `fedrc.weigh_and_train` by `fedkin.flower.describes`, and log its training as the client app's."""
        terms = self.terms
        for client, reply in self._query(task, payloads):
            if not isinstance(reply, str) and task.refusal(reply) is None:
                metrics = {terms.train_loss_key: float(reply["loss"]), terms.weighted_by_key: reply["samples"]}
                self.trained[client] = MetricRecord(metrics)
            yield client, reply

    def _judge(self, task: Task, payloads: Mapping[int, Payload]) -> Iterator[tuple[int, Payload | str]]:
        """Do `feddrift.judge` on the samples that the client app evaluates with."""
        models = {client: payload["models"] for client, payload in payloads.items()}
        judged, weights = self._judged(models, self.terms.eval_accuracy_key)
        for client, found in judged.items():
            if isinstance(found, str):
                yield client, found
            elif not bool(((found > -_ROUNDED) & (found < 1 + _ROUNDED)).all()):
                yield client, self._refuse(client, f"'{self.terms.eval_accuracy_key}' is outside of [0, 1]")
            else:
                yield client, {"errors": 1 - found.clamp(0, 1), "samples": weights[client]}

    def _choose_and_train(self, task: Task, payloads: Mapping[int, Payload]) -> Iterator[tuple[int, Payload | str]]:
        """Do `ifca.choose_and_train`: the losses of all models first, then training of the best."""
        models = {client: payload["models"] for client, payload in payloads.items()}
        judged, _ = self._judged(models)
        chosen = {i: client_method.lowest_loss(found) for i, found in judged.items() if not isinstance(found, str)}
        starts = {client: models[client][cluster] for client, cluster in chosen.items()}
        self.traffic.sent += sum(model.nbytes for model in starts.values())
        trained = dict(self._trained(starts))
        for client, found in judged.items():
            reply = found if isinstance(found, str) else trained[client]
            if not isinstance(reply, str):
                loss = reply["loss"] if self.has_losses else float(found[chosen[client]])
                reply = reply | {"cluster": chosen[client], "loss": loss}
            yield client, reply

    def _choose_and_step(self, task: Task, payloads: Mapping[int, Payload]) -> Iterator[tuple[int, Payload | str]]:
        """Do `gradient_loss.choose_and_step`: losses and training of all models; an update stands for the gradient."""
        models = {client: payload["models"] for client, payload in payloads.items()}
        judged, _ = self._judged(models)
        asked = {(client, row): model for client in judged for row, model in enumerate(models[client])}
        sound = {key: model for key, model in asked.items() if not isinstance(judged[key[0]], str)}
        replies = self._exchange(MessageType.TRAIN, sound)
        for client, losses in judged.items():
            if isinstance(losses, str):
                yield client, losses
                continue
            self.traffic.sent += models[client].nbytes
            steps = [self._trained_reply(client, replies[client, row], one) for row, one in enumerate(models[client])]
            failed = next((step for step in steps if isinstance(step, str)), None)
            yield client, failed or self._chosen(payloads[client], losses, steps)

    def _chosen(self, payload: Payload, losses: Tensor, steps: Sequence[Payload | str]) -> Payload:
        """Build the reply of a client that has trained every model: the one that the paper's rule prefers."""
        updates = torch.stack([step["update"] for step in steps if not isinstance(step, str)])
        size = Classifier.of(payload["module"]).parameters
        wanted = gradient_loss.preference(losses, -updates[:, :size], payload["moves"][:, :size], payload)
        cluster = client_method.lowest_loss(-wanted)
        taken = [cluster, payload["stand_in"]] if "stand_in" in payload else [cluster]
        first = steps[cluster]
        assert not isinstance(first, str)
        loss = first["loss"] if self.has_losses else float(losses[cluster])
        return {"cluster": cluster, "update": updates[taken], "samples": first["samples"], "loss": loss}

    _ways: ClassVar[Mapping[str, Way]] = {
        client_method.describe.name: _describe,
        client_method.train.name: _train,
        client_method.losses.name: _losses,
        ifca.choose_and_train.name: _choose_and_train,
        gradient_loss.choose_and_step.name: _choose_and_step,
        embedding.extent.name: MessageFederation._query,
        embedding.train_encoder.name: MessageFederation._query,
        embedding.embed.name: MessageFederation._query,
        class_sums.send_code_total.name: MessageFederation._query,
        class_sums.send_class_sums.name: MessageFederation._query,
        ladd.describe_style.name: MessageFederation._query,
        pacfl.describe_subspace.name: MessageFederation._query,
        cfl_gp.train_and_profile.name: _train_and_profile,
        fedrc.weigh_and_train.name: _weigh_and_train,
        flux.describe_distribution.name: MessageFederation._query,
        feddrift.judge.name: _judge,
        feddrift.train_on_kept.name: _train,
    }
