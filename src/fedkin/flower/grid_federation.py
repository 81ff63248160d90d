"""Mapping of each task of clustered federated learning to messages of a user's client app."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import torch
from flwr.app import MessageType, MetricRecord
from torch import Tensor

from fedkin.core import Payload, Task
from fedkin.flower.message_federation import MessageFederation, Way
from fedkin.methods.clients import cfl_gp, client_tasks, fedrc, flux, gradient_loss, ifca, ladd, pacfl
from fedkin.methods.clients.embedding import class_sums_tasks, embedding_tasks
from fedkin.methods.clients.feddrift import feddrift_tasks
from fedkin.nn.classifier import Classifier

_ROUNDED = 1e-6
_NO_LABELS = (
    "its samples have no labels, which this strategy needs; let the function given to describes() return (x, y)"
)


class GridFederation(MessageFederation):
    """Federation of the nodes of a Flower grid, which maps each task to few messages that any FedAvg app supports."""

    def _describe(self, task: Task, payloads: Mapping[int, Payload]) -> Iterator[tuple[int, Payload | str]]:
        """Do `client_tasks.describe`; answered at the server for methods that need to know nothing of the data."""
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
        """Do `client_tasks.train` with one message to each client."""
        return self._trained({client: payload["model"] for client, payload in payloads.items()})

    def _losses(self, task: Task, payloads: Mapping[int, Payload]) -> Iterator[tuple[int, Payload | str]]:
        """Do `client_tasks.losses` with as many messages to each client as there are models, all at once."""
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
        """Do `feddrift_tasks.judge` on the samples that the client app evaluates with."""
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
        cluster = client_tasks.lowest_loss(-wanted)
        taken = [cluster, payload["stand_in"]] if "stand_in" in payload else [cluster]
        first = steps[cluster]
        assert not isinstance(first, str)
        loss = first["loss"] if self.has_losses else float(losses[cluster])
        return {"cluster": cluster, "update": updates[taken], "samples": first["samples"], "loss": loss}

    _ways: ClassVar[Mapping[str, Way]] = {
        client_tasks.describe.name: _describe,
        client_tasks.train.name: _train,
        client_tasks.losses.name: _losses,
        ifca.choose_and_train.name: _choose_and_train,
        gradient_loss.choose_and_step.name: _choose_and_step,
        embedding_tasks.extent.name: MessageFederation._query,
        embedding_tasks.train_encoder.name: MessageFederation._query,
        embedding_tasks.embed.name: MessageFederation._query,
        class_sums_tasks.send_code_total.name: MessageFederation._query,
        class_sums_tasks.send_class_sums.name: MessageFederation._query,
        ladd.describe_style.name: MessageFederation._query,
        pacfl.describe_subspace.name: MessageFederation._query,
        cfl_gp.train_and_profile.name: _train_and_profile,
        fedrc.weigh_and_train.name: _weigh_and_train,
        flux.describe_distribution.name: MessageFederation._query,
        feddrift_tasks.judge.name: _judge,
        feddrift_tasks.train_on_kept.name: _train,
    }
