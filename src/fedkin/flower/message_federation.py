"""Federation of nodes that run a user's client app, reached by the messages of Flower's own strategies."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import torch
from flwr.app import Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from torch import Tensor

from fedkin.core import Federation, FedkinError, Payload, Task
from fedkin.core.errors import listing
from fedkin.core.payload import payload_bytes
from fedkin.core.refusals import Unusable
from fedkin.engines.flower_engine.wire import read
from fedkin.flower import query
from fedkin.flower.array_layout import ArrayLayout
from fedkin.flower.exchange import RAISED, exchange, trained_model, weighted_metrics
from fedkin.flower.node_assignment import PATIENCE, Name, NodeAssignment, names_of
from fedkin.flower.strategy_options import Terms
from fedkin.methods.clients import client_tasks

_LATECOMERS = 1000

_NO_QUERY = "it needs app.query('fedkin')(fedkin.flower.{})"

log = logging.getLogger("flwr")

Way = Callable[[Any, Task, Mapping[int, Payload]], Iterator[tuple[int, Payload | str]]]


class MessageFederation(Federation):
    """Federation of the nodes of a Flower grid, which do tasks by the messages that FedAvg would send.

    Clients are numbered as in `NodeAssignment`. Spare ids for later ones are `away` until then, and a client while
    it is not connected.

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
        terms: Terms,
        seed: int = 0,
        seats: int | None = None,
        known: Sequence[Name] = (),
    ) -> None:
        self.grid, self.layout, self.terms = grid, layout, terms
        self.round = 0
        self.trained: dict[int, MetricRecord] = {}
        self.has_losses = True
        self._useless: dict[int, str] = {}
        super().__init__(range(len(list(grid.get_node_ids())) + _LATECOMERS if seats is None else seats), seed)
        self.seats = NodeAssignment(
            len(self.ids), partial(names_of, grid, terms.timeout) if terms.names else None, known
        )
        self.on_left_out = log.warning
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
        self.away = set(self.ids).difference(there) | self.left_out.keys()

    def called(self, client: int) -> str:
        """Return the name of a node in messages: its own, or the id that Flower has given it."""
        return f"Node {self.names[client]}"

    def deliver(self, task: Task, payloads: Mapping[int, Payload]) -> Iterator[tuple[int, Payload | str]]:
        self._useless = {}
        if payloads:
            yield from self._ways[task.name](self, task, dict(sorted(payloads.items())))
        if len(self._useless) == len(payloads) > 1:
            reasons = "; ".join(dict.fromkeys(self._useless.values())).rstrip(".")
            sentence = f"No reply of the client app can be used: {reasons}."
            if task is client_tasks.losses and self.round > 0:  # Sattler's last exchange, which must not end the run
                log.warning(sentence)
            else:
                raise FedkinError(sentence)

    def evaluate(self, models: Mapping[int, Tensor]) -> dict[int, MetricRecord]:
        """Evaluate models ``(size,)`` at clients; return their metrics, without unusable replies."""
        found = {}
        for (client, _), reply in self._exchange(MessageType.EVALUATE, {(i, 0): m for i, m in models.items()}).items():
            metrics = reply if isinstance(reply, str) else self._metrics(client, reply)
            if isinstance(metrics, str):
                log.warning("%s is left out of the evaluation: %s", self.called(client), metrics)
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
        """Convert the reply to one of several trainings of a client to that of `client_tasks.train`."""
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
        """Train the models `starts` at clients, and yield replies as of `client_tasks.train`."""
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

    def _refuse(self, client: int, reason: str) -> Unusable:
        """Record that a reply of the client app is unusable."""
        self._useless[client] = reason
        return Unusable(reason)

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
