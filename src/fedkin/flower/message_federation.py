"""A federation of nodes that run a user's client app, reached by the messages of Flower's own strategies."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import ClassVar

import torch
from flwr.app import Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from torch import Tensor

from fedkin.core import Federation, FedkinError, Payload, Task
from fedkin.core.payload import payload_bytes
from fedkin.core.refusals import Unusable
from fedkin.engines.flower.wire import read
from fedkin.flower import query
from fedkin.flower.array_layout import ArrayLayout
from fedkin.flower.exchange import RAISED, exchange
from fedkin.flower.node_names import PATIENCE, names_of
from fedkin.flower.node_replies import trained_model, weighted_metrics
from fedkin.flower.seats import Name, Seats
from fedkin.flower.terms import Terms
from fedkin.methods.clients import cfl_gp, client_tasks, feddrift, fedrc, flux, gradient_loss, ifca, ladd, pacfl
from fedkin.methods.clients.embedding import embedding_tasks
from fedkin.nn.classifier import Classifier

_LATECOMERS = 1000
_ROUNDED = 1e-6

_NO_LABELS = (
    "its samples have no labels, which this strategy needs; let the function given to describes() return (x, y)"
)
_NO_QUERY = "it needs app.query('fedkin')(fedkin.flower.{})"

log = logging.getLogger("flwr")


class GridFederation(Federation):
    """Nodes of a Flower grid, which do tasks of clustered federated learning by the messages that FedAvg would send.

    Clients are numbered as `Seats` has them. Spare ids for later ones are `away` until then, and so is a client while
    it is not connected.

    Parameters
    ----------
    grid : Grid
    layout : ArrayLayout
        Layout of the client app's model.
    terms : Terms
    seed : int
    seats : int, optional
        How many clients there can be; by default 1000 more than are connected.
    known : sequence of Name
        Clients of the run that is resumed, in order of id.

    Attributes
    ----------
    round : int
        Sent to clients as ``server-round``.
    trained : dict of int to MetricRecord
        Metrics of the last training, by client.
    has_losses : bool
        Whether all of them reported a loss; a missing loss counts as 0 in what methods report.
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
        self.seats = Seats(len(self.ids), partial(names_of, grid, terms.timeout) if terms.names else None, known)
        self.on_left_out = log.warning
        self.connect()
        if terms.names:  # of those that come later, one that is silent must not hold up the others
            self.seats.ask = partial(names_of, grid, min(terms.timeout, PATIENCE))

    @property
    def names(self) -> list[Name]:
        """What each client seen so far is called in results."""
        return self.seats.names

    def connect(self) -> None:
        """Update which nodes are connected."""
        there = self.seats.update(self.grid.get_node_ids())
        self.away = set(self.ids).difference(there) | self.left_out.keys()

    def called(self, client: int) -> str:
        """A node by its name, or by the id that Flower has given it."""
        return f"Node {self.names[client]}"

    def deliver(self, task: Task, payloads: Mapping[int, Payload]) -> Iterator[tuple[int, Payload | str]]:
        self._useless = {}
        if payloads:
            yield from self._ways[task.name](self, task, dict(sorted(payloads.items())))
        if len(self._useless) == len(payloads) > 1:
            sentence = f"No reply of the client app can be used: {_reasons(self._useless)}."
            if task is client_tasks.losses and self.round > 0:  # Sattler's last exchange, which must not end the run
                log.warning(sentence)
            else:
                raise FedkinError(sentence)

    def evaluate(self, models: Mapping[int, Tensor]) -> dict[int, MetricRecord]:
        """Have clients evaluate models ``(size,)``: their metrics, without clients whose reply cannot be used."""
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

    def _describe(self, task: Task, payloads: Mapping[int, Payload]) -> Iterator[tuple[int, Payload | str]]:
        """`client_tasks.describe`; answered here for methods that need to know nothing of the data."""
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

    def _query(self, task: Task, payloads: Mapping[int, Payload]) -> Iterator[tuple[int, Payload | str]]:
        """A task that the client app does by `fedkin.flower.describes`."""
        requests = {id(payload): query.request(task, payload, self.exchange) for payload in payloads.values()}
        kind = f"{MessageType.QUERY}.{query.ACTION}"
        messages = {i: self._message(i, kind, requests[id(payload)]) for i, payload in payloads.items()}
        for client, reply in exchange(self.grid, messages, self.terms.timeout).items():
            if isinstance(reply, str):
                raised = reply.startswith(RAISED)
                needed = _NO_QUERY.format(self.terms.query_needed)
                yield client, self._refuse(client, f"{reply}; {needed}") if raised else reply
                continue
            try:
                yield client, read(reply).tree()
            except (KeyError, RuntimeError, TypeError, ValueError) as error:  # text nested too deep is the second
                yield client, self._refuse(client, f"it is no answer of fedkin.flower.describes ({error})")

    def _train(self, task: Task, payloads: Mapping[int, Payload]) -> Iterator[tuple[int, Payload | str]]:
        """`client_tasks.train`: one message to each."""
        return self._trained({client: payload["model"] for client, payload in payloads.items()})

    def _losses(self, task: Task, payloads: Mapping[int, Payload]) -> Iterator[tuple[int, Payload | str]]:
        """`client_tasks.losses`: as many messages to each as there are models, all at once."""
        judged, _ = self._judged({client: payload["models"] for client, payload in payloads.items()})
        return ((i, found if isinstance(found, str) else {"losses": found}) for i, found in judged.items())

    def _train_and_profile(self, task: Task, payloads: Mapping[int, Payload]) -> Iterator[tuple[int, Payload | str]]:
        """`cfl_gp.train_and_profile`: a training of the client's model and, where it is another, of the common one."""
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
        """`fedrc.weigh_and_train`, by `fedkin.flower.describes`; what it says of training is as of the client app's."""
        terms = self.terms
        for client, reply in self._query(task, payloads):
            if not isinstance(reply, str) and task.refusal(reply) is None:
                told = {terms.train_loss_key: float(reply["loss"]), terms.weighted_by_key: reply["samples"]}
                self.trained[client] = MetricRecord(told)
            yield client, reply

    def _judge(self, task: Task, payloads: Mapping[int, Payload]) -> Iterator[tuple[int, Payload | str]]:
        """`feddrift.judge`, on the samples that the client app evaluates with."""
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
        """`ifca.choose_and_train`: the losses of all models first, then training of the best."""
        models = {client: payload["models"] for client, payload in payloads.items()}
        judged, _ = self._judged(models)
        chosen = {i: client_tasks.lowest_loss(found) for i, found in judged.items() if not isinstance(found, str)}
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
        """`gradient_loss.choose_and_step`: the losses of all models, and training of all; an update is the descent."""
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
        """What a client that has taken a step on each model replies, by the preference of the paper."""
        updates = torch.stack([step["update"] for step in steps if not isinstance(step, str)])
        size = Classifier.of(payload["module"]).parameters
        wanted = gradient_loss.preference(losses, -updates[:, :size], payload["moves"][:, :size], payload)
        cluster = client_tasks.lowest_loss(-wanted)
        taken = [cluster, payload["stand_in"]] if "stand_in" in payload else [cluster]
        first = steps[cluster]
        assert not isinstance(first, str)
        loss = first["loss"] if self.has_losses else float(losses[cluster])
        return {"cluster": cluster, "update": updates[taken], "samples": first["samples"], "loss": loss}

    def _trained_reply(self, client: int, reply: RecordDict | str, start: Tensor) -> Payload | str:
        """A reply to one of several trainings of a client, as `client_tasks.train` would give it."""
        return reply if isinstance(reply, str) else self._update(client, reply, self.layout.as_sent(start))

    def _judged(self, models: Mapping[int, Tensor], key: str = "") -> tuple[dict[int, Tensor | str], dict[int, float]]:
        """A metric of each client's models ``(K, size)``, by default the loss: ``(K,)``, or why one is not known.

        And by client the number of samples that it was measured on.
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
                failed[client] = self._refuse(client, f"its evaluation has no number '{key}'")
        return {client: failed.get(client, found) for client, found in values.items()}, weights

    def _trained(self, starts: Mapping[int, Tensor]) -> Iterator[tuple[int, Payload | str]]:
        """Replies as `client_tasks.train` would give them, of clients that trained `starts`."""
        replies = self._exchange(MessageType.TRAIN, {(client, 0): model for client, model in starts.items()})
        sent: dict[int, Tensor] = {}  # as the client app had them, by the place of the model in memory
        for client, start in starts.items():
            reply = replies.pop((client, 0))
            key = start.data_ptr()
            if key not in sent:
                sent[key] = self.layout.as_sent(start)
            yield client, reply if isinstance(reply, str) else self._update(client, reply, sent[key])

    def _update(self, client: int, reply: RecordDict, start: Tensor) -> Payload | str:
        """A client's training as a payload, or why it cannot be used."""
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
        """The metrics of a reply, with a weight among them, or why they cannot be used."""
        metrics = weighted_metrics(reply, self.terms.weighted_by_key)
        return self._refuse(client, metrics) if isinstance(metrics, str) else metrics

    def _refuse(self, client: int, reason: str) -> Unusable:
        """Remember that a reply of the client app cannot be used."""
        self._useless[client] = reason
        return Unusable(reason)

    def _exchange(self, kind: str, models: Mapping[tuple[int, int], Tensor]) -> dict[tuple[int, int], RecordDict | str]:
        """Send models, by client and a number, to be trained or evaluated."""
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

    _ways: ClassVar[dict[str, Way]] = {
        client_tasks.describe.name: _describe,
        client_tasks.train.name: _train,
        client_tasks.losses.name: _losses,
        ifca.choose_and_train.name: _choose_and_train,
        gradient_loss.choose_and_step.name: _choose_and_step,
        embedding_tasks.extent.name: _query,
        embedding_tasks.train_encoder.name: _query,
        embedding_tasks.embed.name: _query,
        ladd.describe_style.name: _query,
        pacfl.describe_subspace.name: _query,
        cfl_gp.train_and_profile.name: _train_and_profile,
        fedrc.weigh_and_train.name: _weigh_and_train,
        flux.describe_distribution.name: _query,
        feddrift.judge.name: _judge,
        feddrift.train_on_kept.name: _train,
    }


Way = Callable[[GridFederation, Task, Mapping[int, Payload]], Iterator[tuple[int, Payload | str]]]


def _reasons(missing: Mapping[int, str]) -> str:
    """Each reason once."""
    return "; ".join(dict.fromkeys(missing.values())).rstrip(".")
